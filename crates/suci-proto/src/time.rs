//! The engine's own clock reading.
//!
//! The engine never looks at a clock: the driver passes `now` into every call. A reading
//! counts nanoseconds from an origin the driver chose, so that a simulator can start at
//! zero and a process at its monotonic clock's zero. Readings never run backwards.

use core::ops::{Add, AddAssign, Sub};
pub use core::time::Duration;

/// A point in time: nanoseconds since the driver's origin.
///
/// All arithmetic saturates: a deadline beyond the end of time is the end of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The driver's origin.
    pub const ZERO: Self = Self(0);
    /// Later than everything; a deadline that never comes.
    pub const MAX: Self = Self(u64::MAX);

    /// The reading `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to `self`, zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in whole nanoseconds, at most `u64::MAX` (584 years).
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
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
        Self(self.0.saturating_sub(nanos(rhs)))
    }
}
