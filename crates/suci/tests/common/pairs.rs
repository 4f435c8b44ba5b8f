//! Two nodes that know each other.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use super::builder;
use suci::Node;

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
