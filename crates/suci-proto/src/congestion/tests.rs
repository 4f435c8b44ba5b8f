//! CUBIC over simulated bottlenecks.

mod link;

use crate::time::Duration;
use link::{Counts, Link, MTU, Sim};

const ENDLESS: u64 = u64::MAX / 2;
/// Long enough for many losses.
const TIME: Duration = Duration::from_secs(10);

/// 100 Mbit/s with a queue of 50 packets.
fn small_queue(rtt: Duration) -> Link {
    Link {
        rate: 12_500_000,
        rtt,
        queue: 50,
        mark: u64::MAX,
    }
}

fn utilisation(link: Link, counts: &[Counts], time: Duration) -> f64 {
    let delivered: u64 = counts.iter().map(|flow| flow.delivered * MTU).sum();
    delivered as f64 / (link.rate as f64 * time.as_secs_f64())
}

fn loss(counts: &[Counts]) -> f64 {
    let sent: u64 = counts.iter().map(|flow| flow.sent).sum();
    let dropped: u64 = counts.iter().map(|flow| flow.dropped).sum();
    dropped as f64 / sent as f64
}

/// Jain's index: 1 for equal shares, 1/n if one flow has all.
fn jain(counts: &[Counts]) -> f64 {
    let shares = counts.iter().map(|flow| flow.delivered as f64);
    let (sum, squares) = shares.fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    sum * sum / (counts.len() as f64 * squares)
}

/// From the first packet on: slow start must not spoil it.
fn one_flow(link: Link, time: Duration) {
    let mut sim = Sim::new(link);
    sim.add(Duration::ZERO, ENDLESS);
    let counts = sim.run(time);
    let (utilisation, loss) = (utilisation(link, &counts, time), loss(&counts));
    println!(
        "{link:?}: utilisation {utilisation:.4}, loss {loss:.5}, window {}",
        sim.window(0)
    );
    assert!(utilisation >= 0.9, "utilisation {utilisation}");
    assert!(loss < 0.01, "loss {loss}");
}

#[test]
fn fills_a_short_path_with_a_small_queue() {
    one_flow(small_queue(Duration::from_millis(1)), TIME);
}

#[test]
fn fills_a_long_path_with_a_small_queue() {
    one_flow(small_queue(Duration::from_millis(20)), TIME);
}

#[test]
fn fills_a_path_with_a_tiny_queue() {
    let link = Link {
        queue: 20,
        ..small_queue(Duration::from_millis(1))
    };
    one_flow(link, TIME);
}

#[test]
fn fills_a_path_with_a_large_queue() {
    let link = Link {
        queue: 1_000,
        ..small_queue(Duration::from_millis(20))
    };
    one_flow(link, TIME);
}

#[test]
fn fills_gigabits_inside_a_machine_room() {
    let rtt = Duration::from_micros(100);
    let link = Link {
        rate: 125_000_000,
        rtt,
        queue: 200,
        mark: u64::MAX,
    };
    one_flow(link, Duration::from_secs(2));
}

/// The second flow begins two seconds after the first.
fn two_flows(link: Link) {
    let time = Duration::from_secs(20);
    let mut sim = Sim::new(link);
    sim.add(Duration::ZERO, ENDLESS);
    sim.add(Duration::from_secs(2), ENDLESS);
    sim.run(Duration::from_secs(12));
    let counts = sim.run(time);
    let (utilisation, loss, jain) = (
        utilisation(link, &counts, time),
        loss(&counts),
        jain(&counts),
    );
    println!("{link:?}: utilisation {utilisation:.4}, loss {loss:.5}, Jain {jain:.4}");
    assert!(utilisation >= 0.9, "utilisation {utilisation}");
    assert!(loss < 0.01, "loss {loss}");
    assert!(jain >= 0.9, "Jain {jain}");
}

#[test]
fn two_flows_share_a_short_path() {
    two_flows(small_queue(Duration::from_millis(1)));
}

#[test]
fn two_flows_share_a_long_path() {
    two_flows(small_queue(Duration::from_millis(20)));
}

#[test]
fn marks_instead_of_losses_keep_the_queue_short() {
    let link = Link {
        mark: 20,
        ..small_queue(Duration::from_millis(1))
    };
    let time = Duration::from_secs(10);
    let mut sim = Sim::new(link);
    sim.add(Duration::ZERO, ENDLESS);
    sim.run(Duration::from_secs(1));
    let counts = sim.run(time);
    println!("{counts:?}, {:?}", sim.smoothed(0));
    assert!(utilisation(link, &counts, time) >= 0.9);
    assert_eq!(counts[0].dropped, 0);
    assert!(counts[0].marked > 0);
    assert!(sim.smoothed(0) <= Duration::from_millis(6));
}

#[test]
fn follows_a_link_that_becomes_faster() {
    let mut link = small_queue(Duration::from_millis(20));
    let mut sim = Sim::new(link);
    sim.add(Duration::ZERO, ENDLESS);
    sim.run(Duration::from_secs(10));
    link.rate *= 2;
    sim.set_rate(link.rate);
    sim.run(Duration::from_secs(10));
    let time = Duration::from_secs(10);
    let counts = sim.run(time);
    let utilisation = utilisation(link, &counts, time);
    assert!(utilisation >= 0.9, "utilisation {utilisation}");
}
