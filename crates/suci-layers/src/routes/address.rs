//! Addresses that stand for nodes behind others.

use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use suci_proto::types::NodeId;

/// The port of the addresses of nodes with a route.
const BY_ROUTE: u16 = 1;

/// The port of the addresses of nodes that are answered through the neighbour that they came by.
const BY_NEIGHBOUR: u16 = 2;

/// A node that is reached through others.
///
/// The neighbour is a part of the node's address, so the engine treats it as any address: a cookie
/// that came through one neighbour is worth nothing through another, and a session moves to another
/// neighbour only after a challenge came back from there. No table of such nodes is needed, which
/// a neighbour could fill by forging sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The node.
    pub node: NodeId,
    /// The neighbour that packets from it came by, if no route leads to the node.
    pub neighbour: Option<NodeId>,
}

impl Behind {
    /// Returns the node as one that a route of the book leads to.
    #[must_use]
    pub const fn by_route(node: NodeId) -> Self {
        let neighbour = None;
        Self { node, neighbour }
    }

    /// Returns the address that stands for the node. Nodes behind the same neighbour differ in the
    /// zone alone, so that the bounds that engines have for each IP address hold for a neighbour.
    #[must_use]
    pub const fn address(self) -> SocketAddr {
        // The first is of the prefix 100::/64, which leads to no host (RFC 6666). The others are of
        // 100::/8, which no host has (RFC 4291): in 64 bits, the part that one source may hold,
        // they tell the neighbours apart.
        let (port, [high, low]) = match self.neighbour {
            None => (BY_ROUTE, [0, 0]),
            Some(neighbour) => (BY_NEIGHBOUR, words(neighbour)),
        };
        let ip = Ipv6Addr::new(0x100, 0, high, low, 0, 0, 0, 0);
        SocketAddr::V6(SocketAddrV6::new(ip, port, 0, self.node.0))
    }

    /// Returns the node that an address stands for, if it stands for one.
    #[must_use]
    pub fn at(address: SocketAddr) -> Option<Self> {
        let (IpAddr::V6(ip), SocketAddr::V6(zoned)) = (address.ip(), address) else {
            return None;
        };
        let [0x100, 0, high, low, 0, 0, 0, 0] = ip.segments() else {
            return None;
        };
        let named = NodeId(u32::from(high) << 16 | u32::from(low));
        let neighbour = match (address.port(), named) {
            (BY_ROUTE, NodeId(0)) => None,
            (BY_NEIGHBOUR, neighbour) => Some(neighbour),
            _ => return None,
        };
        let node = NodeId(zoned.scope_id());
        Some(Self { node, neighbour })
    }
}

const fn words(node: NodeId) -> [u16; 2] {
    [(node.0 >> 16) as u16, node.0 as u16]
}
