//! Competition: another flow fills the queue. CUBIC decides. Now and then a probe tests whether the
//! queue is gone.

use super::Cubic;
use crate::congestion::hystart::growth;
use crate::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct CompetitiveMode {
    pub(super) cubic: Cubic,
    /// Least time on the path in the round in which the competition was noticed.
    found: f64,
    /// When the last probe began.
    probed_at: Instant,
    /// Rounds left of the present probe; 0 between probes.
    pub(super) probing: u32,
    /// Least time on the path in the round before.
    pub(super) last: Option<f64>,
    /// Failed probes, and the least time on the path seen meanwhile.
    pub(super) failed: u32,
    pub(super) least: Option<f64>,
}

impl CompetitiveMode {
    pub(super) fn new(now: Instant, cubic: Cubic, found: f64) -> Self {
        Self {
            cubic,
            found,
            probed_at: now,
            probing: 0,
            last: None,
            failed: 0,
            least: None,
        }
    }

    /// Ends slow start once the delay exceeds the delay at which the competition was noticed by
    /// what HyStart++ counts as growth. HyStart++ itself compares with the round before. It would
    /// take two thirds of a link from a TCP that left slow start at such a delay, as Linux's
    /// HyStart does.
    pub(super) fn judge_slow_start(&mut self, least: Option<f64>) {
        let found = Duration::from_secs_f64(self.found);
        let most = (found + growth(found)).as_secs_f64();
        if self.cubic.is_searching() && least.is_some_and(|least| least > most) {
            self.cubic.end_slow_start();
        }
    }

    /// Begins a probe if one is due: our own packets drain, which shows whether the queue goes with
    /// them. It takes two rounds, because the packets of the first still meet packets sent before.
    pub(super) fn probe_if_due(&mut self, now: Instant, every: Duration) {
        if self.probing == 0 && now.since(self.probed_at) >= every {
            self.probed_at = now;
            self.probing = 2;
        }
    }
}
