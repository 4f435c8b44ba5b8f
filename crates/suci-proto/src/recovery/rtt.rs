//! Round-trip time: RFC 9002 section 5, the estimator of RFC 6298 with the peer's delay taken out.

use super::pto::MAX_BACKOFF;
use crate::time::{Duration, nanos};

/// What timers of today's hosts can tell apart, and the least that any of them waits beyond
/// the smoothed time. RFC 9002 suggests 1 ms; inside a machine room that is ten round trips.
pub const GRANULARITY: Duration = Duration::from_micros(200);

/// How long a packet and its acknowledgement waited, but for the path.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckWaits {
    /// What the acknowledgement lay in our socket.
    pub here: Duration,
    /// What the peer waited before it acknowledged, as it states.
    pub there: Duration,
    /// The most that it announced to wait.
    pub announced: Duration,
}

/// Estimate of one path's round-trip time, in nanoseconds: every packet reckons with them, and a
/// [`Duration`] is two numbers.
///
/// There are two means of it. Who waits for an answer must wait for both programs, too, where they
/// let packets lie longer than announced; the path and what may be sent over it are as they were
/// meanwhile.
#[derive(Clone, Debug)]
pub struct Rtt {
    smoothed: u64,
    path: Option<PathRtt>,
    variance: u64,
    min: u64,
    latest: u64,
    sampled: bool,
}

/// What the path takes.
#[derive(Clone, Copy, Debug)]
struct PathRtt {
    mean: u64,
    min: u64,
}

impl Rtt {
    /// Before the first sample: `initial` smoothed, half of it as variance (RFC 9002 5.3).
    #[must_use]
    pub fn new(initial: Duration) -> Self {
        let initial = nanos(initial);
        Self {
            smoothed: initial,
            path: None,
            variance: initial / 2,
            min: initial,
            latest: initial,
            sampled: false,
        }
    }

    /// Takes one measurement in, and returns what of it was the path: nothing where the peer states
    /// more than there was.
    ///
    /// For who waits for answers, the peer's word is believed as RFC 9002 5.3 says: no longer than
    /// announced, and nothing that would take the result below the least time ever seen. Of the
    /// path all of it is: who lies has packets sent to itself at another pace, within the same
    /// window.
    pub fn update(&mut self, sample: Duration, waits: AckWaits) -> Option<Duration> {
        let path = sample.checked_sub(waits.there.saturating_add(waits.here));
        if let Some(sample) = path.map(nanos) {
            let old = self.path.unwrap_or(PathRtt {
                mean: sample,
                min: sample,
            });
            self.path = Some(PathRtt {
                mean: weighted(old.mean, 7, sample, 8),
                min: old.min.min(sample),
            });
        }
        self.update_whole(nanos(sample), nanos(waits.there.min(waits.announced)));
        path
    }

    /// The estimator of RFC 9002.
    fn update_whole(&mut self, sample: u64, ack_delay: u64) {
        self.latest = sample;
        if !self.sampled {
            self.sampled = true;
            self.min = sample;
            self.smoothed = sample;
            self.variance = sample / 2;
            return;
        }
        self.min = self.min.min(sample);
        let adjusted = match sample.checked_sub(ack_delay) {
            Some(adjusted) if adjusted >= self.min => adjusted,
            _ => sample,
        };
        let deviation = self.smoothed.abs_diff(adjusted);
        self.variance = weighted(self.variance, 3, deviation, 4);
        self.smoothed = weighted(self.smoothed, 7, adjusted, 8);
    }

    /// Exponentially weighted mean, less the peer's delays as far as they were announced (RFC 9002
    /// 5.3): what to wait for.
    #[must_use]
    pub const fn smoothed(&self) -> Duration {
        Duration::from_nanos(self.smoothed)
    }

    /// The mean of what the path takes; of the whole, until that is known.
    #[must_use]
    pub const fn path(&self) -> Duration {
        Duration::from_nanos(match self.path {
            None => self.smoothed,
            Some(path) => path.mean,
        })
    }

    /// The least that the path took; the least of the whole, until that is known.
    #[must_use]
    pub const fn min(&self) -> Duration {
        Duration::from_nanos(match self.path {
            None => self.min,
            Some(path) => path.min,
        })
    }

    /// Weighted mean deviation from [`smoothed`](Self::smoothed).
    #[must_use]
    pub const fn variance(&self) -> Duration {
        Duration::from_nanos(self.variance)
    }

    /// The last measurement, all waiting included; the initial value before any sample.
    #[must_use]
    pub const fn latest(&self) -> Duration {
        Duration::from_nanos(self.latest)
    }

    /// Whether anything was measured.
    #[must_use]
    pub const fn has_sample(&self) -> bool {
        self.sampled
    }

    /// Returns how long to wait for an acknowledgement before probing (RFC 9002 6.2.1), without
    /// back-off.
    ///
    /// Waits of the programs make it at most [`MAX_BACKOFF`]. A peer that was stopped for 5 s
    /// during its first exchange would have a timeout of 15 s by that sample, and of 5 s for the
    /// next ten.
    #[must_use]
    pub fn pto(&self, max_ack_delay: Duration) -> Duration {
        Duration::from_nanos(self.pto_nanos(max_ack_delay))
    }

    /// The same in nanoseconds.
    #[inline]
    pub(super) fn pto_nanos(&self, max_ack_delay: Duration) -> u64 {
        let deviations = self.variance.saturating_mul(4).max(nanos(GRANULARITY));
        let wait = self.smoothed.saturating_add(deviations);
        let wait = wait.saturating_add(nanos(max_ack_delay));
        let of_path = self.path.map_or(u64::MAX, |path| path.mean.saturating_mul(3));
        wait.min(nanos(MAX_BACKOFF).max(of_path))
    }
}

/// `(old * weight + new) / total`, where `total` is `weight + 1`.
const fn weighted(old: u64, weight: u64, new: u64, total: u64) -> u64 {
    old.saturating_mul(weight).saturating_add(new) / total
}
