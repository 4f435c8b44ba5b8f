//! The programs that `cargo xtask guards` counts, under valgrind: `guarded WORKLOAD ROUNDS`.
//!
//! Everything counted happens inside [`first`] or [`second`], which valgrind finds by their names:
//! one for each of the two nodes, which live in one thread, so that the counts repeat. The cost of
//! a unit of work is the difference between two numbers of rounds, so that the work before the
//! first round cancels out.
//!
//! On standard output: `units N`, the number of units of work, `packets N`, the number of packets
//! that both nodes sent, `bytes N`, the sum of their lengths, and `clock-readings N`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a program that measures may panic"
)]

mod engine;
mod host;
mod node;

use suci_proto::Counters;

/// The work of a workload in its rounds.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    units: u64,
    packets: u64,
    bytes: u64,
}

impl Done {
    /// Takes packets and bytes from the counters of both nodes.
    fn new(units: u64, nodes: impl IntoIterator<Item = Counters>) -> Self {
        let mut done = Self {
            units,
            ..Self::default()
        };
        for counters in nodes {
            done.packets += counters.packets_out;
            done.bytes += counters.bytes_out;
        }
        done
    }
}

/// The bytes of a small message, and of one in a batch.
const SMALL: [u8; 64] = [7; 64];
const TINY: [u8; 32] = [9; 32];

/// Messages in a batch: they fill several packets.
const BATCH: usize = 256;

/// Bytes of a message that fits a packet, in which another begins.
const MIDDLE: usize = 1_024;

/// Bytes of a message that takes three packets.
const SHORT: usize = 4_096;

/// Bytes of a large message: it needs many packets and no leave.
const LARGE: usize = 256 << 10;

/// Work of the node that asks, or sends.
#[inline(never)]
fn first<R>(work: impl FnOnce() -> R) -> R {
    let done = work();
    stay(0);
    done
}

/// Work of the node that answers, or receives.
#[inline(never)]
fn second<R>(work: impl FnOnce() -> R) -> R {
    let done = work();
    stay(1);
    done
}

/// Keeps the caller on the stack until its work is done, where its last call could take its place,
/// and apart from the other one, whose code would be the same.
fn stay(node: usize) {
    std::hint::black_box(node);
}

/// The work of node 0 or 1.
fn of<R>(node: usize, work: impl FnOnce() -> R) -> R {
    if node == 0 { first(work) } else { second(work) }
}

/// Does the work this many times.
type Workload = fn(usize) -> Done;

const WORKLOADS: &[(&str, Workload)] = &[
    ("engine-round-trip", engine::round_trip),
    ("engine-short-train", engine::short_train),
    ("engine-call", engine::call),
    ("engine-batch", engine::batch),
    ("engine-middle", engine::middle),
    ("engine-large", engine::large),
    ("engine-handshake", engine::handshake),
    ("engine-sealed-round-trip", engine::sealed_round_trip),
    ("engine-sealed-large", engine::sealed_large),
    ("engine-sealed-handshake", engine::sealed_handshake),
    ("node-round-trip", node::round_trip),
    ("node-one-way", node::one_way),
    ("node-batch", node::batch),
    ("node-large", node::large),
];

/// The process is killed after this many seconds: both nodes have one thread, so a wait could last
/// for ever.
const PATIENCE: u32 = 60;

fn main() {
    // SAFETY: alarm takes any number; the signal ends the process.
    unsafe { libc::alarm(PATIENCE) };
    let mut words = std::env::args().skip(1);
    let name = words.next().expect("a workload");
    let rounds = words.next().expect("a number of rounds").parse();
    let workload = WORKLOADS.iter().find(|(known, _)| *known == name);
    let (_, run) = workload.expect("the name of a workload");
    let done = run(rounds.expect("a number of rounds"));
    println!("units {}", done.units);
    println!("packets {}", done.packets);
    println!("bytes {}", done.bytes);
    println!("clock-readings {}", host::readings());
}
