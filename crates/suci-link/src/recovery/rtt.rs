//! The round-trip time: RFC 9002 section 5, which is the estimator of RFC 6298 without the peer's
//! acknowledgement delay.

use super::pto::MAX_BACKOFF;
use crate::time::{Duration, nanos};

/// Resolution of timers on today's hosts, and the least time that any timer adds to the smoothed
/// round trip. RFC 9002 suggests 1 ms, which inside a machine room is ten round trips.
pub const GRANULARITY: Duration = Duration::from_micros(200);

/// The parts of a round trip that were spent at the two hosts, not on the path.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckDelays {
    /// Time that the acknowledgement waited in our own socket.
    pub local: Duration,
    /// The ACK delay that the peer reports.
    pub reported: Duration,
    /// The `max_ack_delay` that the peer announced.
    pub max: Duration,
}

/// The estimate of one path's round-trip time. It is stored in nanoseconds, since every packet uses
/// it and a [`Duration`] is two numbers.
///
/// There are two estimates. Probe and loss timers need the time until an answer arrives, which
/// includes delays of both programs beyond the announced ones. Congestion control and pacing need
/// the time on the path alone.
#[derive(Clone, Debug)]
pub struct Rtt {
    smoothed: u64,
    path: Option<PathRtt>,
    variance: u64,
    min: u64,
    latest: u64,
    sampled: bool,
}

/// The time on the path, without delays at the hosts.
#[derive(Clone, Copy, Debug)]
struct PathRtt {
    mean: u64,
    min: u64,
}

impl Rtt {
    /// Returns the estimate before the first sample: `initial` as the smoothed time, and half of it
    /// as the variance (RFC 9002 5.3).
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

    /// Adds a sample. Returns the part of it that was spent on the path, or `None` if the delays
    /// are longer than the sample.
    ///
    /// For the timers, the peer's stated delay is subtracted as RFC 9002 5.3 says: at most the
    /// announced delay, and never below the least sample. For the path, all of it is subtracted: a
    /// peer that lies about it only changes the pace of packets to itself, within the same window.
    pub fn update(&mut self, sample: Duration, delays: AckDelays) -> Option<Duration> {
        let path = sample.checked_sub(delays.reported.saturating_add(delays.local));
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
        self.update_whole(nanos(sample), nanos(delays.reported.min(delays.max)));
        path
    }

    /// Updates the estimator of RFC 9002.
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

    /// Returns the exponentially weighted mean, without the peer's announced delays (RFC 9002 5.3).
    /// Timers use it.
    #[must_use]
    pub const fn smoothed(&self) -> Duration {
        Duration::from_nanos(self.smoothed)
    }

    /// Returns the mean time on the path, or the smoothed time before the first sample of the path.
    #[must_use]
    pub const fn path(&self) -> Duration {
        Duration::from_nanos(match self.path {
            None => self.smoothed,
            Some(path) => path.mean,
        })
    }

    /// Returns the least time on the path, or the least round trip before the first sample of the
    /// path.
    #[must_use]
    pub const fn min(&self) -> Duration {
        Duration::from_nanos(match self.path {
            None => self.min,
            Some(path) => path.min,
        })
    }

    /// Returns the weighted mean deviation from [`smoothed`](Self::smoothed).
    #[must_use]
    pub const fn variance(&self) -> Duration {
        Duration::from_nanos(self.variance)
    }

    /// Returns the last sample with all delays, or the initial value before the first sample.
    #[must_use]
    pub const fn latest(&self) -> Duration {
        Duration::from_nanos(self.latest)
    }

    /// Returns true if there was a sample.
    #[must_use]
    pub const fn has_sample(&self) -> bool {
        self.sampled
    }

    /// Returns the probe timeout (RFC 9002 6.2.1) without back-off.
    ///
    /// Waits of the programs make it at most [`MAX_BACKOFF`]. A peer that was stopped for 5 s
    /// during its first exchange would have a timeout of 15 s by that sample, and of 5 s for the
    /// next ten.
    #[must_use]
    pub fn pto(&self, max_ack_delay: Duration) -> Duration {
        Duration::from_nanos(self.pto_nanos(max_ack_delay))
    }

    /// Returns the probe timeout in nanoseconds.
    #[inline]
    pub(super) fn pto_nanos(&self, max_ack_delay: Duration) -> u64 {
        let deviations = self.variance.saturating_mul(4).max(nanos(GRANULARITY));
        let wait = self.smoothed.saturating_add(deviations);
        let wait = wait.saturating_add(nanos(max_ack_delay));
        let of_path = self
            .path
            .map_or(u64::MAX, |path| path.mean.saturating_mul(3));
        wait.min(nanos(MAX_BACKOFF).max(of_path))
    }
}

/// Returns `(old * weight + new) / total`, where `total` is `weight + 1`.
const fn weighted(old: u64, weight: u64, new: u64, total: u64) -> u64 {
    old.saturating_mul(weight).saturating_add(new) / total
}
