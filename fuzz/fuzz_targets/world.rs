//! Two engines that exchange packets through a network that the input commands: it delivers, drops,
//! repeats, delays, replays and damages packets, lets time pass, and forges packets as a lying peer
//! could.
//!
//! For every input, no engine panics, sends without end, or breaks an invariant. As long as only
//! accidents happened, every message arrives unchanged and in order, and once the accidents stop,
//! every message arrives.

use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use suci_proto::security::Security;
use suci_proto::time::{Duration, Instant};
use suci_proto::types::{ChannelId, Ecn, Incarnation, Kind, NodeId};
use suci_proto::{
    Arrival, Config, Engine, Event, Identity, Message, Outgoing, Renewal, RouteQuery,
    TransmitResult, Unreachable, wire,
};
use toy_cipher::{RecordingHandshakes, SealLedger};

const CHANNELS: u8 = 4;
const MTU: usize = 1_472;
const LATENCY: Duration = Duration::from_micros(50);
/// Packets under way in one direction, beyond which the network drops.
const WIRE: usize = 256;
/// Packets that may be replayed.
const REMEMBERED: usize = 64;
/// More trains than all credit allows: an engine that sends this many at once never stops.
const TRAINS: usize = 5_000;
/// Turns after which a driver oversleeps, so that one input does not take long.
const AWAKE: usize = 100;
/// Within this much virtual time everything arrives once the network is sound.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Does what `data` says to two engines, plain or sealed.
pub fn run(data: &[u8], sealed: bool) {
    let mut world = World::new(sealed);
    let mut input = Input(data);
    if input.byte() & 1 == 0 {
        world.meet();
    }
    while !input.0.is_empty() {
        world.operate(&mut input);
    }
    if world.honest {
        world.calm();
    }
    assert_eq!(world.ledger.repeats(), []);
}

/// Reads numbers off the input; zeros when it is used up.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn index(&mut self, below: usize) -> usize {
        let number = u16::from_le_bytes([self.byte(), self.byte()]);
        usize::from(number) % below.max(1)
    }

    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}

struct Side {
    engine: Engine,
    /// Its last question about its route.
    route: Option<RouteQuery>,
    /// Packets on their way to this side.
    wire: VecDeque<Vec<u8>>,
    past: VecDeque<Vec<u8>>,
    /// Per channel: messages sent to and received from the other side.
    sent: BTreeMap<u8, u32>,
    received: BTreeMap<u8, u32>,
}

struct World {
    now: Instant,
    sides: [Side; 2],
    /// No lies were told and no program ended a session: all promises hold.
    honest: bool,
    /// In sealed mode, the handshakes of both sides and their keys.
    makes: Option<[RecordingHandshakes; 2]>,
    ledger: SealLedger,
    /// The newest cluster key.
    key: u64,
}

fn node(side: usize) -> NodeId {
    NodeId(side as u32 + 1)
}

fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + side as u8], 7_000))
}

/// The bytes of message `index`: its number, then a filling that depends on number and place.
fn payload(index: u32, length: usize) -> Vec<u8> {
    let filling = (0..length).map(|place| (index as usize * 31 + place * 7) as u8);
    index.to_le_bytes().into_iter().chain(filling).collect()
}

impl World {
    fn new(sealed: bool) -> Self {
        let ledger = SealLedger::default();
        let keyed = |_| RecordingHandshakes::new(ledger.clone(), &[1]);
        let makes = sealed.then(|| [0, 1].map(keyed));
        let now = Instant::from_nanos(1_000_000_000);
        let sides = [0, 1].map(|side| {
            let config = Config {
                memory: 1 << 20,
                max_message: 20_000,
                send_queue: 1 << 18,
                rts_threshold: 4_096,
                give_up_after: Duration::from_secs(1 << 30),
                ack_on_poll: side == 0,
                max_datagram: MTU,
                security: makes.as_ref().map_or(Security::Plain, |makes| {
                    Security::Sealed(Arc::new(makes[side].clone()))
                }),
                phase_packets: 1_024,
                phase_time: Duration::from_secs(5),
                first_packet_number: if side == 0 { 0 } else { u64::MAX - 200_000 },
                ..Config::default()
            };
            let identity = Identity {
                node: node(side),
                incarnation: Incarnation(side as u128 + 1),
            };
            let seed = [side as u8 + 1; 32];
            let mut engine = Engine::new(config, identity, seed, 1 << 20, now).expect("valid");
            let other = 1 - side;
            engine
                .add_peer(now, node(other), address(other))
                .expect("room");
            Side {
                engine,
                route: None,
                wire: VecDeque::new(),
                past: VecDeque::new(),
                sent: BTreeMap::new(),
                received: BTreeMap::new(),
            }
        });
        let honest = true;
        Self {
            now,
            sides,
            honest,
            makes,
            ledger,
            key: 1,
        }
    }

    /// Half of all inputs begin when the handshake is over and packets are as large as the route
    /// allows.
    fn meet(&mut self) {
        for (side, root) in [(0, 100), (1, 3)] {
            self.send(side, &mut Input(&[0, 0, root]));
            self.turn(side);
        }
        self.calm();
    }

    fn operate(&mut self, input: &mut Input<'_>) {
        let code = input.byte();
        let side = usize::from(code >> 7);
        match code & 15 {
            0 | 1 => self.send(side, input),
            2..=4 => self.deliver_some(side, 1 + usize::from(code >> 4 & 7)),
            5 => self.deliver_train(side),
            6 => {
                let dropped = self.sides[side].wire.pop_front();
                self.remember(side, dropped);
            }
            7 => {
                let copy = self.sides[side].wire.front().cloned();
                self.sides[side].wire.extend(copy);
            }
            8 => {
                let late = self.sides[side].wire.pop_front();
                self.sides[side].wire.extend(late);
            }
            9 | 10 => self.damage(side, input, false, usize::from(code >> 4 & 7)),
            11 => self.damage(side, input, true, usize::from(code >> 4 & 7)),
            12 => {
                let place = input.index(self.sides[side].past.len());
                if let Some(old) = self.sides[side].past.get(place).cloned() {
                    self.arrive(side, &old);
                }
            }
            13 => {
                let root = u64::from(input.byte());
                self.pass(Duration::from_micros(root * root * root));
            }
            14 => {
                let length = usize::from(input.byte());
                let datagram = input.bytes(length);
                self.honest &= wire::open(datagram).is_err();
                // The toy cipher is no bar to a fuzzer that reads comparisons.
                self.honest &= self.makes.is_none() || !wire::is_data(datagram);
                self.arrive(side, datagram);
            }
            _ => self.rarely(side, input),
        }
        self.turn(side);
    }

    fn send(&mut self, side: usize, input: &mut Input<'_>) {
        let (count, channel) = (1 + input.byte() % 32, input.byte() % CHANNELS);
        let root = usize::from(input.byte());
        for _ in 0..count {
            let index = self.sides[side].sent.entry(channel).or_default();
            let message = Outgoing {
                channel: ChannelId(u32::from(channel)),
                tag: u64::from(*index),
                kind: Kind::USER,
                user_header: Bytes::new(),
                payload: payload(*index, root * root).into(),
                notify: root % 2 == 0,
                token: 0,
                deadline: None,
            };
            if self.sides[side]
                .engine
                .send(self.now, node(1 - side), message)
                .is_ok()
            {
                *index += 1;
            }
        }
    }

    fn deliver_some(&mut self, side: usize, count: usize) {
        for _ in 0..count {
            let Some(packet) = self.sides[side].wire.pop_front() else {
                break;
            };
            self.arrive(side, &packet);
            self.remember(side, Some(packet));
        }
    }

    /// Hands over packets that the kernel would join: packets of one length, and one that is
    /// shorter.
    fn deliver_train(&mut self, side: usize) {
        let wire = &mut self.sides[side].wire;
        let Some(segment) = wire.front().map(Vec::len) else {
            return;
        };
        let alike = wire.iter().take_while(|packet| packet.len() == segment);
        let mut count = alike.take(44).count();
        let is_shorter = |packet: &Vec<u8>| packet.len() < segment;
        count += usize::from(wire.get(count).is_some_and(is_shorter));
        let train: Vec<_> = wire.drain(..count).collect();
        let arrival = self.arrival(side);
        let engine = &mut self.sides[side].engine;
        engine.handle_train(self.now, &arrival, segment, &mut train.concat());
        train
            .into_iter()
            .for_each(|packet| self.remember(side, Some(packet)));
    }

    /// Changes bytes of a packet under way, by accident or with a checksum that says that nothing
    /// happened. The first arrives then; others may stand in a train.
    fn damage(&mut self, side: usize, input: &mut Input<'_>, lie: bool, at: usize) {
        let Some(mut packet) = self.sides[side].wire.remove(at) else {
            return;
        };
        for _ in 0..1 + input.byte() % 8 {
            let place = input.index(packet.len());
            if let Some(byte) = packet.get_mut(place) {
                *byte ^= input.byte();
            }
        }
        if lie {
            self.honest &= self.makes.is_some();
            wire::seal(&mut packet);
        }
        if at == 0 {
            self.arrive(side, &packet);
        } else {
            self.sides[side].wire.insert(at, packet);
        }
    }

    fn rarely(&mut self, side: usize, input: &mut Input<'_>) {
        let other = node(1 - side);
        let engine = &mut self.sides[side].engine;
        match input.byte() % 10 {
            9 if self.makes.is_some() => self.renew_keys(side, input.byte()),
            0 => {
                self.honest = false;
                let _ = engine.reset(self.now, other);
            }
            1 => {
                self.honest = false;
                let _ = engine.close_peer(self.now, other, Duration::from_secs(5));
            }
            2 => {
                let mtu = 1_200 + input.index(MTU - 1_200);
                let side = &mut self.sides[side];
                if let Some(query) = side.route {
                    side.engine.set_route_mtu(query, Some(mtu));
                }
            }
            3 if engine.poll_transmit(self.now, 64).is_some() => {
                engine.transmit_done(self.now, TransmitResult::Again);
            }
            4 if engine.poll_transmit(self.now, 64).is_some() => {
                engine.transmit_done(self.now, TransmitResult::NoGso);
            }
            5 if engine.poll_transmit(self.now, 64).is_some() => {
                engine.transmit_done(self.now, TransmitResult::Unreachable(Unreachable::Host));
            }
            6 => self.now += Duration::from_secs(u64::from(input.byte())),
            7 => {
                let channel = ChannelId(u32::from(input.byte() % CHANNELS));
                let _ = engine.finish_channel(self.now, other, channel);
            }
            _ => self.pass(Duration::from_secs(u64::from(input.byte()))),
        }
    }

    /// Both sides get a new key beside the old one, then instead of it, or one of them makes fresh
    /// handshakes as after a restored snapshot.
    fn renew_keys(&mut self, side: usize, how: u8) {
        let Some(makes) = &self.makes else {
            return;
        };
        let renewal = match how % 4 {
            0 => Renewal::Replace,
            1 => Renewal::StopSealing,
            2 => Renewal::Revoke,
            _ => {
                self.key += 1;
                let keys = [self.key, self.key - 1];
                makes.iter().for_each(|makes| makes.set_keys(&keys));
                let now = self.now;
                self.sides[1 - side]
                    .engine
                    .renew_keys(now, Renewal::Replace);
                Renewal::Replace
            }
        };
        self.sides[side].engine.renew_keys(self.now, renewal);
    }

    fn remember(&mut self, side: usize, packet: Option<Vec<u8>>) {
        let past = &mut self.sides[side].past;
        past.extend(packet);
        if past.len() > REMEMBERED {
            past.pop_front();
        }
    }

    fn arrival(&self, side: usize) -> Arrival {
        Arrival {
            to: None,
            from: address(1 - side),
            ecn: Ecn::Ect0,
            at: self.now,
        }
    }

    fn arrive(&mut self, side: usize, packet: &[u8]) {
        let arrival = self.arrival(side);
        self.sides[side]
            .engine
            .handle_datagram(self.now, &arrival, &mut packet.to_vec());
    }

    /// Time passes, and both drivers wake up when they have to.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        for _ in 0..AWAKE {
            let timers = self
                .sides
                .iter()
                .filter_map(|side| side.engine.next_timeout());
            let Some(next) = timers.min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(next);
            self.turn(0);
            self.turn(1);
        }
        self.now = end.max(self.now);
    }

    /// Runs one driver cycle: time, events, messages, output.
    fn turn(&mut self, side: usize) {
        let now = self.now;
        self.sides[side].engine.begin_cycle(now);
        self.sides[side].engine.handle_timeout(now);
        while let Some(event) = self.sides[side].engine.poll_event() {
            self.on_event(side, event);
        }
        while let Some((_, message)) = self.sides[side].engine.recv() {
            self.take(side, &message);
        }
        self.flush(side);
        self.sides[side].engine.audit(now).expect("an invariant");
    }

    fn on_event(&mut self, side: usize, event: Event) {
        match event {
            Event::Incoming {
                node,
                channel,
                number,
                total,
                ..
            } => {
                // A liar may announce anything; the program accepts messages that it has memory
                // for.
                let engine = &mut self.sides[side].engine;
                if total <= 1 << 20 {
                    let buffer = Some(vec![0; total as usize].into());
                    let _ = engine.accept(node, channel, number, buffer);
                } else {
                    let _ = engine.refuse(node, channel, number, 1);
                }
            }
            Event::Ended { reason, .. } => assert!(!self.honest, "{reason:?}"),
            _ => {}
        }
    }

    fn take(&mut self, side: usize, message: &Message) {
        if !self.honest {
            return;
        }
        let channel = u8::try_from(message.channel.0).expect("one of ours");
        let next = self.sides[side].received.entry(channel).or_default();
        let length = message
            .payload
            .len()
            .checked_sub(4)
            .expect("a number in front");
        assert_eq!(
            message.number,
            u64::from(*next),
            "in order, at most once, no gaps"
        );
        assert!(message.payload == payload(*next, length), "unchanged");
        *next += 1;
    }

    fn flush(&mut self, side: usize) {
        let now = self.now;
        let [first, second] = &mut self.sides;
        let (from, to) = if side == 0 {
            (first, second)
        } else {
            (second, first)
        };
        while let Some(query) = from.engine.poll_route() {
            // The first query, from before the connection, gets no answer, so that the connection
            // asks, too.
            if from.route.replace(query).is_some() {
                from.engine.set_route_mtu(query, Some(MTU));
            }
        }
        for train in 0.. {
            assert!(train < TRAINS, "sends without end");
            let Some(transmit) = from.engine.poll_transmit(now, 64) else {
                break;
            };
            let mut bytes = Vec::new();
            transmit.copy_to(&mut bytes);
            let (segment, segments) = (transmit.segment, transmit.segments);
            assert_eq!(bytes.len().div_ceil(segment.max(1)), segments);
            from.engine
                .transmit_done(now, TransmitResult::Sent(segments));
            for packet in bytes.chunks(segment) {
                if to.wire.len() < WIRE {
                    to.wire.push_back(packet.to_vec());
                }
            }
        }
    }

    /// The network becomes sound: everything that was accepted arrives, and both know it.
    fn calm(&mut self) {
        let end = self.now + PATIENCE;
        while !self.is_done() {
            let timers = self
                .sides
                .iter()
                .filter_map(|side| side.engine.next_timeout());
            let busy = self.sides.iter().any(|side| !side.wire.is_empty());
            let next = timers.chain(busy.then_some(self.now + LATENCY)).min();
            let next = next.expect("something is outstanding, and nobody does anything about it");
            self.now = self.now.max(next);
            assert!(self.now < end, "not everything arrived");
            for side in 0..2 {
                self.deliver_some(side, WIRE);
            }
            self.turn(0);
            self.turn(1);
        }
    }

    fn is_done(&self) -> bool {
        let [a, b] = &self.sides;
        let idle = |side: usize| self.sides[side].engine.queue_len(node(1 - side)).0 == 0;
        let sent = |side: &Side| side.sent.values().copied().sum::<u32>();
        let received = |side: &Side| side.received.values().copied().sum::<u32>();
        idle(0) && idle(1) && sent(a) == received(b) && sent(b) == received(a)
    }
}
