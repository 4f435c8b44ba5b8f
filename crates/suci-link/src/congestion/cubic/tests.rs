//! Rules of RFC 9438, 9406, 6928 and 9002 one by one.

use super::{Cubic, cube_root};
use crate::congestion::{AckSample, Cause, CongestionEvent, Controller};
use crate::recovery::{AckDelays, Rtt};
use crate::time::{Duration, Instant};
use proptest::prelude::*;

const MTU: u64 = 1_200;
const START: Instant = Instant::from_nanos(1_000_000_000);

fn at(ms: u64) -> Instant {
    START + Duration::from_millis(ms)
}

fn rtt(ms: u64) -> Rtt {
    let mut rtt = Rtt::new(Duration::from_millis(100));
    rtt.update(Duration::from_millis(ms), AckDelays::default());
    rtt
}

/// Acknowledges `bytes` of a window in full use, sent `rtt` ago.
fn ack(cubic: &mut Cubic, now: Instant, bytes: u64, rtt: &Rtt) {
    let in_flight_before = cubic.window();
    let largest_sent_at = now - rtt.latest();
    cubic.on_ack(
        now,
        &AckSample {
            bytes,
            in_flight_before,
            in_flight: 0,
            delivered: 0,
            largest_sent_at,
            rtt,
            path: Some(rtt.min()),
            rate: None,
            app_limited: false,
            paced: false,
        },
    );
}

fn lose(cubic: &mut Cubic, now: Instant, sent_at: Instant, persistent: bool) {
    cubic.on_congestion(
        now,
        &CongestionEvent {
            cause: Cause::Loss,
            bytes_lost: MTU,
            largest_lost_sent_at: sent_at,
            persistent,
            in_flight: 0,
            overlaps: false,
        },
    );
}

/// In congestion avoidance with a window of 70 packets, after a loss at 100.
fn reduced() -> Cubic {
    let mut cubic = Cubic::new(MTU as usize);
    ack(&mut cubic, at(0), 90 * MTU, &rtt(10));
    assert_eq!(cubic.window(), 100 * MTU);
    lose(&mut cubic, at(10), at(5), false);
    assert_eq!(cubic.window(), 70 * MTU);
    cubic
}

#[test]
fn the_initial_window_is_ten_packets_or_jumbo_frames() {
    assert_eq!(Cubic::new(1_200).window(), 12_000);
    assert_eq!(Cubic::new(1_472).window(), 14_600);
    assert_eq!(Cubic::new(8_972).window(), 10 * 8_972);
    assert_eq!(Cubic::new(65_507).window(), 2 * 65_507);
}

#[test]
fn slow_start_doubles_each_round_trip() {
    let mut cubic = Cubic::new(MTU as usize);
    for round in 1..6 {
        let window = cubic.window();
        ack(&mut cubic, at(10 * round), window, &rtt(10));
        assert_eq!(cubic.window(), 2 * window);
    }
}

#[test]
fn losses_of_one_window_count_once() {
    let mut cubic = reduced();
    lose(&mut cubic, at(11), at(6), false);
    lose(&mut cubic, at(12), at(10), false);
    assert_eq!(cubic.window(), 70 * MTU);
    lose(&mut cubic, at(30), at(11), false);
    assert_eq!(cubic.window(), 49 * MTU);
}

#[test]
fn acks_of_what_was_sent_before_the_loss_do_not_grow_the_window() {
    let mut cubic = reduced();
    ack(&mut cubic, at(20), 70 * MTU, &rtt(10));
    assert_eq!(cubic.window(), 70 * MTU);
    ack(&mut cubic, at(21), 70 * MTU, &rtt(10));
    assert!(cubic.window() > 70 * MTU);
}

#[test]
fn the_plateau_is_reached_after_k_seconds_and_left_slowly() {
    // K = cbrt(30 / 0.4) = 4.217 s. With a long round trip Reno is slower.
    let mut cubic = reduced();
    let rtt = rtt(100);
    let mut windows = Vec::new();
    let mut now = at(200);
    for _ in 0..60 {
        let window = cubic.window();
        ack(&mut cubic, now, window, &rtt);
        windows.push(cubic.window() / MTU);
        now += Duration::from_millis(100);
    }
    assert!((96..=100).contains(&windows[30]), "{windows:?}");
    assert!((99..=101).contains(&windows[42]), "{windows:?}");
    assert!(
        windows[10] - windows[0] > windows[40] - windows[30],
        "concave: {windows:?}"
    );
    assert!(
        windows[59] - windows[50] > windows[50] - windows[41],
        "convex: {windows:?}"
    );
    assert!(windows.windows(2).all(|pair| pair[0] <= pair[1]));
}

#[test]
fn grows_no_slower_than_reno_where_round_trips_are_short() {
    // At 1 ms CUBIC alone would gain nothing in a hundred round trips; Reno's share is 0.53 each.
    let mut cubic = reduced();
    let rtt = rtt(1);
    for round in 0..50 {
        let window = cubic.window();
        ack(&mut cubic, at(20 + round), window, &rtt);
    }
    let gained = cubic.window() / MTU - 70;
    assert!((22..=28).contains(&gained), "{gained}");
}

#[test]
fn grows_like_reno_beyond_the_old_window() {
    let mut cubic = reduced();
    let rtt = rtt(1);
    let mut now = at(20);
    while cubic.window() < 101 * MTU {
        let window = cubic.window();
        ack(&mut cubic, now, window, &rtt);
        now += Duration::from_millis(1);
    }
    let before = cubic.window();
    for _ in 0..10 {
        let window = cubic.window();
        ack(&mut cubic, now, window, &rtt);
        now += Duration::from_millis(1);
    }
    assert!((9 * MTU..=11 * MTU).contains(&(cubic.window() - before)));
}

#[test]
fn fast_convergence_lowers_the_plateau_after_a_loss_below_it() {
    let mut cubic = reduced();
    assert!((cubic.state.plateau / MTU as f64 - 100.0).abs() < 1e-9);
    lose(&mut cubic, at(30), at(20), false);
    assert!((cubic.state.plateau / MTU as f64 - 70.0 * 0.85).abs() < 1e-9);
}

#[test]
fn an_unused_window_does_not_grow() {
    let mut cubic = Cubic::new(MTU as usize);
    let rtt = rtt(10);
    let mut sample = AckSample {
        bytes: MTU,
        in_flight_before: 10 * MTU,
        in_flight: 0,
        delivered: 0,
        largest_sent_at: at(0),
        rtt: &rtt,
        path: None,
        rate: None,
        app_limited: true,
        paced: false,
    };
    cubic.on_ack(at(10), &sample);
    assert_eq!(cubic.window(), 10 * MTU);
    sample.app_limited = false;
    sample.in_flight_before = 4 * MTU;
    cubic.on_ack(at(10), &sample);
    assert_eq!(cubic.window(), 10 * MTU);
    sample.in_flight_before = 10 * MTU;
    cubic.on_ack(at(10), &sample);
    assert_eq!(cubic.window(), 11 * MTU);
    sample.in_flight_before = 4 * MTU;
    sample.paced = true;
    cubic.on_ack(at(10), &sample);
    assert_eq!(cubic.window(), 12 * MTU, "its pace was what limited");
    sample.app_limited = true;
    cubic.on_ack(at(10), &sample);
    assert_eq!(cubic.window(), 12 * MTU);
}

#[test]
fn idle_time_does_not_count_towards_growth() {
    let grow = |idle: bool| {
        let mut cubic = reduced();
        let rtt = rtt(100);
        ack(&mut cubic, at(200), MTU, &rtt);
        let mut now = at(300);
        if idle {
            now += Duration::from_secs(60);
            cubic.on_sent(now - rtt.latest(), MTU, MTU);
        }
        ack(&mut cubic, now, MTU, &rtt);
        cubic.window()
    };
    assert!(
        grow(true).abs_diff(grow(false)) < MTU / 10,
        "{} {}",
        grow(true),
        grow(false)
    );
}

#[test]
fn a_spurious_loss_is_undone() {
    let mut cubic = reduced();
    cubic.on_spurious(at(20));
    assert_eq!(cubic.window(), 100 * MTU);
    ack(&mut cubic, at(21), 100 * MTU, &rtt(10));
    assert_eq!(cubic.window(), 200 * MTU, "still in slow start");
    cubic.on_spurious(at(22));
    assert_eq!(cubic.window(), 200 * MTU, "only once");
}

/// If packets are late again and again, the next event comes before the last one's losses proved
/// spurious.
#[test]
fn spurious_losses_of_overlapping_events_are_undone_together() {
    let mut cubic = reduced();
    for round in 1..4 {
        let event = CongestionEvent {
            cause: Cause::Loss,
            bytes_lost: MTU,
            largest_lost_sent_at: at(20 * round),
            persistent: false,
            in_flight: 0,
            overlaps: true,
        };
        cubic.on_congestion(at(20 * round + 10), &event);
    }
    assert!(cubic.window() < 40 * MTU);
    cubic.on_spurious(at(100));
    assert_eq!(cubic.window(), 100 * MTU);
    assert!(cubic.in_slow_start());
    lose(&mut cubic, at(220), at(200), false);
    lose(&mut cubic, at(240), at(230), false);
    cubic.on_spurious(at(250));
    assert_eq!(cubic.window(), 70 * MTU, "the first was confirmed");
}

#[test]
fn persistent_congestion_leaves_two_packets_and_can_be_undone() {
    let mut cubic = reduced();
    lose(&mut cubic, at(500), at(400), true);
    assert_eq!(cubic.window(), 2 * MTU);
    // Slow start up to the threshold, then slowly.
    let rtt = rtt(10);
    let mut now = at(600);
    for _ in 0..4 {
        let window = cubic.window();
        ack(&mut cubic, now, window, &rtt);
        assert_eq!(cubic.window(), 2 * window);
        now += Duration::from_millis(10);
    }
    ack(&mut cubic, now, 32 * MTU, &rtt);
    assert_eq!(cubic.window(), 49 * MTU);
    cubic.on_spurious(now);
    assert_eq!(cubic.window(), 70 * MTU);
}

#[test]
fn never_below_two_packets() {
    let mut cubic = Cubic::new(MTU as usize);
    for ms in 0..50 {
        lose(&mut cubic, at(2 * ms + 1), at(2 * ms), ms % 7 == 0);
        assert!(cubic.window() >= 2 * MTU);
    }
    cubic.on_mtu(9_000);
    assert_eq!(cubic.window(), 18_000);
    cubic.on_mtu(1_200);
    assert_eq!(
        cubic.window(),
        18_000,
        "bytes in flight are not fewer for smaller packets"
    );
}

#[test]
fn another_path_starts_anew() {
    let mut cubic = reduced();
    cubic.on_path_changed(1_472);
    assert_eq!(cubic.window(), 14_600);
    ack(&mut cubic, at(21), 14_600, &rtt(10));
    assert_eq!(cubic.window(), 29_200);
}

/// The time for which a program delays an acknowledgement does not count as queueing delay.
#[test]
fn hystart_looks_at_the_path() {
    let mut cubic = Cubic::new(MTU as usize);
    for round in 1..6 {
        let mut rtt = Rtt::new(Duration::from_millis(100));
        let delays = AckDelays {
            reported: Duration::from_millis(20 * round),
            ..AckDelays::default()
        };
        rtt.update(Duration::from_millis(20 * round + 10), delays);
        let before = cubic.window();
        for sample in 0..3 {
            ack(&mut cubic, at(200 * round + sample), before / 3, &rtt);
        }
        assert_eq!(cubic.window(), before + before / 3 * 3);
    }
}

#[test]
fn hystart_slows_down_when_the_round_trip_grows() {
    let mut cubic = Cubic::new(MTU as usize);
    // Three samples a round: 10 ms, then 20 ms.
    let mut now = 0;
    let mut round = |cubic: &mut Cubic, ms: u64| {
        let before = cubic.window();
        now += 100;
        for sample in 0..3 {
            ack(cubic, at(now + sample), before / 3, &rtt(ms));
        }
        cubic.window() as f64 / before as f64
    };
    assert!(round(&mut cubic, 10) > 1.9);
    assert!(round(&mut cubic, 13) > 1.9, "3 ms are noise");
    assert!(round(&mut cubic, 20) < 1.8, "noticed at the third sample");
    let slow = round(&mut cubic, 20);
    assert!((1.2..1.3).contains(&slow), "{slow}");
    assert!(round(&mut cubic, 12) < 1.6, "it was a false alarm");
    assert!(round(&mut cubic, 12) > 1.9);
    assert!(round(&mut cubic, 30) < 1.8);
    for _ in 0..4 {
        assert!(round(&mut cubic, 30) > 1.2);
    }
    assert!(
        round(&mut cubic, 30) < 1.1,
        "five rounds of it end slow start"
    );
    assert!(cubic.state.threshold.is_some());
}

#[test]
fn pacing_spreads_the_window_over_the_round_trip() {
    let unknown = Rtt::new(Duration::from_millis(10));
    let mut cubic = Cubic::new(MTU as usize);
    assert_eq!(cubic.pacing_rate(&unknown), None);
    assert_eq!(cubic.pacing_rate(&rtt(10)), Some(2 * 12_000 * 100));
    lose(&mut cubic, at(1), at(0), false);
    assert_eq!(cubic.pacing_rate(&rtt(10)), Some(2 * 8_400 * 100));
}

#[test]
fn cube_roots() {
    for x in [1e-12, 0.001, 0.5, 1.0, 2.0, 8.0, 75.0, 1e6, 1e15, 1e300] {
        let root = cube_root(x);
        assert!((root * root * root / x - 1.0).abs() < 1e-12, "{x}: {root}");
    }
    assert!(cube_root(0.0) == 0.0 && cube_root(-1.0) == 0.0);
}

proptest! {
    /// For any calls the window stays between two packets and the cap; no acknowledgement shrinks
    /// it, no congestion event raises it.
    #[test]
    fn any_history_keeps_the_window_sane(
        events in prop::collection::vec(
            (0_u8..6, 0_u64..100_000_000, 0_u64..1_u64 << 40, 0_u64..1_000_000_000), 0..200
        )
    ) {
        let mut cubic = Cubic::new(1_472);
        let mut now = START;
        for (event, pause, bytes, age) in events {
            now += Duration::from_nanos(pause);
            let before = cubic.window();
            let sent_at = now - Duration::from_nanos(age);
            match event {
                0..=2 => {
                    let mut rtt = Rtt::new(Duration::from_millis(1));
                    rtt.update(Duration::from_nanos(age), AckDelays::default());
                    cubic.on_ack(now, &AckSample {
                        bytes,
                        in_flight_before: bytes,
                        in_flight: 0,
                        delivered: 0,
                        largest_sent_at: sent_at,
                        rtt: &rtt,
                        path: Some(Duration::from_nanos(age)),
                        rate: None,
                        app_limited: event == 2,
                        paced: false,
                    });
                    prop_assert!(cubic.window() >= before);
                    prop_assert!(cubic.pacing_rate(&rtt).is_some());
                }
                3 => {
                    lose(&mut cubic, now, sent_at, bytes % 5 == 0);
                    prop_assert!(cubic.window() <= before);
                }
                4 => cubic.on_spurious(now),
                _ => cubic.on_sent(now, 1_472, bytes),
            }
            prop_assert!((2 * 1_472..=1 << 36).contains(&cubic.window()));
        }
    }
}
