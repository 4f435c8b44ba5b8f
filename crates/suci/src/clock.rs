//! The process's monotonic clock in the engine's units.

use crate::sys;
use suci_proto::time::{Duration, Instant};

/// Nanoseconds at which readings of a machine start that was switched on just now, so that times shortly before can be
/// told.
const HEAD_START: u64 = 60_000_000_000;

/// Reads the monotonic clock, the same for all nodes of a machine.
///
/// `CLOCK_MONOTONIC` stands still while the machine sleeps; the engine notices by itself when its driver
/// comes late, so neither that nor a stopped process is taken for a peer's silence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock;

impl Clock {
    pub(crate) fn now(self) -> Instant {
        Instant::from_nanos(sys::monotonic_nanos().saturating_add(HEAD_START))
    }
}

/// When a blocking call gives up: a time, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline(Option<std::time::Instant>);

impl Deadline {
    pub(crate) const NEVER: Self = Self(None);

    /// `timeout` from now; never, if that cannot be told.
    pub(crate) fn after(timeout: Duration) -> Self {
        Self(std::time::Instant::now().checked_add(timeout))
    }

    /// What is left; zero when it is over, nothing if it never is.
    pub(crate) fn left(self) -> Option<Duration> {
        self.0
            .map(|at| at.saturating_duration_since(std::time::Instant::now()))
    }

    /// Whichever comes first.
    pub(crate) fn earlier(self, other: Self) -> Self {
        Self(self.0.into_iter().chain(other.0).min())
    }

    pub(crate) fn is_over(self) -> bool {
        self.left() == Some(Duration::ZERO)
    }
}
