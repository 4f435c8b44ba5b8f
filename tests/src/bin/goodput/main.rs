//! Measures the goodput of one sender over one emulated link: Suci's, or that of TCP with one of
//! the kernel's congestion controls.
//!
//! `goodput CONTENDER KEY=VALUE...` prints Mbit/s that the receiving program got from the start of
//! the connection on, and how many packets the link dropped. Contenders: `suci`, or what TCP calls
//! its congestion controls, such as `cubic`. Keys: `round_trip` in microseconds, `loss` (0 to 1, in
//! both directions), `reorder` (the share that is up to `late` microseconds late), `rate` in bit/s,
//! `queue` in bytes, `recv_buffer` in bytes (as asked for: Linux doubles it), `host_mtu` and
//! `path_mtu` in bytes (the path drops what is larger, and tells nobody; TCP then probes for the
//! size, which Linux does not do by itself), `time` in milliseconds.
//! `cargo xtask ladders` runs it.
#![expect(
    clippy::expect_used,
    reason = "a program for measurements: whatever goes wrong must be seen"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use suci::{Error, SharedNode};
use suci_tests::{LONG, nodes_across};
use xtask::emulator::{Direction, Emulator, Link, Loss, SizeLimit, be_punctual};
use xtask::tcp::{Flow, Tuning};

/// Bytes of a message.
const MESSAGE: usize = 64 << 10;

/// The port of TCP.
const PORT: u16 = 7001;

struct Run {
    link: Direction,
    recv_buffer: Option<u32>,
    host_mtu: Option<u32>,
    time: Duration,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let contender = args.next().expect("a contender");
    let mut run = Run {
        link: Direction::default(),
        recv_buffer: None,
        host_mtu: None,
        time: Duration::from_secs(3),
    };
    for arg in args {
        let (key, value) = arg.split_once('=').expect("KEY=VALUE");
        let number = || value.parse::<u64>().expect("a whole number");
        match key {
            "round_trip" => run.link.delay = Duration::from_micros(number()) / 2,
            "loss" => run.link.loss = Loss::Even(value.parse().expect("a share")),
            "reorder" => run.link.reorder.share = value.parse().expect("a share"),
            "late" => run.link.reorder.late = Duration::from_micros(number()),
            "rate" => run.link.rate = Some(number()),
            "queue" => run.link.queue = Some(number()),
            "recv_buffer" => run.recv_buffer = Some(number().try_into().expect("a size")),
            "host_mtu" => run.host_mtu = Some(number().try_into().expect("a size")),
            "path_mtu" => {
                let bytes = number().try_into().expect("a size");
                run.link.size_limit = Some(SizeLimit { bytes, icmp: false });
            }
            "time" => run.time = Duration::from_millis(number()),
            _ => panic!("no key {key}"),
        }
    }
    // The figure must be the link's, and not that of other work of the machine.
    be_punctual(1);
    let link = Link::symmetric(run.link.clone());
    let emulator = Emulator::start(&link).expect("an emulated link");
    if let Some(bytes) = run.host_mtu {
        emulator.pair().mtu(bytes).expect("another MTU");
    }
    let bytes = match contender.as_str() {
        "suci" => suci(&run, &emulator),
        name => tcp(&run, &emulator, name),
    };
    let mbit = bytes as f64 * 8e-6 / run.time.as_secs_f64();
    let totals = emulator.totals();
    let dropped = totals.to_b.dropped() + totals.to_a.dropped();
    println!("mbit {mbit:.2} dropped {dropped}");
}

/// Bytes of messages that the receiving program took.
fn suci(run: &Run, emulator: &Emulator) -> u64 {
    let buffer = run.recv_buffer.map(|bytes| bytes as usize);
    let [a, b] = nodes_across(emulator.pair(), |builder| match buffer {
        Some(bytes) => builder.udp(|options| options.recv_buffer = bytes),
        None => builder,
    });
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    let mut bytes = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| send_until(&a, &b, &over));
        while let Some(left) = run.time.checked_sub(begun.elapsed()) {
            if let Some(message) = b.recv_timeout(left.min(LONG)).expect("recv") {
                bytes += message.payload.len() as u64;
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    bytes
}

fn send_until(a: &SharedNode, b: &SharedNode, over: &AtomicBool) {
    let payload = suci::Bytes::from(vec![7; MESSAGE]);
    while !over.load(Ordering::Relaxed) {
        match a.send_timeout(b.id(), payload.clone(), Duration::from_millis(20)) {
            Ok(_) | Err(Error::WouldBlock { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Bytes that the receiving program read.
fn tcp(run: &Run, emulator: &Emulator, name: &str) -> u64 {
    let tuning = Tuning {
        congestion_control: name,
        recv_buffer: run.recv_buffer,
    };
    if run.link.size_limit.is_some() {
        for end in [&emulator.pair().a, &emulator.pair().b] {
            let probing = ["sysctl", "-qw", "net.ipv4.tcp_mtu_probing=2"];
            end.run(&probing).expect("a setting of the namespace");
        }
    }
    let begun = Instant::now();
    let flow = Flow::tuned(emulator.pair(), PORT, tuning).expect("a TCP flow");
    std::thread::sleep(run.time.saturating_sub(begun.elapsed()));
    flow.arrived()
}
