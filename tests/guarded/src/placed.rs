//! As `guarded`, for messages whose receiver names the memory where they belong: `guarded-placed
//! WORKLOAD ROUNDS`. It is a program of its own, so that its calls do not change how those of
//! `guarded` are compiled.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a program that measures may panic"
)]

mod host;

use std::time::Duration;

use guarded::{first, second};
use suci::remote::Rights;
use suci::{Bytes, Counters, Node, NodeBuilder, NodeId};
use suci_proto::limits::ETHERNET_MTU;

/// Bytes of a message.
const PLACED: usize = 64 << 10;

/// The longest wait for a message, and for the end of the process.
const SOON: Duration = Duration::from_millis(100);
const PATIENCE: u32 = 60;

/// Time between two readings of the clock.
const STEP: Duration = Duration::from_micros(5);

/// The functions in which the two nodes work, by the names that are looked for.
mod guarded {
    /// Work of the node that sends.
    #[inline(never)]
    pub(crate) fn first<R>(work: impl FnOnce() -> R) -> R {
        let done = work();
        std::hint::black_box(0);
        done
    }

    /// Work of the node that receives.
    #[inline(never)]
    pub(crate) fn second<R>(work: impl FnOnce() -> R) -> R {
        let done = work();
        std::hint::black_box(1);
        done
    }
}

/// The receiver lends its buffer to each message. Meanwhile the sender's helper sends the rest.
fn into(rounds: usize) -> [Node; 2] {
    let (mut a, mut b) = pair(|sender| sender);
    let payload = Bytes::from(vec![5; PLACED]);
    let mut buffer = vec![0; PLACED];
    for _ in 0..rounds {
        first(|| a.send(b.id(), payload.clone())).unwrap();
        let taken = second(|| b.recv_into(&mut buffer, SOON).unwrap());
        let (length, _) = taken.expect("the message was on its way");
        assert_eq!(length, PLACED);
        first(|| a.poll(Duration::ZERO)).unwrap();
    }
    [a, b]
}

/// The sender writes to the receiver's memory.
fn put(rounds: usize) -> [Node; 2] {
    let (mut a, mut b) = pair(NodeBuilder::unattended);
    let region = b.allocate_region(PLACED, Rights::WRITE).unwrap();
    let at = region.handle();
    for round in 0..rounds {
        let mark = u8::try_from(round % 250 + 1).unwrap();
        let payload = Bytes::from(vec![mark; PLACED]);
        first(|| a.remote().put(&at, 0, payload)).unwrap();
        let mut last = [0];
        while last != [mark] {
            second(|| b.poll(Duration::ZERO)).unwrap();
            first(|| a.poll(Duration::ZERO)).unwrap();
            region.read(PLACED as u64 - 1, &mut last).unwrap();
        }
    }
    [a, b]
}

/// Two nodes that have exchanged messages, in packets of Ethernet.
fn pair(configure: impl Fn(NodeBuilder) -> NodeBuilder) -> (Node, Node) {
    let builder = |id| {
        Node::builder()
            .id(NodeId(id))
            .statistics(false)
            .config(|config| config.max_datagram = ETHERNET_MTU)
    };
    let mut a = configure(builder(0)).open().unwrap();
    let mut b = builder(1).unattended().open().unwrap();
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    a.send(b.id(), Bytes::from_static(b"first")).unwrap();
    until_received(&mut a, &mut b);
    b.send(a.id(), Bytes::from_static(b"first")).unwrap();
    until_received(&mut b, &mut a);
    (a, b)
}

/// Both poll until a message of `from` has come.
fn until_received(from: &mut Node, to: &mut Node) {
    while to.try_recv().unwrap().is_none() {
        from.poll(Duration::ZERO).unwrap();
    }
}

fn main() {
    // SAFETY: alarm takes any number; the signal ends the process.
    unsafe { libc::alarm(PATIENCE) };
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, rounds] = words.as_slice() else {
        panic!("a workload and a number of rounds, not {words:?}");
    };
    let rounds = rounds.parse().expect("a number of rounds");
    host::set_step(STEP);
    let nodes = match name.as_str() {
        "node-into" => into(rounds),
        "node-put" => put(rounds),
        _ => panic!("no workload {name}: there are node-into and node-put"),
    };
    // Closing them must not count.
    let counters = nodes.map(|node| {
        let counters = node.counters().unwrap();
        std::mem::forget(node);
        counters
    });
    let sum = |count: fn(&Counters) -> u64| counters.iter().map(count).sum::<u64>();
    println!("units {rounds}");
    println!("packets {}", sum(|node| node.packets_out));
    println!("bytes {}", sum(|node| node.bytes_out));
    println!("clock-readings {}", host::readings());
}
