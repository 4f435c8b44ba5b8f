//! Two nodes of one thread that talk over loopback: the counts have the system calls in them.

use std::time::Duration;

use suci::remote::Rights;
use suci::{AddressBook, Bytes, Node, NodeBuilder, NodeId};
use suci_proto::limits::ETHERNET_MTU;

use crate::host;
use crate::{BATCH, Done, LARGE, PLACED, SMALL, TINY, first, second};

/// Passes between two readings of the clock where each message of a batch reads it.
const QUICK: Duration = Duration::from_nanos(100);

/// The longest wait for a message whose packets are in the socket.
const SOON: Duration = Duration::from_millis(100);

pub(crate) fn round_trip(rounds: usize) -> Done {
    let (mut a, mut b) = pair();
    let payload = Bytes::from_static(&SMALL);
    for _ in 0..rounds {
        first(|| a.send(b.id(), payload.clone())).unwrap();
        second(|| {
            let message = b.recv().unwrap();
            b.send(message.from, payload.clone()).unwrap();
        });
        first(|| a.recv()).unwrap();
    }
    done(a, b, rounds as u64)
}

pub(crate) fn batch(rounds: usize) -> Done {
    let (mut a, mut b) = pair();
    let to = b.id();
    host::set_step(QUICK);
    let mut messages = Vec::with_capacity(BATCH);
    for _ in 0..rounds {
        let fill = |batch: &mut suci::Batch<'_>| {
            for _ in 0..BATCH {
                batch.send_copy(to, &TINY).unwrap();
            }
        };
        first(|| a.batch(fill)).unwrap();
        let mut left = BATCH;
        while left > 0 {
            left -= second(|| {
                let taken = b.recv_many(&mut messages, left, Duration::ZERO);
                messages.clear();
                taken.unwrap()
            });
            first(|| a.poll(Duration::ZERO)).unwrap();
        }
    }
    done(a, b, (rounds * BATCH) as u64)
}

/// A unit is a packet that the receiver took: full but for the last of a message.
pub(crate) fn large(rounds: usize) -> Done {
    let (mut a, mut b) = pair();
    let payload = Bytes::from(vec![5; LARGE]);
    for _ in 0..rounds {
        first(|| a.send(b.id(), payload.clone())).unwrap();
        until_received(&mut a, &mut b);
    }
    let units = b.counters().unwrap().datagrams_in;
    done(a, b, units)
}

/// The receiver lends its buffer to each message. Meanwhile the sender's helper sends the rest.
pub(crate) fn into(rounds: usize) -> Done {
    let (mut a, mut b) = pair_with(|sender| sender);
    let payload = Bytes::from(vec![5; PLACED]);
    let mut buffer = vec![0; PLACED];
    for _ in 0..rounds {
        first(|| a.send(b.id(), payload.clone())).unwrap();
        let taken = second(|| b.recv_into(&mut buffer, SOON).unwrap());
        let (length, _) = taken.expect("the message was on its way");
        assert_eq!(length, PLACED);
        first(|| a.poll(Duration::ZERO)).unwrap();
    }
    done(a, b, rounds as u64)
}

/// The sender writes to the receiver's memory.
pub(crate) fn put(rounds: usize) -> Done {
    let (mut a, mut b) = pair();
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
    done(a, b, rounds as u64)
}

/// Both poll until a message of `from` has come.
fn until_received(from: &mut Node, to: &mut Node) {
    while second(|| to.try_recv()).unwrap().is_none() {
        first(|| from.poll(Duration::ZERO)).unwrap();
    }
}

/// Two nodes that have exchanged messages, in packets of Ethernet. Features with work of their own,
/// now and then, are off.
fn pair() -> (Node, Node) {
    pair_with(NodeBuilder::unattended)
}

/// As [`pair`], with other settings of the first node.
fn pair_with(configure: impl Fn(NodeBuilder) -> NodeBuilder) -> (Node, Node) {
    let builder = |id| {
        Node::builder()
            .id(NodeId(id))
            .book(AddressBook::new())
            .statistics(false)
            .config(|config| config.max_datagram = ETHERNET_MTU)
    };
    let mut a = configure(builder(0)).open().unwrap();
    let mut b = builder(1).unattended().open().unwrap();
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    // Each learns that the other one stands before anything waits in a call that blocks.
    a.send(b.id(), Bytes::from_static(&SMALL)).unwrap();
    until_received(&mut a, &mut b);
    b.send(a.id(), Bytes::from_static(&SMALL)).unwrap();
    until_received(&mut b, &mut a);
    (a, b)
}

/// Leaves the nodes open: closing them must not count.
fn done(a: Node, b: Node, units: u64) -> Done {
    let packets = [a, b].map(|node| {
        let packets = node.counters().unwrap().packets_out;
        std::mem::forget(node);
        packets
    });
    Done {
        units,
        packets: packets.iter().sum(),
    }
}
