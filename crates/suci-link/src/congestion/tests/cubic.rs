//! CUBIC.

use super::*;

/// Long enough for many losses.
const TIME: Duration = Duration::from_secs(10);

/// 100 Mbit/s with a queue of 50 packets.
fn small_queue(rtt: Duration) -> Link {
    link(100, rtt, 50)
}

/// Checks one flow from its first packet on: slow start must not overshoot.
fn one_flow(link: Link, time: Duration) {
    let mut sim = Sim::new(link);
    sim.add(cubic(), Duration::ZERO, ENDLESS);
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
    one_flow(link(1_000, micros(100), 200), Duration::from_secs(2));
}

/// The second flow begins two seconds after the first.
fn two_flows(link: Link) {
    let time = Duration::from_secs(20);
    let mut sim = Sim::new(link);
    sim.add(cubic(), Duration::ZERO, ENDLESS);
    sim.add(cubic(), Duration::from_secs(2), ENDLESS);
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
    sim.add(cubic(), Duration::ZERO, ENDLESS);
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
    sim.add(cubic(), Duration::ZERO, ENDLESS);
    sim.run(Duration::from_secs(10));
    link.rate *= 2;
    sim.set_link(link);
    sim.run(Duration::from_secs(10));
    let time = Duration::from_secs(10);
    let counts = sim.run(time);
    let utilisation = utilisation(link, &counts, time);
    assert!(utilisation >= 0.9, "utilisation {utilisation}");
}
