//! Fields of IP packets that an emulated link reads and changes: ECN and addresses; and the ICMP
//! packets that it writes.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::link::Alias;

/// Values of the ECN field (RFC 3168).
pub(super) const NOT_ECT: u8 = 0;
pub(super) const ECT_0: u8 = 2;
pub(super) const CE: u8 = 3;

/// The addresses of the router that drops large packets. No host on the link has them.
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 77, 255, 254);
const ROUTER6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0xfffe);

/// Length of an IPv4 header without options, of an IPv6 header, and of an ICMP header.
const V4: usize = 20;
const V6: usize = 40;
const ICMP: usize = 8;

/// Longest ICMP packets (RFC 1812, 4.3.2.3; RFC 4443, 2.4).
const LONGEST: usize = 576;
const LONGEST6: usize = 1_280;

/// Protocol numbers.
const ICMP_V4: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;

fn version(packet: &[u8]) -> u8 {
    packet.first().map_or(0, |first| first >> 4)
}

/// The ECN field; [`NOT_ECT`] if this is no IP packet.
pub(super) fn ecn(packet: &[u8]) -> u8 {
    match (version(packet), packet.get(1)) {
        (4, Some(tos)) => tos & 3,
        (6, Some(class)) => (class >> 4) & 3,
        _ => NOT_ECT,
    }
}

/// Sets the ECN field, and adapts the checksum.
pub(super) fn set_ecn(packet: &mut [u8], ecn: u8) {
    match version(packet) {
        4 if packet.len() >= V4 => {
            let before = word(packet, 0);
            packet[1] = (packet[1] & !3) | ecn;
            let after = word(packet, 0);
            adapt(packet, 10, before, after);
        }
        6 if packet.len() >= V6 => packet[1] = (packet[1] & !0x30) | (ecn << 4),
        _ => {}
    }
}

/// The ICMP message of a router to the sender of a packet larger than `limit` bytes: "fragmentation
/// needed" (RFC 1191), or "packet too big" (RFC 4443). Nothing if this is no IP packet.
pub(super) fn too_big(packet: &[u8], limit: u16) -> Option<Vec<u8>> {
    match version(packet) {
        4 => too_big_v4(packet, limit),
        6 => too_big_v6(packet, limit),
        _ => None,
    }
}

fn too_big_v4(packet: &[u8], limit: u16) -> Option<Vec<u8>> {
    let source = packet.get(12..16)?;
    let quoted = packet.get(..packet.len().min(LONGEST - V4 - ICMP))?;
    let length = u16::try_from(V4 + ICMP + quoted.len()).ok()?;
    let mut reply = vec![0x45, 0];
    reply.extend(length.to_be_bytes());
    // No identification, no fragments, a TTL of 64, no checksum yet.
    reply.extend([0, 0, 0, 0, 64, ICMP_V4, 0, 0]);
    reply.extend(ROUTER.octets());
    reply.extend(source);
    let header = checksum(0, &reply);
    reply[10..12].copy_from_slice(&header.to_be_bytes());
    reply.extend([3, 4, 0, 0, 0, 0]);
    reply.extend(limit.to_be_bytes());
    reply.extend(quoted);
    let body = checksum(0, &reply[V4..]);
    reply[V4 + 2..V4 + 4].copy_from_slice(&body.to_be_bytes());
    Some(reply)
}

fn too_big_v6(packet: &[u8], limit: u16) -> Option<Vec<u8>> {
    let source = packet.get(8..24)?;
    let quoted = packet.get(..packet.len().min(LONGEST6 - V6 - ICMP))?;
    let length = u16::try_from(ICMP + quoted.len()).ok()?;
    let mut reply = vec![0x60, 0, 0, 0];
    reply.extend(length.to_be_bytes());
    reply.extend([ICMP_V6, 64]);
    reply.extend(ROUTER6.octets());
    reply.extend(source);
    reply.extend([2, 0, 0, 0, 0, 0]);
    reply.extend(limit.to_be_bytes());
    reply.extend(quoted);
    // The pseudo-header (RFC 8200, 8.1): addresses, length, next header.
    let pseudo = sum(&reply[8..V6]) + u32::from(length) + u32::from(ICMP_V6);
    let body = checksum(pseudo, &reply[V6..]);
    reply[V6 + 2..V6 + 4].copy_from_slice(&body.to_be_bytes());
    Some(reply)
}

/// A packet of the host behind `alias` passes its translator outwards. Only IPv4 is translated.
pub(super) fn translate_source(packet: &mut [u8], alias: Alias) {
    if version(packet) == 4 && packet.len() >= V4 {
        replace_address(packet, 12, alias.address);
        shift_port(packet, 0, alias.port_shift);
    }
}

/// A packet for the host `own` behind `alias` passes its translator inwards. Returns false if it is
/// for another address, which no host has.
pub(super) fn translate_destination(packet: &mut [u8], alias: Alias, own: Ipv4Addr) -> bool {
    if version(packet) != 4 || packet.len() < V4 {
        return true;
    }
    if packet[16..20] != alias.address.octets() {
        return false;
    }
    replace_address(packet, 16, own);
    shift_port(packet, 2, alias.port_shift.wrapping_neg());
    true
}

/// Replaces the address at `at`; the checksums of the header and of UDP or TCP cover it.
fn replace_address(packet: &mut [u8], at: usize, address: Ipv4Addr) {
    let before = [word(packet, at), word(packet, at + 2)];
    packet[at..at + 4].copy_from_slice(&address.octets());
    let transport = transport_checksum(packet);
    for (place, before) in [at, at + 2].into_iter().zip(before) {
        let after = word(packet, place);
        adapt(packet, 10, before, after);
        if let Some(checksum) = transport {
            adapt(packet, checksum, before, after);
        }
    }
}

/// Adds to the port at `at` of the UDP or TCP header.
fn shift_port(packet: &mut [u8], at: usize, shift: u16) {
    let Some((start, checksum)) = transport_start(packet).zip(transport_checksum(packet)) else {
        return;
    };
    let before = word(packet, start + at);
    let after = before.wrapping_add(shift);
    packet[start + at..start + at + 2].copy_from_slice(&after.to_be_bytes());
    adapt(packet, checksum, before, after);
}

/// Returns the place at which the header of UDP or TCP begins. Later fragments have none.
fn transport_start(packet: &[u8]) -> Option<usize> {
    let is_first = word(packet, 6) & 0x1fff == 0;
    let start = usize::from(packet[0] & 0xf) * 4;
    (is_first && matches!(packet[9], TCP | UDP) && packet.len() >= start + 8).then_some(start)
}

/// Returns the place of the checksum of UDP or TCP, if there is one.
fn transport_checksum(packet: &[u8]) -> Option<usize> {
    let start = transport_start(packet)?;
    match packet[9] {
        TCP => (packet.len() >= start + V4).then_some(start + 16),
        // 0 says that there is none (RFC 768).
        _ => (word(packet, start + 6) != 0).then_some(start + 6),
    }
}

/// The 16 bits at `at`; 0 beyond the end.
fn word(packet: &[u8], at: usize) -> u16 {
    let bytes = packet.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

/// Adapts the checksum at `at` to a word that changed (RFC 1624, equation 3).
fn adapt(packet: &mut [u8], at: usize, before: u16, after: u16) {
    let sum = u32::from(!word(packet, at)) + u32::from(!before) + u32::from(after);
    packet[at..at + 2].copy_from_slice(&(!fold(sum)).to_be_bytes());
}

/// The checksum of `bytes` (RFC 1071), with the sum `before` them.
fn checksum(before: u32, bytes: &[u8]) -> u16 {
    !fold(before + sum(bytes))
}

fn sum(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks();
    let whole: u32 = words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)))
        .sum();
    whole + rest.first().map_or(0, |last| u32::from(*last) << 8)
}

fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

    /// A UDP packet from `A`, port 1000, to `B`, port 2000, of `length` bytes in all.
    pub(in super::super) fn udp(length: usize, ecn: u8) -> Vec<u8> {
        let total = u16::try_from(length).unwrap();
        let mut packet = vec![0x45, ecn];
        packet.extend(total.to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, UDP, 0, 0]);
        packet.extend(A.octets());
        packet.extend(B.octets());
        let header = checksum(0, &packet);
        packet[10..12].copy_from_slice(&header.to_be_bytes());
        for word in [1_000, 2_000, total - 20, 0] {
            packet.extend(word.to_be_bytes());
        }
        packet.resize(length, 0x5a);
        let body = transport_sum(&packet);
        packet[26..28].copy_from_slice(&(!body).to_be_bytes());
        packet
    }

    /// The sum of a UDP packet and its pseudo-header: 0xffff if the checksum is right.
    fn transport_sum(packet: &[u8]) -> u16 {
        let length = u32::try_from(packet.len() - V4).unwrap();
        fold(sum(&packet[12..20]) + u32::from(UDP) + length + sum(&packet[V4..]))
    }

    fn is_right(packet: &[u8]) -> bool {
        checksum(0, &packet[..V4]) == 0 && transport_sum(packet) == 0xffff
    }

    #[test]
    fn the_ecn_field_changes_and_the_checksum_with_it() {
        let mut packet = udp(100, ECT_0);
        assert!(is_right(&packet));
        set_ecn(&mut packet, CE);
        assert_eq!(ecn(&packet), CE);
        assert!(is_right(&packet));
        let mut v6 = [[0x6a, 0xbc], [0; 2]].concat();
        v6.resize(60, 0);
        assert_eq!(ecn(&v6), 3);
        set_ecn(&mut v6, NOT_ECT);
        assert_eq!((ecn(&v6), v6[1]), (NOT_ECT, 0x8c));
    }

    #[test]
    fn a_translator_changes_addresses_and_ports_there_and_back() {
        let address = Ipv4Addr::new(10, 77, 9, 200);
        let alias = Alias {
            address,
            port_shift: 64_000,
        };
        let original = udp(101, 0);
        let mut packet = original.clone();
        translate_source(&mut packet, alias);
        assert_eq!(packet[12..16], address.octets());
        assert_eq!(word(&packet, 20), 65_000);
        assert!(is_right(&packet));
        // The way back: the same packet with both ends exchanged.
        let mut back = original.clone();
        back[16..20].copy_from_slice(&address.octets());
        assert!(
            !translate_destination(&mut original.clone(), alias, A),
            "nobody's"
        );
        assert!(translate_destination(&mut back, alias, B));
        assert_eq!(back[16..20], B.octets());
        assert_eq!(word(&back, 22), 2_000_u16.wrapping_sub(64_000));
    }

    #[test]
    fn a_packet_without_checksum_stays_without_and_a_fragment_keeps_its_bytes() {
        let alias = Alias {
            address: Ipv4Addr::new(10, 77, 9, 200),
            port_shift: 5,
        };
        let mut bare = udp(100, 0);
        bare[26..28].copy_from_slice(&[0, 0]);
        translate_source(&mut bare, alias);
        assert_eq!(word(&bare, 26), 0);
        let mut fragment = udp(100, 0);
        fragment[7] = 9;
        let payload = fragment[V4..].to_vec();
        translate_source(&mut fragment, alias);
        assert_eq!(fragment[V4..], payload);
    }

    #[test]
    fn the_sender_of_a_large_packet_is_told_the_limit() {
        let packet = udp(1_500, 0);
        let told = too_big(&packet, 1_400).unwrap();
        assert_eq!(told.len(), LONGEST);
        assert_eq!(checksum(0, &told[..V4]), 0);
        assert_eq!(checksum(0, &told[V4..]), 0);
        assert_eq!(told[16..20], A.octets());
        assert_eq!((told[20], told[21], word(&told, 26)), (3, 4, 1_400));
        assert_eq!(told[28..], packet[..LONGEST - 28]);
        assert_eq!(too_big(&[0; 40], 1_400), None);
    }

    #[test]
    fn the_same_for_ipv6() {
        let mut packet = vec![0; 1_500];
        packet[0] = 0x60;
        packet[8..24].copy_from_slice(&ROUTER6.octets());
        let told = too_big(&packet, 1_400).unwrap();
        assert_eq!(told.len(), LONGEST6);
        let length = u32::try_from(told.len() - V6).unwrap();
        let pseudo = sum(&told[8..V6]) + length + u32::from(ICMP_V6);
        assert_eq!(checksum(pseudo, &told[V6..]), 0);
        assert_eq!((told[40], told[41], word(&told, 46)), (2, 0, 1_400));
    }
}
