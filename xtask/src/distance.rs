//! The distance of the first two processors: the round-trip time of a cache line between them.
//!
//! A hypervisor moves virtual processors between real ones, every few seconds where this was seen:
//! 28 ns apart (two threads of one core), 65 ns (a shared cache) or 310 ns (none). A bare GSO
//! sender with its receiver on the other processor then does 60, 32 to 42, or 12 Gbit/s: the kernel
//! copies into pages that the other one has read. Figures that are compared must be of one
//! placement.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::{Context, Failure, Result};
use crate::figures;

/// Round trips in a batch, and batches in a look. Only the fastest batch counts: interrupts make
/// others slower.
const TRIPS: u32 = 1_000;
const BATCHES: u32 = 5;

/// The longest wait for the other thread: it may have to be woken, or be kept from its processor.
const ANSWER: Duration = Duration::from_secs(5);

/// Distances are alike up to this factor: the placements that were seen are more than twice as far
/// from each other.
const ALIKE: f64 = 1.4;

/// Looks that find the usual distance, an odd number so that the median is one of them; and the
/// pause between them. A placement that is not the usual one was never seen to last half of that
/// time.
const LOOKS: u32 = 81;
const PAUSE: Duration = Duration::from_millis(100);

/// For how long one figure is tried for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A placement of the processors, in which figures are to be measured.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    nanoseconds: f64,
}

impl Placement {
    /// The usual one: the median distance of eight seconds.
    ///
    /// # Errors
    /// There are no two processors that this process may use.
    pub fn usual() -> Result<Self> {
        let mut seen = Vec::new();
        for _ in 0..LOOKS {
            seen.push(look()?);
            std::thread::sleep(PAUSE);
        }
        let nanoseconds = figures::median(seen).context("no look")?;
        Ok(Self { nanoseconds })
    }

    /// Round-trip time of a cache line, in nanoseconds.
    #[must_use]
    pub fn nanoseconds(&self) -> f64 {
        self.nanoseconds
    }

    /// Returns the result of `measure` while the processors are here. It measures again if they
    /// were elsewhere before or after. Returns nothing if they were elsewhere for a minute, or kept
    /// moving: then another placement may be the usual one.
    ///
    /// # Errors
    /// As [`Placement::usual`].
    pub fn steady<T>(&self, measure: impl FnMut() -> T) -> Result<Option<T>> {
        while_here(PATIENCE, || Ok(alike(self.nanoseconds, look()?)), measure)
    }
}

/// Returns the result of `measure` if `is_here` before and after it; tries for as long as
/// `patience`.
fn while_here<T>(
    patience: Duration,
    mut is_here: impl FnMut() -> Result<bool>,
    mut measure: impl FnMut() -> T,
) -> Result<Option<T>> {
    let begun = Instant::now();
    while begun.elapsed() < patience {
        if !is_here()? {
            std::thread::sleep(PAUSE);
            continue;
        }
        let measured = measure();
        if is_here()? {
            return Ok(Some(measured));
        }
    }
    Ok(None)
}

fn alike(one: f64, other: f64) -> bool {
    one.max(other) <= ALIKE * one.min(other)
}

/// The distance now, in nanoseconds.
fn look() -> Result<f64> {
    let turn = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            pin(1)?;
            (0..TRIPS * BATCHES).try_for_each(|trip| pass(&turn, 2 * trip + 1))
        });
        let here = scope.spawn(|| {
            pin(0)?;
            let mut best = Duration::MAX;
            for batch in 0..BATCHES {
                let begun = Instant::now();
                for trip in batch * TRIPS..(batch + 1) * TRIPS {
                    pass(&turn, 2 * trip)?;
                }
                best = best.min(begun.elapsed());
            }
            Ok(best.as_nanos() as f64 / f64::from(TRIPS))
        });
        let done = |_| Failure::new("a thread panicked");
        there.join().map_err(done)??;
        here.join().map_err(done)?
    })
}

/// Waits for `own` turn, and gives the next to the other.
fn pass(turn: &AtomicU32, own: u32) -> Result<()> {
    let mut looks = 0_u32;
    let mut begun = None;
    while turn.load(Ordering::Acquire) != own {
        std::hint::spin_loop();
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(4_096) && begun.get_or_insert_with(Instant::now).elapsed() > ANSWER
        {
            return Err(Failure::new("the other processor does not answer"));
        }
    }
    turn.store(own + 1, Ordering::Release);
    Ok(())
}

/// Keeps the calling thread on one processor.
fn pin(processor: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).context(format!("processor {processor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_told_from_each_other() {
        assert!(alike(65.0, 71.0) && alike(71.0, 65.0) && alike(290.0, 330.0));
        assert!(!alike(28.0, 63.0) && !alike(310.0, 71.0));
    }

    #[test]
    fn what_was_measured_elsewhere_is_measured_again() {
        // Elsewhere; here, and moved meanwhile; here to the end.
        let mut looks = [false, true, false, true, true].into_iter();
        let mut measured = 0;
        let figure = while_here(
            Duration::MAX,
            || Ok(looks.next().unwrap()),
            || {
                measured += 1;
                measured
            },
        );
        assert_eq!(figure.unwrap(), Some(2));
        assert_eq!(looks.next(), None);
        let none = while_here(PAUSE, || Ok(false), || ());
        assert_eq!(none.unwrap(), None, "never here");
    }

    #[test]
    fn a_cache_line_takes_some_time() {
        let distance = look().unwrap();
        assert!(distance > 1.0 && distance < 1e6, "{distance} ns");
    }
}
