//! Token buckets on what handshakes cost in processor time in sealed mode. Their senders have
//! proved an address by a cookie; everything before that is a few hashes of short inputs.
//!
//! * **Messages that no key fits**, or whose INIT is refused for another reason, cost some ten
//!   hashes and a decryption, about 10 us. They are limited for each source prefix, so that no
//!   attacker keeps others out. A thousand honest nodes behind one address may each fail once while
//!   the cluster changes its key.
//! * **Key exchanges** cost about 100 us. They answer an INIT that a member of the cluster made,
//!   each INIT once: a repetition is recognised before it is read. They are limited in all.
//!
//! An INIT beyond a limit is dropped. Honest initiators repeat it.

use suci_link::time::{Duration, Instant, nanos};

/// Counters of failures; prefixes that share one share its limit. 8 KiB.
const SOURCES: usize = 1 << 8;

/// Failures of one prefix: so many at once, and one more in each interval. 256 prefixes together
/// cause at most 32,768 a second.
const FAILURES: Limit = Limit {
    burst: 1_024,
    interval: Duration::from_nanos(1_000_000_000 / 128),
};

/// Key exchanges: so many at once, more than the peers of a socket with a buffer of 16 MiB, and
/// 1,000 a second.
const EXCHANGES: Limit = Limit {
    burst: 4_096,
    interval: Duration::from_millis(1),
};

/// A token bucket.
#[derive(Clone, Copy, Debug)]
struct Limit {
    /// Tokens of a full bucket.
    burst: u64,
    /// The time in which a token is added.
    interval: Duration,
}

impl Limit {
    /// Returns true if the bucket that is full again at `full_at` has a token.
    fn allows(self, full_at: Instant, now: Instant) -> bool {
        nanos(full_at.since(now)) < nanos(self.interval).saturating_mul(self.burst)
    }

    /// Takes a token out of the bucket.
    fn take(self, full_at: &mut Instant, now: Instant) {
        *full_at = (*full_at).max(now) + self.interval;
    }
}

/// The cost of handshakes of late. A bucket is the time at which it will be full again.
#[derive(Debug)]
pub(crate) struct HandshakeWork {
    failures: Box<[Instant]>,
    exchanges: Instant,
}

impl HandshakeWork {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            failures: vec![now; SOURCES].into_boxed_slice(),
            exchanges: now,
        }
    }

    /// Returns true if a message from `source`, the keyed hash of a prefix, may be read.
    pub(crate) fn may_read(&self, now: Instant, source: u64) -> bool {
        let full_at = self.failures.get(bucket(source)).copied();
        full_at.is_none_or(|full_at| FAILURES.allows(full_at, now))
            && EXCHANGES.allows(self.exchanges, now)
    }

    /// Notes that a message from `source` was read in vain: no key fitted, or its INIT was refused.
    pub(crate) fn on_failure(&mut self, now: Instant, source: u64) {
        if let Some(full_at) = self.failures.get_mut(bucket(source)) {
            FAILURES.take(full_at, now);
        }
    }

    /// Notes that an INIT was answered by a key exchange.
    pub(crate) fn on_exchange(&mut self, now: Instant) {
        EXCHANGES.take(&mut self.exchanges, now);
    }
}

fn bucket(source: u64) -> usize {
    source as usize % SOURCES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn f02_failures_of_one_source_are_bounded_and_keep_no_other_out() {
        let mut work = HandshakeWork::new(at(0));
        let mut read = 0_u64;
        for tenth in 0..100 {
            let now = at(100 * tenth);
            while work.may_read(now, 1) {
                work.on_failure(now, 1);
                read += 1;
            }
            assert!(work.may_read(now, 2));
        }
        assert!(read.abs_diff(1_024 + 128 * 10) < 20, "{read}");
        assert!(work.may_read(at(20_000), 1));
    }

    #[test]
    fn f02_key_exchanges_are_bounded() {
        let mut work = HandshakeWork::new(at(0));
        let mut made = 0_u64;
        for second in 0..10 {
            while work.may_read(at(1_000 * second), second) {
                work.on_exchange(at(1_000 * second));
                made += 1;
            }
        }
        assert_eq!(made, 4_096 + 9 * 1_000);
    }
}
