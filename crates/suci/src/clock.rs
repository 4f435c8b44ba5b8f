//! The process's monotonic clock in the engine's units.

use crate::sys;
use suci_proto::time::{Duration, Instant};

/// Nanoseconds at which readings of a machine start that was switched on just now, so that times
/// shortly before can be told.
const HEAD_START: u64 = 60_000_000_000;

/// Reads the monotonic clock, the same for all nodes of a machine.
///
/// `CLOCK_MONOTONIC` stands still while the machine sleeps; the engine notices by itself when its
/// driver comes late, so neither that nor a stopped process is taken for a peer's silence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock;

impl Clock {
    pub(crate) fn now(self) -> Instant {
        Instant::from_nanos(sys::monotonic_nanos().saturating_add(HEAD_START))
    }
}

/// The greatest age of a comparison of the two clocks. If the wall clock is set, arrivals look
/// wrong for at most this long.
const COMPARE_EVERY: Duration = Duration::from_millis(100);

/// The largest distance between two readings of the wall clock that enclose one of ours. If they
/// are farther apart, the thread was interrupted...
const NEAR: u64 = 10_000;

/// ... and reads again, up to this many times.
const TRIES: u32 = 4;

/// Tells when datagrams arrived. The kernel reports that by the wall clock. The clocks are compared
/// only now and then, since a reading is a large part of a datagram's cost.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    /// Nanoseconds of the wall clock when ours was at zero.
    ahead: u64,
    compared_at: Option<Instant>,
}

impl Stamps {
    /// Returns the time at which a datagram with the time stamp `wall` arrived: about `now`, or
    /// before.
    pub(crate) fn arrival(&mut self, wall: Duration, now: Instant) -> Instant {
        if self
            .compared_at
            .is_none_or(|at| now.since(at) >= COMPARE_EVERY)
        {
            let (wall, ours) = both(sys::wall_nanos, || Clock.now().as_nanos());
            self.ahead = wall.saturating_sub(ours);
            self.compared_at = Some(now);
        }
        let wall = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        Instant::from_nanos(wall.saturating_sub(self.ahead))
    }
}

/// Reads both clocks at about one moment: first `wall`, then `ours`. If the thread is held up
/// between two readings, it reads again.
fn both(wall: impl Fn() -> u64, ours: impl Fn() -> u64) -> (u64, u64) {
    let mut best = (u64::MAX, (0, 0));
    for _ in 0..TRIES {
        let (before, at, after) = (wall(), ours(), wall());
        let apart = after.saturating_sub(before);
        if apart <= best.0 {
            best = (apart, (before, at));
        }
        if apart <= NEAR {
            break;
        }
    }
    best.1
}

/// How far the clocks must move apart to count as a jump. Slewing moves both.
const JUMP: u64 = 1_000_000_000;

/// Notices that the wall clock jumped against ours: it was set, the machine slept, or it was
/// restored from a snapshot. Then another machine may have this process's keys. A restored machine
/// whose wall clock was not set yet cannot be told from one that ran on.
pub(crate) struct ClockJumps {
    wall: Box<dyn Fn() -> u64 + Send>,
    /// Nanoseconds of the wall clock when ours was at zero.
    ahead: u64,
}

impl ClockJumps {
    /// `wall` reads the wall clock, in nanoseconds.
    pub(crate) fn new(wall: impl Fn() -> u64 + Send + 'static) -> Self {
        let ahead = wall_ahead(&wall);
        Self {
            wall: Box::new(wall),
            ahead,
        }
    }

    /// Whether the clocks moved apart since the last jump. Our clock was read at `now`, before the
    /// call.
    #[inline]
    pub(crate) fn jumped(&mut self, now: Instant) -> bool {
        let ahead = (self.wall)().wrapping_sub(now.as_nanos());
        self.is_far_from(ahead) && self.jumped_indeed()
    }

    /// The same with both clocks read at one moment: the process may have stood still since `now`.
    #[cold]
    fn jumped_indeed(&mut self) -> bool {
        let ahead = wall_ahead(&self.wall);
        let jumped = self.is_far_from(ahead);
        if jumped {
            self.ahead = ahead;
        }
        jumped
    }

    fn is_far_from(&self, ahead: u64) -> bool {
        let apart = ahead.wrapping_sub(self.ahead);
        apart.min(apart.wrapping_neg()) >= JUMP
    }
}

fn wall_ahead(wall: &dyn Fn() -> u64) -> u64 {
    let (wall, ours) = both(wall, || Clock.now().as_nanos());
    wall.wrapping_sub(ours)
}

/// Time at which a blocking call gives up, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(Option<std::time::Instant>);

impl Deadline {
    pub(crate) const NEVER: Self = Self(None);

    /// `timeout` from now; never, if that cannot be told.
    pub(crate) fn after(timeout: Duration) -> Self {
        Self(std::time::Instant::now().checked_add(timeout))
    }

    /// Returns the time left: zero after the deadline; no value if there is no deadline.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A clock whose readings take the times in `takes`, and one that is `ahead` of it.
    fn compared(takes: &[u64]) -> u64 {
        let (now, reading) = (Cell::new(1_000), Cell::new(0));
        let ours = || {
            now.set(now.get() + takes.get(reading.replace(reading.get() + 1)).unwrap_or(&20));
            now.get()
        };
        let (wall, ours) = both(|| ours() + 5_000_000, ours);
        wall - ours
    }

    #[test]
    fn an_interrupted_comparison_of_the_clocks_is_repeated() {
        let near = 5_000_000 - 20;
        assert_eq!(compared(&[]), near);
        assert_eq!(compared(&[20, 3_000_000]), near);
        assert_eq!(compared(&[20, 20, 3_000_000, 20, 900_000]), near);
    }

    /// A clock that is ahead of ours by what the test says.
    fn set_clock() -> (Arc<AtomicU64>, ClockJumps) {
        let ahead = Arc::new(AtomicU64::new(50 * JUMP));
        let read = Arc::clone(&ahead);
        let wall = move || Clock.now().as_nanos() + read.load(Ordering::Relaxed);
        (ahead, ClockJumps::new(wall))
    }

    #[test]
    fn only_far_jumps_of_the_wall_clock_count() {
        let (ahead, mut jumps) = set_clock();
        for (to, jumped) in [
            (50 * JUMP, false),
            (50 * JUMP + JUMP / 4 * 3, false),
            (50 * JUMP - JUMP / 4 * 3, false),
            // Small steps add up.
            (50 * JUMP + JUMP / 4 * 5, true),
            // It is set back, and set forward.
            (49 * JUMP, true),
            (49 * JUMP, false),
            (90 * JUMP, true),
            (0, true),
        ] {
            ahead.store(to, Ordering::Relaxed);
            assert_eq!(jumps.jumped(Clock.now()), jumped, "{to}");
        }
    }

    /// Both clocks go on meanwhile.
    #[test]
    fn a_process_that_stood_still_after_a_reading_saw_no_jump() {
        let (ahead, mut jumps) = set_clock();
        let long_ago = Instant::from_nanos(Clock.now().as_nanos() - 5 * JUMP);
        assert!(!jumps.jumped(long_ago));
        assert!(!jumps.jumped(Clock.now()));
        ahead.store(45 * JUMP, Ordering::Relaxed);
        assert!(jumps.jumped(Clock.now()));
    }

    #[test]
    fn arrivals_are_told_by_our_clock() {
        let mut stamps = Stamps::default();
        let now = Clock.now();
        let wall = Duration::from_nanos(sys::wall_nanos());
        let at = stamps.arrival(wall, now);
        assert!(at.since(now) < Duration::from_secs(1) && now.since(at) < Duration::from_secs(1));
        let earlier = stamps.arrival(wall - Duration::from_millis(5), now);
        assert_eq!(at.since(earlier), Duration::from_millis(5));
    }
}
