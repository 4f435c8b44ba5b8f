//! Any datagram is refused or has a meaning, and the meaning survives encoding.
//!
//! The input is taken as it is, then once more with version, flags, path and checksum put
//! right, since no mutation would find a CRC.
#![no_main]

use libfuzzer_sys::fuzz_target;
use suci_proto::limits::{MAX_ACK_RANGES, MAX_MESSAGE, VERSION};
use suci_proto::types::Kind;
use suci_proto::wire::{
    self, Accept, Cookie, Frag, Frame, Hello, Init, Malformed, PacketType, Refused, Start, frames,
    open, peek_index, put_header, seal,
};

#[path = "../../crates/suci-link/src/wire/tests/both_ways.rs"]
mod both_ways;

fuzz_target!(|datagram: &[u8]| {
    let _ = peek_index(datagram);
    packet(datagram);
    let mut fixed = datagram.to_vec();
    if let [first, flags, path_low, path_high, ..] = &mut fixed[..] {
        *first = VERSION << 4 | *first % 7;
        *flags &= if *first & 0xf == 0 { 0b100 } else { 0 };
        (*path_low, *path_high) = (0, 0);
    }
    seal(&mut fixed);
    assert_eq!(packet(&fixed), datagram.len() >= wire::PLAIN_OVERHEAD);
    payload(datagram);
});

/// Decodes a packet and encodes it again. Tells whether it was one.
fn packet(datagram: &[u8]) -> bool {
    let Ok((header, body)) = open(datagram) else {
        return false;
    };
    let mut again = Vec::new();
    put_header(&mut again, &header);
    again.extend_from_slice(body);
    seal(&mut again);
    assert_eq!(again, datagram);
    match header.kind {
        PacketType::Data => payload(body),
        PacketType::Hello => twice(body, Hello::read, Hello::put),
        PacketType::Cookie => twice(body, Cookie::read, Cookie::put),
        PacketType::Accept => twice(body, Accept::read, Accept::put),
        PacketType::Refused => twice(body, Refused::read, Refused::put),
        PacketType::Unknown => {}
        PacketType::Init => {
            let Ok(init) = Init::read(body) else {
                return true;
            };
            let mut again = Vec::new();
            init.put(&mut again);
            assert_eq!(Init::read(&again), Ok(init.clone()));
            payload(init.ride);
        }
    }
    true
}

fn twice<T: PartialEq + std::fmt::Debug>(
    body: &[u8],
    read: impl Fn(&[u8]) -> Result<T, Malformed>,
    put: impl Fn(&T, &mut Vec<u8>),
) {
    let Ok(value) = read(body) else { return };
    let mut again = Vec::new();
    put(&value, &mut again);
    assert_eq!(read(&again), Ok(value));
}

/// Decodes frames, checks what their types promise, and encodes them again. Runs of frames must
/// give the same.
fn payload(bytes: &[u8]) {
    both_ways::read_both_ways(bytes);
    let mut again = Vec::new();
    for frame in frames(bytes).map_while(Result::ok) {
        again.clear();
        frame.put(&mut again);
        assert_eq!(again.len(), frame.size());
        assert!(frames(&again).eq([Ok(frame)]));
        match frame {
            Frame::Frag(f) => {
                let end = f.offset + f.data.len() as u64;
                assert!(end <= f.total().unwrap_or(MAX_MESSAGE).min(MAX_MESSAGE));
                assert_eq!(f.start.is_some(), f.offset == 0);
                assert_eq!(f.end, f.total() == Some(end));
            }
            Frame::Ack(ack) => {
                let ranges: Vec<_> = ack.ranges().collect();
                assert!((1..=MAX_ACK_RANGES).contains(&ranges.len()));
                assert_eq!(ranges.first().map(|range| *range.end()), Some(ack.largest));
                assert!(ranges.iter().all(|range| !range.is_empty()));
                let pairs = ranges.iter().zip(ranges.iter().skip(1));
                assert!(
                    pairs
                        .clone()
                        .all(|(upper, lower)| upper.start() - lower.end() >= 2)
                );
            }
            _ => {}
        }
    }
}
