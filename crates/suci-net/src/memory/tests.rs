use std::io::IoSlice;
use std::thread;

use super::*;

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn f18_a_full_queue_drops_and_counts_and_takes_more_once_read() {
    let hub = Hub::new(10 * charge(1_000));
    let mut sender = hub.endpoint(addr("10.0.0.1:1")).unwrap();
    let mut receiver = hub.endpoint(addr("10.0.0.2:1")).unwrap();
    let bytes = [5; 16_000];
    let slices = [IoSlice::new(&bytes)];
    let single = Train::single(receiver.local_addr(), Ecn::NotEct, &slices);
    let train = Train {
        segment: 1_000,
        ..single
    };
    assert_eq!(sender.send(&train).unwrap(), SendOutcome::Sent(16));
    assert_eq!(receiver.counters().recv_drops, 6);
    assert_eq!(receiver.recv(4, &mut |_, _| ()).unwrap(), 4);
    assert_eq!(sender.send(&train).unwrap(), SendOutcome::Sent(16));
    assert_eq!(receiver.counters().recv_drops, 18);
    assert_eq!(receiver.recv(99, &mut |_, _| ()).unwrap(), 10);
    assert_eq!(locked(&receiver.inbox().queue).charged, 0);
}

#[test]
fn f09_empty_datagrams_are_charged_too() {
    let hub = Hub::new(3 * charge(0));
    let mut sender = hub.endpoint(addr("10.0.0.1:1")).unwrap();
    let mut receiver = hub.endpoint(addr("10.0.0.2:1")).unwrap();
    for _ in 0..5 {
        let empty = Train::single(receiver.local_addr(), Ecn::NotEct, &[]);
        assert_eq!(sender.send(&empty).unwrap(), SendOutcome::Sent(1));
    }
    assert_eq!(receiver.counters().recv_drops, 2);
    assert_eq!(receiver.recv(99, &mut |_, _| ()).unwrap(), 3);
}

#[test]
fn the_charge_is_the_measured_one_and_never_falls() {
    for (len, expected) in [
        (0, 832),
        (128, 832),
        (512, 1_280),
        (1_472, 2_304),
        (4_096, 8_448),
        (65_507, 66_339),
    ] {
        assert_eq!(charge(len), expected);
    }
    assert!((0..65_507).all(|len| charge(len) <= charge(len + 1)));
}

#[test]
fn an_address_is_taken_until_its_endpoint_is_dropped() {
    let hub = Hub::new(1 << 20);
    let first = hub.endpoint(addr("10.0.0.1:0")).unwrap();
    let local = first.local_addr();
    assert_ne!(local.port(), 0);
    let mapped = addr(&format!("[::ffff:10.0.0.1]:{}", local.port()));
    for taken in [local, mapped] {
        assert_eq!(
            hub.endpoint(taken).unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
    }
    let second = hub.clone().endpoint(addr("10.0.0.1:0")).unwrap();
    assert_ne!(second.local_addr(), local);
    drop(first);
    assert_eq!(hub.endpoint(local).unwrap().local_addr(), local);
}

#[test]
fn f25_nobody_there_is_said_at_once() {
    let hub = Hub::new(1 << 20);
    let mut lonely = hub.endpoint(addr("10.0.0.1:1")).unwrap();
    let train = Train::single(addr("10.0.0.2:1"), Ecn::NotEct, &[]);
    let no = SendOutcome::Unreachable(io::ErrorKind::ConnectionRefused);
    assert_eq!(lonely.send(&train).unwrap(), no);
    assert_eq!(lonely.counters().unreachable, 1);
    assert_eq!(lonely.path_mtu(train.dest), None);
    // An entry is forgotten with its endpoint, and the next endpoint there is found.
    for _ in 0..2 {
        let _there = hub.endpoint(train.dest).unwrap();
        assert_eq!(lonely.send(&train).unwrap(), SendOutcome::Sent(1));
        assert_eq!(lonely.send(&train).unwrap(), SendOutcome::Sent(1));
    }
    assert_eq!(lonely.send(&train).unwrap(), no);
}

#[test]
fn f27_a_hub_can_be_narrow() {
    let hub = Hub::new(1 << 20).with_mtu(1_472);
    let mut one = hub.endpoint(addr("10.0.0.1:1")).unwrap();
    let dest = one.local_addr();
    assert_eq!(one.path_mtu(dest), Some(1_472));
    let bytes = [0; 2_000];
    let slices = [IoSlice::new(&bytes)];
    for (segment, expected) in [(1_473, SendOutcome::TooBig), (1_472, SendOutcome::Sent(2))] {
        let train = Train {
            segment,
            ..Train::single(dest, Ecn::NotEct, &slices)
        };
        assert_eq!(one.send(&train).unwrap(), expected);
    }
}

#[test]
fn two_threads_talk_until_all_is_said() {
    const ROUNDS: u32 = 2_000;
    let hub = Hub::new(1 << 20);
    let mut one = hub.endpoint(addr("10.0.0.1:1")).unwrap();
    let mut two = hub.endpoint(addr("10.0.0.2:1")).unwrap();
    let (to_one, to_two) = (one.local_addr(), two.local_addr());
    let echo = move |side: &mut Memory, peer: SocketAddr| {
        while !side.wait(None, false).unwrap().readable {}
        let mut last = 0;
        let count = side.recv(1, &mut |_, b| {
            last = u32::from_be_bytes(b.try_into().unwrap())
        });
        assert_eq!(count.unwrap(), 1);
        let next = (last + 1).to_be_bytes();
        let slices = [IoSlice::new(&next)];
        side.send(&Train::single(peer, Ecn::NotEct, &slices))
            .unwrap()
    };
    let other = thread::spawn(move || {
        for _ in 0..ROUNDS {
            assert_eq!(echo(&mut two, to_one), SendOutcome::Sent(1));
        }
        two
    });
    let zero = 0_u32.to_be_bytes();
    let slices = [IoSlice::new(&zero)];
    assert_eq!(
        one.send(&Train::single(to_two, Ecn::NotEct, &slices))
            .unwrap(),
        SendOutcome::Sent(1)
    );
    for _ in 0..ROUNDS {
        assert_eq!(echo(&mut one, to_two), SendOutcome::Sent(1));
    }
    let mut two = other.join().unwrap();
    let mut last = 0;
    two.recv(9, &mut |_, b| {
        last = u32::from_be_bytes(b.try_into().unwrap())
    })
    .unwrap();
    assert_eq!(last, 2 * ROUNDS);
}

#[test]
fn byte_4_names_the_endpoint_of_a_group() {
    let hub = Hub::new(1 << 20);
    let mut from = hub.endpoint(addr("10.0.0.1:1")).unwrap();
    let mut group = hub.group(addr("10.0.0.2:1"), 3).unwrap();
    let to = group[0].local_addr();
    // One train for all endpoints, and one datagram that is too short to name one.
    let bytes: Vec<u8> = (0..=255).flat_map(|byte| [0, 0, 0, 0, byte]).collect();
    for train in bytes.chunks(5 * MAX_TRAIN_SEGMENTS) {
        let slices = [IoSlice::new(train)];
        let train = Train {
            segment: 5,
            ..Train::single(to, Ecn::NotEct, &slices)
        };
        assert_eq!(from.send(&train).unwrap(), SendOutcome::Sent(64));
    }
    let slices = [IoSlice::new(&[1; 4])];
    let short = Train::single(to, Ecn::NotEct, &slices);
    assert_eq!(from.send(&short).unwrap(), SendOutcome::Sent(1));
    for (place, endpoint) in group.iter_mut().enumerate() {
        let mut got = Vec::new();
        let sink = &mut |_: &Meta, bytes: &mut [u8]| got.extend(bytes.get(4).copied());
        let count = endpoint.recv(1_000, sink).unwrap();
        let all: Vec<u8> = (0..=255).filter(|b| usize::from(*b) % 3 == place).collect();
        assert_eq!(got, all);
        assert_eq!(count, all.len() + usize::from(place == 0));
    }
    assert!(hub.group(to, 2).is_err(), "the address is taken");
    group.pop();
    assert!(hub.endpoint(to).is_err(), "until all are gone");
    drop(group);
    assert!(hub.endpoint(to).is_ok());
    assert!(hub.group(addr("10.0.0.3:1"), 0).is_err());
}
