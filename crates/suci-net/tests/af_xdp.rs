//! Frames in memory shared with the kernel, between two hosts joined by a cable.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod hosts;

use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::time::Duration;

use hosts::{Host, ip, nft, pair};
use suci_net::af_xdp::AfXdp;
use suci_net::udp::{Udp, UdpOptions};
use suci_net::{Backend, Ecn, MAX_TRAIN_SEGMENTS, Meta, SendOutcome, Train};

const A: &str = "10.77.0.1:0";
const B: &str = "10.77.0.2:0";

fn xdp(host: &Host, at: &str) -> Box<dyn Backend> {
    let at: SocketAddr = at.parse().unwrap();
    host.inside(|| Box::new(AfXdp::bind(at, &UdpOptions::default()).unwrap()))
}

fn udp(host: &Host, at: &str) -> Box<dyn Backend> {
    let at: SocketAddr = at.parse().unwrap();
    host.inside(|| Box::new(Udp::bind(at, &UdpOptions::default()).unwrap()))
}

fn send(from: &mut dyn Backend, dest: SocketAddr, segment: usize, bytes: &[u8], ecn: Ecn) {
    let slices: Vec<IoSlice<'_>> = bytes
        .chunks(segment * 2 / 3 + 1)
        .map(IoSlice::new)
        .collect();
    let train = Train {
        dest,
        source: None,
        ecn,
        segment,
        slices: &slices,
        len: bytes.len(),
    };
    let outcome = from.send(&train).unwrap();
    assert_eq!(outcome, SendOutcome::Sent(train.segments()));
}

/// Receives until `count` datagrams came or nothing does.
fn drain(backend: &mut dyn Backend, count: usize) -> Vec<(Meta, Vec<u8>)> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let mut sink = |meta: &Meta, bytes: &mut [u8]| {
            taken.extend(meta.datagrams(bytes).map(|d| (*meta, d.to_vec())));
        };
        let some = backend.recv(64, &mut sink).unwrap();
        let limit = Some(Duration::from_secs(2));
        if some == 0 && !backend.wait(limit, false).unwrap().any() {
            break;
        }
    }
    taken
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 + (i >> 8)) as u8).collect()
}

/// Frames both ways, to a UDP socket, and from one.
#[test]
fn trains_of_frames_arrive_whole() {
    for (at_a, at_b) in [(true, true), (true, false), (false, true)] {
        let [a, b] = pair(1_500);
        let open = |is_raw, host, at| if is_raw { xdp(host, at) } else { udp(host, at) };
        let mut from = open(at_a, &a, A);
        let mut to = open(at_b, &b, B);
        a.enter();
        let (dest, source) = (to.local_addr(), from.local_addr());
        // From the third train on the neighbour is known.
        for _ in 0..2 {
            send(&mut *from, dest, 1, b"-", Ecn::NotEct);
            assert_eq!(drain(&mut *to, 1).len(), 1);
        }
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            for (segment, length) in [
                (1, 0),
                (1, 1),
                (1_472, 1_472),
                (1_000, 5_137),
                (7, 64 * 7 - 3),
                (1_000, MAX_TRAIN_SEGMENTS * 1_000),
            ] {
                let bytes = pattern(length);
                send(&mut *from, dest, segment, &bytes, ecn);
                let count = length.div_ceil(segment).max(1);
                let taken = drain(&mut *to, count);
                assert_eq!(taken.len(), count, "{at_a} {at_b} {segment} {length}");
                let got: Vec<u8> = taken.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
                assert!(got == bytes);
                for (meta, _) in &taken {
                    assert_eq!((meta.from, meta.ecn), (source, ecn));
                }
            }
        }
        assert_eq!(
            from.counters().datagrams_sent,
            to.counters().datagrams_received
        );
        assert_eq!(to.counters().recv_drops, 0);
    }
}

/// An MTU that is raised while the socket is open does not change its memory: what does not fit is
/// too big, and does not wait for ever.
#[test]
fn a_raised_mtu_does_not_stop_the_sender() {
    let [a, b] = pair(1_500);
    let (mut from, mut to) = (xdp(&a, A), udp(&b, B));
    a.enter();
    let dest = to.local_addr();
    for _ in 0..2 {
        send(&mut *from, dest, 1, b"-", Ecn::NotEct);
        assert_eq!(drain(&mut *to, 1).len(), 1);
    }
    b.inside(|| ip("link set eth1 mtu 3000"));
    a.inside(|| ip("link set eth0 mtu 3000"));
    let bytes = pattern(2_500);
    let slices = [IoSlice::new(&bytes)];
    let train = Train {
        dest,
        source: None,
        ecn: Ecn::NotEct,
        segment: bytes.len(),
        slices: &slices,
        len: bytes.len(),
    };
    assert_eq!(from.send(&train).unwrap(), SendOutcome::TooBig);
    send(&mut *from, dest, 1_900, &pattern(1_900), Ecn::NotEct);
    assert_eq!(drain(&mut *to, 1).len(), 1);
}

/// A firewall that lets nothing in or out does not concern frames.
#[test]
fn frames_pass_by_the_kernels_ip() {
    let [a, b] = pair(1_500);
    let (mut from, mut to) = (xdp(&a, A), xdp(&b, B));
    a.enter();
    let dest = to.local_addr();
    for _ in 0..2 {
        send(&mut *from, dest, 1, b"-", Ecn::NotEct);
        assert_eq!(drain(&mut *to, 1).len(), 1);
    }
    let shut = |hook: &str| {
        nft("add table ip shut");
        let kind = format!("type filter hook {hook} priority 0;");
        nft(&format!("add chain ip shut every {{ {kind} }}"));
        nft("add rule ip shut every meta l4proto udp drop");
    };
    a.inside(|| shut("output"));
    b.inside(|| shut("input"));
    // The neighbour's address is asked for now and then, by a train that the kernel would send.
    let arrived = (0..100).map(|_| {
        send(&mut *from, dest, 500, &pattern(1_500), Ecn::Ect0);
        let mut count = 0;
        let _ = to.wait(Some(Duration::from_millis(100)), false).unwrap();
        let mut sink = |meta: &Meta, bytes: &mut [u8]| count += meta.datagrams(bytes).count();
        while to.recv(64, &mut sink).unwrap() > 0 {}
        count
    });
    let arrived: usize = arrived.sum();
    assert!(arrived >= 3 * 98, "{arrived}");
}

/// Datagrams for a port of this host, those from it, and those longer than a packet.
#[test]
fn udp_carries_what_frames_cannot() {
    let [a, _b] = pair(1_500);
    let (mut raw, mut plain) = (xdp(&a, A), udp(&a, A));
    a.enter();
    let (at_raw, at_plain) = (raw.local_addr(), plain.local_addr());
    send(&mut *plain, at_raw, 300, &pattern(900), Ecn::Ect0);
    assert_eq!(drain(&mut *raw, 3).len(), 3);
    send(&mut *raw, at_plain, 300, &pattern(900), Ecn::Ect0);
    assert_eq!(drain(&mut *plain, 3).len(), 3);
}

/// More than the frames hold: the rest is lost and counted, and the next ones arrive.
#[test]
fn f13_a_receiver_that_does_not_look_drops_and_goes_on() {
    let [a, b] = pair(1_500);
    let mut from = udp(&a, A);
    let options = UdpOptions {
        recv_buffer: 100_000,
        ..UdpOptions::default()
    };
    let mut to = b.inside(|| AfXdp::bind(B.parse().unwrap(), &options).unwrap());
    assert!(to.capabilities().recv_buffer <= 512 * 768);
    a.enter();
    let dest = to.local_addr();
    for _ in 0..100 {
        send(&mut *from, dest, 100, &pattern(6_400), Ecn::NotEct);
    }
    let taken = drain(&mut to, 6_400).len();
    assert!((256..=1_024).contains(&taken), "{taken}");
    assert_eq!(to.counters().recv_drops, 6_400 - taken as u64);
    send(&mut *from, dest, 100, &pattern(6_400), Ecn::NotEct);
    assert_eq!(drain(&mut to, 64).len(), 64);
}

#[test]
fn a_segment_longer_than_the_cable_carries_is_too_big() {
    let [a, b] = pair(1_500);
    let (mut from, mut to) = (xdp(&a, A), udp(&b, B));
    a.enter();
    let dest = to.local_addr();
    for _ in 0..2 {
        send(&mut *from, dest, 1, b"-", Ecn::NotEct);
        assert_eq!(drain(&mut *to, 1).len(), 1);
    }
    let bytes = pattern(1_473);
    let slices = [IoSlice::new(&bytes)];
    let train = Train::single(dest, Ecn::NotEct, &slices);
    assert_eq!(from.send(&train).unwrap(), SendOutcome::TooBig);
}

#[test]
fn f20_an_interface_that_went_down_and_came_back_serves_again() {
    let [a, b] = pair(1_500);
    let (mut from, mut to) = (xdp(&a, A), xdp(&b, B));
    a.enter();
    let dest = to.local_addr();
    for _ in 0..3 {
        send(&mut *from, dest, 1, b"-", Ecn::NotEct);
        assert_eq!(drain(&mut *to, 1).len(), 1);
    }
    b.inside(|| ip("link set eth1 down"));
    let slices = [IoSlice::new(b"lost")];
    let train = Train::single(dest, Ecn::NotEct, &slices);
    for _ in 0..2_000 {
        // It may be refused, wait, or go nowhere.
        let _ = from.send(&train).unwrap();
    }
    b.inside(|| ip("link set eth1 up"));
    let arrives = |_| {
        let _ = from.send(&train).unwrap();
        let _ = from.wait(Some(Duration::from_millis(20)), false).unwrap();
        let mut sink = |_: &Meta, _: &mut [u8]| ();
        to.recv(64, &mut sink).unwrap() > 0
    };
    assert!((0..500).any(arrives));
}

#[test]
fn who_cannot_have_frames_is_told_why() {
    let [a, b] = pair(1_500);
    let options = UdpOptions::default();
    let open = |host: &Host, at: &str| {
        let at: SocketAddr = at.parse().unwrap();
        let error = host.inside(|| AfXdp::bind(at, &options).unwrap_err());
        (error.kind(), error.to_string())
    };
    let (kind, text) = open(&a, "127.0.0.1:0");
    assert_eq!(kind, ErrorKind::InvalidInput);
    assert!(text.contains("loopback"), "{text}");
    let (kind, text) = open(&a, "0.0.0.0:0");
    assert_eq!(kind, ErrorKind::InvalidInput);
    assert!(text.contains("listen at its address"), "{text}");
    let first = xdp(&a, A);
    let (kind, text) = open(&a, A);
    assert_eq!(kind, ErrorKind::ResourceBusy);
    assert!(text.contains("XDP"), "{text}");
    // The program leaves with its owner.
    drop(first);
    drop(xdp(&a, A));
    b.inside(|| ip("link set eth1 mtu 9000"));
    a.inside(|| ip("link set eth0 mtu 9000"));
    let (kind, text) = open(&a, A);
    assert_eq!(kind, ErrorKind::InvalidInput);
    assert!(text.contains("lower its MTU"), "{text}");
}
