//! One process: an engine, its socket, and a driver that keeps the driving contract.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use suci_layers::routes::{Behind, CARRIED};
use suci_proto::time::{Duration, Instant, earlier, nanos};
use suci_proto::types::{ChannelId, Kind as MessageKind, NodeId};
use suci_proto::{
    Engine, Event, Outgoing, Port, SendError, TX_BUDGET, TransmitResult, Undelivered, Unreachable,
};

use crate::groups::GroupProgram;
use crate::invariants::{self, Progress};
use crate::matching::MatchingProgram;
use crate::membership::MemberProgram;
use crate::network::Network;
use crate::options::{Consume, Drive};
use crate::oracle::{Oracle, Spec, Verdict, Violation};
use crate::packet::{Carried, Fate, HostId, Packet, ProcId};
use crate::remote::RemoteProgram;
use crate::report::Tally;
use crate::rng::Rng;
use crate::routes::{Carriage, RouteProgram};
use crate::scheduler::Scheduler;
use crate::socket::Socket;
use crate::sockets::SocketProgram;
use crate::tap;
use crate::trace::Trace;
use crate::workload::{RECENT, Sent, Workload};

mod input;
mod routes;

/// One in this many programs that could send their answer at once computes before...
const THINKS: u64 = 4;
/// ... for this long.
const THOUGHT: Duration = Duration::from_millis(5);
/// The time that a driver cycle takes, and each packet in it, so that no process is infinitely
/// fast.
const TURN_COST: Duration = Duration::from_micros(1);
const PACKET_COST: Duration = Duration::from_nanos(300);

/// Trains of one cycle; more means that the engine never stops.
const MAX_TRAINS: usize = 100_000;

/// Segments of one train, as the Linux driver allows.
const SEGMENTS: usize = 64;

/// The parts of the world around the process that a driver cycle may use.
pub struct Context<'a> {
    /// Virtual time.
    pub now: Instant,
    /// Sees everything.
    pub oracle: &'a mut Oracle,
    /// Asked for addresses and the largest packet.
    pub network: &'a Network,
    /// Node IDs by host.
    pub nodes: &'a [u32],
    /// Counts faults.
    pub tally: &'a mut Tally,
    /// Notes the events.
    pub trace: &'a mut Trace,
    /// Draws the faults of sockets.
    pub rng: &'a mut Rng,
    /// Parts per million of trains that the socket takes later.
    pub socket_full: u32,
    /// Parts per million of trains refused for being segmented.
    pub no_gso: u32,
    /// Parts per million of routes whose packet size cannot be found out.
    pub route_unknown: u32,
    /// True if a report of a closed port comes from the process's own kernel.
    pub one_machine: bool,
    /// True if programs compute now and then.
    pub computes: bool,
    /// True if time passes while a process reads its socket.
    pub interrupts: bool,
    /// True if all peers are audited in every cycle, or those that the cycle touched.
    pub audit_all: bool,
    /// True if the network is mended, and programs say their last word.
    pub mended: bool,
    /// True if packets are sealed.
    pub sealed: bool,
    /// Numbers the packets of the run.
    pub order: &'a mut u64,
    /// Packets on their way through others.
    pub carriage: &'a mut Carriage,
    /// Packets that left.
    pub outbox: &'a mut Vec<Packet>,
}

/// A process on a host.
pub struct Process {
    /// Its number in the run.
    pub id: ProcId,
    /// Its host.
    pub host: HostId,
    /// The engine under test.
    pub engine: Engine,
    /// Its receive buffer.
    pub socket: Socket,
    /// Its one-sided operations, if the run has some.
    pub remote: Option<RemoteProgram>,
    /// Its membership, if the run has a cluster.
    pub member: Option<MemberProgram>,
    /// Its groups, if it is a member of some.
    pub groups: Option<GroupProgram>,
    /// Its sockets, if the run has some.
    pub sockets: Option<SocketProgram>,
    /// Its receives, if the run has some.
    pub matching: Option<MatchingProgram>,
    /// Its routes, if not all hosts exchange packets.
    pub router: Option<RouteProgram>,
    /// How it is driven.
    pub drive: Drive,
    /// How its host runs it, if the host is busy.
    pub scheduler: Option<Scheduler>,
    /// How its program consumes.
    pub consume: Consume,
    /// The program takes nothing until then.
    pub consumes_from: Instant,
    /// For a node and channel, the token of the sequence of twins that ends with the last message
    /// sent there, and the number that the next one would have.
    sequences: BTreeMap<(u32, u32), (u64, u64)>,
    /// Node, channel and token in the library of the messages that it sent last, the newest first.
    recent: VecDeque<(u32, u32, u64)>,
    /// The process is stopped until then.
    pub paused_until: Instant,
    /// The process does nothing before then: it is busy.
    pub busy_until: Instant,
    /// Its engine closed: how long it answers repeated CLOSEs at most.
    pub lingers_until: Option<Instant>,
    /// Sends that fail with an error meant for an earlier one.
    pub unreachable: u32,
    /// Packets that a kernel reported as not delivered since the last cycle.
    pub undelivered: Vec<Packet>,
    /// Time at which it first heard of each process.
    pub heard: BTreeMap<ProcId, Instant>,
    /// A liar that knows its connections' tags lies to it, once.
    pub insider: bool,
    /// DATA packets that the engine took, undamaged.
    handed: BTreeSet<u64>,
    /// Packets that the socket did not take, and their contents. The oracle is told of them when
    /// they are new: when they are sent at last, another session may have messages of the same
    /// numbers.
    offered: Vec<(Bytes, Rc<[Carried]>)>,
    /// Link and session events, for scenario tests.
    pub log: Vec<(Instant, Event)>,
    max_segments: usize,
    blocked_until: Instant,
    /// Its driver stopped transmitting although more may go: the next cycle is due at once.
    tx_incomplete: bool,
    next_visit: Instant,
    progress: Progress,
    /// Nodes whose messages the program may hold back.
    pub withheld: BTreeSet<NodeId>,
    /// Nodes that the present cycle is about.
    touched: Vec<NodeId>,
    /// Cycles since all peers were audited.
    unaudited: usize,
}

impl Process {
    /// Returns a process that begins now.
    #[must_use]
    pub fn new(id: ProcId, host: HostId, engine: Engine, recv_buffer: u64, now: Instant) -> Self {
        Self {
            id,
            host,
            engine,
            socket: Socket::new(recv_buffer, now),
            remote: None,
            member: None,
            groups: None,
            sockets: None,
            matching: None,
            router: None,
            drive: Drive::Woken(Duration::from_micros(20)),
            scheduler: None,
            consume: Consume::Eager,
            consumes_from: now,
            sequences: BTreeMap::new(),
            recent: VecDeque::new(),
            paused_until: now,
            busy_until: now,
            lingers_until: None,
            unreachable: 0,
            undelivered: Vec::new(),
            heard: BTreeMap::new(),
            insider: false,
            handed: BTreeSet::new(),
            offered: Vec::new(),
            log: Vec::new(),
            max_segments: SEGMENTS,
            blocked_until: now,
            tx_incomplete: false,
            next_visit: now,
            progress: Progress::default(),
            withheld: BTreeSet::new(),
            touched: Vec::new(),
            unaudited: 0,
        }
    }

    /// Runs one cycle of the driving contract. Returns when the next one is due.
    ///
    /// # Errors
    /// The promise or invariant that broke.
    pub fn run_cycle(
        &mut self,
        cx: &mut Context<'_>,
        workload: &mut Workload,
    ) -> Result<Option<Instant>, Violation> {
        self.engine.begin_cycle(cx.now);
        self.stop_now_and_then(cx);
        let mut work = self.drain_socket(cx)?;
        let now = cx.now;
        let closes = self.serve_routes(cx)?;
        for packet in core::mem::take(&mut self.undelivered) {
            let report = Undelivered {
                to: packet.to,
                why: Unreachable::Port,
                local: cx.one_machine,
                quoted: &packet.bytes,
            };
            self.engine.on_undelivered(now, &report);
        }
        // As drivers do: work that is due without a deadline would never be done.
        if self.engine.next_timeout().is_some_and(|at| at <= now) {
            self.engine.handle_timeout(now);
        }
        let thinks = cx.computes && work > 0 && now.as_nanos().is_multiple_of(THINKS);
        if thinks && self.engine.defer_output(now) {
            // The program has its message, and computes before it calls again.
            self.busy_until = now + THOUGHT;
            return Ok(self.next_wake(Some(self.busy_until), true));
        }
        let listens = self.listens(now);
        if listens {
            work += self.consume(cx, workload)?;
        }
        workload.run(now, |spec| self.send(cx, spec).map(|(sent, _)| sent))?;
        self.run_remote(cx, listens)?;
        if let Some(member) = &mut self.member {
            member.serve(&mut self.engine, now);
        }
        self.run_groups(cx.now, listens)?;
        self.run_sockets(cx, listens)?;
        self.run_matching(cx, listens)?;
        self.routes(cx);
        self.tx_incomplete = listens && self.engine.output_yields(now);
        if !self.tx_incomplete {
            let copied = self.engine.counters().payload_copied;
            work += self.transmit(cx)?;
            // Messages to this node itself leave in no packet.
            work += usize::from(self.engine.counters().payload_copied > copied);
        }
        // The process may have been stopped while it transmitted.
        let now = cx.now;
        if self.tx_incomplete {
            self.engine.end_tx(now);
        }
        if listens {
            // Taking events last shows those that sending caused.
            self.events(cx, workload)?;
        }
        self.audit(cx)?;
        self.busy_until = now + TURN_COST + cost(work);
        let due = self.engine.next_timeout();
        let blocked = self.blocked_until > now;
        self.progress.check(now, due, blocked, work > 0)?;
        let next = earlier(self.next_due(now, due, workload), closes);
        Ok(self.next_wake(next, work > 0))
    }

    /// Lets time pass if the busy host stops the process here.
    fn stop_now_and_then(&self, cx: &mut Context<'_>) {
        let stop = match self.scheduler {
            Some(scheduler) if !cx.mended => scheduler.stop(cx.rng),
            _ => return,
        };
        cx.tally.interrupts += u64::from(!stop.is_zero());
        cx.now += stop;
    }

    /// Returns the first time from `at` on at which the process may run.
    #[must_use]
    pub fn runs_from(&self, at: Instant) -> Instant {
        let ready = at.max(self.paused_until).max(self.busy_until);
        let turn = |scheduler: Scheduler| scheduler.runs_from(self.host, ready);
        self.scheduler.map_or(ready, turn)
    }

    /// Returns when the program has something to do with one-sided operations or groups. It does
    /// nothing before its next visit.
    fn layers_due(&self, visit: Option<Instant>) -> Option<Instant> {
        let remote = self.remote.as_ref().and_then(RemoteProgram::wakes_at);
        let groups = self.groups.as_ref().and_then(GroupProgram::wakes_at);
        let sockets = self.sockets.as_ref().and_then(SocketProgram::wakes_at);
        let matching = self.matching.as_ref().and_then(MatchingProgram::wakes_at);
        let layers = remote.into_iter().chain(groups).chain(sockets);
        let at = layers.chain(matching).min()?;
        Some(at.max(visit.unwrap_or(at)))
    }

    /// Carries the operations of groups on; the program goes on if it listens.
    fn run_groups(&mut self, now: Instant, listens: bool) -> Result<(), Violation> {
        let Some(groups) = &mut self.groups else {
            return Ok(());
        };
        groups.serve(&mut self.engine, now);
        match listens {
            true => groups.run(&mut self.engine, now),
            false => Ok(()),
        }
    }

    /// Serves sockets; the program uses them if it listens.
    fn run_sockets(&mut self, cx: &Context<'_>, listens: bool) -> Result<(), Violation> {
        let Some(sockets) = &mut self.sockets else {
            return Ok(());
        };
        sockets.serve(&mut self.engine, cx.now);
        match listens {
            true => sockets.run(&mut self.engine, cx.now, cx.nodes),
            false => Ok(()),
        }
    }

    /// Gives messages to receives; the program posts more if it listens.
    fn run_matching(&mut self, cx: &Context<'_>, listens: bool) -> Result<(), Violation> {
        let Some(matching) = &mut self.matching else {
            return Ok(());
        };
        matching.serve(&mut self.engine);
        match listens {
            true => matching.run(&mut self.engine, cx.now, cx.nodes),
            false => Ok(()),
        }
    }

    /// Serves one-sided operations; the program begins some if it listens.
    fn run_remote(&mut self, cx: &Context<'_>, listens: bool) -> Result<(), Violation> {
        let Some(remote) = &mut self.remote else {
            return Ok(());
        };
        remote.serve(&mut self.engine, cx.now)?;
        if listens {
            remote.run(&mut self.engine, cx.now, cx.nodes, cx.mended)?;
        }
        Ok(())
    }

    /// Returns when the next cycle is wanted. The engine wants one at `due`.
    fn next_due(&self, now: Instant, due: Option<Instant>, workload: &Workload) -> Option<Instant> {
        let blocked = self.blocked_until > now;
        let due = if blocked {
            due.map(|at| at.max(self.blocked_until))
        } else {
            due
        };
        let visit = self.next_visit.max(self.consumes_from);
        let visit = (visit > now).then_some(visit);
        let retry = blocked.then_some(self.blocked_until);
        let input = self.engine.has_port_input(Port::Remote) || self.has_socket_input();
        let more = self.tx_incomplete || input;
        let rest = more.then_some(self.busy_until);
        [
            due,
            workload.next_at(),
            self.layers_due(visit),
            self.member.as_ref().map(MemberProgram::next_at),
            self.sockets.as_ref().and_then(SocketProgram::serves_at),
            visit,
            retry,
            rest,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns true if messages of sockets wait for the layer, or messages for receives.
    fn has_socket_input(&self) -> bool {
        let matching = self.matching.is_some() && self.engine.has_port_input(Port::Matching);
        matching || self.sockets.is_some() && self.engine.has_port_input(Port::Sockets)
    }

    /// Audits the peers that this cycle touched, or all of them.
    fn audit(&mut self, cx: &Context<'_>) -> Result<(), Violation> {
        self.unaudited += 1;
        let mut touched = core::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        if cx.audit_all || self.unaudited >= cx.nodes.len() {
            self.unaudited = 0;
            return invariants::audit(&self.engine, cx.now);
        }
        invariants::audit_peers(&self.engine, cx.now, &touched)
    }

    /// Returns the time of the next cycle, which is wanted at `next`.
    fn next_wake(&self, next: Option<Instant>, worked: bool) -> Option<Instant> {
        let after = self.busy_until;
        match self.drive {
            Drive::Woken(_) => next.map(|at| at.max(after)),
            // Polls that find nothing to do change nothing, so only the one after work and the one
            // that finds something are made.
            Drive::Polls(period) if worked => Some(on_grid(after, period)),
            Drive::Polls(period) => next.map(|at| on_grid(at.max(after), period)),
        }
    }

    /// Returns the time at which the process notices a packet that arrives now.
    pub fn notices(&self, now: Instant, rng: &mut Rng) -> Instant {
        let after = self.busy_until.max(self.paused_until);
        match self.drive {
            Drive::Woken(delay) => {
                let delay = Duration::from_nanos(rng.range(0, nanos(delay).max(1)));
                (now + delay).max(after)
            }
            Drive::Polls(period) => on_grid(now.max(after), period),
        }
    }

    /// Returns true if its program takes events in every cycle, and so knows all that its library
    /// knows.
    fn hears_all(&self, now: Instant) -> bool {
        self.consume == Consume::Eager && self.consumes_from <= now
    }

    /// Returns the token that a message has for the engine: its own, or of a twin the one of those
    /// before it.
    fn sequence_token(&self, spec: &Spec, own: u64) -> u64 {
        let sequence = self.sequences.get(&(spec.to, spec.channel));
        sequence
            .filter(|_| spec.twin)
            .map_or(own, |(first, _)| *first)
    }

    /// Notes the number of a message. Any other message in between ends a sequence of twins, and no
    /// sequence begins with a session: its messages are then told apart by their numbers.
    fn extend_sequence(&mut self, spec: &Spec, own: u64, number: u64) {
        let key = (spec.to, spec.channel);
        let sequence = self.sequences.remove(&key).filter(|_| spec.twin);
        let next = match sequence {
            Some((first, expected)) if expected == number => Some(first),
            Some(_) => None,
            None => Some(own).filter(|_| spec.twin && number > 0),
        };
        if let Some(first) = next {
            self.sequences.insert(key, (first, number + 1));
        }
    }

    /// Offers one message; its token comes back with the answer.
    ///
    /// # Errors
    /// The promise that the engine's answer breaks.
    pub fn send(&mut self, cx: &mut Context<'_>, spec: Spec) -> Result<(Sent, u64), Violation> {
        self.touched.push(NodeId(spec.to));
        let name = cx.oracle.draft(self.id, &spec);
        let message = Outgoing {
            channel: ChannelId(spec.channel),
            tag: if spec.tagged { name.tag() } else { 0 },
            kind: MessageKind(spec.kind),
            user_header: name.header(spec.header),
            payload: name.payload(spec.length),
            notify: spec.notify,
            token: self.sequence_token(&spec, name.token),
            deadline: spec.deadline,
        };
        let token = message.token;
        match self.engine.send(cx.now, NodeId(spec.to), message) {
            Ok(number) => {
                self.extend_sequence(&spec, name.token, number);
                cx.trace.note(
                    cx.now,
                    1 ^ number << 8,
                    format_args!(
                        "process {} sends {number} on {} to node {}: {} B, token {}",
                        self.id, spec.channel, spec.to, spec.length, name.token
                    ),
                );
                cx.oracle.accepted(cx.now, name, spec, number)?;
                if self.hears_all(cx.now) {
                    cx.oracle.check_accepted(self.id, spec.to, number)?;
                }
                self.recent.push_front((spec.to, spec.channel, token));
                self.recent.truncate(usize::from(RECENT));
                if let Some(before) = spec.cancel {
                    self.cancel(cx, before)?;
                }
                Ok((Sent::Accepted, name.token))
            }
            Err(SendError::WouldBlock(message)) => {
                if let Some(class) = self.engine.want_room(NodeId(spec.to), &message) {
                    cx.oracle.wants_room(self.id, spec.to, class);
                }
                Ok((Sent::Blocked, name.token))
            }
            Err(SendError::Unread(_) | SendError::Suspended { .. }) => {
                Ok((Sent::Blocked, name.token))
            }
            Err(_) => Ok((Sent::Refused, name.token)),
        }
    }

    /// Cancels the message sent `before` messages before the last one.
    fn cancel(&mut self, cx: &mut Context<'_>, before: u8) -> Verdict {
        let Some(&(to, channel, token)) = self.recent.get(usize::from(before)) else {
            return Ok(());
        };
        self.touched.push(NodeId(to));
        // A node that it does not know any more is none of its business.
        let cancelled = self.engine.cancel(NodeId(to), ChannelId(channel), token);
        let count = cancelled.unwrap_or(0);
        cx.trace.note(
            cx.now,
            11 ^ count << 8,
            format_args!(
                "process {} cancels token {token} on {channel} to node {to}: {count} messages",
                self.id
            ),
        );
        cx.oracle.cancelled(self.id, to, channel, token, count)
    }

    /// Returns true if the program takes messages and events now. Otherwise both stay in the
    /// engine, which must bound them.
    fn listens(&self, now: Instant) -> bool {
        let visits = match self.consume {
            Consume::Eager => true,
            Consume::Slow { .. } => self.next_visit <= now,
        };
        visits && self.consumes_from <= now
    }

    /// Takes messages as this program does, and every event before and between them: `Ended` stands
    /// between the messages of two sessions.
    fn consume(
        &mut self,
        cx: &mut Context<'_>,
        workload: &mut Workload,
    ) -> Result<usize, Violation> {
        let mut left = match self.consume {
            Consume::Eager => usize::MAX,
            Consume::Slow { period, count } => {
                self.next_visit = cx.now + period;
                count as usize
            }
        };
        let mut taken = 0;
        loop {
            self.events(cx, workload)?;
            if left == 0 {
                return Ok(taken);
            }
            let Some((source, message)) = self.engine.recv() else {
                return Ok(taken);
            };
            let node = source.node;
            left -= 1;
            taken += 1;
            self.touched.push(node);
            cx.trace.note(
                cx.now,
                2 ^ message.number << 8,
                format_args!(
                    "process {} receives {} on {} from node {node}: {} B",
                    self.id,
                    message.number,
                    message.channel.0,
                    message.payload.len()
                ),
            );
            cx.oracle.received(self.id, source, &message)?;
            workload.received(node.0, message.channel.0, message.kind.0);
        }
    }

    fn events(&mut self, cx: &mut Context<'_>, workload: &mut Workload) -> Result<(), Violation> {
        while let Some(event) = self.engine.poll_event() {
            cx.trace.note(
                cx.now,
                3,
                format_args!("process {} event {event:?}", self.id),
            );
            cx.oracle.event(self.id, &event)?;
            if let Some(sockets) = &self.sockets {
                sockets.event(&event, cx.now);
            }
            if let Some(matching) = &self.matching {
                matching.event(&event);
            }
            if let Event::Incoming {
                node,
                channel,
                number,
                total,
                ..
            } = event
            {
                self.incoming(cx, workload, node, channel, number, total);
            }
            if !matches!(event, Event::Delivered { .. } | Event::Incoming { .. }) {
                self.log.push((cx.now, event));
            }
        }
        Ok(())
    }

    /// Answers an `Incoming` event: refused, or taken into a buffer. The session may be over by
    /// now, which the engine says.
    fn incoming(
        &mut self,
        cx: &mut Context<'_>,
        workload: &mut Workload,
        node: NodeId,
        channel: ChannelId,
        number: u64,
        total: u64,
    ) {
        if workload.refuses() {
            if self.engine.refuse(node, channel, number, 7).is_ok() {
                cx.oracle.refused(self.id, node, channel.0, number);
            }
            return;
        }
        let room = usize::try_from(total).unwrap_or(usize::MAX).min(1 << 26);
        let buffer = vec![0; room];
        let taken = self
            .engine
            .accept(node, channel, number, Some(buffer.into()));
        cx.trace.note(
            cx.now,
            4,
            format_args!(
                "process {} accepts {number} of node {node}: {taken:?}",
                self.id
            ),
        );
    }

    /// Answers queries for the packet size of the first hop; some systems cannot tell.
    fn routes(&mut self, cx: &mut Context<'_>) {
        while let Some(query) = self.engine.poll_route() {
            let known = !cx.rng.chance(cx.route_unknown);
            let mtu = known.then_some(cx.network.links.route_mtu);
            let mtu = Behind::at(query.address).map_or(mtu, |_| Some(CARRIED));
            self.engine.set_route_mtu(query, mtu);
        }
    }

    /// Sends packets for as long as one output of a driver lasts.
    fn transmit(&mut self, cx: &mut Context<'_>) -> Result<usize, Violation> {
        if self.blocked_until > cx.now {
            return Ok(0);
        }
        let mut packets = 0;
        for _ in 0..MAX_TRAINS {
            let Some(transmit) = self.engine.poll_transmit(cx.now, self.max_segments) else {
                return Ok(packets);
            };
            let train = Train {
                built_at: cx.now,
                to: transmit.dest,
                ecn: transmit.ecn,
                segment: transmit.segment,
                segments: transmit.segments,
                bytes: {
                    let mut bytes = Vec::with_capacity(transmit.len);
                    transmit.copy_to(&mut bytes);
                    Bytes::from(bytes)
                },
            };
            invariants::train(&train, self.max_segments)?;
            self.stop_now_and_then(cx);
            if let Some(behind) = Behind::at(train.to) {
                packets += self.transmit_routed(cx, &train, behind)?;
                continue;
            }
            let result = self.verdict(cx, &train);
            packets += self.release(cx, &train, result)?;
            self.engine.transmit_done(cx.now, result);
            if result == TransmitResult::Again {
                return Ok(packets);
            }
            if cost(packets) > TX_BUDGET && self.engine.has_output() {
                self.tx_incomplete = true;
                return Ok(packets);
            }
        }
        Err(invariants::endless(self.id))
    }

    /// Returns the socket's answer to a train.
    fn verdict(&mut self, cx: &mut Context<'_>, train: &Train) -> TransmitResult {
        let result = if self.unreachable > 0 {
            self.unreachable -= 1;
            TransmitResult::Unreachable(Unreachable::Port)
        } else if cx.rng.chance(cx.socket_full) {
            self.blocked_until = cx.now + Duration::from_micros(cx.rng.range(10, 1_000));
            TransmitResult::Again
        } else if train.segments > 1 && cx.rng.chance(cx.no_gso) {
            self.max_segments = 1;
            TransmitResult::NoGso
        } else if cx.network.links.mtu_announced && train.segment > cx.network.links.mtu {
            TransmitResult::TooBig
        } else if train.segments > 1 && cx.rng.chance(cx.socket_full) {
            TransmitResult::Sent(cx.rng.index(1, train.segments))
        } else {
            return TransmitResult::Sent(train.segments);
        };
        cx.tally.refused_sends += 1;
        result
    }

    /// Cuts a train into packets, as far as the socket took it, and lets the tap read them.
    fn release(
        &mut self,
        cx: &mut Context<'_>,
        train: &Train,
        result: TransmitResult,
    ) -> Result<usize, Violation> {
        let taken = if let TransmitResult::Sent(segments) = result {
            segments
        } else {
            0
        };
        let owner = cx.network.owner_of(train.to);
        let node = owner.and_then(|host| cx.nodes.get(host)).copied();
        self.touched.extend(node.map(NodeId));
        let offered = core::mem::take(&mut self.offered);
        for (index, bytes) in train.cut().enumerate() {
            let seen = tap::seen(&bytes, cx.sealed);
            let before = offered.iter().find(|(known, _)| *known == bytes);
            let carries = before.map_or_else(
                || self.carried(cx, tap::target(&bytes).or(node), &seen),
                |(_, carries)| Rc::clone(carries),
            );
            // An INIT is repeated as it was.
            let built_now = before.is_none() && bytes.first() == Some(&tap::DATA);
            let judged = built_now && self.hears_all(cx.now);
            if let Some(node) = node.filter(|_| judged) {
                cx.oracle.check_flow(self.id, node, &carries)?;
            }
            let built_at = built_now.then_some(train.built_at);
            cx.oracle.check_withdrawn(built_at, &carries)?;
            cx.oracle.sent(&carries, index < taken);
            if index >= taken {
                self.offered.push((bytes, carries));
                continue;
            }
            *cx.order += 1;
            cx.trace.note(
                cx.now,
                5 ^ (bytes.len() as u64) << 8,
                format_args!(
                    "process {} -> {} packet {}, {} B: {}",
                    self.id,
                    train.to,
                    *cx.order,
                    bytes.len(),
                    tap::Described(&seen)
                ),
            );
            cx.outbox.push(Packet {
                bytes,
                seen,
                from: cx.network.address(self.host),
                to: train.to,
                source: self.host,
                sender: self.id,
                sent_at: cx.now,
                order: *cx.order,
                ecn: train.ecn,
                carries,
                fate: Fate::default(),
            });
        }
        Ok(taken)
    }

    /// Returns the parts of the run's messages that a new packet to a node carries.
    fn carried(&self, cx: &Context<'_>, node: Option<u32>, bytes: &Bytes) -> Rc<[Carried]> {
        let Some(node) = node else {
            return Rc::default();
        };
        let parts = tap::parts(bytes).into_iter();
        parts
            .filter_map(|part| cx.oracle.identify(self.id, node, part))
            .collect()
    }
}

/// A train as the socket sees it.
#[derive(Debug)]
pub struct Train {
    /// When it was built.
    pub built_at: Instant,
    /// Destination.
    pub to: SocketAddr,
    /// Mark.
    pub ecn: suci_proto::types::Ecn,
    /// Bytes per segment.
    pub segment: usize,
    /// Segments.
    pub segments: usize,
    /// The bytes of all segments.
    pub bytes: Bytes,
}

impl Train {
    fn cut(&self) -> impl Iterator<Item = Bytes> {
        (0..self.segments).map(|index| {
            let start = (index * self.segment).min(self.bytes.len());
            let end = (start + self.segment).min(self.bytes.len());
            self.bytes.slice(start..end)
        })
    }
}

/// Returns the time that a process takes for this many packets.
fn cost(packets: usize) -> Duration {
    PACKET_COST * u32::try_from(packets).unwrap_or(u32::MAX)
}

/// Returns the first multiple of `period` at `at` or after.
fn on_grid(at: Instant, period: Duration) -> Instant {
    let period = nanos(period).max(1);
    Instant::from_nanos(at.as_nanos().div_ceil(period).saturating_mul(period))
}
