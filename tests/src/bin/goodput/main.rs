//! Measures the goodput of one sender over one emulated link: Suci's, or that of TCP with one of
//! the kernel's congestion controls.
//!
//! `goodput CONTENDER KEY=VALUE...` prints Mbit/s that the receiving program got from the start of
//! the connection on, and how many packets the link dropped. Contenders: `suci`, or what TCP calls
//! its congestion controls, such as `cubic`. Keys: `round_trip` in microseconds, `loss` (0 to 1, in
//! both directions), `reorder` (the share that is up to `late` microseconds late), `rate` in bit/s,
//! `queue` in bytes, `recv_buffer` in bytes (as asked for: Linux doubles it), `host_mtu` and
//! `path_mtu` in bytes (the path drops what is larger, and tells nobody; TCP then probes for the
//! size, which Linux does not do by itself), `time` in milliseconds. `then=MS:BITS` changes the
//! rate after that many milliseconds to that many bit/s, and may stand several times. `every=MS`
//! also prints the Mbit/s of each such part of the time.
//!
//! `busy=N` runs as many threads that never sleep beside the contender, which then has an ordinary
//! priority as they do. Otherwise it has one above all ordinary programs (SCHED_RR), where that is
//! allowed. The emulator's thread always has a higher one, so that a busy machine delays no packet
//! on the link.
//!
//! `cargo xtask ladders` and `cargo xtask show host-time` run it.
#![expect(
    clippy::expect_used,
    reason = "a program for measurements: whatever goes wrong must be seen"
)]

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use suci::{Error, SharedNode};
use suci_tests::nodes_across;
use xtask::emulator::{Direction, Emulator, Link, Loss, SizeLimit, be_punctual};
use xtask::tcp::{Flow, Tuning};

/// Bytes of a message.
const MESSAGE: usize = 64 << 10;

/// How often programs that wait look whether the time is over.
const WAIT: Duration = Duration::from_millis(20);

/// The port of TCP.
const PORT: u16 = 7001;

struct Run {
    link: Direction,
    recv_buffer: Option<u32>,
    host_mtu: Option<u32>,
    time: Duration,
    /// Rates in bit/s, each from a time on.
    changes: Vec<(Duration, u64)>,
    /// Length of the parts of the time whose goodput is printed.
    every: Option<Duration>,
    /// Threads that never sleep.
    busy: u64,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            link: Direction::default(),
            recv_buffer: None,
            host_mtu: None,
            time: Duration::from_secs(3),
            changes: Vec::new(),
            every: None,
            busy: 0,
        }
    }
}

impl Run {
    /// Takes one argument.
    fn set(&mut self, key: &str, value: &str) {
        let number = || value.parse::<u64>().expect("a whole number");
        match key {
            "round_trip" => self.link.delay = Duration::from_micros(number()) / 2,
            "loss" => self.link.loss = Loss::Even(value.parse().expect("a share")),
            "reorder" => self.link.reorder.share = value.parse().expect("a share"),
            "late" => self.link.reorder.late = Duration::from_micros(number()),
            "rate" => self.link.rate = Some(number()),
            "queue" => self.link.queue = Some(number()),
            "recv_buffer" => self.recv_buffer = Some(number().try_into().expect("a size")),
            "host_mtu" => self.host_mtu = Some(number().try_into().expect("a size")),
            "path_mtu" => {
                let bytes = number().try_into().expect("a size");
                self.link.size_limit = Some(SizeLimit { bytes, icmp: false });
            }
            "time" => self.time = Duration::from_millis(number()),
            "then" => {
                let (at, rate) = value.split_once(':').expect("MS:BITS");
                let at = Duration::from_millis(at.parse().expect("milliseconds"));
                self.changes.push((at, rate.parse().expect("a rate")));
            }
            "every" => self.every = Some(Duration::from_millis(number().max(1))),
            "busy" => self.busy = number(),
            _ => panic!("no key {key}"),
        }
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let contender = args.next().expect("a contender");
    let mut run = Run::default();
    for arg in args {
        let (key, value) = arg.split_once('=').expect("KEY=VALUE");
        run.set(key, value);
    }
    // The figure must be the link's, and not that of other work of the machine.
    if run.busy == 0 {
        be_punctual(1);
    }
    let link = Link::symmetric(run.link.clone());
    let emulator = Emulator::start(&link).expect("an emulated link");
    if let Some(bytes) = run.host_mtu {
        emulator.pair().mtu(bytes).expect("another MTU");
    }
    for _ in 0..run.busy {
        std::thread::spawn(|| while black_box(true) {});
    }
    let begun = Instant::now();
    for (at, rate) in &run.changes {
        let changed = Direction {
            rate: Some(*rate),
            ..run.link.clone()
        };
        let link = Link::symmetric(changed);
        emulator.change_at(*at, &link).expect("another rate");
    }
    let parts = match contender.as_str() {
        "suci" => suci(&run, &emulator, begun),
        name => tcp(&run, &emulator, name, begun),
    };
    if run.every.is_some() {
        let mbit = |part: &Part| format!("{:.1}", part.mbit());
        let all: Vec<String> = parts.iter().map(mbit).collect();
        println!("parts {}", all.join(" "));
    }
    let whole = Part {
        bytes: parts.iter().map(|part| part.bytes).sum(),
        time: parts.iter().map(|part| part.time).sum(),
    };
    let totals = emulator.totals();
    let dropped = totals.to_b.dropped() + totals.to_a.dropped();
    println!("mbit {:.2} dropped {dropped}", whole.mbit());
}

/// The bytes that the receiving program got in a part of the time.
struct Part {
    bytes: u64,
    time: Duration,
}

impl Part {
    fn mbit(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.time.as_secs_f64().max(1e-9)
    }
}

/// Returns the parts of the time from `begun` on. On a busy machine they are longer than asked.
fn watch(run: &Run, begun: Instant, arrived: impl Fn() -> u64) -> Vec<Part> {
    let mut parts = Vec::new();
    let (mut bytes, mut time) = (0, Duration::ZERO);
    while time < run.time {
        let end = (time + run.every.unwrap_or(run.time)).min(run.time);
        std::thread::sleep(end.saturating_sub(begun.elapsed()));
        let (now, total) = (begun.elapsed(), arrived());
        parts.push(Part {
            bytes: total - bytes,
            time: now - time,
        });
        (bytes, time) = (total, now);
    }
    parts
}

/// Messages that the receiving program took.
fn suci(run: &Run, emulator: &Emulator, begun: Instant) -> Vec<Part> {
    let buffer = run.recv_buffer.map(|bytes| bytes as usize);
    let [a, b] = nodes_across(emulator.pair(), |builder| match buffer {
        Some(bytes) => builder.udp(|options| options.recv_buffer = bytes),
        None => builder,
    });
    let (over, arrived) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| send_until(&a, &b, &over));
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if let Some(message) = b.recv_timeout(WAIT).expect("recv") {
                    arrived.fetch_add(message.payload.len() as u64, Ordering::Relaxed);
                }
            }
        });
        let parts = watch(run, begun, || arrived.load(Ordering::Relaxed));
        over.store(true, Ordering::Relaxed);
        parts
    })
}

fn send_until(a: &SharedNode, b: &SharedNode, over: &AtomicBool) {
    let payload = suci::Bytes::from(vec![7; MESSAGE]);
    while !over.load(Ordering::Relaxed) {
        match a.send_timeout(b.id(), payload.clone(), WAIT) {
            Ok(_) | Err(Error::WouldBlock { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Bytes that the receiving program read.
fn tcp(run: &Run, emulator: &Emulator, name: &str, begun: Instant) -> Vec<Part> {
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
    let flow = Flow::tuned(emulator.pair(), PORT, tuning).expect("a TCP flow");
    watch(run, begun, || flow.arrived())
}
