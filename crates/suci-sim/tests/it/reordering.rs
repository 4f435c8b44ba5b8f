//! A link that only reorders: packets declared lost there are late, and soon none is declared lost.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::scenario::{MS, ok, spec, world};
use suci_proto::time::Duration;
use suci_proto::types::NodeId;
use suci_proto::{Config, ControllerChoice, PeerStats};
use suci_sim::options::Options;
use suci_sim::oracle::Spec;
use suci_sim::workload::Sent;
use suci_sim::world::World;

/// A sender on host 0 that always has something to send to host 1, over a link without a queue:
/// credit limits it.
fn busy(controller: ControllerChoice, latency: Duration, recv_buffer: u64) -> World {
    let mut options = Options::quiet(2);
    // One of the seeds that make the direction from host 0 to host 1 the worse one.
    options.seed = 3;
    options.recv_buffer = recv_buffer;
    options.links.latency = latency;
    options.configs = vec![Config {
        controller,
        ..Config::default()
    }];
    world(options)
}

fn stats(world: &World) -> PeerStats {
    let engine = world.engine(0).unwrap();
    engine.peer_stats(NodeId(2)).unwrap()
}

/// Runs for `time` while the sender has something to send. Returns the smallest window on the way.
fn run(world: &mut World, time: Duration) -> u64 {
    let (end, mut least) = (world.now + time, u64::MAX);
    let message = Spec {
        notify: false,
        ..spec(2, 0, 20_000)
    };
    while world.now < end {
        // Until the engine has room for no more.
        while let Ok(Some((Sent::Accepted, _))) = world.send(0, message) {}
        ok(world.run_for(MS / 2));
        least = least.min(stats(world).congestion_window);
    }
    least
}

/// A quarter of the packets is late by up to this many round trips: packets in both directions, or
/// data alone. Once the thresholds have adapted, nothing is lost, and the effects of spurious
/// losses are undone.
fn nothing_is_lost(controller: ControllerChoice, latency: Duration, recv_buffer: u64, both: bool) {
    let mut world = busy(controller, latency, recv_buffer);
    run(&mut world, latency * 60);
    let calm = stats(&world);
    let most = if both { calm.min_rtt } else { calm.min_rtt * 2 };
    world.network.faults.reorder = 250_000;
    world.network.faults.reorder_by = most;
    world.network.faults.asymmetry = if both { 0 } else { 100 };
    run(&mut world, latency * 60);
    let adapted = stats(&world);
    assert!(adapted.traffic.spurious_losses > 0, "they had to learn");
    let least = run(&mut world, latency * 60);
    let end = stats(&world);
    let what = format!("{controller:?} over {latency:?}, late by {most:?}: {adapted:?}, {end:?}");
    assert_eq!(
        end.traffic.packets_lost, adapted.traffic.packets_lost,
        "{what}"
    );
    assert_eq!(end.traffic.packets_lost, end.traffic.spurious_losses);
    if controller == ControllerChoice::Cubic {
        assert!(least >= calm.congestion_window, "{calm:?}, {what}");
    }
}

#[test]
fn a_link_that_only_reorders_loses_nothing_once_the_thresholds_have_adapted() {
    for controller in [ControllerChoice::Cubic, ControllerChoice::Auto] {
        for both in [false, true] {
            let latency = Duration::from_micros(500);
            nothing_is_lost(controller, latency, 512 << 10, both);
        }
    }
}

/// More than 32 are late at a time, the most that an acknowledgement has ranges.
#[test]
fn a_long_path_that_only_reorders_loses_nothing_once_the_thresholds_have_adapted() {
    for both in [false, true] {
        nothing_is_lost(ControllerChoice::Cubic, MS * 10, 4 << 20, both);
    }
}
