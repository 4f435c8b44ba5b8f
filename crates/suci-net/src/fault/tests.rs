use std::collections::HashMap;

use super::dice::MAX_OVERTAKING;
use super::*;
use crate::Ecn;
use crate::memory::{Hub, Memory};

fn spec(text: &str) -> FaultSpec {
    text.parse().unwrap()
}

fn worn(text: &str) -> (Fault<Memory>, Memory) {
    let hub = Hub::new(1 << 30);
    let open = |ip: &str| hub.endpoint(ip.parse().unwrap()).unwrap();
    (
        Fault::new(open("10.0.0.1:1"), spec(text)),
        open("10.0.0.2:1"),
    )
}

/// A train of numbered packets of `size` bytes.
fn numbered(first: u64, count: usize, size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in (first..).take(count) {
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.resize(bytes.len() + size - 8, 0);
    }
    bytes
}

/// Sends `count` numbered packets in trains of 40 and returns what arrives, in order.
fn run(text: &str, count: u64) -> (Vec<Vec<u8>>, FaultCounters) {
    let (mut fault, mut peer) = worn(text);
    for first in (0..count).step_by(40) {
        let bytes = numbered(first, 40.min(count - first) as usize, 100);
        let slices: Vec<IoSlice<'_>> = bytes.chunks(64).map(IoSlice::new).collect();
        let single = Train::single(peer.local_addr(), Ecn::Ect0, &slices);
        let train = Train {
            segment: 100,
            ..single
        };
        assert_eq!(
            fault.send(&train).unwrap(),
            SendOutcome::Sent(train.segments())
        );
    }
    (settle(&mut fault, &mut peer), fault.counters().faults)
}

/// Lets held packets go, and receives all.
fn settle(fault: &mut Fault<Memory>, peer: &mut Memory) -> Vec<Vec<u8>> {
    while let Some(due) = fault.due_in() {
        fault.wait(Some(due), false).unwrap();
    }
    assert!(fault.held.is_empty());
    let mut got = Vec::new();
    peer.recv(usize::MAX, &mut |meta, bytes| {
        assert_eq!(meta.ecn, Ecn::Ect0);
        got.push(bytes.to_vec());
    })
    .unwrap();
    got
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().unwrap())
}

/// Whether `count` of `of` is what probability `p` allows: six standard deviations.
fn plausible(count: u64, of: u64, p: f64) -> bool {
    let expected = of as f64 * p;
    (count as f64 - expected).abs() <= 6.0 * (expected * (1.0 - p)).sqrt()
}

#[test]
fn a_spec_says_what_it_means() {
    let full = spec("loss=0.05, dup=0.25,reorder=0.1,corrupt=1,delay=1us..5ms,seed=7");
    let expected = FaultSpec {
        loss: 0.05,
        dup: 0.25,
        reorder: 0.1,
        corrupt: 1.0,
        delay_min: Duration::from_micros(1),
        delay_max: Duration::from_millis(5),
        seed: 7,
    };
    assert_eq!(full, expected);
    assert_eq!(spec(&full.to_string()), full);
    assert_eq!(spec(""), FaultSpec::default());
    assert!(spec("seed=9,loss=0,delay=0").is_none());
    assert!(!spec("delay=1s").is_none() && !spec("dup=1e-9").is_none());
    assert_eq!(spec("delay=60s").delay_min, MAX_DELAY);
}

#[test]
fn a_wrong_spec_is_refused_with_key_value_and_range() {
    let refused = |text: &str| text.parse::<FaultSpec>().unwrap_err().to_string();
    for (text, said) in [
        (
            "loss=1.5",
            "fault `loss=1.5`: expected a probability from 0 to 1",
        ),
        (
            "dup=-0.1",
            "fault `dup=-0.1`: expected a probability from 0 to 1",
        ),
        (
            "corrupt=NaN",
            "fault `corrupt=NaN`: expected a probability from 0 to 1",
        ),
        (
            "reorder=x",
            "fault `reorder=x`: expected a probability from 0 to 1",
        ),
        ("loss", "fault `loss`: expected key=value"),
        ("loss=0,loss=1", "fault `loss` is given twice"),
        (
            "drop=1",
            "fault `drop` is unknown: expected loss, dup, reorder, corrupt, delay or seed",
        ),
        (
            "seed=-1",
            "fault `seed=-1`: expected a whole number from 0 to 18446744073709551615",
        ),
    ] {
        assert_eq!(refused(text), said);
    }
    for value in [
        "5",
        "5m",
        "ms",
        "-5ms",
        "5ms..1ms",
        "61s",
        "1ms..",
        "99999999999999999999s",
    ] {
        let said = refused(&format!("delay={value}"));
        assert!(
            said.contains(&format!("delay={value}`")) && said.contains("0 to 60 s"),
            "{said}"
        );
    }
}

#[test]
fn nothing_configured_changes_nothing() {
    let (got, counters) = run("seed=5", 1_000);
    assert_eq!(got, numbered(0, 1_000, 100).chunks(100).collect::<Vec<_>>());
    assert_eq!(counters, FaultCounters::default());
}

#[test]
fn f31_each_fault_strikes_as_often_as_asked() {
    let (got, counters) = run("loss=0.05,dup=0.05,reorder=0.1,corrupt=0.01,seed=7", 20_000);
    let survivors = counters.packets - counters.lost;
    assert_eq!(counters.packets, 20_000);
    assert!(plausible(counters.lost, 20_000, 0.05), "{counters:?}");
    for (count, p) in [
        (counters.doubled, 0.05),
        (counters.reordered, 0.1),
        (counters.corrupted, 0.01),
    ] {
        assert!(plausible(count, survivors, p), "{counters:?}");
    }
    assert_eq!(got.len() as u64, survivors + counters.doubled);
    assert_eq!(counters.discarded, 0);
}

#[test]
fn a_run_repeats_exactly_by_its_seed_and_differs_by_another() {
    let text = "loss=0.1,dup=0.1,reorder=0.2,corrupt=0.1,seed=";
    let sorted = |seed| {
        let (mut got, counters) = run(&format!("{text}{seed}"), 2_000);
        got.sort();
        (got, counters)
    };
    assert_eq!(sorted(1), sorted(1));
    assert_ne!(sorted(1), sorted(2));
}

#[test]
fn one_fault_leaves_the_others_where_they_were() {
    let many = spec("loss=0.5,dup=0.5,seed=3");
    let few = spec("dup=0.5,seed=3");
    for number in 0..1_000 {
        let (many, few) = (fate(&many, number), fate(&few, number));
        assert!(many.lost || many == few);
    }
}

#[test]
fn f30_corruption_flips_exactly_one_bit_anywhere() {
    let (got, counters) = run("corrupt=1,seed=3", 4_000);
    assert_eq!(counters.corrupted, 4_000);
    let mut seen = [false; 800];
    for (index, bytes) in got.iter().enumerate() {
        let sound = numbered(index as u64, 1, 100);
        let flipped: Vec<usize> = (0..800)
            .filter(|bit| (bytes[bit / 8] ^ sound[bit / 8]) >> (bit % 8) & 1 == 1)
            .collect();
        assert_eq!(flipped.len(), 1, "packet {index}");
        seen[flipped[0]] = true;
    }
    assert!(seen.iter().filter(|hit| **hit).count() > 700);
    let mut empty = [];
    flip(&mut empty, 5);
}

#[test]
fn f30_what_is_held_back_is_corrupted_too() {
    for text in ["corrupt=1,reorder=1", "corrupt=1,delay=1us"] {
        let (got, _) = run(text, 100);
        assert_eq!(got.len(), 100);
        let is_sound = |bytes: &&Vec<u8>| (0..100).any(|index| **bytes == numbered(index, 1, 100));
        assert_eq!(got.iter().filter(is_sound).count(), 0);
    }
}

#[test]
fn the_odd_last_segment_and_its_copy_keep_their_length() {
    for text in ["dup=1", "reorder=1,dup=1", "delay=1us,dup=1"] {
        let (mut fault, mut peer) = worn(text);
        let bytes = numbered(0, 25, 100);
        let slices = [IoSlice::new(&bytes)];
        let single = Train::single(peer.local_addr(), Ecn::Ect0, &slices);
        let train = Train {
            segment: 1_000,
            ..single
        };
        assert_eq!(fault.send(&train).unwrap(), SendOutcome::Sent(3));
        let mut got = settle(&mut fault, &mut peer);
        got.sort();
        let expected: Vec<&[u8]> = bytes.chunks(1_000).flat_map(|c| [c, c]).collect();
        assert_eq!(got, expected, "{text}");
    }
}

#[test]
fn a_copy_of_a_corrupted_packet_is_sound() {
    let (got, _) = run("corrupt=1,dup=1,seed=3", 100);
    assert_eq!(got.len(), 200);
    for (index, pair) in got.chunks(2).enumerate() {
        let sound = numbered(index as u64, 1, 100);
        assert!(pair[0] != sound && pair[1] == sound, "packet {index}");
    }
}

#[test]
fn everything_lost_or_doubled_at_probability_one() {
    assert_eq!(run("loss=1,dup=1,reorder=1,corrupt=1", 500).0.len(), 0);
    let (got, _) = run("dup=1", 500);
    let numbers: Vec<u64> = got.iter().map(|bytes| number(bytes)).collect();
    assert_eq!(numbers, (0..1_000).map(|i| i / 2).collect::<Vec<u64>>());
}

#[test]
fn f31_a_held_back_packet_lets_others_pass_and_all_arrive() {
    let (mut fault, mut peer) = worn("reorder=0.2,seed=1");
    for first in 0..2_000 {
        let bytes = numbered(first, 1, 100);
        let slices = [IoSlice::new(&bytes)];
        let train = Train::single(peer.local_addr(), Ecn::Ect0, &slices);
        assert_eq!(fault.send(&train).unwrap(), SendOutcome::Sent(1));
    }
    let got = settle(&mut fault, &mut peer);
    let counters = fault.counters().faults;
    let mut numbers: Vec<u64> = got.iter().map(|bytes| number(bytes)).collect();
    let late = |pair: &&[u64]| pair[0] > pair[1];
    let inversions = numbers.windows(2).filter(late).count() as u64;
    assert!(
        inversions > 100 && inversions <= counters.reordered,
        "{inversions} {counters:?}"
    );
    for (at, number) in numbers.iter().enumerate() {
        assert!(*number <= at as u64 + MAX_OVERTAKING, "{number} at {at}");
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..2_000).collect::<Vec<u64>>());
}

#[test]
fn a_held_packet_leaves_by_time_though_nothing_follows() {
    let (mut fault, mut peer) = worn("reorder=1,seed=1");
    let bytes = numbered(0, 1, 100);
    let slices = [IoSlice::new(&bytes)];
    let train = Train::single(peer.local_addr(), Ecn::Ect0, &slices);
    assert_eq!(fault.send(&train).unwrap(), SendOutcome::Sent(1));
    assert!(fault.due_in().unwrap() <= REORDER_PATIENCE);
    // Would sleep for ever if the layer did not wake itself.
    while fault.due_in().is_some() {
        assert!(!fault.wait(None, false).unwrap().any());
    }
    assert_eq!(
        peer.recv(9, &mut |_, got| assert_eq!(got, bytes)).unwrap(),
        1
    );
}

#[test]
fn a_constant_delay_keeps_order_and_holds_everything() {
    let (mut fault, mut peer) = worn("delay=20ms,dup=0.5,seed=1");
    let bytes = numbered(0, 30, 100);
    let slices = [IoSlice::new(&bytes)];
    let train = Train {
        segment: 100,
        ..Train::single(peer.local_addr(), Ecn::Ect0, &slices)
    };
    let start = Instant::now();
    assert_eq!(fault.send(&train).unwrap(), SendOutcome::Sent(30));
    let early = peer.recv(usize::MAX, &mut |_, _| ()).unwrap();
    assert!(early == 0 || start.elapsed() >= Duration::from_millis(20));
    let got = settle(&mut fault, &mut peer);
    assert!(start.elapsed() >= Duration::from_millis(20));
    let numbers: Vec<u64> = got.iter().map(|bytes| number(bytes)).collect();
    assert!(numbers.is_sorted());
    let counters = fault.counters().faults;
    assert_eq!(numbers.len() as u64, 30 + counters.doubled);
    assert_eq!(counters.delayed, 30 + counters.doubled);
}

#[test]
fn delays_are_drawn_from_the_whole_range() {
    let spec = spec("delay=1ms..2ms,seed=4");
    let delays: Vec<Duration> = (0..1_000).map(|number| fate(&spec, number).delay).collect();
    let (low, high) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
    assert!(
        *low >= spec.delay_min && *low < Duration::from_micros(1_050),
        "{low:?}"
    );
    assert!(
        *high <= spec.delay_max && *high > Duration::from_micros(1_950),
        "{high:?}"
    );
}

#[test]
fn what_is_held_has_a_limit() {
    let (mut fault, peer) = worn("delay=60s");
    let bytes = vec![0; 60_000];
    let slices = [IoSlice::new(&bytes)];
    let train = Train::single(peer.local_addr(), Ecn::Ect0, &slices);
    for _ in 0..2_000 {
        assert_eq!(fault.send(&train).unwrap(), SendOutcome::Sent(1));
    }
    let counters = fault.counters().faults;
    assert!(
        counters.discarded > 800 && counters.discarded < 1_000,
        "{counters:?}"
    );
}

#[test]
fn what_was_released_makes_room() {
    let (mut fault, mut peer) = worn("delay=1us");
    let bytes = vec![0; 60_000];
    let slices = [IoSlice::new(&bytes)];
    let train = Train::single(peer.local_addr(), Ecn::Ect0, &slices);
    // 90 MB in all, 6 MB at a time.
    for _ in 0..15 {
        for _ in 0..100 {
            assert_eq!(fault.send(&train).unwrap(), SendOutcome::Sent(1));
        }
        assert_eq!(settle(&mut fault, &mut peer).len(), 100);
    }
    assert_eq!(fault.counters().faults.discarded, 0);
}

/// Takes a scripted number of segments per call.
struct Narrow {
    inner: Memory,
    takes: Vec<usize>,
}

impl Backend for Narrow {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<SendOutcome> {
        let takes = self.takes.pop().unwrap_or(usize::MAX).min(train.segments());
        if takes == 0 {
            return Ok(SendOutcome::Again);
        }
        let len = (takes * train.segment).min(train.len);
        let mut slices = Vec::new();
        cut(train.slices, 0, len, &mut slices);
        self.inner.send(&Train {
            slices: &slices,
            len,
            ..*train
        })
    }

    fn recv(&mut self, max: usize, sink: &mut dyn FnMut(&Meta, &mut [u8])) -> io::Result<usize> {
        self.inner.recv(max, sink)
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<Ready> {
        self.inner.wait(timeout, want_write)
    }

    fn path_mtu(&self, dest: SocketAddr) -> Option<usize> {
        self.inner.path_mtu(dest)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    #[cfg(unix)]
    fn raw_fd(&self) -> Option<std::os::fd::RawFd> {
        None
    }
}

#[test]
fn f26_a_full_socket_changes_nobodys_fate() {
    let text = "loss=0.1,reorder=0.1,corrupt=0.1,seed=11";
    let (expected, _) = run(text, 400);
    let hub = Hub::new(1 << 30);
    let open = |ip: &str| hub.endpoint(ip.parse().unwrap()).unwrap();
    let (inner, mut peer) = (open("10.0.0.1:1"), open("10.0.0.2:1"));
    let takes = (0..150).map(|i| i * 7 % 5).collect();
    let mut fault = Fault::new(Narrow { inner, takes }, spec(text));
    let bytes = numbered(0, 400, 100);
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let now = &rest[..rest.len().min(4_000)];
        let slices = [IoSlice::new(now)];
        let train = Train {
            segment: 100,
            ..Train::single(peer.local_addr(), Ecn::Ect0, &slices)
        };
        match fault.send(&train).unwrap() {
            SendOutcome::Sent(count) => rest = &rest[count * 100..],
            SendOutcome::Again => {}
            other => panic!("{other:?}"),
        }
    }
    while let Some(due) = fault.due_in() {
        fault.wait(Some(due), false).unwrap();
    }
    assert!(fault.inner().takes.is_empty());
    let mut counts: HashMap<Vec<u8>, i32> = HashMap::new();
    peer.recv(usize::MAX, &mut |_, got| {
        *counts.entry(got.to_vec()).or_default() += 1
    })
    .unwrap();
    for bytes in expected {
        *counts.entry(bytes).or_default() -= 1;
    }
    assert!(counts.values().all(|count| *count == 0));
}

#[test]
fn f26_a_copy_that_found_no_room_is_forgotten_but_its_first_is_not_sent_again() {
    let hub = Hub::new(1 << 30);
    let open = |ip: &str| hub.endpoint(ip.parse().unwrap()).unwrap();
    let (inner, mut peer) = (open("10.0.0.1:1"), open("10.0.0.2:1"));
    let mut fault = Fault::new(
        Narrow {
            inner,
            takes: vec![0, 3],
        },
        spec("dup=1"),
    );
    let bytes = numbered(0, 4, 100);
    let slices = [IoSlice::new(&bytes)];
    let train = Train {
        segment: 100,
        ..Train::single(peer.local_addr(), Ecn::Ect0, &slices)
    };
    // Packets 0, 0, 1 were taken; then the socket is full once.
    assert_eq!(fault.send(&train).unwrap(), SendOutcome::Sent(2));
    let slices = [IoSlice::new(&bytes[200..])];
    let train = Train {
        segment: 100,
        ..Train::single(peer.local_addr(), Ecn::Ect0, &slices)
    };
    assert_eq!(fault.send(&train).unwrap(), SendOutcome::Again);
    assert_eq!(fault.send(&train).unwrap(), SendOutcome::Sent(2));
    let got = settle_numbers(&mut peer);
    assert_eq!(got, [0, 0, 1, 2, 2, 3, 3]);
}

fn settle_numbers(peer: &mut Memory) -> Vec<u64> {
    let mut got = Vec::new();
    peer.recv(usize::MAX, &mut |_, bytes| got.push(number(bytes)))
        .unwrap();
    got
}

#[test]
fn a_train_of_survivors_stays_a_train() {
    let (mut fault, peer) = worn("loss=0.05,dup=0.05,corrupt=0.05,seed=7");
    let bytes = numbered(0, 40, 1_400);
    let slices = [IoSlice::new(&bytes)];
    let train = Train {
        segment: 1_400,
        ..Train::single(peer.local_addr(), Ecn::Ect0, &slices)
    };
    assert_eq!(fault.send(&train).unwrap(), SendOutcome::Sent(40));
    assert_eq!(fault.counters().send_calls, 1);
    let faults = fault.counters().faults;
    assert!(
        faults.lost > 0 && faults.doubled > 0 && faults.corrupted > 0,
        "{faults:?}"
    );
}
