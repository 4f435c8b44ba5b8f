//! Pacing: spreads a window over its round trip (RFC 9002 section 7.7).
//!
//! A token bucket in bytes. User space cannot sleep for a microsecond and should not try: the
//! bucket may owe as much as [`MIN_WAIT`] earns, and a wait is never shorter than that. Therefore
//! the pacer never delays packets on paths whose round trip is about that short, and whole
//! segmentation trains pass at high rates.

use crate::time::{Duration, Instant, nanos};

/// Shortest wait worth asking for; shorter ones are granted in advance.
pub const MIN_WAIT: Duration = Duration::from_micros(100);

/// Packets that may always go back to back: the initial window of RFC 6928.
const BURST_PACKETS: u64 = 10;

/// Time for which budget may accumulate while the sender had nothing to send, or slept too long.
/// All of it may leave at once, and packets of other senders wait behind it. [`Pacer::on_late`]
/// allows more.
pub const OVERSLEEP: Duration = Duration::from_micros(250);

/// The bucket counts in billionths of a byte: one byte per second for one nanosecond. 64 bits hold
/// 9 GB of them.
const SCALE: i64 = 1_000_000_000;

/// A token bucket. Blocks nothing itself: it tells how much may be sent now and when more may.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Billionths of bytes; negative when sent in advance.
    tokens: i64,
    updated: Instant,
    mtu: u64,
}

impl Pacer {
    /// Returns a pacer whose first burst is free. `mtu` in bytes of UDP payload.
    #[must_use]
    pub fn new(now: Instant, mtu: usize) -> Self {
        let mtu = mtu as u64;
        Self {
            tokens: scaled(BURST_PACKETS.saturating_mul(mtu)),
            updated: now,
            mtu,
        }
    }

    /// Sets the packet size.
    pub const fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu as u64;
    }

    /// Adds what `rate` bytes per second earned since `since`, when the sender could have sent and
    /// its process did not run: at most `most` of it. A busy host that runs a process for one
    /// millisecond of ten would otherwise divide its rate by ten. The budget beyond the usual burst
    /// is lost unless it is used at once.
    pub fn on_late(&mut self, now: Instant, since: Instant, rate: u64, most: Duration) {
        let since = since.max(self.updated);
        let owed = paid(rate, now.since(since).min(most));
        self.tokens = self.filled(since, rate).saturating_add(owed);
        self.updated = self.updated.max(now);
    }

    /// Returns the bytes that may be sent now at `rate` bytes per second. A packet may be sent if
    /// it is at most that long; otherwise call [`next_time`](Self::next_time).
    pub fn budget(&mut self, now: Instant, rate: u64) -> u64 {
        self.tokens = self.filled(now, rate);
        self.updated = self.updated.max(now);
        let allowed = self.tokens.saturating_add(paid(rate, MIN_WAIT)) / SCALE;
        u64::try_from(allowed).unwrap_or(0)
    }

    /// Returns true if the budget has `bytes` already, without the tokens earned since the last
    /// [`budget`](Self::budget). False for more than may go back to back.
    #[must_use]
    pub fn has(&self, bytes: u64) -> bool {
        self.tokens >= scaled(bytes) && bytes <= BURST_PACKETS.saturating_mul(self.mtu)
    }

    /// Takes `bytes` that were sent, whether the budget allowed them or not (probes).
    pub fn consume(&mut self, bytes: u64) {
        self.tokens = self.tokens.saturating_sub(scaled(bytes));
    }

    /// Returns when `bytes` may be sent at `rate` bytes per second: `now` if the budget has them,
    /// else at least [`MIN_WAIT`] later. Never before `now`. Bytes beyond the largest burst add no
    /// wait.
    #[must_use]
    pub fn next_time(&self, now: Instant, rate: u64, bytes: u64) -> Instant {
        let wanted = scaled(bytes).min(self.capacity(rate));
        let missing = wanted.saturating_sub(self.filled(now, rate));
        if missing <= paid(rate, MIN_WAIT) {
            return now;
        }
        // Positive: `paid` is never negative. Rounded up, since a wait that ends too early would be
        // repeated.
        let wait = missing.unsigned_abs().div_ceil(rate.max(1));
        now + Duration::from_nanos(wait).max(MIN_WAIT)
    }

    /// Returns the bucket at `now`. Debt is bounded as credit is: a burst at an earlier, higher
    /// rate must not be paid back at the present rate.
    fn filled(&self, now: Instant, rate: u64) -> i64 {
        let capacity = self.capacity(rate);
        let time = now.since(self.updated);
        // A late process uses what it is owed packet by packet.
        let most = match time > OVERSLEEP {
            true => capacity,
            false => capacity.max(self.tokens),
        };
        self.tokens
            .saturating_add(paid(rate, time))
            .clamp(-capacity, most)
    }

    /// Returns the largest burst after a pause.
    fn capacity(&self, rate: u64) -> i64 {
        scaled(BURST_PACKETS.saturating_mul(self.mtu)).max(paid(rate, OVERSLEEP))
    }
}

/// Returns the tokens that `rate` bytes per second earn in `time`.
fn paid(rate: u64, time: Duration) -> i64 {
    i64::try_from(rate.saturating_mul(nanos(time))).unwrap_or(i64::MAX)
}

fn scaled(bytes: u64) -> i64 {
    i64::try_from(bytes)
        .unwrap_or(i64::MAX)
        .saturating_mul(SCALE)
}

#[cfg(test)]
mod tests;
