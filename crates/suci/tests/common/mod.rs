//! What the tests share.
#![allow(dead_code, reason = "every test binary uses a part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::time::{Duration, Instant};
use suci::{AddressBook, Event, Message, Node, NodeBuilder, NodeId, SharedNode};

/// Longer than anything here takes: a test that waits so long has failed.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Node `id` on a port of its own.
pub(crate) fn builder(id: u32) -> NodeBuilder {
    Node::builder()
        .id(NodeId(id))
        .book(AddressBook::new())
        .listen("127.0.0.1:0".parse().unwrap())
}

/// Makes two nodes known to each other.
pub(crate) fn introduce(a: &mut Node, b: &mut Node) {
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
}

/// Nodes 0 and 1, known to each other.
pub(crate) fn pair() -> (Node, Node) {
    let (mut a, mut b) = (builder(0).open().unwrap(), builder(1).open().unwrap());
    introduce(&mut a, &mut b);
    (a, b)
}

/// Nodes 0 and 1, served by threads and known to each other.
pub(crate) fn shared_pair() -> (SharedNode, SharedNode) {
    let (a, b) = (
        builder(0).open_threads(1).unwrap(),
        builder(1).open_threads(1).unwrap(),
    );
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    (a, b)
}

/// The next message, which must come.
pub(crate) fn take(node: &mut Node) -> Message {
    node.recv_timeout(LONG).unwrap().expect("a message")
}

/// The first event that is `wanted`, which must come; those before it are passed over.
pub(crate) fn await_event(node: &mut Node, wanted: impl Fn(&Event) -> bool) -> Event {
    let end = Instant::now() + LONG;
    while Instant::now() < end {
        while let Some(event) = node.next_event().unwrap() {
            if wanted(&event) {
                return event;
            }
        }
        node.poll(Duration::from_millis(10)).unwrap();
    }
    panic!("no such event");
}
