//! Two nodes of one thread that talk over loopback: the counts have the system calls in them.

use std::time::Duration;

use suci::{Bytes, Node, NodeId};
use suci_proto::limits::ETHERNET_MTU;

use crate::host;
use crate::{BATCH, Done, LARGE, SMALL, TINY, first, second};

/// Passes between two readings of the clock where each message of a batch reads it.
const QUICK: Duration = Duration::from_nanos(100);

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

/// Messages one way, each taken before the next: the way from `send` to the socket is the first
/// node's, the way from the socket to `recv` the second one's.
pub(crate) fn one_way(rounds: usize) -> Done {
    let (mut a, mut b) = pair();
    let payload = Bytes::from_static(&SMALL);
    for _ in 0..rounds {
        first(|| a.send(b.id(), payload.clone())).unwrap();
        second(|| b.recv()).unwrap();
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

/// Both poll until a message of `from` has come.
fn until_received(from: &mut Node, to: &mut Node) {
    while second(|| to.try_recv()).unwrap().is_none() {
        first(|| from.poll(Duration::ZERO)).unwrap();
    }
}

/// Two nodes that have exchanged messages, in packets of Ethernet. Features with work of their own,
/// now and then, are off.
fn pair() -> (Node, Node) {
    let node = |id| {
        Node::builder()
            .id(NodeId(id))
            .unattended()
            .statistics(false)
            .config(|config| config.max_datagram = ETHERNET_MTU)
            .open()
            .unwrap()
    };
    let (mut a, mut b) = (node(0), node(1));
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
    let counters = [a, b].map(|node| {
        let counters = node.counters().unwrap();
        std::mem::forget(node);
        counters
    });
    Done::new(units, counters)
}
