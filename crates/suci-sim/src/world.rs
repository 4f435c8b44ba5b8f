//! The world: hosts with processes, the network between them, and virtual time.

mod churn;
mod excuses;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use suci_layers::routes::Behind;
use suci_proto::security::Security;
use suci_proto::time::{Duration, Instant, nanos};
use suci_proto::types::{Incarnation, Layer, Layers, NodeId};
use suci_proto::{AcceptPolicy, Engine, Event, Identity, PlacedBy};
use toy_cipher::{RecordingHandshakes, SealLedger};

use crate::groups::GroupProgram;
use crate::hostile::Hostile;
use crate::matching::MatchingProgram;
use crate::membership::MemberProgram;
use crate::network::Network;
use crate::node::{Context, Process};
use crate::options::{Consume, Drive, Options, Step};
use crate::oracle::groups::SharedGroups;
use crate::oracle::matching::SharedMatchingOracle;
use crate::oracle::remote::SharedOracle;
use crate::oracle::sockets::SharedSocketOracle;
use crate::oracle::{Kind, Oracle, Spec, Violation};
use crate::packet::{HostId, Packet, ProcId};
use crate::remote::RemoteProgram;
use crate::report::Tally;
use crate::rng::Rng;
use crate::routes::{Carriage, RouteProgram};
use crate::socket::Fit;
use crate::sockets::SocketProgram;
use crate::tap;
use crate::trace::Trace;
use crate::workload::{Sent, Workload, targets};

/// Up to this many hosts, engines are audited in full in every cycle. With more hosts, a cycle
/// audits the peers that it touched, and all of them once in as many cycles of a process as there
/// are hosts.
const AUDIT_ALL: usize = 16;

/// A process whose engine closed answers repeated CLOSEs for at most this long, as a driver does.
const LINGER: Duration = Duration::from_millis(500);

/// The cluster key with which all processes begin.
pub(crate) const FIRST_KEY: u64 = 1;

/// The most packets of a member in each second, on average.
const MEMBER_PACKETS: u64 = 200;

/// Something that is due.
#[derive(Debug)]
pub(crate) enum Due {
    /// A process may have something to do.
    Wake(HostId),
    /// A packet reaches a host.
    Arrive(HostId, Packet),
    /// The sender of a packet hears that it reached a host without a process.
    Unreachable(Packet),
    /// A process starts on a host, unless one runs there.
    Start(HostId),
    /// A fault of the script.
    Step(Step),
}

/// A host and the program on it.
pub(crate) struct Host {
    pub(crate) process: Option<Process>,
    pub(crate) workload: Workload,
    /// Processes that started here.
    pub(crate) starts: u32,
    wake_at: Option<Instant>,
    /// Time after which its process starts again once it closed.
    pub(crate) restart_after: Option<Duration>,
    /// The newest packet of each host that was drained here, to tell which were overtaken.
    newest: BTreeMap<HostId, u64>,
    /// The events that this host's processes logged before they ended.
    pub(crate) past: Vec<(Instant, Event)>,
}

/// A run that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When, in virtual time.
    pub at: Instant,
    /// Why.
    pub violation: Violation,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.at.as_nanos() / 1_000;
        write!(
            f,
            "at {}.{:06} s: {}",
            micros / 1_000_000,
            micros % 1_000_000,
            self.violation
        )
    }
}

/// Sees every packet that is sent, and answers whether it vanishes.
pub type Filter = Box<dyn FnMut(Instant, &Packet) -> bool>;

/// Everything that a run is made of.
pub struct World {
    /// The options of the run.
    pub options: Options,
    /// Virtual time.
    pub now: Instant,
    /// Sees all and forgets nothing.
    pub oracle: Oracle,
    /// Between the hosts.
    pub network: Network,
    /// Numbers for the report.
    pub tally: Tally,
    /// The events of the run.
    pub trace: Trace,
    /// For scenarios that are about certain packets.
    pub filter: Option<Filter>,
    pub(crate) hosts: Vec<Host>,
    /// One-sided operations.
    pub(crate) remote: SharedOracle,
    /// The keys of each host, and what was sealed under them.
    pub(crate) keys: Vec<RecordingHandshakes>,
    pub(crate) ledger: SealLedger,
    /// Groups.
    pub(crate) groups: SharedGroups,
    /// Sockets.
    pub(crate) sockets: SharedSocketOracle,
    pub(crate) matching: SharedMatchingOracle,
    pub(crate) rng: Rng,
    pub(crate) hostile: Hostile,
    pub(crate) queue: crate::queue::Queue<Due>,
    pub(crate) nodes: Vec<u32>,
    socket_rng: Rng,
    order: u64,
    cycles: u64,
    carriage: Carriage,
    outbox: Vec<Packet>,
    arrivals: Vec<crate::network::Arrival>,
    pub(crate) mended: bool,
}

/// Has each host permit about half of the nodes only what the programs of runs with keys of nodes
/// use: no session may end for it.
fn deny_layers(options: &Options, keys: &[RecordingHandshakes]) {
    let messages = Layers::NONE.with(Layer::Messages);
    let used = match options.matching {
        Some(_) => messages.with(Layer::Matching),
        None => messages,
    };
    let mut rng = Rng::new(options.seed, 24);
    for makes in keys {
        for host in 0..keys.len() {
            if rng.chance(500_000) {
                makes.permit(NodeId(options.node(host)), used);
            }
        }
    }
}

impl World {
    /// Returns a world in which nothing has happened yet.
    #[must_use]
    pub fn new(options: Options, print: bool) -> Self {
        let seed = options.seed;
        let count = options.hosts();
        let nodes: Vec<u32> = (0..count).map(|host| options.node(host)).collect();
        let network = Network::new(seed, count, options.links.clone(), options.faults.clone());
        let mut rng = Rng::new(seed, 3);
        let ledger = SealLedger::default();
        let keys = |host: HostId| match options.node_keys {
            true => {
                let owner = NodeId(options.node(host));
                RecordingHandshakes::of_node(ledger.clone(), owner, &[FIRST_KEY])
            }
            false => RecordingHandshakes::new(ledger.clone(), &[FIRST_KEY]),
        };
        let keys: Vec<_> = (0..count).map(keys).collect();
        if options.node_keys {
            deny_layers(&options, &keys);
        }
        let hosts = (0..count)
            .map(|host| Host::new(&options, &nodes, host, &mut rng))
            .collect();
        let mut world = Self {
            now: Instant::ZERO,
            oracle: Oracle::new(seed),
            network,
            tally: Tally {
                seeds: 1,
                big: u64::from(options.nodes >= 100),
                ..Tally::default()
            },
            trace: Trace::new(print),
            filter: None,
            hosts,
            remote: SharedOracle::new(options.nodes),
            keys,
            ledger,
            groups: SharedGroups::new(seed, options.loses_only_the_dead()),
            sockets: SharedSocketOracle::default(),
            matching: SharedMatchingOracle::default(),
            rng,
            hostile: Hostile::new(seed),
            queue: crate::queue::Queue::default(),
            nodes,
            socket_rng: Rng::new(seed, 4),
            order: 0,
            cycles: 0,
            carriage: Carriage::default(),
            outbox: Vec::new(),
            arrivals: Vec::new(),
            mended: false,
            options,
        };
        let options = &world.options;
        if options.has_layers() {
            world.oracle.layers_send();
        }
        if options.seeds > 0 || options.groups.is_some() {
            world.oracle.members_connect();
        }
        if let Some(probe) = world.options.contact_probe() {
            world.oracle.judge_contacts(probe);
        }
        if let Some(within) = world.options.question_within {
            let probe = world.options.probe_timeout();
            world.oracle.judge_questions(within, probe);
        }
        world.plan();
        world
    }

    /// Returns what the sender of `packet` would send `ahead` packets later with the frames `body`:
    /// a peer that breaks the protocol does. `None` if `packet` belongs to no connection.
    #[must_use]
    pub fn forged(&self, packet: &Packet, ahead: u64, body: &[u8]) -> Option<Vec<u8>> {
        if self.options.sealed {
            return self.ledger.forged(&packet.bytes, ahead, body);
        }
        let head = tap::head(&packet.bytes)?;
        let number = head.number.checked_add(ahead)?;
        Some(tap::forge(tap::Head { number, ..head }, body))
    }

    /// Checks that no number was sealed twice under one key.
    ///
    /// # Errors
    /// The first one that was.
    pub fn check_sealing(&self) -> Result<(), Failure> {
        let repeats = self.ledger.repeats();
        let Some((key, number)) = repeats.first() else {
            return Ok(());
        };
        let text = format!(
            "number {number} was sealed twice under key {key:x}; {} in all",
            repeats.len()
        );
        Err(Failure {
            at: self.now,
            violation: Violation {
                kind: Kind::Nonce,
                text,
            },
        })
    }

    fn plan(&mut self) {
        let within = nanos(self.options.start_within);
        for host in 0..self.options.nodes {
            let at = Instant::from_nanos(self.rng.range(0, within.max(1)));
            self.queue.push(at, Due::Start(host));
        }
        for (extra, duplicate) in self.options.duplicates.iter().enumerate() {
            let host = self.options.nodes + extra;
            self.queue
                .push(Instant::ZERO + duplicate.start, Due::Start(host));
        }
        self.hostile.listens = self
            .options
            .script
            .iter()
            .any(|(_, step)| matches!(step, Step::Attack(_)));
        for (at, step) in &self.options.script {
            self.queue
                .push(Instant::ZERO + *at, Due::Step(step.clone()));
        }
    }

    /// Lets everything happen that is due until `end`.
    ///
    /// # Errors
    /// The first promise or invariant that breaks.
    pub fn run_until(&mut self, end: Instant) -> Result<(), Failure> {
        while let Some((at, due)) = self.queue.pop_until(end) {
            self.now = self.now.max(at);
            let done = match due {
                Due::Wake(host) => self.wake(host, at),
                Due::Arrive(host, packet) => self.arrive(host, packet),
                Due::Unreachable(packet) => {
                    self.report_unreachable(&packet);
                    Ok(())
                }
                Due::Start(host) => {
                    self.start(host);
                    Ok(())
                }
                Due::Step(step) => {
                    self.apply(&step);
                    Ok(())
                }
            };
            let done = done
                .and_then(|()| self.oracle.judge_due(self.now))
                .and_then(|()| self.check_effort());
            done.map_err(|violation| Failure {
                at: self.now,
                violation,
            })?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// Checks that the run does not take far more packets or cycles than its messages need.
    fn check_effort(&self) -> Result<(), Violation> {
        let (accepted, bytes) = (self.oracle.accepted_count(), self.oracle.bytes());
        let members = self.member_packets(self.now.since(Instant::ZERO));
        // Each hop takes packets.
        let hops = match self.options.topology {
            None => 1,
            Some(_) => self.options.nodes as u64,
        };
        let enough = (400_000 + members + accepted * 50 + bytes / 100) * hops;
        if self.tally.packets <= enough && self.cycles <= enough * 10 {
            return Ok(());
        }
        let text = format!(
            "{} packets and {} cycles for {accepted} messages",
            self.tally.packets, self.cycles
        );
        Err(Violation {
            kind: Kind::Chatter,
            text,
        })
    }

    /// Returns the packets that all members may send in this time: they watch each other, at all
    /// times.
    pub(crate) fn member_packets(&self, time: Duration) -> u64 {
        match self.options.seeds {
            0 => 0,
            _ => time.as_secs() * self.options.nodes as u64 * MEMBER_PACKETS,
        }
    }

    /// Like [`World::run_until`], for that long.
    ///
    /// # Errors
    /// The first promise or invariant that breaks.
    pub fn run_for(&mut self, time: Duration) -> Result<(), Failure> {
        self.run_until(self.now + time)
    }

    /// Starts a process on a host, unless one runs there.
    pub fn start(&mut self, host: HostId) {
        let Some(node) = self.nodes.get(host).copied() else {
            return;
        };
        if self.hosts.get(host).is_none_or(|at| at.process.is_some()) {
            return;
        }
        if host >= self.options.nodes {
            if self.mended {
                return;
            }
            self.tally.duplicate_ids += 1;
        }
        self.move_before_start(host);
        let id = self.oracle.process_started(node);
        if self.options.is_steady(host) {
            self.oracle.peers_stay(id);
        }
        let mut config = self.config(host);
        let remote = self.remote_program(id, node);
        let groups = self.group_program(host, id);
        let matching = self.matching_program(id, node);
        config.placement = placement_of(&remote, &groups, &matching);
        config.ports = self.options.ports(remote.is_some());
        if config.unattended {
            self.oracle.is_unattended(id);
        }
        let identity = self.draw_identity(node);
        let mut seed = [0; 32];
        for chunk in seed.chunks_mut(8) {
            chunk.copy_from_slice(&self.rng.word().to_le_bytes());
        }
        let buffer = self.options.recv_buffer;
        let engine = match Engine::new(config, identity, seed, buffer, self.now) {
            Ok(engine) => engine,
            Err(error) => panic!("the simulator drew a bad configuration: {error}"),
        };
        let mut process = Process::new(id, host, engine, buffer, self.now);
        process.remote = remote;
        process.member = self.member_program(host, identity);
        process.groups = groups;
        process.matching = matching;
        process.sockets = self.socket_program(id, node);
        let topology = self.options.topology;
        process.router = topology.map(|it| RouteProgram::new(&self.options, it, host));
        process.drive = self.drive(host);
        process.scheduler = cycled(&self.options.schedulers, host).flatten();
        process.consume = match cycled(&self.options.consumes, host) {
            Some(consume) if !self.mended => consume,
            _ => Consume::Eager,
        };
        if process.consume == Consume::Eager {
            self.oracle.takes_at_once(id);
        }
        self.fill_book(host, &mut process);
        self.trace.note(
            self.now,
            6 ^ u64::from(id) << 8,
            format_args!("process {id} of node {node} starts on host {host}"),
        );
        if let Some(at) = self.hosts.get_mut(host) {
            at.process = Some(process);
            at.starts += 1;
        }
        self.begin_life(host, id);
        self.request(host, self.now);
    }

    fn draw_identity(&mut self, node: u32) -> Identity {
        let incarnation = u128::from(self.rng.word()) << 64 | u128::from(self.rng.word());
        Identity {
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
        }
    }

    /// Returns the one-sided operations of a new process. One that starts after the faults begins
    /// only the last.
    fn remote_program(&self, process: ProcId, node: u32) -> Option<RemoteProgram> {
        let plan = self.options.remote?;
        let (seed, oracle) = (self.options.seed, self.remote.clone());
        let mut program = RemoteProgram::new(process, node, seed, plan, oracle, self.now);
        if self.mended {
            program.wind_up(self.now);
        }
        Some(program)
    }

    /// Returns the membership of a new process.
    fn member_program(&self, host: HostId, own: Identity) -> Option<MemberProgram> {
        let seeds = self.nodes.iter().take(self.options.seeds).copied();
        let member = || MemberProgram::new(self.now, own, host, &self.network, seeds);
        (self.options.seeds > 0).then(member)
    }

    /// Returns the program for groups of a new process, if it is the first one of its node.
    fn group_program(&self, host: HostId, process: ProcId) -> Option<GroupProgram> {
        let plan = self.options.groups?;
        if self.hosts.get(host)?.starts > 0 {
            return None;
        }
        let (seed, node) = (self.options.seed, *self.nodes.get(host)?);
        let run = (self.nodes.as_slice(), self.groups.clone());
        let mut program = GroupProgram::new(process, node, seed, plan, run, self.now);
        if self.mended {
            program.wind_up(self.now);
        }
        Some(program)
    }

    /// Returns the program for sockets of a new process.
    fn socket_program(&self, process: ProcId, node: u32) -> Option<SocketProgram> {
        let plan = self.options.sockets?;
        let (seed, oracle) = (self.options.seed, self.sockets.clone());
        let silent = self.nodes.first().copied().filter(|_| plan.silent);
        let mut program = SocketProgram::new((process, node), silent, seed, plan, oracle, self.now);
        if self.mended {
            program.wind_up(self.now, &self.nodes);
        }
        Some(program)
    }

    /// Returns the receives of a new process.
    fn matching_program(&self, process: ProcId, node: u32) -> Option<MatchingProgram> {
        let plan = self.options.matching?;
        let (seed, oracle) = (self.options.seed, self.matching.clone());
        let mut program = MatchingProgram::new((process, node), seed, plan, oracle, self.now);
        if self.mended {
            program.wind_up(self.now);
        }
        Some(program)
    }

    pub(crate) fn drive(&self, host: HostId) -> Drive {
        cycled(&self.options.drives, host).unwrap_or(Drive::Woken(Duration::from_micros(20)))
    }

    pub(crate) fn config(&self, host: HostId) -> suci_proto::Config {
        let mut config = cycled(&self.options.configs, host).unwrap_or_default();
        let anyone = self.options.sparse || self.options.seeds > 0;
        if anyone || self.options.clients > 0 && !self.is_client(host) {
            config.accept = AcceptPolicy::Anyone;
        }
        if let Some(keys) = self.keys.get(host).filter(|_| self.options.sealed) {
            config.security = Security::Sealed(Arc::new(keys.clone()));
        }
        config
    }

    fn is_client(&self, host: HostId) -> bool {
        (self.options.nodes - self.options.clients.min(self.options.nodes)..self.options.nodes)
            .contains(&host)
    }

    fn fill_book(&self, host: HostId, process: &mut Process) {
        if self.options.sparse {
            return self.fill_with_targets(host, process);
        }
        let own = self.nodes.get(host);
        let known = match self.options.seeds {
            0 if self.options.star && host > 0 => 1,
            0 => self.options.nodes,
            seeds => seeds,
        };
        for other in (0..known).filter(|other| !self.is_client(*other)) {
            let Some(node) = self.nodes.get(other).filter(|node| Some(*node) != own) else {
                continue;
            };
            let topology = self.options.topology;
            let direct = topology.is_none_or(|it| it.vias(host, other).is_empty());
            let address = match direct {
                true => self.network.book_address(other),
                false => Behind::by_route(NodeId(*node)).address(),
            };
            // A second peer at one address or a full table would be the simulator's mistake.
            let added = process.engine.add_peer(self.now, NodeId(*node), address);
            debug_assert!(added.is_ok(), "{added:?}");
        }
    }

    /// Sees to it that a host's process gets a cycle at `at`.
    pub(crate) fn request(&mut self, host: HostId, at: Instant) {
        let Some(it) = self.hosts.get_mut(host) else {
            return;
        };
        if it.wake_at.is_none_or(|before| at < before) {
            it.wake_at = Some(at);
            self.queue.push(at, Due::Wake(host));
        }
    }

    fn wake(&mut self, host: HostId, at: Instant) -> Result<(), Violation> {
        let Some(it) = self.hosts.get_mut(host).filter(|it| it.wake_at == Some(at)) else {
            return Ok(());
        };
        it.wake_at = None;
        let Some(process) = it.process.as_mut() else {
            return Ok(());
        };
        let ready = process.runs_from(self.now);
        if ready > self.now {
            self.request(host, ready);
            return Ok(());
        }
        self.run_cycle(host)
    }

    fn run_cycle(&mut self, host: HostId) -> Result<(), Violation> {
        let next = self.with(host, |process, workload, cx| {
            process.run_cycle(cx, workload)
        });
        self.flush_outbox();
        if let Some(at) = next.transpose()?.flatten() {
            self.request(host, at);
        }
        self.reap(host)
    }

    /// Calls `act` with a host's process and all that a cycle may use.
    fn with<R>(
        &mut self,
        host: HostId,
        act: impl FnOnce(&mut Process, &mut Workload, &mut Context<'_>) -> R,
    ) -> Option<R> {
        self.cycles += 1;
        let it = self.hosts.get_mut(host)?;
        let process = it.process.as_mut()?;
        let mut cx = Context {
            now: self.now,
            oracle: &mut self.oracle,
            network: &self.network,
            nodes: &self.nodes,
            tally: &mut self.tally,
            trace: &mut self.trace,
            rng: &mut self.socket_rng,
            socket_full: if self.mended {
                0
            } else {
                self.options.socket_full
            },
            no_gso: if self.mended { 0 } else { self.options.no_gso },
            route_unknown: self.options.route_unknown,
            one_machine: self.options.one_machine,
            computes: self.options.computes,
            interrupts: self.options.interrupts,
            audit_all: self.nodes.len() <= AUDIT_ALL,
            mended: self.mended,
            sealed: self.options.sealed,
            order: &mut self.order,
            carriage: &mut self.carriage,
            outbox: &mut self.outbox,
        };
        Some(act(process, &mut it.workload, &mut cx))
    }

    /// Offers a message at once, outside the host's own workload; its token tells it apart.
    ///
    /// # Errors
    /// The promise that the engine's answer breaks.
    pub fn send(&mut self, host: HostId, spec: Spec) -> Result<Option<(Sent, u64)>, Failure> {
        let sent = self
            .with(host, |process, _, cx| process.send(cx, spec))
            .transpose();
        self.request(host, self.now);
        sent.map_err(|violation| Failure {
            at: self.now,
            violation,
        })
    }

    /// Returns a host's engine, if a process runs there.
    #[must_use]
    pub fn engine(&self, host: HostId) -> Option<&Engine> {
        self.hosts
            .get(host)?
            .process
            .as_ref()
            .map(|process| &process.engine)
    }

    /// Returns the membership of a host's process.
    #[must_use]
    pub fn member(&self, host: HostId) -> Option<&MemberProgram> {
        self.hosts.get(host)?.process.as_ref()?.member.as_ref()
    }

    /// Returns the bytes that a host's library must hold for its program, as seen from outside.
    #[must_use]
    pub fn held(&self, host: HostId) -> u64 {
        let process = self.hosts.get(host).and_then(|it| it.process.as_ref());
        process.map_or(0, |process| self.oracle.held(process.id))
    }

    /// Returns link and session events of a host's processes, the present one's last.
    #[must_use]
    pub fn events(&self, host: HostId) -> Vec<(Instant, Event)> {
        let Some(it) = self.hosts.get(host) else {
            return Vec::new();
        };
        let present = it.process.iter().flat_map(|process| process.log.iter());
        it.past.iter().chain(present).cloned().collect()
    }

    /// Sends a packet that no process made, from an address to another.
    pub fn inject(&mut self, packet: Packet) {
        self.tally.hostile += 1;
        self.outbox.push(packet);
        self.flush_outbox();
    }

    fn flush_outbox(&mut self) {
        let mut outbox = core::mem::take(&mut self.outbox);
        for packet in outbox.drain(..) {
            self.hostile.overhear(&packet);
            if self
                .filter
                .as_mut()
                .is_some_and(|filter| filter(self.now, &packet))
            {
                self.tally.lost += 1;
                self.note_loss(packet.sender, packet.to);
                continue;
            }
            let host = self.network.host_at(packet.to);
            if self.options.one_machine && host.is_some_and(|host| self.is_closed(host, &packet)) {
                self.report_unreachable(&packet);
            }
            let (sender, to) = (packet.sender, packet.to);
            let before = self.tally.not_in_time();
            // Time may have passed within its sender's cycle.
            let leaves = packet.sent_at.max(self.now);
            self.network
                .carry(leaves, packet, &mut self.tally, &mut self.arrivals);
            if self.tally.not_in_time() > before {
                self.note_loss(sender, to);
            }
        }
        self.outbox = outbox;
        let mut arrivals = core::mem::take(&mut self.arrivals);
        for (at, host, packet) in arrivals.drain(..) {
            self.queue.push(at, Due::Arrive(host, packet));
        }
        self.arrivals = arrivals;
    }

    /// Notes that a packet from a process to an address is lost, or will be late.
    fn note_loss(&mut self, sender: ProcId, to: SocketAddr) {
        let host = self.network.owner_of(to);
        let process = host.and_then(|host| self.hosts.get(host)?.process.as_ref());
        if let Some(process) = process {
            self.oracle.lost_between(sender, process.id);
        }
    }

    /// Returns true if the kernel of a host reports that no process has the port to which a packet
    /// came.
    fn is_closed(&mut self, host: HostId, packet: &Packet) -> bool {
        let absent = self.hosts.get(host).is_some_and(|it| it.process.is_none());
        let speaks = match self.options.port_unreachable {
            true => absent && self.rng.chance(300_000),
            false => absent && self.options.one_machine,
        };
        speaks && host != packet.source
    }

    /// The sender of a packet hears by ICMP that its destination is closed, and some later send of
    /// that process fails instead.
    fn report_unreachable(&mut self, packet: &Packet) {
        let host = self.hosts.get_mut(packet.source);
        let process = host.and_then(|host| host.process.as_mut());
        if let Some(process) = process.filter(|process| process.id == packet.sender) {
            if self.options.port_unreachable {
                process.unreachable = process.unreachable.saturating_add(1).min(3);
            }
            process.undelivered.push(packet.clone());
            let at = process.notices(self.now, &mut self.socket_rng);
            self.request(packet.source, at);
        }
    }

    fn arrive(&mut self, host: HostId, packet: Packet) -> Result<(), Violation> {
        let excused = self.is_excused(host, &packet);
        let meant_for_the_dead = self.is_meant_for_the_dead(host, &packet);
        if !self.options.one_machine && self.is_closed(host, &packet) {
            // The report takes the way back.
            let at = self.now + self.options.links.latency;
            self.queue.push(at, Due::Unreachable(packet));
            return Ok(());
        }
        let Some(it) = self.hosts.get_mut(host) else {
            return Ok(());
        };
        let Some(process) = it.process.as_mut() else {
            return Ok(());
        };
        let newest = it.newest.entry(packet.source).or_default();
        *newest = (*newest).max(packet.order);
        let facts = 7 ^ packet.order << 8;
        self.trace.note(
            self.now,
            facts,
            format_args!("packet {} arrives at process {}", packet.order, process.id),
        );
        if !meant_for_the_dead {
            self.oracle.arrived(self.now, process.id, &packet)?;
        }
        let (length, sender) = (packet.bytes.len(), packet.sender);
        let long = self.options.has_long_paths();
        let engine = &process.engine;
        let beyond = || if long { engine.share_stats().beyond } else { 0 };
        match process.socket.offer(self.now, packet, excused, beyond) {
            Fit::Queued => {
                let at = process.notices(self.now, &mut self.socket_rng);
                self.request(host, at);
                Ok(())
            }
            Fit::Excused => {
                self.tally.overrun_excused += 1;
                let id = process.id;
                self.oracle.lost_between(sender, id);
                Ok(())
            }
            Fit::Overrun => {
                let text = format!(
                    "the receive buffer of process {} had no room for {length} B of process {sender}",
                    process.id
                );
                Err(Violation {
                    kind: Kind::Overrun,
                    text,
                })
            }
        }
    }

    /// Buries a process whose engine closed, once it need not answer repeated CLOSEs any more.
    fn reap(&mut self, host: HostId) -> Result<(), Violation> {
        let now = self.now;
        let process = self.hosts.get_mut(host).and_then(|it| it.process.as_mut());
        if let Some(process) = process.filter(|process| process.engine.is_closed()) {
            if process.lingers_until.is_none() {
                self.oracle.closed_in_order(process.id)?;
            }
            let until = *process.lingers_until.get_or_insert(now + LINGER);
            if now < until && process.engine.next_timeout().is_some() {
                self.request(host, until);
                return Ok(());
            }
            let after = self
                .hosts
                .get_mut(host)
                .and_then(|it| it.restart_after.take());
            self.bury(host);
            self.restart(host, after.unwrap_or(Duration::from_millis(100)));
        }
        Ok(())
    }

    /// Removes the process of a host, with the content of its socket.
    pub(crate) fn bury(&mut self, host: HostId) -> Option<ProcId> {
        let it = self.hosts.get_mut(host)?;
        let mut process = it.process.take()?;
        it.past.append(&mut process.log);
        self.oracle.process_stopped(process.id, self.now);
        self.remote.lock().process_stopped(process.id);
        self.groups.lock().process_stopped(process.id);
        let node = self.nodes.get(host).copied().unwrap_or_default();
        self.matching.lock().process_stopped(process.id, node);
        let mut sockets = self.sockets.lock();
        sockets.process_stopped(process.id, node, self.now);
        drop(sockets);
        self.trace.note(
            self.now,
            8 ^ u64::from(process.id) << 8,
            format_args!("process {} is gone", process.id),
        );
        Some(process.id)
    }

    pub(crate) fn restart(&mut self, host: HostId, after: Duration) {
        self.queue.push(self.now + after, Due::Start(host));
    }
}

impl Host {
    fn new(options: &Options, nodes: &[u32], host: HostId, rng: &mut Rng) -> Self {
        let targets = targets(options, nodes, host, rng);
        let start = Instant::ZERO;
        let workload = Workload::new(options.seed, host, &targets, options.traffic.clone(), start);
        Self {
            process: None,
            workload,
            starts: 0,
            wake_at: None,
            restart_after: None,
            newest: BTreeMap::new(),
            past: Vec::new(),
        }
    }
}

/// Returns where the engine of a process asks for the places of messages.
fn placement_of(
    remote: &Option<RemoteProgram>,
    groups: &Option<GroupProgram>,
    matching: &Option<MatchingProgram>,
) -> PlacedBy {
    let remote = remote.as_ref().map(RemoteProgram::placement);
    let groups = groups.as_ref().map(GroupProgram::placement);
    let matching = matching.as_ref().map(MatchingProgram::placement);
    remote.or(groups).or(matching).unwrap_or_default()
}

fn cycled<T: Clone>(all: &[T], host: HostId) -> Option<T> {
    all.get(host % all.len().max(1)).cloned()
}
