//! Whole engines, seen from inside, over a network that delivers at once and remembers every
//! packet.

mod contact;
mod ends;
mod event_queue;
mod groups;
mod hostile;
mod hostile_handshakes;
mod idle;
mod itself;
mod last_look;
mod need;
mod node_keys;
mod packet_sequences;
mod packet_sizes;
mod peer_slots;
mod ports;
mod provoked;
mod sealed;
mod sessions;
mod strangers;
mod trains;
mod versions;

use super::*;
use crate::credit::{SendCredit, Shares, SocketCredit};
use crate::error::SendError;
use crate::event::Event;
use crate::{AcceptPolicy, Outgoing};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use suci_channels::message::{SMALL, SmallOutgoing};
use suci_channels::port::{Port, Ports};
use suci_link::limits::CREDIT_LAPSE;
use suci_link::security::Security;
use suci_link::time::Duration;
use suci_link::types::{ChannelId, Ecn, Incarnation, Kind, MessageNumber, SessionNumber};
use suci_link::wire::{CrcScope, Header, Mode};
use toy_cipher::{RecordingHandshakes, SealLedger};

const BUFFER: u64 = 8 << 20;
const SECOND: Duration = Duration::from_secs(1);

/// The steps in which time passes.
const STEP: Duration = Duration::from_millis(10);

/// A packet in transit: sender, receiver, and its bytes.
#[derive(Clone)]
struct Packet {
    from: usize,
    to: usize,
    bytes: Vec<u8>,
}

impl Packet {
    fn is(&self, kind: PacketType) -> bool {
        self.header().kind == kind
    }

    fn header(&self) -> Header {
        wire::open(&self.bytes).unwrap().0
    }
}

struct World {
    now: Instant,
    engines: Vec<Engine>,
    starts: u128,
    /// Every packet that was sent, in order.
    seen: Vec<Packet>,
    /// UDP payload that the routes of each host carry, if its driver answers.
    routes: BTreeMap<usize, usize>,
    /// Protection of the hosts that start; plain where there is none.
    security: BTreeMap<usize, Security>,
    /// The ports of each host.
    ports: Ports,
    ledger: SealLedger,
}

fn address(host: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 1_000 + host as u16))
}

/// The event that session `number` with `host` is up.
fn up(host: usize, number: u32) -> Event {
    Event::Up {
        node: id(host),
        session: SessionNumber(number),
    }
}

fn id(host: usize) -> NodeId {
    NodeId(host as u32 + 1)
}

fn message(payload: &'static [u8]) -> Outgoing {
    Outgoing {
        channel: ChannelId(0),
        tag: 0,
        kind: Kind::USER,
        user_header: Bytes::new(),
        payload: Bytes::from_static(payload),
        notify: false,
        token: 0,
        deadline: None,
    }
}

impl World {
    fn new(count: usize) -> Self {
        let mut world = Self {
            now: Instant::ZERO + SECOND,
            engines: Vec::new(),
            starts: 0,
            seen: Vec::new(),
            routes: BTreeMap::new(),
            security: BTreeMap::new(),
            ports: Ports::default(),
            ledger: SealLedger::default(),
        };
        for host in 0..count {
            let engine = world.start(host, count, BUFFER);
            world.engines.push(engine);
        }
        world
    }

    fn start(&mut self, host: usize, count: usize, buffer: u64) -> Engine {
        self.starts += 1;
        let identity = Identity {
            node: id(host),
            incarnation: Incarnation(self.starts),
        };
        let config = Config {
            accept: AcceptPolicy::Anyone,
            security: self.security.get(&host).cloned().unwrap_or_default(),
            ports: self.ports,
            ..Config::default()
        };
        let seed = [self.starts as u8; 32];
        let mut engine = Engine::new(config, identity, seed, buffer, self.now).unwrap();
        for other in (0..count).filter(|other| *other != host) {
            engine
                .add_peer(self.now, id(other), address(other))
                .unwrap();
        }
        engine
    }

    /// Handshakes of a node with these cluster keys.
    fn cluster(&self, keys: &[u64]) -> Security {
        let makes = RecordingHandshakes::new(self.ledger.clone(), keys);
        Security::Sealed(Arc::new(makes))
    }

    /// The process is killed and starts again.
    fn restart(&mut self, host: usize) {
        self.engines[host] = self.start(host, self.engines.len(), BUFFER);
    }

    /// Replaces `host` by a node with an empty book that admits strangers.
    fn set_up_server(&mut self, host: usize, buffer: u64, config: Config) {
        let identity = Identity {
            node: id(host),
            incarnation: Incarnation(100),
        };
        let config = Config {
            accept: AcceptPolicy::Anyone,
            ..config
        };
        self.engines[host] = Engine::new(config, identity, [9; 32], buffer, self.now).unwrap();
    }

    fn send(&mut self, from: usize, to: usize) -> Result<MessageNumber, SendError> {
        self.engines[from].send(self.now, id(to), message(b"hello"))
    }

    /// The packets that leave `host` now.
    fn outgoing(&mut self, host: usize) -> Vec<Packet> {
        let (now, engine) = (self.now, &mut self.engines[host]);
        let mut packets = Vec::new();
        while let Some(query) = engine.poll_route() {
            if let Some(mtu) = self.routes.get(&host) {
                engine.set_route_mtu(query, Some(*mtu));
            }
        }
        while let Some(transmit) = engine.poll_transmit(now, 64) {
            let mut bytes = Vec::new();
            transmit.copy_to(&mut bytes);
            let (dest, segment, segments) = (transmit.dest, transmit.segment, transmit.segments);
            engine.transmit_done(now, TransmitResult::Sent(segments));
            packets.extend(bytes.chunks(segment).map(|bytes| Packet {
                from: host,
                to: usize::from(dest.port()) - 1_000,
                bytes: bytes.to_vec(),
            }));
        }
        engine.audit(now).unwrap();
        packets
    }

    /// Delivers a PING from 1 to 0, made without the engine of 1 and padded to at least `size`
    /// bytes.
    fn deliver_ping(&mut self, size: usize) {
        let connection = self.peer(0, 1).connection.as_ref().unwrap();
        let number = connection.grant.drained_end();
        self.deliver_ping_of(number, size);
    }

    /// The same under this number.
    fn deliver_ping_of(&mut self, number: u64, size: usize) {
        let connection = self.peer(0, 1).connection.as_ref().unwrap();
        let header = Header {
            kind: PacketType::Data,
            scope: CrcScope::Datagram,
            index: connection.link.local.index,
            number,
            tag: connection.link.local.tag,
        };
        let mut bytes = Vec::new();
        suci_link::wire::put_header(&mut bytes, &header);
        bytes.push(1);
        bytes.resize(bytes.len().max(size), 0);
        suci_link::wire::seal(&mut bytes);
        let (from, to) = (1, 0);
        self.deliver(&Packet { from, to, bytes });
    }

    fn deliver(&mut self, packet: &Packet) {
        let arrival = Arrival {
            to: None,
            from: address(packet.from),
            ecn: Ecn::NotEct,
            at: self.now,
        };
        if let Some(engine) = self.engines.get_mut(packet.to) {
            engine.handle_datagram(self.now, &arrival, &mut packet.bytes.clone());
            engine.audit(self.now).unwrap();
        }
    }

    /// Delivers everything until nothing more is sent.
    fn settle(&mut self) {
        self.settle_but(|_| false);
    }

    /// The same, but for the packets that are `lost`.
    fn settle_but(&mut self, lost: impl Fn(&Packet) -> bool) {
        for _ in 0..1_000 {
            let hosts = 0..self.engines.len();
            let packets: Vec<_> = hosts.flat_map(|host| self.outgoing(host)).collect();
            if packets.is_empty() {
                return;
            }
            self.now += Duration::from_micros(50);
            let arriving = packets.iter().filter(|packet| !lost(packet));
            arriving.for_each(|packet| self.deliver(packet));
            self.seen.extend(packets);
        }
        panic!("packets without end");
    }

    /// Lets `span` pass, in small steps.
    fn run(&mut self, span: Duration) {
        self.run_but(span, |_| false);
    }

    /// The same, but for the packets that are `lost`.
    fn run_but(&mut self, span: Duration, lost: impl Fn(&Packet) -> bool) {
        let end = self.now + span;
        self.settle_but(&lost);
        while self.now < end {
            self.pass(STEP.min(end.since(self.now)));
            self.settle_but(&lost);
        }
    }

    /// Lets `span` pass at once. Nothing is sent.
    fn pass(&mut self, span: Duration) {
        self.now += span;
        for engine in &mut self.engines {
            engine.begin_cycle(self.now);
            // As drivers do.
            if engine.next_timeout().is_some_and(|at| at <= self.now) {
                engine.handle_timeout(self.now);
            }
        }
    }

    fn peer(&mut self, host: usize, other: usize) -> &mut Peer {
        let key = self.engines[host].peer_key(id(other)).unwrap();
        self.engines[host].peers.get_mut(key).unwrap()
    }

    fn received(&mut self, host: usize) -> usize {
        let engine = &mut self.engines[host];
        core::iter::from_fn(|| engine.recv()).count()
    }

    fn events(&mut self, host: usize) -> Vec<Event> {
        let engine = &mut self.engines[host];
        core::iter::from_fn(|| engine.poll_event()).collect()
    }
}

/// Both ends get another address, and only the first packet still goes to an old one: responses go
/// to the addresses that challenges came from.
#[test]
fn f13_both_ends_move_at_once() {
    let mut world = World::new(2);
    world.send(0, 1).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(1), 1);
    world.send(0, 1).unwrap();
    let mut first = true;
    for _ in 0..400 {
        for host in 0..2 {
            for mut packet in world.outgoing(host) {
                packet.from += 10;
                packet.to = match packet.to {
                    moved @ 10.. => moved - 10,
                    old if core::mem::take(&mut first) => old,
                    _ => continue,
                };
                world.deliver(&packet);
            }
        }
        world.pass(STEP);
    }
    for (host, other) in [(0, 1), (1, 0)] {
        let path = world.peer(host, other).path_address();
        assert_eq!(path, Some(address(other + 10)));
    }
    assert_eq!(world.received(1), 1);
}

/// Two connected hosts.
fn connected() -> World {
    let mut world = World::new(2);
    for _ in 0..2 {
        for (from, to) in [(0, 1), (1, 0)] {
            world.send(from, to).unwrap();
            world.run(SECOND);
            assert_eq!(world.received(to), 1);
        }
    }
    world
}

/// Two connected hosts; the second has a message that its program did not take.
fn with_a_message() -> World {
    let mut world = connected();
    world.send(0, 1).unwrap();
    let packets = world.outgoing(0);
    packets.iter().for_each(|packet| world.deliver(packet));
    world
}

/// The answer carries the acknowledgement, so no packet has to be sent before it.
#[test]
fn the_program_gets_its_message_before_anything_is_sent() {
    let mut world = with_a_message();
    let now = world.now;
    assert!(world.engines[1].defer_output(now));
    assert_eq!(world.received(1), 1);
    assert!(
        !world.engines[1].defer_output(now),
        "there is none any more"
    );
    world.send(1, 0).unwrap();
    assert_eq!(world.outgoing(1).len(), 1, "answer and acknowledgement");
}

#[test]
fn urgent_output_is_sent_before_the_program_gets_its_message() {
    let mut world = with_a_message();
    let now = world.now;
    world
        .peer(1, 0)
        .connection
        .as_mut()
        .unwrap()
        .link
        .pending
        .ping = true;
    assert!(!world.engines[1].defer_output(now), "a probe");

    let mut world = with_a_message();
    world.engines[1].add_peer(now, id(7), address(7)).unwrap();
    world.send(1, 7).unwrap();
    assert!(!world.engines[1].defer_output(now), "another peer");

    let mut world = with_a_message();
    world.send(1, 0).unwrap();
    assert!(!world.engines[1].defer_output(now), "a message");

    let mut world = with_a_message();
    world.engines[1].close_peer(now, id(0), SECOND).unwrap();
    assert!(!world.engines[1].defer_output(now), "the end");

    // A large message asks in the same packet.
    let mut world = connected();
    let body = Outgoing {
        payload: Bytes::from(vec![1; 1 << 24]),
        ..message(b"")
    };
    world.send(0, 1).unwrap();
    world.engines[0].send(now, id(1), body).unwrap();
    let packets = world.outgoing(0);
    packets.iter().for_each(|packet| world.deliver(packet));
    assert!(!world.engines[1].defer_output(now), "CTS");

    let mut world = with_a_message();
    let path = &mut world.peer(1, 0).connection.as_mut().unwrap().link.path;
    path.heard_from(address(9), || 5, now);
    assert!(
        !world.engines[1].defer_output(now),
        "an address to validate"
    );
}

/// F16: the acknowledgement was due while the program computed with its message in hand.
#[test]
fn f16_time_computed_before_the_answer_is_a_gap_if_something_was_due() {
    for (time, gaps) in [(SECOND / 1_000, 0), (5 * SECOND, 1)] {
        let mut world = with_a_message();
        let now = world.now;
        assert!(world.engines[1].defer_output(now));
        world.now += time;
        let now = world.now;
        world.engines[1].begin_cycle(now);
        assert_eq!(world.engines[1].counters().gaps, gaps);
    }
}

/// F16: a program that polls once a second is late each time, but still finds out that the peer is
/// silent.
#[test]
fn f16_a_program_that_is_always_late_still_notices_dead_peers() {
    let mut world = connected();
    world.send(0, 1).unwrap();
    let begun = world.now;
    let lost = loop {
        let now = world.now;
        assert!(now < begun + 200 * SECOND, "it never does");
        world.engines[0].begin_cycle(now);
        world.engines[0].handle_timeout(now);
        // No packet arrives.
        world.outgoing(0);
        if let Some(event @ Event::Lost { .. }) = world.engines[0].poll_event() {
            break event;
        }
        world.now += SECOND;
    };
    assert_eq!(lost.node(), id(1));
    assert!(world.engines[0].counters().gaps > 2);
}

/// F16: a driver that stopped in the middle of sending, and is not back at once, was held up.
#[test]
fn f16_a_driver_that_stops_early_and_returns_late_was_held_up() {
    let mut world = connected();
    world.run(SECOND);
    let engine = &mut world.engines[0];
    let before = engine.counters().gaps;
    for (away, gaps) in [(Duration::from_millis(90), 0), (SECOND, 1)] {
        engine.begin_cycle(world.now);
        engine.end_tx(world.now);
        world.now += away;
        engine.begin_cycle(world.now);
        assert_eq!(engine.counters().gaps, before + gaps, "{away:?}");
    }
}

/// If a packet may go only after a pause, a challenge waits for its turn, and then takes every
/// other packet.
#[test]
fn f13_f21_a_challenge_beyond_the_reserve_waits_for_its_turn() {
    let mut world = with_a_message();
    let now = world.now;
    let connection = world.peer(1, 0).connection.as_mut().unwrap();
    let number = connection.link.numbers.peek().unwrap();
    let one = SocketCredit {
        generation: 0,
        limit: 0,
        control: 1,
    };
    connection.link.credit = SendCredit::new(number - 2, one, now);
    connection.link.credit.on_sent(number - 1, now, false);
    connection.link.path.heard_from(address(9), || 5, now);
    let key = world.engines[1].peer_key(id(0)).unwrap();
    world.engines[1].touch(key);
    assert_eq!(world.outgoing(1).len(), 0);
    assert_eq!(world.engines[1].next_timeout(), Some(now + SECOND / 4));
    for to in [9, 0, 9, 0] {
        world.now += CREDIT_LAPSE;
        let now = world.now;
        world.engines[1].begin_cycle(now);
        world.engines[1].handle_timeout(now);
        let packets = world.outgoing(1);
        let destinations: Vec<_> = packets.iter().map(|packet| packet.to).collect();
        assert_eq!(destinations, [to]);
    }
}

/// A path that drops packets with an ECN mark does not take the few numbers beyond the limit.
#[test]
fn f21_no_packet_beyond_the_limit_has_a_mark() {
    for (limit, ecn) in [(100, Ecn::Ect0), (0, Ecn::NotEct)] {
        let mut world = connected();
        let now = world.now;
        let connection = world.peer(1, 0).connection.as_mut().unwrap();
        let number = connection.link.numbers.peek().unwrap();
        let credit = SocketCredit {
            generation: 0,
            limit,
            control: 2,
        };
        connection.link.credit = SendCredit::new(number - 1, credit, now);
        connection.link.pending.ping = true;
        let key = world.engines[1].peer_key(id(0)).unwrap();
        world.engines[1].touch(key);
        let transmit = world.engines[1].poll_transmit(now, 1).unwrap();
        assert_eq!(transmit.ecn, ecn, "limit {limit}");
    }
}

/// After a long silence each end may send two control packets, and both ask at the same time. If
/// they used both for questions, neither could answer for a while.
#[test]
fn f21_the_last_control_packet_is_kept_for_an_answer_while_a_question_is_under_way() {
    let mut world = connected();
    let now = world.now;
    for (host, other) in [(0, 1), (1, 0)] {
        let connection = world.peer(host, other).connection.as_mut().unwrap();
        let first = connection.link.numbers.peek().unwrap();
        let credit = SocketCredit {
            generation: connection.link.credit.generation(),
            limit: 0,
            control: 2,
        };
        connection.link.credit = SendCredit::new(first, credit, now);
    }
    world.now += 3 * CREDIT_LAPSE;
    let mut questions = Vec::new();
    for (host, other) in [(0, 1), (1, 0)] {
        let now = world.now;
        world.engines[host].begin_cycle(now);
        world.engines[host].handle_timeout(now);
        for _ in 0..2 {
            world.peer(host, other).ask_for_sign_of_life();
            let key = world.engines[host].peer_key(id(other)).unwrap();
            world.engines[host].touch(key);
            questions.extend(world.outgoing(host));
        }
    }
    assert_eq!(questions.len(), 2, "one of each");
    questions.iter().for_each(|packet| world.deliver(packet));
    world.run(SECOND);
    for (host, other) in [(0, 1), (1, 0)] {
        let connection = world.peer(host, other).connection.as_ref().unwrap();
        assert!(
            !connection.link.pending.ping,
            "the second question was sent"
        );
        assert!(
            !connection.link.recovery.has_eliciting_in_flight(),
            "and answered"
        );
    }
}

/// A peer waits for our packet, and its own takes as long again. A far one keeps its slot
/// meanwhile, but no longer than any other has its turn.
#[test]
fn f21_a_peer_far_away_keeps_its_slot_while_an_answer_may_be_under_way() {
    let mut world = World::new(2);
    world.send(0, 1).unwrap();
    world.run(SECOND);
    for (round_trip, least, most) in [(10, 100, 100), (200, 400, 900), (5_000, 1_000, 1_000)] {
        let peer = world.peer(1, 0);
        let connection = peer.connection.as_mut().unwrap();
        let round_trip = Duration::from_millis(round_trip);
        connection.link.recovery.set_initial_rtt(round_trip);
        let idle = peer.tenure(peer.connection.as_ref().unwrap()).idle;
        let limits = Duration::from_millis(least)..=Duration::from_millis(most);
        assert!(limits.contains(&idle), "{round_trip:?}: {idle:?}");
    }
}

/// The first packet of a peer far away comes after more than the usual idle time: it keeps its slot
/// until then, but no longer than any other has its turn.
#[test]
fn f21_a_peer_far_away_keeps_its_slot_until_its_first_packet_can_have_come() {
    let mut world = World::new(2);
    world.send(0, 1).unwrap();
    world.run(SECOND);
    let now = world.now;
    let mut shares = Shares::new(8 << 20);
    let grant = shares.admit(0, 1_472, now).unwrap();
    let peer = world.peer(1, 0);
    peer.connection.as_mut().unwrap().grant = grant;
    let mut idle = |cookie: Option<u64>| {
        peer.newest_cookie = cookie.map(|ago| now - Duration::from_millis(ago));
        let idle = peer.tenure(peer.connection.as_ref().unwrap()).idle;
        idle.as_millis()
    };
    assert_eq!(idle(Some(10)), 250);
    assert_eq!(idle(Some(300)), 600);
    assert_eq!(idle(Some(2_000)), 1_000);
    assert_eq!(idle(None), 1_000, "it was called");
}

/// A path of more than 100 ms gives the handshake no round trip, as HELLO is repeated. A peer over
/// such a path keeps its slot until the answer to our first packet can have come.
#[test]
fn f21_a_peer_of_unknown_distance_keeps_its_slot_for_two_handshakes() {
    let mut world = World::new(2);
    world.send(0, 1).unwrap();
    world.run(SECOND);
    let peer = world.peer(1, 0);
    let connection = peer.connection.as_ref().unwrap();
    assert!(!connection.link.recovery.rtt().has_sample());
    let begun = connection.grant.begun_at();
    for (handshake, idle) in [(Some(1), 100), (Some(300), 600), (None, 1_000)] {
        peer.newest_cookie = handshake.map(|ago| begun - Duration::from_millis(ago));
        let tenure = peer.tenure(peer.connection.as_ref().unwrap());
        assert_eq!(tenure.idle.as_millis(), idle, "{handshake:?}");
    }
}

/// A node used all its numbers up, and the last packet was lost. It answers a question after a
/// quarter of a second: nobody is silent for ten.
#[test]
fn f19_f21_a_node_without_numbers_answers_a_question_soon() {
    let mut world = connected();
    let now = world.now;
    let connection = world.peer(0, 1).connection.as_mut().unwrap();
    let last = connection.link.numbers.peek().unwrap() - 1;
    let one = SocketCredit {
        generation: connection.link.credit.generation(),
        limit: 0,
        control: 1,
    };
    connection.link.credit = SendCredit::new(last - 1, one, now);
    connection.link.credit.on_sent(last, now, true);
    for (wait, answers) in [(Duration::ZERO, 0), (SECOND / 4, 1), (Duration::ZERO, 0)] {
        world.now += wait;
        world.deliver_ping(0);
        assert_eq!(world.outgoing(0).len(), answers, "{wait:?}");
    }
}

/// A peer that called before its address was known, and for which messages wait, is called once its
/// address is known.
#[test]
fn messages_that_wait_for_an_address_are_sent_once_it_is_known() {
    let mut world = World::new(2);
    let now = world.now;
    let config = Config {
        accept: AcceptPolicy::Anyone,
        ..Config::default()
    };
    let identity = Identity {
        node: id(2),
        incarnation: Incarnation(9),
    };
    let mut engine = Engine::new(config, identity, [9; 32], BUFFER, now).unwrap();
    let key = engine.insert_peer(id(0), crate::Addresses::default(), now);
    engine.send(now, id(0), message(b"early")).unwrap();
    assert!(
        engine.peers.get(key).unwrap().attempt.is_none(),
        "nobody knows where it is"
    );
    engine.add_peer(now, id(0), address(0)).unwrap();
    world.engines.push(engine);
    world.run(SECOND);
    assert_eq!(world.received(0), 1);
}

/// Requests of many packets would wait for credit in every exchange if they were taken for
/// Response.
#[test]
fn long_requests_that_are_answered_do_not_select_response() {
    for (size, mode) in [(64, Mode::Response), (200_000, Mode::Adaptive)] {
        let mut world = World::new(2);
        for _ in 0..40 {
            let request = Outgoing {
                payload: Bytes::from(vec![1; size]),
                ..message(b"")
            };
            world.engines[0].send(world.now, id(1), request).unwrap();
            for _ in 0..1_000 {
                if world.received(1) > 0 {
                    break;
                }
                let packets: Vec<_> = (0..2).flat_map(|host| world.outgoing(host)).collect();
                world.now += Duration::from_micros(50);
                packets.iter().for_each(|packet| world.deliver(packet));
            }
            world.send(1, 0).unwrap();
            world.settle();
            assert_eq!(world.received(0), 1);
        }
        let stats = world.engines[0].peer_stats(id(1)).unwrap();
        assert_eq!(stats.mode, mode, "requests of {size} B");
    }
}

/// Each acknowledgement releases as many packets as it covers. If the last of a few packets asked
/// for the next acknowledgement, every acknowledgement would cover only a few.
#[test]
fn with_throughput_a_small_window_is_kept_full_by_few_acknowledgements() {
    // The congestion window is the limit, or the receiver's grant.
    let acks = |mode, bytes, buffer| {
        let mut world = World::new(2);
        let config = Config {
            controller: crate::ControllerChoice::Fixed { bytes },
            mode,
            ..Config::default()
        };
        world.set_up_server(0, BUFFER, config);
        world.engines[1] = world.start(1, 2, buffer);
        world.engines[0]
            .add_peer(world.now, id(1), address(1))
            .unwrap();
        let long = Outgoing {
            payload: Bytes::from(vec![1; 4 << 20]),
            ..message(b"")
        };
        world.engines[0].send(world.now, id(1), long).unwrap();
        // A narrow link: its packets come one by one.
        let mut queue = std::collections::VecDeque::new();
        let (mut came, mut answers) = (0, 0);
        for _ in 0..2_000 {
            world.now += Duration::from_micros(20);
            queue.extend(world.outgoing(0));
            let Some(packet) = queue.pop_front() else {
                continue;
            };
            world.deliver(&packet);
            came += 1;
            let back = world.outgoing(1);
            answers += back.len();
            back.iter().for_each(|answer| world.deliver(answer));
        }
        assert!(came > 1_900, "{mode:?}: the link is kept full: {came}");
        came / answers
    };
    let [throughput, response] =
        [Mode::Throughput, Mode::Response].map(|mode| acks(mode, 50_000, BUFFER));
    assert!(
        throughput >= 6 && response <= 4,
        "packets for each: {throughput}, {response}"
    );
    let by_credit = acks(Mode::Throughput, 10 << 20, 400 << 10);
    assert!(by_credit >= 6, "packets for each: {by_credit}");
}

#[test]
fn a_message_that_is_too_long_for_a_small_one_is_copied_and_sent() {
    let mut world = connected();
    let payload = [7; SMALL + 44];
    let small = SmallOutgoing {
        channel: ChannelId(0),
        tag: 3,
        kind: Kind::USER,
        user_header: b"head",
        payload: &payload,
        notify: false,
        token: 0,
    };
    world.engines[0]
        .send_small(world.now, id(1), &small)
        .unwrap();
    world.run(SECOND);
    let (_, got) = world.engines[1].recv().unwrap();
    assert_eq!((got.tag, &got.user_header[..]), (3, &b"head"[..]));
    assert_eq!(got.payload[..], payload);
}
