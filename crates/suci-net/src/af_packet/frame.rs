//! Ethernet frames with UDP over IPv4, and the programs of classic BPF that choose among them.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;

use libc::sock_filter;

use crate::{Ecn, MAX_TRAIN_BYTES, Train};

/// Bytes of the kernel's header in front of each frame (`struct virtio_net_hdr`).
const OFFLOAD: usize = 10;
const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;

/// Bytes of the headers of IP and UDP.
pub(super) const IP_AND_UDP: usize = IP + UDP;

/// Bytes in front of the payload.
pub(super) const HEADERS: usize = OFFLOAD + ETHERNET + IP_AND_UDP;

/// Bytes of the longest frame, with the headers.
pub(super) const LONGEST: usize = HEADERS + MAX_TRAIN_BYTES;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum is still to be computed.
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_F_DATA_VALID`: the checksum was found right.
const CHECKSUM_IS_RIGHT: u8 = 2;
/// `VIRTIO_NET_HDR_GSO_UDP_L4`: several datagrams, each but the last of `gso_size` bytes.
const UDP_SEGMENTS: u8 = 5;

const TYPE_IPV4: [u8; 2] = (libc::ETH_P_IP as u16).to_be_bytes();
const VERSION_AND_LENGTH: u8 = 0x45;
const DO_NOT_FRAGMENT: [u8; 2] = [0x40, 0];
const HOPS: u8 = 64;
const PROTOCOL_UDP: u8 = libc::IPPROTO_UDP as u8;

/// Between whom a frame goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    /// Ethernet addresses of the sender and of the receiver.
    pub(super) ethernet: ([u8; 6], [u8; 6]),
    pub(super) from: SocketAddrV4,
    pub(super) to: SocketAddrV4,
}

/// The headers of a frame that carries `train`, which has at most [`MAX_TRAIN_BYTES`].
pub(super) fn headers(addresses: &Addresses, train: &Train<'_>) -> [u8; HEADERS] {
    let Addresses { ethernet, from, to } = addresses;
    let is_train = train.segments() > 1;
    let length = |headers: usize| u16::try_from(headers + train.len).unwrap_or(u16::MAX);
    let (udp_length, ip_length) = (length(UDP), length(IP_AND_UDP));
    let mut out = [0; HEADERS];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        if let Some(place) = out.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        at += bytes.len();
    };
    // The kernel reads its own header in the byte order of the machine.
    put(&[NEEDS_CHECKSUM, if is_train { UDP_SEGMENTS } else { 0 }]);
    put(&((ETHERNET + IP_AND_UDP) as u16).to_ne_bytes());
    let segment = if is_train { train.segment } else { 0 };
    put(&u16::try_from(segment).unwrap_or(u16::MAX).to_ne_bytes());
    put(&((ETHERNET + IP) as u16).to_ne_bytes());
    put(&6_u16.to_ne_bytes());

    put(&ethernet.1);
    put(&ethernet.0);
    put(&TYPE_IPV4);

    let mut ip = [0; IP];
    ip[0] = VERSION_AND_LENGTH;
    ip[1] = train.ecn.bits();
    ip[2..4].copy_from_slice(&ip_length.to_be_bytes());
    ip[6..8].copy_from_slice(&DO_NOT_FRAGMENT);
    ip[8] = HOPS;
    ip[9] = PROTOCOL_UDP;
    ip[12..16].copy_from_slice(&from.ip().octets());
    ip[16..20].copy_from_slice(&to.ip().octets());
    let checksum = !folded(sum(&ip));
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    put(&ip);

    put(&from.port().to_be_bytes());
    put(&to.port().to_be_bytes());
    put(&udp_length.to_be_bytes());
    // The kernel or the device adds the rest.
    let pseudo = pseudo_header(*from.ip(), *to.ip(), udp_length);
    put(&folded(pseudo).to_be_bytes());
    out
}

/// The datagrams of one frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Datagrams {
    pub(super) from: SocketAddrV4,
    pub(super) ecn: Ecn,
    /// Bytes of each but the last.
    pub(super) segment: usize,
    /// Where they lie in the frame.
    pub(super) bytes: Range<usize>,
}

/// Reads a frame that the filter let through, with the kernel's header. `None` if it is cut or its
/// checksum is wrong.
pub(super) fn read(frame: &[u8]) -> Option<Datagrams> {
    let (offload, frame) = frame.split_first_chunk::<OFFLOAD>()?;
    let (_, packet) = frame.split_first_chunk::<ETHERNET>()?;
    let (ip, _) = packet.split_first_chunk::<IP>()?;
    let [flags, kind, ..] = *offload;
    let gso_size = usize::from(u16::from_ne_bytes([offload[4], offload[5]]));
    if ip[0] != VERSION_AND_LENGTH || ip[9] != PROTOCOL_UDP {
        return None;
    }
    // Behind it Ethernet may have filled the frame up.
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let datagram = packet.get(IP..total)?;
    let (udp, bytes) = datagram.split_first_chunk::<UDP>()?;
    let from = Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]);
    let to = Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]);
    let is_train = kind == UDP_SEGMENTS && gso_size > 0;
    if !is_train {
        let length = u16::from_be_bytes([udp[4], udp[5]]);
        let checked = flags & (NEEDS_CHECKSUM | CHECKSUM_IS_RIGHT) != 0 || udp[6..] == [0, 0];
        let right = || folded(pseudo_header(from, to, length) + sum(datagram)) == u16::MAX;
        if usize::from(length) != datagram.len() || !(checked || right()) {
            return None;
        }
    }
    Some(Datagrams {
        from: SocketAddrV4::new(from, u16::from_be_bytes([udp[0], udp[1]])),
        ecn: Ecn::from_bits(ip[1]),
        segment: if is_train {
            gso_size
        } else {
            bytes.len().max(1)
        },
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

/// Where a program of classic BPF finds the IP header, whatever the kernel put in front of it.
const NETWORK: i32 = libc::SKF_NET_OFF;

const fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

const fn load(size: u32, at: i32) -> sock_filter {
    statement(libc::BPF_LD | libc::BPF_ABS | size, at.cast_unsigned())
}

/// A filter that takes unfragmented UDP datagrams for `local` that came by one of two interfaces,
/// without a VLAN tag.
pub(super) fn filter(local: SocketAddrV4, interface: u32, loopback: u32) -> Vec<sock_filter> {
    let own = |field: i32| load(libc::BPF_W, libc::SKF_AD_OFF + field);
    let checks: [(sock_filter, &[u32]); 7] = [
        (own(libc::SKF_AD_IFINDEX), &[interface, loopback]),
        (own(libc::SKF_AD_PKTTYPE), &[libc::PACKET_HOST.into()]),
        (own(libc::SKF_AD_VLAN_TAG_PRESENT), &[0]),
        (load(libc::BPF_B, NETWORK), &[VERSION_AND_LENGTH.into()]),
        (load(libc::BPF_B, NETWORK + 9), &[PROTOCOL_UDP.into()]),
        (load(libc::BPF_W, NETWORK + 16), &[u32::from(*local.ip())]),
        (load(libc::BPF_H, NETWORK + 22), &[local.port().into()]),
    ];
    let drop = statement(libc::BPF_RET | libc::BPF_K, 0);
    let mut program = Vec::new();
    for (load, allowed) in checks {
        program.push(load);
        // Behind the last comparison comes the drop, and behind that the next check.
        for (place, value) in allowed.iter().enumerate() {
            let to_next_check = u8::try_from(allowed.len() - place).unwrap_or(u8::MAX);
            let compare = statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *value);
            program.push(sock_filter {
                jt: to_next_check,
                ..compare
            });
        }
        program.push(drop);
    }
    // More fragments follow, or this is not the first.
    program.push(load(libc::BPF_H, NETWORK + 6));
    let fragment = statement(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0x3fff);
    program.push(sock_filter { jt: 1, ..fragment });
    program.push(crate::udp::sys::TAKE_ALL);
    program.push(drop);
    program
}

/// A program that chooses the socket of a group by byte 4 of the payload; shorter ones go to the
/// first.
pub(super) fn steering(sockets: u32) -> [sock_filter; 3] {
    const STEERING_BYTE: i32 = 4;
    [
        load(libc::BPF_B, NETWORK + IP_AND_UDP as i32 + STEERING_BYTE),
        statement(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, sockets),
        statement(libc::BPF_RET | libc::BPF_A, 0),
    ]
}
