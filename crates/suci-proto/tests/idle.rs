//! The cost of idle peers: heap bytes of one engine with 10,000 of them, and a check that they all
//! still work.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use bytes::Bytes;
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use suci_proto::time::{Duration, Instant};
use suci_proto::types::{ChannelId, Ecn, Incarnation, Kind, NodeId};
use suci_proto::{Arrival, Config, Engine, Identity, LinkState, Outgoing, TransmitResult};

/// Bytes that the hub allocated and did not free.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// True if the hub runs, and its bytes are counted. The only test of this program has one thread.
static HUB_RUNS: AtomicBool = AtomicBool::new(false);

struct Counting;

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if HUB_RUNS.load(Ordering::Relaxed) {
            HELD.fetch_add(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: the caller's promises are the system's requirements.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, slot: *mut u8, layout: Layout) {
        if HUB_RUNS.load(Ordering::Relaxed) {
            HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: as above.
        unsafe { System.dealloc(slot, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PEERS: usize = 10_000;

/// Maximum number of bytes that a peer may cost.
const MOST: usize = 5 << 10;

/// Bytes of the socket's buffer that each connected peer needs.
const SLOT: u64 = 6_656;

const HUB: NodeId = NodeId(0);

fn address(node: NodeId) -> SocketAddr {
    let [_, b, c, d] = node.0.to_be_bytes();
    SocketAddr::from(([10, b, c, d], 7_000))
}

fn engine(node: NodeId, start: usize, buffer: u64, now: Instant) -> Engine {
    let config = Config {
        memory: ((PEERS as u64) << 17).max(256 << 20),
        max_datagram: 1_472,
        ..Config::default()
    };
    let identity = Identity {
        node,
        incarnation: Incarnation(
            (start as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
        ),
    };
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&start.to_le_bytes());
    Engine::new(config, identity, seed, buffer, now).unwrap()
}

fn message(size: usize) -> Outgoing {
    Outgoing {
        channel: ChannelId(0),
        tag: 0,
        kind: Kind::USER,
        user_header: Bytes::new(),
        payload: Bytes::from(vec![7; size]),
        notify: false,
        token: 0,
        deadline: None,
    }
}

/// A hub, all others, and a network without delay.
struct Net {
    now: Instant,
    hub: Engine,
    spokes: Vec<Engine>,
    /// When each spoke has something to do.
    due: BTreeSet<(Instant, usize)>,
    /// Packets of the hub.
    flying: VecDeque<(SocketAddr, Vec<u8>)>,
    messages: usize,
}

/// Takes the messages and events of `engine`, and sends its packets. Returns how many messages
/// there were.
fn turn(engine: &mut Engine, now: Instant, mut send: impl FnMut(SocketAddr, Vec<u8>)) -> usize {
    let mut messages = 0;
    while engine.recv().is_some() {
        messages += 1;
    }
    while engine.poll_event().is_some() {}
    while let Some(query) = engine.poll_route() {
        engine.set_route_mtu(query, Some(1_472));
    }
    while let Some(train) = engine.poll_transmit(now, 64) {
        let mut bytes = Vec::new();
        train.copy_to(&mut bytes);
        let (to, segment, segments) = (train.dest, train.segment, train.segments);
        bytes
            .chunks(segment)
            .for_each(|packet| send(to, packet.to_vec()));
        engine.transmit_done(now, TransmitResult::Sent(segments));
    }
    messages
}

impl Net {
    fn new(slots: u64) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        Self {
            now,
            hub: engine(HUB, PEERS + 1, slots * SLOT, now),
            spokes: Vec::new(),
            due: BTreeSet::new(),
            flying: VecDeque::new(),
            messages: 0,
        }
    }

    /// Runs `act` with the hub, whose memory is counted.
    fn hub<R>(&mut self, act: impl FnOnce(&mut Engine, Instant) -> R) -> R {
        HUB_RUNS.store(true, Ordering::Relaxed);
        self.hub.begin_cycle(self.now);
        let done = act(&mut self.hub, self.now);
        self.hub.handle_timeout(self.now);
        let mut out = Vec::new();
        let sent = |to, packet: Vec<u8>| {
            HUB_RUNS.store(false, Ordering::Relaxed);
            out.push((to, packet.clone()));
            HUB_RUNS.store(true, Ordering::Relaxed);
        };
        self.messages += turn(&mut self.hub, self.now, sent);
        HUB_RUNS.store(false, Ordering::Relaxed);
        self.flying.extend(out);
        done
    }

    /// Runs `act` with a spoke.
    fn spoke(&mut self, slot: usize, act: impl FnOnce(&mut Engine, Instant)) {
        let spoke = &mut self.spokes[slot];
        if let Some(at) = spoke.next_timeout() {
            self.due.remove(&(at, slot));
        }
        spoke.begin_cycle(self.now);
        act(spoke, self.now);
        spoke.handle_timeout(self.now);
        let mut out = Vec::new();
        self.messages += turn(spoke, self.now, |_, packet| out.push(packet));
        self.due.extend(spoke.next_timeout().map(|at| (at, slot)));
        let (from, at) = (address(NodeId(slot as u32 + 1)), self.now);
        for mut packet in out {
            self.hub(|hub, now| {
                let ecn = Ecn::NotEct;
                hub.handle_datagram(
                    now,
                    &Arrival {
                        from,
                        to: None,
                        at,
                        ecn,
                    },
                    &mut packet,
                );
            });
        }
    }

    /// Lets `span` pass.
    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            while let Some((to, mut packet)) = self.flying.pop_front() {
                let SocketAddr::V4(v4) = to else { continue };
                let slot = (v4.ip().to_bits() & 0xff_ffff) as usize - 1;
                let (from, at, ecn) = (address(HUB), self.now, Ecn::NotEct);
                // A peer that does not exist yet receives nothing.
                if slot < self.spokes.len() {
                    self.spoke(slot, |spoke, now| {
                        spoke.handle_datagram(
                            now,
                            &Arrival {
                                from,
                                to: None,
                                at,
                                ecn,
                            },
                            &mut packet,
                        );
                    });
                }
            }
            let spoke = self.due.first().map(|(at, _)| *at);
            let hub = self.hub.next_timeout();
            let Some(at) = spoke.into_iter().chain(hub).min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            let due = self.due.first().filter(|(at, _)| *at <= self.now);
            if let Some((_, slot)) = due.copied() {
                self.spoke(slot, |_, _| {});
            } else {
                self.hub(|_, _| {});
            }
        }
        self.now = end;
    }

    /// Adds the next node, which exchanges some messages with the hub.
    fn visit(&mut self) {
        let slot = self.spokes.len();
        let node = NodeId(slot as u32 + 1);
        self.spokes
            .push(engine(node, slot + 1, 256 << 10, self.now));
        self.spoke(slot, |spoke, now| {
            spoke.add_peer(now, HUB, address(HUB)).unwrap();
        });
        self.exchange(slot);
    }

    fn exchange(&mut self, slot: usize) {
        let node = NodeId(slot as u32 + 1);
        self.spoke(slot, |spoke, now| {
            for size in [10, 3_000, 100] {
                spoke.send(now, HUB, message(size)).unwrap();
            }
        });
        self.run_until(3);
        self.hub(|hub, now| {
            for size in [10, 20_000] {
                hub.send(now, node, message(size)).unwrap();
            }
        });
        self.run_until(2);
    }

    /// Lets time pass until `messages` messages were taken. That is soon, unless a node waits for
    /// credit that others give back.
    fn run_until(&mut self, messages: usize) {
        let patience = self.now + Duration::from_secs(5);
        while self.messages < messages && self.now < patience {
            self.run(Duration::from_millis(5));
        }
        assert_eq!(core::mem::take(&mut self.messages), messages);
    }
}

/// Bytes of each peer of a hub whose socket has slots for `slots` of them.
fn measure(slots: u64) -> usize {
    let mut net = Net::new(slots);
    let held = || HELD.load(Ordering::Relaxed) / PEERS;
    let before = HELD.load(Ordering::Relaxed);
    assert_eq!(before, 0);
    for node in (1..=PEERS as u32).map(NodeId) {
        net.hub(|hub, now| hub.add_peer(now, node, address(node)))
            .unwrap();
    }
    println!("figure: in the book {} B for each peer", held());
    (0..PEERS).for_each(|_| net.visit());
    println!("figure: all just came {} B for each peer", held());
    net.run(Duration::from_secs(60));
    let idle = held();
    println!("figure: idle {idle} B for each of {PEERS} peers");
    net.hub.audit(net.now).unwrap();
    for node in (1..=PEERS as u32).map(NodeId) {
        assert_eq!(net.hub.peer_stats(node).unwrap().link, LinkState::Up);
    }
    for slot in [0, PEERS / 2, PEERS - 1] {
        net.exchange(slot);
    }
    idle
}

#[test]
fn f32_an_idle_peer_costs_less_than_5_kib() {
    let idle = measure(PEERS as u64 + 1);
    assert!(idle < MOST, "{idle} B for each of {PEERS} peers");
}
