//! Runs in which nodes reach each other through others.

use suci_proto::time::Duration;

use super::{disturb, lossy};
use crate::options::Options;
use crate::rng::Rng;
use crate::routes::Topology;

/// Draws a run with a chain of hosts, or with one to three gateways between all others, under a
/// mixture of faults: forwarders die and return, stop, are cut off, and close.
pub(super) fn routes(run: &mut Options, rng: &mut Rng) {
    let gateways = rng.index(1, 4).min(run.nodes - 2);
    run.topology = Some(match rng.chance(400_000) {
        true => Topology::Chain,
        false => Topology::Gateways(gateways),
    });
    // A node of no book is answered through the gateway by which it came.
    run.clients = match run.topology {
        Some(Topology::Gateways(count)) if rng.chance(400_000) => {
            rng.index(1, run.nodes - count + 1)
        }
        // A chain has no other way, and its forwarders need one back.
        _ => 0,
    };
    run.traffic.messages = run.traffic.messages.min(200);
    run.links.rate = run.links.rate.map(|rate| rate.max(20_000_000));
    run.mended_for = Duration::from_secs(600);
    // Each hop by itself, and the ends.
    run.sealed = rng.chance(300_000);
    if rng.chance(500_000) {
        run.faults = lossy(rng);
        run.faults.loss = run.faults.loss.min(100_000);
    }
    disturb(run, rng, 250_000);
}
