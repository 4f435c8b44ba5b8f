//! Two engines and the network between them.

use crate::net::{address, message};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use suci_proto::time::{Duration, Instant};
use suci_proto::types::{Ecn, Incarnation, NodeId};
use suci_proto::{
    Arrival, Config, Engine, Event, Identity, Message, Outgoing, PeerOptions, PeerStats, PlacedBy,
    Ports, SendError, TransmitResult,
};

const BUFFER: u64 = 8 << 20;

pub(crate) struct Host {
    engine: Engine,
    events: Vec<Event>,
    received: Vec<Message>,
    /// True if its program takes messages.
    reads: bool,
    /// True if its socket is full.
    full: bool,
    /// True if its program computes, so that its engine does not run.
    away: bool,
}

pub(crate) struct Pair {
    now: Instant,
    hosts: Vec<Host>,
    /// In flight: (arrival time, tie-break) → (to, bytes).
    wire: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    sequence: u64,
    starts: u128,
    /// Bytes of each socket's buffer.
    buffer: u64,
    /// Types of packets sent so far.
    kinds: BTreeSet<u8>,
    /// The largest packet that arrives.
    widest: usize,
    /// One-way delay.
    latency: Duration,
    /// The memory that hosts name for messages.
    placement: PlacedBy,
    /// The addresses of the datagram that an engine handles now.
    pub(crate) datagram: Arc<Mutex<Range<usize>>>,
}

fn id(host: usize) -> NodeId {
    // Set other bytes than the lowest, too.
    NodeId(host as u32 + 0x0102_0301)
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::with_buffer(BUFFER)
    }

    /// Makes a pair with sockets that hold `buffer` bytes.
    pub(crate) fn with_buffer(buffer: u64) -> Self {
        Self::with(buffer, PlacedBy::default(), Arc::default())
    }

    /// Makes a pair whose messages go to memory that `placement` names.
    pub(crate) fn with_placement(placement: PlacedBy, datagram: Arc<Mutex<Range<usize>>>) -> Self {
        Self::with(BUFFER, placement, datagram)
    }

    fn with(buffer: u64, placement: PlacedBy, datagram: Arc<Mutex<Range<usize>>>) -> Self {
        let mut pair = Self {
            now: Instant::from_nanos(1_000_000_000),
            hosts: Vec::new(),
            wire: BTreeMap::new(),
            sequence: 0,
            starts: 0,
            buffer,
            kinds: BTreeSet::new(),
            widest: usize::MAX,
            latency: Duration::from_micros(50),
            placement,
            datagram,
        };
        for host in 0..2 {
            let host = pair.start(host);
            pair.hosts.push(host);
        }
        pair
    }

    fn start(&mut self, host: usize) -> Host {
        self.starts += 1;
        let config = Config {
            ack_on_poll: true,
            max_datagram: 1_472,
            placement: self.placement.clone(),
            ports: match self.placement.is_some() {
                true => Ports::ALL,
                false => Ports::default(),
            },
            ..Config::default()
        };
        let identity = Identity {
            node: id(host),
            incarnation: Incarnation(self.starts),
        };
        let seed = [self.starts as u8; 32];
        let mut engine = Engine::new(config, identity, seed, self.buffer, self.now).unwrap();
        engine
            .add_peer(self.now, id(1 - host), address(1 - host))
            .unwrap();
        Host {
            engine,
            events: Vec::new(),
            received: Vec::new(),
            reads: true,
            full: false,
            away: false,
        }
    }

    pub(crate) fn restart(&mut self, host: usize) {
        self.hosts[host] = self.start(host);
    }

    /// `host`'s program takes messages from now on, and those that wait now.
    pub(crate) fn read(&mut self, host: usize) {
        self.set_reads(host, true);
        self.poll(host);
        self.flush(host);
        self.run(Duration::from_secs(1));
    }

    pub(crate) fn id(&self, host: usize) -> NodeId {
        id(host)
    }

    pub(crate) fn engine(&self, host: usize) -> &Engine {
        &self.hosts[host].engine
    }

    pub(crate) fn engine_mut(&mut self, host: usize) -> &mut Engine {
        &mut self.hosts[host].engine
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Sets whether `host`'s program takes messages.
    pub(crate) fn set_reads(&mut self, host: usize, reads: bool) {
        self.hosts[host].reads = reads;
    }

    /// Sets whether `host`'s socket is full.
    pub(crate) fn set_full(&mut self, host: usize, full: bool) {
        self.hosts[host].full = full;
    }

    /// Sets whether `host`'s program computes, so that its engine does not run.
    pub(crate) fn set_away(&mut self, host: usize, away: bool) {
        self.hosts[host].away = away;
    }

    /// Statistics of `host` about the other host.
    pub(crate) fn stats(&self, host: usize) -> PeerStats {
        self.engine(host).peer_stats(id(1 - host)).unwrap()
    }

    /// Drops packets larger than `size` from now on, without a report.
    pub(crate) fn set_widest(&mut self, size: usize) {
        self.widest = size;
    }

    /// Sets the one-way delay from now on.
    pub(crate) fn set_latency(&mut self, latency: Duration) {
        self.latency = latency;
    }

    /// Loses all packets under way.
    pub(crate) fn drop_wire(&mut self) {
        self.wire.clear();
    }

    /// Makes `host` build a train, which its socket does not take.
    pub(crate) fn refuse_train(&mut self, host: usize) {
        let now = self.now;
        let engine = &mut self.hosts[host].engine;
        assert!(engine.poll_transmit(now, 64).is_some());
        engine.transmit_done(now, TransmitResult::Again);
    }

    pub(crate) fn packets(&self) -> u64 {
        self.hosts
            .iter()
            .map(|h| h.engine.counters().packets_out)
            .sum()
    }

    /// Types of packets that were sent.
    pub(crate) fn kinds(&self) -> Vec<u8> {
        self.kinds.iter().copied().collect()
    }

    pub(crate) fn received(&mut self, host: usize) -> Vec<Message> {
        std::mem::take(&mut self.hosts[host].received)
    }

    pub(crate) fn events(&mut self, host: usize) -> Vec<Event> {
        std::mem::take(&mut self.hosts[host].events)
    }

    /// Queues a message without sending, as inside a batch.
    pub(crate) fn queue(&mut self, from: usize, message: Outgoing) {
        let now = self.now;
        match self.hosts[from].engine.send(now, id(1 - from), message) {
            Ok(_) => {}
            Err(SendError::WouldBlock(_)) => panic!("queue full"),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn send(&mut self, from: usize, message: Outgoing) {
        self.queue(from, message);
        self.flush(from);
    }

    /// Calls a method of `host`'s engine about the other host.
    pub(crate) fn ask<R>(
        &mut self,
        host: usize,
        verb: impl FnOnce(&mut Engine, Instant, NodeId) -> R,
    ) -> R {
        let now = self.now;
        let answer = verb(&mut self.hosts[host].engine, now, id(1 - host));
        self.flush(host);
        answer
    }

    /// Changes the options of `host`'s program for the other host.
    pub(crate) fn change(&mut self, host: usize, change: impl FnOnce(&mut PeerOptions)) {
        let done = self.ask(host, |engine, now, node| {
            engine.change_options(now, node, change)
        });
        done.unwrap();
    }

    pub(crate) fn close(&mut self, host: usize, patience: Duration) {
        let now = self.now;
        self.hosts[host].engine.close(now, patience);
        self.flush(host);
    }

    fn flush(&mut self, host: usize) {
        let (now, full) = (self.now, self.hosts[host].full);
        let engine = &mut self.hosts[host].engine;
        while let Some(query) = engine.poll_route() {
            engine.set_route_mtu(query, Some(1_472));
        }
        while let Some(transmit) = engine.poll_transmit(now, 64) {
            let mut bytes = Vec::new();
            transmit.copy_to(&mut bytes);
            let (segment, segments) = (transmit.segment, transmit.segments);
            let to = if transmit.dest == address(0) { 0 } else { 1 };
            assert_eq!(bytes.len().div_ceil(segment), segments);
            if full {
                engine.transmit_done(now, TransmitResult::Again);
                break;
            }
            engine.transmit_done(now, TransmitResult::Sent(segments));
            for packet in bytes.chunks(segment) {
                self.sequence += 1;
                // Packets of all types name their sender's shard in byte 4.
                assert_eq!(packet[4], id(host).0.to_le_bytes()[0]);
                self.kinds.insert(packet[0] & 0xf);
                if packet.len() > self.widest {
                    continue;
                }
                self.wire
                    .insert((now + self.latency, self.sequence), (to, packet.to_vec()));
            }
        }
        while let Some(event) = self.hosts[host].engine.poll_event() {
            self.hosts[host].events.push(event);
        }
        self.hosts[host].engine.audit(now).unwrap();
    }

    /// One poll of `host`'s program: everything that arrived, timers, messages.
    fn poll(&mut self, host: usize) {
        let now = self.now;
        self.hosts[host].engine.begin_cycle(now);
        let due: Vec<_> = self
            .wire
            .range(..=(now, u64::MAX))
            .filter(|(_, (to, _))| *to == host)
            .map(|(key, _)| *key)
            .collect();
        let from = address(1 - host);
        for key in due {
            let (_, mut bytes) = self.wire.remove(&key).unwrap();
            let arrival = Arrival {
                to: None,
                from,
                ecn: Ecn::Ect0,
                at: key.0,
            };
            let addresses = bytes.as_ptr_range();
            *self.datagram.lock().unwrap() = addresses.start.addr()..addresses.end.addr();
            self.hosts[host]
                .engine
                .handle_datagram(now, &arrival, &mut bytes);
            *self.datagram.lock().unwrap() = 0..0;
        }
        self.hosts[host].engine.handle_timeout(now);
        while self.hosts[host].reads
            && let Some((_, message)) = self.hosts[host].engine.recv()
        {
            self.hosts[host].received.push(message);
        }
    }

    fn next_time(&self) -> Option<Instant> {
        let there = self.hosts.iter().filter(|h| !h.away);
        let timers = there.filter_map(|h| h.engine.next_timeout());
        let mut wire = self
            .wire
            .iter()
            .filter(|(_, (to, _))| !self.hosts[*to].away);
        let arrival = wire.next().map(|(key, _)| key.0);
        timers.chain(arrival).min().map(|at| at.max(self.now))
    }

    /// Polls both programs as their inputs come, for `span` of virtual time.
    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        let mut steps = 0;
        while let Some(next) = self.next_time().filter(|at| *at <= end) {
            self.now = next;
            for host in (0..2)
                .filter(|host| !self.hosts[*host].away)
                .collect::<Vec<_>>()
            {
                self.poll(host);
                self.flush(host);
                // No more packets arrived: the next poll of the program finds nothing to answer.
                self.hosts[host].engine.begin_cycle(self.now);
                self.flush(host);
            }
            steps += 1;
            assert!(steps < 1_000_000, "no progress in virtual time");
        }
        self.now = end;
    }

    /// Exchanges `rounds` requests and replies of `size` bytes, each reply sent before the next
    /// poll.
    pub(crate) fn ping_pong(&mut self, size: usize, rounds: usize) {
        for _ in 0..rounds {
            for from in 0..2 {
                self.send(from, message(&vec![9; size]));
                let to = 1 - from;
                let mut tries = 0;
                while self.received(to).is_empty() {
                    self.now = self.next_time().unwrap();
                    for host in 0..2 {
                        self.poll(host);
                        if host != to || self.hosts[to].received.is_empty() {
                            self.flush(host);
                        }
                    }
                    tries += 1;
                    assert!(tries < 1_000, "no answer");
                }
            }
        }
    }
}
