//! When packets count as lost, and what follows when they were not.

use super::*;

/// 1 1/8 of the round trip as measured now.
fn threshold(recovery: &Recovery<Sample>) -> Duration {
    let round_trip = recovery.rtt().smoothed().max(recovery.rtt().latest());
    round_trip + round_trip / 8
}

#[test]
fn three_later_packets_make_a_loss() {
    let mut bench = Bench::measured();
    (1..=4).for_each(|number| bench.send_kind(number, 100, 100 * number as usize, DATA));
    let summary = bench.ack(150, &[4..=4]);
    assert_eq!(bench.log.lost, [1]);
    let lost = LossSummary {
        bytes: 100,
        packets: 1,
        largest_size: 100,
        largest_lost_sent_at: Some(at(100)),
        ..LossSummary::default()
    };
    assert_eq!(summary.lost, lost);
    assert_eq!(bench.recovery.in_flight(), 500);
}

#[test]
fn nothing_is_lost_before_something_later_was_acknowledged() {
    let mut bench = Bench::measured();
    (1..=9).for_each(|number| bench.send(number, 100));
    assert_eq!(bench.ack(5_000, &[1..=1]).lost, LossSummary::default());
    assert!(bench.log.lost.is_empty());
}

#[test]
fn overtaken_packets_are_lost_by_the_loss_timer() {
    let mut bench = Bench::measured();
    (1..=3).for_each(|number| bench.send(number, 100 + number));
    assert_eq!(bench.ack(150, &[3..=3]).lost, LossSummary::default());
    let due = at(101) + threshold(&bench.recovery);
    assert_eq!(bench.next_timeout(), Some(due));
    let early = Instant::from_nanos(due.as_nanos() - 1);
    let log = &mut bench.log;
    assert_eq!(
        bench.recovery.on_timeout(early, DELAY, log),
        TimerAction::None
    );
    let expected = LossSummary {
        bytes: 1_000,
        packets: 1,
        largest_size: 1_000,
        largest_lost_sent_at: Some(at(101)),
        ..LossSummary::default()
    };
    let action = bench.recovery.on_timeout(due, DELAY, log);
    assert_eq!(action, TimerAction::LossesDeclared(expected));
    assert_eq!(bench.log.lost, [1]);
    assert_eq!(
        bench.next_timeout(),
        Some(at(102) + threshold(&bench.recovery))
    );
    assert_eq!(bench.recovery.pto_count(), 0, "no probe timeout");
}

#[test]
fn overdue_packets_are_lost_with_the_ack_that_shows_it() {
    let mut bench = Bench::measured();
    bench.send(1, 100);
    bench.send(2, 300);
    let summary = bench.ack(400, &[2..=2]);
    assert_eq!(summary.lost.packets, 1);
    assert_eq!(
        (bench.recovery.in_flight(), bench.next_timeout()),
        (0, None)
    );
}

#[test]
fn loss_timer_goes_when_the_packet_arrives() {
    let mut bench = Bench::measured();
    (1..=2).for_each(|number| bench.send(number, 100));
    bench.ack(150, &[2..=2]);
    bench.ack(160, &[1..=2]);
    assert_eq!(bench.next_timeout(), None);
    assert_eq!(bench.timeout(10_000), TimerAction::None);
}

#[test]
fn late_ack_of_a_lost_packet_is_spurious() {
    let mut bench = Bench::measured();
    (1..=5).for_each(|number| bench.send(number, 100));
    assert_eq!(bench.ack(150, &[5..=5]).lost.packets, 2);
    let summary = bench.ack(160, &[1..=1, 5..=5]);
    assert_eq!(summary.spurious, 1);
    assert_eq!(
        (summary.newly_acked_bytes, summary.newly_acked_packets),
        (0, 0)
    );
    assert_eq!(bench.log.acked, [5, 1], "its frames need no repetition");
    assert_eq!(
        bench.ack(161, &[1..=1]),
        AckSummary::default(),
        "but only once"
    );
    // 1 was four behind the largest: that many may now overtake.
    (6..=12).for_each(|number| bench.send(number, 170));
    bench.ack(180, &[11..=11]);
    assert_eq!(
        bench.log.lost,
        [1, 2, 3, 4, 6],
        "5 behind is lost, 4 behind not"
    );
}

#[test]
fn late_ack_of_the_largest_measures_the_true_round_trip() {
    let mut bench = Bench::measured();
    bench.send(1, 100);
    bench.recovery.drop_larger_than(2_000, &mut bench.log);
    bench.send(2, 100);
    bench.send_kind(3, 100, 60, ACK_ONLY);
    bench.ack(300, &[3..=3]);
    assert_eq!(bench.log.lost, [1, 2]);
    assert_eq!(bench.ack(400, &[2..=2]).path_sample, Some(ms(300)));
}

#[test]
fn a_loss_is_doubtful_until_its_packet_arrives_or_is_forgotten() {
    let mut bench = Bench::measured();
    let counts = |bench: &Bench| (bench.recovery.doubtful(), bench.recovery.confirmed());
    (1..=6).for_each(|number| bench.send(number, 100));
    bench.send_kind(7, 100, 1_472, PROBE);
    (8..=9).for_each(|number| bench.send(number, 100));
    bench.ack(150, &[6..=6]);
    assert_eq!((bench.log.lost.len(), counts(&bench)), (3, (3, 0)));
    bench.ack(151, &[1..=2, 6..=6]);
    assert_eq!(counts(&bench), (1, 0));
    bench.recovery.drop_larger_than(1_400, &mut bench.log);
    assert_eq!(counts(&bench), (1, 0), "a packet too large was not lost");
    let two = bench.recovery.rtt().pto(DELAY) * 2;
    bench.send(10, 9_000);
    assert!(at(151) + two < at(9_001));
    bench.ack(9_001, &[4..=6, 8..=10]);
    assert_eq!(counts(&bench), (0, 1));
    assert_eq!(bench.ack(9_002, &[3..=3]).spurious, 0);
    (11..=18).for_each(|number| bench.send(number, 9_100));
    bench.ack(9_150, &[12..=18]);
    assert_eq!(counts(&bench), (1, 1));
    assert!(bench.recovery.shrink());
    assert_eq!(counts(&bench), (0, 2), "forgotten with all the rest");
}

#[test]
fn lost_packets_are_forgotten_after_two_probe_timeouts() {
    let mut bench = Bench::measured();
    (1..=4).for_each(|number| bench.send(number, 100));
    bench.ack(150, &[2..=4]);
    assert_eq!(bench.log.lost, [1]);
    let two = bench.recovery.rtt().pto(DELAY) * 2;
    let expiry = at(150) + two;
    // An ack just before does not forget, one at that time does.
    let mut send_and_ack = |number: u64, now: Instant| {
        bench.recovery.on_sent(number..=number, now, 100, DATA, &[]);
        let ranges = [number..=number].into_iter();
        bench
            .recovery
            .on_ack(now, reported(Duration::ZERO), ranges, &mut bench.log)
            .unwrap();
        bench.recovery.sent_packets.fate(1)
    };
    assert_eq!(
        send_and_ack(5, Instant::from_nanos(expiry.as_nanos() - 1)),
        PacketState::Lost
    );
    assert_eq!(send_and_ack(6, expiry), PacketState::Gone);
    assert_eq!(bench.ack(2_000, &[1..=6]), AckSummary::default());
}

#[test]
fn mtu_probe_loss_is_no_congestion() {
    let mut bench = Bench::measured();
    bench.send_kind(1, 100, 1_472, PROBE);
    bench.send_kind(2, 100, 1_400, PROBE);
    bench.send_kind(3, 100, 1_450, PROBE);
    (4..=6).for_each(|number| bench.send(number, 100));
    let summary = bench.ack(150, &[6..=6]);
    assert_eq!(
        summary.lost,
        LossSummary {
            mtu_probe_lost: Some(1_400),
            ..LossSummary::default()
        }
    );
    assert_eq!(
        bench.log.lost,
        [1, 2, 3],
        "what it carried is repeated all the same"
    );
    let late = bench.ack(160, &[1..=1]);
    assert_eq!((late.mtu_probe_acked, late.spurious), (Some(1_472), 0));
}

#[test]
fn loss_timer_reports_a_lost_mtu_probe() {
    let mut bench = Bench::measured();
    bench.send_kind(1, 100, 1_472, PROBE);
    bench.send(2, 100);
    bench.ack(150, &[2..=2]);
    let lost = LossSummary {
        mtu_probe_lost: Some(1_472),
        ..LossSummary::default()
    };
    assert_eq!(bench.timeout(300), TimerAction::LossesDeclared(lost));
}

/// Sends at the given times after a first round trip, acknowledges `acked`, and says whether the
/// losses found by the last ack are persistent congestion. The probe timeout before it is 305 ms,
/// so that three make 915 ms; the last packet's own round trip leaves it there.
fn persistent(times: &[u64], acked: &[u64]) -> bool {
    let mut bench = Bench::measured();
    for (i, &millis) in times.iter().enumerate() {
        bench.send(1 + i as u64, millis);
    }
    let last = times.len() as u64;
    let ranges: Vec<_> = acked.iter().rev().map(|&number| number..=number).collect();
    let when = times.last().unwrap() + 100;
    let summary = bench.ack(when, &[&[last..=last][..], &ranges[..]].concat());
    summary.lost.persistent
}

#[test]
fn long_loss_without_a_sign_of_life_is_persistent_congestion() {
    assert!(persistent(&[200, 700, 1_300, 1_600], &[]));
    assert!(
        persistent(&[200, 1_300, 1_600], &[]),
        "the two ends alone prove it"
    );
    assert!(!persistent(&[200, 700, 900, 1_600], &[]), "too short");
    assert!(
        !persistent(&[1_300, 1_600], &[]),
        "one packet spans nothing"
    );
    assert!(
        !persistent(&[200, 700, 1_300, 1_600], &[2]),
        "interrupted by an ack"
    );
    assert!(
        persistent(&[150, 200, 700, 1_300, 1_600], &[1]),
        "the ack lies before"
    );
    assert!(
        persistent(&[200, 300, 400, 1_400, 1_600], &[1]),
        "the run after the ack suffices"
    );
    assert!(
        !persistent(&[50, 90, 900, 1_600], &[]),
        "older than the first measurement"
    );
}

#[test]
fn persistent_congestion_must_exceed_three_probe_timeouts() {
    // RFC 9002 7.6.1, after the last ack: variance 37.5 ms, timeout 255 ms, three 765 ms.
    assert!(!persistent(&[200, 965, 1_600], &[]));
    assert!(persistent(&[200, 966, 1_600], &[]));
}

#[test]
fn mtu_probes_prove_no_persistent_congestion() {
    let mut bench = Bench::measured();
    bench.send_kind(1, 200, 1_472, PROBE);
    bench.send(2, 1_500);
    bench.send(3, 1_800);
    assert!(!bench.ack(1_900, &[3..=3]).lost.persistent);
}

#[test]
fn f16_a_pause_is_no_persistent_congestion() {
    let mut bench = Bench::measured();
    bench.send(1, 200);
    bench.recovery.on_resumed_after_gap(at(60_000), DELAY);
    bench.send(2, 60_001);
    bench.send(3, 60_400);
    let summary = bench.ack(60_500, &[3..=3]);
    assert_eq!((summary.lost.packets, summary.lost.persistent), (2, false));
}

#[test]
fn drop_all_gives_everything_up_without_a_sign_of_congestion() {
    let mut bench = Bench::measured();
    bench.send(1, 100);
    bench.send_kind(2, 100, 60, ACK_ONLY);
    bench.send_kind(3, 100, 1_472, PROBE);
    bench.timeout(1_000);
    assert_eq!(bench.recovery.pto_count(), 1);
    bench.recovery.drop_all(&mut bench.log);
    assert_eq!(bench.log.lost, [1, 3]);
    assert_eq!(bench.log.frames, [content(1), content(3)]);
    assert_eq!(
        (bench.recovery.in_flight(), bench.next_timeout()),
        (0, None)
    );
    assert_eq!(
        bench.recovery.pto_count(),
        0,
        "a new path begins without back-off"
    );
    // Both were late, not lost; nothing is learned from it.
    let smoothed = bench.recovery.rtt().smoothed();
    let summary = bench.ack(1_001, &[3..=3, 1..=1]);
    assert_eq!((summary.spurious, summary.newly_acked_packets), (0, 0));
    assert_eq!(
        (summary.path_sample, summary.mtu_probe_acked),
        (None, Some(1_472))
    );
    assert_eq!(bench.recovery.rtt().smoothed(), smoothed);
    assert_eq!(bench.log.acked, [3, 1]);
}

#[test]
fn f13_a_new_path_is_learned_anew() {
    let mut bench = Bench::measured();
    (1..=12).for_each(|number| bench.send(number, 100));
    bench.ack(150, &[12..=12]);
    bench.ack(160, &[1..=1]);
    bench.send(13, 160);
    bench.recovery.drop_all(&mut bench.log);
    bench.recovery.on_path_changed(ms(40));
    assert!(!bench.recovery.rtt().has_sample());
    assert_eq!(bench.recovery.rtt().smoothed(), ms(40));
    assert_eq!(
        bench.ack(200, &[13..=13]).path_sample,
        None,
        "it went the old way"
    );
    (14..=17).for_each(|number| bench.send(number, 200));
    let summary = bench.ack(220, &[17..=17]);
    assert_eq!(summary.path_sample, Some(ms(20)));
    assert_eq!(summary.lost.packets, 1, "three packets overtook again");
}

#[test]
fn f13_nothing_sent_before_the_first_measurement_of_a_new_path_is_persistent_congestion() {
    let mut bench = Bench::measured();
    bench.recovery.on_path_changed(ms(40));
    for (number, millis) in [(1, 200), (2, 1_300), (3, 1_600)] {
        bench.send(number, millis);
    }
    let lost = bench.ack(1_650, &[3..=3]).lost;
    assert_eq!((lost.packets, lost.persistent), (2, false));
}

#[test]
fn f27_only_packets_above_the_size_are_dropped() {
    let mut bench = Bench::measured();
    for (number, size) in [(1, 1_201), (2, 1_200), (3, 9_000), (4, 100)] {
        bench.send_kind(number, 100 + number, size, DATA);
    }
    bench.ack(150, &[4..=4]);
    assert_eq!(bench.log.lost, [1]);
    bench.recovery.drop_larger_than(1_200, &mut bench.log);
    assert_eq!(bench.log.lost, [1, 3]);
    assert_eq!(bench.recovery.in_flight(), 1_200);
    let due = at(102) + threshold(&bench.recovery);
    assert_eq!(
        bench.next_timeout(),
        Some(due),
        "the timer watches who is left"
    );
    bench.recovery.drop_larger_than(1_199, &mut bench.log);
    assert_eq!(bench.next_timeout(), None);
}

#[test]
fn dropping_leaves_packets_that_nothing_overtook_to_the_probe_timer() {
    let mut bench = Bench::measured();
    bench.send_kind(1, 100, 9_000, DATA);
    bench.send(2, 110);
    bench.recovery.drop_larger_than(1_472, &mut bench.log);
    assert_eq!(bench.next_timeout(), Some(at(110 + 305)));
}

#[test]
fn dropping_does_not_start_the_loss_timer_for_the_next_number_after_the_acknowledged() {
    let mut bench = Bench::measured();
    bench.send(1, 100);
    bench.send_kind(2, 110, 9_000, DATA);
    bench.recovery.drop_larger_than(1_472, &mut bench.log);
    assert_eq!(bench.next_timeout(), Some(at(110 + 305)));
}

#[test]
fn dropped_packets_are_recognised_for_two_probe_timeouts() {
    let mut bench = Bench::measured();
    bench.send(1, 200);
    bench.recovery.drop_all(&mut bench.log);
    // 2 x (100 + 4 x 50) after the last call that knew the time.
    bench.send(2, 799);
    bench.ack(799, &[2..=2]);
    assert_eq!(bench.recovery.sent_packets.fate(1), PacketState::Dropped);
    bench.send(3, 800);
    bench.ack(800, &[3..=3]);
    assert_eq!(bench.recovery.sent_packets.fate(1), PacketState::Gone);
}

#[test]
fn f16_nothing_is_lost_within_one_probe_timeout_of_a_pause() {
    let mut bench = Bench::measured();
    (1..=9).for_each(|number| bench.send(number, 200));
    // Stopped for a minute. Acks wait in the socket and come one by one.
    bench.recovery.on_resumed_after_gap(at(60_000), DELAY);
    let held = at(60_000 + 305);
    assert_eq!(bench.next_timeout(), Some(held), "no timer in the past");
    assert_eq!(bench.timeout(60_000), TimerAction::None);
    let summary = bench.ack(60_001, &[6..=6]);
    assert_eq!(summary.lost, LossSummary::default());
    assert_eq!(summary.path_sample, None, "the pause is no round trip");
    assert_eq!(summary.rate, None, "nor does it slow the path");
    assert_eq!(bench.recovery.rtt().smoothed(), ms(100));
    assert_eq!(bench.next_timeout(), Some(held));
    assert_eq!(bench.timeout(60_304), TimerAction::None);
    let summary = bench.ack(60_304, &[1..=6]);
    assert_eq!((summary.newly_acked_packets, summary.spurious), (5, 0));
    assert!(bench.log.lost.is_empty());
    // Lost packets are declared once the timeout has passed.
    bench.send(10, 60_304);
    bench.ack(60_304, &[10..=10]);
    assert!(bench.log.lost.is_empty());
    let after = bench.next_timeout().unwrap();
    assert!(after > at(60_304));
    let action = bench.recovery.on_timeout(after, DELAY, &mut bench.log);
    assert!(matches!(action, TimerAction::LossesDeclared(lost) if lost.packets == 3));
    assert_eq!(bench.log.lost, [7, 8, 9]);
}

#[test]
fn f16_measuring_resumes_with_packets_sent_after_the_pause() {
    let mut bench = Bench::measured();
    bench.send(1, 200);
    bench.recovery.on_resumed_after_gap(at(60_000), DELAY);
    bench.send(2, 60_000);
    assert_eq!(bench.ack(60_010, &[1..=2]).path_sample, Some(ms(10)));
}

/// It computes for a minute, looks in for a moment, and computes again: every visit comes late.
#[test]
fn f16_a_program_that_is_always_late_repairs_losses_from_two_visits_ago() {
    let mut bench = Bench::measured();
    (1..=5).for_each(|number| bench.send(number, 200));
    bench.recovery.on_resumed_after_gap(at(60_000), DELAY);
    bench.ack(60_000, &[2..=5]);
    bench.send(6, 60_000);
    assert_eq!(bench.timeout(60_001), TimerAction::None);
    assert!(bench.log.lost.is_empty());
    bench.recovery.on_resumed_after_gap(at(120_000), DELAY);
    assert_eq!(
        bench.next_timeout(),
        Some(at(60_000)),
        "the exempted packet"
    );
    let action = bench.timeout(120_000);
    assert!(matches!(action, TimerAction::LossesDeclared(lost) if lost.packets == 1));
    assert_eq!(bench.log.lost, [1]);
    let held = bench.next_timeout().unwrap();
    assert!(held > at(120_000), "the other had one visit only");
    assert_eq!(bench.timeout(120_001), TimerAction::None);
    bench.recovery.on_resumed_after_gap(at(180_000), DELAY);
    assert!(matches!(bench.timeout(180_000), TimerAction::Probe { .. }));
}

/// It looks in more often than a probe timeout (305 ms), and is late each time.
#[test]
fn f16_a_program_with_repeated_pauses_within_a_timeout_repairs_losses_in_the_end() {
    let mut bench = Bench::measured();
    (1..=5).for_each(|number| bench.send(number, 200));
    for visit in 0..8 {
        let now = 60_000 + 200 * visit;
        bench.recovery.on_resumed_after_gap(at(now), DELAY);
        bench.ack(now, &[2..=5]);
        bench.timeout(now);
        let lost = if visit < 4 { [].as_slice() } else { &[1] };
        assert_eq!(bench.log.lost, lost, "at {now} ms");
        if visit == 1 {
            bench.send(6, now);
        }
    }
    // Sent during the pauses: it was not exempted during a whole one.
    let held = at(61_400 + 305);
    assert_eq!(bench.next_timeout(), Some(held));
    // Now it has: nothing holds its timer.
    bench.recovery.on_resumed_after_gap(at(61_600), DELAY);
    assert!(bench.next_timeout() < Some(at(61_600)));
}

/// Two stops within one timeout are one.
#[test]
fn f16_a_stop_soon_after_another_spares_the_same_packets() {
    let mut bench = Bench::measured();
    bench.send(1, 200);
    bench.recovery.on_resumed_after_gap(at(60_000), DELAY);
    bench.recovery.on_resumed_after_gap(at(60_200), DELAY);
    assert_eq!(bench.next_timeout(), Some(at(60_505)));
    assert_eq!(bench.timeout(60_504), TimerAction::None);
}
