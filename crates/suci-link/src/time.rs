//! The engine's own clock reading.
//!
//! The engine never reads a clock: the driver passes `now` into every call. A reading counts
//! nanoseconds from an origin the driver chose, so that a simulator can start at zero and a process
//! at its monotonic clock's zero. Readings never run backwards.

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, AddAssign, Sub};
pub use core::time::Duration;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// A point in time: nanoseconds since the driver's origin.
///
/// All arithmetic saturates: a deadline beyond the end of time is the end of time.
///
/// It holds one nanosecond more, so that zero is free: an `Option<Instant>` takes 8 bytes. A peer
/// has some forty of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(NonZeroU64);

const _: () = assert!(size_of::<Option<Instant>>() == size_of::<u64>());

impl Instant {
    /// The driver's origin.
    pub const ZERO: Self = Self(NonZeroU64::MIN);
    /// Later than everything; a deadline that never comes.
    pub const MAX: Self = Self(NonZeroU64::MAX);

    /// Returns the reading `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// Returns the nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Returns the time from `earlier` to `self`, zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

impl Default for Instant {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Instant").field(&self.as_nanos()).finish()
    }
}

/// Returns the earlier of two moments, either of which may never come.
#[must_use]
#[inline]
pub fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Returns a duration in whole nanoseconds, at most `u64::MAX` (584 years).
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(SECOND);
    whole.saturating_add(duration.subsec_nanos().into())
}

/// Returns the rate per second of `amount` in `time`, at most `u64::MAX`; `time` below a nanosecond
/// counts as one.
#[must_use]
pub fn per_second(amount: u64, time: Duration) -> u64 {
    let time = nanos(time).max(1);
    // A division of 128 bits costs ten times one of 64, and nearly no amount needs it.
    match amount.checked_mul(SECOND) {
        Some(scaled) => scaled / time,
        None => {
            let rate = u128::from(amount) * u128::from(SECOND) / u128::from(time);
            u64::try_from(rate).unwrap_or(u64::MAX)
        }
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(nanos(rhs)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_sub(nanos(rhs)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_exact_however_large() {
        let nano = Duration::from_nanos(1);
        assert_eq!(
            per_second(1_250_000, Duration::from_millis(10)),
            125_000_000
        );
        assert_eq!(per_second(7, Duration::from_secs(2)), 3);
        assert_eq!(per_second(5, Duration::ZERO), per_second(5, nano));
        assert_eq!(per_second(1 << 40, Duration::from_secs(1 << 10)), 1 << 30);
        assert_eq!(per_second(u64::MAX, Duration::from_secs(1)), u64::MAX);
        assert_eq!(per_second(u64::MAX, nano), u64::MAX);
    }
}
