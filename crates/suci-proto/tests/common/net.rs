//! Any number of engines, each in the books of all others, and the network between them.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use suci_proto::time::{Duration, Instant};
use suci_proto::types::{ChannelId, Ecn, Incarnation, Kind, NodeId};
use suci_proto::{
    Arrival, Config, Engine, Event, Identity, Message, Outgoing, SendError, TransmitResult,
};

const LATENCY: Duration = Duration::from_micros(50);
const BUFFER: u64 = 8 << 20;
const MTU: usize = 1_472;

/// A packet: the sender's address, and its bytes.
pub(crate) type Packet = (SocketAddr, Vec<u8>);

/// Returns a packet to an address as it is, changed, or drops it.
pub(crate) type Meddler = Box<dyn FnMut(SocketAddr, Vec<u8>) -> Option<Vec<u8>>>;

pub(crate) struct Net {
    pub(crate) now: Instant,
    /// How long a packet is under way.
    pub(crate) latency: Duration,
    pub(super) hosts: Vec<Host>,
    configs: Vec<Config>,
    /// In flight: (arrival time, tie-break) → (to, packet).
    wire: BTreeMap<(Instant, u64), (SocketAddr, Packet)>,
    sequence: u64,
    starts: u128,
    /// If set, one in this many packets is lost.
    pub(crate) lose_every: Option<u64>,
    pub(crate) meddle: Option<Meddler>,
    /// True if programs take their messages.
    pub(crate) reading: bool,
    /// Messages received by all programs.
    pub(crate) delivered: u64,
    /// Packets to addresses that no host has.
    pub(crate) astray: Vec<(SocketAddr, Vec<u8>)>,
}

pub(super) struct Host {
    pub(super) engine: Engine,
    pub(super) events: Vec<Event>,
    pub(super) received: Vec<(NodeId, Message)>,
}

pub(crate) fn message(payload: &[u8]) -> Outgoing {
    Outgoing {
        channel: ChannelId(0),
        tag: 0,
        kind: Kind::USER,
        user_header: Bytes::new(),
        payload: Bytes::copy_from_slice(payload),
        notify: false,
        token: 0,
        deadline: None,
    }
}

pub(crate) fn address(host: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + host as u8], 7_000))
}

pub(crate) fn id(host: usize) -> NodeId {
    NodeId(host as u32 + 1)
}

impl Net {
    pub(crate) fn new(count: usize, config: impl Fn(usize) -> Config) -> Self {
        let mut net = Self {
            now: Instant::from_nanos(1_000_000_000),
            latency: LATENCY,
            hosts: Vec::new(),
            configs: (0..count).map(config).collect(),
            wire: BTreeMap::new(),
            sequence: 0,
            starts: 0,
            lose_every: None,
            meddle: None,
            reading: true,
            delivered: 0,
            astray: Vec::new(),
        };
        for host in 0..count {
            let host = net.start(host);
            net.hosts.push(host);
        }
        net
    }

    fn start(&mut self, host: usize) -> Host {
        self.starts += 1;
        let identity = Identity {
            node: id(host),
            incarnation: Incarnation(self.starts),
        };
        let seed = [self.starts as u8; 32];
        let config = self.configs[host].clone();
        let strict = config.accept == suci_proto::AcceptPolicy::Book;
        let mut engine = Engine::new(config, identity, seed, BUFFER, self.now).unwrap();
        for other in (0..self.configs.len()).filter(|other| strict && *other != host) {
            engine
                .add_peer(self.now, id(other), address(other))
                .unwrap();
        }
        Host {
            engine,
            events: Vec::new(),
            received: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Process `host` is killed and started again.
    pub(crate) fn restart(&mut self, host: usize) {
        self.hosts[host] = self.start(host);
    }

    /// Forgets the messages and events of all programs.
    pub(crate) fn discard_events(&mut self) {
        for host in &mut self.hosts {
            host.received = Vec::new();
            host.events = Vec::new();
        }
    }

    /// Sends a message; does nothing if it does not fit the queue.
    pub(crate) fn send(&mut self, from: usize, to: NodeId, message: Outgoing) {
        self.queue(from, to, message);
        self.flush(from);
    }

    /// As [`Net::send`], inside a batch.
    pub(crate) fn queue(&mut self, from: usize, to: NodeId, message: Outgoing) {
        let now = self.now;
        match self.hosts[from].engine.send(now, to, message) {
            Ok(_) | Err(SendError::WouldBlock(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Sends all packets, and takes the program's events.
    pub(crate) fn flush(&mut self, host: usize) {
        let now = self.now;
        let Host { engine, events, .. } = &mut self.hosts[host];
        while let Some(query) = engine.poll_route() {
            engine.set_route_mtu(query, Some(MTU));
        }
        while let Some(transmit) = engine.poll_transmit(now, 64) {
            let mut bytes = Vec::new();
            transmit.copy_to(&mut bytes);
            let (to, segment, segments) = (transmit.dest, transmit.segment, transmit.segments);
            engine.transmit_done(now, TransmitResult::Sent(segments));
            for packet in bytes.chunks(segment) {
                self.sequence += 1;
                let mut packet = Some(packet.to_vec()).filter(|_| {
                    self.lose_every
                        .is_none_or(|n| !self.sequence.is_multiple_of(n))
                });
                if let Some(meddle) = &mut self.meddle {
                    packet = packet.and_then(|packet| meddle(to, packet));
                }
                if let Some(packet) = packet {
                    let packet = (to, (address(host), packet));
                    self.wire
                        .insert((now + self.latency, self.sequence), packet);
                }
            }
        }
        events.extend(std::iter::from_fn(|| engine.poll_event()));
        engine.audit(now).unwrap();
    }

    /// Runs one cycle of every host's driver.
    pub(crate) fn turn(&mut self) {
        let now = self.now;
        self.hosts
            .iter_mut()
            .for_each(|host| host.engine.begin_cycle(now));
        let later = self.wire.split_off(&(now, u64::MAX));
        for ((at, _), (to, (from, mut bytes))) in std::mem::replace(&mut self.wire, later) {
            let Some(host) = (0..self.hosts.len()).find(|host| address(*host) == to) else {
                self.astray.push((to, bytes));
                continue;
            };
            let ecn = Ecn::Ect0;
            let arrival = Arrival {
                from,
                to: None,
                ecn,
                at,
            };
            self.hosts[host]
                .engine
                .handle_datagram(now, &arrival, &mut bytes);
        }
        for host in 0..self.hosts.len() {
            let Host {
                engine, received, ..
            } = &mut self.hosts[host];
            engine.handle_timeout(now);
            let before = received.len();
            if self.reading {
                let messages = std::iter::from_fn(|| engine.recv());
                received.extend(messages.map(|(from, message)| (from.node, message)));
            }
            self.delivered += (received.len() - before) as u64;
            self.flush(host);
        }
    }

    /// Lets `span` of virtual time pass.
    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        let mut steps = 0;
        while self.step(Some(end)) {
            steps += 1;
            assert!(steps < 1_000_000, "no progress in virtual time");
        }
        self.now = end;
    }

    /// Processes the next packet or timer. Returns false if there is none until `end`.
    pub(super) fn step(&mut self, end: Option<Instant>) -> bool {
        let timers = self.hosts.iter().filter_map(|h| h.engine.next_timeout());
        let arrival = self.wire.keys().next().map(|key| key.0);
        let next = timers.chain(arrival).min().map(|at| at.max(self.now));
        let next = next.filter(|at| end.is_none_or(|end| *at <= end));
        if let Some(next) = next {
            self.now = next;
            self.turn();
        }
        next.is_some()
    }
}
