//! The network interface that frames leave by, and the neighbours on its network.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::sys::{self, Name};
use crate::train::unmapped;
use crate::udp::addr::RawAddr;

/// How long a neighbour's Ethernet address and the MTU are used before the kernel is asked again.
pub(crate) const REFRESH: Duration = Duration::from_secs(1);

/// Maximum number of neighbours that are remembered.
const MOST: usize = 65_536;

/// An Ethernet interface, or loopback.
#[derive(Debug)]
pub(crate) struct Interface {
    name: Name,
    pub(crate) index: u32,
    pub(crate) ethernet: [u8; 6],
    /// Bytes of the longest IP packet.
    pub(crate) mtu: usize,
    own: Ipv4Addr,
    mask: Ipv4Addr,
    pub(crate) is_loopback: bool,
    neighbours: HashMap<Ipv4Addr, Neighbour>,
}

#[derive(Debug)]
struct Neighbour {
    ethernet: [u8; 6],
    asked: Instant,
}

/// The Ethernet address of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// It was asked for not long ago.
    Fresh([u8; 6]),
    /// The kernel has it, and should ask the neighbour whether it still holds.
    Old([u8; 6]),
    /// The kernel must ask the neighbour first, or it is no neighbour.
    No,
}

impl Interface {
    /// The interface that has the address `own`.
    ///
    /// # Errors
    /// `AddrNotAvailable` if none has it, `Unsupported` if it is no Ethernet, else the system's
    /// error.
    pub(crate) fn of(own: Ipv4Addr, fd: BorrowedFd<'_>) -> io::Result<Self> {
        let all = sys::own_addresses()?;
        let exactly = all.iter().find(|found| found.address == own);
        // Loopback has all of 127.0.0.0/8.
        let loopback = || {
            all.iter()
                .find(|it| it.address.is_loopback() && own.is_loopback())
        };
        let Some(found) = exactly.or_else(loopback) else {
            let text = format!("no interface of this host has the address {own}");
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
        };
        let name = found.interface;
        let (kind, ethernet) = sys::hardware(fd, &name)?;
        if kind != libc::ARPHRD_ETHER && kind != libc::ARPHRD_LOOPBACK {
            let text = format!(
                "the interface with the address {own} is no Ethernet (its type is {kind}): use \
                 the UDP backend"
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        Ok(Self {
            name,
            index: sys::index(&name),
            ethernet,
            mtu: sys::mtu(fd, &name)?,
            own,
            mask: found.mask,
            is_loopback: kind == libc::ARPHRD_LOOPBACK,
            neighbours: HashMap::new(),
        })
    }

    /// The IPv4 address that a socket at `local` is bound to.
    ///
    /// # Errors
    /// `InvalidInput` if it is bound to an IPv6 address or to any address.
    pub(crate) fn own_address(local: SocketAddr) -> io::Result<SocketAddrV4> {
        let text = match unmapped(local) {
            SocketAddr::V4(own) if !own.ip().is_unspecified() => return Ok(own),
            SocketAddr::V4(own) => {
                format!("raw Ethernet frames need one interface, not {own}: listen at its address")
            }
            SocketAddr::V6(_) => format!(
                "raw Ethernet frames carry IPv4 only, not {local}: listen at an IPv4 address"
            ),
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    /// Its name, as the system's commands show it.
    pub(crate) fn name(&self) -> String {
        let bytes = self.name.iter().map(|byte| byte.cast_unsigned());
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Asks the kernel again how long packets may be: somebody may have changed it.
    pub(crate) fn ask_mtu(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.mtu = sys::mtu(fd, &self.name)?;
        Ok(())
    }

    /// The Ethernet address of the neighbour `ip`. Unless it is fresh the next datagram to it is
    /// the kernel's to send, which then asks.
    pub(crate) fn neighbour(&mut self, ip: Ipv4Addr, fd: BorrowedFd<'_>) -> Known {
        let network = |ip: Ipv4Addr| ip.to_bits() & self.mask.to_bits();
        let is_near = network(ip) == network(self.own) && ip != self.own;
        if !is_near || self.is_loopback || ip.to_bits() == self.broadcast() {
            return Known::No;
        }
        let now = Instant::now();
        if let Some(known) = self.neighbours.get(&ip)
            && now.duration_since(known.asked) < REFRESH
        {
            return Known::Fresh(known.ethernet);
        }
        if self.neighbours.len() >= MOST {
            self.neighbours.clear();
        }
        // One that is down or gone says so when a frame is sent.
        let _ = self.ask_mtu(fd);
        let Some(ethernet) = sys::neighbour(fd, &self.name, ip) else {
            self.neighbours.remove(&ip);
            return Known::No;
        };
        let asked = now;
        self.neighbours.insert(ip, Neighbour { ethernet, asked });
        Known::Old(ethernet)
    }

    /// Returns true if no packet that came by this interface can be from `source`: somebody forged
    /// it. The kernel drops such packets in its IP (`fib_validate_source`, RFC 1812 section 5.3.7),
    /// which frames pass by.
    pub(crate) fn is_impossible(&self, source: Ipv4Addr) -> bool {
        let foreign = source.is_loopback()
            || source.is_unspecified()
            || source.is_broadcast()
            || source.is_multicast()
            || source == self.own;
        foreign && !self.is_loopback
    }

    fn broadcast(&self) -> u32 {
        self.own.to_bits() | !self.mask.to_bits()
    }

    /// The destination of frames of an EtherType for a neighbour.
    pub(crate) fn link_address(&self, ether_type: u16, ethernet: [u8; 6]) -> RawAddr {
        sys::link_address(ether_type, self.index, ethernet)
    }
}

/// The number of the loopback interface; 0 if there is none.
pub(crate) fn loopback() -> io::Result<u32> {
    let all = sys::own_addresses()?;
    let found = all.iter().find(|found| found.address.is_loopback());
    Ok(found.map_or(0, |found| sys::index(&found.interface)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forged sources are refused where the network brings them, and taken by loopback.
    #[test]
    fn f12_sources_that_no_network_has_are_refused() {
        let own = Ipv4Addr::new(10, 0, 0, 1);
        let interface = Interface {
            name: [0; libc::IFNAMSIZ],
            index: 7,
            ethernet: [2; 6],
            mtu: 1_500,
            own,
            mask: Ipv4Addr::new(255, 255, 255, 0),
            is_loopback: false,
            neighbours: HashMap::new(),
        };
        for forged in [
            own,
            Ipv4Addr::LOCALHOST,
            Ipv4Addr::UNSPECIFIED,
            Ipv4Addr::BROADCAST,
        ] {
            assert!(interface.is_impossible(forged), "{forged}");
        }
        assert!(!interface.is_impossible(Ipv4Addr::new(10, 0, 0, 2)));
    }
}
