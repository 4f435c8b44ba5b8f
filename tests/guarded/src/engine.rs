//! Two engines in virtual time, driven as a `Node` drives its own: the counts are exact.

use std::net::SocketAddr;

use bytes::Bytes;
use suci::security::{Cipher, ClusterKey, Keyring};
use suci_proto::limits::ETHERNET_MTU;
use suci_proto::security::Security;
use suci_proto::time::{Duration, Instant};
use suci_proto::types::{ChannelId, Ecn, Incarnation, Kind, NodeId};
use suci_proto::{Arrival, CallId, Config, Engine, Identity, Message, Outgoing, TransmitResult};

use crate::{BATCH, Done, LARGE, MIDDLE, SHORT, SMALL, TINY, of};

/// Between a packet's departure and its arrival.
const LATENCY: Duration = Duration::from_micros(20);

/// Receive buffer of each socket, as the kernel counts it.
const BUFFER: u64 = 8 << 20;

/// UDP payload of a packet on Ethernet.
const MTU: usize = ETHERNET_MTU;

/// Maximum number of segments that Linux sends as one train.
const MAX_SEGMENTS: usize = 64;

/// The setting of a sealed node. The cipher is the one that is fastest where the processor has
/// instructions for AES.
fn sealed() -> Security {
    Keyring::from(ClusterKey::from_bytes(&[7; 32])).security(Cipher::Aes128Gcm)
}

pub(crate) fn round_trip(rounds: usize) -> Done {
    round_trips(
        rounds,
        &Bytes::from_static(&SMALL),
        Pair::new(&Security::Plain),
    )
}

pub(crate) fn short_train(rounds: usize) -> Done {
    round_trips(
        rounds,
        &Bytes::from(vec![4; SHORT]),
        Pair::new(&Security::Plain),
    )
}

pub(crate) fn sealed_round_trip(rounds: usize) -> Done {
    round_trips(rounds, &Bytes::from_static(&SMALL), Pair::new(&sealed()))
}

fn round_trips(rounds: usize, payload: &Bytes, mut pair: Pair) -> Done {
    for _ in 0..rounds {
        pair.send(0, payload, 1);
        pair.until_received(1, 1);
        pair.send(1, payload, 1);
        pair.until_received(0, 1);
    }
    pair.done(rounds as u64)
}

/// As [`round_trip`], but with a request and its reply.
pub(crate) fn call(rounds: usize) -> Done {
    let mut pair = Pair::new(&Security::Plain);
    let payload = Bytes::from_static(&SMALL);
    for round in 0..rounds {
        let call = CallId(round as u64);
        pair.act(0, |engine, now| {
            let request = outgoing(payload.clone());
            engine.call(now, id(1), call, request).unwrap();
        });
        pair.until_received(1, 1);
        pair.act(1, |engine, now| {
            let mut reply = outgoing(payload.clone());
            (reply.channel, reply.tag) = (reply.channel.replies(), call.0);
            engine.send(now, id(0), reply).unwrap();
        });
        pair.until(1, |pair| pair.take_reply(0));
    }
    pair.done(rounds as u64)
}

pub(crate) fn batch(rounds: usize) -> Done {
    batches(rounds, Bytes::from_static(&TINY))
}

pub(crate) fn middle(rounds: usize) -> Done {
    batches(rounds, Bytes::from(vec![3; MIDDLE]))
}

fn batches(rounds: usize, payload: Bytes) -> Done {
    let mut pair = Pair::new(&Security::Plain);
    for _ in 0..rounds {
        pair.send(0, &payload, BATCH);
        pair.until_received(1, BATCH);
    }
    pair.done((rounds * BATCH) as u64)
}

pub(crate) fn large(rounds: usize) -> Done {
    large_messages(rounds, Pair::new(&Security::Plain))
}

pub(crate) fn sealed_large(rounds: usize) -> Done {
    large_messages(rounds, Pair::new(&sealed()))
}

/// A unit is a packet that the receiver took: full but for the last of a message.
fn large_messages(rounds: usize, mut pair: Pair) -> Done {
    let payload = Bytes::from(vec![5; LARGE]);
    for _ in 0..rounds {
        pair.send(0, &payload, 1);
        pair.until_received(1, 1);
    }
    pair.done(pair.engines[1].counters().datagrams_in)
}

pub(crate) fn handshake(rounds: usize) -> Done {
    handshakes(rounds, &Security::Plain)
}

pub(crate) fn sealed_handshake(rounds: usize) -> Done {
    handshakes(rounds, &sealed())
}

/// Each round has engines of its own.
fn handshakes(rounds: usize, security: &Security) -> Done {
    let mut total = Done::default();
    for _ in 0..rounds {
        let one = Pair::new(security).done(1);
        total.units += one.units;
        total.packets += one.packets;
        total.bytes += one.bytes;
    }
    total
}

struct Pair {
    now: Instant,
    engines: [Engine; 2],
    /// The trains that arrive next, with their packet lengths, by receiver.
    wires: [Vec<(usize, Vec<u8>)>; 2],
    /// Sides whose program has done something since it last waited.
    busy: [bool; 2],
    /// The place from which a program takes its messages.
    messages: Vec<Message>,
}

fn address(host: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + host as u8], 7_000))
}

fn id(host: usize) -> NodeId {
    NodeId(host as u32)
}

fn outgoing(payload: Bytes) -> Outgoing {
    Outgoing {
        channel: ChannelId(0),
        tag: 0,
        kind: Kind::USER,
        user_header: Bytes::new(),
        payload,
        notify: false,
        token: 0,
        deadline: None,
    }
}

impl Pair {
    /// Two engines that have exchanged a message.
    fn new(security: &Security) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        let engine = |host: usize| {
            let config = Config {
                ack_on_poll: true,
                security: security.clone(),
                ..Config::default()
            };
            let identity = Identity {
                node: id(host),
                incarnation: Incarnation(1 + host as u128),
            };
            let mut engine = Engine::new(config, identity, [host as u8; 32], BUFFER, now).unwrap();
            engine
                .add_peer(now, id(1 - host), address(1 - host))
                .unwrap();
            engine
        };
        let mut pair = Self {
            now,
            engines: [engine(0), engine(1)],
            wires: [Vec::new(), Vec::new()],
            busy: [false; 2],
            messages: Vec::with_capacity(BATCH),
        };
        pair.send(0, &Bytes::from_static(&SMALL), 1);
        pair.until_received(1, 1);
        pair
    }

    fn done(&self, units: u64) -> Done {
        Done::new(units, self.engines.iter().map(|engine| *engine.counters()))
    }

    /// `count` messages in one batch.
    fn send(&mut self, from: usize, payload: &Bytes, count: usize) {
        self.act(from, |engine, now| {
            for _ in 0..count {
                let message = outgoing(payload.clone());
                engine.send(now, id(1 - from), message).unwrap();
            }
        });
    }

    /// The program of node `host` has its engine send.
    fn act(&mut self, host: usize, work: impl FnOnce(&mut Engine, Instant)) {
        let (now, engine) = (self.now, &mut self.engines[host]);
        of(host, || work(engine, now));
        self.output(host);
        self.busy[host] = true;
    }

    /// Lets both wait until node `to` has taken `count` messages.
    fn until_received(&mut self, to: usize, count: usize) {
        self.until(count, |pair| pair.take(to));
    }

    /// Lets both wait until `take` has taken `count` messages.
    fn until(&mut self, count: usize, mut take: impl FnMut(&mut Self) -> usize) {
        let mut received = 0;
        while received < count {
            for host in 0..2 {
                self.settle(host);
            }
            self.advance();
            for host in 0..2 {
                self.turn(host);
            }
            received += take(self);
        }
    }

    /// A program that begins to wait has nothing more for acknowledgements to ride on.
    fn settle(&mut self, host: usize) {
        if std::mem::take(&mut self.busy[host]) {
            let (now, engine) = (self.now, &mut self.engines[host]);
            of(host, || engine.begin_cycle(now));
            self.output(host);
        }
    }

    /// To when something arrives or is due.
    fn advance(&mut self) {
        let arrival = self.wires.iter().any(|wire| !wire.is_empty());
        let arrival = arrival.then_some(self.now + LATENCY);
        let due = self.engines.iter().filter_map(Engine::next_timeout).min();
        let next = arrival.into_iter().chain(due).min();
        self.now = next.expect("nothing more would happen").max(self.now);
    }

    /// Runs a driver cycle, unless nothing arrived and nothing is due.
    fn turn(&mut self, host: usize) {
        let mut arrived = std::mem::take(&mut self.wires[host]);
        let (now, engine) = (self.now, &mut self.engines[host]);
        let is_due = |engine: &Engine| engine.next_timeout().is_some_and(|at| at <= now);
        if arrived.is_empty() && !is_due(engine) {
            return;
        }
        let arrival = Arrival {
            to: None,
            from: address(1 - host),
            ecn: Ecn::Ect0,
            at: now,
        };
        let deferred = of(host, || {
            engine.begin_cycle(now);
            for (segment, train) in &mut arrived {
                engine.handle_train(now, &arrival, *segment, train);
            }
            if is_due(engine) {
                engine.handle_timeout(now);
            }
            engine.defer_output(now)
        });
        if !deferred {
            self.output(host);
        }
    }

    fn take(&mut self, host: usize) -> usize {
        let engine = &mut self.engines[host];
        let taken = of(host, || {
            let messages = &mut self.messages;
            let taken = engine.recv_many(usize::MAX, |_, message| messages.push(message));
            messages.clear();
            taken
        });
        self.busy[host] |= taken > 0;
        taken
    }

    fn take_reply(&mut self, host: usize) -> usize {
        let engine = &mut self.engines[host];
        let taken = of(host, || engine.poll_call().is_some());
        self.busy[host] |= taken;
        usize::from(taken)
    }

    /// Sends all that may be sent. A driver hands it to the kernel; here it is copied to the wire,
    /// and the copy does not count.
    fn output(&mut self, host: usize) {
        let (now, engine) = (self.now, &mut self.engines[host]);
        while let Some(query) = engine.poll_route() {
            engine.set_route_mtu(query, Some(MTU));
        }
        while let Some(transmit) = of(host, || engine.poll_transmit(now, MAX_SEGMENTS)) {
            let mut train = Vec::new();
            transmit.copy_to(&mut train);
            let (segment, segments) = (transmit.segment, transmit.segments);
            self.wires[1 - host].push((segment, train));
            of(host, || {
                engine.transmit_done(now, TransmitResult::Sent(segments))
            });
        }
    }
}
