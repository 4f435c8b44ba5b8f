//! Runs in which a node ID is used again and again, and runs with very many nodes.

use suci_proto::time::Duration;

use super::lossy;
use crate::options::{Churn, Consume, Drive, Options};
use crate::rng::Rng;

/// Draws a run in which a few nodes stay, and one or two start hundreds of times. In half of these
/// runs no packet is lost: every first message must arrive then.
pub(super) fn churn(run: &mut Options, rng: &mut Rng) {
    let hosts = rng.index(1, 3).min(run.nodes.saturating_sub(1));
    run.clients = hosts;
    run.recv_buffer = 8 << 20;
    run.links.latency = rng.duration(Duration::from_micros(5), Duration::from_millis(3));
    run.links.jitter = run.links.latency / 2;
    run.links.rate = None;
    run.start_within = Duration::ZERO;
    for config in &mut run.configs {
        config.unattended = false;
    }
    // All send to one node that stays, whose address all have.
    run.traffic.to_first = true;
    run.traffic.messages = u32::try_from(rng.range(1, 200)).unwrap_or(1);
    run.traffic.sizes = vec![(90, 0, 200), (9, 200, 4_000), (1, 4_000, 40_000)];
    run.traffic.refuse = 0;
    run.faults_for = Duration::from_secs(rng.range(10, 40));
    run.churn = Some(Churn {
        hosts,
        starts: u32::try_from(rng.range(100, 500)).unwrap_or(100),
        life: rng.duration(Duration::from_millis(1), Duration::from_secs(1)),
        pause: rng.duration(Duration::from_micros(10), Duration::from_millis(300)),
        killed: rng.pick(&[0, 0, 200_000, 500_000, 1_000_000]),
        moved: rng.pick(&[0, 0, 500_000, 1_000_000]),
    });
    // Programs that hold their messages back are another matter, too.
    run.script.clear();
    if rng.chance(500_000) {
        run.faults = lossy(rng);
        run.faults.loss = run.faults.loss.min(100_000);
    }
}

/// Thousands of nodes, each of which talks to a few.
pub(super) fn vast(run: &mut Options, rng: &mut Rng) {
    run.clients = 0;
    run.recv_buffer = 1 << 20;
    run.traffic.fan_out = rng.index(1, 4);
    run.traffic.messages = u32::try_from(rng.range(1, 6)).unwrap_or(1);
    run.traffic.sizes = vec![(90, 0, 200), (10, 200, 4_000)];
    run.faults_for = Duration::from_secs(2);
    run.traffic.gap = Duration::from_millis(200);
    run.script.clear();
    if rng.chance(500_000) {
        run.faults = lossy(rng);
        run.faults.loss = run.faults.loss.min(50_000);
    }
}

/// Draws a run in which more nodes than a server has slots for visit it, again and again: each asks
/// once or a few times, a second apart or so, and leaves. Every question is answered in time.
pub(super) fn visits(run: &mut Options, rng: &mut Rng) {
    let visitors = run.nodes.saturating_sub(1);
    // Each slot takes two control packets of the quarter of the buffer that is for them.
    let slots = (visitors as u64 * 10 / rng.range(10, 40)).max(8);
    run.recv_buffer = slots * 6_656;
    // The server knows none of them, or all.
    run.clients = if rng.chance(700_000) { visitors } else { 0 };
    run.links.latency = rng.duration(Duration::from_micros(5), Duration::from_millis(2));
    run.links.jitter = run.links.latency / 2;
    run.links.rate = None;
    run.links.mtu = 1_472;
    run.links.route_mtu = 1_472;
    run.start_within = rng.pick(&[Duration::ZERO, Duration::from_secs(1)]);
    run.drives = vec![Drive::Woken(Duration::from_micros(rng.range(1, 200)))];
    run.consumes = vec![Consume::Eager];
    run.port_unreachable = false;
    run.one_machine = false;
    for config in &mut run.configs {
        config.unattended = false;
        config.keep_alive = false;
        config.silence_timeout = Duration::from_secs(10);
        config.give_up_after = Duration::from_secs(3_600);
        config.max_ack_delay = config.max_ack_delay.min(Duration::from_millis(25));
    }
    run.traffic.to_first = true;
    run.traffic.fan_out = 1;
    run.traffic.to_itself = 0;
    run.traffic.messages = u32::try_from(rng.range(2, 12)).unwrap_or(2);
    run.traffic.burst = 1;
    run.traffic.gap = Duration::from_millis(rng.pick(&[300, 1_000, 2_000]));
    run.traffic.sizes = vec![(90, 0, 200), (10, 200, 1_000)];
    run.traffic.reply = 1_000_000;
    run.traffic.refuse = 0;
    run.traffic.withdraw = 0;
    run.faults_for = Duration::from_secs(rng.range(5, 15));
    run.churn = Some(Churn {
        hosts: visitors,
        starts: u32::try_from(rng.range(1, 6)).unwrap_or(1),
        life: rng.duration(Duration::from_secs(1), Duration::from_secs(6)),
        pause: rng.duration(Duration::from_micros(10), Duration::from_secs(1)),
        killed: rng.pick(&[0, 0, 0, 200_000]),
        moved: 0,
    });
    run.script.clear();
    run.question_within = Some(Duration::from_secs(1));
    if rng.chance(500_000) {
        run.faults.loss = u32::try_from(rng.range(0, 20_000)).unwrap_or(0);
        // The packets of others are lost, too, and their slots wait for repetitions.
        run.question_within = Some(Duration::from_secs(2));
    }
}
