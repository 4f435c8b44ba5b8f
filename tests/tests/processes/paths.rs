//! Real nodes on an emulated link that breaks an assumption about paths, from the start or from
//! some moment on. Bytes or an event come in time; no link stays Up that carries nothing.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use suci::{ControllerChoice, Error, SharedNode};
use suci_tests::{Cast, Subject, exchange, in_full, light, nodes_across, strict};
use xtask::emulator::{Alias, Direction, Ecn, Emulator, Link, Loss, SizeLimit};
use xtask::netns::Pair;

const MS: Duration = Duration::from_millis(1);

/// Fails if `what` took longer than `promised` since `begun`. Without
/// [`strict`](suci_tests::strict) it may take ten times as long, since the machine may be busy;
/// each fault took longer than that: for ever, or the deadline of a close.
fn in_time(begun: Instant, promised: Duration, what: &str) {
    let took = begun.elapsed();
    let most = if strict() { promised } else { promised * 10 };
    assert!(took <= most, "{what}: {took:?}");
    println!("figure: {what}: {:.0} ms", took.as_secs_f64() * 1e3);
}

/// A process with a node at each end.
fn subjects(pair: &Pair, settings: &[&str]) -> [Subject; 2] {
    let cast = Cast::new(&[(pair.a_addr(), 7000).into(), (pair.b_addr(), 7000).into()]);
    let a = cast.start(&pair.a, 0, settings);
    [a, cast.start(&pair.b, 1, settings)]
}

/// Sends messages from `a` to `b`, and waits until they are there and known to be.
fn transfer(a: &mut Subject, b: &mut Subject, count: u64, size: u64) {
    let (before, known) = (b.number("/received/0"), a.number("/delivered/1"));
    a.say(&format!("send 1 {count} {size}"));
    b.reaches("/received/0", before + count);
    a.reaches("/delivered/1", known + count);
}

/// Direction of a link that takes 10 ms there and back.
fn half_of_10_ms() -> Direction {
    Direction {
        delay: 5 * MS,
        ..Direction::default()
    }
}

/// F39: a middle box drops ECN-capable packets, from the start or from the middle of a transfer on.
#[test]
fn f39_a_path_that_drops_marked_packets_carries_messages_all_the_same() {
    let _together = light();
    for from_start in [true, false] {
        let dropping = Link::symmetric(Direction {
            ecn: Ecn::Drop,
            ..half_of_10_ms()
        });
        let emulator = Emulator::start(&Link::symmetric(half_of_10_ms())).unwrap();
        let [mut a, mut b] = subjects(emulator.pair(), &[]);
        if !from_start {
            transfer(&mut a, &mut b, 20, 20_000);
        }
        emulator.change(&dropping).unwrap();
        let before = b.number("/received/0");
        let begun = Instant::now();
        a.say("send 1 60 20000");
        b.reaches("/received/0", before + 20);
        let what = format!("marked packets dropped, from the start: {from_start}");
        in_time(begun, 500 * MS, &what);
        a.reaches("/marks_stopped/1", 1);
        a.reaches("/delivered/1", before + 60);
        b.say("send 0 20 20000");
        a.reaches("/received/1", 20);
        b.reaches("/delivered/0", 20);
        assert!(emulator.totals().to_b.ecn_dropped > 0, "{emulator:?}");
        assert_eq!((a.events("lost"), b.events("lost")), (vec![], vec![]));
        a.finish();
        b.finish();
    }
}

/// F39: the path sets CE in all packets, or bleaches all: neither stops anything.
#[test]
fn f39_a_path_that_marks_or_bleaches_everything_stops_nothing() {
    let _together = light();
    for ecn in [Ecn::Mark(1.0), Ecn::Bleach, Ecn::Strip] {
        let direction = Direction {
            ecn,
            ..half_of_10_ms()
        };
        let emulator = Emulator::start(&Link::symmetric(direction)).unwrap();
        let [mut a, mut b] = subjects(emulator.pair(), &[]);
        let begun = Instant::now();
        transfer(&mut a, &mut b, 50, 20_000);
        in_time(begun, Duration::from_secs(1), &format!("{ecn:?}, 1 MB"));
        a.finish();
        b.finish();
    }
}

/// F27: hosts with jumbo frames, and a path that carries 1,500 bytes, without a report. Once the
/// size is found, a receiver charges for the size that comes: as much is in flight as between hosts
/// without jumbo frames, and not a sixth of it.
#[test]
fn f27_jumbo_frames_on_hosts_of_a_smaller_path_slow_nothing_down() {
    let _together = light();
    let link = Link::symmetric(Direction {
        size_limit: Some(SizeLimit {
            bytes: 1_500,
            icmp: false,
        }),
        delay: 10 * MS,
        ..Direction::default()
    });
    // Only the receiver's grants bound the bytes in flight.
    let window = ControllerChoice::Fixed { bytes: 8 << 20 };
    let takes = |mtu: u32| {
        let emulator = Emulator::start(&link).unwrap();
        emulator.pair().mtu(mtu).unwrap();
        let [a, b] = nodes_across(emulator.pair(), |builder| builder.controller(window));
        // The size is found while messages are under way.
        exchange(&a, &b, 100);
        exchange(&a, &b, 100);
        let begun = Instant::now();
        exchange(&a, &b, 400);
        let took = begun.elapsed();
        let dropped = emulator.totals().to_b.too_large;
        assert_eq!(dropped > 0, mtu > 1_500, "{dropped} too large");
        took
    };
    let [jumbo, plain] = [9_000, 1_500].map(takes);
    println!("figure: jumbo {jumbo:?}, plain {plain:?}");
    let most = if strict() { 3 } else { 5 };
    assert!(jumbo < most * plain, "jumbo {jumbo:?}, plain {plain:?}");
}

/// F27: the path carries less than every path must, from the start or from the middle on.
#[test]
fn f27_a_path_below_1200_bytes_carries_small_messages_and_is_told() {
    let _together = light();
    // Each takes seconds.
    let starts: &[bool] = if in_full() { &[true, false] } else { &[false] };
    for &from_start in starts {
        let narrow = Link::symmetric(Direction {
            size_limit: Some(SizeLimit {
                bytes: 1_000,
                icmp: false,
            }),
            ..half_of_10_ms()
        });
        let emulator = Emulator::start(&Link::symmetric(half_of_10_ms())).unwrap();
        if from_start {
            emulator.change(&narrow).unwrap();
        }
        let [mut a, mut b] = subjects(emulator.pair(), &[]);
        transfer(&mut a, &mut b, 5, 100);
        if !from_start {
            transfer(&mut a, &mut b, 20, 20_000);
            emulator.change(&narrow).unwrap();
        }
        let begun = Instant::now();
        a.say("send 1 5 20000");
        a.event("refused 1 Narrow");
        let what = format!("below 1,200 B is told, from the start: {from_start}");
        in_time(begun, Duration::from_secs(5), &what);
        assert_eq!(a.events("refused").len(), 1);
        // The messages wait for a path that carries them, which would hold a close up.
        a.kill();
        b.kill();
    }
}

/// F13: the address of one end changes in the middle of a steady stream in one direction, when the
/// receiver has acknowledged everything: only its own question tells the sender its new address.
/// The old address is dead.
#[test]
fn f13_a_stream_goes_on_when_an_address_changes_midway() {
    let _together = light();
    let sides: &[bool] = if in_full() { &[true, false] } else { &[true] };
    for is_receiver in sides {
        let emulator = Emulator::start(&Link::symmetric(half_of_10_ms())).unwrap();
        let [mut a, mut b] = subjects(emulator.pair(), &[]);
        let mut sent = 0;
        let mut stream = |a: &mut Subject, count| {
            for _ in 0..count {
                a.say("send 1 1 1000");
                sent += 1;
                std::thread::sleep(20 * MS);
            }
            sent
        };
        for last in [101, 102] {
            let sent = stream(&mut a, 20);
            a.reaches("/delivered/1", sent);
            std::thread::sleep(50 * MS);
            let alias = Some(Alias {
                address: Ipv4Addr::new(10, 77, 0, last),
                port_shift: 7,
            });
            let moved = Link {
                alias_of_a: alias.filter(|_| !is_receiver),
                alias_of_b: alias.filter(|_| *is_receiver),
                ..Link::symmetric(half_of_10_ms())
            };
            emulator.change(&moved).unwrap();
            let begun = Instant::now();
            while b.number("/received/0") == sent {
                stream(&mut a, 1);
            }
            let what = format!("address changed, of the receiver: {is_receiver}");
            in_time(begun, Duration::from_secs(1), &what);
        }
        let sent = stream(&mut a, 1);
        b.reaches("/received/0", sent);
        a.reaches("/delivered/1", sent);
        assert_eq!((a.events("lost"), b.events("lost")), (vec![], vec![]));
        a.finish();
        b.finish();
    }
}

/// The longest time for a close; each ends long before.
const PATIENCE: Duration = Duration::from_secs(30);

/// Both send and close at once; says how long the longer close took.
fn both_close(nodes: [SharedNode; 2]) -> Duration {
    let [a, b] = &nodes;
    for (from, to) in [(a, b), (b, a)] {
        from.send(to.id(), "first").unwrap();
        to.recv_timeout(PATIENCE).unwrap().unwrap();
        for _ in 0..20 {
            from.send(to.id(), vec![7; 20_000]).unwrap();
        }
    }
    let begun = Instant::now();
    let close = |node: SharedNode| {
        let closed = node.close(PATIENCE);
        // A closing node takes nothing more.
        let fine = matches!(closed, Ok(()) | Err(Error::NotFlushed { .. }));
        assert!(fine, "{closed:?}");
        begun.elapsed()
    };
    std::thread::scope(|scope| {
        let ends = nodes.map(|node| scope.spawn(move || close(node)));
        let took = ends.map(|end| end.join().unwrap());
        took.into_iter().max().unwrap()
    })
}

/// F20: both sides close at once with messages under way, on a path that loses nothing or much.
#[test]
fn f20_both_close_at_once_amid_messages() {
    let _together = light();
    let rounds = if in_full() { 20 } else { 2 };
    for loss in [0.0, 0.1, 0.3] {
        let link = Link::symmetric(Direction {
            loss: Loss::Even(loss),
            ..half_of_10_ms()
        });
        let mut longest = Duration::ZERO;
        for _ in 0..rounds {
            let emulator = Emulator::start(&link).unwrap();
            let nodes = nodes_across(emulator.pair(), |builder| builder);
            longest = longest.max(both_close(nodes));
        }
        println!("figure: both close at {loss}: {longest:?} at most");
        let most = if strict() {
            PATIENCE / 10
        } else {
            PATIENCE / 2
        };
        assert!(longest < most, "{loss}: {longest:?}");
    }
}
