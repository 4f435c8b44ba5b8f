//! Control messages as bytes.
//!
//! The kernel's layout (`struct cmsghdr`: length as an unsigned long, level and type as ints, data
//! and next header aligned to an unsigned long) is written and read with checked slices instead of
//! the `CMSG_*` macros, so that nothing here is unsafe.

use std::net::IpAddr;
use std::time::Duration;

use libc::c_int;

use super::addr::RawAddr;
use crate::Ecn;

const WORD: usize = size_of::<usize>();
const HEADER: usize = WORD + 2 * size_of::<c_int>();

/// Room for every message that is asked for, time stamp, traffic class twice and the segment size,
/// and for packet info of both families, which a socket that was handed over may have asked for:
/// 200 bytes. Cut control data would make trains unreadable.
pub(crate) const RECV_CONTROL: usize = 256;

/// Room for a segment size, a traffic class and a source address: three headers, two words, and
/// the larger packet info.
pub(crate) const SEND_CONTROL: usize = 96;

/// Bytes of `struct in6_pktinfo` with its padding.
const INFO: usize = size_of::<libc::in6_pktinfo>().next_multiple_of(WORD);

const _: () = assert!(3 * HEADER + 2 * WORD + INFO <= SEND_CONTROL);
const _: () = assert!(RECV_CONTROL.is_multiple_of(WORD));

/// A buffer aligned as the kernel aligns headers.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Control<const N: usize> {
    pub(crate) bytes: [u8; N],
    /// Bytes in use.
    pub(crate) len: usize,
}

impl<const N: usize> Control<N> {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
        }
    }

    /// Says from which of this host's addresses to send, on the interface that the route chooses.
    pub(crate) fn push_source(&mut self, source: IpAddr) {
        match source {
            // `struct in_pktinfo`: interface, source address, unused.
            IpAddr::V4(ip) => {
                let mut info = [0; size_of::<libc::in_pktinfo>()];
                if let Some(field) = info.get_mut(4..8) {
                    field.copy_from_slice(&ip.octets());
                }
                self.push(libc::SOL_IP, libc::IP_PKTINFO, &info);
            }
            // `struct in6_pktinfo`: source address, interface.
            IpAddr::V6(ip) => {
                let mut info = [0; size_of::<libc::in6_pktinfo>()];
                if let Some(field) = info.first_chunk_mut() {
                    *field = ip.octets();
                }
                self.push(libc::SOL_IPV6, libc::IPV6_PKTINFO, &info);
            }
        }
    }

    /// Appends one message. A message that does not fit is left out; the sizes above leave room for
    /// all.
    pub(crate) fn push(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        let Some(space) = self.bytes.get_mut(self.len..) else {
            return;
        };
        let length = HEADER + data.len();
        let padded = length.next_multiple_of(WORD);
        let Some(space) = space.get_mut(..padded) else {
            return;
        };
        let (header, body) = space.split_at_mut(HEADER);
        let (first, rest) = header.split_at_mut(WORD);
        let (second, third) = rest.split_at_mut(size_of::<c_int>());
        first.copy_from_slice(&length.to_ne_bytes());
        second.copy_from_slice(&level.to_ne_bytes());
        third.copy_from_slice(&kind.to_ne_bytes());
        for (to, from) in body.iter_mut().zip(data) {
            *to = *from;
        }
        self.len += padded;
    }
}

/// The content of the control messages of one receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Received {
    pub(crate) ecn: Ecn,
    /// The address of this host that it was sent to.
    pub(crate) to: Option<IpAddr>,
    /// Wall clock of arrival, since 1970.
    pub(crate) arrived: Option<Duration>,
    /// Size of each datagram but the last if several were joined.
    pub(crate) segment: Option<usize>,
}

/// Reads the control messages of the kernel; unknown or malformed ones are passed over.
pub(crate) fn parse(mut bytes: &[u8]) -> Received {
    let mut received = Received::default();
    while let Some((level, kind, data, rest)) = next(bytes) {
        match (level, kind) {
            (libc::SOL_IP, libc::IP_TOS) => {
                if let Some(tos) = data.first() {
                    received.ecn = Ecn::from_bits(*tos);
                }
            }
            (libc::SOL_IPV6, libc::IPV6_TCLASS) => {
                if let Some(class) = int_at(data, 0) {
                    received.ecn = Ecn::from_bits((class & 0xff) as u8);
                }
            }
            (libc::SOL_IP, libc::IP_PKTINFO) => {
                received.to = array_at::<4>(data, 4).map(IpAddr::from);
            }
            // An IPv6 socket hears of IPv4 in its own form.
            (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
                received.to = array_at::<16>(data, 0).map(|ip| IpAddr::from(ip).to_canonical());
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => received.arrived = timespec(data),
            (libc::SOL_UDP, libc::UDP_GRO) => {
                received.segment = int_at(data, 0)
                    .and_then(|size| usize::try_from(size).ok())
                    .filter(|s| *s > 0);
            }
            _ => {}
        }
        bytes = rest;
    }
    received
}

/// The kernel's report of a datagram that was not delivered (`struct sock_extended_err`,
/// linux/errqueue.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExtendedError {
    /// As in `errno`.
    pub(crate) code: c_int,
    /// Whether an ICMP message reports it. Otherwise this host found it out by itself.
    pub(crate) is_icmp: bool,
    /// Whether that message is "port unreachable" (RFC 792; RFC 4443, section 3.1).
    pub(crate) is_port: bool,
    /// The sender of that message.
    pub(crate) offender: Option<IpAddr>,
}

/// Reads the report that the kernel wrote.
pub(crate) fn parse_error(mut bytes: &[u8]) -> Option<ExtendedError> {
    /// Bytes of the struct; the address of the offender follows.
    const LENGTH: usize = size_of::<libc::sock_extended_err>();
    while let Some((level, kind, data, rest)) = next(bytes) {
        let ours = [
            (libc::SOL_IP, libc::IP_RECVERR),
            (libc::SOL_IPV6, libc::IPV6_RECVERR),
        ];
        if ours.contains(&(level, kind))
            && let Some((error, offender)) = data.split_at_checked(LENGTH)
        {
            let [origin, kind, code, _] = array_at(error, 4)?;
            // An IPv6 socket hears of IPv4 in its own form.
            let port = match origin {
                libc::SO_EE_ORIGIN_ICMP => Some((3, 3)),
                libc::SO_EE_ORIGIN_ICMP6 => Some((1, 4)),
                _ => None,
            };
            return Some(ExtendedError {
                code: int_at(error, 0)?,
                is_icmp: port.is_some(),
                is_port: port == Some((kind, code)),
                offender: RawAddr::copied(offender).decode().map(|at| at.ip()),
            });
        }
        bytes = rest;
    }
    None
}

/// First message of `bytes`: level, type, data, and the remaining bytes.
fn next(bytes: &[u8]) -> Option<(c_int, c_int, &[u8], &[u8])> {
    let length = usize::from_ne_bytes(array_at::<WORD>(bytes, 0)?);
    let level = int_at(bytes, WORD)?;
    let kind = int_at(bytes, WORD + size_of::<c_int>())?;
    let data = bytes.get(HEADER..length)?;
    let rest = length
        .checked_next_multiple_of(WORD)
        .and_then(|at| bytes.get(at..));
    Some((level, kind, data, rest.unwrap_or_default()))
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

fn int_at(bytes: &[u8], at: usize) -> Option<c_int> {
    array_at(bytes, at).map(c_int::from_ne_bytes)
}

/// A timespec of two longs, whose size the data's length tells.
fn timespec(data: &[u8]) -> Option<Duration> {
    let (seconds, nanos) = if data.len() >= 16 {
        (
            i64::from_ne_bytes(array_at(data, 0)?),
            i64::from_ne_bytes(array_at(data, 8)?),
        )
    } else {
        (i64::from(int_at(data, 0)?), i64::from(int_at(data, 4)?))
    };
    let nanos = u32::try_from(nanos).ok().filter(|n| *n < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(seconds).ok()?, nanos))
}
