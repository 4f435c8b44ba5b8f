use super::*;

const HEADER_DATA: Header = Header {
    kind: PacketType::Data,
    scope: CrcScope::Datagram,
    index: 0x0102_0304,
    number: 5,
    tag: 6,
};

fn packet(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut buf = Vec::new();
    put_header(&mut buf, header);
    assert_eq!(buf.len(), PLAIN_OVERHEAD);
    buf.extend_from_slice(payload);
    seal(&mut buf);
    buf
}

/// Changes a byte and computes the checksum anew, as a sender of another version could.
fn resealed(mut packet: Vec<u8>, byte: usize, value: u8) -> Vec<u8> {
    packet[byte] = value;
    seal(&mut packet);
    packet
}

#[test]
fn crc_is_castagnoli() {
    let mut crc = Crc::new();
    crc.update(b"1234");
    crc.update(b"56789");
    assert_eq!(crc.finish(), 0xe306_9283);
    let mut zeros = Crc::default();
    zeros.update(&[0; 32]);
    assert_eq!(zeros.finish(), 0x8a91_36aa, "RFC 3720 B.4");
}

#[test]
fn each_header_error_is_named() {
    let good = packet(&HEADER_DATA, b"payload");
    assert_eq!(open(&good), Ok((HEADER_DATA, &b"payload"[..])));
    assert_eq!(open(&good[..27]), Err(HeaderError::Short));
    assert_eq!(open(&[]), Err(HeaderError::Short));
    assert_eq!(
        open(&resealed(good.clone(), 0, 0x20)),
        Err(HeaderError::Version(2))
    );
    assert_eq!(
        open(&resealed(good.clone(), 0, 0x17)),
        Err(HeaderError::Type(7))
    );
    assert_eq!(
        open(&resealed(good.clone(), 1, 0x08)),
        Err(HeaderError::Flags(0x08))
    );
    assert_eq!(
        open(&resealed(good.clone(), 2, 0x01)),
        Err(HeaderError::Path(1))
    );
    assert_eq!(
        open(&resealed(good.clone(), 3, 0x01)),
        Err(HeaderError::Path(256))
    );
    let mut wrong = good;
    wrong[24] ^= 1;
    assert_eq!(open(&wrong), Err(HeaderError::Checksum));
}

#[test]
fn f30_flags_without_a_meaning_are_refused() {
    for kind in 0..=6 {
        let header = Header {
            kind: PacketType::from_wire(kind).unwrap(),
            ..HEADER_DATA
        };
        let good = packet(&header, &[]);
        assert!(open(&good).is_ok());
        for flags in (0..8).map(|bit| 1 << bit) {
            let has_meaning = header.kind == PacketType::Data && flags == 0b100;
            let flagged = resealed(good.clone(), 1, flags);
            assert_eq!(
                open(&flagged).err(),
                (!has_meaning).then_some(HeaderError::Flags(flags))
            );
        }
    }
}

#[test]
fn f30_every_flipped_bit_is_rejected() {
    let good = packet(&HEADER_DATA, &POOL[..1_444]);
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let error = open(&bad).unwrap_err();
        // Behind version, flags and path only the checksum detects a change.
        assert!(
            bit < 32 || error == HeaderError::Checksum,
            "bit {bit}: {error}"
        );
    }
}

#[test]
fn f30_header_scope_protects_the_header_only() {
    let header = Header {
        scope: CrcScope::Header,
        ..HEADER_DATA
    };
    let good = packet(&header, &[9; 64]);
    for byte in 4..good.len() {
        let mut bad = good.clone();
        bad[byte] ^= 0x40;
        assert_eq!(open(&bad).is_ok(), byte >= PLAIN_OVERHEAD, "byte {byte}");
    }
}

#[test]
fn peeking_needs_no_version() {
    let other = resealed(packet(&HEADER_DATA, &[]), 0, 0xf5);
    assert_eq!(peek_index(&other), Some(0x0102_0304));
    assert_eq!(peek_index(&other[..7]), None);
    assert_eq!(peek_index(&[]), None);
}

#[test]
fn sealing_what_is_no_packet_changes_nothing() {
    let mut short = [1; 27];
    seal(&mut short);
    assert_eq!(short, [1; 27]);
}

proptest! {
    #[test]
    fn header_round_trip(
        (kind, index, number, tag) in (0u8..7, any::<u32>(), any::<u64>(), any::<u64>()),
        header_only: bool,
        payload in slice(2_000),
        cut in 0usize..2_000,
    ) {
        let kind = PacketType::from_wire(kind).unwrap();
        let data = kind == PacketType::Data;
        let scope = if header_only && data { CrcScope::Header } else { CrcScope::Datagram };
        let header = Header { kind, scope, index, number, tag };
        let flat = packet(&header, payload);
        prop_assert_eq!(open(&flat), Ok((header, payload)));

        let cut = cut.min(payload.len());
        let mut head = Vec::new();
        put_header(&mut head, &header);
        head.extend_from_slice(&payload[..cut]);
        seal_gathered(&mut head, payload[cut..].chunks(500));
        prop_assert_eq!(&head[..], &flat[..head.len()]);
    }

    #[test]
    fn f08_any_datagram_opens_or_is_refused(bytes: Vec<u8>) {
        let _ = open(&bytes);
        let _ = peek_index(&bytes);
    }
}
