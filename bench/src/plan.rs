//! The plan: tasks, and the contenders of each.

use std::fmt::Write as _;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use xtask::error::{Failure, Result};

use crate::RunArgs;
use crate::contenders::{CONTENDERS, Contender};

/// The work of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// A message there, the same back.
    PingPong,
    /// Messages one way, in Gbit/s.
    Stream,
    /// The same, in messages per second: small ones.
    Rate,
    /// Requests and replies of the sizes of DSE, 16 under way.
    Mix,
    /// One message to several receivers.
    Broadcast,
    /// Several messages to several receivers, then an answer of each receiver.
    Data,
    /// Several messages of each to all others, then the next.
    AllToAll,
}

impl Workload {
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::PingPong | Self::Data | Self::AllToAll => "us",
            Self::Stream | Self::Broadcast => "Gbit/s",
            Self::Rate => "messages/s",
            Self::Mix => "requests/s",
        }
    }

    /// Whether the smaller figure is the better one.
    pub(crate) fn less_is_better(self) -> bool {
        matches!(self, Self::PingPong | Self::Data | Self::AllToAll)
    }
}

/// The network between the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Net {
    /// Two namespaces, veth, MTU 1500
    Veth,
    /// `veth` with segmentation offloads off, so that packets cross one by one
    VethPlain,
    /// `veth-plain` with 1 % of the packets dropped each way
    VethLoss,
    /// Loopback
    Loopback,
}

impl Net {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Veth => "veth",
            Self::VethPlain => "veth-plain",
            Self::VethLoss => "veth-loss",
            Self::Loopback => "loopback",
        }
    }
}

/// How a contender waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Wait {
    /// Asleep, after a short look: what Suci does unless it is told otherwise
    Adaptive,
    /// Asleep
    Block,
    /// Looking again and again
    Spin,
}

impl Wait {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Block => "block",
            Self::Spin => "spin",
        }
    }

    /// The word for it on the command line of `suci perf`.
    pub(crate) fn policy(self) -> &'static str {
        match self {
            Self::Block => "sleep",
            other => other.name(),
        }
    }
}

/// One task, which is one table of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) net: Net,
    pub(crate) workload: Workload,
    pub(crate) size: usize,
    pub(crate) receivers: usize,
    /// Messages to each receiver before it answers, or sends its own.
    pub(crate) data: usize,
}

impl Task {
    /// A name to select by.
    pub(crate) fn name(&self) -> String {
        let (size, net) = (self.size, self.net.name());
        match (self.workload, self.net) {
            (_, Net::VethLoss) => format!("loss-{size}"),
            (_, Net::VethPlain) => format!("no-loss-{size}"),
            (Workload::PingPong, _) => format!("rtt-{size}@{net}"),
            (Workload::Stream, _) => format!("stream-{size}@{net}"),
            (Workload::Rate, _) => format!("rate-{size}@{net}"),
            (Workload::Mix, _) => format!("mix@{net}"),
            (Workload::Broadcast, _) => format!("broadcast-{size}@{net}"),
            (Workload::Data, _) => format!("data-{}x{size}@{net}", self.data),
            (Workload::AllToAll, _) => format!("all-{}x{size}@{net}", self.data),
        }
    }

    /// Its name in reports.
    pub(crate) fn title(&self) -> String {
        let size = bytes(self.size);
        let what = match self.workload {
            Workload::PingPong => format!("round trip of {size}"),
            Workload::Stream => format!("one way, messages of {size}"),
            Workload::Rate => format!("message rate, {size}"),
            Workload::Mix => "request and reply, DSE's mix of sizes, 16 in flight".to_owned(),
            Workload::Broadcast => format!("broadcast of {size} to {}, sum", self.receivers),
            Workload::Data if self.data == 1 => {
                format!(
                    "{size} to {}, each answers, time per message",
                    self.receivers
                )
            }
            Workload::Data => {
                let (data, receivers) = (self.data, self.receivers);
                format!("{data} times {size} to {receivers}, then each answers, time per message")
            }
            Workload::AllToAll => {
                let (data, receivers) = (self.data, self.receivers);
                let processes = receivers + 1;
                format!(
                    "{data} times {size} of each of {processes} to the {receivers} others, time per message of each"
                )
            }
        };
        let net = match self.net {
            Net::Veth => "two namespaces, veth, MTU 1500",
            Net::VethPlain => "two namespaces, offloads off, no loss",
            Net::VethLoss => "two namespaces, offloads off, 1 % loss each way",
            Net::Loopback => "loopback",
        };
        format!("{what}; {net}")
    }

    /// The length of a turn. Random loss is a matter of luck within a second, and its results are
    /// compared with a turn of the same length.
    pub(crate) fn seconds(&self, asked: Option<f64>) -> f64 {
        let usual = match self.net {
            Net::VethPlain | Net::VethLoss => 5.0,
            Net::Veth | Net::Loopback => 0.3,
        };
        asked.unwrap_or(usual)
    }

    /// Whether it shows the cost of waiting: then contenders that can both sleep and spin do both,
    /// one after the other.
    fn waits(&self, wait: Wait) -> bool {
        let is_large = self.workload == Workload::Stream && self.size > SMALL;
        let is_lossless = matches!(self.net, Net::Veth | Net::Loopback);
        match wait {
            Wait::Adaptive => true,
            Wait::Block => self.workload == Workload::PingPong,
            Wait::Spin => is_lossless && (is_large || self.workload == Workload::PingPong),
        }
    }
}

/// A size as people say it.
pub(crate) fn bytes(size: usize) -> String {
    match size {
        size if size >= 1 << 20 && size.is_multiple_of(1 << 20) => format!("{} MiB", size >> 20),
        size if size >= 1 << 10 && size.is_multiple_of(1 << 10) => format!("{} KiB", size >> 10),
        size => format!("{size} B"),
    }
}

/// A contender, and how it waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entrant {
    pub(crate) contender: &'static Contender,
    pub(crate) wait: Wait,
}

/// Messages up to here are worth batching.
pub(crate) const SMALL: usize = 4096;

const WORKLOADS: &[(Workload, &[usize])] = &[
    (Workload::PingPong, &[64, 4_096, 65_536]),
    (Workload::Stream, &[1_472, 16_384, 65_536, 1 << 20]),
    (Workload::Rate, &[32, 128]),
    (Workload::Mix, &[0]),
    (Workload::Broadcast, &[65_536]),
    (Workload::Data, &[1_024]),
    (Workload::AllToAll, &[1_024]),
];

/// Between which ends, unless others are asked for.
const NETS: &[Net] = &[Net::Veth, Net::VethPlain, Net::VethLoss];

/// Receivers of a broadcast, of each sender.
const RECEIVERS: usize = 3;

/// Messages before the answers: after each, and, as many as the paper has, at the end.
const DATA: [usize; 2] = [1, 100];

/// Messages of the tasks with loss and of the one that they are compared with.
const LOSS_SIZE: usize = 65_536;

/// Refuses names that no contender has.
pub(crate) fn check(args: &RunArgs) -> Result<()> {
    let all = || CONTENDERS.iter().map(|contender| contender.name);
    let is_nobody = |begin: &&String| !all().any(|name| name.starts_with(begin.as_str()));
    match args.vs.iter().find(is_nobody) {
        None => Ok(()),
        Some(begin) => Err(Failure::new(format!(
            "--vs {begin}: nobody's name begins so; there is {}",
            all().collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// The tasks that were asked for.
pub(crate) fn tasks(args: &RunArgs) -> Vec<Task> {
    let nets = match args.net.as_slice() {
        [] => NETS,
        named => named,
    };
    let mut tasks = between(nets, &args.size);
    tasks.retain(|task| {
        let name = task.name();
        args.only.is_empty() || args.only.iter().any(|part| name.contains(part.as_str()))
    });
    tasks
}

/// All tasks that can be measured, in the order of measurement: first those that run by default,
/// then loopback.
pub(crate) fn known() -> Vec<Task> {
    between(Net::value_variants(), &[])
}

/// All tasks between such ends, of their own sizes unless others were asked for.
fn between(nets: &[Net], asked: &[usize]) -> Vec<Task> {
    let mut tasks = Vec::new();
    for &net in nets {
        if matches!(net, Net::VethPlain | Net::VethLoss) {
            tasks.extend(sized(net, Workload::Stream, &[LOSS_SIZE], asked));
        } else {
            for (workload, sizes) in WORKLOADS {
                tasks.extend(sized(net, *workload, sizes, asked));
            }
        }
    }
    tasks
}

fn sized(net: Net, workload: Workload, own: &[usize], asked: &[usize]) -> Vec<Task> {
    let sizes = match (workload, asked) {
        (Workload::Mix, _) | (_, []) => own,
        (_, asked) => asked,
    };
    let mut tasks = Vec::new();
    for &size in sizes {
        let task = Task {
            net,
            workload,
            size,
            receivers: match workload {
                Workload::Broadcast | Workload::Data | Workload::AllToAll => RECEIVERS,
                _ => 1,
            },
            data: 1,
        };
        let data = match workload {
            Workload::Data => &DATA[..],
            Workload::AllToAll => &DATA[1..],
            _ => &[1],
        };
        tasks.extend(data.iter().map(|data| Task {
            data: *data,
            ..task.clone()
        }));
    }
    tasks
}

/// Contenders that take part in `task`, of those that were asked for.
pub(crate) fn entrants(task: &Task, args: &RunArgs) -> Vec<Entrant> {
    let mut entrants = Vec::new();
    for contender in CONTENDERS {
        let is_named = args.vs.is_empty()
            || contender.name.starts_with("suci") && !contender.is_sealed()
            || args
                .vs
                .iter()
                .any(|name| contender.name.starts_with(name.as_str()));
        if !is_named || !contender.takes(task) {
            continue;
        }
        for &wait in contender.waits {
            // A contender that can wait in only one way does that, whatever the task is about.
            // Suci's default is one of three.
            let only = contender.waits.len() == 1
                || (wait == Wait::Block && !contender.waits.contains(&Wait::Adaptive));
            let is_apt = only || task.waits(wait);
            if is_apt && args.wait.is_none_or(|asked| asked == wait) {
                entrants.push(Entrant { contender, wait });
            }
        }
    }
    entrants
}

/// All tasks and contenders, for people.
pub(crate) fn listed() -> String {
    let mut text = String::from("tasks:\n");
    for net in Net::value_variants() {
        let (workloads, loss) = (WORKLOADS, [(Workload::Stream, &[LOSS_SIZE][..])]);
        let own = match net {
            Net::VethPlain | Net::VethLoss => &loss[..],
            Net::Veth | Net::Loopback => workloads,
        };
        for (workload, sizes) in own {
            for task in sized(*net, *workload, sizes, &[]) {
                let _ = writeln!(text, "  {:<24} {}", task.name(), task.title());
            }
        }
    }
    text.push_str("contenders:\n");
    for contender in CONTENDERS {
        let waits: Vec<_> = contender.waits.iter().map(|wait| wait.name()).collect();
        let _ = writeln!(
            text,
            "  {:<24} {:<12} {}",
            contender.name,
            waits.join(", "),
            contender.what
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Asked {
        #[command(flatten)]
        args: RunArgs,
    }

    fn asked(line: &str) -> RunArgs {
        Asked::parse_from(std::iter::once("bench").chain(line.split_whitespace())).args
    }

    #[test]
    fn tasks_are_selected_by_parts_of_their_names() {
        let names = |line| -> Vec<String> { tasks(&asked(line)).iter().map(Task::name).collect() };
        assert_eq!(
            names("--only rtt"),
            ["rtt-64@veth", "rtt-4096@veth", "rtt-65536@veth"]
        );
        assert_eq!(
            names("--only mix,loss"),
            ["mix@veth", "no-loss-65536", "loss-65536"]
        );
        assert_eq!(
            names("--only stream --size 1000,2000 --net loopback"),
            ["stream-1000@loopback", "stream-2000@loopback"]
        );
        assert!(names("").len() > 8);
    }

    #[test]
    fn loopback_is_known_but_only_measured_if_asked_for() {
        let (known, usual) = (known(), tasks(&asked("")));
        assert!(known.starts_with(&usual));
        let rest = &known[usual.len()..];
        assert_eq!(rest, tasks(&asked("--net loopback")));
    }

    #[test]
    fn loss_and_what_it_is_compared_with_last_as_long() {
        for task in tasks(&asked("")) {
            let lasts = if task.name().contains("loss") {
                5.0
            } else {
                0.3
            };
            assert_eq!(task.seconds(None), lasts, "{}", task.name());
            assert_eq!(task.seconds(Some(1.0)), 1.0);
        }
    }

    #[test]
    fn suci_takes_part_in_everything() {
        for task in tasks(&asked("--net veth,veth-plain,veth-loss,loopback")) {
            let entrants = entrants(&task, &asked("--vs tcp-cubic"));
            let names: Vec<_> = entrants.iter().map(|e| e.contender.name).collect();
            assert!(names.contains(&"suci"), "{}: {names:?}", task.name());
            assert!(names.contains(&"tcp-cubic"), "{}: {names:?}", task.name());
            assert!(!names.contains(&"udp"));
        }
    }

    #[test]
    fn where_one_collects_others_may_too() {
        for task in tasks(&asked("--net veth,loopback")) {
            let who = |name| {
                let entrants = entrants(&task, &asked(""));
                entrants.iter().any(|e| e.contender.name == name)
            };
            let batches = ["suci-batch", "tcp-cubic-batch", "quinn-batch"].map(who);
            let may = match task.workload {
                Workload::PingPong | Workload::Broadcast => false,
                Workload::Stream | Workload::Rate => task.size <= SMALL,
                // One message to each is no batch.
                Workload::Data | Workload::AllToAll => task.data > 1,
                Workload::Mix => true,
            };
            assert_eq!(batches, [may; 3], "{}", task.name());
        }
    }

    #[test]
    fn a_name_that_nobody_has_is_refused() {
        assert!(check(&asked("--vs tcp,zeromq")).is_ok());
        let why = check(&asked("--vs tcp,zeromk")).unwrap_err().to_string();
        assert!(
            why.starts_with("--vs zeromk: ") && why.contains("zeromq"),
            "{why}"
        );
    }

    #[test]
    fn values_that_cannot_be_measured_are_refused() {
        for bad in [
            "--seconds=-1",
            "--seconds nan",
            "--seconds 1e20",
            "--size 0",
            "--size 99999999",
        ] {
            let line = std::iter::once("bench").chain(bad.split(' '));
            assert!(Asked::try_parse_from(line).is_err(), "{bad}");
        }
        assert_eq!(asked("--seconds 0.05").seconds, Some(0.05));
    }

    #[test]
    fn sizes_are_said_as_people_say_them() {
        assert_eq!(
            [1472, 65_536, 1 << 20].map(bytes),
            ["1472 B", "64 KiB", "1 MiB"]
        );
    }
}
