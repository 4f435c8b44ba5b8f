//! The effects of acknowledgements, and the ones that are refused.

use super::*;

#[test]
fn ack_settles_packets_and_reports_frames() {
    let mut bench = Bench::new();
    let frames = [
        Sample::Bytes {
            of: 1,
            start: 7,
            end: 10,
        },
        content(9),
    ];
    bench.recovery.on_sent(0..=0, at(0), 500, DATA, &frames);
    bench.recovery.on_sent(1..=1, at(1), 700, DATA, &[]);
    bench
        .recovery
        .on_sent(2..=2, at(2), 900, DATA, &frames[1..]);
    assert_eq!(bench.recovery.in_flight(), 2_100);

    let summary = bench.ack(50, &[2..=2, 0..=0]);
    assert_eq!(
        (summary.newly_acked_bytes, summary.newly_acked_packets),
        (1_400, 2)
    );
    assert_eq!(summary.largest_newly_acked_sent_at, Some(at(2)));
    assert_eq!(summary.path_sample, Some(ms(48)));
    assert_eq!(bench.log.acked, [2, 0]);
    assert_eq!(bench.log.frames, [frames[1], frames[0], frames[1]]);
    assert_eq!(bench.recovery.in_flight(), 700);
}

#[test]
fn repeated_ack_changes_nothing() {
    let mut bench = Bench::new();
    (0..4).for_each(|number| bench.send(number, number));
    bench.ack(50, &[0..=1]);
    let smoothed = bench.recovery.rtt().smoothed();
    assert_eq!(bench.ack(90, &[0..=1]), AckSummary::default());
    assert_eq!(bench.log.acked, [0, 1]);
    assert_eq!(bench.recovery.rtt().smoothed(), smoothed);
    assert_eq!(
        bench.ack(91, &[]),
        AckSummary::default(),
        "no ranges at all"
    );
}

#[test]
fn older_ranges_repeated_beside_new_ones_are_ignored() {
    let mut bench = Bench::new();
    (0..3).for_each(|number| bench.send(number, number));
    bench.ack(50, &[0..=1]);
    bench.send(3, 51);
    let summary = bench.ack(101, &[0..=3]);
    assert_eq!(summary.newly_acked_packets, 2);
    assert_eq!(summary.path_sample, Some(ms(50)));
    assert_eq!(bench.log.acked, [0, 1, 2, 3]);
    assert!(!bench.recovery.has_eliciting_in_flight());
    assert_eq!(bench.next_timeout(), None);
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "it must do no harm")]
fn reversed_range_is_nothing() {
    let mut bench = Bench::new();
    bench.send(0, 0);
    assert_eq!(bench.ack(10, &[1..=0]), AckSummary::default());
}

#[test]
fn f05_ack_of_a_number_not_sent_yet_is_an_error_and_applies_nothing() {
    let mut bench = Bench::new();
    assert_eq!(bench.try_ack(1, &[0..=0]), Err(ProtocolError::NeverSent(0)));
    (0..3).for_each(|number| bench.send(number, 0));
    assert_eq!(
        bench.try_ack(10, &[2..=3]),
        Err(ProtocolError::NeverSent(3))
    );
    assert_eq!(
        bench.try_ack(10, &[2..=2, 0..=u64::MAX]),
        Err(ProtocolError::NeverSent(u64::MAX))
    );
    assert!(bench.log.acked.is_empty());
    assert_eq!(bench.recovery.in_flight(), 3_000);
    assert!(!bench.recovery.rtt().has_sample());
}

#[test]
fn f05_ack_of_a_skipped_number_is_an_error_and_applies_nothing() {
    let mut bench = Bench::new();
    for number in [0, 1, 3, 4, 8] {
        bench.send(number, 0);
    }
    for (range, skipped) in [
        (2..=2, 2),
        (0..=4, 2),
        (2..=3, 2),
        (3..=8, 5),
        (6..=8, 6),
        (7..=7, 7),
    ] {
        assert_eq!(
            bench.try_ack(10, &[range]),
            Err(ProtocolError::NeverSent(skipped))
        );
    }
    assert_eq!(
        bench.try_ack(10, &[8..=8, 1..=2]),
        Err(ProtocolError::NeverSent(2))
    );
    assert!(bench.log.acked.is_empty());
    assert_eq!(bench.ack(10, &[8..=8, 3..=4, 0..=1]).newly_acked_packets, 5);
}

#[test]
fn f05_a_skip_before_the_first_packet_counts() {
    let mut bench = Bench::starting_at(10);
    bench.send(12, 0);
    assert_eq!(
        bench.try_ack(1, &[11..=12]),
        Err(ProtocolError::NeverSent(11))
    );
    assert_eq!(bench.ack(1, &[12..=12]).newly_acked_packets, 1);
}

#[test]
fn f05_skipped_numbers_are_remembered_although_all_around_is_acknowledged() {
    let mut bench = Bench::new();
    bench.send(0, 0);
    bench.send(2, 0);
    bench.ack(10, &[2..=2, 0..=0]);
    bench.send(3, 10);
    // An optimistic peer that acknowledged honestly so far and now fills the gap.
    assert_eq!(
        bench.try_ack(20, &[0..=3]),
        Err(ProtocolError::NeverSent(1))
    );
}

#[test]
fn f05_skips_are_remembered_boundedly() {
    let mut bench = Bench::new();
    for i in 0..1_000 {
        bench.send(2 * i, i);
        bench.ack(i, &[2 * i..=2 * i]);
    }
    assert_eq!(
        bench.try_ack(1_000, &[1_997..=1_997]),
        Err(ProtocolError::NeverSent(1_997))
    );
    assert_eq!(
        bench.ack(1_000, &[1..=1]),
        AckSummary::default(),
        "too long ago to know"
    );
    // As long as a packet below is open, every skip above it is known.
    let mut bench = Bench::new();
    bench.send_kind(0, 0, 100, ACK_ONLY);
    for i in 1..1_000 {
        bench.send_kind(2 * i, 0, 100, ACK_ONLY);
    }
    assert_eq!(bench.try_ack(1, &[1..=1]), Err(ProtocolError::NeverSent(1)));
}

#[test]
fn f06_a_range_of_any_width_costs_only_the_tracked_packets() {
    // Would never end if it counted through the range.
    let first = u64::MAX / 2;
    let mut bench = Bench::starting_at(first);
    (0..4).for_each(|i| bench.send(first + i, i));
    let summary = bench.ack(50, &[0..=first + 3, 0..=first + 3, 0..=1]);
    assert_eq!(summary.newly_acked_packets, 4);
    assert_eq!(bench.log.acked.len(), 4);
}

#[test]
fn f06_ranges_below_the_first_number_are_ignored() {
    let mut bench = Bench::starting_at(1_000);
    bench.send(1_000, 0);
    assert_eq!(bench.ack(5, &[0..=999]), AckSummary::default());
    assert_eq!(bench.ack(5, &[999..=1_000]).newly_acked_packets, 1);
}

#[test]
fn f15_numbers_up_to_the_last() {
    let first = u64::MAX - 5;
    let mut bench = Bench::starting_at(first);
    bench.send(first, 0);
    bench.send(first + 2, 0);
    bench.send(u64::MAX - 1, 0);
    assert_eq!(
        bench.try_ack(9, &[u64::MAX..=u64::MAX]),
        Err(ProtocolError::NeverSent(u64::MAX))
    );
    bench.send(u64::MAX, 0);
    let wrong = bench.try_ack(9, &[first + 1..=u64::MAX]);
    assert_eq!(wrong, Err(ProtocolError::NeverSent(first + 1)));
    let summary = bench.ack(10, &[u64::MAX - 1..=u64::MAX]);
    assert_eq!(summary.newly_acked_packets, 2);
    assert_eq!(summary.lost.packets, 2, "thresholds work up there too");
    assert_eq!(bench.log.acked, [u64::MAX - 1, u64::MAX]);
    assert_eq!(bench.log.lost, [first, first + 2]);
    let late = bench.ack(
        11,
        &[
            u64::MAX - 1..=u64::MAX,
            first + 2..=first + 2,
            first..=first,
        ],
    );
    assert_eq!(late.spurious, 2);
}

#[test]
fn ack_only_packets_are_neither_in_flight_nor_timed_nor_lost() {
    let mut bench = Bench::measured();
    bench.send_kind(1, 100, 60, ACK_ONLY);
    bench.send_kind(2, 100, 60, ACK_ONLY);
    assert_eq!(
        (bench.recovery.in_flight(), bench.next_timeout()),
        (0, None)
    );
    assert!(!bench.recovery.has_eliciting_in_flight());
    for number in 3..10 {
        bench.send(number, 101);
    }
    bench.ack(150, &[9..=9]);
    assert_eq!(
        bench.log.lost,
        [3, 4, 5, 6],
        "the ack-only ones before are not among them"
    );
    assert!(matches!(bench.timeout(900), TimerAction::LossesDeclared(lost) if lost.packets == 2));
    assert_eq!(bench.log.lost, [3, 4, 5, 6, 7, 8]);
}

#[test]
fn ack_only_packets_complete_but_measure_nothing() {
    let mut bench = Bench::measured();
    bench.timeout(0);
    bench.send(1, 150);
    assert_eq!(bench.timeout(2_000), TimerAction::Probe { count: 1 });
    bench.send_kind(2, 2_000, 60, ACK_ONLY);
    let summary = bench.ack(2_050, &[2..=2]);
    assert_eq!(bench.log.acked, [2]);
    let frames = [content(2), content(1)];
    assert_eq!(bench.log.frames, frames, "completed, then lost");
    assert_eq!(
        (summary.newly_acked_bytes, summary.newly_acked_packets),
        (0, 0)
    );
    assert_eq!((summary.path_sample, summary.rate), (None, None));
    assert_eq!(summary.largest_newly_acked_sent_at, Some(at(2_000)));
    assert_eq!(
        bench.log.lost,
        [1],
        "but they prove that others were overtaken"
    );
    assert_eq!(bench.recovery.pto_count(), 1, "and end no back-off");
}

#[test]
fn round_trip_is_measured_only_with_the_largest_number_and_something_eliciting() {
    let mut bench = Bench::new();
    bench.send(0, 0);
    bench.send(1, 10);
    bench.send_kind(2, 20, 60, ACK_ONLY);
    assert_eq!(bench.ack(30, &[1..=1]).path_sample, Some(ms(20)));
    // 2 is new and the largest, 0 is eliciting: the sample is that of 2.
    assert_eq!(bench.ack(50, &[0..=2]).path_sample, Some(ms(30)));
    bench.send(3, 60);
    bench.send(4, 60);
    bench.ack(70, &[4..=4]);
    assert_eq!(
        bench.ack(90, &[3..=4]).path_sample,
        None,
        "the largest is not new"
    );
}

#[test]
fn ack_delay_is_taken_out_of_the_smoothed_time() {
    let mut bench = Bench::measured();
    bench.send(1, 100);
    let ranges = [1..=1];
    let summary = bench
        .recovery
        .on_ack(at(212), reported(ms(4)), ranges.into_iter(), &mut bench.log)
        .unwrap();
    assert_eq!(summary.path_sample, Some(ms(108)));
    assert_eq!(bench.recovery.rtt().smoothed(), ms(101));
}

#[test]
fn the_delivery_rate_covers_the_time_from_sending_to_acknowledgement() {
    let mut bench = Bench::measured();
    // Ten packets, one each 10 ms, acknowledged one by one 100 ms later.
    for i in 0..10 {
        bench.send(1 + i, 200 + 10 * i);
    }
    let first = bench.ack(300, &[1..=1]).rate.unwrap();
    assert_eq!(
        first,
        RateSample {
            delivered: 1_000,
            interval: ms(100),
            app_limited: false,
        }
    );
    for i in 1..9 {
        bench.ack(300 + 10 * i, &[1 + i..=1 + i]);
    }
    let last = bench.ack(390, &[10..=10]).rate.unwrap();
    assert_eq!(last.delivered, 10_000);
    assert_eq!(last.interval, ms(190));
    // Sent once the pipe runs: what arrives meanwhile is what the path carries.
    bench.send(11, 390);
    let idle = bench.ack(490, &[11..=11]).rate.unwrap();
    assert_eq!(
        idle,
        RateSample {
            delivered: 1_000,
            interval: ms(100),
            app_limited: false,
        },
        "idle time counts not"
    );
    bench.send(12, 500);
    assert_eq!(
        bench.ack(510, &[12..=12]).rate,
        Some(RateSample {
            delivered: 1_000,
            interval: ms(10),
            app_limited: false,
        })
    );
}

#[test]
fn delivery_rate_takes_the_slower_of_sending_and_acknowledging() {
    let mut bench = Bench::measured();
    bench.send(1, 200);
    bench.send(2, 280);
    bench.ack(300, &[1..=1]);
    bench.send(3, 300);
    // 2 and 3 together; 3 left when 1000 B were delivered, at 300.
    let rate = bench.ack(400, &[2..=3]).rate.unwrap();
    assert_eq!(
        rate,
        RateSample {
            delivered: 2_000,
            interval: ms(100),
            app_limited: false,
        }
    );
    // Acks compressed into one moment say nothing faster than the sending.
    bench.send(4, 400);
    bench.send(5, 600);
    let rate = bench.ack(700, &[4..=5]).rate.unwrap();
    assert_eq!(
        rate,
        RateSample {
            delivered: 2_000,
            interval: ms(300),
            app_limited: false,
        }
    );
}

/// F33: acknowledgements that our process reads late show the same rates.
#[test]
fn f33_a_process_that_reads_late_measures_the_rate_of_the_path() {
    let mut bench = Bench::measured();
    for i in 0..10 {
        bench.send(1 + i, 200 + 10 * i);
    }
    for i in 0..10 {
        let delays = AckDelays {
            local: ms(100 - 10 * i),
            ..reported(Duration::ZERO)
        };
        let ranges = [1 + i..=1 + i].into_iter();
        let (recovery, log) = (&mut bench.recovery, &mut bench.log);
        let rate = recovery.on_ack(at(400), delays, ranges, log).unwrap().rate;
        let expected = RateSample {
            delivered: 1_000 * (i + 1),
            interval: ms(100 + 10 * i),
            app_limited: false,
        };
        assert_eq!(rate, Some(expected));
    }
    // The last one arrived at 390.
    bench.send(11, 400);
    let rate = bench.ack(500, &[11..=11]).rate.unwrap();
    assert_eq!(rate.interval, ms(100), "the path was idle until 400");
}

/// F33: what a late peer acknowledges at last was delivered before.
#[test]
fn f33_a_late_acknowledgement_begins_no_faster_sample() {
    let mut bench = Bench::measured();
    bench.send(1, 200);
    bench.send(2, 380);
    let ranges = [1..=1].into_iter();
    let (recovery, log) = (&mut bench.recovery, &mut bench.log);
    recovery
        .on_ack(at(390), reported(ms(90)), ranges, log)
        .unwrap();
    bench.send(3, 390);
    let rate = bench.ack(490, &[2..=3]).rate.unwrap();
    let expected = RateSample {
        delivered: 2_000,
        interval: ms(190),
        app_limited: false,
    };
    assert_eq!(rate, expected, "since 300");
}

#[test]
fn delivery_rate_needs_time_to_pass() {
    let mut bench = Bench::new();
    bench.send(0, 50);
    assert_eq!(bench.ack(50, &[0..=0]).rate, None);
}

#[test]
fn mtu_probe_acked_is_reported_with_its_size() {
    let mut bench = Bench::new();
    bench.send_kind(0, 0, 1_400, PROBE);
    bench.send_kind(1, 0, 1_472, PROBE);
    bench.send(2, 0);
    assert_eq!(bench.recovery.in_flight(), 3_872);
    let summary = bench.ack(10, &[0..=2]);
    assert_eq!(
        (summary.mtu_probe_acked, summary.largest_acked_size),
        (Some(1_472), 1_472)
    );
    assert_eq!(summary.newly_acked_bytes, 3_872);
    bench.send(3, 10);
    assert_eq!(bench.ack(20, &[3..=3]).mtu_probe_acked, None);
}

#[test]
fn a_better_guess_of_the_round_trip_counts_until_one_is_measured() {
    let mut bench = Bench::new();
    bench.recovery.set_initial_rtt(ms(10));
    assert_eq!(bench.recovery.rtt().smoothed(), ms(10));
    bench.send(0, 0);
    bench.ack(30, &[0..=0]);
    bench.recovery.set_initial_rtt(ms(10));
    assert_eq!(bench.recovery.rtt().smoothed(), ms(30));
}

#[test]
fn packets_sent_without_more_data_mark_samples_as_app_limited() {
    let mut bench = Bench::measured();
    bench.send(1, 200);
    bench.recovery.on_app_limited();
    // The first packet was sent before the sender ran out of data; the next one was not.
    bench.send(2, 210);
    assert!(!bench.ack(300, &[1..=1]).rate.unwrap().app_limited);
    assert!(bench.ack(310, &[2..=2]).rate.unwrap().app_limited);
    bench.send(3, 320);
    assert!(!bench.ack(420, &[3..=3]).rate.unwrap().app_limited);
    // Nothing is in flight, so the next packet enters an idle path.
    bench.recovery.on_app_limited();
    bench.send(4, 500);
    assert!(bench.ack(600, &[4..=4]).rate.unwrap().app_limited);
    assert_eq!(bench.recovery.delivered(), 5_000);
}

#[test]
fn the_path_sample_excludes_all_waits_at_both_ends() {
    let mut bench = Bench::new();
    let mut ack = |number: u64, delay, here| {
        let sent = 100 * number;
        bench.send(number, sent);
        let delays = AckDelays {
            local: ms(here),
            ..reported(ms(delay))
        };
        let ranges = core::iter::once(number..=number);
        let recovery = &mut bench.recovery;
        let summary = recovery
            .on_ack(at(sent + 60), delays, ranges, &mut bench.log)
            .unwrap();
        assert_eq!(recovery.rtt().latest(), ms(60));
        (summary.path_sample, recovery.rtt().path())
    };
    // The first sample has no part on the path, so the whole round trip stands for it.
    assert_eq!(ack(0, 40, 21), (None, ms(60)));
    assert_eq!(ack(1, 40, 10), (Some(ms(10)), ms(10)));
    assert_eq!(ack(2, 0, 42), (Some(ms(18)), ms(11)), "an eighth of it");
    assert_eq!(ack(3, 61, 0), (None, ms(11)));
    assert_eq!(ack(4, 60, 0), (Some(ms(0)), Duration::from_micros(9_625)));
}
