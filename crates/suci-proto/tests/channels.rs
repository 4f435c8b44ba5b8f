//! The cost of open, idle channels, and a check that finished ones leave nothing: heap bytes of two
//! engines.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use bytes::Bytes;
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use suci_proto::limits::{CHANNEL_MEMORY, MAX_CHANNELS};
use suci_proto::time::{Duration, Instant};
use suci_proto::types::{ChannelId, Ecn, Incarnation, Kind, NodeId};
use suci_proto::{Arrival, Config, Engine, Event, Identity, Outgoing, SendError, TransmitResult};

/// Bytes that each engine allocated and did not free.
static HELD: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// The index of the running engine; 2 if none runs. The only test of this program has one thread.
static RUNS: AtomicUsize = AtomicUsize::new(2);

struct Counting;

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD[RUNS.load(Ordering::Relaxed)].fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are the system's requirements.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD[RUNS.load(Ordering::Relaxed)].fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn held(side: usize) -> usize {
    HELD[side].load(Ordering::Relaxed)
}

fn id(side: usize) -> NodeId {
    NodeId(side as u32)
}

fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + side as u8], 7_000))
}

/// Two engines, and a network without faults.
struct Pair {
    now: Instant,
    engines: Vec<Engine>,
    wire: VecDeque<(Instant, usize, Vec<u8>)>,
    received: [u64; 2],
    finished: [u64; 2],
}

impl Pair {
    fn new() -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let engines = [0, 1].map(|side| {
            let identity = Identity {
                node: id(side),
                incarnation: Incarnation(side as u128 + 1),
            };
            let config = Config {
                max_datagram: 1_472,
                ..Config::default()
            };
            let mut engine =
                Engine::new(config, identity, [side as u8 + 1; 32], 8 << 20, now).unwrap();
            engine
                .add_peer(now, id(1 - side), address(1 - side))
                .unwrap();
            engine
        });
        Self {
            now,
            engines: engines.into(),
            wire: VecDeque::new(),
            received: [0; 2],
            finished: [0; 2],
        }
    }

    /// Runs `act` with an engine, whose memory is counted.
    fn with<R>(&mut self, side: usize, act: impl FnOnce(&mut Engine, Instant) -> R) -> R {
        RUNS.store(side, Ordering::Relaxed);
        let done = act(&mut self.engines[side], self.now);
        RUNS.store(2, Ordering::Relaxed);
        done
    }

    fn send(&mut self, from: usize, channel: u32) -> Result<u64, SendError> {
        self.with(from, |engine, now| {
            let message = Outgoing {
                channel: ChannelId(channel),
                tag: 0,
                kind: Kind::USER,
                user_header: Bytes::new(),
                payload: Bytes::from_static(b"hello"),
                notify: false,
                token: 0,
                deadline: None,
            };
            engine.send(now, id(1 - from), message)
        })
    }

    /// Runs a cycle of an engine with the packets that came.
    fn turn(&mut self, side: usize, mut came: Vec<Vec<u8>>) {
        let mut out = Vec::new();
        let arrives = self.now + Duration::from_micros(20);
        let (received, finished) = self.with(side, |engine, now| {
            engine.begin_cycle(now);
            let (from, ecn, at) = (address(1 - side), Ecn::NotEct, now);
            for packet in &mut came {
                engine.handle_datagram(
                    now,
                    &Arrival {
                        from,
                        to: None,
                        ecn,
                        at,
                    },
                    packet,
                );
            }
            engine.handle_timeout(now);
            let mut counts = (0, 0);
            while engine.recv().is_some() {
                counts.0 += 1;
            }
            while let Some(event) = engine.poll_event() {
                counts.1 += u64::from(matches!(event, Event::ChannelFinished { .. }));
            }
            while let Some(query) = engine.poll_route() {
                engine.set_route_mtu(query, Some(1_472));
            }
            while let Some(train) = engine.poll_transmit(now, 64) {
                RUNS.store(2, Ordering::Relaxed);
                let mut bytes = Vec::new();
                train.copy_to(&mut bytes);
                let packets = bytes.chunks(train.segment).map(<[u8]>::to_vec);
                out.extend(packets.map(|packet| (arrives, 1 - side, packet)));
                let segments = train.segments;
                RUNS.store(side, Ordering::Relaxed);
                engine.transmit_done(now, TransmitResult::Sent(segments));
            }
            counts
        });
        self.received[side] += received;
        self.finished[side] += finished;
        self.wire.extend(out);
    }

    /// Lets both go on for a while.
    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        (0..2).for_each(|side| self.turn(side, Vec::new()));
        loop {
            let due = self.engines.iter().filter_map(Engine::next_timeout).min();
            let arrival = self.wire.front().map(|(at, ..)| *at);
            let next = due.into_iter().chain(arrival).min();
            let Some(next) = next.filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(next);
            for side in 0..2 {
                let mut came = Vec::new();
                while let Some((at, ..)) = self.wire.front()
                    && *at <= self.now
                    && let Some((_, to, packet)) = self.wire.pop_front()
                {
                    if to == side {
                        came.push(packet);
                    } else {
                        self.turn(to, vec![packet]);
                    }
                }
                self.turn(side, came);
            }
        }
        self.now = end;
    }
}

#[test]
fn f32_an_idle_channel_costs_at_most_128_bytes_and_a_finished_one_none() {
    let channels = MAX_CHANNELS as u32;
    let mut pair = Pair::new();
    pair.send(0, 0).unwrap();
    pair.send(1, 0).unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received, [1, 1]);
    let before = [0, 1].map(held);
    // Send on all channels at once, so that all have messages at the same time.
    for from in [0, 1] {
        for channel in 1..channels {
            pair.send(from, channel).unwrap();
        }
        pair.run(Duration::from_secs(3));
    }
    let each = u64::from(channels);
    assert_eq!(pair.received, [each, each]);
    let full = pair.send(0, channels).unwrap_err();
    assert_eq!(full, SendError::Channels { open: MAX_CHANNELS });
    for side in [0, 1] {
        let cost = (held(side) - before[side]) as u64 / each;
        println!("figure: {cost} B for each of {channels} idle channels");
        assert!(cost <= CHANNEL_MEMORY, "{cost} B for each channel");
    }
    // The channels continue with their next numbers.
    for from in [0, 1] {
        for channel in (0..channels).step_by(1_000) {
            assert_eq!(pair.send(from, channel).unwrap(), 1);
        }
    }
    pair.run(Duration::from_secs(1));
    for side in [0, 1] {
        for channel in 0..channels {
            let finished = pair.with(side, |engine, now| {
                engine.finish_channel(now, id(1 - side), ChannelId(channel))
            });
            assert!(finished.unwrap());
        }
    }
    pair.run(Duration::from_secs(3));
    assert_eq!(pair.finished, [each, each], "each end was heard of");
    let left = [0, 1].map(held);
    for side in [0, 1] {
        // This includes memory for the burst of ends, until the peer is idle.
        let left = left[side].saturating_sub(before[side]) as u64 / each;
        println!("figure: {left} B left of each finished channel");
        assert!(left < 32, "{left} B left of each");
        let refused = pair.send(side, 7).unwrap_err();
        let channel = ChannelId(7);
        assert_eq!(refused, SendError::Finished { channel });
    }
    // New channels replace them, ever more, and leave nothing.
    for channel in channels..channels + 10_000 {
        pair.send(0, channel).unwrap();
        pair.with(0, |engine, now| {
            let finished = engine.finish_channel(now, id(1), ChannelId(channel));
            assert!(finished.unwrap());
        });
        if channel % 100 == 0 {
            pair.run(Duration::from_millis(10));
        }
    }
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.finished[1], each + 10_000);
    for side in [0, 1] {
        let more = held(side).saturating_sub(left[side]);
        println!("figure: {more} B more after 10,000 others");
        assert!(more < 50_000, "{more} B more");
    }
    let sound = |engine: &Engine| engine.audit(pair.now).unwrap();
    pair.engines.iter().for_each(sound);
}
