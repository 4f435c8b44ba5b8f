//! Sequential heads: frames written by addition and read by comparison equal frames written one by
//! one.

use crate::types::{ChannelId, Kind};
use crate::wire::frame_batch::ENOUGH;
use crate::wire::{FragHead, FrameBatch, SequentialHeaders, Start, frames};
use proptest::prelude::*;

fn write(buf: &mut Vec<u8>, channel: u32, message: u64, tag: u64, data: &[u8]) -> usize {
    let head = FragHead {
        channel: ChannelId(channel),
        message,
        offset: 0,
        end: true,
        start: Some(Start {
            total: data.len() as u64,
            tag,
            kind: Kind::USER,
            user_header: &[],
        }),
    };
    head.put(buf, data.len(), false);
    buf.extend_from_slice(data);
    head.size(data.len(), false)
}

/// Numbers around those from which they need one byte more, up to the highest.
fn number() -> impl Strategy<Value = u64> {
    (0..65_u32, 0..100_u64).prop_map(|(bits, less)| {
        let power = 1_u128 << bits;
        u64::try_from(power).map_or(u64::MAX - less, |power| power.saturating_sub(less))
    })
}

fn channel() -> impl Strategy<Value = u32> {
    prop_oneof![0..3_u32, 120..140_u32, any::<u32>()]
}

fn tag() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 1 => 0..200_u64, 1 => any::<u64>()]
}

proptest! {
    #[test]
    fn sequential_headers_write_the_same_bytes_as_single_frames(
        (channel, first, tag) in (channel(), number(), tag()),
        data in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut one_by_one = Vec::new();
        let head = write(&mut one_by_one, channel, first, tag, &data);
        let mut headers = SequentialHeaders::after(&one_by_one, head);
        for number in (first..u64::MAX).skip(1).take(300) {
            let mut frame = Vec::new();
            let length = write(&mut frame, channel, number, tag, &data);
            let mut frames = [0; 300];
            if let Some(written) = headers.as_mut().and_then(|headers| headers.put(&mut frames, &data)) {
                prop_assert_eq!(&frames[..written], &frame);
            } else {
                // Only where heads become longer, or are too long.
                prop_assert!(headers.is_none() || length != head);
                break;
            }
        }
    }

    #[test]
    fn sequential_headers_write_nothing_without_room(
        (room, len) in (0..300_usize, 0..200_usize),
    ) {
        let mut buf = Vec::new();
        let head = write(&mut buf, 0, 5, 0, &[1; 3]);
        let mut headers = SequentialHeaders::after(&buf, head).unwrap();
        let enough = headers.room(len) <= room;
        let written = headers.put(&mut vec![0; room], &vec![9; len]);
        prop_assert_eq!(written, enough.then_some(head + len));
        // If nothing was written, nothing was counted.
        let mut next = [0; 300];
        let written = headers.put(&mut next, &[1; 3]).unwrap_or(0);
        let mut expected = Vec::new();
        write(&mut expected, 0, 6 + u64::from(enough), 0, &[1; 3]);
        prop_assert_eq!(&next[..written], &expected);
    }

    /// The batch ends before a frame that the headers do not predict, or continues with that
    /// frame's shape.
    #[test]
    fn batches_are_as_long_as_single_frames_allow(
        (channel, first, tag) in (channel(), number(), tag()),
        parts in prop::collection::vec((0..40_u64, 0..70_usize, 0..20_u8), 1..5),
        cut in 0..30_usize,
    ) {
        let mut bytes = Vec::new();
        let mut number = first;
        for (count, len, odd) in parts {
            for _ in 0..count {
                write(&mut bytes, channel, number, tag, &vec![7; len]);
                let Some(next) = number.checked_add(1) else { break };
                number = next;
            }
            match odd {
                0 => number = number.saturating_add(1),
                1 => drop(write(&mut bytes, channel ^ 1, number, tag, b"other")),
                2 => drop(write(&mut bytes, channel, number, tag ^ 1, b"tagged")),
                _ => {}
            }
        }
        bytes.truncate(bytes.len().saturating_sub(cut));
        let batch = FrameBatch::read(&bytes);
        let mut expected = Vec::new();
        let mut one_by_one = frames(&bytes);
        let (mut payload, mut size) = (0, 0);
        while let Some(Ok(frag)) = one_by_one.next_frag() {
            let follows = expected.last().is_none_or(|last: &u64| last.checked_add(1) == Some(frag.message));
            let same = expected.is_empty() || frag.channel.0 == batch.map_or(0, |batch| batch.channel().0);
            if !follows || !same || size >= ENOUGH {
                break;
            }
            expected.push(frag.message);
            payload += frag.data.len() as u64;
            size += frag.head().size(frag.data.len(), false) + frag.data.len();
        }
        prop_assert_eq!(batch.map_or(0, |batch| batch.count()), expected.len() as u64);
        if let Some(batch) = batch {
            prop_assert_eq!((batch.first(), batch.payload()), (expected[0], payload));
            prop_assert!(bytes.starts_with(batch.frames()));
        }
    }
}
