//! Profiles, which make a run from a seed by swarm testing (Groce et al. 2012). Every run has only
//! some of the faults, each at a strength of its own, because faults hide one another when all are
//! on.

use std::fmt;
use std::str::FromStr;

use suci_proto::limits::{PHASE_PACKETS, PHASE_TIME};
use suci_proto::time::{Duration, nanos};
use suci_proto::wire::Mode;
use suci_proto::{CLASSES, Config, Priority};

use crate::options::{
    Consume, Drive, Faults, GroupPlan, Links, Marks, Options, RemotePlan, SocketPlan, Step, Traffic,
};
use crate::rng::Rng;
use crate::scheduler::Scheduler;
use crate::steering;
use crate::world::FIRST_KEY;
use churn::{churn, vast, visits};
use matching::matching;
use members::members;
use routes::routes;
use steps::{finishes, flood, steps};

mod churn;
mod matching;
mod members;
mod routes;
mod steps;

/// Kinds of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// The seed chooses one of the others, or a mixture of all faults.
    #[default]
    Default,
    /// A mixture: each fault is on or off by the seed.
    Swarm,
    /// Loss up to one half, duplicates, reordering, delays, bit flips.
    Lossy,
    /// Hosts cut off in one direction or both, at times for longer than `give_up_after`.
    Partition,
    /// Processes die and start again.
    Restart,
    /// Processes stop for seconds to minutes, programs stop consuming.
    Pause,
    /// Many send to one.
    Incast,
    /// One hundred nodes.
    Big,
    /// The largest packet changes.
    Mtu,
    /// Addresses change.
    Rebind,
    /// A second process has a live node's ID.
    DuplicateId,
    /// Packet numbers near their end.
    Counters,
    /// Both sides begin with huge messages.
    Huge,
    /// Processes close, sessions are closed or given up.
    Close,
    /// An attacker sends garbage, copies and forgeries.
    Hostile,
    /// Little memory, slow readers, more data than fits.
    Flow,
    /// Programs suspend sessions and resume them.
    Suspend,
    /// More peers than a receive buffer has peer slots for.
    Crowd,
    /// A node starts hundreds of times while others stay.
    Churn,
    /// More peers than slots, each for a short visit, again and again.
    Visits,
    /// Ten thousand nodes.
    Vast,
    /// Programs finish channels, and use their numbers all the same.
    Channels,
    /// Programs read and change memory of others.
    Remote,
    /// Packets are sealed, in a run of one of the other profiles, under a key of the cluster or
    /// under keys of nodes; keys are rotated.
    Sealed,
    /// Groups and their collective operations.
    Groups,
    /// Sockets: connections that come and go.
    Sockets,
    /// Receives that take messages by tag and source.
    Matching,
    /// Nodes reach each other through others.
    Routes,
    /// Members of a cluster, which tell each other who is in it.
    Members,
    /// Busy hosts: processes run for a part of the time, and are stopped at any point.
    Busy,
}

/// Every profile by its name on the command line.
pub const PROFILES: [(&str, Profile); 30] = [
    ("default", Profile::Default),
    ("swarm", Profile::Swarm),
    ("lossy", Profile::Lossy),
    ("partition", Profile::Partition),
    ("restart", Profile::Restart),
    ("pause", Profile::Pause),
    ("incast", Profile::Incast),
    ("big", Profile::Big),
    ("mtu", Profile::Mtu),
    ("rebind", Profile::Rebind),
    ("duplicate-id", Profile::DuplicateId),
    ("counters", Profile::Counters),
    ("huge", Profile::Huge),
    ("close", Profile::Close),
    ("hostile", Profile::Hostile),
    ("flow", Profile::Flow),
    ("suspend", Profile::Suspend),
    ("crowd", Profile::Crowd),
    ("churn", Profile::Churn),
    ("visits", Profile::Visits),
    ("vast", Profile::Vast),
    ("channels", Profile::Channels),
    ("remote", Profile::Remote),
    ("sealed", Profile::Sealed),
    ("groups", Profile::Groups),
    ("sockets", Profile::Sockets),
    ("matching", Profile::Matching),
    ("routes", Profile::Routes),
    ("members", Profile::Members),
    ("busy", Profile::Busy),
];

/// One seed in this many has 100 nodes when the seed chooses.
pub const BIG_EVERY: u64 = 500;

/// One seed in this many has more nodes than peer slots.
pub const CROWD_EVERY: u64 = 50;

/// In one seed of this many a node starts hundreds of times.
pub const CHURN_EVERY: u64 = 25;

/// Key phases of sealed runs: as short as the pings that begin them should be rare.
const SHORT_PHASE: Duration = Duration::from_secs(10);

/// Number of nodes from which on no book has all others.
const SPARSE: usize = 256;

impl Profile {
    /// Returns its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        PROFILES
            .iter()
            .find(|(_, profile)| *profile == self)
            .map_or("default", |(name, _)| name)
    }

    fn chosen(self, seed: u64, rng: &mut Rng) -> Self {
        if self != Self::Default {
            return self;
        }
        if seed % BIG_EVERY == BIG_EVERY / 2 {
            return Self::Big;
        }
        if seed % CROWD_EVERY == CROWD_EVERY / 2 {
            return Self::Crowd;
        }
        if seed % CHURN_EVERY == CHURN_EVERY / 3 {
            return Self::Churn;
        }
        // A third of all are mixtures; incast is dear, so one in a hundred.
        let others: Vec<Self> = PROFILES
            .iter()
            .map(|(_, profile)| *profile)
            .filter(|profile| {
                use Profile::{
                    Big, Busy, Churn, Crowd, Default, Groups, Incast, Members, Remote, Routes,
                    Sealed, Sockets, Vast, Visits,
                };
                !matches!(
                    profile,
                    Default
                        | Big
                        | Incast
                        | Crowd
                        | Churn
                        | Vast
                        | Visits
                        | Remote
                        | Sealed
                        | Groups
                        | Sockets
                        | Routes
                        | Members
                        | Busy
                )
            })
            .collect();
        match rng.range(0, 100) {
            0..30 => Self::Swarm,
            30 => Self::Incast,
            _ => rng.pick(&others),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = PROFILES.iter().find(|(known, _)| *known == name);
        found.map(|(_, profile)| *profile).ok_or_else(|| {
            let names: Vec<_> = PROFILES.iter().map(|(name, _)| *name).collect();
            format!("no such profile; there are {}", names.join(", "))
        })
    }
}

/// Returns the run of a seed.
#[must_use]
pub fn options(seed: u64, profile: Profile, nodes: Option<usize>) -> Options {
    if profile == Profile::Sealed {
        return sealed(options(seed, Profile::Default, nodes));
    }
    let mut rng = Rng::new(seed, 1);
    let profile = profile.chosen(seed, &mut rng);
    let nodes = nodes.unwrap_or_else(|| match profile {
        Profile::Big => 100,
        Profile::Vast => 10_000,
        Profile::Crowd => rng.index(12, 30),
        Profile::Churn => rng.index(2, 5),
        Profile::Visits => rng.index(12, 80),
        Profile::Incast if rng.chance(50_000) => 1_000,
        Profile::Incast => rng.index(64, 200),
        Profile::Huge | Profile::Counters | Profile::Flow => rng.index(2, 4),
        Profile::Remote | Profile::Sockets => rng.index(2, 6),
        Profile::Routes => rng.index(3, 8),
        Profile::Members => rng.index(2, 24),
        _ => rng.index(2, 9),
    });
    let mut run = base(seed, nodes.max(1), profile.name(), &mut rng);
    match profile {
        Profile::Swarm | Profile::Default => swarm(&mut run, &mut rng),
        Profile::Lossy => run.faults = lossy(&mut rng),
        Profile::Big => big(&mut run, &mut rng),
        Profile::Incast => incast(&mut run, &mut rng),
        Profile::Counters => counters(&mut run, &mut rng),
        Profile::Huge => huge(&mut run, &mut rng),
        Profile::Flow => flow(&mut run, &mut rng),
        Profile::Crowd => crowd(&mut run, &mut rng),
        Profile::Churn => churn(&mut run, &mut rng),
        Profile::Visits => visits(&mut run, &mut rng),
        Profile::Vast => vast(&mut run, &mut rng),
        Profile::Channels => channels(&mut run, &mut rng),
        Profile::Remote => remote(&mut run, &mut rng),
        Profile::Groups => groups(&mut run, &mut rng),
        Profile::Sockets => sockets(&mut run, &mut rng),
        Profile::Matching => matching(&mut run, &mut rng),
        Profile::Routes => routes(&mut run, &mut rng),
        Profile::Members => members(&mut run, &mut rng),
        Profile::Busy => busy(&mut run, &mut rng),
        // Sealed runs are made of others.
        other => scripted(&mut run, other, &mut rng),
    }
    if run.question_within.is_none() {
        marks(&mut run, &mut Rng::new(seed, 11));
    }
    run.sparse = nodes >= SPARSE;
    let attacked = |(_, step): &(Duration, Step)| matches!(step, Step::Attack(_));
    if run.faults.flip > 0 || run.script.iter().any(attacked) {
        // Without it the UDP checksum would have to notice, which flipped bits got past.
        run.configs
            .iter_mut()
            .for_each(|config| config.payload_checksum = true);
    }
    // A node outside the book is reached where it was heard last. A node that heard only a
    // duplicate there, which died, finds the original only when that calls. So only nodes of the
    // book have duplicates.
    let doubled = run.duplicates.iter().map(|duplicate| duplicate.of + 1);
    run.clients = run
        .clients
        .min(nodes - doubled.max().unwrap_or(0).min(nodes));
    // The memory that the documentation of `Config::memory` asks for: a node with less refuses
    // peers. It matters beyond 8 nodes.
    let least = nodes as u64 * (128 << 10);
    run.configs
        .iter_mut()
        .for_each(|config| config.memory = config.memory.max(least));
    run
}

/// Seals the packets of a run, rotates its keys, and takes hosts for restored from snapshots.
fn sealed(mut run: Options) -> Options {
    let mut rng = Rng::new(run.seed, 12);
    run.sealed = true;
    run.node_keys = Rng::new(run.seed, 23).chance(400_000);
    for config in &mut run.configs {
        config.phase_packets = rng.pick(&[1_024, 1_024, 5_000, PHASE_PACKETS]);
        config.phase_time = rng.pick(&[SHORT_PHASE, SHORT_PHASE * 6, PHASE_TIME]);
    }
    if rng.chance(500_000) {
        rotate(&mut run, &mut rng);
    }
    if rng.chance(300_000) {
        for _ in 0..rng.range(1, 4) {
            let at = Duration::from_nanos(rng.range(0, nanos(run.faults_for)));
            let host = rng.index(0, run.nodes);
            run.script.push((at, Step::Restored(host)));
        }
    }
    run
}

/// Rotates the keys of the cluster or of its nodes: first every host takes two, at its own time,
/// then the new one alone. In some runs a host has another key in between, and nobody talks to it.
fn rotate(run: &mut Options, rng: &mut Rng) {
    let (old, new, wrong) = (FIRST_KEY, FIRST_KEY + 1, FIRST_KEY + 2);
    let third = nanos(run.faults_for) / 3;
    let late = |from: u64, rng: &mut Rng| Duration::from_nanos(rng.range(from, from + third));
    for host in 0..run.nodes {
        for (from, keys) in [(0, vec![new, old]), (third, vec![new])] {
            run.script.push((late(from, rng), Step::Keys(host, keys)));
        }
    }
    if rng.chance(300_000) {
        let (host, from) = (rng.index(0, run.nodes), 2 * third);
        let at = late(from, rng);
        run.script.push((at, Step::Keys(host, vec![wrong])));
        let until = at + (run.faults_for - at) / 2;
        run.script.push((until, Step::Keys(host, vec![new])));
    }
}

fn base(seed: u64, nodes: usize, profile: &'static str, rng: &mut Rng) -> Options {
    let faults_for = rng.duration(Duration::from_secs(2), Duration::from_secs(30));
    let mut run = Options::quiet(nodes);
    run.seed = seed;
    run.profile = profile;
    run.faults_for = faults_for;
    run.configs = (0..3).map(|_| config(rng)).collect();
    run.recv_buffer = rng
        .pick(&[8 << 20, 8 << 20, 1 << 20, 425_984])
        .max(nodes as u64 * 16_384);
    run.links = links(rng);
    run.traffic = traffic(rng, nodes, faults_for);
    run.drives = (0..3).map(|_| drive(rng)).collect();
    run.consumes = (0..3).map(|_| consume(rng)).collect();
    if rng.chance(300_000) {
        run.start_within = rng.duration(Duration::from_millis(1), Duration::from_secs(5));
    }
    if rng.chance(300_000) {
        run.socket_full = permille(rng, 30);
        run.no_gso = permille(rng, 5);
    }
    if rng.chance(100_000) {
        // Packets may be of any size then: they are charged as the largest.
        run.route_unknown = 300_000;
        run.recv_buffer = 8 << 20;
    }
    run.port_unreachable = rng.chance(300_000);
    run.one_machine = run.port_unreachable && run.seed.is_multiple_of(2);
    run.interrupts = run.seed % 4 == 1;
    if nodes > 2 && rng.chance(150_000) {
        run.clients = rng.index(1, nodes - 1);
    }
    if rng.chance(500_000) {
        wishes(&mut run, rng);
    }
    if rng.chance(300_000) {
        steering::draw(&mut run, rng);
    }
    run.traffic.withdraw = rng.pick(&[0, 0, 20_000, 300_000]);
    run
}

/// In some runs, lets a middle box change marks, from the beginning or for a while.
fn marks(run: &mut Options, rng: &mut Rng) {
    if !rng.chance(150_000) {
        return;
    }
    let boxes = [
        Marks::Dropped,
        Marks::Dropped,
        Marks::Erased,
        Marks::Congested,
    ];
    let marks = rng.pick(&boxes);
    if rng.chance(500_000) {
        run.links.marks = marks;
        return;
    }
    let mut at = || Duration::from_nanos(rng.range(0, nanos(run.faults_for)));
    let (from, until) = (at(), at());
    run.script.push((from, Step::Marks(marks)));
    if from < until {
        run.script.push((until, Step::Marks(Marks::Pass)));
    }
}

/// Draws the programs' wishes for their traffic, and later changes.
fn wishes(run: &mut Options, rng: &mut Rng) {
    for _ in 0..rng.range(1, 12) {
        // Some from the beginning, some in the middle of it.
        let at = if rng.chance(300_000) {
            Duration::ZERO
        } else {
            Duration::from_nanos(rng.range(0, nanos(run.faults_for)))
        };
        let (host, other) = (rng.index(0, run.nodes), rng.index(0, run.nodes));
        let class = rng.index(0, CLASSES);
        let weight = rng.pick(&[1, 16, 16, 255]);
        let priority = Priority::new(u8::try_from(class).unwrap_or(0), weight).unwrap_or_default();
        let channel = rng.range(0, u64::from(run.traffic.channels.max(1)));
        let step = match rng.range(0, 4) {
            0 => Step::Prefer(
                host,
                other,
                rng.pick(&[Mode::Adaptive, Mode::Throughput, Mode::Response]),
            ),
            1 => Step::Rank(host, other, None, priority),
            _ => Step::Rank(host, other, u32::try_from(channel).ok(), priority),
        };
        run.script.push((at, step));
    }
}

fn config(rng: &mut Rng) -> Config {
    let memory = rng.pick(&[1 << 20, 4 << 20, 64 << 20, 256 << 20, 256 << 20]);
    let silence = rng.pick(&[1, 3, 10, 10, 10]);
    let give_up = rng.pick(&[10, 20, 60, 300, 300, 300]);
    Config {
        memory,
        max_message: rng.pick(&[1 << 16, 1 << 20, 64 << 20]).min(memory / 2),
        send_queue: rng.pick(&[1 << 16, 1 << 20, 64 << 20]),
        rts_threshold: rng.pick(&[1 << 12, 1 << 14, 256 << 10, 256 << 10]),
        silence_timeout: Duration::from_secs(silence),
        give_up_after: Duration::from_secs(give_up),
        max_ack_delay: Duration::from_micros(rng.pick(&[0, 500, 2_000, 2_000, 25_000, 100_000])),
        ack_on_poll: false,
        max_datagram: rng.pick(&[1_200, 1_472, 65_507, 65_507]),
        payload_checksum: rng.chance(800_000),
        mode: rng.pick(&[
            Mode::Adaptive,
            Mode::Adaptive,
            Mode::Throughput,
            Mode::Response,
        ]),
        unattended: rng.chance(50_000),
        keep_alive: rng.chance(200_000),
        ecn: rng.chance(800_000),
        controller: steering::controller(rng),
        ..Config::default()
    }
}

fn links(rng: &mut Rng) -> Links {
    let latency = rng.duration(Duration::from_micros(5), Duration::from_millis(150));
    // A slow link must still carry all messages of a run within the time allowed.
    let rate = rng
        .chance(300_000)
        .then(|| rng.scale(2_000_000, 1_000_000_000));
    let mtu = rng.pick(&[1_472, 1_472, 1_472, 1_452, 1_200]);
    Links {
        latency,
        detour: Duration::ZERO,
        jitter: Duration::from_nanos(rng.range(0, nanos(latency))),
        rate,
        queue: rng.duration(Duration::from_millis(5), Duration::from_millis(500)),
        // Some narrow hop is further on, where only lost packets tell of it.
        route_mtu: if rng.chance(800_000) { mtu } else { 1_472 },
        mtu,
        mtu_announced: rng.chance(500_000),
        marks: Marks::Pass,
        ipv6: rng.chance(200_000),
    }
}

fn traffic(rng: &mut Rng, nodes: usize, time: Duration) -> Traffic {
    let small: &[(u32, u64, u64)] = &[(9, 0, 64), (1, 0, 0)];
    let typical: &[(u32, u64, u64)] = &[
        (80, 0, 200),
        (15, 200, 2_000),
        (4, 2_000, 20_000),
        (1, 20_000, 300_000),
    ];
    let bulk: &[(u32, u64, u64)] = &[
        (60, 0, 100),
        (30, 1_000, 30_000),
        (9, 30_000, 100_000),
        (1, 100_000, 1_000_000),
    ];
    let (sizes, total) = match rng.range(0, 10) {
        0..3 => (small, rng.scale(800, 6_000)),
        3..9 => (typical, rng.scale(500, 4_000)),
        _ => (bulk, rng.scale(100, 400)),
    };
    let fan_out = rng.index(1, nodes.max(2));
    let pairs = (nodes * fan_out) as u64;
    let messages = (total / pairs.max(1)).max(1);
    let burst = rng.pick(&[1, 5, 30, 200]);
    // Bursts spread over about half the time, so that faults meet traffic.
    let gap = nanos(time) / (messages / burst + 1) + 2_000;
    Traffic {
        messages: u32::try_from(messages).unwrap_or(u32::MAX),
        fan_out,
        to_first: false,
        to_itself: 300_000,
        channels: rng.pick(&[1, 2, 8, 40]),
        burst: u32::try_from(burst).unwrap_or(1),
        gap: Duration::from_nanos(gap),
        sizes: sizes.to_vec(),
        notify: rng.pick(&[100_000, 500_000, 1_000_000]),
        reply: rng.pick(&[0, 0, 200_000, 1_000_000]),
        refuse: rng.pick(&[0, 0, 300_000]),
        withdraw: 0,
        huge_first: false,
    }
}

fn drive(rng: &mut Rng) -> Drive {
    if rng.chance(300_000) {
        Drive::Polls(rng.duration(Duration::from_micros(50), Duration::from_millis(60)))
    } else {
        Drive::Woken(rng.duration(Duration::from_micros(1), Duration::from_micros(200)))
    }
}

fn consume(rng: &mut Rng) -> Consume {
    if rng.chance(750_000) {
        return Consume::Eager;
    }
    let period = rng.duration(Duration::from_micros(100), Duration::from_millis(500));
    Consume::Slow {
        period,
        count: u32::try_from(rng.scale(1, 200)).unwrap_or(1),
    }
}

fn permille(rng: &mut Rng, most: u64) -> u32 {
    u32::try_from(rng.range(0, most * 1_000 + 1)).unwrap_or(0)
}

fn lossy(rng: &mut Rng) -> Faults {
    let some = |rng: &mut Rng, most: u64| {
        if rng.chance(600_000) {
            permille(rng, most)
        } else {
            0
        }
    };
    // Half of all runs lose a little, the others up to every second packet.
    let loss = if rng.chance(500_000) {
        permille(rng, 30)
    } else {
        permille(rng, 500)
    };
    Faults {
        loss,
        duplicate: some(rng, 200),
        reorder: some(rng, 300),
        reorder_by: rng.duration(Duration::from_micros(10), Duration::from_millis(300)),
        hold: some(rng, 10),
        hold_by: rng.duration(Duration::from_secs(1), Duration::from_secs(120)),
        flip: some(rng, 50),
        mark: some(rng, 100),
        asymmetry: rng.pick(&[0, 0, 50, 100]),
    }
}

fn swarm(run: &mut Options, rng: &mut Rng) {
    if rng.chance(700_000) {
        run.faults = lossy(rng);
    }
    const KINDS: [Profile; 9] = [
        Profile::Partition,
        Profile::Restart,
        Profile::Pause,
        Profile::Mtu,
        Profile::Rebind,
        Profile::DuplicateId,
        Profile::Close,
        Profile::Hostile,
        Profile::Suspend,
    ];
    for kind in KINDS {
        if rng.chance(250_000) {
            steps(run, kind, rng);
        }
    }
    if rng.chance(100_000) {
        run.traffic.huge_first = true;
    }
    if rng.chance(100_000) {
        finishes(run, rng);
    }
}

/// Draws a run in which channels come and go, in one session or in several.
fn channels(run: &mut Options, rng: &mut Rng) {
    run.traffic.channels = rng.pick(&[8, 40, 400]);
    if rng.chance(700_000) {
        run.faults = lossy(rng);
    }
    for kind in [
        Profile::Restart,
        Profile::Close,
        Profile::Suspend,
        Profile::Rebind,
    ] {
        if rng.chance(200_000) {
            steps(run, kind, rng);
        }
    }
    finishes(run, rng);
}

/// Adds each of the usual disturbances with this chance in a million.
fn disturb(run: &mut Options, rng: &mut Rng, chance: u32) {
    const KINDS: [Profile; 8] = [
        Profile::Partition,
        Profile::Restart,
        Profile::Restart,
        Profile::Pause,
        Profile::Mtu,
        Profile::Rebind,
        Profile::Close,
        Profile::Suspend,
    ];
    for kind in KINDS {
        if rng.chance(chance) {
            steps(run, kind, rng);
        }
    }
}

/// Draws a run with one-sided operations beside messages, under a mixture of faults.
fn remote(run: &mut Options, rng: &mut Rng) {
    let operations = rng.scale(20, 400);
    let burst = rng.pick(&[1, 5, 20, 50]);
    run.remote = Some(RemotePlan {
        operations: u32::try_from(operations).unwrap_or(20),
        burst: u32::try_from(burst).unwrap_or(1),
        gap: Duration::from_nanos(nanos(run.faults_for) / (operations / burst + 1) + 2_000),
        withdraw: rng.pick(&[0, 20_000, 200_000]),
        mistakes: rng.pick(&[0, 20_000, 200_000]),
    });
    run.links.rate = run.links.rate.map(|rate| rate.max(20_000_000));
    if rng.chance(700_000) {
        run.faults = lossy(rng);
        run.faults.loss = run.faults.loss.min(200_000);
    }
    disturb(run, rng, 200_000);
}

/// Draws a run with sockets beside messages, under a mixture of faults.
fn sockets(run: &mut Options, rng: &mut Rng) {
    let connections = rng.scale(5, 100);
    let burst = rng.pick(&[1, 3, 10, 30]);
    run.sockets = Some(SocketPlan {
        connections: u32::try_from(connections).unwrap_or(5),
        burst: u32::try_from(burst).unwrap_or(1),
        gap: Duration::from_nanos(nanos(run.faults_for) / (connections / burst + 1) + 2_000),
        backlog: rng.pick(&[1, 3, 10, 100]),
        messages: rng.pick(&[1, 3, 10]),
        slow: rng.pick(&[0, 100_000, 500_000]),
        closes_listener: rng.pick(&[0, 0, 500_000]),
        silent: rng.chance(150_000),
    });
    // A node refuses connections of a process outside its book.
    run.clients = 0;
    run.traffic.messages = run.traffic.messages.min(200);
    run.links.rate = run.links.rate.map(|rate| rate.max(20_000_000));
    run.mended_for = Duration::from_secs(600);
    if rng.chance(700_000) {
        run.faults = lossy(rng);
        run.faults.loss = run.faults.loss.min(200_000);
    }
    disturb(run, rng, 150_000);
    if rng.chance(150_000) {
        steps(run, Profile::Hostile, rng);
    }
}

/// Draws a run with groups beside messages, under a mixture of faults.
fn groups(run: &mut Options, rng: &mut Rng) {
    let calls = rng.scale(2, 30);
    let eras = rng.range(1, 5);
    run.groups = Some(GroupPlan {
        groups: u32::try_from(rng.range(1, 4)).unwrap_or(1),
        calls: u32::try_from(calls).unwrap_or(2),
        eras: u32::try_from(eras).unwrap_or(1),
        gap: Duration::from_nanos(nanos(run.faults_for) / (calls * eras)),
        gives_up: rng.pick(&[0, 0, 0, 10_000]),
    });
    // A process outside the book is no member of a group.
    run.clients = 0;
    run.traffic.messages = run.traffic.messages.min(200);
    run.links.rate = run.links.rate.map(|rate| rate.max(20_000_000));
    // A member is noticed to be lost after a second and its silence; several may be, one after the
    // other, in each step of a shrink.
    run.mended_for = Duration::from_secs(600);
    if rng.chance(600_000) {
        run.faults = lossy(rng);
        run.faults.loss = run.faults.loss.min(200_000);
    }
    // Half of the runs have only members that die.
    if rng.chance(500_000) {
        run.recv_buffer = 8 << 20;
        run.links.rate = None;
        run.faults.loss = run.faults.loss.min(20_000);
        steps(run, Profile::Restart, rng);
        return;
    }
    disturb(run, rng, 200_000);
}

/// Draws a run on busy hosts, beside a mixture of faults. One host of three may be idle.
fn busy(run: &mut Options, rng: &mut Rng) {
    let scheduler = |rng: &mut Rng| {
        let (runs, period) = rng.pick(&[(1, 10), (1, 10), (3, 10), (1, 4), (1, 1)]);
        Scheduler {
            runs: Duration::from_millis(runs),
            period: Duration::from_millis(period),
            stops: rng.pick(&[0, 1_000, 20_000]),
        }
    };
    run.schedulers = (0..3)
        .map(|host| (host == 0 || rng.chance(700_000)).then(|| scheduler(rng)))
        .collect();
    if rng.chance(300_000) {
        run.faults = lossy(rng);
        run.faults.loss = run.faults.loss.min(50_000);
    }
    disturb(run, rng, 100_000);
}

/// Draws a run about one kind of fault, with a few ordinary ones.
fn scripted(run: &mut Options, kind: Profile, rng: &mut Rng) {
    if rng.chance(500_000) {
        run.faults = lossy(rng);
        run.faults.loss = run.faults.loss.min(50_000);
    }
    steps(run, kind, rng);
    if kind == Profile::Hostile && rng.chance(500_000) {
        flood(run, rng);
    }
}

fn big(run: &mut Options, rng: &mut Rng) {
    run.recv_buffer = 8 << 20;
    run.traffic.fan_out = rng.index(2, 12).min(run.nodes.saturating_sub(1)).max(1);
    run.traffic.messages = u32::try_from(rng.range(5, 30)).unwrap_or(5);
    run.traffic.sizes = vec![(90, 0, 200), (9, 200, 4_000), (1, 4_000, 40_000)];
    run.faults_for = run.faults_for.min(Duration::from_secs(10));
    run.traffic.gap = run.faults_for / 10;
    if rng.chance(700_000) {
        run.faults = lossy(rng);
    }
    for kind in [Profile::Partition, Profile::Restart, Profile::Rebind] {
        if rng.chance(300_000) {
            steps(run, kind, rng);
        }
    }
}

fn incast(run: &mut Options, rng: &mut Rng) {
    run.recv_buffer = 8 << 20;
    run.clients = 0;
    run.traffic.to_first = true;
    run.traffic.fan_out = 1;
    run.traffic.messages = u32::try_from(rng.range(5, 40)).unwrap_or(5);
    run.traffic.burst = 200;
    run.traffic.gap = Duration::from_millis(1);
    run.traffic.sizes = vec![(50, 0, 200), (45, 1_000, 1_400), (5, 1_400, 20_000)];
    run.start_within = rng.pick(&[Duration::ZERO, Duration::from_millis(100)]);
    run.faults_for = Duration::from_secs(3);
    if rng.chance(500_000) {
        let time = rng.duration(Duration::from_millis(10), Duration::from_secs(9));
        run.script.push((
            Duration::from_millis(rng.range(1, 1_000)),
            Step::Pause(0, time),
        ));
    }
}

fn crowd(run: &mut Options, rng: &mut Rng) {
    // Each peer slot takes two control packets of the quarter of the buffer that is for them.
    run.recv_buffer = rng.range(8, 16) * 6_656;
    for config in &mut run.configs {
        // A node that watches its peers keeps its peer slot in use. A node that waits for one must
        // be served, not given up.
        config.keep_alive = false;
        config.give_up_after = Duration::from_secs(3_600);
    }
    run.traffic.to_first = rng.chance(500_000);
    run.traffic.fan_out = rng.index(1, run.nodes);
    run.traffic.messages = u32::try_from(rng.range(2, 40)).unwrap_or(2);
    run.traffic.sizes = vec![(90, 0, 200), (9, 200, 4_000), (1, 4_000, 40_000)];
    run.traffic.gap = run.faults_for / 10;
    run.mended_for = Duration::from_secs(600);
    if rng.chance(500_000) {
        run.faults = lossy(rng);
        run.faults.loss = run.faults.loss.min(50_000);
    }
    if rng.chance(300_000) {
        steps(run, Profile::Restart, rng);
    }
}

fn counters(run: &mut Options, rng: &mut Rng) {
    // Just before the end, where a connection runs out of numbers, and across half-way points.
    let room = rng.scale(50, 20_000);
    let first = rng.pick(&[
        u64::MAX - room,
        (1 << 63) - room,
        (1 << 32) - room,
        (1 << 62) - room,
    ]);
    run.configs
        .iter_mut()
        .for_each(|config| config.first_packet_number = first);
    if rng.chance(500_000) {
        run.faults = lossy(rng);
    }
}

fn huge(run: &mut Options, rng: &mut Rng) {
    run.traffic.huge_first = true;
    run.traffic.fan_out = run.nodes.saturating_sub(1).max(1);
    run.traffic.messages = u32::try_from(rng.range(20, 200)).unwrap_or(20);
    let most = rng.scale(300_000, 5_000_000);
    run.traffic.sizes = vec![(90, 0, 2_000), (9, 10_000, 100_000), (1, most / 2, most)];
    run.traffic.refuse = rng.pick(&[0, 0, 200_000]);
    run.links.rate = None;
    if rng.chance(400_000) {
        run.faults = lossy(rng);
        run.faults.loss = run.faults.loss.min(30_000);
    }
}

fn flow(run: &mut Options, rng: &mut Rng) {
    for config in &mut run.configs {
        config.memory = 1 << 20;
        config.max_message = 1 << 19;
        config.rts_threshold = rng.pick(&[1 << 14, 256 << 10]);
    }
    run.traffic.fan_out = run.nodes.saturating_sub(1).max(1);
    run.traffic.messages = u32::try_from(rng.range(300, 1_000)).unwrap_or(300);
    run.traffic.burst = 100;
    run.traffic.gap = Duration::from_millis(5);
    run.traffic.sizes = vec![(50, 0, 500), (50, 5_000, 20_000)];
    run.links.latency = run.links.latency.min(Duration::from_millis(5));
    run.links.rate = None;
    let period = rng.duration(Duration::from_millis(1), Duration::from_millis(20));
    run.consumes = vec![Consume::Slow { period, count: 1 }];
    for _ in 0..rng.range(1, 4) {
        let host = rng.index(0, run.nodes);
        let at = Duration::from_millis(rng.range(1, 2_000));
        let time = rng.duration(Duration::from_millis(50), Duration::from_secs(5));
        run.script.push((at, Step::StopConsuming(host, time)));
    }
    if rng.chance(500_000) {
        run.faults = lossy(rng);
        run.faults.loss = run.faults.loss.min(20_000);
    }
}
