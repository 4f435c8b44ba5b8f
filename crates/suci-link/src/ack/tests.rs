//! Duplicates, ranges, urgency; near both ends of the numbers.

use super::{AckNeed, Received};
use crate::limits::{DEDUP_WINDOW, MAX_ACK_RANGES, MAX_TRACKED_RANGES};
use crate::time::{Duration, Instant};
use crate::types::{Ecn, PacketNumber};
use crate::wire::{self, Credit, EcnCounts, Frame};
use core::ops::RangeInclusive;
use proptest::prelude::*;
use std::collections::BTreeSet;

const NOW: Instant = Instant::from_nanos(5_000_000_000);
const DELAY: Duration = Duration::from_millis(2);

/// A receiver that acknowledges only for a reason.
fn patient(first: PacketNumber) -> Received {
    let mut received = Received::new(first);
    received.set_ack_every(u32::MAX);
    received.set_max_ack_delay(DELAY);
    received
}

#[test]
fn the_programs_bound_shortens_what_was_negotiated_and_nothing_else() {
    let mut received = patient(0);
    take(&mut received, 0);
    assert_eq!(received.deadline(), Some(NOW + DELAY));
    received.set_ack_bound(Some(DELAY / 4));
    assert_eq!(received.deadline(), Some(NOW + DELAY / 4));
    received.set_ack_bound(Some(DELAY * 4));
    assert_eq!(received.deadline(), Some(NOW + DELAY));
    received.set_ack_bound(None);
    assert_eq!(received.deadline(), Some(NOW + DELAY));
}

fn take(received: &mut Received, number: PacketNumber) {
    received.on_packets(number..=number, NOW, true, Ecn::NotEct, NOW);
}

/// The content of an ACK frame written now.
struct Told {
    ranges: Vec<RangeInclusive<PacketNumber>>,
    delay: Duration,
    ecn: Option<EcnCounts>,
    credit: Option<Credit>,
}

fn tell(
    received: &mut Received,
    now: Instant,
    room: usize,
    credit: Option<Credit>,
) -> Option<Told> {
    let mut buf = vec![0xee];
    let largest = received.write_ack(&mut buf, now, room, credit);
    assert!(buf.len() <= 1 + room, "wrote {} into {room}", buf.len() - 1);
    let Some(largest) = largest else {
        assert_eq!(buf, [0xee], "nothing is appended without a frame");
        return None;
    };
    let mut frames = wire::frames(&buf[1..]);
    let Some(Ok(Frame::Ack(ack))) = frames.next() else {
        panic!("no ACK frame")
    };
    assert!(frames.next().is_none());
    assert_eq!(ack.largest, largest);
    let ranges = ack.ranges().collect();
    Some(Told {
        ranges,
        delay: ack.delay,
        ecn: ack.ecn,
        credit: ack.credit,
    })
}

fn ranges(received: &mut Received) -> Vec<RangeInclusive<PacketNumber>> {
    tell(received, NOW, 1_000, None)
        .map(|told| told.ranges)
        .unwrap_or_default()
}

#[test]
fn in_order_packets_need_no_bitmap_and_one_range() {
    let mut received = patient(7);
    for number in 7..20_000 {
        assert!(received.is_fresh(number));
        take(&mut received, number);
        assert_eq!(received.ack_state(NOW), AckNeed::Ride);
    }
    assert!(!received.dedup.allocated());
    assert_eq!(received.range_count(), 1);
    assert_eq!(ranges(&mut received), [7..=19_999]);
    assert!(
        !received.is_fresh(6),
        "below the first number there are none"
    );
    assert!(!received.is_fresh(7));
    assert!(!received.is_fresh(19_999));
    assert!(received.is_fresh(20_000));
}

#[test]
fn nothing_received_nothing_told() {
    let mut received = patient(0);
    assert_eq!(received.highest(), None);
    assert_eq!(received.deadline(), None);
    assert_eq!(received.ack_state(Instant::MAX), AckNeed::None);
    received.force();
    assert_eq!(received.ack_state(Instant::MAX), AckNeed::None);
    assert!(tell(&mut received, NOW, 1_000, None).is_none());
    received.on_ack_acked(5);
    assert_eq!(received.range_count(), 0);
}

#[test]
fn packets_that_elicit_nothing_are_told_only_when_something_else_is() {
    let mut received = patient(0);
    received.on_packets(0..=0, NOW, false, Ecn::NotEct, NOW);
    received.on_packets(2..=2, NOW, false, Ecn::NotEct, NOW);
    assert_eq!(received.ack_state(Instant::MAX), AckNeed::None);
    take(&mut received, 3);
    assert_eq!(received.ack_state(NOW), AckNeed::Ride);
    assert_eq!(ranges(&mut received), [2..=3, 0..=0]);
    assert_eq!(received.ack_state(Instant::MAX), AckNeed::None);
}

#[test]
fn the_deadline_runs_from_the_first_arrival_waiting() {
    let mut received = patient(0);
    received.on_packets(
        0..=0,
        NOW - Duration::from_millis(1),
        true,
        Ecn::NotEct,
        NOW,
    );
    take(&mut received, 1);
    let deadline = NOW + Duration::from_millis(1);
    assert_eq!(received.deadline(), Some(deadline));
    assert_eq!(
        received.ack_state(deadline - Duration::from_nanos(1)),
        AckNeed::Ride
    );
    assert_eq!(received.ack_state(deadline), AckNeed::Now);
    assert!(tell(&mut received, deadline, 1_000, None).is_some());
    assert_eq!(
        (received.deadline(), received.ack_state(deadline)),
        (None, AckNeed::None)
    );
}

#[test]
fn the_delay_is_that_of_the_highest_number() {
    let mut received = patient(0);
    let at = |ms| NOW + Duration::from_millis(ms);
    received.on_packets(0..=0, at(0), true, Ecn::NotEct, at(0));
    received.on_packets(2..=2, at(3), true, Ecn::NotEct, at(4));
    received.on_packets(1..=1, at(5), true, Ecn::NotEct, at(5));
    assert_eq!(
        tell(&mut received, at(10), 99, None).unwrap().delay,
        Duration::from_millis(7)
    );
    // A time stamp ahead of the clock would become a negative delay.
    received.on_packets(3..=3, at(50), true, Ecn::NotEct, at(11));
    assert_eq!(received.deadline(), Some(at(11) + DELAY));
    assert_eq!(
        tell(&mut received, at(12), 99, None).unwrap().delay,
        Duration::from_millis(1)
    );
}

#[test]
fn a_gap_opened_or_filled_is_told_at_once() {
    let mut received = patient(0);
    take(&mut received, 0);
    assert_eq!(received.ack_state(NOW), AckNeed::Ride);
    take(&mut received, 4);
    assert_eq!(received.ack_state(NOW), AckNeed::Now, "opened");
    assert_eq!(ranges(&mut received), [4..=4, 0..=0]);
    take(&mut received, 5);
    assert_eq!(
        received.ack_state(NOW),
        AckNeed::Ride,
        "the gap is known already"
    );
    take(&mut received, 2);
    assert_eq!(received.ack_state(NOW), AckNeed::Now, "filled in part");
    assert_eq!(ranges(&mut received), [4..=5, 2..=2, 0..=0]);
    take(&mut received, 1);
    assert_eq!(ranges(&mut received), [4..=5, 0..=2]);
    take(&mut received, 3);
    assert_eq!(received.ack_state(NOW), AckNeed::Now, "filled");
    assert_eq!(ranges(&mut received), [0..=5]);
}

#[test]
fn a_gap_before_the_very_first_packet_is_a_gap() {
    let mut received = patient(3);
    take(&mut received, 5);
    assert_eq!(received.ack_state(NOW), AckNeed::Now);
    assert!(received.is_fresh(3) && received.is_fresh(4) && !received.is_fresh(2));
    take(&mut received, 4);
    assert_eq!(ranges(&mut received), [4..=5]);
}

#[test]
fn every_nth_packet_is_told_at_once() {
    let mut received = patient(0);
    received.set_ack_every(3);
    let mut number = 0;
    for _ in 0..5 {
        for expected in [AckNeed::Ride, AckNeed::Ride, AckNeed::Now] {
            take(&mut received, number);
            assert_eq!(received.ack_state(NOW), expected);
            number += 1;
        }
        assert_eq!(ranges(&mut received), [0..=number - 1]);
    }
}

#[test]
fn congestion_marks_are_told_when_they_begin_and_end_and_counted_always() {
    let mut received = patient(0);
    let mut number = 0;
    let mut arrive = |received: &mut Received, ecn| {
        received.on_packets(number..=number, NOW, true, ecn, NOW);
        number += 1;
        let need = received.ack_state(NOW);
        (need, tell(received, NOW, 1_000, None).unwrap().ecn)
    };
    let counts = |ect0, ect1, ce| Some(EcnCounts { ect0, ect1, ce });
    assert_eq!(arrive(&mut received, Ecn::NotEct), (AckNeed::Ride, None));
    assert_eq!(
        arrive(&mut received, Ecn::Ect0),
        (AckNeed::Ride, counts(1, 0, 0))
    );
    assert_eq!(
        arrive(&mut received, Ecn::Ce),
        (AckNeed::Now, counts(1, 0, 1))
    );
    assert_eq!(
        arrive(&mut received, Ecn::Ce),
        (AckNeed::Ride, counts(1, 0, 2))
    );
    assert_eq!(
        arrive(&mut received, Ecn::Ect1),
        (AckNeed::Now, counts(1, 1, 2))
    );
    assert_eq!(
        arrive(&mut received, Ecn::NotEct),
        (AckNeed::Ride, counts(1, 1, 2))
    );
}

#[test]
fn force_acknowledges_pending_packets_and_nothing_else() {
    let mut received = patient(0);
    take(&mut received, 0);
    received.force();
    assert_eq!(received.ack_state(NOW), AckNeed::Now);
    assert_eq!(ranges(&mut received), [0..=0]);
    received.force();
    take(&mut received, 1);
    assert_eq!(received.ack_state(NOW), AckNeed::Ride);
}

#[test]
fn the_newest_ranges_are_told_when_room_is_short() {
    let mut received = patient(0);
    for number in (0..200).step_by(2) {
        take(&mut received, number);
    }
    let told = tell(&mut received, NOW, 1_000, None).unwrap().ranges;
    assert_eq!(told.len(), MAX_ACK_RANGES);
    assert_eq!(told[0], 198..=198);
    take(&mut received, 200);
    let credit = Credit {
        generation: 1,
        limit: 500,
        control: 2,
        memory: 9,
    };
    for room in 0..40 {
        let before = received.ack_state(NOW);
        match tell(&mut received, NOW, room, Some(credit)) {
            Some(told) => {
                assert_eq!(told.ranges[0], 200..=200);
                assert_eq!(told.credit, Some(credit));
                assert!(room > 5);
            }
            None => assert_eq!(
                received.ack_state(NOW),
                before,
                "what was not told is pending"
            ),
        }
    }
    assert_eq!(received.ack_state(NOW), AckNeed::None);
}

/// If many packets are late at a time, the sender would never hear of those that the newest ranges
/// leave out.
#[test]
fn changed_ranges_are_sent_before_newer_unchanged_ones() {
    let mut received = patient(0);
    for number in (0..200).step_by(2) {
        take(&mut received, number);
    }
    let mut told = BTreeSet::new();
    for frame in 1..=4 {
        let ranges = ranges(&mut received);
        assert_eq!((ranges.len(), &ranges[0]), (MAX_ACK_RANGES, &(198..=198)));
        told.extend(ranges.into_iter().flatten());
        assert_eq!(told.len(), (1 + 31 * frame).min(100));
    }
    take(&mut received, 101);
    let ranges = ranges(&mut received);
    assert_eq!(ranges.len(), MAX_ACK_RANGES);
    assert_eq!((&ranges[1], &ranges[31]), (&(196..=196), &(100..=102)));
}

#[test]
fn ranges_that_a_confirmed_frame_had_no_room_for_are_not_forgotten() {
    let mut received = patient(0);
    for number in (0..200).step_by(2) {
        take(&mut received, number);
    }
    assert_eq!(ranges(&mut received)[31], 136..=136);
    received.on_ack_acked(198);
    assert_eq!(received.range_count(), 69);
    take(&mut received, 200);
    let oldest = ranges(&mut received);
    assert_eq!((oldest.len(), &oldest[2]), (32, &(134..=134)));
}

#[test]
fn told_and_confirmed_ranges_are_forgotten_but_stay_duplicates() {
    let mut received = patient(0);
    for number in [0, 1, 3, 5, 6] {
        take(&mut received, number);
    }
    assert_eq!(ranges(&mut received), [5..=6, 3..=3, 0..=1]);
    received.on_ack_acked(6);
    assert_eq!(
        ranges(&mut received),
        [5..=6],
        "the highest is told for ever"
    );
    for number in [0, 1, 3, 5, 6] {
        assert!(!received.is_fresh(number));
    }
    assert!(received.is_fresh(2) && received.is_fresh(4));
}

#[test]
fn ranges_that_a_confirmed_frame_lacked_are_sent_again() {
    let mut received = patient(0);
    take(&mut received, 0);
    take(&mut received, 4);
    assert_eq!(ranges(&mut received), [4..=4, 0..=0]);
    // Packet 2 arrives after that frame, and the frame that acknowledges it is lost.
    take(&mut received, 2);
    assert_eq!(ranges(&mut received), [4..=4, 2..=2, 0..=0]);
    received.on_ack_acked(4);
    assert_eq!(ranges(&mut received), [4..=4, 2..=2]);
    take(&mut received, 5);
    assert_eq!(ranges(&mut received), [4..=5, 2..=2]);
    received.on_ack_acked(5);
    assert_eq!(ranges(&mut received), [4..=5]);
}

#[test]
fn f06_tracked_ranges_are_bounded_and_the_lowest_go_first() {
    let mut received = patient(0);
    for number in (0..4 * MAX_TRACKED_RANGES as u64).step_by(2) {
        take(&mut received, number);
        assert!(received.range_count() <= MAX_TRACKED_RANGES);
    }
    assert_eq!(received.range_count(), MAX_TRACKED_RANGES);
    assert_eq!(ranges(&mut received)[0], 1_022..=1_022);
    assert!(
        !received.is_fresh(0),
        "forgotten as a range, not as a duplicate"
    );
    // A number below all tracked ranges must not push a newer one out.
    take(&mut received, 1);
    assert_eq!(received.range_count(), MAX_TRACKED_RANGES);
    assert!(!received.is_fresh(1));
}

#[test]
fn f10_replayed_packets_are_not_fresh() {
    let mut received = patient(0);
    let numbers = [0, 1, 2, 9, 5, 7, 6, 100, 99, 8_000, 8_100, 8_291];
    for (index, number) in numbers.into_iter().enumerate() {
        assert!(received.is_fresh(number), "{number}");
        take(&mut received, number);
        for replay in &numbers[..=index] {
            assert!(!received.is_fresh(*replay), "{replay} after {number}");
        }
    }
    // The window: 8,192 numbers up to the highest.
    assert!(received.is_fresh(8_291 - DEDUP_WINDOW + 2));
    assert!(!received.is_fresh(8_291 - DEDUP_WINDOW), "too old to know");
    // A replay taken in all the same changes nothing.
    let before = ranges(&mut received);
    take(&mut received, 5);
    assert_eq!(received.ack_state(Instant::MAX), AckNeed::None);
    assert_eq!(ranges(&mut received), before);
}

#[test]
fn f10_a_packet_delayed_beyond_the_window_is_dropped() {
    let mut received = patient(0);
    take(&mut received, 0);
    take(&mut received, 2);
    for number in 3..=DEDUP_WINDOW {
        take(&mut received, number);
    }
    assert!(received.is_fresh(1), "the oldest number in the window");
    take(&mut received, DEDUP_WINDOW + 1);
    assert!(!received.is_fresh(1));
}

#[test]
fn f10_a_leap_beyond_the_window_leaves_no_trace_of_older_numbers() {
    for leap in [DEDUP_WINDOW - 1, DEDUP_WINDOW, DEDUP_WINDOW + 1, 1 << 40] {
        let mut received = patient(0);
        (0..200).for_each(|number| take(&mut received, number));
        let far = 199 + leap;
        take(&mut received, far);
        for number in far - DEDUP_WINDOW + 1..far {
            assert_eq!(
                received.is_fresh(number),
                number > 199,
                "{number} after {leap}"
            );
        }
        assert!(!received.is_fresh(far - DEDUP_WINDOW));
    }
}

#[test]
fn f15_numbers_near_their_end() {
    let first = u64::MAX - 10;
    let mut received = patient(first);
    for number in [
        first,
        first + 1,
        first + 3,
        u64::MAX,
        u64::MAX - 1,
        first + 2,
    ] {
        assert!(received.is_fresh(number));
        take(&mut received, number);
        assert!(!received.is_fresh(number));
    }
    assert_eq!(received.highest(), Some(u64::MAX));
    assert_eq!(
        ranges(&mut received),
        [u64::MAX - 1..=u64::MAX, first..=first + 3]
    );
    received.on_ack_acked(u64::MAX);
    take(&mut received, u64::MAX - 2);
    assert_eq!(ranges(&mut received)[0], u64::MAX - 2..=u64::MAX);
    assert!(received.is_fresh(u64::MAX - 3) && !received.is_fresh(first - 1));
}

#[test]
fn f15_the_last_number_as_the_first() {
    let mut received = patient(u64::MAX);
    take(&mut received, u64::MAX);
    assert_eq!(ranges(&mut received), [u64::MAX..=u64::MAX]);
    assert!(!received.is_fresh(u64::MAX) && !received.is_fresh(0));
}

/// Numbers around a moving front: in order, late, repeated, skipping, leaping.
fn arrivals() -> impl Strategy<Value = Vec<(bool, u64)>> {
    let distance = prop_oneof![
        6 => Just((true, 0)),
        3 => (Just(true), 0_u64..4),
        1 => (Just(true), 0_u64..20_000),
        4 => (Just(false), 0_u64..20),
        1 => (Just(false), 0_u64..10_000),
    ];
    prop::collection::vec(distance, 1..300)
}

proptest! {
    /// Compares with a set of all numbers ever received.
    #[test]
    fn f10_f15_duplicates_and_ranges_match_a_set(
        first in prop_oneof![Just(0), any::<u64>(), Just(u64::MAX - 30_000)],
        arrivals in arrivals(),
    ) {
        let mut received = patient(first);
        let mut seen = BTreeSet::<u64>::new();
        let mut front = first;
        for (ahead, distance) in arrivals {
            let number = if ahead { front.saturating_add(distance) } else { front.saturating_sub(distance) };
            let highest = seen.last().copied();
            let known = number < first
                || seen.contains(&number)
                || highest.is_some_and(|highest| highest.saturating_sub(number) >= DEDUP_WINDOW);
            prop_assert_eq!(received.is_fresh(number), !known, "{}", number);
            if !known {
                seen.insert(number);
            }
            take(&mut received, number);
            prop_assert_eq!(received.highest(), seen.last().copied());
            front = seen.last().map_or(first, |highest| highest.saturating_add(1));
        }
        let told: Vec<_> = received.spans.to_report(usize::MAX).collect();
        let expected = spans_of(&seen);
        prop_assert_eq!(&told[..], &expected[..told.len()]);
        prop_assert!(told.len() == expected.len() || told.len() == MAX_TRACKED_RANGES);
    }

    /// A receiver that forgets confirmed ranges still reports every packet, whichever frames and
    /// confirmations are lost.
    #[test]
    fn no_packet_is_forgotten_before_the_sender_knows(
        steps in prop::collection::vec(
            (0_u64..8, any::<bool>(), any::<bool>(), any::<bool>(), 8_usize..60),
            1..150,
        )
    ) {
        let mut received = patient(0);
        let mut sent_below = 0;
        let mut known = BTreeSet::new();
        let mut frames: Vec<(PacketNumber, Vec<RangeInclusive<PacketNumber>>)> = Vec::new();
        let mut confirmable = Vec::new();
        for (back, late, frame_lost, confirm, room) in steps {
            let number = if late { u64::saturating_sub(sent_below, back) } else { sent_below + back };
            take(&mut received, number);
            sent_below = sent_below.max(number + 1);
            let told = tell(&mut received, NOW, room, None).unwrap().ranges;
            frames.push((*told[0].end(), told.clone()));
            if !frame_lost {
                known.extend(told.into_iter().flatten());
                confirmable.push(frames.len() - 1);
            }
            // Frames are confirmed in order of sending, some time later or never.
            if confirm && !confirmable.is_empty() {
                received.on_ack_acked(frames[confirmable.remove(0)].0);
            }
            // All numbers that the sender does not know are still tracked.
            let tracked: BTreeSet<_> = received.spans.to_report(usize::MAX).flatten().collect();
            for number in 0..sent_below {
                if !received.is_fresh(number) {
                    prop_assert!(known.contains(&number) || tracked.contains(&number), "{}", number);
                }
            }
        }
    }
}

proptest! {
    /// A range has the effect of its packets one by one, also where it fills a part of a gap.
    #[test]
    fn a_range_is_its_packets(
        steps in prop::collection::vec(
            (0_u64..6, 1_u64..100, any::<bool>(), any::<bool>(), any::<bool>(), 0_u64..4),
            1..60,
        ),
        ack_every in prop_oneof![Just(u32::MAX), 1_u32..200],
    ) {
        let (mut range, mut single) = (patient(0), patient(0));
        for received in [&mut range, &mut single] {
            received.set_ack_every(ack_every);
        }
        let (mut end, mut missing) = (0, 0..0);
        for (gap, length, late, marked, tells, wait) in steps {
            let first = if late { missing.start + gap } else { end + gap };
            let last = if late { missing.end } else { first + length };
            if first < last {
                let now = NOW + Duration::from_millis(wait);
                let ecn = if marked { Ecn::Ce } else { Ecn::Ect0 };
                range.on_packets(first..=last - 1, now, true, ecn, now);
                for number in first..last {
                    single.on_packets(number..=number, now, true, ecn, now);
                }
                missing = if late { 0..0 } else { end..first };
                end = end.max(last);
            }
            if tells {
                prop_assert_eq!(ranges(&mut range), ranges(&mut single));
            }
            prop_assert_eq!(format!("{range:?}"), format!("{single:?}"));
        }
    }
}

fn spans_of(numbers: &BTreeSet<u64>) -> Vec<RangeInclusive<u64>> {
    let mut spans: Vec<RangeInclusive<u64>> = Vec::new();
    for number in numbers.iter().rev() {
        match spans.last_mut() {
            Some(span) if span.start().checked_sub(1) == Some(*number) => {
                *span = *number..=*span.end();
            }
            _ => spans.push(*number..=*number),
        }
    }
    spans
}
