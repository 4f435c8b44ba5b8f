//! `cargo xtask evaluate dse`: the evaluation of the DSE paper, by the programs of `examples/dse`.
//!
//! All processes are on this machine and talk over loopback. Contenders take turns in each round,
//! and medians count.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use suci_plot::{Axis, Better, Panel, Picture, Series, Unit};

use super::findings;
use crate::error::{Context, Result};
use crate::exec;
use crate::figures::median;
use crate::machine;
use crate::progress::Progress;

/// The carriers of messages, as the programs name them.
pub(crate) const TRANSPORTS: [&str; 6] = [
    "suci",
    "tcp-complete",
    "tcp-chain",
    "tcp-tree",
    "tcp-ring",
    "tcp-torus",
];

/// The transports that connect each process with each other one.
const DIRECT: [&str; 2] = ["suci", "tcp-complete"];

/// Processes of the applications.
const PROCESSES: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// Lengths of messages, in bytes.
const SIZES: [u32; 9] = [16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576];

/// Bytes of one sender's burst at most, and messages.
const BURST: (u32, u32) = (64 << 20, 50_000);

/// Bytes that one process of a ping-pong sends at most, and messages.
const PING_PONG: (u32, u32) = (64 << 20, 5_000);

/// Processes whose messages are counted.
const COUNTED: u32 = 4;

/// Lengths of messages: the paper's shares, in percent.
const CLASSES: [(&str, f64); 5] = [
    ("up to 16 B", 60.0),
    ("17 to 32 B", 20.0),
    ("33 to 128 B", 18.0),
    ("to 1 KiB", 0.3),
    ("above", 1.7),
];

/// The time of a run, as estimated before the first.
const TIME: Duration = Duration::from_millis(800);

/// Marks figures of more processes than processors.
const MARK: &str = " *";

/// How much is measured.
struct Effort {
    rounds: usize,
    processes: &'static [u32],
    sizes: &'static [u32],
    othello: &'static [&'static str],
    sor: &'static [&'static str],
    knights: &'static [&'static str],
}

/// The applications whose time is measured.
pub(crate) const OTHELLO: &[&str] = &["othello", "--depth", "8", "--moves", "16"];
pub(crate) const SOR: &[&str] = &["sor", "512", "--sweeps", "1000", "--tolerance", "0"];

const FULL: Effort = Effort {
    rounds: 5,
    processes: &PROCESSES,
    sizes: &SIZES,
    othello: OTHELLO,
    sor: SOR,
    knights: &["knights", "6", "7"],
};

/// Shows that everything works.
const QUICK: Effort = Effort {
    rounds: 1,
    processes: &[1, 2, 4],
    sizes: &[64, 4096],
    othello: &["othello", "--depth", "3", "--moves", "4"],
    sor: &["sor", "32", "--sweeps", "20", "--tolerance", "0"],
    knights: &["knights", "5", "6"],
};

/// One pattern or application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// With this many senders.
    Burst(u32),
    PingPong(u32),
    Othello,
    Sor,
}

const KINDS: [Kind; 6] = [
    Kind::Burst(1),
    Kind::Burst(2),
    Kind::PingPong(1),
    Kind::PingPong(2),
    Kind::Othello,
    Kind::Sor,
];

impl Kind {
    fn title(self) -> String {
        match self {
            Self::Burst(senders) => format!("Burst {senders}:1"),
            Self::PingPong(senders) => format!("Ping-pong {senders}:1"),
            Self::Othello => "Othello".to_owned(),
            Self::Sor => "SOR".to_owned(),
        }
    }

    /// The name of its plot.
    fn file(self) -> String {
        self.title().to_lowercase().replace([' ', ':'], "-") + ".svg"
    }

    fn about(self) -> &'static str {
        match self {
            Self::Burst(1) => "One process sends to another as fast as it can.",
            Self::Burst(_) => "Two processes send to a third as fast as they can.",
            Self::PingPong(1) => "A message goes to another process and comes back.",
            Self::PingPong(_) => {
                "Two processes exchange messages with a third, each one at a time."
            }
            Self::Othello => "The beginning of a game by distributed alpha-beta search.",
            Self::Sor => {
                "Sweeps over a square plate in strips, with a halo exchange each half sweep."
            }
        }
    }

    fn is_traffic(self) -> bool {
        matches!(self, Self::Burst(_) | Self::PingPong(_))
    }

    fn across(self) -> &'static str {
        if self.is_traffic() {
            "message, bytes"
        } else {
            "processes"
        }
    }

    fn up(self) -> &'static str {
        match self {
            Self::Burst(_) => "goodput, MB/s",
            Self::PingPong(_) => "round trip, us",
            Self::Othello | Self::Sor => "time, s",
        }
    }

    fn transports(self) -> &'static [&'static str] {
        match self.is_traffic() {
            true => &DIRECT,
            false => &TRANSPORTS,
        }
    }

    /// Processes of the run with this x.
    fn processes(self, x: u32) -> u32 {
        match self {
            Self::Burst(senders) | Self::PingPong(senders) => senders + 1,
            Self::Othello | Self::Sor => x,
        }
    }

    fn all_x(self, effort: &Effort) -> &'static [u32] {
        if self.is_traffic() {
            effort.sizes
        } else {
            effort.processes
        }
    }

    fn arguments(self, effort: &Effort, x: u32) -> Vec<String> {
        let load = |program: &str, (bytes, messages): (u32, u32)| {
            let count = (bytes / x).clamp(1, messages).to_string();
            let words = [program, "--size", &x.to_string(), "--count", &count];
            words.map(str::to_owned).to_vec()
        };
        let listed = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            Self::Burst(_) => load("burst", BURST),
            Self::PingPong(_) => load("pingpong", PING_PONG),
            Self::Othello => listed(effort.othello),
            Self::Sor => listed(effort.sor),
        }
    }

    /// The figure of a run.
    fn figure(self, report: &Value) -> Result<f64> {
        let number = |name: &str| {
            report[name]
                .as_f64()
                .context(format!("no {name}: {report}"))
        };
        let seconds = number("seconds")?;
        Ok(match self {
            Self::Burst(_) => number("bytes")? / seconds / 1e6,
            Self::PingPong(_) => seconds / number("count")? * 1e6,
            Self::Othello | Self::Sor => seconds,
        })
    }
}

/// One point of a curve.
struct Point {
    kind: Kind,
    x: u32,
    transport: &'static str,
    /// A figure of each round.
    figures: Vec<f64>,
    /// The most sockets of a process.
    sockets: u64,
}

/// The two programs of a run.
pub(crate) struct Programs {
    suci: PathBuf,
    dse: PathBuf,
}

impl Programs {
    /// Makes release builds of both.
    ///
    /// # Errors
    /// A build fails.
    pub(crate) fn build() -> Result<Self> {
        let build = ["build", "-q", "--locked", "--release"];
        let packages = ["-p", "suci-cli", "-p", "dse"];
        exec::run(&mut exec::cargo([&build[..], &packages].concat()))?;
        let release = exec::target_dir().join("release");
        Ok(Self {
            suci: release.join("suci"),
            dse: release.join("dse"),
        })
    }

    /// Runs a program. Returns what it reports.
    ///
    /// # Errors
    /// The program fails, or takes more than five minutes.
    pub(crate) fn run<S: AsRef<str>>(
        &self,
        processes: u32,
        transport: &str,
        args: &[S],
    ) -> Result<Value> {
        // `timeout` ends a program that hangs.
        let mut command = Command::new("timeout");
        command.arg("300").arg(&self.suci);
        command.args(["run", "-n", &processes.to_string(), "--"]);
        command.arg(&self.dse).args(args.iter().map(AsRef::as_ref));
        let said = exec::capture(command.args(["--transport", transport, "--json"]))?;
        serde_json::from_str(&said).context(said)
    }
}

/// The number of each class of messages, by program.
type Counts = Vec<(String, Vec<u64>)>;

/// Counts the messages of each application.
fn count_messages(programs: &Programs, effort: &Effort) -> Result<Counts> {
    let mut counts = Counts::new();
    let all = [
        effort.knights,
        effort.othello,
        &["matrix"],
        effort.sor,
        &["dct"],
    ];
    for arguments in all {
        let report = programs.run(COUNTED, "suci", arguments)?;
        let classes = report["messages_by_length"].as_array();
        let classes = classes.context(format!("no messages: {report}"))?;
        let classes = classes.iter().filter_map(Value::as_u64).collect();
        counts.push((arguments.join(" "), classes));
    }
    Ok(counts)
}

/// Measures everything and writes the results; with `quick` only a little, into the folder for
/// cargo's output.
///
/// # Errors
/// A program fails, or the results cannot be written.
pub(super) fn run(quick: bool) -> Result<()> {
    let effort = if quick { &QUICK } else { &FULL };
    let dir = match quick {
        true => exec::target_dir().join("evaluate-dse"),
        false => exec::root().join("examples/dse/results"),
    };
    std::fs::create_dir_all(&dir).context(dir.display())?;
    let programs = Programs::build()?;
    let mut points = points(effort);
    let mut progress = Progress::new(points.len() * effort.rounds, TIME);
    for _ in 0..effort.rounds {
        for point in &mut points {
            let Point {
                kind, x, transport, ..
            } = *point;
            progress.say(&format!("{}, {x}, {transport}", kind.title()));
            let arguments = kind.arguments(effort, x);
            let report = programs.run(kind.processes(x), transport, &arguments)?;
            point.figures.push(kind.figure(&report)?);
            point.sockets = report["sockets"].as_u64().context("no sockets")?;
            progress.passed();
        }
    }
    progress.clear();
    let counts = count_messages(&programs, effort)?;
    let page = page(&dir, effort, &points, &counts)?;
    let file = dir.join("README.md");
    std::fs::write(&file, page).context(file.display())?;
    println!("{}", file.display());
    Ok(())
}

fn points(effort: &Effort) -> Vec<Point> {
    let mut points = Vec::new();
    for kind in KINDS {
        for &x in kind.all_x(effort) {
            points.extend(kind.transports().iter().map(|transport| Point {
                kind,
                x,
                transport,
                figures: Vec::new(),
                sockets: 0,
            }));
        }
    }
    points
}

impl Point {
    fn median(&self) -> f64 {
        median(self.figures.clone()).unwrap_or(f64::NAN)
    }
}

/// Writes the plots. Returns the page.
fn page(dir: &Path, effort: &Effort, points: &[Point], counts: &Counts) -> Result<String> {
    let cores = cores();
    let mut page = format!(
        "# The evaluation of the DSE paper, measured anew

Written by `make evaluate-dse`. All processes are on one machine and talk over loopback, so compare
ratios. Medians of rounds in turns, of which there are {}. `*` marks runs of more busy processes
than processors: they show what waiting and switching cost, not a speed-up. Suci waits as it does by
default: it polls for up to 50 us before it sleeps. TCP sleeps at once; where it forwards, a process
has a thread for that.

",
        effort.rounds
    );
    for (name, text) in machine::facts() {
        let _ = writeln!(page, "* {name}: {text}");
    }
    for kind in KINDS {
        let of_kind: Vec<&Point> = points.iter().filter(|point| point.kind == kind).collect();
        let _ = writeln!(page, "\n## {}\n\n{}\n", kind.title(), kind.about());
        let found = findings::wrapped(&finding(kind, &of_kind, cores));
        let _ = writeln!(page, "**Found.** {found}\n");
        let _ = writeln!(
            page,
            "In {}:\n\n![{}]({})\n",
            kind.up(),
            kind.title(),
            kind.file()
        );
        page += &table(kind, &of_kind, cores, |point| shown(point.median()));
        if !kind.is_traffic() {
            page += "\nSockets of a process, the most that any has:\n\n";
            page += &table(kind, &of_kind, cores, |point| point.sockets.to_string());
        }
        let svg = picture(kind, &of_kind).svg().context(kind.file())?;
        std::fs::write(dir.join(kind.file()), svg).context(kind.file())?;
    }
    page += &mix(counts);
    Ok(page)
}

/// Returns how many processors there are.
pub(crate) fn cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores).unwrap_or(u32::MAX)
}

/// The times of an application are also shown as multiples of the complete graph's, since the
/// transports differ little.
fn picture(kind: Kind, points: &[&Point]) -> Picture {
    let (name, unit, scale, better) = match kind {
        Kind::Burst(_) => ("goodput", Unit::BytesPerSecond, 1e6, Better::Higher),
        Kind::PingPong(_) => ("round trip", Unit::Seconds, 1e-6, Better::Lower),
        Kind::Othello | Kind::Sor => ("time", Unit::Seconds, 1.0, Better::Lower),
    };
    let series = kind.transports().iter().map(|transport| {
        let own = points.iter().filter(|point| point.transport == *transport);
        let spread = |it: &&Point| suci_plot::Point::of_rounds(f64::from(it.x), &it.figures);
        Series {
            name: (*transport).to_owned(),
            points: own.filter_map(spread).map(|it| it.scaled(scale)).collect(),
        }
    });
    let panel = Panel {
        title: kind.title(),
        better,
        across: match kind.is_traffic() {
            true => Axis::logarithmic("message size", Unit::Bytes),
            false => Axis::linear("processes", Unit::Count),
        },
        up: match kind.is_traffic() {
            true => Axis::logarithmic(name, unit),
            false => Axis::linear(name, unit),
        },
        series: series.collect(),
    };
    if kind.is_traffic() {
        return Picture {
            panels: vec![panel],
        };
    }
    let relative = Panel {
        title: format!("{}, beside TCP's complete graph", kind.title()),
        ..panel.relative_to("tcp-complete")
    };
    Picture {
        panels: vec![panel, relative],
    }
}

/// Three digits or more.
fn shown(figure: f64) -> String {
    match figure {
        0.0..10.0 => format!("{figure:.3}"),
        10.0..100.0 => format!("{figure:.1}"),
        _ => format!("{figure:.0}"),
    }
}

/// A row for each x, a column for each transport.
fn table(kind: Kind, points: &[&Point], cores: u32, cell: fn(&Point) -> String) -> String {
    let mut rows: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for point in points {
        rows.entry(point.x).or_default().push(cell(point));
    }
    let columns = kind.transports();
    let mut text = format!("| {} | {} |\n|---|", kind.across(), columns.join(" | "));
    text += &"---|".repeat(columns.len());
    text.push('\n');
    for (x, cells) in rows {
        let mark = if kind.processes(x) > cores { MARK } else { "" };
        let _ = writeln!(text, "| {x}{mark} | {} |", cells.join(" | "));
    }
    text
}

/// A sentence made of the figures, so that it does not outlive them.
fn finding(kind: Kind, points: &[&Point], cores: u32) -> String {
    let at = |x: u32, transport: &str| {
        let mut of_x = points.iter().filter(|point| point.x == x);
        of_x.find(|point| point.transport == transport)
            .map_or(f64::NAN, |point| point.median())
    };
    let ratio = |x: u32, transport: &str| at(x, "suci") / at(x, transport);
    let all: Vec<u32> = points.iter().map(|point| point.x).collect();
    let least = all.iter().copied().min().unwrap_or_default();
    let most = all.iter().copied().max().unwrap_or_default();
    let complete = |x| ratio(x, "tcp-complete");
    if kind.is_traffic() {
        return format!(
            "Suci as a multiple of TCP: {:.2} at {least} B, {:.2} at {most} B.",
            complete(least),
            complete(most)
        );
    }
    // The most processes that all have a processor.
    let fitting = all.iter().copied().filter(|x| *x <= cores).max();
    let fitting = fitting.unwrap_or(least);
    format!(
        "In {fitting} processes Suci takes {:.2} of its time in {least}, and {:.2} of the time of \
         TCP's complete graph. In {most} processes it takes {:.2} of the complete graph's and \
         {:.2} of the chain's.",
        at(fitting, "suci") / at(least, "suci"),
        complete(fitting),
        complete(most),
        ratio(most, "tcp-chain")
    )
}

/// The share of each class of messages, beside the paper's.
fn mix(counts: &Counts) -> String {
    let mut text = format!(
        "
## Lengths of messages

Percent of the messages that {COUNTED} processes send, by length. The paper's system also moved
shared memory by messages.

| program | messages |"
    );
    for (name, _) in CLASSES {
        let _ = write!(text, " {name} |");
    }
    let _ = writeln!(text, "\n|---|---|{}", "---|".repeat(CLASSES.len()));
    let paper = CLASSES.map(|(_, share)| share.to_string());
    let _ = writeln!(text, "| the paper | | {} |", paper.join(" | "));
    let total = |class: usize| counts.iter().filter_map(|(_, one)| one.get(class)).sum();
    let together = (0..CLASSES.len()).map(total).collect();
    let together = ("all five".to_owned(), together);
    for (program, classes) in counts.iter().chain([&together]) {
        let all: u64 = classes.iter().sum();
        let share = |count: &u64| format!("{:.1}", *count as f64 * 100.0 / all.max(1) as f64);
        let shares: Vec<String> = classes.iter().map(share).collect();
        let _ = writeln!(text, "| {program} | {all} | {} |", shares.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Vec<Point> {
        let mut points = points(&QUICK);
        for point in &mut points {
            point.figures = vec![f64::from(point.x) * 2.0, 1e9, 0.5];
            point.sockets = 3;
        }
        points
    }

    #[test]
    fn the_page_has_all_figures_and_plots() {
        let dir = tempfile::tempdir().unwrap();
        let counts = vec![("matrix".to_owned(), vec![3, 0, 0, 0, 1])];
        let page = page(dir.path(), &QUICK, &measured(), &counts).unwrap();
        for text in [
            "## Burst 2:1",
            "(ping-pong-1-1.svg)",
            "| 64 | 128 | 128 |",
            "| all five | 4 | 75.0 | 0.0 | 0.0 | 0.0 | 25.0 |",
            "| the paper | | 60 | 20 | 18 | 0.3 | 1.7 |",
            "Suci as a multiple of TCP: 1.00 at 64 B, 1.00 at 4096 B.",
        ] {
            let found = page.replace(MARK, "");
            assert!(found.contains(text), "{text} is not in {found}");
        }
        let prose = page.lines().filter(|line| !line.starts_with('|'));
        assert!(prose.clone().all(|line| line.len() <= 100), "{page}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), KINDS.len());
    }

    #[test]
    fn runs_of_more_processes_than_processors_are_marked() {
        let points = measured();
        let of_kind: Vec<&Point> = points.iter().filter(|one| one.kind == Kind::Sor).collect();
        let table = table(Kind::Sor, &of_kind, 2, |point| point.sockets.to_string());
        assert!(table.contains("\n| 2 | 3 |"), "{table}");
        assert!(table.contains("\n| 4 * | 3 |"), "{table}");
    }

    #[test]
    fn figures_come_from_reports() {
        let report = serde_json::json!({ "seconds": 0.5, "bytes": 4_000_000, "count": 1000 });
        assert_eq!(Kind::Burst(1).figure(&report).unwrap(), 8.0);
        assert_eq!(Kind::PingPong(1).figure(&report).unwrap(), 500.0);
        assert!(Kind::Sor.figure(&serde_json::json!({})).is_err());
    }
}
