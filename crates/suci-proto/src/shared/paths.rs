//! The packet sizes that the routes to other hosts carry, as far as the driver knows.

use crate::event_rate::EventRate;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use suci_link::limits::{ETHERNET_MTU, MIN_MTU};
use suci_link::time::{Duration, Instant};
use suci_link::types::NodeId;

/// Maximum number of hosts that are remembered while a connection with them may be made. One host
/// more replaces the host that was asked about longest ago; a connection with that host begins with
/// packets of Ethernet's size.
const MOST_HOSTS: usize = 256;

/// Age after which an answer is asked for again.
const STANDS: Duration = Duration::from_secs(1);

/// Maximum number of queries in a second: anyone can send HELLOs from forged addresses, and an
/// answer costs system calls.
const ASKED_PER_SECOND: u64 = 500;

/// A query for the packet size that the route to `address` carries: answer with
/// [`Engine::set_route_mtu`](crate::Engine::set_route_mtu).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteQuery {
    /// Where packets will go.
    pub address: SocketAddr,
    /// The node whose connection goes there already, if there is one.
    pub(crate) node: Option<NodeId>,
}

#[cfg(test)]
impl RouteQuery {
    pub(crate) fn of_connection(node: NodeId, address: SocketAddr) -> Self {
        let node = Some(node);
        Self { address, node }
    }
}

/// A host with which a connection may be made.
#[derive(Debug)]
struct Host {
    asked_at: Instant,
    /// The driver's answer, if it came: the UDP payload that the route carries, in bytes, or `None`
    /// if unknown.
    route: Option<Option<usize>>,
}

/// Answers of the driver, and queries that it did not take yet.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    pub(crate) wanted: VecDeque<RouteQuery>,
    hosts: BTreeMap<IpAddr, Host>,
    /// The hosts in the order in which they were asked about.
    order: VecDeque<IpAddr>,
    asked: EventRate,
}

impl Paths {
    /// Queries the route to `address`, to which a connection may be made, unless that was done
    /// lately.
    pub(crate) fn look_up(&mut self, now: Instant, address: SocketAddr) {
        let ip = address.ip();
        let stands = |host: &Host| now < host.asked_at + STANDS;
        if self.hosts.get(&ip).is_some_and(stands) || !self.may_ask(now) {
            return;
        }
        let route = self.hosts.remove(&ip).and_then(|host| {
            self.order.retain(|other| *other != ip);
            host.route
        });
        if self.order.len() >= MOST_HOSTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.hosts.remove(&oldest);
        }
        let asked_at = now;
        self.hosts.insert(ip, Host { asked_at, route });
        self.order.push_back(ip);
        let node = None;
        self.wanted.push_back(RouteQuery { address, node });
    }

    fn may_ask(&mut self, now: Instant) -> bool {
        self.wanted.len() < MOST_HOSTS && self.asked.admit(now, ASKED_PER_SECOND)
    }

    /// Queries the route to `address`, where the connection with `node` goes from now on.
    pub(crate) fn ask(&mut self, node: NodeId, address: SocketAddr) {
        let node = Some(node);
        self.wanted.push_back(RouteQuery { address, node });
    }

    pub(crate) fn is_asking(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Returns the driver's answer about the route to this host, if it came: the UDP payload that
    /// the route carries, in bytes, or `None` if unknown.
    pub(crate) fn known(&self, address: SocketAddr) -> Option<Option<usize>> {
        self.hosts.get(&address.ip())?.route
    }

    /// Returns the largest UDP payload, in bytes, that may come from `address`: the size that the
    /// route there carries, or Ethernet's if that is unknown, but at least [`MIN_MTU`].
    pub(crate) fn largest_from(&self, address: SocketAddr) -> usize {
        self.known(address)
            .flatten()
            .unwrap_or(ETHERNET_MTU)
            .max(MIN_MTU)
    }

    pub(crate) fn learn(&mut self, address: SocketAddr, route: Option<usize>) {
        if let Some(host) = self.hosts.get_mut(&address.ip()) {
            host.route = Some(route);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u32) -> SocketAddr {
        SocketAddr::from((std::net::Ipv4Addr::from_bits(number), 1))
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Looks a route up as a driver that answers at once.
    fn looks_up(paths: &mut Paths, now: Instant, number: u32, route: usize) -> bool {
        paths.look_up(now, host(number));
        let query = paths.wanted.pop_front();
        if let Some(query) = query {
            paths.learn(query.address, Some(route));
        }
        query.is_some()
    }

    #[test]
    fn f04_the_oldest_of_too_many_queries_is_dropped() {
        let mut paths = Paths::default();
        let most = MOST_HOSTS as u32;
        for number in 0..most {
            assert!(looks_up(&mut paths, at(0), number, 9_000));
        }
        assert!(looks_up(&mut paths, at(1_000), 0, 4_000));
        assert!(looks_up(&mut paths, at(1_001), most, 9_000));
        assert_eq!(paths.known(host(0)), Some(Some(4_000)), "asked again");
        assert_eq!(paths.known(host(1)), None);
        assert_eq!(
            (paths.hosts.len(), paths.order.len()),
            (MOST_HOSTS, MOST_HOSTS)
        );
        assert_eq!(paths.largest_from(host(0)), 4_000);
        assert_eq!(paths.largest_from(host(1)), ETHERNET_MTU);
    }

    #[test]
    fn f04_questions_are_bounded_however_many_say_hello() {
        let mut paths = Paths::default();
        let asked = |paths: &mut Paths, from: u32, now| {
            (from..from + 2_000)
                .filter(|n| looks_up(paths, now, *n, 9_000))
                .count()
        };
        assert_eq!(asked(&mut paths, 0, at(0)), ASKED_PER_SECOND as usize);
        assert_eq!(asked(&mut paths, 0, at(999)), 0);
        assert_eq!(
            asked(&mut paths, 5_000, at(1_000)),
            ASKED_PER_SECOND as usize
        );
        // A driver that does not ask.
        for number in 9_000..10_000 {
            paths.look_up(at(2_000), host(number));
        }
        assert_eq!(paths.wanted.len(), MOST_HOSTS);
    }

    #[test]
    fn an_answer_stands_for_a_second() {
        let mut paths = Paths::default();
        assert!(looks_up(&mut paths, at(0), 1, 9_000));
        assert!(!looks_up(&mut paths, at(999), 1, 1_500));
        assert!(looks_up(&mut paths, at(1_000), 1, 500));
        assert_eq!(paths.largest_from(host(1)), MIN_MTU);
    }
}
