//! Socket addresses as the bytes of `sockaddr_in` and `sockaddr_in6`, written and read with
//! checked slices instead of pointer casts.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Size of `struct sockaddr_in6`, the larger of the two.
pub(crate) const CAPACITY: usize = size_of::<libc::sockaddr_in6>();
const V4_LEN: usize = size_of::<libc::sockaddr_in>();

const _: () = assert!(CAPACITY == 28 && V4_LEN == 16);

/// Family of the socket: decides how an address must be written for the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct RawAddr {
    pub(crate) bytes: [u8; CAPACITY],
    pub(crate) len: usize,
}

impl RawAddr {
    pub(crate) const fn empty() -> Self {
        Self {
            bytes: [0; CAPACITY],
            len: 0,
        }
    }

    /// An address that the kernel wrote elsewhere.
    pub(crate) fn copied(from: &[u8]) -> Self {
        let mut raw = Self::empty();
        for (to, from) in raw.bytes.iter_mut().zip(from) {
            *to = *from;
            raw.len += 1;
        }
        raw
    }

    /// `addr` as a socket of `family` wants it: IPv4 is mapped for IPv6 sockets. `None` if such a
    /// socket cannot reach it.
    pub(crate) fn encode(addr: SocketAddr, family: Family) -> Option<Self> {
        let mut raw = Self::empty();
        match (family, addr) {
            (Family::V4, SocketAddr::V4(v4)) => raw.put_v4(v4),
            (Family::V4, SocketAddr::V6(v6)) => {
                raw.put_v4(SocketAddrV4::new(v6.ip().to_ipv4_mapped()?, v6.port()));
            }
            (Family::V6, SocketAddr::V6(v6)) => raw.put_v6(v6),
            (Family::V6, SocketAddr::V4(v4)) => {
                raw.put_v6(SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0));
            }
        }
        Some(raw)
    }

    /// Writes a field whose place and size the compiler knows: every datagram sent has an address.
    #[inline]
    fn put<const N: usize>(&mut self, at: usize, field: [u8; N]) {
        if let Some(place) = self.bytes.get_mut(at..at + N) {
            place.copy_from_slice(&field);
        }
    }

    fn put_v4(&mut self, addr: SocketAddrV4) {
        self.put(0, (libc::AF_INET as libc::sa_family_t).to_ne_bytes());
        self.put(2, addr.port().to_be_bytes());
        self.put(4, addr.ip().octets());
        self.len = V4_LEN;
    }

    fn put_v6(&mut self, addr: SocketAddrV6) {
        self.put(0, (libc::AF_INET6 as libc::sa_family_t).to_ne_bytes());
        self.put(2, addr.port().to_be_bytes());
        self.put(4, addr.flowinfo().to_ne_bytes());
        self.put(8, addr.ip().octets());
        self.put(24, addr.scope_id().to_ne_bytes());
        self.len = CAPACITY;
    }

    /// The address the kernel wrote; `None` if it is of neither family.
    pub(crate) fn decode(&self) -> Option<SocketAddr> {
        let bytes = self.bytes.get(..self.len.min(CAPACITY))?;
        let family = libc::c_int::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
        match family {
            libc::AF_INET => {
                let ip: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
                Some(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from(ip), port)))
            }
            libc::AF_INET6 => {
                let flow = u32::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
                let ip: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
                let scope = u32::from_ne_bytes(*bytes.get(24..)?.first_chunk()?);
                let v6 = SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope);
                Some(crate::train::unmapped(SocketAddr::V6(v6)))
            }
            _ => None,
        }
    }
}
