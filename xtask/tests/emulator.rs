//! An emulated link treats packets of real sockets as it says. Needs root.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use xtask::emulator::{
    Alias, Counts, Direction, Ecn, Emulator, Link, Loss, Reorder, SizeLimit, Totals,
};
use xtask::netns::Netns;
use xtask::tcp;

const MS: Duration = Duration::from_millis(1);

/// Far beyond the delay of any link here, even on a busy machine.
const LONG: Duration = Duration::from_secs(10);

/// A socket of `host` at `address`.
fn socket(host: &Netns, address: impl Into<IpAddr>) -> UdpSocket {
    let address = address.into();
    let socket = host.inside(|| UdpSocket::bind((address, 0)));
    let socket = socket.unwrap().unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

/// A socket at each end.
fn sockets(emulator: &Emulator) -> (UdpSocket, UdpSocket) {
    let pair = emulator.pair();
    (
        socket(&pair.a, pair.a_addr()),
        socket(&pair.b, pair.b_addr()),
    )
}

/// Sets an integer option of the socket's IP level.
fn set(socket: &UdpSocket, option: libc::c_int, value: libc::c_int) {
    let length = libc::socklen_t::try_from(size_of_val(&value)).unwrap();
    let value = (&raw const value).cast();
    // SAFETY: the descriptor is open; the value outlives the call and has the given length.
    let set =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, option, value, length) };
    assert_eq!(set, 0);
}

/// Waits until the link has done with `count` packets towards `b`.
fn settle(emulator: &Emulator, count: u64) {
    settle_towards(|totals| totals.to_b, emulator, count);
}

/// The same towards the end that `side` chooses.
fn settle_towards(side: fn(Totals) -> Counts, emulator: &Emulator, count: u64) {
    let begun = Instant::now();
    loop {
        let counts = side(emulator.totals());
        if counts.delivered + counts.dropped() == count + counts.duplicated {
            return;
        }
        assert!(begun.elapsed() < LONG, "{counts:?}");
        thread::sleep(MS);
    }
}

/// The number of datagrams that have arrived.
fn arrived(at: &UdpSocket) -> u64 {
    at.set_nonblocking(true).unwrap();
    let mut buffer = [0; 2_000];
    let arrived = std::iter::from_fn(|| at.recv(&mut buffer).ok()).count();
    arrived as u64
}

/// There and back, both from `a`'s clock.
fn round_trip(a: &UdpSocket, b: &UdpSocket) -> Duration {
    let mut buffer = [0; 2_000];
    let begun = Instant::now();
    a.send_to(&[7; 100], b.local_addr().unwrap()).unwrap();
    let (_, from) = b.recv_from(&mut buffer).unwrap();
    b.send_to(&[7; 100], from).unwrap();
    a.recv(&mut buffer).unwrap();
    begun.elapsed()
}

#[test]
fn a_round_trip_takes_what_the_link_says_and_follows_its_changes() {
    let emulator = Emulator::start(&Link::with_round_trip(20 * MS)).unwrap();
    let (a, b) = sockets(&emulator);
    let least = || (0..5).map(|_| round_trip(&a, &b)).min().unwrap();
    let took = least();
    assert!((20 * MS..40 * MS).contains(&took), "{took:?}");
    emulator.change(&Link::with_round_trip(2 * MS)).unwrap();
    let took = least();
    assert!((2 * MS..15 * MS).contains(&took), "{took:?}");
    emulator
        .change_at(Duration::ZERO, &Link::with_round_trip(60 * MS))
        .unwrap();
    assert!(least() >= 60 * MS);
}

#[test]
fn a_change_waits_for_its_time() {
    let emulator = Emulator::start(&Link::default()).unwrap();
    let (a, b) = sockets(&emulator);
    let begun = Instant::now();
    emulator
        .change_at(400 * MS, &Link::with_round_trip(50 * MS))
        .unwrap();
    let first = round_trip(&a, &b);
    // If the test was held up for that long, it shows nothing.
    if begun.elapsed() < 300 * MS {
        assert!(first < 50 * MS, "{first:?}");
    }
    thread::sleep(500 * MS);
    assert!(round_trip(&a, &b) >= 50 * MS);
}

#[test]
fn both_families_cross_and_every_packet_is_accounted_for() {
    let lossy = Direction {
        loss: Loss::Bursts {
            share: 0.2,
            length: 3.0,
        },
        duplicate: 0.1,
        jitter: MS,
        reorder: Reorder {
            share: 0.2,
            late: 5 * MS,
        },
        ..Direction::default()
    };
    let link = Link {
        to_b: lossy,
        ..Link::default()
    };
    let emulator = Emulator::start(&link).unwrap();
    let pair = emulator.pair();
    let ends = [
        sockets(&emulator),
        (
            socket(&pair.a, pair.a_addr6()),
            socket(&pair.b, pair.b_addr6()),
        ),
    ];
    for (from, to) in &ends {
        for _ in 0..250 {
            from.send_to(&[7; 100], to.local_addr().unwrap()).unwrap();
            thread::sleep(MS / 20);
        }
    }
    settle(&emulator, 500);
    let counts = emulator.totals().to_b;
    assert!((50..160).contains(&counts.lost), "{counts:?}");
    assert!(counts.duplicated > 0 && counts.reordered > 0, "{counts:?}");
    assert_eq!(counts.dropped(), counts.lost);
    let seen: u64 = ends.iter().map(|(_, to)| arrived(to)).sum();
    assert_eq!(seen, counts.delivered);
    assert_eq!(emulator.totals().to_a.entered, 0, "nobody sends on its own");
}

/// 200 packets of 1,500 bytes at once into 12 Mbit/s with room for ten.
#[test]
fn a_full_queue_drops_what_finds_no_room_and_the_rest_takes_its_time() {
    let narrow = Direction {
        rate: Some(12_000_000),
        queue: Some(15_000),
        ..Direction::default()
    };
    let emulator = Emulator::start(&Link::symmetric(narrow)).unwrap();
    let (a, b) = sockets(&emulator);
    let begun = Instant::now();
    for _ in 0..200 {
        a.send_to(&[7; 1_472], b.local_addr().unwrap()).unwrap();
    }
    settle(&emulator, 200);
    let counts = emulator.totals().to_b;
    // One packet takes a millisecond. More than eleven pass only if sending took a while.
    assert!(
        counts.delivered >= 10 && counts.overflowed > 0,
        "{counts:?}"
    );
    let took = u32::try_from(counts.delivered).unwrap();
    assert!(begun.elapsed() >= MS * took, "{counts:?}");
    assert_eq!(arrived(&b), counts.delivered);
}

#[test]
fn large_packets_vanish_and_with_icmp_the_sender_is_told() {
    let limited = |icmp| {
        Link::symmetric(Direction {
            size_limit: Some(SizeLimit { bytes: 1_300, icmp }),
            ..Direction::default()
        })
    };
    let emulator = Emulator::start(&limited(false)).unwrap();
    let (a, b) = sockets(&emulator);
    let to = b.local_addr().unwrap();
    // Packets that may not be fragmented.
    set(&a, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO);
    for size in [1_272, 1_273] {
        a.send_to(&vec![7; size], to).unwrap();
    }
    settle(&emulator, 2);
    assert_eq!(arrived(&b), 1);
    emulator.change(&limited(true)).unwrap();
    a.send_to(&[7; 1_273], to).unwrap();
    let begun = Instant::now();
    while a.send_to(&[7; 1_273], to).is_ok() {
        assert!(begun.elapsed() < LONG, "nobody told the kernel");
        thread::sleep(MS);
    }
    let told = a.send_to(&[7; 1_273], to).unwrap_err();
    assert_eq!(told.raw_os_error(), Some(libc::EMSGSIZE));
    a.send_to(&[7; 1_272], to).unwrap();
}

#[test]
fn a_host_behind_a_translator_has_another_address_and_answers_find_it() {
    let emulator = Emulator::start(&Link::default()).unwrap();
    let (a, b) = sockets(&emulator);
    let own = a.local_addr().unwrap();
    let mut buffer = [0; 100];
    for last in [101, 102] {
        let alias = Alias {
            address: Ipv4Addr::new(10, 77, 5, last),
            port_shift: 1_000,
        };
        let link = Link {
            alias_of_a: Some(alias),
            ..Link::default()
        };
        emulator.change(&link).unwrap();
        a.send_to(b"question", b.local_addr().unwrap()).unwrap();
        let (_, from) = b.recv_from(&mut buffer).unwrap();
        let port = own.port().wrapping_add(1_000);
        assert_eq!(from, SocketAddr::from((alias.address, port)));
        b.send_to(b"lost", own).unwrap();
        b.send_to(b"answer", from).unwrap();
        let length = a.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..length], *b"answer");
    }
    settle_towards(|totals| totals.to_a, &emulator, 4);
    assert_eq!(emulator.totals().to_a.unroutable, 2);
}

/// The kernel would drop a packet whose checksum is wrong.
#[test]
fn marked_packets_arrive_or_not_as_the_link_says() {
    let emulator = Emulator::start(&Link::default()).unwrap();
    let (a, b) = sockets(&emulator);
    let capable = 2;
    set(&a, libc::IP_TOS, capable);
    let mut entered = 0;
    for (ecn, passes) in [(Ecn::Mark(1.0), 1), (Ecn::Bleach, 1), (Ecn::Drop, 0)] {
        let direction = Direction {
            ecn,
            ..Direction::default()
        };
        emulator.change(&Link::symmetric(direction)).unwrap();
        a.send_to(&[7; 100], b.local_addr().unwrap()).unwrap();
        entered += 1;
        settle(&emulator, entered);
        assert_eq!(arrived(&b), passes, "{ecn:?}");
    }
    assert_eq!(emulator.totals().to_b.ecn_dropped, 1);
}

/// TCP flows fill the rate of the link, and never exceed it.
#[test]
fn tcp_fills_the_link() {
    let direction = Direction {
        rate: Some(50_000_000),
        queue: Some(100_000),
        delay: MS,
        ..Direction::default()
    };
    let emulator = Emulator::start(&Link::symmetric(direction)).unwrap();
    let begun = Instant::now();
    let flow = tcp::Flow::start(emulator.pair(), 7000).unwrap();
    thread::sleep(Duration::from_secs(1));
    let bits = flow.arrived() as f64 * 8.0 / begun.elapsed().as_secs_f64();
    assert!((15e6..=50e6).contains(&bits), "{bits} bit/s");
}
