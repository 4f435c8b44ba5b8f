//! Ethernet frames with UDP over IPv4.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;

use crate::Ecn;

pub(crate) const ETHERNET: usize = 14;
pub(crate) const IP: usize = 20;
const UDP: usize = 8;

/// Bytes of the headers of IP and UDP.
pub(crate) const IP_AND_UDP: usize = IP + UDP;

/// Bytes in front of the payload.
pub(crate) const HEADERS: usize = ETHERNET + IP_AND_UDP;

/// The type of frames with IPv4.
pub(crate) const TYPE_IPV4: [u8; 2] = (libc::ETH_P_IP as u16).to_be_bytes();
/// The first byte of an IPv4 header without options.
pub(crate) const VERSION_AND_LENGTH: u8 = 0x45;
/// The mask of bytes 6 and 7 of the IP header that is not 0 in one fragment of several.
pub(crate) const FRAGMENT: u16 = 0x3fff;
const DO_NOT_FRAGMENT: [u8; 2] = [0x40, 0];
const HOPS: u8 = 64;
pub(crate) const PROTOCOL_UDP: u8 = libc::IPPROTO_UDP as u8;

/// Between whom a frame goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    /// Ethernet addresses of the sender and of the receiver.
    pub(crate) ethernet: ([u8; 6], [u8; 6]),
    pub(crate) from: SocketAddrV4,
    pub(crate) to: SocketAddrV4,
}

/// The UDP checksum of a frame that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checksum {
    /// The kernel or the device finishes it.
    Later,
    /// There is none, which IPv4 allows (RFC 768): packets have one of their own.
    Absent,
}

/// The headers of a frame that carries `length` bytes in one datagram, or in several that the
/// kernel makes of it.
pub(crate) fn headers(
    addresses: &Addresses,
    ecn: Ecn,
    length: usize,
    checksum: Checksum,
) -> [u8; HEADERS] {
    let Addresses { ethernet, from, to } = addresses;
    let with = |headers: usize| u16::try_from(headers + length).unwrap_or(u16::MAX);
    let (udp_length, ip_length) = (with(UDP), with(IP_AND_UDP));
    let mut ip = [0; IP];
    ip[0] = VERSION_AND_LENGTH;
    ip[1] = ecn.bits();
    ip[2..4].copy_from_slice(&ip_length.to_be_bytes());
    ip[6..8].copy_from_slice(&DO_NOT_FRAGMENT);
    ip[8] = HOPS;
    ip[9] = PROTOCOL_UDP;
    ip[12..16].copy_from_slice(&from.ip().octets());
    ip[16..20].copy_from_slice(&to.ip().octets());
    let ip_checksum = !folded(sum(&ip));
    ip[10..12].copy_from_slice(&ip_checksum.to_be_bytes());
    let udp_checksum = match checksum {
        Checksum::Later => folded(pseudo_header(*from.ip(), *to.ip(), udp_length)),
        Checksum::Absent => 0,
    };

    let mut out = [0; HEADERS];
    out[..6].copy_from_slice(&ethernet.1);
    out[6..12].copy_from_slice(&ethernet.0);
    out[12..ETHERNET].copy_from_slice(&TYPE_IPV4);
    out[ETHERNET..ETHERNET + IP].copy_from_slice(&ip);
    let udp = [from.port(), to.port(), udp_length, udp_checksum].map(u16::to_be_bytes);
    out[ETHERNET + IP..].copy_from_slice(udp.as_flattened());
    out
}

/// The datagrams of one frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Datagrams {
    pub(crate) from: SocketAddrV4,
    pub(crate) ecn: Ecn,
    /// Bytes of each but the last.
    pub(crate) segment: usize,
    /// Where they lie in the frame.
    pub(crate) bytes: Range<usize>,
}

/// The kernel's word about a frame, beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Said {
    /// The UDP checksum need not be looked at.
    pub(crate) checked: bool,
    /// The frame holds several datagrams, each but the last of so many bytes.
    pub(crate) segment: Option<usize>,
}

/// Reads a frame. `None` if it is cut, is no UDP over IPv4, or its checksum is wrong.
pub(crate) fn read(frame: &[u8], said: Said) -> Option<Datagrams> {
    let (_, packet) = frame.split_first_chunk::<ETHERNET>()?;
    let (ip, _) = packet.split_first_chunk::<IP>()?;
    if ip[0] != VERSION_AND_LENGTH || ip[9] != PROTOCOL_UDP {
        return None;
    }
    // Behind it Ethernet may have filled the frame up.
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let datagram = packet.get(IP..total)?;
    let (udp, bytes) = datagram.split_first_chunk::<UDP>()?;
    let from = Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]);
    let to = Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]);
    if said.segment.is_none() {
        let length = u16::from_be_bytes([udp[4], udp[5]]);
        let checked = said.checked || udp[6..] == [0, 0];
        let right = || folded(pseudo_header(from, to, length) + sum(datagram)) == u16::MAX;
        if usize::from(length) != datagram.len() || !(checked || right()) {
            return None;
        }
    }
    Some(Datagrams {
        from: SocketAddrV4::new(from, u16::from_be_bytes([udp[0], udp[1]])),
        ecn: Ecn::from_bits(ip[1]),
        segment: said.segment.unwrap_or(bytes.len()).max(1),
        bytes: HEADERS..HEADERS + bytes.len(),
    })
}

/// The sum of big-endian words of 16 bits (RFC 1071).
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let last = rest.first().map_or(0, |byte| u64::from(*byte) << 8);
    let words = words
        .iter()
        .map(|word| u64::from(u16::from_be_bytes(*word)));
    words.sum::<u64>() + last
}

/// The sum of what a UDP checksum covers beside the datagram (RFC 768).
fn pseudo_header(from: Ipv4Addr, to: Ipv4Addr, length: u16) -> u64 {
    let fixed = u64::from(PROTOCOL_UDP) + u64::from(length);
    sum(&from.octets()) + sum(&to.octets()) + fixed
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
