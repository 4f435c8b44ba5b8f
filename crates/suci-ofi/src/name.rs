//! The name of an endpoint: 64 bytes, by which others reach it.

use crate::code::{Code, Outcome};
use core::ffi::{c_char, c_void};
use std::ffi::CStr;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use suci::NodeId;

/// Bytes of a name.
pub(crate) const LENGTH: usize = 64;

/// The format of these addresses (`addr_format`): one of the provider's own.
pub(crate) const FORMAT: u32 = 0x8000_5c1f;

/// The first bytes of each name, and the version of its layout.
const MARK: [u8; 5] = *b"suci\x01";

/// An endpoint's address and its node's ID, which follows from the address.
///
/// | bytes | content |
/// |---|---|
/// | 0 to 4 | `suci`, 1 |
/// | 5 | 0 |
/// | 6, 7 | port, most significant byte first |
/// | 8 to 23 | IPv6 address, or an IPv4 address mapped to one |
/// | 24 to 27 | node ID, most significant byte first |
/// | 28 to 63 | 0 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) address: SocketAddr,
    pub(crate) node: NodeId,
}

impl Name {
    /// The name of the endpoint at this address.
    pub(crate) fn new(address: SocketAddr) -> Self {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        Self {
            address,
            node: node_at(address),
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; LENGTH] {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut bytes = [0; LENGTH];
        let port = self.address.port().to_be_bytes();
        let node = self.node.0.to_be_bytes();
        let content = MARK.into_iter().chain([0]).chain(port);
        let content = content.chain(ip.octets()).chain(node);
        bytes
            .iter_mut()
            .zip(content)
            .for_each(|(to, from)| *to = from);
        bytes
    }

    /// Reads a name. Bytes that are none are refused.
    pub(crate) fn from_bytes(bytes: &[u8; LENGTH]) -> Outcome<Self> {
        let (&[a, b, c, d, e, zero, high, low], rest) =
            bytes.split_first_chunk::<8>().ok_or(Code::INVAL)?;
        let (ip, rest) = rest.split_first_chunk::<16>().ok_or(Code::INVAL)?;
        let (node, rest) = rest.split_first_chunk::<4>().ok_or(Code::INVAL)?;
        let is_name = [a, b, c, d, e] == MARK && zero == 0 && rest.iter().all(|byte| *byte == 0);
        let port = u16::from_be_bytes([high, low]);
        let name = Self::new(SocketAddr::new(Ipv6Addr::from(*ip).into(), port));
        match is_name && name.node == NodeId(u32::from_be_bytes(*node)) {
            true => Ok(name),
            false => Err(Code::INVAL),
        }
    }

    /// Reads a name from memory of C.
    ///
    /// # Safety
    /// `bytes` is null or has `length` bytes.
    pub(crate) unsafe fn read(bytes: *const c_void, length: usize) -> Outcome<Self> {
        if bytes.is_null() || length != LENGTH {
            return Err(Code::INVAL);
        }
        // SAFETY: the caller promises that there are as many bytes; an array of bytes has no
        // alignment.
        Self::from_bytes(unsafe { &*bytes.cast::<[u8; LENGTH]>() })
    }

    /// Writes as much of the name as fits. Tells its length.
    ///
    /// # Safety
    /// `length` is null or a number, of the bytes that `into` has; `into` is null or has them.
    pub(crate) unsafe fn write(self, into: *mut c_void, length: *mut usize) -> Outcome<()> {
        // SAFETY: as the caller promises.
        let length = unsafe { length.as_mut() }.ok_or(Code::INVAL)?;
        let room = std::mem::replace(length, LENGTH).min(LENGTH);
        if !into.is_null() {
            // SAFETY: `into` has at least `room` bytes, and the array has as many.
            unsafe { into.cast::<u8>().copy_from(self.to_bytes().as_ptr(), room) };
        }
        match into.is_null() || room < LENGTH {
            true => Err(Code::TOOSMALL),
            false => Ok(()),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "suci://{}", self.address)
    }
}

/// The ID of the node at an address: docs/decisions/44-node-ids.md.
fn node_at(address: SocketAddr) -> NodeId {
    let [high, low] = match address.ip() {
        IpAddr::V4(ip) => {
            let [_, _, high, low] = ip.octets();
            [high, low]
        }
        IpAddr::V6(ip) => {
            // FNV-1a, folded to 16 bits.
            let hash = ip.octets().iter().fold(0x811c_9dc5_u32, |hash, byte| {
                (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
            });
            let [a, b, c, d] = hash.to_be_bytes();
            [a ^ c, b ^ d]
        }
    };
    let [first, second] = address.port().to_be_bytes();
    NodeId(u32::from_be_bytes([high, low, first, second]))
}

/// The addresses of a host and a service, as C names them; either may be missing. `anywhere` is
/// used without a host.
///
/// # Safety
/// Both are null or strings.
pub(crate) unsafe fn resolve(
    host: *const c_char,
    service: *const c_char,
    anywhere: IpAddr,
) -> Outcome<Vec<SocketAddr>> {
    // SAFETY: as the caller promises.
    let (host, service) = unsafe { (text(host), text(service)) };
    let port = match service? {
        None => 0,
        Some(service) => service.parse::<u16>().map_err(|_| Code::NODATA)?,
    };
    let Some(host) = host? else {
        return Ok(vec![SocketAddr::new(anywhere, port)]);
    };
    let found = (host, port).to_socket_addrs().map_err(|_| Code::NODATA)?;
    let (four, six): (Vec<_>, Vec<_>) = found.partition(SocketAddr::is_ipv4);
    Ok(four.into_iter().chain(six).collect())
}

/// # Safety
/// It is null or a string.
pub(crate) unsafe fn text<'a>(string: *const c_char) -> Outcome<Option<&'a str>> {
    if string.is_null() {
        return Ok(None);
    }
    // SAFETY: it is a string, as the caller promises.
    let string = unsafe { CStr::from_ptr(string) };
    string.to_str().map(Some).map_err(|_| Code::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_were_written() {
        for address in ["10.1.2.3:4660", "[fe80::1]:80", "127.0.0.1:65535"] {
            let name = Name::new(address.parse().unwrap());
            assert_eq!(Name::from_bytes(&name.to_bytes()), Ok(name));
        }
        let name = Name::new("10.1.2.3:4660".parse().unwrap());
        assert_eq!(name.node, NodeId(0x0203_1234));
    }

    #[test]
    fn other_bytes_are_no_names() {
        let name = Name::new("10.1.2.3:4660".parse().unwrap());
        for at in 0..LENGTH {
            let mut bytes = name.to_bytes();
            bytes[at] ^= 0x40;
            // Bytes of the address that the ID does not have make another name.
            if !(8..22).contains(&at) {
                assert_eq!(Name::from_bytes(&bytes), Err(Code::INVAL), "byte {at}");
            }
        }
    }
}
