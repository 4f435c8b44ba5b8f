//! What packets the ways to other hosts carry, as far as the driver knows.

use super::Engine;
use crate::limits::{ETHERNET_MTU, MIN_MTU};
use crate::types::NodeId;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// So many hosts are remembered, from when their connection is about to be made; who comes then takes the place of
/// the oldest, which is asked for again. Among more peers large packets find no room anyway.
const MOST_KNOWN: usize = 256;

/// The engine wants to know what packets the route to `address` carries: answer with
/// [`Engine::set_route_mtu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteQuery {
    /// Where packets will go.
    pub address: SocketAddr,
    /// Whose connection goes there already.
    node: Option<NodeId>,
}

/// Answers of the driver, and what it is still to be asked.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    wanted: VecDeque<RouteQuery>,
    /// The UDP payload that the route to each host carries; none where the system cannot tell.
    known: BTreeMap<IpAddr, Option<usize>>,
    /// Their order.
    age: VecDeque<IpAddr>,
}

impl Paths {
    /// A connection with `address` will be made, perhaps.
    pub(crate) fn expect(&mut self, address: SocketAddr) {
        let query = RouteQuery {
            address,
            node: None,
        };
        if self.wanted.back() != Some(&query) && self.wanted.len() < MOST_KNOWN {
            self.wanted.push_back(query);
        }
    }

    /// The connection with `node` goes to `address` from now on.
    pub(crate) fn ask(&mut self, node: NodeId, address: SocketAddr) {
        self.wanted.push_back(RouteQuery {
            address,
            node: Some(node),
        });
    }

    pub(crate) fn is_asking(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// What the driver said of the route to this host: the UDP payload that it carries, or that it cannot tell.
    pub(crate) fn known(&self, address: SocketAddr) -> Option<Option<usize>> {
        self.known.get(&address.ip()).copied()
    }

    /// The largest UDP payload that may come from there: what the route there carries, or what Ethernet does where
    /// nobody can tell, and every path what it must.
    pub(crate) fn largest_from(&self, address: SocketAddr) -> usize {
        self.known(address)
            .flatten()
            .unwrap_or(ETHERNET_MTU)
            .max(MIN_MTU)
    }

    fn learn(&mut self, address: SocketAddr, mtu: Option<usize>) {
        if self.known.insert(address.ip(), mtu).is_some() {
            return;
        }
        self.age.push_back(address.ip());
        if self.age.len() > MOST_KNOWN
            && let Some(oldest) = self.age.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

impl Engine {
    /// A route whose packet size the engine wants to know. Ask in each turn: connections that begin in the next
    /// ones are made by the answers.
    pub fn poll_route(&mut self) -> Option<RouteQuery> {
        self.shared.paths.wanted.pop_front()
    }

    /// The route carries UDP payloads of `mtu` bytes; `None` if unknown.
    pub fn set_route_mtu(&mut self, query: RouteQuery, mtu: Option<usize>) {
        self.shared.paths.learn(query.address, mtu);
        let Some(key) = query.node.and_then(|node| self.peer_key(node)) else {
            return;
        };
        if let Some(connection) = self.peers.get_mut(key).and_then(|p| p.connection.as_mut()) {
            connection.set_route(mtu);
        }
        self.touch(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u32) -> SocketAddr {
        SocketAddr::from((std::net::Ipv4Addr::from_bits(number), 1))
    }

    #[test]
    fn f04_the_oldest_host_is_forgotten_for_one_too_many() {
        let mut paths = Paths::default();
        for number in 0..=MOST_KNOWN as u32 {
            paths.learn(host(number), Some(9_000));
            paths.learn(host(number), None);
            paths.learn(host(number), Some(4_000));
        }
        assert_eq!(paths.known(host(0)), None);
        assert_eq!(paths.known(host(1)), Some(Some(4_000)));
        assert_eq!(
            (paths.known.len(), paths.age.len()),
            (MOST_KNOWN, MOST_KNOWN)
        );
        assert_eq!(paths.largest_from(host(0)), ETHERNET_MTU);
        assert_eq!(paths.largest_from(host(1)), 4_000);
    }
}
