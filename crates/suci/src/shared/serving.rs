//! Which thread serves a shard: its I/O thread, or a caller that waits for the shard.
//!
//! The thread that holds the shard's state may run its cycle. Two threads may sleep on behalf of
//! the shard, and neither holds the state meanwhile:
//!
//! * One caller at a time *waits*: it runs cycles and sleeps on the socket until it has what it
//!   waits for.
//! * The I/O thread does the same while no caller waits. It stands back once it sees that a caller
//!   does, and looks now and then whether callers still come.
//!
//! A call that leaves work without waiting *attends*: it runs a cycle itself at its end, unless
//! another thread runs one. A thread that leaves work in any other way notifies: it wakes the
//! sleeper, if nobody is awake who is going to look for work.
//!
//! Everyone who was awake looks for work once more after it has given the state back, behind a full
//! fence. Everyone who leaves work reads who is awake behind a full fence, too. So one of them sees
//! the other.

use super::parker::Parker;
use crate::ownership_lock::{OwnershipGuard, OwnershipLock};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// Cycles of one call that find work left by others. After these the sleeper takes over.
const MAX_CYCLES: usize = 4;

/// How a call at its end has served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remaining {
    /// It did all that it found.
    Done,
    /// The rest may wait for the next call, or for the I/O thread to look.
    Waits,
    /// The sleeper has to go on.
    Left,
}

/// The state of a shard, and the threads that may serve it. The state is gone once it was taken
/// out.
#[derive(Debug)]
pub(crate) struct Serving<T> {
    state: OwnershipLock<Option<T>>,
    /// Taken by the caller that waits.
    waiting: OwnershipLock<()>,
    /// The sleep of the caller that waits.
    caller: Parker,
    /// The sleep of the I/O thread.
    thread: Parker,
    /// Calls that run a cycle at their ends.
    attending: AtomicUsize,
    /// The I/O thread serves, as far as it knows.
    thread_serves: AtomicBool,
}

/// The right to use the state.
pub(crate) type Held<'a, T> = OwnershipGuard<'a, Option<T>>;

impl<T> Serving<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: OwnershipLock::new(None),
            waiting: OwnershipLock::new(()),
            caller: Parker::new(),
            thread: Parker::new(),
            attending: AtomicUsize::new(0),
            thread_serves: AtomicBool::new(false),
        }
    }

    /// Takes the state as soon as it is free. Nobody holds it during a sleep.
    pub(crate) fn take(&self) -> Held<'_, T> {
        self.state.take()
    }

    /// Takes the state if it is free.
    pub(crate) fn try_take(&self) -> Option<Held<'_, T>> {
        self.state.take_at(self.state.word())
    }

    /// Takes the place of the caller that waits, if it is free. If the I/O thread serves, it is
    /// woken by `wake_thread`: it is to stand back.
    pub(crate) fn begin_wait(&self, wake_thread: impl FnOnce()) -> Option<OwnershipGuard<'_, ()>> {
        let place = self.waiting.take_at(self.waiting.word())?;
        fence(Ordering::SeqCst);
        if self.thread_serves.load(Ordering::Relaxed) {
            self.thread.unpark(wake_thread);
        }
        Some(place)
    }

    /// The I/O thread serves from now on, until [`waits`](Self::waits) returns another number than
    /// this call. Returns nothing if a caller waits, unless the thread serves `anyway`: two that
    /// serve would take each other's wakes.
    pub(crate) fn begin_serving(&self, anyway: bool) -> Option<u64> {
        self.thread_serves.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let waits = self.waits();
        if waits & 1 == 1 && !anyway {
            self.end_serving();
            return None;
        }
        Some(waits)
    }

    /// The I/O thread stands back.
    pub(crate) fn end_serving(&self) {
        self.thread_serves.store(false, Ordering::SeqCst);
    }

    /// Whether the I/O thread serves, as far as it knows.
    pub(crate) fn thread_serves(&self) -> bool {
        self.thread_serves.load(Ordering::SeqCst)
    }

    /// Returns a number that changes when a caller begins or ends a wait, and when it wakes up in
    /// one. It is odd while a caller waits.
    pub(crate) fn waits(&self) -> u64 {
        self.waiting.word()
    }

    /// Calls `sleep` if [`waits`](Self::waits) still returns `seen`. A caller that wakes up in its
    /// wait ends the sleep ([`OwnershipGuard::show_life`]).
    pub(crate) fn sleep_while(&self, seen: u64, sleep: impl FnOnce()) {
        self.waiting.sleep_while(seen, sleep);
    }

    /// The caller that waits sleeps, if `idle` finds no work.
    pub(crate) fn park_caller<R>(
        &self,
        idle: impl FnOnce() -> bool,
        sleep: impl FnOnce() -> R,
    ) -> Option<R> {
        self.caller.park(idle, sleep)
    }

    /// The I/O thread sleeps, if `idle` finds no work.
    pub(crate) fn park_thread<R>(
        &self,
        idle: impl FnOnce() -> bool,
        sleep: impl FnOnce() -> R,
    ) -> Option<R> {
        self.thread.park(idle, sleep)
    }

    /// Has somebody look for work. Call it after leaving the work.
    pub(crate) fn notify(&self, wake_caller: impl FnOnce(), wake_thread: impl FnOnce()) {
        if self.caller.unpark(wake_caller) || self.is_attended() {
            return;
        }
        self.thread.unpark(wake_thread);
    }

    /// Whether somebody is awake who looks for work before it sleeps or returns. Call it behind a
    /// full fence.
    pub(crate) fn is_attended(&self) -> bool {
        // Negative for a moment when a call returns that was taken for gone.
        let attending = self.attending.load(Ordering::Relaxed).cast_signed();
        self.state.word() & 1 == 1 || attending > 0
    }

    /// Wakes the sleeper, whoever else is awake.
    pub(crate) fn rouse(&self, wake_caller: impl FnOnce(), wake_thread: impl FnOnce()) {
        if !self.caller.unpark(wake_caller) {
            self.thread.unpark(wake_thread);
        }
    }

    /// Wakes the caller that waits, if it sleeps.
    pub(crate) fn wake_caller(&self, wake: impl FnOnce()) {
        self.caller.unpark(wake);
    }

    /// Wakes the I/O thread if it sleeps, whether it serves or not.
    pub(crate) fn wake_thread(&self, wake: impl FnOnce()) {
        self.thread.unpark(wake);
    }

    /// A call begins that looks for work at its end, by [`leave`](Self::leave).
    pub(crate) fn attend(&self) {
        self.attending.fetch_add(1, Ordering::Relaxed);
    }

    /// The call that waits never ends: its thread left it, by `longjmp` in a handler. It keeps the
    /// place of the caller that waits, so the I/O thread serves from now on.
    pub(crate) fn count_out(&self) {
        self.attending.fetch_sub(1, Ordering::Relaxed);
    }

    /// The call goes on: something else had stopped its thread.
    pub(crate) fn count_in(&self) {
        self.attending.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends such a call: serves while `has_work` and nobody else does.
    pub(crate) fn leave(
        &self,
        has_work: impl Fn() -> bool,
        mut serve: impl FnMut(&mut Option<T>) -> Remaining,
    ) -> Remaining {
        // A read-modify-write, as the next line in `notify` reads it.
        self.attending.fetch_sub(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for _ in 0..MAX_CYCLES {
            if !has_work() {
                return Remaining::Done;
            }
            let Some(mut held) = self.try_take() else {
                // The holder looks for work after it has given the state back.
                return Remaining::Done;
            };
            let work = serve(&mut held);
            drop(held);
            fence(Ordering::SeqCst);
            if work != Remaining::Done {
                return work;
            }
        }
        if has_work() {
            Remaining::Left
        } else {
            Remaining::Done
        }
    }
}
