//! Many send to one that polls every 50 ms: nothing is dropped, and much is moved at each poll.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::scenario::{MS, SECOND, arrive, ok, send, spec, world};
use suci_proto::Engine;
use suci_proto::time::{Duration, nanos};
use suci_proto::types::NodeId;
use suci_sim::options::{Drive, Options};
use suci_sim::oracle::Spec;
use suci_sim::world::World;

const POLL: Duration = Duration::from_millis(50);

/// Payload of a message that fills a packet.
const FULL: u64 = 1_400;

/// A receiver that is not woken, and `senders` that have sent it one message each.
fn crowd(senders: usize) -> World {
    let mut options = Options::quiet(senders + 1);
    options.drives = vec![Drive::Woken(Duration::from_micros(20)); senders + 1];
    options.drives[0] = Drive::Polls(POLL);
    options.configs[0].ack_on_poll = true;
    options.star = true;
    let mut world = world(options);
    for host in 1..=senders {
        send(&mut world, host, 1, message(1));
    }
    arrive(&mut world, SECOND * 20);
    world
}

fn message(length: u64) -> Spec {
    Spec {
        notify: false,
        ..spec(1, 0, length)
    }
}

/// Messages of this sender that are not acknowledged yet.
fn queued(world: &World, host: usize) -> u64 {
    let stats = world.engine(host).and_then(|e| e.peer_stats(NodeId(1)));
    stats.map_or(0, |stats| stats.queued_messages)
}

/// The world fails on a packet that finds the receive buffer full (Overrun). It remains to check
/// that the buffer was not left empty instead, and that every sender had its part. All begin at
/// once with `each` messages; the bytes moved count from `from` to `to` after that.
fn moves_a_quarter(senders: usize, each: u64, from: Duration, to: Duration) {
    let mut world = crowd(senders);
    for host in 1..=senders {
        send(&mut world, host, each as u32, message(FULL));
    }
    ok(world.run_for(from));
    let before = world.oracle.bytes();
    let begun: Vec<u64> = (1..=senders).map(|host| queued(&world, host)).collect();
    ok(world.run_for(to - from));
    let bytes = (world.oracle.bytes() - before) * nanos(POLL) / nanos(to - from);
    let buffer = world.options.recv_buffer;
    let stats = world.engine(0).map(Engine::share_stats).unwrap();
    assert!(
        bytes >= buffer / 4,
        "{bytes} of {buffer} B at each poll: {stats:?}"
    );
    assert!(stats.jain > 0.9, "{stats:?}");
    let sent: Vec<f64> = (1..=senders)
        .zip(begun)
        .map(|(host, begun)| (begun - queued(&world, host)) as f64)
        .collect();
    let (sum, squares) = (
        sent.iter().sum::<f64>(),
        sent.iter().map(|s| s * s).sum::<f64>(),
    );
    let jain = sum * sum / (squares * senders as f64);
    assert!(
        jain > 0.9 && sent.iter().all(|s| *s > 0.0),
        "{jain} for {sent:?}"
    );
    arrive(&mut world, SECOND * 20);
    let lost = (1..=senders).filter_map(|host| Some(world.engine(host)?.counters().packets_lost));
    assert_eq!(lost.sum::<u64>(), 0, "packets lost");
}

#[test]
fn f31_64_senders_fill_a_quarter_of_the_buffer_at_each_poll_and_never_overrun_it() {
    moves_a_quarter(64, 800, MS * 500, MS * 1_000);
}

#[test]
fn f31_1000_senders_fill_a_quarter_of_the_buffer_at_each_poll_and_never_overrun_it() {
    moves_a_quarter(1_000, 100, MS * 500, MS * 1_500);
}
