//! Nodes that know each other.

use suci::{AcceptPolicy, Node, NodeId, SharedNode};
use suci_sockets::Address;

/// Opens a node with `threads` threads that takes anybody.
pub(crate) fn node(id: u32, threads: usize) -> SharedNode {
    let builder = Node::builder().id(NodeId(id)).accept(AcceptPolicy::Anyone);
    builder.open_threads(threads).unwrap()
}

/// Opens two nodes with one thread each: 0, and 1, which knows 0.
pub(crate) fn pair() -> (SharedNode, SharedNode) {
    let (server, client) = (node(0, 1), node(1, 1));
    client.add_peer(NodeId(0), server.local_addr()).unwrap();
    (server, client)
}

/// An address at node 0.
pub(crate) const fn at(port: u16) -> Address {
    Address {
        node: NodeId(0),
        port,
    }
}
