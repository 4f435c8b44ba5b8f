//! Runs of small messages as found by the reader of single frames. The property tests and the fuzz
//! target `decode` compare the reader of runs with it.

use super::{Frag, Kind, Start, frames};

/// Bytes of the longest message of a run, and the bytes with which a run ends.
const LONGEST: usize = 1_024;
const ENOUGH: usize = 2_048;

/// Places in the bytes at which both readers begin to read, beside the first.
const PLACES: usize = 100;

/// Reads `bytes` with runs and without. Returns how many messages were in runs.
pub(super) fn read_both_ways(bytes: &[u8]) -> u64 {
    for place in 0..bytes.len().min(PLACES) {
        compare_run(&bytes[place..]);
    }
    let (mut with_runs, mut without) = (frames(bytes), frames(bytes));
    let mut in_runs = 0;
    loop {
        let Some(run) = with_runs.next_batch() else {
            match (with_runs.next(), without.next()) {
                (None, None) => return in_runs,
                (one, other) => assert_eq!(one, other),
            }
            continue;
        };
        compare_run(&bytes[place_of(run.frames(), bytes)..]);
        let mut left = run.frames();
        let (mut count, mut payload) = (0, 0);
        while !left.is_empty() {
            let Some(Ok(frag)) = without.next_frag() else {
                panic!("a run holds whole messages");
            };
            let data = frag.data;
            let start = Start {
                total: data.len() as u64,
                tag: frag.start.map_or(0, |start| start.tag),
                kind: Kind::USER,
                user_header: b"",
            };
            let behind = &left[place_of(data, left) + data.len()..];
            let said = Frag {
                channel: run.channel(),
                message: run.first() + count,
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
        assert_eq!((run.count(), run.payload()), (count, payload));
        in_runs += count;
    }
}

/// Checks that the run at the front of `bytes` holds all messages that it may, and no others.
fn compare_run(bytes: &[u8]) {
    let run = frames(bytes).next_batch();
    let taken = run.map_or((0, 0), |run| (run.count(), run.frames().len()));
    assert_eq!(taken, expected(bytes));
}

/// How many messages at the front of `bytes` make a run, and the bytes of their frames.
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
        end = place_of(frag.data, bytes) + frag.data.len();
    }
    (count, end)
}

/// Where `part` begins in `whole`.
fn place_of(part: &[u8], whole: &[u8]) -> usize {
    part.as_ptr().addr() - whole.as_ptr().addr()
}
