//! Checks which addresses a socket can reach.

use crate::book::{self, AddressBook};
use crate::error::{Error, NO_ZONE};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use suci_proto::Addresses;
use suci_proto::types::NodeId;

/// Refuses a peer's address that is not allowed, or that this socket cannot reach.
pub(crate) fn check_peer(
    beyond_loopback: bool,
    local: SocketAddr,
    address: SocketAddr,
) -> Result<(), Error> {
    let beyond = |problem| Error::Unreachable {
        address,
        local,
        problem,
    };
    if let Some(problem) = unreachable(local, address) {
        return Err(beyond(problem));
    }
    check_exposure(beyond_loopback, address)?;
    if stays_here(local.ip()) && !stays_here(address.ip()) && !has_route(local, address) {
        return Err(beyond(
            "loopback reaches no other machine; listen at 0.0.0.0, or at an address of this machine",
        ));
    }
    Ok(())
}

/// The addresses of a peer that may be tried from here. If there are none, the error of the first.
pub(crate) fn reachable(
    beyond_loopback: bool,
    local: SocketAddr,
    addresses: &[SocketAddr],
) -> Result<Addresses, Error> {
    let mut first = None;
    let check = |address: &&SocketAddr| match check_peer(beyond_loopback, local, **address) {
        Ok(()) => true,
        Err(error) => {
            first.get_or_insert(error);
            false
        }
    };
    let fit: Addresses = addresses.iter().filter(check).copied().collect();
    match first {
        Some(error) if fit.first().is_none() => Err(error),
        _ => Ok(fit),
    }
}

/// Returns the addresses of node `id` in the book, those first from which most other nodes can be
/// reached. A name may have addresses of both families, and other nodes of one only.
pub(crate) fn own_addresses(book: &AddressBook, id: NodeId) -> Vec<SocketAddr> {
    let own = book.addresses(id);
    if own.len() < 2 {
        return own.to_vec();
    }
    let others = book.iter().filter(|(node, _)| *node != id);
    let others: Vec<_> = others.map(|(node, _)| book.addresses(node)).collect();
    best_first(own, &others)
}

/// Sorts addresses of this host by how many of the others' none can be reached from there.
fn best_first(own: &[SocketAddr], others: &[&[SocketAddr]]) -> Vec<SocketAddr> {
    let arrives = |from: SocketAddr, to: SocketAddr| {
        let crosses = stays_here(from.ip()) && !stays_here(to.ip());
        unreachable(from, to).is_none() && !crosses
    };
    let misses = |from: &SocketAddr| {
        let missed = |all: &&&[SocketAddr]| !all.iter().any(|to| arrives(*from, *to));
        others.iter().filter(missed).count()
    };
    let mut sorted = own.to_vec();
    sorted.sort_by_cached_key(misses);
    sorted
}

fn stays_here(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// The reason for which nothing sent at `local` can arrive at `address`, on any network. Without
/// this check the program would wait for an answer until it gives up, and learn nothing then.
fn unreachable(local: SocketAddr, address: SocketAddr) -> Option<&'static str> {
    use IpAddr::{V4, V6};
    let (from, to) = (local.ip().to_canonical(), address.ip().to_canonical());
    if let Some(problem) = book::no_host(address) {
        return Some(problem);
    }
    match (from, to) {
        (V4(_), V6(_)) => Some("an IPv4 socket reaches no IPv6 address; give both the same family"),
        // The unspecified IPv6 address stands for those of IPv4 too.
        (V6(from), V4(_)) if !from.is_unspecified() => {
            Some("that IPv6 address reaches no IPv4 address; give both the same family")
        }
        (V6(_), V6(to)) if to.is_unicast_link_local() && zone(local) == 0 && zone(address) == 0 => {
            Some(NO_ZONE)
        }
        _ => None,
    }
}

/// Whether the system has a route there. From loopback it leads to this machine's own addresses
/// only.
fn has_route(local: SocketAddr, address: SocketAddr) -> bool {
    let probe = UdpSocket::bind(SocketAddr::new(local.ip(), 0));
    probe.is_ok_and(|probe| probe.connect(address).is_ok())
}

fn zone(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(address) => address.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}

/// Refuses to listen at an address of many hosts, which the system allows: nothing can be sent from
/// it.
pub(crate) fn check_listen(address: SocketAddr) -> Result<(), Error> {
    let ip = address.ip().to_canonical();
    if ip.is_multicast() || ip == Ipv4Addr::BROADCAST {
        let problem = "it is not the address of one host; use an address of this machine";
        let source = io::Error::other(problem);
        return Err(Error::Bind { address, source });
    }
    Ok(())
}

/// Refuses addresses outside of loopback, unless the node may go `beyond_loopback`: because it is
/// sealed, or because the program allows it.
pub(crate) fn check_exposure(beyond_loopback: bool, address: SocketAddr) -> Result<(), Error> {
    if beyond_loopback || stays_here(address.ip()) {
        Ok(())
    } else {
        Err(Error::PlainOnNetwork { address })
    }
}

/// Refuses a book without this node, whether it has others or none.
pub(crate) fn in_book(book: &AddressBook, node: NodeId) -> Result<(), Error> {
    if book.get(node).is_some() {
        return Ok(());
    }
    let empty = if book.is_empty() { "empty " } else { "" };
    let file = book.source().map(|file| format!(" {file}"));
    let book = format!("{empty}address book{}", file.unwrap_or_default());
    Err(Error::NotInBook { node, book })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_listened_at_where_most_others_are_reached() {
        let all = |text: &str| -> Vec<SocketAddr> {
            text.split(' ').map(|at| at.parse().unwrap()).collect()
        };
        for (own, others, best) in [
            ("[::1]:7 127.0.0.1:7", "127.0.0.1:8", "127.0.0.1:7"),
            ("127.0.0.1:7 [::1]:7", "[::1]:8", "[::1]:7"),
            ("[::1]:7 127.0.0.1:7", "127.0.0.1:8 [::1]:8", "[::1]:7"),
            ("127.0.0.1:7 192.0.2.1:7", "192.0.2.2:8", "192.0.2.1:7"),
        ] {
            let sorted = best_first(&all(own), &[&all(others)]);
            assert_eq!(sorted.first(), best.parse().ok().as_ref(), "{own} {others}");
        }
    }

    #[test]
    fn addresses_that_nothing_can_reach_are_known() {
        let says = |local: &str, address: &str| {
            unreachable(local.parse().unwrap(), address.parse().unwrap()).unwrap_or("")
        };
        for (local, address, part) in [
            ("127.0.0.1:1", "127.0.0.1:0", "port 0"),
            ("0.0.0.0:1", "0.0.0.0:1", "not the address of one host"),
            ("[::]:1", "[::]:1", "not the address of one host"),
            ("0.0.0.0:1", "224.0.0.1:1", "not the address of one host"),
            (
                "0.0.0.0:1",
                "255.255.255.255:1",
                "not the address of one host",
            ),
            ("127.0.0.1:1", "[::1]:1", "same family"),
            ("[::1]:1", "127.0.0.1:1", "same family"),
            ("[::]:1", "[fe80::1]:1", "needs its zone"),
        ] {
            let said = says(local, address);
            assert!(said.contains(part), "{address} from {local}: {said:?}");
        }
        for (local, address) in [
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("[::]:1", "127.0.0.1:1"),
            ("127.0.0.1:1", "[::ffff:127.0.0.1]:1"),
            ("[::1]:1", "[::1]:2"),
            ("[::]:1", "[fe80::1%1]:1"),
            ("[fe80::2%1]:1", "[fe80::1]:1"),
        ] {
            assert_eq!(says(local, address), "", "{address} from {local}");
        }
    }
}
