//! The round-trip estimator, the learning thresholds and the sent packets, each alone.

use super::*;
use core::ops::Range;

/// Acknowledges every open position of a range.
fn ack_through(sent_packets: &mut SentPackets<Sample>, mut from: u64, through: u64) {
    while let Some(sent_range) = sent_packets.next_open(from, through) {
        sent_packets.acknowledge(&sent_range);
        from = sent_range.positions.end;
    }
}

/// Returns waits of `millis` at the peer, which announced at most `announced`.
fn reported(millis: u64, announced: u64) -> AckDelays {
    AckDelays {
        reported: ms(millis),
        max: ms(announced),
        ..AckDelays::default()
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
    rtt.update(ms(40), reported(10, 25));
    assert!(rtt.has_sample());
    assert_eq!((rtt.smoothed(), rtt.variance()), (ms(40), ms(20)));
    assert_eq!((rtt.min(), rtt.latest()), (ms(30), ms(40)));
}

#[test]
fn rtt_weighs_samples_as_rfc_9002_says() {
    let mut rtt = Rtt::new(ms(100));
    rtt.update(ms(40), reported(0, 25));
    rtt.update(ms(66), reported(10, 25));
    // Adjusted 56: variance 3/4 x 20 + 1/4 x 16, smoothed 7/8 x 40 + 1/8 x 56.
    assert_eq!((rtt.variance(), rtt.smoothed()), (ms(19), ms(42)));
    assert_eq!((rtt.min(), rtt.latest()), (ms(40), ms(66)));
    rtt.update(ms(34), reported(0, 25));
    assert_eq!((rtt.min(), rtt.smoothed()), (ms(34), ms(41)));
    assert_eq!(rtt.variance(), Duration::from_micros(16_250));
}

/// A mean below the least would be no queue at all.
#[test]
fn the_least_path_time_excludes_waits_like_its_mean() {
    let mut rtt = Rtt::new(ms(100));
    rtt.update(ms(40), reported(50, 25));
    assert_eq!((rtt.min(), rtt.path()), (ms(40), ms(40)), "not known");
    for _ in 0..100 {
        rtt.update(ms(540), reported(500, 25));
    }
    rtt.update(ms(548), reported(500, 25));
    assert_eq!((rtt.min(), rtt.path()), (ms(40), ms(41)));
    assert!(rtt.smoothed() > ms(500), "a probe waits for the program");
}

#[test]
fn rtt_believes_delays_only_as_announced_and_above_the_least() {
    let mut rtt = Rtt::new(ms(100));
    rtt.update(ms(40), reported(0, 25));
    rtt.update(ms(88), reported(60, 40));
    assert_eq!(rtt.smoothed(), ms(41), "40 of the 60 are believed");
    rtt.update(ms(49), reported(20, 40));
    assert_eq!(
        rtt.smoothed(),
        ms(42),
        "below the least: not believed at all"
    );
    rtt.update(ms(50), reported(60, 60));
    assert_eq!(rtt.smoothed(), ms(43), "more than the sample itself");
    // A delay that leads exactly to the least is believed.
    rtt.update(ms(59), reported(19, 60));
    assert_eq!(rtt.smoothed(), Duration::from_micros(42_625));
}

#[test]
fn rtt_timeout_never_falls_below_the_granularity() {
    let mut rtt = Rtt::new(ms(100));
    for _ in 0..200 {
        rtt.update(Duration::from_micros(20), AckDelays::default());
    }
    assert_eq!(rtt.pto(Duration::ZERO), Duration::from_micros(220));
    let (endless, most) = (Rtt::new(Duration::MAX), Duration::from_nanos(u64::MAX));
    assert_eq!(endless.pto(Duration::MAX), most, "saturates");
}

#[test]
fn loss_delay_has_a_floor_and_follows_the_larger_of_smoothed_and_latest() {
    let reordering = Reordering::new();
    let mut rtt = Rtt::new(ms(100));
    rtt.update(Duration::from_micros(20), AckDelays::default());
    assert_eq!(reordering.delay(&rtt), GRANULARITY);
    rtt.update(ms(80), AckDelays::default());
    assert_eq!(reordering.delay(&rtt), ms(90));
    let mut rtt = Rtt::new(ms(100));
    rtt.update(ms(80), AckDelays::default());
    rtt.update(ms(72), AckDelays::default());
    assert_eq!(reordering.delay(&rtt), Duration::from_micros(88_875));
}

#[test]
fn the_packet_threshold_grows_up_to_its_cap_then_time_decides() {
    let rtt = Rtt::new(ms(80));
    let mut reordering = Reordering::new();
    assert_eq!(reordering.packets(), 3);
    reordering.on_spurious(ms(10), 2, &rtt);
    assert_eq!(reordering.packets(), 3, "it was not this threshold's fault");
    reordering.on_spurious(ms(10), 3, &rtt);
    assert_eq!(reordering.packets(), 4);
    reordering.on_spurious(ms(10), 20, &rtt);
    assert_eq!(reordering.packets(), 23, "an eighth to spare");
    reordering.on_spurious(ms(10), 5, &rtt);
    assert_eq!(reordering.packets(), 23);
    // And 56 to spare.
    reordering.on_spurious(ms(10), MAX_PACKET_THRESHOLD - 57, &rtt);
    assert_eq!(reordering.packets(), MAX_PACKET_THRESHOLD);
    reordering.on_spurious(ms(10), MAX_PACKET_THRESHOLD, &rtt);
    assert_eq!(reordering.packets(), u64::MAX);
    assert_eq!(reordering.delay(&rtt), ms(90), "nothing was late by time");
    (0..16).for_each(|episode| reordering.on_losses(at(2 * episode + 1), at(2 * episode)));
    assert_eq!(reordering.packets(), MAX_PACKET_THRESHOLD * 3 / 4);
}

#[test]
fn the_time_threshold_grows_up_to_three_round_trips() {
    let rtt = Rtt::new(ms(80));
    let mut reordering = Reordering::new();
    reordering.on_spurious(ms(89), 1, &rtt);
    assert_eq!(reordering.delay(&rtt), ms(90), "came within the time");
    reordering.on_spurious(ms(90), 1, &rtt);
    assert_eq!(reordering.delay(&rtt), ms(100));
    reordering.on_spurious(ms(135), 1, &rtt);
    assert_eq!(reordering.delay(&rtt), ms(145), "an eighth to spare");
    reordering.on_spurious(ms(101), 1, &rtt);
    assert_eq!(reordering.delay(&rtt), ms(145), "it spares that too");
    let mut queued = Rtt::new(ms(80));
    queued.update(ms(400), AckDelays::default());
    assert_eq!(reordering.delay(&queued), ms(465));
    reordering.on_spurious(ms(9_000), 1, &rtt);
    assert_eq!(reordering.delay(&rtt), ms(240));
    assert_eq!(reordering.packets(), 3);
}

#[test]
fn thresholds_shrink_after_sixteen_genuine_episodes() {
    let rtt = Rtt::new(ms(80));
    let mut reordering = Reordering::new();
    reordering.on_spurious(ms(98), 88, &rtt);
    assert_eq!(
        (reordering.packets(), reordering.delay(&rtt)),
        (100, ms(108))
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
    assert_eq!(
        (reordering.packets(), reordering.delay(&rtt)),
        (75, ms(101))
    );
    episodes(&mut reordering, 15);
    reordering.on_spurious(ms(1), 1, &rtt);
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
fn the_longest_span_of_losses_counts() {
    let rtt = Rtt::new(ms(100));
    let mut run = PersistentCongestion::default();
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
    let mut run = PersistentCongestion::default();
    for millis in [0, 915] {
        run.extend(at(millis));
    }
    assert!(!run.is_persistent(&rtt, DELAY));
}

#[test]
fn f06_ledger_is_empty_again_when_all_is_acknowledged() {
    let mut sent_packets = SentPackets::new(0);
    let frames = [content(0); 3];
    for round in 0..50_u64 {
        let first = round * 1_000;
        for number in first..first + 1_000 {
            sent_packets.record(number..=number, sent(round, 100, DATA), &frames);
        }
        ack_through(&mut sent_packets, first, first + 999);
        sent_packets.expire(at(round));
        assert_eq!(
            (sent_packets.in_flight(), sent_packets.packets_in_flight()),
            (0, 0)
        );
        assert_eq!(sent_packets.held(), (0, 0), "slots and frames");
    }
}

#[test]
fn f06_memory_of_sent_packets_follows_the_open_ones() {
    let mut sent_packets = SentPackets::new(0);
    let frames = [content(0); 2];
    // A window of 100 that slides: frames keep their owners although positions are reused.
    for number in 0..20_000_u64 {
        let own = [content(number), content(0)];
        sent_packets.record(number..=number, sent(number, 100, DATA), &own);
        if let Some(old) = number.checked_sub(100) {
            let acked = packet(&sent_packets, old);
            sent_packets.acknowledge(&acked);
            assert_eq!(*sent_packets.carried(&acked), [content(old), frames[1]]);
            sent_packets.expire(at(number));
            let (slots, frames) = sent_packets.held();
            assert!(
                slots <= 101 && frames <= 2 * 1_024 + 2 * 101,
                "{slots} {frames}"
            );
        }
    }
    assert_eq!(
        (sent_packets.in_flight(), sent_packets.packets_in_flight()),
        (10_000, 100)
    );
}

#[test]
fn f04_remembered_losses_are_capped() {
    let mut sent_packets = SentPackets::new(0);
    for number in 0..10_000 {
        sent_packets.record(number..=number, sent(0, 100, DATA), &[]);
    }
    for number in 0..10_000 {
        let lost = packet(&sent_packets, number);
        sent_packets.give_up(&lost, PacketState::Lost, at(1_000));
    }
    sent_packets.expire(at(0));
    assert_eq!(sent_packets.held().0, MAX_REMEMBERED);
    assert_eq!(
        first_open(&sent_packets, 0, 9_999),
        Some(10_000 - MAX_REMEMBERED as u64)
    );
    sent_packets.expire(at(1_000));
    assert_eq!(sent_packets.held().0, 0);
}

#[test]
fn f04_one_remembered_loss_does_not_hold_the_window_open_forever() {
    let mut sent_packets = SentPackets::new(0);
    sent_packets.record(0..=0, sent(0, 100, DATA), &[]);
    let lost = packet(&sent_packets, 0);
    sent_packets.give_up(&lost, PacketState::Lost, at(1_000));
    let mut most = 0;
    for number in 1..50_000 {
        sent_packets.record(number..=number, sent(0, 100, DATA), &[]);
        sent_packets.acknowledge(&packet(&sent_packets, number));
        sent_packets.expire(at(0));
        most = most.max(sent_packets.held().0);
    }
    assert_eq!(most, 4 * MAX_REMEMBERED);
    assert_eq!(sent_packets.held().0, 0);
    sent_packets.expire(at(1_000));
    assert_eq!(sent_packets.held().0, 0);
}

#[test]
fn f04_unanswered_ack_only_packets_are_capped() {
    let mut sent_packets = SentPackets::new(0);
    for number in 0..10_000 {
        sent_packets.record(number..=number, sent(0, 60, ACK_ONLY), &[content(0)]);
    }
    assert_eq!(sent_packets.held().0, MAX_SILENT);
    assert_eq!(
        first_open(&sent_packets, 0, 9_999),
        Some(10_000 - MAX_SILENT as u64)
    );
}

/// A peer that makes us acknowledge, and acknowledges all our packets but the first, costs no
/// memory, however long it continues.
#[test]
fn f04_one_ack_only_packet_does_not_hold_those_behind_it_forever() {
    let mut sent_packets = SentPackets::new(0);
    for number in 0..100_000 {
        sent_packets.record(number..=number, sent(0, 60, ACK_ONLY), &[content(0)]);
        if number > 0 {
            sent_packets.acknowledge(&packet(&sent_packets, number));
        }
        sent_packets.expire(at(number));
        assert!(sent_packets.held().0 <= 4 * MAX_REMEMBERED + 4, "{number}");
    }
    assert!(
        sent_packets.held().0 < 4 * MAX_REMEMBERED,
        "it was forgotten"
    );
}

/// A peer that acknowledges nothing, but makes us acknowledge (PING), costs no memory, however long
/// it continues.
#[test]
fn f04_ack_only_packets_behind_one_in_flight_are_capped() {
    let mut sent_packets = SentPackets::new(0);
    let most = MAX_SILENT as u64;
    for number in 0..most {
        sent_packets.record(number..=number, sent(0, 60, ACK_ONLY), &[content(0)]);
    }
    sent_packets.record(most..=most, sent(0, 100, DATA), &[content(0)]);
    let (open, last) = (most, 5 * most);
    for number in open + 1..=last {
        sent_packets.record(number..=number, sent(0, 60, ACK_ONLY), &[content(0)]);
        assert!(sent_packets.batches() <= MAX_SILENT + 1, "{number}");
        assert!(sent_packets.held().1 <= 2 * MAX_SILENT + 2, "{number}");
    }
    assert_eq!(
        first_open(&sent_packets, 0, last),
        Some(open),
        "older ones made way"
    );
    assert_eq!(first_open(&sent_packets, open + 1, last), Some(open + 1));
    let forgotten = open + most + 1;
    assert_eq!(
        first_open(&sent_packets, forgotten, last),
        None,
        "newer ones count as told"
    );
    // Packets sent then are remembered.
    sent_packets.record(last + 1..=last + 1, sent(0, 100, DATA), &[]);
    sent_packets.acknowledge(&packet(&sent_packets, open));
    sent_packets.acknowledge(&packet(&sent_packets, last + 1));
    sent_packets.expire(at(0));
    assert_eq!((sent_packets.batches(), sent_packets.held()), (0, (0, 0)));
    sent_packets.record(last + 2..=last + 2, sent(0, 60, ACK_ONLY), &[]);
    assert_eq!(first_open(&sent_packets, 0, last + 2), Some(last + 2));
}

#[test]
fn ack_only_packets_are_forgotten_with_their_eliciting_neighbour() {
    let mut sent_packets = SentPackets::new(0);
    sent_packets.record(0..=0, sent(0, 60, ACK_ONLY), &[]);
    sent_packets.record(1..=1, sent(0, 60, DATA), &[]);
    sent_packets.record(2..=2, sent(0, 60, ACK_ONLY), &[]);
    sent_packets.expire(at(0));
    assert_eq!(sent_packets.held().0, 3);
    sent_packets.acknowledge(&packet(&sent_packets, 1));
    sent_packets.expire(at(0));
    assert_eq!(
        sent_packets.held().0,
        1,
        "0 and 1 went, 2 may still be acknowledged"
    );
    assert_eq!(first_open(&sent_packets, 0, 2), Some(2));
    // The cap's count was kept right: 4,095 more fit beside 2.
    for number in 3..3 + MAX_SILENT as u64 - 1 {
        sent_packets.record(number..=number, sent(0, 60, ACK_ONLY), &[]);
    }
    assert_eq!(first_open(&sent_packets, 0, 2), Some(2));
    sent_packets.record(5_000..=5_000, sent(0, 60, ACK_ONLY), &[]);
    assert_eq!(first_open(&sent_packets, 0, 2), None);
}

#[test]
fn next_open_stays_within_its_bounds() {
    let mut sent_packets = SentPackets::new(0);
    for number in 0..10 {
        sent_packets.record(number..=number, sent(0, 60, DATA), &[]);
    }
    ack_through(&mut sent_packets, 2, 5);
    assert_eq!(first_open(&sent_packets, 0, 9), Some(0));
    assert_eq!(first_open(&sent_packets, 2, 5), None);
    assert_eq!(first_open(&sent_packets, 2, 6), Some(6));
    assert_eq!(first_open(&sent_packets, 3, 9), Some(6));
    assert_eq!(first_open(&sent_packets, 9, 9), Some(9));
    assert_eq!(
        first_open(&sent_packets, 10, u64::MAX),
        None,
        "not sent yet"
    );
}

#[test]
fn the_oldest_in_flight_is_found_past_the_resolved_ones() {
    let mut sent_packets = SentPackets::new(0);
    assert!(sent_packets.oldest_in_flight().is_none());
    for number in 0..4 {
        sent_packets.record(number..=number, sent(number, 60, DATA), &[]);
    }
    let oldest = sent_packets.oldest_in_flight().unwrap();
    assert_eq!((oldest.position, oldest.crossed_acked), (0, false));
    let lost = packet(&sent_packets, 0);
    sent_packets.give_up(&lost, PacketState::Lost, at(9));
    let oldest = sent_packets.oldest_in_flight().unwrap();
    assert_eq!((oldest.position, oldest.crossed_acked), (1, false));
    sent_packets.acknowledge(&packet(&sent_packets, 1));
    let lost = packet(&sent_packets, 2);
    sent_packets.give_up(&lost, PacketState::Lost, at(9));
    let oldest = sent_packets.oldest_in_flight().unwrap();
    assert_eq!((oldest.position, oldest.crossed_acked), (3, true));
    assert_eq!(oldest.packet.sent.sent_at, at(3));
    sent_packets.acknowledge(&packet(&sent_packets, 3));
    assert!(sent_packets.oldest_in_flight().is_none());
    sent_packets.record(4..=4, sent(4, 60, DATA), &[]);
    assert_eq!(sent_packets.oldest_in_flight().unwrap().position, 4);
}

fn data(of: u32, start: u64, end: u64) -> Sample {
    Sample::Bytes { of, start, end }
}

/// The part of a batch that is found: positions and what they carried.
fn found(
    sent_packets: &SentPackets<Sample>,
    from: u64,
    through: u64,
) -> Option<(Range<u64>, Sample)> {
    let sent_range = sent_packets.next_open(from, through)?;
    let carried = *sent_packets.carried(&sent_range).first()?;
    Some((sent_range.positions, carried))
}

/// Three packets that carried 100 bytes each from 500 on, and one that carried what follows.
#[test]
fn consecutive_pieces_of_one_length_are_one_batch() {
    let mut sent_packets = SentPackets::new(0);
    let alike = sent(0, 130, DATA);
    sent_packets.record(0..=0, alike, &[data(1, 500, 600)]);
    sent_packets.record(1..=2, alike, &[data(1, 600, 800)]);
    assert_eq!(found(&sent_packets, 0, 9), Some((0..3, data(1, 500, 800))));
    assert_eq!(sent_packets.held(), (3, 1), "one frame for all");
    let others = [
        (alike, data(1, 800, 899)),
        (alike, data(1, 899, 998)),
        (sent(1, 130, DATA), data(1, 998, 1_097)),
        (sent(1, 131, DATA), data(1, 1_097, 1_196)),
        (sent(1, 131, DATA), data(1, 1_197, 1_296)),
        (sent(1, 131, DATA), data(2, 1_296, 1_395)),
        (sent(1, 131, PROBE), data(2, 1_395, 1_494)),
        (sent(1, 131, ACK_ONLY), data(2, 1_494, 1_593)),
        (sent(1, 131, ACK_ONLY), data(2, 1_593, 1_692)),
    ];
    for (number, (other, frame)) in (3..).zip(others) {
        sent_packets.record(number..=number, other, &[frame]);
    }
    let mut at = 3;
    let mut batches = Vec::new();
    while let Some((positions, _)) = found(&sent_packets, at, 99) {
        at = positions.end;
        batches.push(positions);
    }
    assert_eq!(
        batches,
        [3..5, 5..6, 6..7, 7..8, 8..9, 9..10, 10..11, 11..12]
    );
}

#[test]
fn the_fate_of_some_packets_of_a_batch_leaves_the_others() {
    let mut sent_packets = SentPackets::new(0);
    sent_packets.record(0..=99, sent(0, 130, DATA), &[data(1, 0, 10_000)]);
    assert_eq!(
        (sent_packets.packets_in_flight(), sent_packets.in_flight()),
        (100, 13_000)
    );
    assert_eq!(
        found(&sent_packets, 60, 69),
        Some((60..70, data(1, 6_000, 7_000)))
    );
    ack_through(&mut sent_packets, 60, 69);
    let lost = packet(&sent_packets, 3);
    sent_packets.give_up(&lost, PacketState::Lost, at(9));
    assert_eq!(*sent_packets.carried(&lost), [data(1, 300, 400)]);
    assert_eq!(
        (sent_packets.packets_in_flight(), sent_packets.in_flight()),
        (89, 89 * 130)
    );
    assert_eq!(found(&sent_packets, 0, 99), Some((0..3, data(1, 0, 300))));
    assert_eq!(found(&sent_packets, 3, 99), Some((3..4, data(1, 300, 400))));
    assert_eq!(
        found(&sent_packets, 4, 99),
        Some((4..60, data(1, 400, 6_000)))
    );
    assert_eq!(
        found(&sent_packets, 60, 99),
        Some((70..100, data(1, 7_000, 10_000)))
    );
    let packets_in_flight: u64 = sent_packets
        .in_flight_from(130)
        .iter()
        .map(SentRange::count)
        .sum();
    assert_eq!(
        (packets_in_flight, sent_packets.carriers().count()),
        (89, 89)
    );
    assert!(sent_packets.in_flight_from(131).is_empty());
    ack_through(&mut sent_packets, 0, 99);
    sent_packets.expire(at(0));
    assert_eq!(
        (sent_packets.packets_in_flight(), sent_packets.in_flight()),
        (0, 0)
    );
    assert_eq!(sent_packets.held(), (0, 0));
}
