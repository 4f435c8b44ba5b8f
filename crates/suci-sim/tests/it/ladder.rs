//! Goodput falls gently from rung to rung of a ladder, and all seeds do about as well. The command
//! `suci-ladder` climbs the whole ladder; this is a selection on a slower link.

use crate::scenario::{MS, SECOND, arrive, ok, spec, world};
use suci_proto::ControllerChoice;
use suci_proto::time::Duration;
use suci_sim::ladder::{Rung, Spread};
use suci_sim::options::{Options, Step};
use suci_sim::oracle::Spec;
use suci_sim::profiles::Profile;
use suci_sim::runner::run_seed;
use suci_sim::scheduler::Scheduler;
use suci_sim::workload::Sent;
use suci_sim::world::World;

const SEEDS: u64 = 3;

/// Bytes per second of the link.
const RATE: u64 = 25_000_000;

/// The goodput of the seeds of a rung, in bits per second.
fn climb(rung: Rung, time: Duration) -> Spread {
    let run = |seed| match rung.goodput(seed, time) {
        Ok(figure) => figure,
        Err(failure) => panic!("seed {seed} of {rung:?}: {failure}"),
    };
    Spread::of((1..=SEEDS).map(run).collect())
}

/// Losses in parts per million from rung to rung, on a path of that round trip.
fn falls_gently(controller: ControllerChoice, round_trip: Duration, time: Duration) {
    let mut above: Option<Spread> = None;
    for loss in [0, 10_000, 15_000, 20_000, 30_000, 50_000] {
        let rung = Rung {
            rate: RATE,
            ..Rung::gigabit(loss, round_trip, controller)
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
    let half = Duration::from_millis(500);
    falls_gently(ControllerChoice::Auto, Duration::from_micros(100), half);
    falls_gently(ControllerChoice::Wan, Duration::from_millis(1), half);
}

#[test]
fn losses_cost_little_on_a_long_path() {
    let time = Duration::from_millis(2_000);
    falls_gently(ControllerChoice::Auto, Duration::from_millis(20), time);
}

/// 15 KB at 100 Mbit/s: a switch with hardly any buffer.
#[test]
fn a_small_buffer_is_no_reason_to_crawl() {
    let rung = Rung {
        rate: 12_500_000,
        queue: Duration::from_micros(1_200),
        ..Rung::gigabit(0, Duration::from_millis(1), ControllerChoice::Wan)
    };
    let spread = climb(rung, Duration::from_millis(1_000));
    assert!(spread.least > 80_000_000, "{spread:?}");
}

/// F33: both hosts run their process for 1 ms of each 10, and the path takes 20 ms. The sender is
/// owed what the pace earned while it waited for its turn. Without that it had 11 of 50 Mbit/s.
#[test]
fn f33_busy_hosts_fill_a_long_path() {
    let rung = Rung {
        rate: 6_250_000,
        queue: Duration::from_millis(20),
        scheduler: Some(busy_scheduler(0)),
        ..Rung::gigabit(0, Duration::from_millis(20), ControllerChoice::Wan)
    };
    let spread = climb(rung, Duration::from_millis(5_000));
    println!("figure: {spread:?}");
    assert!(spread.least > 35_000_000, "{spread:?}");
}

/// F33: the hosts stop their process for 5 to 100 ms now and then, also between building a train
/// and sending it.
#[test]
fn f33_hosts_that_stop_their_process_anywhere_fill_a_long_path() {
    let rung = Rung {
        rate: 6_250_000,
        queue: Duration::from_millis(20),
        scheduler: Some(Scheduler {
            runs: MS,
            period: MS,
            stops: 500,
        }),
        ..Rung::gigabit(0, Duration::from_millis(20), ControllerChoice::Wan)
    };
    let spread = climb(rung, Duration::from_millis(5_000));
    println!("figure: {spread:?}");
    assert!(spread.least > 30_000_000, "{spread:?}");
}

/// A process runs for 1 ms of each 10, and may be stopped at any point with this chance in a
/// million.
fn busy_scheduler(stops: u32) -> Scheduler {
    Scheduler {
        runs: MS,
        period: MS * 10,
        stops,
    }
}

/// F33: many runs on busy hosts keep all promises.
#[test]
fn f33_promises_hold_on_busy_hosts() {
    for seed in 0..40 {
        let outcome = run_seed(seed, Profile::Busy, None, false);
        assert_eq!(outcome.failure, None, "seed {seed}");
    }
}

/// The buffer that Linux grants by default: 212,992 B, counted double.
const STOCK: u64 = 425_984;

/// The buffer holds a tenth of the path's capacity.
#[test]
fn a_small_receive_buffer_fills_a_long_path_while_its_program_drains() {
    let rung = Rung {
        rate: RATE * 2,
        recv_buffer: STOCK,
        ..Rung::gigabit(0, Duration::from_millis(20), ControllerChoice::Auto)
    };
    let spread = climb(rung, Duration::from_millis(3_000));
    assert!(spread.least > RATE * 2 * 8 / 2, "{spread:?}");
}

/// One node sends to another, with the stock buffer, as much as it can for a second.
fn busy(latency: Duration) -> World {
    let mut options = Options::quiet(2);
    options.recv_buffer = STOCK;
    options.computes = false;
    options.links.latency = latency;
    options.links.rate = Some(RATE);
    let mut world = world(options);
    let message = Spec {
        notify: false,
        ..spec(2, 0, 20_000)
    };
    for _ in 0..1_000 {
        while let Ok(Some((Sent::Accepted, _))) = world.send(0, message) {}
        ok(world.run_for(MS));
    }
    world
}

/// Packets granted beyond the buffer are lost then, and sent again. The world fails on a packet for
/// which a short path left no room.
#[test]
fn a_receiver_that_stops_drops_packets_of_a_long_path_only_and_no_message() {
    for (latency, drops) in [(MS / 2, false), (MS * 10, true)] {
        let mut world = busy(latency);
        assert_eq!(world.tally.overrun_excused, 0, "while the program drains");
        world.apply(&Step::Pause(1, SECOND));
        arrive(&mut world, SECOND * 60);
        assert_eq!(world.tally.overrun_excused > 0, drops, "{latency:?}");
    }
}
