//! Throughput to nodes behind others.

use crate::scenario::{MS, ok, spec, world};
use suci_proto::time::Duration;
use suci_sim::options::{Drive, Options};
use suci_sim::oracle::Spec;
use suci_sim::routes::Topology;
use suci_sim::workload::Sent;

/// Bytes per second of each link.
const RATE: u64 = 125_000_000;

/// How long the first node sends.
const TIME: Duration = Duration::from_millis(300);

/// Sends as much as it can from one end of a chain of `nodes` to the other. Each process wakes up
/// to a millisecond after its packets came. Returns the share of the links' rate that arrives, and
/// the packets that routers dropped.
fn stream(seed: u64, nodes: usize) -> (f64, u64) {
    let mut options = Options::quiet(nodes);
    options.seed = seed;
    options.topology = Some(Topology::Chain);
    options.computes = false;
    options.drives = vec![Drive::Woken(MS)];
    options.links.latency = Duration::from_micros(20);
    options.links.rate = Some(RATE);
    let mut world = world(options);
    let message = Spec {
        notify: false,
        tagged: false,
        ..spec(u32::try_from(nodes).unwrap_or(0), 0, 65_536)
    };
    let end = world.now + TIME;
    while world.now < end {
        // Until the engine has room for no more.
        while let Ok(Some((Sent::Accepted, _))) = world.send(0, message) {}
        ok(world.run_for(MS / 2));
    }
    let engines = (0..nodes).filter_map(|host| world.engine(host));
    let dropped = engines.map(|engine| engine.counters().routes.no_credit);
    let possible = RATE as f64 * TIME.as_secs_f64();
    (world.oracle.bytes() as f64 / possible, dropped.sum())
}

/// While a process of a neighbour sleeps, the packets of that time wait. They must find room:
/// dropped ones look like congestion, and the sender's window would shrink to almost nothing.
#[test]
fn nodes_that_wake_late_forward_nearly_as_much_as_the_links_carry() {
    for nodes in [3, 4] {
        for seed in 1..=3 {
            let (share, dropped) = stream(seed, nodes);
            println!("{nodes} nodes, seed {seed}: {share:.3} of the rate, {dropped} dropped");
            assert_eq!(dropped, 0, "{nodes} nodes, seed {seed}");
            assert!(share > 0.6, "{nodes} nodes, seed {seed}: {share:.3}");
        }
    }
}
