//! The process's monotonic clock in the engine's units.

use std::sync::OnceLock;
use suci_proto::time::{Duration, Instant};

/// Where readings start, so that times shortly before the first one can be told.
const HEAD_START: Duration = Duration::from_secs(60);

/// Reads the monotonic clock. All nodes of a process share one origin.
///
/// `CLOCK_MONOTONIC` stands still while the machine sleeps; the engine notices by itself when its driver
/// comes late, so neither that nor a stopped process is taken for a peer's silence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
        Self {
            origin: *ORIGIN.get_or_init(std::time::Instant::now),
        }
    }

    pub(crate) fn now(self) -> Instant {
        Instant::ZERO + HEAD_START + self.origin.elapsed()
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
