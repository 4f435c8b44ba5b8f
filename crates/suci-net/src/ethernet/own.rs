//! Frames of an EtherType of their own, without IP and UDP (PROTOCOL.md, section 22).

use std::net::{Ipv4Addr, SocketAddrV4};

use super::frame::{Addresses, Datagrams, ETHERNET};
use crate::Ecn;

/// Bytes of the header behind that of Ethernet.
pub(crate) const HEADER: usize = 16;

/// Bytes in front of the payload.
pub(crate) const HEADERS: usize = ETHERNET + HEADER;

/// The first byte of the header.
pub(crate) const VERSION: u8 = 1;

/// The number that tells what an Ethernet frame carries (IEEE 802.3, clause 3.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(u16);

impl EtherType {
    /// The number that IEEE 802 leaves to experiments within one network: Suci has none assigned.
    pub const LOCAL_EXPERIMENTAL: Self = Self(0x88b5);

    /// The number of another protocol of this network. `None` for a length (below 0x0600), and for
    /// the numbers of IPv4, ARP, VLAN tags and IPv6.
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        match number {
            ..0x600 | 0x0800 | 0x0806 | 0x8100 | 0x86dd | 0x88a8 => None,
            _ => Some(Self(number)),
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// The headers of a frame that carries a packet of `length` bytes.
pub(crate) fn headers(
    ether_type: EtherType,
    addresses: &Addresses,
    ecn: Ecn,
    length: usize,
) -> [u8; HEADERS] {
    let Addresses { ethernet, from, to } = addresses;
    let length = u16::try_from(length).unwrap_or(u16::MAX);
    let mut out = [0; HEADERS];
    out[..6].copy_from_slice(&ethernet.1);
    out[6..12].copy_from_slice(&ethernet.0);
    out[12..14].copy_from_slice(&ether_type.get().to_be_bytes());
    out[14] = VERSION;
    out[15] = ecn.bits();
    let numbers = [length, from.port(), to.port()].map(u16::to_be_bytes);
    out[16..22].copy_from_slice(numbers.as_flattened());
    out[22..26].copy_from_slice(&from.ip().octets());
    out[26..30].copy_from_slice(&to.ip().octets());
    out
}

/// Reads a frame of this type. `None` if it is cut or has another version.
pub(crate) fn read(frame: &[u8]) -> Option<Datagrams> {
    let (headers, rest) = frame.split_first_chunk::<HEADERS>()?;
    // Behind the packet Ethernet may have filled the frame up.
    let length = usize::from(u16::from_be_bytes([headers[16], headers[17]]));
    if headers[14] != VERSION || length > rest.len() {
        return None;
    }
    let port = u16::from_be_bytes([headers[18], headers[19]]);
    let from = Ipv4Addr::new(headers[22], headers[23], headers[24], headers[25]);
    Some(Datagrams {
        from: SocketAddrV4::new(from, port),
        ecn: Ecn::from_bits(headers[15]),
        segment: length.max(1),
        bytes: HEADERS..HEADERS + length,
    })
}

#[cfg(test)]
#[path = "../../../suci-proto/tests/it/page.rs"]
mod page;

#[cfg(test)]
mod tests {
    use super::*;

    fn field<'a>(meaning: &'a str, name: &str) -> &'a str {
        let mut fields = meaning.split(' ');
        fields.find_map(|it| it.strip_prefix(name)).unwrap()
    }

    #[test]
    fn the_vectors_of_the_page_are_read_and_written() {
        let all = page::vectors(&page::page());
        let mut count = 0;
        for vector in all.iter().filter(|vector| vector.kind == "ethernet") {
            count += 1;
            let (bytes, meaning) = (&vector.bytes, &vector.meaning);
            let Some(Datagrams {
                from,
                ecn,
                bytes: place,
                ..
            }) = read(bytes)
            else {
                assert_eq!(meaning, "refused");
                continue;
            };
            assert_eq!(from, field(meaning, "from=").parse().unwrap());
            assert_eq!(page::hex(&bytes[place.clone()]), field(meaning, "data="));
            assert_eq!(format!("{}", ecn.bits()), field(meaning, "mark="));
            let ethernet = |at: usize| *bytes[at..].first_chunk().unwrap();
            let addresses = Addresses {
                ethernet: (ethernet(6), ethernet(0)),
                from,
                to: field(meaning, "to=").parse().unwrap(),
            };
            let ether_type = EtherType::LOCAL_EXPERIMENTAL;
            let written = headers(ether_type, &addresses, ecn, place.len());
            assert_eq!(written, bytes[..HEADERS]);
        }
        assert_eq!(count, 4);
    }

    #[test]
    fn f08_damaged_frames_are_refused() {
        let addresses = Addresses {
            ethernet: ([1; 6], [2; 6]),
            from: "10.1.2.3:4000".parse().unwrap(),
            to: "10.1.2.4:5000".parse().unwrap(),
        };
        let ether_type = EtherType::LOCAL_EXPERIMENTAL;
        let mut good = headers(ether_type, &addresses, Ecn::Ect0, 100).to_vec();
        good.extend([7; 100]);
        for length in 0..good.len() {
            assert_eq!(read(&good[..length]), None);
        }
        for at in 0..HEADERS {
            for value in 0..=255 {
                let mut bad = good.clone();
                bad[at] = value;
                if let Some(read) = read(&bad) {
                    assert!(read.bytes.len() <= 100 && read.segment > 0);
                }
            }
        }
    }

    #[test]
    fn numbers_of_other_protocols_are_refused() {
        for number in [0, 46, 0x5ff, 0x800, 0x806, 0x8100, 0x86dd, 0x88a8] {
            assert_eq!(EtherType::new(number), None, "{number:#x}");
        }
        assert_eq!(EtherType::new(0x88b6).map(EtherType::get), Some(0x88b6));
    }
}
