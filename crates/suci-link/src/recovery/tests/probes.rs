//! The probe timeout.

use super::*;

#[test]
fn probe_timeout_counts_from_the_newest_eliciting_packet() {
    let mut bench = Bench::measured();
    assert_eq!(bench.next_timeout(), None, "nothing in flight");
    bench.send(1, 200);
    assert_eq!(bench.next_timeout(), Some(at(505)));
    bench.send(2, 300);
    bench.send_kind(3, 400, 60, ACK_ONLY);
    assert_eq!(bench.next_timeout(), Some(at(605)));
    assert_eq!(bench.timeout(604), TimerAction::None);
    assert_eq!(bench.timeout(605), TimerAction::Probe { count: 1 });
    assert!(bench.log.lost.is_empty());
    assert_eq!(bench.recovery.in_flight(), 2_000);
}

#[test]
fn probe_timeout_begins_anew_with_every_ack_of_something_eliciting() {
    let mut bench = Bench::measured();
    bench.send(1, 200);
    bench.send(2, 200);
    bench.send_kind(3, 200, 60, ACK_ONLY);
    bench.ack(480, &[1..=1]);
    let pto = bench.recovery.rtt().pto(DELAY);
    assert_eq!(bench.next_timeout(), Some(at(480) + pto));
    bench.ack(490, &[1..=1]);
    assert_eq!(
        bench.next_timeout(),
        Some(at(480) + pto),
        "a repetition is no progress"
    );
}

#[test]
fn probe_timeout_begins_anew_when_losses_are_declared() {
    let mut bench = Bench::measured();
    (1..=3).for_each(|number| bench.send(number, 200));
    bench.ack(250, &[2..=2]);
    assert!(matches!(
        bench.timeout(9_000),
        TimerAction::LossesDeclared(_)
    ));
    assert_eq!(bench.log.lost, [1]);
    let pto = bench.recovery.rtt().pto(DELAY);
    assert_eq!(
        bench.next_timeout(),
        Some(at(9_000) + pto),
        "time to send the repetition"
    );
}

#[test]
fn probe_timeout_before_any_measurement_uses_the_initial_round_trip() {
    let mut bench = Bench::new();
    bench.send(0, 0);
    assert_eq!(bench.next_timeout(), Some(at(100 + 4 * 50 + 5)));
}

#[test]
fn back_off_doubles_up_to_three_seconds_and_ends_with_an_ack() {
    let mut bench = Bench::measured();
    bench.send(1, 200);
    let mut now = 200;
    for (i, wait) in [305, 610, 1_220, 2_440, 3_000, 3_000, 3_000]
        .into_iter()
        .enumerate()
    {
        now += wait;
        assert_eq!(bench.next_timeout(), Some(at(now)), "{i}");
        let count = if i == 0 { 1 } else { 2 };
        assert_eq!(bench.timeout(now), TimerAction::Probe { count });
        bench.send(2 + i as u64, now);
    }
    assert_eq!(bench.recovery.pto_count(), 7);
    let newest = 8;
    bench.ack(now + 100, &[newest..=newest]);
    assert_eq!(bench.recovery.pto_count(), 0);
    bench.send(9, now + 200);
    let pto = bench.recovery.rtt().pto(DELAY);
    assert_eq!(bench.next_timeout(), Some(at(now + 200) + pto));
}

/// The peer was stopped during its first exchange: its timeout by that sample is 15 s.
#[test]
fn f16_a_first_round_trip_of_five_seconds_bounds_the_probe_timeout() {
    let mut bench = Bench::new();
    bench.send(1, 0);
    let ranges = [1..=1];
    let delays = reported(ms(4_999));
    let acked = (bench.recovery).on_ack(at(5_000), delays, ranges.into_iter(), &mut bench.log);
    assert!(acked.is_ok());
    assert_eq!(bench.recovery.rtt().smoothed(), ms(5_000));
    assert_eq!(bench.recovery.rtt().path(), ms(1));
    bench.send(2, 6_000);
    assert_eq!(bench.next_timeout(), Some(at(6_000) + MAX_BACKOFF));
}

#[test]
fn a_probe_that_could_not_be_sent_does_not_spin() {
    let mut bench = Bench::measured();
    bench.send(1, 200);
    assert_eq!(bench.timeout(700), TimerAction::Probe { count: 1 });
    // The next timeout lies ahead although nothing was sent.
    assert_eq!(bench.timeout(700), TimerAction::None);
    assert_eq!(bench.next_timeout(), Some(at(700 + 610)));
}

#[test]
fn f19_probing_never_ends_while_something_is_in_flight() {
    let mut bench = Bench::measured();
    bench.send(1, 200);
    for _ in 0..1_000 {
        let deadline = bench.next_timeout().unwrap();
        let action = bench.recovery.on_timeout(deadline, DELAY, &mut bench.log);
        assert!(matches!(action, TimerAction::Probe { .. }));
        let next = bench.next_timeout().unwrap();
        assert!(next > deadline && next.since(deadline) <= MAX_BACKOFF);
    }
    assert_eq!(bench.recovery.pto_count(), 1_000);
}

#[test]
fn f16_a_pause_postpones_the_probe_by_one_timeout() {
    let mut bench = Bench::measured();
    bench.send(1, 200);
    bench.recovery.on_resumed_after_gap(at(60_000), DELAY);
    assert_eq!(bench.next_timeout(), Some(at(60_305)));
    assert_eq!(bench.timeout(60_304), TimerAction::None);
    assert_eq!(bench.timeout(60_305), TimerAction::Probe { count: 1 });
    assert_eq!(bench.next_timeout(), Some(at(60_305 + 610)));
}

#[test]
fn f16_a_pause_never_brings_a_deadline_forward() {
    let mut bench = Bench::measured();
    bench.send(1, 200);
    bench.timeout(505);
    bench.timeout(1_115);
    bench.recovery.on_resumed_after_gap(at(1_200), DELAY);
    assert_eq!(bench.next_timeout(), Some(at(1_115 + 1_220)));
}

#[test]
fn a_path_slower_than_the_longest_back_off_keeps_its_own_timeout() {
    let mut pto = Pto::default();
    let rtt = Rtt::new(Duration::from_secs(2));
    assert_eq!(pto.deadline(&rtt, DELAY), None, "nothing sent");
    pto.restart(at(0));
    let own = Duration::from_secs(6) + DELAY;
    assert_eq!(pto.deadline(&rtt, DELAY), Some(at(0) + own));
    pto.on_fired(at(10_000));
    assert_eq!(pto.deadline(&rtt, DELAY), Some(at(10_000) + own));
}

#[test]
fn back_off_survives_any_count() {
    let mut pto = Pto::default();
    let rtt = Rtt::new(Duration::ZERO);
    pto.restart(at(0));
    for _ in 0..100 {
        pto.on_fired(at(0));
    }
    // 200 us x 2^16 is 13 s: cut.
    assert_eq!(pto.deadline(&rtt, Duration::ZERO), Some(at(3_000)));
    assert_eq!(pto.count(), 100);
    pto.on_progress(at(0));
    assert_eq!(
        pto.deadline(&rtt, Duration::ZERO),
        Some(Instant::ZERO + GRANULARITY)
    );
}

#[test]
fn loss_timer_goes_before_the_probe_timer() {
    let mut bench = Bench::measured();
    bench.send(1, 200);
    bench.send(2, 200);
    bench.ack(250, &[2..=2]);
    // Both would be due by now.
    assert!(matches!(
        bench.timeout(9_000),
        TimerAction::LossesDeclared(_)
    ));
    assert_eq!(bench.recovery.pto_count(), 0);
}

/// A probe always finds room, and what was kept back may go with it: however many packets with
/// control are not answered, one makes room each time.
#[test]
fn f04_a_probe_takes_the_place_of_the_oldest_packet_with_control() {
    let mut bench = Bench::measured();
    bench.send(1, 200);
    let last = 1 + MAX_CONTROL;
    (2..last).for_each(|number| bench.send_kind(number, 200, 60, CONTROL));
    assert_eq!(bench.timeout(505), TimerAction::Probe { count: 1 });
    assert!(bench.log.lost.is_empty(), "there is room");
    bench.send_kind(last, 505, 60, CONTROL);
    assert_eq!(bench.timeout(2_000), TimerAction::Probe { count: 2 });
    assert_eq!((&bench.log.lost[..], bench.log.frames.len()), (&[2][..], 1));
    assert_eq!(bench.recovery.control_in_flight(), MAX_CONTROL - 1);
    assert_eq!(bench.recovery.in_flight(), 1_000 + 60 * (MAX_CONTROL - 1));
    assert_eq!(bench.timeout(9_000), TimerAction::Probe { count: 2 });
    assert_eq!(bench.log.lost, [2], "the room was not taken");
    bench.log = Log::default();
    assert_eq!(bench.ack(9_100, &[2..=2]), AckSummary::default());
    bench.ack(9_200, &[1..=last]);
    assert_eq!(bench.log.acked.len() as u64, MAX_CONTROL);
    assert_eq!(bench.recovery.control_in_flight(), 0);
}

#[test]
fn probes_repeat_the_oldest_packets_that_carry_something() {
    let mut bench = Bench::measured();
    let (number, matters) = (7, false);
    let nothing = Sample::Other { number, matters };
    (1..=2).for_each(|number| bench.send(number, 200));
    bench.recovery.on_sent(3..=3, at(200), 60, DATA, &[nothing]);
    bench.recovery.on_sent(4..=4, at(200), 60, DATA, &[]);
    bench.send(5, 200);
    bench.send(6, 200);
    bench.ack(250, &[1..=1]);
    bench.log = Log::default();
    bench.recovery.repeat_oldest(2, &mut bench.log);
    assert_eq!(bench.log.lost, [2, 5]);
    assert_eq!(
        bench.recovery.in_flight(),
        1_000 + 60 + 60 + 1_000 + 1_000,
        "nothing is given up"
    );
    bench.ack(260, &[2..=6]);
    assert_eq!(bench.log.acked, [2, 3, 4, 5, 6]);
}
