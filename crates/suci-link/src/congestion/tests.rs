//! Controllers over simulated bottlenecks.

mod auto;
mod bbr;
mod cubic;
mod lan;
mod link;
mod properties;

use super::{Bbr, Controller, ControllerChoice, Cubic, Lan};
use crate::time::Duration;
use link::{Counts, Link, MTU, Sim};

const ENDLESS: u64 = u64::MAX / 2;

fn cubic() -> Box<dyn Controller> {
    Box::new(Cubic::new(MTU as usize))
}

/// A link of `rate` Mbit/s with a queue of `queue` packets, without marks.
fn link(rate: u64, rtt: Duration, queue: u64) -> Link {
    Link {
        rate: rate * 125_000,
        rtt,
        queue,
        mark: u64::MAX,
        ..Link::default()
    }
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
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

fn lan() -> Box<dyn Controller> {
    Box::new(Lan::new(MTU as usize))
}

fn bbr() -> Box<dyn Controller> {
    Box::new(Bbr::new(MTU as usize))
}

fn auto() -> Box<dyn Controller> {
    ControllerChoice::Auto.make(MTU as usize)
}

type Make = fn() -> Box<dyn Controller>;

/// Runs flows that begin one after the other within the first tenth of `warm`. Returns the counts
/// of each in `time` after `warm`.
fn after(link: Link, flows: &[Make], warm: Duration, time: Duration) -> Vec<Counts> {
    let mut sim = Sim::new(link);
    for (n, make) in (0..).zip(flows) {
        sim.add(make(), warm * n / 10, ENDLESS);
    }
    sim.run(warm);
    sim.run(time)
}

/// The longest average queue that a flow met.
fn queue(counts: &[Counts]) -> Duration {
    counts.iter().map(Counts::queue).max().unwrap_or_default()
}

/// The share of flow `n` in all delivered bytes.
fn share(counts: &[Counts], n: usize) -> f64 {
    let all: u64 = counts.iter().map(|flow| flow.delivered).sum();
    counts[n].delivered as f64 / all as f64
}
