//! The round-trip estimator, the learning thresholds and the ledger, each alone.

use super::*;

fn mark() -> RateMark {
    RateMark {
        delivered: 0,
        delivered_at: at(0),
        first_sent_at: at(0),
        app_limited: false,
    }
}

/// Acknowledges every open position of a range.
fn ack_through(ledger: &mut Ledger, mut from: u64, through: u64) {
    while let Some(position) = ledger.next_open(from, through) {
        ledger.acknowledge(position).unwrap();
        from = position + 1;
    }
}

#[test]
fn rtt_before_any_sample_is_the_initial_one() {
    let rtt = Rtt::new(ms(100));
    assert!(!rtt.has_sample());
    assert_eq!((rtt.smoothed(), rtt.variance()), (ms(100), ms(50)));
    assert_eq!((rtt.min(), rtt.latest()), (ms(100), ms(100)));
    assert_eq!(rtt.pto(ms(25)), ms(325));
}

#[test]
fn rtt_first_sample_replaces_the_initial_one() {
    let mut rtt = Rtt::new(ms(100));
    // RFC 9002 5.3: the first sample is taken whole, delay and all.
    rtt.update(ms(40), ms(10), ms(25));
    assert!(rtt.has_sample());
    assert_eq!((rtt.smoothed(), rtt.variance()), (ms(40), ms(20)));
    assert_eq!((rtt.min(), rtt.latest()), (ms(40), ms(40)));
}

#[test]
fn rtt_weighs_samples_as_rfc_9002_says() {
    let mut rtt = Rtt::new(ms(100));
    rtt.update(ms(40), ms(0), ms(25));
    rtt.update(ms(66), ms(10), ms(25));
    // Adjusted 56: variance 3/4 x 20 + 1/4 x 16, smoothed 7/8 x 40 + 1/8 x 56.
    assert_eq!((rtt.variance(), rtt.smoothed()), (ms(19), ms(42)));
    assert_eq!((rtt.min(), rtt.latest()), (ms(40), ms(66)));
    rtt.update(ms(34), ms(0), ms(25));
    assert_eq!((rtt.min(), rtt.smoothed()), (ms(34), ms(41)));
    assert_eq!(rtt.variance(), Duration::from_micros(16_250));
}

#[test]
fn rtt_believes_delays_only_as_announced_and_above_the_least() {
    let mut rtt = Rtt::new(ms(100));
    rtt.update(ms(40), ms(0), ms(25));
    rtt.update(ms(88), ms(60), ms(40));
    assert_eq!(rtt.smoothed(), ms(41), "40 of the 60 are believed");
    rtt.update(ms(49), ms(20), ms(40));
    assert_eq!(
        rtt.smoothed(),
        ms(42),
        "below the least: not believed at all"
    );
    rtt.update(ms(50), ms(60), ms(60));
    assert_eq!(rtt.smoothed(), ms(43), "more than the sample itself");
    // A delay that leads exactly to the least is believed.
    rtt.update(ms(59), ms(19), ms(60));
    assert_eq!(rtt.smoothed(), Duration::from_micros(42_625));
}

#[test]
fn rtt_timeout_never_falls_below_the_granularity() {
    let mut rtt = Rtt::new(ms(100));
    for _ in 0..200 {
        rtt.update(Duration::from_micros(20), Duration::ZERO, ms(1));
    }
    assert_eq!(rtt.pto(Duration::ZERO), Duration::from_micros(220));
    let (endless, most) = (Rtt::new(Duration::MAX), Duration::from_nanos(u64::MAX));
    assert_eq!(endless.pto(Duration::MAX), most, "saturates");
}

#[test]
fn loss_delay_has_a_floor_and_follows_the_larger_of_smoothed_and_latest() {
    let reordering = Reordering::new();
    let mut rtt = Rtt::new(ms(100));
    rtt.update(Duration::from_micros(20), Duration::ZERO, DELAY);
    assert_eq!(reordering.delay(&rtt), GRANULARITY);
    rtt.update(ms(80), Duration::ZERO, DELAY);
    assert_eq!(reordering.delay(&rtt), ms(90));
    let mut rtt = Rtt::new(ms(100));
    rtt.update(ms(80), Duration::ZERO, DELAY);
    rtt.update(ms(72), Duration::ZERO, DELAY);
    assert_eq!(reordering.delay(&rtt), Duration::from_micros(88_875));
}

#[test]
fn packet_threshold_grows_to_what_was_seen_and_no_further_than_its_cap() {
    let rtt = Rtt::new(ms(80));
    let mut reordering = Reordering::new();
    assert_eq!(reordering.packets(), 3);
    reordering.on_spurious(at(10), at(0), 2, &rtt);
    assert_eq!(reordering.packets(), 3, "it was not this threshold's fault");
    reordering.on_spurious(at(10), at(0), 3, &rtt);
    assert_eq!(reordering.packets(), 4);
    reordering.on_spurious(at(10), at(0), 20, &rtt);
    assert_eq!(reordering.packets(), 21);
    reordering.on_spurious(at(10), at(0), 5, &rtt);
    assert_eq!(reordering.packets(), 21);
    reordering.on_spurious(at(10), at(0), u64::MAX, &rtt);
    assert_eq!(reordering.packets(), MAX_PACKET_THRESHOLD);
    assert_eq!(reordering.delay(&rtt), ms(90), "nothing was late by time");
}

#[test]
fn time_threshold_grows_once_a_round_trip_up_to_two_round_trips() {
    let rtt = Rtt::new(ms(80));
    let mut reordering = Reordering::new();
    reordering.on_spurious(at(89), at(0), 1, &rtt);
    assert_eq!(reordering.delay(&rtt), ms(90), "came within the time");
    reordering.on_spurious(at(90), at(0), 1, &rtt);
    assert_eq!(reordering.delay(&rtt), ms(100));
    reordering.on_spurious(at(190), at(90), 1, &rtt);
    assert_eq!(
        reordering.delay(&rtt),
        ms(100),
        "sent before the last growth"
    );
    reordering.on_spurious(at(191), at(91), 1, &rtt);
    assert_eq!(reordering.delay(&rtt), ms(110));
    for i in 1..20 {
        reordering.on_spurious(at(1_000 * i + 200), at(1_000 * i), 1, &rtt);
    }
    assert_eq!(reordering.delay(&rtt), ms(160));
    assert_eq!(reordering.packets(), 3);
}

#[test]
fn thresholds_shrink_after_sixteen_genuine_episodes() {
    let rtt = Rtt::new(ms(80));
    let mut reordering = Reordering::new();
    reordering.on_spurious(at(100), at(0), 99, &rtt);
    assert_eq!(
        (reordering.packets(), reordering.delay(&rtt)),
        (100, ms(100))
    );
    let mut now = 1_000;
    let mut episodes = |reordering: &mut Reordering, count: u64| {
        for _ in 0..count {
            now += 100;
            reordering.on_losses(at(now), at(now - 50));
            // Sent before that episode was seen: the same one.
            reordering.on_losses(at(now + 10), at(now));
        }
    };
    episodes(&mut reordering, 15);
    assert_eq!(reordering.packets(), 100);
    episodes(&mut reordering, 1);
    assert_eq!((reordering.packets(), reordering.delay(&rtt)), (75, ms(90)));
    episodes(&mut reordering, 15);
    reordering.on_spurious(at(9_001), at(9_000), 1, &rtt);
    episodes(&mut reordering, 15);
    assert_eq!(
        reordering.packets(),
        75,
        "a spurious loss starts the count anew"
    );
    episodes(&mut reordering, 1 + 16 * 40);
    assert_eq!(
        (reordering.packets(), reordering.delay(&rtt)),
        (3, ms(90)),
        "down to the floor"
    );
}

#[test]
fn loss_runs_keep_the_longest() {
    let rtt = Rtt::new(ms(100));
    let mut run = LossRun::default();
    assert!(!run.is_persistent(&rtt, DELAY));
    for millis in [0, 916] {
        run.extend(at(millis));
    }
    assert!(run.is_persistent(&rtt, DELAY), "longer than 3 x 305");
    run.interrupt();
    run.extend(at(1_000));
    assert!(
        run.is_persistent(&rtt, DELAY),
        "a later short run takes nothing back"
    );
    let mut run = LossRun::default();
    for millis in [0, 915] {
        run.extend(at(millis));
    }
    assert!(!run.is_persistent(&rtt, DELAY));
}

#[test]
fn f06_ledger_is_empty_again_when_all_is_acknowledged() {
    let mut ledger = Ledger::new(0);
    let frames = [SentFrame::Close; 3];
    for round in 0..50_u64 {
        let first = round * 1_000;
        for number in first..first + 1_000 {
            ledger.record(number, at(round), 100, DATA, &frames, mark());
        }
        ack_through(&mut ledger, first, first + 999);
        ledger.expire(at(round));
        assert_eq!((ledger.in_flight(), ledger.flying()), (0, 0));
        assert_eq!(ledger.held(), (0, 0), "slots and frames");
    }
}

#[test]
fn f06_ledger_memory_follows_what_is_open() {
    let mut ledger = Ledger::new(0);
    let frames = [SentFrame::Close; 2];
    // A window of 100 that slides: frames keep their owners although places are reused.
    for number in 0..20_000_u64 {
        let own = [SentFrame::Mode { number }, SentFrame::Close];
        ledger.record(number, at(number), 100, DATA, &own, mark());
        if let Some(old) = number.checked_sub(100) {
            let slot = ledger.acknowledge(old).unwrap();
            assert_eq!(
                ledger.frames(&slot),
                [SentFrame::Mode { number: old }, frames[1]]
            );
            ledger.expire(at(number));
            let (slots, frames) = ledger.held();
            assert!(
                slots <= 101 && frames <= 2 * 1_024 + 2 * 101,
                "{slots} {frames}"
            );
        }
    }
    assert_eq!((ledger.in_flight(), ledger.flying()), (10_000, 100));
}

#[test]
fn f04_remembered_losses_are_capped() {
    let mut ledger = Ledger::new(0);
    for number in 0..10_000 {
        ledger.record(number, at(0), 100, DATA, &[], mark());
    }
    for number in 0..10_000 {
        ledger.give_up(number, Fate::Lost, at(1_000)).unwrap();
    }
    ledger.expire(at(0));
    assert_eq!(ledger.held().0, MAX_REMEMBERED);
    assert_eq!(
        ledger.next_open(0, 9_999),
        Some(10_000 - MAX_REMEMBERED as u64)
    );
    ledger.expire(at(1_000));
    assert_eq!(ledger.held().0, 0);
}

#[test]
fn f04_one_remembered_loss_does_not_hold_the_window_open_forever() {
    let mut ledger = Ledger::new(0);
    ledger.record(0, at(0), 100, DATA, &[], mark());
    ledger.give_up(0, Fate::Lost, at(1_000)).unwrap();
    let mut most = 0;
    for number in 1..50_000 {
        ledger.record(number, at(0), 100, DATA, &[], mark());
        ledger.acknowledge(number).unwrap();
        ledger.expire(at(0));
        most = most.max(ledger.held().0);
    }
    assert_eq!(most, 4 * MAX_REMEMBERED);
    assert_eq!(ledger.held().0, 0);
    ledger.expire(at(1_000));
    assert_eq!(ledger.held().0, 0);
}

#[test]
fn f04_unanswered_ack_only_packets_are_capped() {
    let mut ledger = Ledger::new(0);
    for number in 0..10_000 {
        ledger.record(number, at(0), 60, ACK_ONLY, &[SentFrame::Close], mark());
    }
    assert_eq!(ledger.held().0, MAX_SILENT);
    assert_eq!(ledger.next_open(0, 9_999), Some(10_000 - MAX_SILENT as u64));
    // Also behind an eliciting packet that stays open.
    let mut ledger = Ledger::new(0);
    ledger.record(0, at(0), 100, DATA, &[], mark());
    for number in 1..10_000 {
        ledger.record(number, at(0), 60, ACK_ONLY, &[], mark());
    }
    ledger.acknowledge(0).unwrap();
    assert_eq!(ledger.next_open(0, 9_999), Some(10_000 - MAX_SILENT as u64));
}

#[test]
fn ack_only_packets_are_forgotten_with_their_eliciting_neighbour() {
    let mut ledger = Ledger::new(0);
    ledger.record(0, at(0), 60, ACK_ONLY, &[], mark());
    ledger.record(1, at(0), 60, DATA, &[], mark());
    ledger.record(2, at(0), 60, ACK_ONLY, &[], mark());
    ledger.expire(at(0));
    assert_eq!(ledger.held().0, 3);
    ledger.acknowledge(1).unwrap();
    ledger.expire(at(0));
    assert_eq!(
        ledger.held().0,
        1,
        "0 and 1 went, 2 may still be acknowledged"
    );
    assert_eq!(ledger.next_open(0, 2), Some(2));
    // The cap's count was kept right: 4,095 more fit beside 2.
    for number in 3..3 + MAX_SILENT as u64 - 1 {
        ledger.record(number, at(0), 60, ACK_ONLY, &[], mark());
    }
    assert_eq!(ledger.next_open(0, 2), Some(2));
    ledger.record(5_000, at(0), 60, ACK_ONLY, &[], mark());
    assert_eq!(ledger.next_open(0, 2), None);
}

#[test]
fn next_open_stays_within_its_bounds() {
    let mut ledger = Ledger::new(0);
    for number in 0..10 {
        ledger.record(number, at(0), 60, DATA, &[], mark());
    }
    ack_through(&mut ledger, 2, 5);
    assert_eq!(ledger.next_open(0, 9), Some(0));
    assert_eq!(ledger.next_open(2, 5), None);
    assert_eq!(ledger.next_open(2, 6), Some(6));
    assert_eq!(ledger.next_open(3, 9), Some(6));
    assert_eq!(ledger.next_open(9, 9), Some(9));
    assert_eq!(ledger.next_open(10, u64::MAX), None, "not sent yet");
}

#[test]
fn the_oldest_in_flight_is_found_past_the_resolved_ones() {
    let mut ledger = Ledger::new(0);
    assert!(ledger.oldest_flying().is_none());
    for number in 0..4 {
        ledger.record(number, at(number), 60, DATA, &[], mark());
    }
    let oldest = ledger.oldest_flying().unwrap();
    assert_eq!((oldest.position, oldest.crossed_acked), (0, false));
    ledger.give_up(0, Fate::Lost, at(9)).unwrap();
    let oldest = ledger.oldest_flying().unwrap();
    assert_eq!((oldest.position, oldest.crossed_acked), (1, false));
    ledger.acknowledge(1).unwrap();
    ledger.give_up(2, Fate::Lost, at(9)).unwrap();
    let oldest = ledger.oldest_flying().unwrap();
    assert_eq!((oldest.position, oldest.crossed_acked), (3, true));
    assert_eq!(oldest.slot.sent_at, at(3));
    ledger.acknowledge(3).unwrap();
    assert!(ledger.oldest_flying().is_none());
    ledger.record(4, at(4), 60, DATA, &[], mark());
    assert_eq!(ledger.oldest_flying().unwrap().position, 4);
}
