//! Locks: the queue of Mellor-Crummey and Scott ("Algorithms for Scalable Synchronization on
//! Shared-Memory Multiprocessors", 1991), so that processes get the lock in the order in which they
//! ask, and each waits on its own memory.
//!
//! A lock is a `long` in symmetric memory. Its first half, at one process, its home, names the last
//! process in the queue. The second half, at each process in the queue, names the next one, and has
//! the bit [`WAITING`] while this one waits; it is 0 out of the queue. Processes are named by their
//! numbers plus 1.

use crate::fatal;
use crate::runtime::Runtime;
use crate::wait::{Word, until};
use suci::remote::{AtomicOp, Width};

/// This process waits for the lock.
const WAITING: u32 = 1 << 31;

/// A lock, and the process that holds or wants it.
pub(crate) struct Lock<'a> {
    runtime: &'a Runtime,
    /// The name of the last process in the queue, at the home.
    last: *mut u32,
    /// The name of the next process, at each.
    next: *mut u32,
    home: usize,
    own: u32,
}

impl<'a> Lock<'a> {
    /// The lock at an address.
    ///
    /// # Safety
    /// It points to a symmetric and aligned `long`, which nothing but these functions change.
    pub(crate) unsafe fn new(runtime: &'a Runtime, lock: *mut i64) -> Self {
        let halves = lock.cast::<u32>();
        let fabric = &runtime.fabric;
        Self {
            runtime,
            last: halves,
            next: halves.wrapping_add(1),
            home: 0,
            own: u32::try_from(fabric.me + 1).unwrap_or(u32::MAX),
        }
    }

    fn change(&self, pe: usize, at: *mut u32, op: AtomicOp) -> u32 {
        let fabric = &self.runtime.fabric;
        // SAFETY: `new` has the caller's promise for both halves.
        let before = unsafe { fabric.fetch_atomic(pe, at.cast(), Width::Bits32, op) };
        u32::try_from(before).unwrap_or(0)
    }

    fn change_next(&self, pe: usize, op: AtomicOp) {
        // SAFETY: as in `change`.
        unsafe {
            let fabric = &self.runtime.fabric;
            fabric.atomic(pe, self.next.cast(), Width::Bits32, op);
        }
    }

    fn own_next(&self) -> u32 {
        // SAFETY: as in `change`.
        unsafe { u32::load(self.next) }
    }

    /// Takes the lock. Blocks until it is free.
    pub(crate) fn set(&self) {
        self.change_next(self.runtime.fabric.me, AtomicOp::Set(WAITING.into()));
        let before = self.change(self.home, self.last, AtomicOp::Swap(self.own.into()));
        if before == self.own {
            fatal!(
                "this PE has the lock at {:p}, or waits for it: clear it first",
                self.last
            );
        }
        if let Some(before) = process(before) {
            self.change_next(before, AtomicOp::Or(self.own.into()));
            until(|| (self.own_next() & WAITING == 0).then_some(()));
        }
    }

    /// Takes the lock if it is free. Returns whether it was.
    pub(crate) fn test(&self) -> bool {
        // This process may hold the lock, or wait for it: its place in the queue stays as it is.
        self.change(self.home, self.last, self.replace(0, self.own)) == 0
    }

    /// Releases the lock, once everything that this process did with it is complete.
    pub(crate) fn clear(&self) {
        let me = self.runtime.fabric.me;
        self.runtime.fabric.quiet();
        self.change_next(me, AtomicOp::And((!WAITING).into()));
        let last = self.change(self.home, self.last, self.replace(self.own, 0));
        if last == self.own {
            return;
        }
        if last == 0 {
            fatal!("no PE has the lock at {:p}: set it first", self.last);
        }
        // Another one is behind this one, and says so soon.
        let next = until(|| process(self.own_next()));
        self.change_next(me, AtomicOp::Set(0));
        self.change_next(next, AtomicOp::And((!WAITING).into()));
    }

    fn replace(&self, expected: u32, new: u32) -> AtomicOp {
        AtomicOp::CompareSwap {
            expected: expected.into(),
            new: new.into(),
        }
    }
}

/// The process of a name.
fn process(name: u32) -> Option<usize> {
    usize::try_from(name.checked_sub(1)?).ok()
}
