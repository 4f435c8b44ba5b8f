//! Rates over time, whole trains, and waits that are worth sleeping for.

use super::{BURST_PACKETS, MIN_WAIT, OVERSLEEP, Pacer};
use crate::limits::MAX_DATAGRAM;
use crate::time::{Duration, Instant};
use proptest::prelude::*;

const MTU: usize = 1_472;
/// Bytes that may always go back to back.
const BURST: u64 = BURST_PACKETS * MTU as u64;
const START: Instant = Instant::from_nanos(1_000_000_000);

/// Sends packets of `size` whenever allowed for `time`, sleeping as told; returns bytes and sleeps.
fn run(pacer: &mut Pacer, rate: u64, size: u64, time: Duration) -> (u64, u64) {
    let (mut now, mut sent, mut sleeps) = (START, 0, 0);
    while now.since(START) < time {
        let mut budget = pacer.budget(now, rate);
        while budget >= size {
            pacer.consume(size);
            sent += size;
            budget -= size;
        }
        let next = pacer.next_time(now, rate, size);
        assert!(
            next.since(now) >= MIN_WAIT,
            "a wait of {:?}",
            next.since(now)
        );
        now = next;
        sleeps += 1;
    }
    (sent, sleeps)
}

#[test]
fn holds_the_rate() {
    // 1 Mbit/s, 100 Mbit/s, 10 Gbit/s.
    for rate in [125_000, 12_500_000, 1_250_000_000] {
        let mut pacer = Pacer::new(START, MTU);
        let (sent, _) = run(&mut pacer, rate, MTU as u64, Duration::from_secs(1));
        let expected = rate as f64;
        let burst = 20.0 * MTU as f64 + rate as f64 * 0.001;
        assert!((sent as f64) >= 0.99 * expected, "{sent} at {rate}");
        assert!((sent as f64) <= expected + burst, "{sent} at {rate}");
    }
}

#[test]
fn the_pacer_sleeps_at_most_once_per_shortest_wait() {
    let mut pacer = Pacer::new(START, MTU);
    let (_, sleeps) = run(
        &mut pacer,
        1_250_000_000,
        MTU as u64,
        Duration::from_secs(1),
    );
    assert!(sleeps <= 10_000, "{sleeps}");
}

#[test]
fn whole_trains_pass_at_high_rates() {
    // 40 Gbit/s: even train after train right after the bucket was used up.
    let (rate, train) = (5_000_000_000, MAX_DATAGRAM as u64);
    let mut pacer = Pacer::new(START, MTU);
    let mut now = START;
    for _ in 0..1_000 {
        let budget = pacer.budget(now, rate);
        assert!(budget >= train, "{budget} at {now:?}");
        pacer.consume(train);
        now += Duration::from_micros(14);
    }
}

#[test]
fn the_pacer_does_not_limit_loopback() {
    // A window of 256 KiB and a round trip of 50 us: the whole window at once, each time.
    let window = 256 << 10;
    let rate = window * 5 / 4 * 20_000;
    let mut pacer = Pacer::new(START, 65_507);
    let mut now = START;
    for _ in 0..1_000 {
        assert!(pacer.budget(now, rate) >= window);
        pacer.consume(window);
        now += Duration::from_micros(50);
    }
}

#[test]
fn a_quarter_of_a_millisecond_passes_after_a_pause_at_a_gigabit() {
    let mut pacer = Pacer::new(START, MTU);
    pacer.consume(10 * MTU as u64);
    let now = START + Duration::from_millis(1);
    let burst = pacer.budget(now, 125_000_000) - 125_000_000 / 10_000;
    assert_eq!(
        burst,
        125_000_000 / 4_000,
        "and what the shortest wait pays for"
    );
}

#[test]
fn a_pause_earns_one_burst_only() {
    let mut pacer = Pacer::new(START, MTU);
    let burst = pacer.budget(START + Duration::from_secs(3_600), 12_500_000);
    assert!(burst <= 11 * MTU as u64, "{burst}");
}

/// Bytes that wait for less than [`MIN_WAIT`] at 100 Mbit/s, and are sent in advance.
const ADVANCE: u64 = 1_250;
const MEGABITS_100: u64 = 12_500_000;

#[test]
fn f33_a_late_process_is_owed_what_it_could_have_sent() {
    let mut pacer = Pacer::new(START, MTU);
    pacer.consume(BURST);
    let due = START + Duration::from_millis(2);
    let now = due + Duration::from_millis(9);
    let most = Duration::from_millis(20);
    pacer.on_late(now, due, MEGABITS_100, most);
    // The usual burst from before it could send, and nine milliseconds.
    let expected = BURST + 9 * 12_500;
    assert_eq!(pacer.budget(now, MEGABITS_100), expected + ADVANCE);
    // The same time is not owed twice.
    pacer.on_late(now, due, MEGABITS_100, most);
    assert_eq!(pacer.budget(now, MEGABITS_100), expected + ADVANCE);
    pacer.consume(BURST);
    let soon = now + OVERSLEEP;
    assert_eq!(pacer.budget(soon, MEGABITS_100), 9 * 12_500 + ADVANCE);
}

#[test]
fn f33_a_late_process_is_owed_one_round_trip_at_most() {
    let mut pacer = Pacer::new(START, MTU);
    let now = START + Duration::from_secs(3_600);
    pacer.on_late(now, START, MEGABITS_100, Duration::from_millis(4));
    assert_eq!(
        pacer.budget(now, MEGABITS_100),
        BURST + 4 * 12_500 + ADVANCE
    );
}

#[test]
fn f33_what_a_late_process_does_not_send_at_once_is_lost() {
    let mut pacer = Pacer::new(START, MTU);
    let now = START + Duration::from_millis(9);
    pacer.on_late(now, START, MEGABITS_100, Duration::from_secs(1));
    let later = now + OVERSLEEP + Duration::from_nanos(1);
    assert_eq!(pacer.budget(later, MEGABITS_100), BURST + ADVANCE);
}

#[test]
fn debt_from_a_faster_time_is_forgiven() {
    let mut pacer = Pacer::new(START, MTU);
    let allowed = pacer.budget(START, 5_000_000_000);
    pacer.consume(allowed);
    // The rate collapsed to 1 MB/s: ten packets' worth of waiting at most, and the wanted one.
    let next = pacer.next_time(START, 1_000_000, MTU as u64);
    assert!(
        next.since(START) <= Duration::from_millis(17),
        "{:?}",
        next.since(START)
    );
}

#[test]
fn a_rate_of_nothing_waits_but_does_not_fail() {
    let mut pacer = Pacer::new(START, MTU);
    let burst = pacer.budget(START, 0);
    pacer.consume(burst);
    assert_eq!(pacer.budget(START + Duration::from_secs(5), 0), 0);
    assert!(pacer.next_time(START, 0, 1) > START);
}

proptest! {
    /// `has` is exact for the stored budget, and stays true later at any rate.
    #[test]
    fn bytes_within_the_burst_may_be_sent_at_any_rate(
        sent in 0..2 * BURST,
        bytes in 0..2 * BURST,
        rate in any::<u64>(),
        nanos in 0_u64..1_000_000_000,
    ) {
        let mut pacer = Pacer::new(Instant::ZERO, MTU);
        pacer.consume(sent);
        prop_assert_eq!(pacer.has(bytes), sent + bytes <= BURST);
        if pacer.has(bytes) {
            prop_assert!(pacer.budget(Instant::from_nanos(nanos), rate) >= bytes);
        }
    }

    /// After the wait that the pacer named there is budget for the packet; no wait ends in the
    /// past.
    #[test]
    fn waiting_as_told_suffices(
        steps in prop::collection::vec(
            (0_u64..10_000_000, 0_u32..40, 1_u64..70_000, any::<bool>()), 1..60
        )
    ) {
        let mut pacer = Pacer::new(START, MTU);
        let mut now = START;
        for (pause, rate_bits, bytes, obey) in steps {
            now += Duration::from_nanos(pause);
            let rate = 1_u64 << rate_bits;
            let next = pacer.next_time(now, rate, bytes);
            prop_assert!(next >= now);
            prop_assert!(next == now || next.since(now) >= MIN_WAIT);
            prop_assert_eq!(next == now, pacer.budget(now, rate) >= bytes.min(largest(rate)));
            if obey {
                now = next;
                prop_assert!(pacer.budget(now, rate) >= bytes.min(largest(rate)));
            }
            pacer.consume(bytes);
        }
    }
}

/// The largest burst that waiting alone allows.
fn largest(rate: u64) -> u64 {
    (10 * MTU as u64).max(rate / 4_000)
}
