//! Frames and filters alone; tests/conformance.rs and tests/af_packet.rs open sockets.

use std::io::IoSlice;
use std::net::SocketAddrV4;

use super::offload::{self, HEADERS};
use crate::ethernet::frame::{Addresses, Datagrams};
use crate::{Ecn, Train};

fn at(text: &str) -> SocketAddrV4 {
    text.parse().unwrap()
}

fn frame(payload: &[u8], segment: usize) -> Vec<u8> {
    let addresses = Addresses {
        ethernet: ([1; 6], [2; 6]),
        from: at("10.1.2.3:4000"),
        to: at("10.1.2.4:5000"),
    };
    let slices = [IoSlice::new(payload)];
    let train = Train {
        segment,
        ..Train::single(addresses.to.into(), Ecn::Ect0, &slices)
    };
    let mut bytes = offload::headers(&addresses, &train).to_vec();
    bytes.extend(payload);
    bytes
}

#[test]
fn a_frame_is_read_as_it_was_written() {
    for (length, segment) in [
        (0, 0),
        (1, 1),
        (1_472, 1_472),
        (3_000, 1_000),
        (60_001, 1_400),
    ] {
        let payload: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
        let frame = frame(&payload, segment);
        let expected = Datagrams {
            from: at("10.1.2.3:4000"),
            ecn: Ecn::Ect0,
            segment: segment.max(1),
            bytes: HEADERS..HEADERS + length,
        };
        assert_eq!(offload::read(&frame), Some(expected));
    }
}

#[test]
fn what_ethernet_filled_up_is_left_out() {
    let mut frame = frame(b"short", 5);
    frame.extend([0; 13]);
    let read = offload::read(&frame).unwrap();
    assert_eq!(frame[read.bytes], *b"short");
}

/// Without the kernel's word on the checksum it is computed, and a flipped bit found.
#[test]
fn f30_a_wrong_checksum_is_found() {
    for length in [4, 5, 1_001] {
        let mut good = frame(&vec![0xa5; length], length);
        good[0] = 0;
        let field = HEADERS - 2;
        let datagram = &good[HEADERS - 8..];
        let mut sum: u32 = 0;
        for pair in datagram.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u32::from(*b));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        good[field..field + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        assert!(offload::read(&good).is_some());
        for at in HEADERS..HEADERS + length {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert_eq!(offload::read(&bad), None);
        }
    }
}

#[test]
fn f08_damaged_frames_are_refused() {
    let good = frame(&[7; 100], 100);
    for length in 0..good.len() {
        assert_eq!(offload::read(&good[..length]), None);
    }
    for at in 0..HEADERS {
        for value in 0..=255 {
            let mut bad = good.clone();
            bad[at] = value;
            if let Some(read) = offload::read(&bad) {
                assert!(read.bytes.len() <= 100 && read.segment > 0);
            }
        }
    }
}
