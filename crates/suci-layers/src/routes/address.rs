//! Addresses that stand for nodes behind others.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use suci_proto::types::NodeId;

/// The port of all these addresses: 0 would be none.
const PORT: u16 = 1;

/// The upper six words of these addresses: of the prefix 100::/64, which leads to no host (RFC
/// 6666).
const PREFIX: [u16; 6] = [0x100, 0, 0, 0, 0, 0];

/// Returns the address that stands for a node that is reached through others.
#[must_use]
pub const fn address_of(node: NodeId) -> SocketAddr {
    let [a, b, c, d, e, f] = PREFIX;
    let (high, low) = ((node.0 >> 16) as u16, node.0 as u16);
    let ip = Ipv6Addr::new(a, b, c, d, e, f, high, low);
    SocketAddr::new(IpAddr::V6(ip), PORT)
}

/// Returns the node that an address stands for, if it stands for one.
#[must_use]
pub fn node_at(address: SocketAddr) -> Option<NodeId> {
    let SocketAddr::V6(address) = address else {
        return None;
    };
    let segments = address.ip().segments();
    let (prefix, node) = segments.split_at(PREFIX.len());
    let [high, low] = node else { return None };
    let stands = prefix == PREFIX && address.port() == PORT;
    stands.then(|| NodeId(u32::from(*high) << 16 | u32::from(*low)))
}
