//! Everything that shapes a run, as plain data. [`crate::profiles`] draws it from a seed; scenario
//! tests write it down.

use crate::routes::Topology;
use crate::scheduler::Scheduler;
use crate::steering::Will;
use suci_proto::time::Duration;
use suci_proto::wire::Mode;
use suci_proto::{Config, Port, Ports, Priority};

/// The faults of the network. Chances are parts per million of packets.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Packets that vanish.
    pub loss: u32,
    /// Packets that arrive twice.
    pub duplicate: u32,
    /// Packets that are overtaken, held back by up to `reorder_by`.
    pub reorder: u32,
    /// Longest time that an overtaken packet is held back.
    pub reorder_by: Duration,
    /// Packets held back for as long as `hold_by` (seconds to minutes).
    pub hold: u32,
    /// Longest time that a held packet stays away.
    pub hold_by: Duration,
    /// Packets with bits flipped past the UDP checksum.
    pub flip: u32,
    /// Packets marked as having met congestion.
    pub mark: u32,
    /// How much worse one direction of a pair is than the other, in percent of the chances above: 0
    /// makes both alike, 100 spares one direction altogether.
    pub asymmetry: u32,
}

impl Faults {
    /// A network that loses nothing.
    pub const NONE: Self = Self {
        loss: 0,
        duplicate: 0,
        reorder: 0,
        reorder_by: Duration::ZERO,
        hold: 0,
        hold_by: Duration::ZERO,
        flip: 0,
        mark: 0,
        asymmetry: 0,
    };
}

/// The properties of the network.
#[derive(Clone, Debug)]
pub struct Links {
    /// The least time that a packet takes; pairs differ by up to a factor of two.
    pub latency: Duration,
    /// Additional time of packets to the first host: they take another route.
    pub detour: Duration,
    /// Additional random time, which keeps the order of a pair's packets.
    pub jitter: Duration,
    /// Bytes per second that one host can send, if there is a limit.
    pub rate: Option<u64>,
    /// Longest queue at that limit; packets that would wait longer are dropped.
    pub queue: Duration,
    /// Largest UDP payload that the first hop takes: the size that the system knows of a route.
    pub route_mtu: usize,
    /// Largest UDP payload that passes.
    pub mtu: usize,
    /// True if the sending socket reports it (EMSGSIZE); otherwise the packet vanishes.
    pub mtu_announced: bool,
    /// The treatment of packets that are marked as ECN-capable.
    pub marks: Marks,
    /// Addresses are IPv6.
    pub ipv6: bool,
}

/// The treatment by middle boxes of packets that are marked as ECN-capable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// Middle boxes let marked packets pass.
    #[default]
    Pass,
    /// Middle boxes drop marked packets.
    Dropped,
    /// Middle boxes erase the marks.
    Erased,
    /// Middle boxes mark all marked packets as having met congestion.
    Congested,
}

/// How a process is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drive {
    /// Woken by packets and timers after at most this long (threads, event loops).
    Woken(Duration),
    /// Polls at this interval, whatever happens.
    Polls(Duration),
}

/// How a program takes its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consume {
    /// Takes all messages in every cycle.
    Eager,
    /// At most `count` every `period`.
    Slow {
        /// Time between two visits.
        period: Duration,
        /// Messages per visit.
        count: u32,
    },
}

/// The messages that programs send: sizes by weight, in bytes `low..=high`.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Messages of each pair of nodes that talk.
    pub messages: u32,
    /// The most nodes that one node talks to.
    pub fan_out: usize,
    /// All talk to node 0 only.
    pub to_first: bool,
    /// Parts per million of hosts whose programs send to their own node, too.
    pub to_itself: u32,
    /// Channels per pair.
    pub channels: u32,
    /// Messages in a burst, at most.
    pub burst: u32,
    /// Longest pause between two bursts.
    pub gap: Duration,
    /// Weight, low, high.
    pub sizes: Vec<(u32, u64, u64)>,
    /// Parts per million of messages that ask for `Delivered`.
    pub notify: u32,
    /// Parts per million of received messages that are answered.
    pub reply: u32,
    /// Parts per million of `Incoming` messages that are refused.
    pub refuse: u32,
    /// Parts per million of messages that have a deadline, and of those after which another is
    /// cancelled.
    pub withdraw: u32,
    /// Both sides begin at once with their largest message.
    pub huge_first: bool,
}

/// A fault of processes or of the network as a whole, at its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A process dies without a word; its successor starts after the time given, if any.
    Crash(usize, Option<Duration>),
    /// A process is stopped for that long; its socket continues to fill.
    Pause(usize, Duration),
    /// A program takes no messages for that long.
    StopConsuming(usize, Duration),
    /// A process closes with this deadline; its successor starts some time after.
    Close(usize, Duration, Duration),
    /// A process closes its session with another host's node.
    ClosePeer(usize, usize, Duration),
    /// A process gives its session with another host's node up.
    Reset(usize, usize),
    /// A process suspends its session with another host's node, or resumes it.
    Suspend(usize, usize, bool),
    /// The hosts named are cut off in the directions given (outwards, inwards) for that long.
    Cut(Vec<usize>, bool, bool, Duration),
    /// A host's address changes as others see it; the old one still leads there, or not.
    Rebind(usize, bool),
    /// The network's largest packet changes.
    Mtu(usize, bool),
    /// The treatment of marked packets changes.
    Marks(Marks),
    /// The attacker sends this many packets.
    Attack(u32),
    /// The attacker sends a host this many HELLOs, each in the name of another node or of one that
    /// the host knows.
    Flood(usize, u32),
    /// A liar that knows the tags of a host's connections lies to it once.
    Insider(usize),
    /// A program wants its traffic to another host's node to flow in that mode.
    Prefer(usize, usize, Mode),
    /// A program ranks another host's node among all, or one of the channels with it.
    Rank(usize, usize, Option<u32>, Priority),
    /// A program finishes one of the channels with another host's node.
    Finish(usize, usize, u32),
    /// A program decides about its traffic to another host's node.
    Decide(usize, usize, Will),
    /// The keys of a host become those with these numbers, the newest first: of the cluster, or its
    /// own and those that it knows of others.
    Keys(usize, Vec<u64>),
    /// A host may have been restored from a snapshot: another one may have its keys, too.
    Restored(usize),
}

impl Step {
    /// Returns true if the step is harmless: no peer may be lost because of it.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        matches!(
            self,
            Self::StopConsuming(..)
                | Self::Suspend(..)
                | Self::Prefer(..)
                | Self::Rank(..)
                | Self::Finish(..)
                | Self::Decide(..)
        )
    }
}

impl Step {
    /// Returns true if it is only a program's wish for its traffic: it holds nothing up.
    #[must_use]
    pub fn is_wish(&self) -> bool {
        matches!(self, Self::Prefer(..) | Self::Rank(..))
    }
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Everything random follows from it.
    pub seed: u64,
    /// The name of the run in reports.
    pub profile: &'static str,
    /// Hosts with a process each; node IDs are the hosts' numbers plus 1.
    pub nodes: usize,
    /// Further hosts whose process has the node ID of host 0, 1, ...: duplicates.
    pub duplicates: Vec<DuplicateAt>,
    /// Configuration by host, cycled.
    pub configs: Vec<Config>,
    /// Receive buffer of every socket, as the kernel charges.
    pub recv_buffer: u64,
    /// How processes are driven, by host, cycled.
    pub drives: Vec<Drive>,
    /// How busy hosts are, by host, cycled; none if processes run whenever they want.
    pub schedulers: Vec<Option<Scheduler>>,
    /// How programs consume, by host, cycled.
    pub consumes: Vec<Consume>,
    /// The nodes of the last `clients` hosts know all others, and no book has them
    /// (`AcceptPolicy::Anyone`).
    pub clients: usize,
    /// The others have only the first host in their books, which has all of them: a thousand books
    /// of a thousand nodes take longer to fill than the test with them lasts.
    pub star: bool,
    /// Nodes have only those in their books to which their programs send, and serve any node: a
    /// thousand books of a thousand nodes take longer to fill than the test with them lasts.
    pub sparse: bool,
    /// Hosts whose process starts again and again.
    pub churn: Option<Churn>,
    /// If some, how long a message may take without losses although peers share slots.
    pub question_within: Option<Duration>,
    /// The one-sided operations of each process, if the run has some.
    pub remote: Option<RemotePlan>,
    /// Packets are sealed.
    pub sealed: bool,
    /// They are sealed under keys of nodes, not of the cluster.
    pub node_keys: bool,
    /// If greater than 0, each process is a member of one cluster, and its book has only the first
    /// hosts, as many as this.
    pub seeds: usize,
    /// The groups of the first processes, if the run has some.
    pub groups: Option<GroupPlan>,
    /// The sockets of each process, if the run has some.
    pub sockets: Option<SocketPlan>,
    /// The receives and messages of each process, if the run has some.
    pub matching: Option<MatchingPlan>,
    /// Which hosts exchange packets; all with all, if there is none.
    pub topology: Option<Topology>,
    /// The messages that programs send.
    pub traffic: Traffic,
    /// The network.
    pub links: Links,
    /// The network's faults until it is mended.
    pub faults: Faults,
    /// Parts per million of trains that the socket takes only later (EAGAIN, ENOBUFS).
    pub socket_full: u32,
    /// Parts per million of trains refused for being segmented (EIO).
    pub no_gso: u32,
    /// Parts per million of routes whose packet size cannot be found out.
    pub route_unknown: u32,
    /// A closed port answers, and the next send fails with ECONNREFUSED.
    pub port_unreachable: bool,
    /// All hosts are one machine: its kernel reports each packet to a port that is closed, and all
    /// processes know that it was this kernel.
    pub one_machine: bool,
    /// Now and then a program that has a message to answer computes before it calls again.
    pub computes: bool,
    /// Hosts take the processor away from a process that reads its socket, for up to a millisecond
    /// between two trains.
    pub interrupts: bool,
    /// Time over which the starts of the processes are spread; zero for all at once.
    pub start_within: Duration,
    /// The steps, each with its time.
    pub script: Vec<(Duration, Step)>,
    /// How long faults go on.
    pub faults_for: Duration,
    /// How long everything may take to arrive after the faults, beside a round trip for each
    /// packet.
    pub mended_for: Duration,
}

/// The one-sided operations of a process. Chances are parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemotePlan {
    /// Operations that it begins.
    pub operations: u32,
    /// Operations in a burst, at most.
    pub burst: u32,
    /// Longest pause between two bursts.
    pub gap: Duration,
    /// Bursts before which the process withdraws its region. It opens another with the next one.
    pub withdraw: u32,
    /// Operations with the handle of a region that may be withdrawn, and those with a wrong key.
    pub mistakes: u32,
}

/// The groups of a run. All members draw the same calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPlan {
    /// The number of groups; a process may belong to several.
    pub groups: u32,
    /// Calls until the members agree.
    pub calls: u32,
    /// Agreements until they are done.
    pub eras: u32,
    /// Longest pause between two calls.
    pub gap: Duration,
    /// Parts per million of operations that a member gives up after a while.
    pub gives_up: u32,
}

/// The sockets of a process. Chances are parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketPlan {
    /// Connections that it opens.
    pub connections: u32,
    /// Connections opened at once, at most.
    pub burst: u32,
    /// Longest pause of a program between two steps.
    pub gap: Duration,
    /// Connections that may wait to be accepted, at most.
    pub backlog: usize,
    /// Messages that one end of a connection sends, at most.
    pub messages: u32,
    /// Connections of which an end reads slowly.
    pub slow: u32,
    /// Listeners that are closed and opened again.
    pub closes_listener: u32,
    /// The process of the first node asks for connections, and never confirms or answers one.
    pub silent: bool,
}

/// The receives and messages of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchingPlan {
    /// Messages that it sends.
    pub messages: u32,
    /// Steps at once, at most.
    pub burst: u32,
    /// Longest pause between two bursts.
    pub gap: Duration,
    /// Bytes of messages that it keeps, beside one of each node.
    pub memory: u64,
}

/// Hosts whose process starts again and again, under the same node ID, while those of the others
/// stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Churn {
    /// The number of hosts, counted from the last.
    pub hosts: usize,
    /// Number of processes of each host; the last one keeps running.
    pub starts: u32,
    /// Longest time from a start to the close or the kill.
    pub life: Duration,
    /// Longest time from the end of a process to the start of the next.
    pub pause: Duration,
    /// Parts per million of processes that are killed; the others close in order.
    pub killed: u32,
    /// Parts per million of starts at another address than the one before.
    pub moved: u32,
}

/// A second process with the node ID of another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateAt {
    /// The host whose node ID it has.
    pub of: usize,
    /// Time at which it starts. It dies when the network is mended.
    pub start: Duration,
}

impl Options {
    /// Returns a calm network of that many nodes whose programs say nothing by themselves: where
    /// scenario tests begin.
    #[must_use]
    pub fn quiet(nodes: usize) -> Self {
        Self {
            seed: 1,
            profile: "quiet",
            nodes,
            duplicates: Vec::new(),
            configs: vec![Config::default()],
            recv_buffer: 8 << 20,
            drives: vec![Drive::Woken(Duration::from_micros(20))],
            schedulers: Vec::new(),
            consumes: vec![Consume::Eager],
            clients: 0,
            star: false,
            sparse: false,
            churn: None,
            question_within: None,
            remote: None,
            sealed: false,
            node_keys: false,
            seeds: 0,
            groups: None,
            sockets: None,
            matching: None,
            topology: None,
            traffic: Traffic::none(),
            links: Links {
                latency: Duration::from_micros(50),
                detour: Duration::ZERO,
                jitter: Duration::from_micros(5),
                rate: None,
                queue: Duration::from_millis(50),
                route_mtu: 1_472,
                mtu: 1_472,
                mtu_announced: true,
                marks: Marks::Pass,
                ipv6: false,
            },
            faults: Faults::NONE,
            socket_full: 0,
            no_gso: 0,
            route_unknown: 0,
            port_unreachable: false,
            one_machine: false,
            computes: true,
            interrupts: false,
            start_within: Duration::ZERO,
            script: Vec::new(),
            faults_for: Duration::from_secs(5),
            mended_for: Duration::from_secs(120),
        }
    }

    /// Returns true if layers send messages beside those of programs.
    #[must_use]
    pub fn has_layers(&self) -> bool {
        let layers = self.remote.is_some() || self.groups.is_some() || self.sockets.is_some();
        layers || self.matching.is_some() || self.topology.is_some() || self.seeds > 0
    }

    /// Returns the ports of layers that take messages, those of one-sided operations if `remote`.
    #[must_use]
    pub fn ports(&self, remote: bool) -> Ports {
        let open = [
            (Port::Remote, remote),
            (Port::Membership, self.seeds > 0),
            (Port::Sockets, self.sockets.is_some()),
            (Port::Matching, self.matching.is_some()),
            (Port::Forwarded, self.topology.is_some()),
        ];
        let open = open.into_iter().filter(|(_, is_open)| *is_open);
        open.fold(Ports::default(), |ports, (port, _)| ports.with(port))
    }

    /// Returns all hosts, duplicates included.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.nodes + self.duplicates.len()
    }

    /// Returns the churn of a host, if its process starts again and again.
    #[must_use]
    pub fn churn_at(&self, host: usize) -> Option<Churn> {
        let first = |churn: &Churn| self.nodes.saturating_sub(churn.hosts);
        let churns = |churn: &Churn| (first(churn)..self.nodes).contains(&host);
        self.churn.filter(churns)
    }

    /// Returns true if the network delivers every packet, so that messages arrive unless a process
    /// dies.
    #[must_use]
    pub fn loses_nothing(&self) -> bool {
        let Faults {
            loss,
            hold,
            flip,
            reorder,
            duplicate,
            ..
        } = self.faults;
        loss + hold + flip + reorder + duplicate == 0
            && self.script.is_empty()
            && self.links.rate.is_none()
            && self.links.marks != Marks::Dropped
            && !self.port_unreachable
    }

    /// Returns true if the first message of a process on `host` must arrive: the network delivers
    /// every packet, and the process tries for longer than others may take one that had its node ID
    /// for alive. A process that gives up sooner is told.
    #[must_use]
    pub fn must_arrive(&self, host: usize) -> bool {
        let silences = self.configs.iter().map(|config| config.silence_timeout);
        let own = self.configs.get(host % self.configs.len().max(1));
        let outlasts = own.is_some_and(|own| silences.max() < Some(own.give_up_after));
        outlasts && self.loses_nothing()
    }

    /// Returns the time within which a first message arrives, or its sender is told that it may not
    /// have. An address of a dead process is asked for `silence_timeout` first.
    #[must_use]
    pub fn first_within(&self) -> Duration {
        const ALLOWANCE: Duration = Duration::from_secs(10);
        let longest = |of: fn(&Config) -> Duration| {
            let all = self.configs.iter().map(of);
            all.max().unwrap_or_default()
        };
        let silence = longest(|config| config.silence_timeout);
        let given_up = longest(|config| config.give_up_after);
        match self.loses_nothing() {
            true => silence + ALLOWANCE,
            false => given_up + 4 * ALLOWANCE,
        }
    }

    /// Returns true if the process on a host may never take a peer for lost: all processes run all
    /// the time, every path carries most packets of the sizes that its ends take it for, and within
    /// the silence timeout there is time for enough probes that one of them and its answer arrive
    /// (chance of the contrary: below 10^-6).
    #[must_use]
    pub fn is_steady(&self, host: usize) -> bool {
        const MOST_LOST: u32 = 60_000;
        const ANSWERS: u32 = 50;
        const AMPLE: u64 = 8 << 20;
        let Links {
            rate,
            mtu,
            route_mtu,
            mtu_announced,
            marks,
            ..
        } = self.links;
        let calm = |(_, step): &(Duration, Step)| step.is_calm();
        let drops = self.faults.loss + self.faults.flip > 0 || self.port_unreachable;
        let gentle = self.duplicates.is_empty()
            && self.topology.is_none()
            && self.script.iter().all(calm)
            && self.churn.is_none()
            && self.faults.loss + self.faults.flip + self.faults.hold <= MOST_LOST
            // If few packets may go beyond the limit, all of them may be lost, and the next goes
            // after 10 s.
            && (!drops || self.recv_buffer >= AMPLE)
            && rate.is_none()
            && marks != Marks::Dropped
            && (mtu_announced || route_mtu <= mtu);
        let late = if self.faults.reorder > 0 {
            self.faults.reorder_by
        } else {
            Duration::ZERO
        };
        let answer = self.round_trip() + late * 2;
        // A node that starts later hears the next HELLO, which comes within a second.
        let begin = match self.start_within {
            Duration::ZERO => Duration::ZERO,
            within => within + Duration::from_secs(1),
        };
        let silence = self.configs.get(host % self.configs.len().max(1));
        let least = (answer * ANSWERS).max(begin);
        gentle && silence.is_some_and(|config| config.silence_timeout >= least)
    }

    /// Returns true if a process may only be taken for lost once it died or closed.
    #[must_use]
    pub fn loses_only_the_dead(&self) -> bool {
        let mut calm = self.clone();
        let ends = |step: &Step| matches!(step, Step::Crash(..) | Step::Close(..));
        calm.script.retain(|(_, step)| !ends(step));
        let suspends = |(_, step): &(Duration, Step)| matches!(step, Step::Suspend(..));
        let steady = (0..self.nodes).all(|host| calm.is_steady(host));
        steady && !self.script.iter().any(suspends)
    }

    /// Returns true if some path's round trip is so long that a receiver may grant beyond its
    /// buffer: 5 ms, even without delayed packets.
    #[must_use]
    pub fn has_long_paths(&self) -> bool {
        const LONG: Duration = Duration::from_millis(5);
        let Links {
            latency,
            jitter,
            rate,
            queue,
            ..
        } = self.links;
        let queued = rate.map_or(Duration::ZERO, |_| queue);
        // Pairs differ by up to a factor of two: three halves of it at most, each way.
        (latency * 3 / 2 + jitter + queued) * 2 >= LONG
    }

    /// Returns the longest time from a packet to its acknowledgement while the network injects no
    /// faults.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        let polls = self.drives.iter().map(|drive| match drive {
            Drive::Polls(period) | Drive::Woken(period) => *period,
        });
        let busy = self.schedulers.iter().flatten();
        let waits = busy.map(Scheduler::longest_wait);
        let slowest = polls.max().unwrap_or_default() + waits.max().unwrap_or_default();
        let delays = self.configs.iter().map(|config| config.max_ack_delay);
        let Links {
            latency,
            detour,
            jitter,
            ..
        } = self.links;
        (latency * 3 / 2 + jitter + slowest) * 2 + detour + delays.max().unwrap_or_default()
    }

    /// Returns the longest probe timeout of this run, with a lost or late packet, if first contacts
    /// can be judged by it. They cannot if a queue of other traffic holds them up, or if a process
    /// on another host has the same node ID. Nor can they if a receiver has few peer slots for each
    /// node: newcomers then wait for room, and first grants carry control packets only. When three
    /// of those are lost, the next one goes after 10 s.
    #[must_use]
    pub fn contact_probe(&self) -> Option<Duration> {
        /// The first packets of this many nodes find room at once, if each has this many peer slots
        /// of 6,656 B.
        const FEW: usize = 16;
        const SLOTS: u64 = 8;
        // Operations take up paths and buffers, too, and members say at the end that they leave.
        let judged = self.links.rate.is_none()
            && self.remote.is_none()
            && self.groups.is_none()
            && self.sockets.is_none()
            && self.matching.is_none()
            && self.topology.is_none()
            && self.seeds == 0
            && !self.port_unreachable
            && self.schedulers.iter().flatten().all(|it| it.stops == 0)
            && self.duplicates.is_empty()
            && self.nodes <= FEW
            && self.recv_buffer >= self.nodes as u64 * SLOTS * 6_656;
        judged.then(|| self.probe_timeout())
    }

    /// Returns the longest probe timeout of this run, with a lost or late packet, or the wait for
    /// an answer to the first HELLO or INIT if that is longer.
    #[must_use]
    pub fn probe_timeout(&self) -> Duration {
        const FIRST_WAIT: Duration = Duration::from_millis(100);
        let delays = self.configs.iter().map(|config| config.max_ack_delay);
        let delay = delays.max().unwrap_or_default();
        let late = match self.faults.reorder {
            0 => Duration::ZERO,
            _ => self.faults.reorder_by,
        };
        let probe = (self.round_trip() - delay) * 3 + delay + late;
        probe.max(FIRST_WAIT)
    }

    /// Returns the node ID of a host.
    #[must_use]
    pub fn node(&self, host: usize) -> u32 {
        let owner = host
            .checked_sub(self.nodes)
            .and_then(|extra| self.duplicates.get(extra));
        u32::try_from(owner.map_or(host, |duplicate| duplicate.of)).unwrap_or(u32::MAX - 1) + 1
    }
}

impl Traffic {
    /// Programs that send nothing unless a test makes them.
    #[must_use]
    pub fn none() -> Self {
        Self {
            messages: 0,
            fan_out: 0,
            to_first: false,
            to_itself: 0,
            channels: 1,
            burst: 1,
            gap: Duration::from_millis(1),
            sizes: vec![(1, 0, 200)],
            notify: 500_000,
            reply: 0,
            refuse: 0,
            withdraw: 0,
            huge_first: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that gives up while others take its predecessor for alive is told so, and its
    /// message need not arrive.
    #[test]
    fn a_first_message_must_arrive_if_its_sender_outlasts_the_silence_of_others() {
        let mut options = Options::quiet(2);
        options.configs = vec![Config::default(), Config::default()];
        assert!(options.must_arrive(1));
        options.configs[1].give_up_after = options.configs[0].silence_timeout;
        assert!(!options.must_arrive(1));
        options.configs[0].silence_timeout /= 2;
        options.configs[1].silence_timeout /= 2;
        assert!(options.must_arrive(1));
        options.faults.loss = 1;
        assert!(!options.must_arrive(1));
    }
}
