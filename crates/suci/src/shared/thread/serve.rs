//! The I/O thread: serves its shard, except while callers do.

use super::{After, Closed, Nap, Worker};
use crate::error::Error;
use crate::shared::inner::Inner;
use crate::shared::shard::Shard;
use crate::sys::{self, Ready};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The I/O thread serves a shard for which no caller has waited for this long. A program that has
/// its message or byte usually waits for the next one sooner.
const UNATTENDED: Duration = Duration::from_millis(1);

/// How long the I/O thread sleeps while one caller waits, which wakes it when the wait ends. Then
/// the thread looks whether the caller still waits.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// How long a caller that was just woken may take until it shows that.
const WAKING: Duration = Duration::from_millis(10);

/// Why the I/O thread stops serving.
enum Served {
    /// A caller serves.
    Relieved,
    /// The end, with the result of closing.
    Ended(Box<Worker>, Result<Closed, Error>),
    /// A caller panicked, and has told so.
    Gone,
}

impl Worker {
    /// The body of the I/O thread.
    pub(in crate::shared) fn run(self) {
        let inner = Arc::clone(&self.guard.inner);
        let index = self.guard.index;
        inner.serve_here();
        // Each worker has a shard.
        let shard = &inner.shards[index];
        // Nobody else sets it.
        let _ = shard.thread.set(std::thread::current());
        *shard.serving.take() = Some(Box::new(self));
        // The caller that waits is taken for gone.
        let mut is_gone = false;
        loop {
            match serve(shard, is_gone) {
                Served::Relieved => {
                    if is_gone {
                        shard.serving.count_in();
                    }
                    is_gone = stand_back(&inner, index, shard);
                }
                Served::Ended(worker, result) => {
                    let Self {
                        driver, mut guard, ..
                    } = *worker;
                    guard.left = Some((driver, result));
                    return;
                }
                Served::Gone => return,
            }
        }
    }
}

/// Drops the state if a turn panics.
struct PanicGuard<'a>(&'a Shard);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // That tells all callers.
            drop(self.0.serving.take().take());
        }
    }
}

/// Serves until a caller waits, or until the end. `is_gone`: the one that waits is taken for gone.
fn serve(shard: &Shard, is_gone: bool) -> Served {
    let _guard = PanicGuard(shard);
    // At the end it does not sleep any more.
    let anyway = is_gone || shard.closing.load(Ordering::SeqCst);
    let Some(waits) = shard.serving.begin_serving(anyway) else {
        return Served::Relieved;
    };
    loop {
        let mut held = shard.serving.take();
        let Some(worker) = &mut *held else {
            return Served::Gone;
        };
        let result = worker.turn();
        let ended = match result {
            Ok(After::Turn) => continue,
            Ok(After::Sleep) if worker.driver.polls() => continue,
            Ok(After::Sleep) => None,
            Ok(After::Close) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        if let Some(ended) = ended {
            let Some(worker) = held.take() else {
                return Served::Gone;
            };
            drop(held);
            return worker.end(ended);
        }
        let nap = worker.plan_sleep();
        shard.plan(nap.until());
        drop(held);
        let slept = shard.sleep(&nap, waits);
        if shard.serving.waits() != waits {
            shard.serving.end_serving();
            if matches!(slept, Ok(Some(ready)) if ready.signalled) {
                // It may have been for the caller.
                shard.event_fd.signal();
            }
            return Served::Relieved;
        }
        if let Some(worker) = &mut *shard.serving.take() {
            match slept {
                Ok(ready) => worker.on_woken(&nap, ready),
                Err(error) => worker.failed = Some(error),
            }
        }
    }
}

impl Worker {
    /// Closes the engine, or leaves it as it is after an error.
    fn end(mut self: Box<Self>, result: Result<(), Error>) -> Served {
        let result = result.map(|()| self.close());
        if result.is_err() {
            self.leave();
        }
        Served::Ended(self, result)
    }
}

impl Shard {
    /// Sleeps until the socket is ready, a thread leaves work, something is due, or a caller waits.
    /// Returns nothing if there was work.
    fn sleep(&self, nap: &Nap, waits: u64) -> Result<Option<Ready>, Error> {
        let idle = || self.is_idle(nap.left()) && self.serving.waits() == waits;
        let event_fd = Some(self.event_fd.as_raw_fd());
        let sleep = || sys::sleep_on(nap.interest(), event_fd, nap.limit());
        let ready = self.serving.park_thread(idle, sleep).transpose();
        let ready = ready.map_err(Error::io("waiting"))?;
        if ready.is_some_and(|ready| ready.signalled) {
            self.event_fd.clear();
        }
        Ok(ready)
    }

    /// Sleeps until a thread leaves work that nobody else does, or `limit`. Returns whether it was
    /// woken.
    fn doze(&self, limit: Duration) -> bool {
        // Bytes that wait for the next call may wait a little longer.
        let idle = || self.has_only_bytes() && !self.handed_back.load(Ordering::SeqCst);
        let began = std::time::Instant::now();
        self.dozes.store(true, Ordering::Relaxed);
        let sleep = || std::thread::park_timeout(limit);
        let slept = self.serving.park_thread(idle, sleep);
        self.dozes.store(false, Ordering::Relaxed);
        slept.is_none() || began.elapsed() < limit
    }

    /// Whether something waits that a caller in its sleep would have noticed.
    fn is_overdue(&self) -> bool {
        let Some(mut held) = self.serving.try_take() else {
            return false;
        };
        let Some(nap) = held.as_mut().map(|worker| worker.plan_sleep()) else {
            return false;
        };
        let has_input = || sys::sleep_on(nap.interest(), None, Some(Duration::ZERO));
        self.has_work()
            || nap.limit() == Some(Duration::ZERO)
            || has_input().is_ok_and(|ready| ready.input)
    }

    /// Whether the caller that waits, since [`waits`](super::super::serving::Serving::waits)
    /// returned this number, is gone: a handler of a signal left its sleep by `longjmp`.
    fn is_deserted(&self, waits: u64) -> bool {
        let is_overdue = || self.is_overdue() && self.serving.waits() == waits;
        is_overdue() && {
            std::thread::sleep(WAKING);
            is_overdue()
        }
    }

    /// Whether there is work that no caller is going to do.
    fn is_left_alone(&self) -> bool {
        self.has_work() && !self.serving.is_attended()
    }
}

/// Sleeps while callers serve. Returns true if the one that waits does not any more.
fn stand_back(inner: &Inner, index: usize, shard: &Shard) -> bool {
    let (mut seen, mut hold) = (shard.serving.waits(), shard.hold());
    let mut began = Instant::now();
    loop {
        let woken = shard.doze(UNATTENDED);
        if index == 0 {
            inner.forward_wake();
        }
        let is_handed_back = shard.handed_back.swap(false, Ordering::SeqCst);
        let waits = shard.serving.waits();
        let is_waiting = waits & 1 == 1;
        // A caller that waits serves, and hands the shard back when it leaves.
        if is_handed_back && !is_waiting || shard.closing.load(Ordering::SeqCst) {
            return false;
        }
        let is_unattended = waits == seen && !woken;
        // Bytes waited for a call already when this thread looked last.
        let is_late = shard.hold() == hold;
        if !is_waiting && (is_unattended || (woken || is_late) && shard.is_left_alone()) {
            return false;
        }
        if !is_waiting || waits != seen {
            began = Instant::now();
        } else if began.elapsed() >= LONG_WAIT {
            if shard.is_deserted(waits) {
                shard.serving.count_out();
                return true;
            }
            began = Instant::now();
        }
        if is_waiting && is_unattended {
            shard.serving.sleep_while(waits, || {
                shard.doze(LONG_WAIT);
            });
        }
        (seen, hold) = (waits, shard.hold());
    }
}
