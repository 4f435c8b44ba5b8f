//! Helpers that all tests share.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::time::Duration;
use suci::{AddressBook, Message, Node, NodeBuilder, NodeId};

/// Longer than anything here takes: a test that waits this long has failed.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Node `id` on a port of its own.
pub(crate) fn builder(id: u32) -> NodeBuilder {
    Node::builder()
        .id(NodeId(id))
        .book(AddressBook::new())
        .listen("127.0.0.1:0".parse().unwrap())
}

/// The next message, which must come.
pub(crate) fn take(node: &mut Node) -> Message {
    node.recv_timeout(LONG).unwrap().expect("a message")
}
