//! Batches of small messages as found by the reader of single frames. The property tests and the
//! fuzz target `decode` compare the reader of batches with it.

use super::{Frag, Kind, Start, frames};

/// Bytes of the longest message of a batch, and the bytes with which a batch ends.
const LONGEST: usize = 1_024;
const ENOUGH: usize = 2_048;

/// Offsets in the bytes at which both readers begin to read, beside the first.
const STARTS: usize = 100;

/// Reads `bytes` with batches and without. Returns how many messages were in batches.
pub(super) fn read_both_ways(bytes: &[u8]) -> u64 {
    for at in 0..bytes.len().min(STARTS) {
        compare_batch(&bytes[at..]);
    }
    let (mut with_batches, mut without) = (frames(bytes), frames(bytes));
    let mut in_batches = 0;
    loop {
        let Some(batch) = with_batches.next_batch() else {
            match (with_batches.next(), without.next()) {
                (None, None) => return in_batches,
                (one, other) => assert_eq!(one, other),
            }
            continue;
        };
        compare_batch(&bytes[offset_of(batch.frames(), bytes)..]);
        let mut left = batch.frames();
        let (mut count, mut payload) = (0, 0);
        while !left.is_empty() {
            let Some(Ok(frag)) = without.next_frag() else {
                panic!("a batch holds whole messages");
            };
            let data = frag.data;
            let start = Start {
                total: data.len() as u64,
                tag: frag.start.map_or(0, |start| start.tag),
                kind: Kind::USER,
                user_header: b"",
            };
            let behind = &left[offset_of(data, left) + data.len()..];
            let said = Frag {
                channel: batch.channel(),
                message: batch.first() + count,
                offset: 0,
                end: true,
                start: Some(start),
                data,
            };
            assert_eq!(frag, said);
            left = behind;
            count += 1;
            payload += data.len() as u64;
        }
        assert_eq!((batch.count(), batch.payload()), (count, payload));
        in_batches += count;
    }
}

/// Checks that the batch at the front of `bytes` holds all messages that it may, and no others.
fn compare_batch(bytes: &[u8]) {
    let batch = frames(bytes).next_batch();
    let taken = batch.map_or((0, 0), |batch| (batch.count(), batch.frames().len()));
    assert_eq!(taken, expected(bytes));
}

/// Returns how many messages at the front of `bytes` make a batch, and the bytes of their frames.
fn expected(bytes: &[u8]) -> (u64, usize) {
    let mut one_by_one = frames(bytes);
    let (mut count, mut end, mut first) = (0, 0, None);
    // FRAG with FIRST, END and LEN, and TAG or not.
    while end < ENOUGH
        && let Some(0x87 | 0x8f) = bytes.get(end)
        && let Some(Ok(frag)) = one_by_one.next_frag()
    {
        let (channel, number) = *first.get_or_insert((frag.channel, frag.message));
        let follows = frag.channel == channel && Some(frag.message) == number.checked_add(count);
        if !follows || frag.data.len() > LONGEST {
            break;
        }
        count += 1;
        end = offset_of(frag.data, bytes) + frag.data.len();
    }
    (count, end)
}

/// Returns where `part` begins in `whole`.
fn offset_of(part: &[u8], whole: &[u8]) -> usize {
    part.as_ptr().addr() - whole.as_ptr().addr()
}
