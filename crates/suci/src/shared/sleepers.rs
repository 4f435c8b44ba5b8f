//! Those who wait for something that another thread makes true.
//!
//! A waiter enters its waker, then looks once more; the other thread makes it true, then looks whether
//! anybody waits. With a full fence between the two steps on both sides one of them sees the other, so
//! no wake-up is lost, and where nobody waits waking costs a fence and a load.

use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

/// The waiters for one thing.
#[derive(Debug)]
pub(crate) struct Sleepers {
    any: AtomicBool,
    list: Mutex<Vec<Waker>>,
}

impl Sleepers {
    pub(crate) fn new() -> Self {
        Self {
            any: AtomicBool::new(false),
            list: Mutex::new(Vec::new()),
        }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Waker>> {
        // Wakers run and are dropped outside of the lock, so that nothing panics within it.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a waiter, to be woken by the next [`Sleepers::wake`]. Look again after it.
    pub(crate) fn enter(&self, waker: &Waker) {
        {
            let mut list = self.list();
            // A task that polls again while it waits is entered once.
            if !list.iter().any(|known| known.will_wake(waker)) {
                list.push(waker.clone());
            }
            self.any.store(true, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }

    /// Polls `look`; if it is not ready the task is woken by the next [`Sleepers::wake`].
    pub(crate) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        mut look: impl FnMut() -> Poll<T>,
    ) -> Poll<T> {
        if let ready @ Poll::Ready(_) = look() {
            return ready;
        }
        self.enter(cx.waker());
        look()
    }

    /// Wakes everybody, if anybody waits. Call it after the change.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let woken = {
            let mut list = self.list();
            self.any.store(false, Ordering::Relaxed);
            std::mem::take(&mut *list)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}
