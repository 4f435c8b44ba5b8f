use super::*;
use crate::limits::MAX_ACK_RANGES;
use crate::time::Duration;
use core::ops::RangeInclusive;

fn ecn() -> impl Strategy<Value = EcnCounts> {
    (number(), number(), number()).prop_map(|(ect0, ect1, ce)| EcnCounts { ect0, ect1, ce })
}

/// At least one range, highest first, with gaps.
fn ranges() -> impl Strategy<Value = Vec<RangeInclusive<u64>>> {
    let pairs = prop::collection::vec((number(), number()), 0..50);
    (number(), number(), pairs).prop_map(|(high, length, pairs)| {
        let mut low = high.saturating_sub(length);
        let mut ranges = vec![low..=high];
        for (gap, length) in pairs {
            let Some(high) = low.checked_sub(2).and_then(|h| h.checked_sub(gap)) else {
                continue;
            };
            low = high.saturating_sub(length);
            ranges.push(low..=high);
        }
        ranges
    })
}

fn parse(bytes: &[u8]) -> Ack<'_> {
    let mut all = frames(bytes);
    let Some(Ok(Frame::Ack(ack))) = all.next() else {
        panic!("no ACK in {bytes:?}")
    };
    assert!(all.next().is_none());
    ack
}

/// An ACK frame's bytes: `ranges` are the fields behind the delay.
fn raw(largest: u64, fields: &[u64]) -> Vec<u8> {
    let mut buf = vec![0x10];
    for field in [largest, 0].iter().chain(fields) {
        varint::put(&mut buf, *field);
    }
    buf
}

fn refused(bytes: &[u8]) -> bool {
    matches!(
        frames(bytes).next(),
        Some(Err(crate::types::ProtocolError::Malformed(_)))
    )
}

#[test]
fn f06_a_range_over_everything_is_one_step() {
    let bytes = raw(u64::MAX, &[0, u64::MAX]);
    assert!(parse(&bytes).ranges().eq([0..=u64::MAX]));
}

#[test]
fn f05_ranges_below_zero_are_refused() {
    assert!(!refused(&raw(5, &[0, 5])));
    assert!(refused(&raw(5, &[0, 6])));
    // 5..=5, gap of 3 (4, 3, 2), then 1..=1 or 0..=1.
    assert!(parse(&raw(5, &[1, 0, 2, 0])).ranges().eq([5..=5, 1..=1]));
    assert!(parse(&raw(5, &[1, 0, 2, 1])).ranges().eq([5..=5, 0..=1]));
    assert!(refused(&raw(5, &[1, 0, 2, 2])));
    assert!(refused(&raw(5, &[1, 0, 4, 0])));
    assert!(refused(&raw(1, &[1, 0, 0, 0])));
    // 20..=20, 8..=18, then 6 down: counted from the lower end of the range above.
    assert!(!refused(&raw(20, &[2, 0, 0, 10, 0, 6])));
    assert!(refused(&raw(20, &[2, 0, 0, 10, 0, 7])));
    assert!(refused(&raw(u64::MAX, &[1, 0, u64::MAX, u64::MAX])));
}

#[test]
fn f06_more_than_32_ranges_are_refused() {
    let ranges = |further: u64| {
        let mut fields = vec![further, 0];
        fields.extend((0..further).flat_map(|_| [0, 0]));
        raw(1_000, &fields)
    };
    assert_eq!(parse(&ranges(31)).ranges().count(), MAX_ACK_RANGES);
    assert!(refused(&ranges(32)));
    assert!(refused(&raw(1_000, &[u64::MAX, 0])));
}

#[test]
fn truncated_acks_are_refused() {
    let mut buf = Vec::new();
    let grant = Credit {
        generation: 1,
        limit: 2,
        control: 3,
        memory: 4,
    };
    let ecn = Some(EcnCounts {
        ect0: 1,
        ect1: 2,
        ce: 3,
    });
    let ranges = [20..=30, 5..=6];
    assert_eq!(
        put_ack(
            &mut buf,
            ranges.into_iter(),
            Duration::ZERO,
            ecn,
            Some(grant),
            100
        ),
        2
    );
    parse(&buf);
    for cut in 1..buf.len() {
        assert!(refused(&buf[..cut]), "{cut} bytes");
    }
}

#[test]
fn a_list_out_of_order_ends_where_it_breaks() {
    let zero = Duration::ZERO;
    // Touching, overlapping, ascending ranges: the format cannot express them.
    for second in [9..=9, 10..=12, 15..=16] {
        let mut buf = Vec::new();
        let list = [10..=12, second];
        assert_eq!(
            put_ack(&mut buf, list.into_iter(), zero, None, None, 100),
            1
        );
        assert!(parse(&buf).ranges().eq([10..=12]));
    }
    let mut buf = Vec::new();
    assert_eq!(
        put_ack(&mut buf, core::iter::empty(), zero, None, None, 100),
        0
    );
    #[expect(
        clippy::reversed_empty_ranges,
        reason = "the caller's mistake to be survived"
    )]
    let backwards = [3..=2];
    assert_eq!(
        put_ack(&mut buf, backwards.into_iter(), zero, None, None, 100),
        0
    );
    assert!(buf.is_empty());
}

proptest! {
    #[test]
    fn ack_round_trip(
        ranges in ranges(),
        delay in number(),
        ecn in prop::option::of(ecn()),
        credit in prop::option::of(credit()),
    ) {
        let delay = Duration::from_nanos(delay);
        let mut buf = Vec::new();
        let written =
            put_ack(&mut buf, ranges.iter().cloned(), delay, ecn, credit, usize::MAX);
        prop_assert_eq!(written, ranges.len().min(MAX_ACK_RANGES));
        let ack = parse(&buf);
        prop_assert!(ack.ranges().eq(ranges.iter().take(written).cloned()));
        prop_assert_eq!(ack.largest, *ranges[0].end());
        prop_assert_eq!((ack.delay, ack.ecn, ack.credit), (delay, ecn, credit));
        prop_assert_eq!(Frame::Ack(ack).size(), buf.len());
        let mut again = Vec::new();
        Frame::Ack(ack).put(&mut again);
        prop_assert_eq!(again, buf);
    }

    #[test]
    fn an_ack_is_cut_to_its_room(
        ranges in ranges(),
        credit in prop::option::of(credit()),
        room in 0usize..200,
    ) {
        let put = |room| {
            let mut buf = Vec::new();
            let list = ranges.iter().cloned();
            (put_ack(&mut buf, list, Duration::ZERO, None, credit, room), buf)
        };
        let (written, buf) = put(room);
        prop_assert!(buf.len() <= room);
        prop_assert_eq!(written == 0, buf.is_empty());
        if written > 0 {
            let ack = parse(&buf);
            prop_assert!(ack.ranges().eq(ranges.iter().take(written).cloned()));
            prop_assert_eq!(ack.credit, credit);
        }
        // It cuts no more than needed: one range more would take more room.
        let wanted = ranges.len().min(MAX_ACK_RANGES);
        if written < wanted {
            let more = (room..).map(put).find(|(count, _)| *count > written).unwrap();
            prop_assert!(more.1.len() > room);
        }
    }
}
