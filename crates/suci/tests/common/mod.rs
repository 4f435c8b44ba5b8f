//! What the tests share.
#![allow(dead_code, reason = "every test binary uses a part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::time::Duration;
use suci::{Node, NodeBuilder, NodeId};

/// Longer than anything here takes: a test that waits so long has failed.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Node `id` on a port of its own.
pub(crate) fn builder(id: u32) -> NodeBuilder {
    Node::builder().id(NodeId(id)).book(suci::AddressBook::new()).listen("127.0.0.1:0".parse().unwrap())
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
