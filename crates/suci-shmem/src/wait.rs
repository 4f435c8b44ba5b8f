//! Waits for a change of this process's memory by another one.

use crate::fatal;
use crate::runtime::started;
use std::ffi::c_int;
use std::sync::atomic::{
    AtomicI16, AtomicI32, AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering, fence,
};
use std::time::Duration;

/// An integer that another process may change meanwhile.
pub(crate) trait Word: Copy + PartialOrd {
    /// Reads it.
    ///
    /// # Safety
    /// It points to an aligned integer.
    unsafe fn load(at: *const Self) -> Self;
}

macro_rules! words {
    ($($word:ty: $atomic:ty,)*) => { $(
        impl Word for $word {
            unsafe fn load(at: *const Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { <$atomic>::from_ptr(at.cast_mut()) }.load(Ordering::Acquire)
            }
        }
    )* };
}

words! {
    i16: AtomicI16,
    u16: AtomicU16,
    i32: AtomicI32,
    u32: AtomicU32,
    i64: AtomicI64,
    u64: AtomicU64,
}

/// `SHMEM_CMP_…`
#[derive(Clone, Copy, Debug)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Greater,
    LessOrEqual,
    Less,
    GreaterOrEqual,
}

impl Comparison {
    /// Reads the constant. Ends the program if it is none.
    pub(crate) fn new(constant: c_int) -> Self {
        match constant {
            1 => Self::Equal,
            2 => Self::NotEqual,
            3 => Self::Greater,
            4 => Self::LessOrEqual,
            5 => Self::Less,
            6 => Self::GreaterOrEqual,
            _ => fatal!("cmp is {constant}: pass one of SHMEM_CMP_EQ, _NE, _GT, _GE, _LT, _LE"),
        }
    }

    pub(crate) fn holds<T: PartialOrd>(self, left: T, right: T) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Greater => left > right,
            Self::LessOrEqual => left <= right,
            Self::Less => left < right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

/// Polls of a wait that go on at once: a put on its way is often there by then.
const SPINS: u32 = 200;

/// Polls before the first sleep. Those after the spins let other threads run in between.
const SLEEPLESS: u32 = 300;

/// The sleeps between the polls that follow: the first, and the longest. An operation of another
/// process ends a sleep early. Changes that the node does not see, those by threads of this process
/// and through shared memory, are found by the next poll.
const FIRST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// Waits until `ready` returns something. Each poll costs little, so it polls at once, then lets
/// others run (the thread that serves the puts may need this processor), then sleeps longer and
/// longer, or until an operation of another process was served.
pub(crate) fn until<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let mut polls = 0_u32;
    let mut sleep = FIRST_SLEEP;
    let value = loop {
        let polled = match polls {
            ..SLEEPLESS => ready(),
            _ => poll_for(sleep, &mut ready),
        };
        if let Some(value) = polled {
            break value;
        }
        match polls {
            ..SPINS => std::hint::spin_loop(),
            SPINS..SLEEPLESS => std::thread::yield_now(),
            _ => sleep = (sleep * 2).min(LONGEST_SLEEP),
        }
        polls = polls.saturating_add(1);
    };
    // Bytes that were written before the integer are read after it.
    fence(Ordering::Acquire);
    value
}

/// Polls now, and again when an operation of another process was served; for at most `limit`.
fn poll_for<T>(limit: Duration, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let Some(runtime) = started() else {
        std::thread::sleep(limit);
        return ready();
    };
    match runtime.node().wait_until(limit, ready) {
        Ok(value) => value,
        Err(error) => fatal!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_those_of_the_constants() {
        let holding = |constant| {
            let comparison = Comparison::new(constant);
            [(1, 2), (2, 2), (3, 2)].map(|(left, right)| comparison.holds(left, right))
        };
        assert_eq!(holding(1), [false, true, false]);
        assert_eq!(holding(2), [true, false, true]);
        assert_eq!(holding(3), [false, false, true]);
        assert_eq!(holding(4), [true, true, false]);
        assert_eq!(holding(5), [true, false, false]);
        assert_eq!(holding(6), [false, true, true]);
    }

    #[test]
    fn a_wait_ends_with_the_change() {
        let word = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let writer = || {
                std::thread::sleep(Duration::from_millis(5));
                word.store(7, Ordering::Release);
            };
            scope.spawn(writer);
            // SAFETY: it is aligned and lives.
            let ready = || unsafe { (u64::load(word.as_ptr()) == 7).then_some(()) };
            until(ready);
        });
    }
}
