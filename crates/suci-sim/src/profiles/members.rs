//! Runs in which each process is a member of one cluster.

use suci_proto::time::{Duration, nanos};

use super::{Profile, lossy, steps};
use crate::options::{Options, Step, Traffic};
use crate::rng::Rng;

/// Draws a run whose processes know the first one to three hosts alone, and are told of the others.
/// In half of the runs members only die, leave and come back, and few packets are lost: in most of
/// these, no member may be told dead by mistake.
pub(super) fn members(run: &mut Options, rng: &mut Rng) {
    run.seeds = rng.index(1, 4).min(run.nodes);
    run.clients = 0;
    // Programs have nobody to talk to before they are told of others.
    run.traffic = Traffic::none();
    run.script.clear();
    run.recv_buffer = 8 << 20;
    run.faults_for = rng.duration(Duration::from_secs(10), Duration::from_secs(90));
    run.mended_for = Duration::from_secs(600);
    if rng.chance(500_000) {
        run.links.rate = None;
        run.faults = lossy(rng);
        run.faults.loss = run.faults.loss.min(20_000);
        run.faults.flip = 0;
        run.faults.hold = 0;
        ends(run, rng);
        return;
    }
    run.links.rate = run.links.rate.map(|rate| rate.max(20_000_000));
    if rng.chance(700_000) {
        run.faults = lossy(rng);
        run.faults.loss = run.faults.loss.min(200_000);
    }
    for kind in [
        Profile::Partition,
        Profile::Restart,
        Profile::Restart,
        Profile::Pause,
        Profile::Mtu,
        Profile::Close,
    ] {
        if rng.chance(300_000) {
            steps(run, kind, rng);
        }
    }
}

/// Members die, or leave. Most come back, under the same IDs.
fn ends(run: &mut Options, rng: &mut Rng) {
    for _ in 0..rng.range(1, 10) {
        let at = Duration::from_nanos(rng.range(0, nanos(run.faults_for)));
        let host = rng.index(0, run.nodes);
        let back = rng.duration(Duration::from_millis(1), Duration::from_secs(30));
        let step = match rng.chance(500_000) {
            true => Step::Crash(host, rng.chance(800_000).then_some(back)),
            false => {
                let deadline = rng.duration(Duration::from_millis(1), Duration::from_secs(10));
                Step::Close(host, deadline, back)
            }
        };
        run.script.push((at, step));
    }
}
