//! Runs whose programs receive by tag and source.

use suci_proto::time::{Duration, nanos};

use super::{disturb, lossy};
use crate::options::{MatchingPlan, Options};
use crate::rng::Rng;

/// Draws a run with receives beside messages, under a mixture of faults.
pub(super) fn matching(run: &mut Options, rng: &mut Rng) {
    let messages = rng.scale(10, 300);
    let burst = rng.pick(&[1, 3, 10, 30]);
    run.matching = Some(MatchingPlan {
        messages: u32::try_from(messages).unwrap_or(10),
        burst: u32::try_from(burst).unwrap_or(1),
        gap: Duration::from_nanos(nanos(run.faults_for) / (messages / burst + 1) + 2_000),
        memory: rng.pick(&[64 << 10, 1 << 20, 128 << 20]),
    });
    // Some announce most of their messages.
    let threshold = rng.pick(&[4 << 10, 32 << 10, 256 << 10]);
    for config in &mut run.configs {
        config.rts_threshold = threshold;
    }
    run.traffic.messages = run.traffic.messages.min(200);
    run.links.rate = run.links.rate.map(|rate| rate.max(20_000_000));
    run.mended_for = Duration::from_secs(600);
    if rng.chance(700_000) {
        run.faults = lossy(rng);
        run.faults.loss = run.faults.loss.min(200_000);
    }
    disturb(run, rng, 200_000);
}
