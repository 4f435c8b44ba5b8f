//! A thread that sleeps on descriptors, and the threads that give it work.
//!
//! The sleeper sets its mark, then checks once more for work. Another thread leaves work, then
//! reads the mark. A full fence lies between the two steps on both sides, so one of them sees the
//! other. Leaving work for a thread that is awake costs a fence and a load instead of a system
//! call.

use crate::sync::atomic::{AtomicBool, Ordering, fence};

/// Whether the thread sleeps.
#[derive(Debug)]
pub(crate) struct Parker {
    asleep: AtomicBool,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self {
            asleep: AtomicBool::new(false),
        }
    }

    /// Sleeps, if `idle` finds no work. Returns the result of `sleep`, if it slept.
    pub(crate) fn park<T>(
        &self,
        idle: impl FnOnce() -> bool,
        sleep: impl FnOnce() -> T,
    ) -> Option<T> {
        // A swap, so that it comes after the swaps of several calls of `unpark`, which loom does
        // not conclude of a store.
        self.asleep.swap(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let slept = idle().then(sleep);
        self.asleep.store(false, Ordering::Relaxed);
        slept
    }

    /// Wakes the thread if it sleeps and was not woken yet. Returns whether it did. Call it after
    /// leaving the work.
    pub(crate) fn unpark(&self, wake: impl FnOnce()) -> bool {
        fence(Ordering::SeqCst);
        let woken =
            self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed);
        if woken {
            wake();
        }
        woken
    }
}
