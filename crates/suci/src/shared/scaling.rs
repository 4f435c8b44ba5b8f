//! Whether threads help. Judged only with `SUCI_TEST_STRICT`, on a machine that does nothing else; in short otherwise.

use super::*;
use crate::clock::Clock;
use crate::{AddressBook, Node};
use std::sync::Barrier;
use std::time::Instant;
use suci_net::memory::{Hub, Memory};
use suci_proto::types::Incarnation;
use suci_proto::{Config, ControllerChoice, Engine, Identity};

/// What a receive buffer of the in-memory network holds: everything that is recorded.
const BUFFER: u64 = 4 << 30;
const PEERS: u32 = 16;
/// Messages of each peer, in two halves: each channel has half of a session's window of 8 MiB.
const MESSAGES: u64 = 5_000;
const LENGTH: usize = 1_400;

/// Rounds before those that count, in which the process gets its memory: in a virtual machine the first use of a page
/// costs more than what is measured, and two threads pay it at once.
const WARM_UP: usize = 3;

fn is_strict() -> bool {
    std::env::var_os("SUCI_TEST_STRICT").is_some()
}

fn address(port: u32) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], u16::try_from(port).unwrap()))
}

/// A driver over the in-memory network, for which no limit but those of the protocol matters.
fn driver(id: u32, backend: Memory) -> Driver {
    let clock = Clock;
    let identity = Identity {
        node: NodeId(id),
        incarnation: Incarnation(u128::from(id) + 1),
    };
    let config = Config {
        memory: 64 << 30,
        controller: ControllerChoice::Fixed { bytes: 1 << 30 },
        ..Config::default()
    };
    let seed = [u8::try_from(id).unwrap(); 32];
    let engine = Engine::new(config, identity, seed, BUFFER, clock.now()).unwrap();
    Driver::new(engine, Box::new(backend), -1, clock)
}

/// The engines of a node with `threads` threads, and before them, as recorded: everything that [`PEERS`] peers may
/// send without hearing from it.
fn recorded(threads: usize) -> (Vec<Driver>, Vec<Driver>) {
    let hub = Hub::new(usize::try_from(BUFFER).unwrap()).with_mtu(1_472);
    let group = hub.group(address(1_000), threads).unwrap();
    let mut shards: Vec<_> = group
        .into_iter()
        .map(|backend| driver(0, backend))
        .collect();
    let mut peers: Vec<_> = (1..=PEERS)
        .map(|id| driver(id, hub.endpoint(address(id)).unwrap()))
        .collect();
    for (id, peer) in (1..).zip(&mut peers) {
        let now = peer.now();
        peer.engine
            .add_peer(now, NodeId(0), address(1_000))
            .unwrap();
        let shard = &mut shards[owner(NodeId(id), threads)];
        shard.engine.add_peer(now, NodeId(id), address(id)).unwrap();
        peer.offer(peer.now(), NodeId(0), Draft::new("up").into_outgoing())
            .unwrap();
        let mut arrived = false;
        while !arrived || !peer.is_flushed() {
            peer.turn().unwrap();
            shard.turn().unwrap();
            arrived |= shard.take_message().is_some();
        }
    }
    // Two threads record, whatever the number of those that read: the allocator gives each its own heap, and what
    // one thread frees is another's business no more than with a socket.
    std::thread::scope(|scope| {
        let (odd, even): (Vec<_>, Vec<_>) = peers
            .iter_mut()
            .enumerate()
            .partition(|(place, _)| place % 2 == 0);
        for half in [odd, even] {
            scope.spawn(move || half.into_iter().for_each(|(_, peer)| record(peer)));
        }
    });
    (shards, peers)
}

fn record(peer: &mut Driver) {
    let payload = Bytes::from(vec![7; LENGTH]);
    for number in 0..MESSAGES {
        let channel = ChannelId(u32::from(number % 2 == 0));
        let draft = Draft::new(payload.clone()).channel(channel);
        peer.offer(peer.now(), NodeId(0), draft.into_outgoing())
            .unwrap();
    }
    peer.output().unwrap();
}

/// Seconds in which `threads` threads take everything that was recorded.
fn seconds(threads: usize) -> f64 {
    let (shards, peers) = recorded(threads);
    let start = Barrier::new(threads + 1);
    let seconds = std::thread::scope(|scope| {
        let workers: Vec<_> = shards
            .into_iter()
            .enumerate()
            .map(|(place, mut shard)| {
                let start = &start;
                let own = (1..=PEERS).filter(|id| owner(NodeId(*id), threads) == place);
                let expected = own.count() as u64 * MESSAGES;
                scope.spawn(move || {
                    start.wait();
                    let mut taken = 0;
                    while taken < expected {
                        shard.turn().unwrap();
                        taken += std::iter::from_fn(|| shard.take_message()).count() as u64;
                    }
                    assert_eq!(shard.backend_counters().recv_drops, 0);
                    // Freed when the time is taken.
                    shard
                })
            })
            .collect();
        start.wait();
        let begun = Instant::now();
        let shards: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect();
        let seconds = begun.elapsed().as_secs_f64();
        drop(shards);
        seconds
    });
    drop(peers);
    seconds
}

/// Seconds that `threads` threads take for arithmetic alone, half of it each of two: what the machine itself has to give.
fn bare_seconds(threads: u64) -> f64 {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut state = thread + 1;
                for _ in 0..200_000_000 / threads {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                }
                std::hint::black_box(state);
            });
        }
    });
    begun.elapsed().as_secs_f64()
}

/// Waits until nothing else runs here: under a twentieth of the processors' time.
fn await_idle() {
    let busy = || {
        let all = std::fs::read_to_string("/proc/stat").unwrap();
        let times = all.lines().next().unwrap().split_ascii_whitespace().skip(1);
        let times: Vec<u64> = times.map(|ticks| ticks.parse().unwrap()).collect();
        let idle = times[3] + times[4];
        (times.iter().take(8).sum::<u64>() - idle, idle)
    };
    for _ in 0..100 {
        let before = busy();
        std::thread::sleep(Duration::from_millis(200));
        let after = busy();
        if (after.0 - before.0) * 19 <= after.1 - before.1 {
            return;
        }
    }
    panic!("the machine is not idle");
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[test]
fn the_receive_path_alone_scales_with_threads() {
    let rounds = if is_strict() { 9 } else { 1 };
    let (mut ratios, mut bare, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..WARM_UP * usize::from(is_strict()) {
        seconds(1);
        seconds(2);
    }
    for round in 0..rounds {
        if is_strict() {
            await_idle();
        }
        // Who is first alternates.
        let (one, two) = match round % 2 {
            0 => (seconds(1), seconds(2)),
            _ => {
                let two = seconds(2);
                (seconds(1), two)
            }
        };
        ratios.push(one / two);
        rates.push((u64::from(PEERS) * MESSAGES) as f64 / one / 1e6);
        bare.push(bare_seconds(1) / bare_seconds(2));
    }
    let all: Vec<_> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    let (ratio, bare, rate) = (median(ratios), median(bare), median(rates));
    println!(
        "figure: 2 threads {ratio:.2} x 1 (of {}; arithmetic alone {bare:.2}), 1 thread takes {rate:.2} million messages of \
         {LENGTH} B per second",
        all.join(" ")
    );
    assert!(!is_strict() || ratio >= 1.9, "{ratio:.2} of 1.9");
}

/// Messages per second that two senders get through to a node of `threads` threads, over loopback.
fn rate_of_two_senders(threads: usize, length: usize, time: Duration) -> f64 {
    let open = |id, threads| {
        let builder = Node::builder().id(NodeId(id)).book(AddressBook::new());
        builder.statistics(false).open_threads(threads).unwrap()
    };
    let receiver = open(0, threads);
    let senders = [open(1, 1), open(2, 1)];
    for sender in &senders {
        receiver.add_peer(sender.id(), sender.local_addr()).unwrap();
        sender
            .add_peer(receiver.id(), receiver.local_addr())
            .unwrap();
    }
    let end = Instant::now() + time;
    let payload = Bytes::from(vec![7; length]);
    let mut taken = 0_u64;
    std::thread::scope(|scope| {
        for sender in &senders {
            let payload = payload.clone();
            scope.spawn(move || {
                while Instant::now() < end {
                    let _ =
                        sender.send_timeout(NodeId(0), payload.clone(), Duration::from_millis(50));
                }
            });
        }
        while Instant::now() < end {
            let message = receiver.recv_timeout(Duration::from_millis(50)).unwrap();
            taken += u64::from(message.is_some());
        }
    });
    senders
        .iter()
        .for_each(|sender| drop(sender.abandon(NodeId(0))));
    taken as f64 / time.as_secs_f64()
}

#[test]
fn two_senders_to_one_and_two_threads() {
    let (rounds, time) = match is_strict() {
        true => (5, Duration::from_secs(1)),
        false => (1, Duration::from_millis(50)),
    };
    for (name, length) in [("64 B", 64), ("64 KiB", 64 << 10)] {
        let (mut ones, mut twos) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            if is_strict() {
                await_idle();
            }
            ones.push(rate_of_two_senders(1, length, time));
            twos.push(rate_of_two_senders(2, length, time));
        }
        let ratios = ones.iter().zip(&twos).map(|(one, two)| two / one).collect();
        let (one, two, ratio) = (median(ones), median(twos), median(ratios));
        println!("figure: {name}: {one:.0} and {two:.0} messages per second, {ratio:.2} x");
    }
}
