//! HyStart++ (RFC 9406): leaves slow start when the round trip grows, before the queue overflows.

use crate::time::{Duration, Instant};

/// Samples that make a round's minimum trustworthy. RFC 9406 says 8 for a receiver that
/// acknowledges every second packet; ours acknowledges quarters of a window.
const SAMPLES: u32 = 3;
/// Bounds of the growth that counts (RFC 9406 section 4.3).
const MIN_GROWTH: Duration = Duration::from_millis(4);
const MAX_GROWTH: Duration = Duration::from_millis(16);
/// Part of the last round's minimum that counts as growth.
const GROWTH_DIVISOR: u32 = 8;
/// Rounds of conservative slow start before congestion avoidance.
const CONSERVATIVE_ROUNDS: u32 = 5;

/// How fast the window may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrowthPhase {
    /// By every byte acknowledged.
    SlowStart,
    /// By a quarter of that, while it is not clear whether a queue is building up.
    Conservative,
    /// Slow start is over.
    Done,
}

/// Round trips of the initial slow start. A round ends when a packet sent after its beginning is
/// acknowledged: sending times stand in for the RFC's packet numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct HyStart {
    round_began: Option<Instant>,
    last_minimum: Option<Duration>,
    minimum: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

#[derive(Clone, Copy, Debug)]
struct Conservative {
    baseline: Duration,
    rounds: u32,
}

/// Returns the least growth of the round trip over `before` that counts as a queue of our own.
pub(super) fn growth(before: Duration) -> Duration {
    (before / GROWTH_DIVISOR).clamp(MIN_GROWTH, MAX_GROWTH)
}

impl HyStart {
    /// Takes the acknowledgement of a packet sent at `sent_at` that spent `path` on the path, if
    /// measured.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        sent_at: Instant,
        path: Option<Duration>,
    ) -> GrowthPhase {
        if self.round_began.is_none_or(|began| sent_at >= began) {
            self.round_began = Some(now);
            self.last_minimum = self.minimum.take();
            self.samples = 0;
            if let Some(conservative) = &mut self.conservative {
                conservative.rounds += 1;
                if conservative.rounds >= CONSERVATIVE_ROUNDS {
                    return GrowthPhase::Done;
                }
            }
        }
        if let Some(path) = path {
            let minimum = self.minimum.map_or(path, |minimum| minimum.min(path));
            self.minimum = Some(minimum);
            self.samples = self.samples.saturating_add(1);
            if self.samples >= SAMPLES {
                self.judge(minimum);
            }
        }
        if self.conservative.is_some() {
            GrowthPhase::Conservative
        } else {
            GrowthPhase::SlowStart
        }
    }

    /// Compares this round's minimum with the last one's, or with the one that raised suspicion.
    fn judge(&mut self, minimum: Duration) {
        if let Some(conservative) = self.conservative {
            if minimum < conservative.baseline {
                self.conservative = None;
            }
        } else if let Some(last) = self.last_minimum
            && minimum >= last.saturating_add(growth(last))
        {
            self.conservative = Some(Conservative {
                baseline: minimum,
                rounds: 0,
            });
        }
    }
}
