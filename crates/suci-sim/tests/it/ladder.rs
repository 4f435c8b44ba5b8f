//! Goodput falls gently from rung to rung of a ladder, and all seeds do about as well. The command
//! `suci-ladder` climbs the whole ladder; this is a selection on a slower link.

use suci_proto::ControllerChoice;
use suci_proto::time::Duration;
use suci_sim::ladder::{Rung, Spread};

const SEEDS: u64 = 3;

/// Bytes per second of the link.
const RATE: u64 = 25_000_000;

/// What the seeds of a rung get, in bits per second.
fn climb(rung: Rung, time: Duration) -> Spread {
    let run = |seed| match rung.goodput(seed, time) {
        Ok(figure) => figure,
        Err(failure) => panic!("seed {seed} of {rung:?}: {failure}"),
    };
    Spread::of((1..=SEEDS).map(run).collect())
}

/// Losses in parts per million from rung to rung, on a path of that round trip.
fn falls_gently(round_trip: Duration, time: Duration) {
    let mut above: Option<Spread> = None;
    for loss in [0, 10_000, 15_000, 20_000, 30_000, 50_000] {
        let rung = Rung {
            rate: RATE,
            ..Rung::gigabit(loss, round_trip, ControllerChoice::Auto)
        };
        let spread = climb(rung, time);
        let what = format!("{round_trip:?}, {loss} ppm: {spread:?} below {above:?}");
        println!("{what}");
        assert!(spread.median < spread.least * 2, "a seed crawls: {what}");
        if let Some(above) = above {
            assert!(above.median < spread.median * 2, "a cliff: {what}");
        }
        assert!(spread.median > RATE * 8 / 2, "{what}");
        above = Some(spread);
    }
}

#[test]
fn losses_cost_little_on_short_paths() {
    falls_gently(Duration::from_micros(100), Duration::from_millis(500));
    falls_gently(Duration::from_millis(1), Duration::from_millis(500));
}

#[test]
fn losses_cost_little_on_a_long_path() {
    falls_gently(Duration::from_millis(20), Duration::from_millis(2_000));
}

/// 15 KB at 100 Mbit/s: a switch with hardly any buffer.
#[test]
fn a_small_buffer_is_no_reason_to_crawl() {
    let rung = Rung {
        rate: 12_500_000,
        queue: Duration::from_micros(1_200),
        ..Rung::gigabit(0, Duration::from_millis(1), ControllerChoice::Auto)
    };
    let spread = climb(rung, Duration::from_millis(1_000));
    assert!(spread.least > 80_000_000, "{spread:?}");
}
