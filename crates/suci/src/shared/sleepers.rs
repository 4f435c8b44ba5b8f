//! Threads and tasks that wait for a condition that another thread makes true.
//!
//! A waiter registers its waker, then checks once more. The other thread makes the condition true,
//! then checks for waiters. A full fence lies between the two steps on both sides, so one of them
//! sees the other and no wake-up is lost. Without waiters, waking costs a fence and a load.
//!
//! Each waiter has a key of its own, even if two have the same waker: a waiter that leaves takes
//! no other's key. Waiters that want only some things say which: calls that receive from one
//! peer, or on one channel, enter with their [`Filter`](suci_proto::Filter).

use crate::fork::OriginalProcess;
use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

/// The key of the waiter that is registered for ever.
const STAYS: u64 = 0;

/// The waiters for one thing, each with what it wants of that.
#[derive(Debug)]
pub(crate) struct Sleepers<F = ()> {
    any: AtomicBool,
    /// A waiter came that [`Sleepers::wanted`] has not seen.
    fresh: AtomicBool,
    list: Mutex<WakerList<F>>,
}

#[derive(Debug)]
pub(super) struct WakerList<F> {
    wakers: BTreeMap<u64, (F, Waker)>,
    /// The last key that was assigned.
    last: u64,
}

impl<F: Copy> Default for Sleepers<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Copy> Sleepers<F> {
    pub(crate) fn new() -> Self {
        Self {
            any: AtomicBool::new(false),
            fresh: AtomicBool::new(false),
            list: Mutex::new(WakerList {
                wakers: BTreeMap::new(),
                last: STAYS,
            }),
        }
    }

    pub(super) fn list(&self) -> MutexGuard<'_, WakerList<F>> {
        // Wakers are cloned, run and dropped outside of the lock, so that nothing panics within it.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a waiter under its key, or under a new one. Returns the key.
    fn enter_at(&self, key: Option<u64>, wanted: F, waker: Waker) -> u64 {
        let (key, before) = {
            let mut list = self.list();
            let key = key.unwrap_or_else(|| {
                list.last += 1;
                list.last
            });
            let before = list.wakers.insert(key, (wanted, waker));
            self.any.store(true, Ordering::Relaxed);
            self.fresh.store(true, Ordering::Relaxed);
            (key, before)
        };
        drop(before);
        fence(Ordering::SeqCst);
        key
    }

    /// Whether a waiter is registered.
    pub(crate) fn has_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Returns what the waiters want, and notes that the caller has seen it.
    pub(crate) fn wanted(&self) -> Vec<F> {
        if !self.has_any() {
            return Vec::new();
        }
        self.fresh.store(false, Ordering::Relaxed);
        let list = self.list();
        list.wakers.values().map(|(wanted, _)| *wanted).collect()
    }

    /// Whether a waiter came that [`Sleepers::wanted`] has not seen.
    pub(crate) fn has_fresh(&self) -> bool {
        self.fresh.load(Ordering::Relaxed)
    }

    /// Wakes all waiters, if there are any. Call it after the change.
    pub(crate) fn wake(&self) {
        self.wake_those(|_| true);
    }

    /// Wakes the waiters that want what `concerns` accepts. Call it after the change.
    pub(crate) fn wake_those(&self, concerns: impl Fn(F) -> bool) {
        fence(Ordering::SeqCst);
        if !self.has_any() {
            return;
        }
        let woken = {
            let mut list = self.list();
            let mut woken = std::mem::take(&mut list.wakers);
            let others = woken.extract_if(.., |_, (wanted, _)| !concerns(*wanted));
            list.wakers = others.collect();
            self.any.store(!list.wakers.is_empty(), Ordering::Relaxed);
            woken
        };
        woken.into_values().for_each(|(_, waker)| waker.wake());
    }
}

impl Sleepers {
    /// Registers the waiter that stays, of which there is at most one, to be woken by the next
    /// [`Sleepers::wake`]. Check again after it.
    pub(crate) fn enter(&self, waker: Waker) {
        self.enter_at(Some(STAYS), (), waker);
    }
}

impl<F> AsRef<Self> for Sleepers<F> {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// The registration of one waiting call among the sleepers of `S`. If it is dropped before the call
/// was woken, it leaves nothing behind, except in the child of a fork: there the lock may be held
/// by a thread that does not exist in the child.
#[derive(Debug)]
pub(crate) struct Registration<S: AsRef<Sleepers<F>>, F: Copy = ()> {
    sleepers: S,
    wanted: F,
    key: Option<u64>,
    process: Option<OriginalProcess>,
}

impl<S: AsRef<Sleepers>> Registration<S> {
    pub(crate) const fn new(sleepers: S) -> Self {
        Self::wanting(sleepers, ())
    }
}

impl<S: AsRef<Sleepers<F>>, F: Copy> Registration<S, F> {
    /// Prepares the registration of a call that wants only some things.
    pub(crate) const fn wanting(sleepers: S, wanted: F) -> Self {
        Self {
            sleepers,
            wanted,
            key: None,
            process: None,
        }
    }

    /// Enters the waiter, to be woken by the next [`Sleepers::wake`] that concerns it. Check again
    /// after it.
    pub(crate) fn enter(&mut self, waker: &Waker) {
        let sleepers = self.sleepers.as_ref();
        self.process = OriginalProcess::known();
        self.key = Some(sleepers.enter_at(self.key, self.wanted, waker.clone()));
    }

    /// Polls `check`; if it is not ready the task is woken by the next [`Sleepers::wake`].
    pub(crate) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut check: impl FnMut() -> Poll<T>,
    ) -> Poll<T> {
        if let ready @ Poll::Ready(_) = check() {
            return ready;
        }
        self.enter(cx.waker());
        check()
    }

    /// Polls until `is` holds, as [`Registration::poll`] does.
    pub(crate) fn poll_until(
        &mut self,
        cx: &mut Context<'_>,
        mut is: impl FnMut() -> bool,
    ) -> Poll<()> {
        self.poll(cx, || match is() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
    }
}

impl<S: AsRef<Sleepers<F>>, F: Copy> Drop for Registration<S, F> {
    fn drop(&mut self) {
        if let Some(key) = self.key
            && !self.process.is_some_and(OriginalProcess::is_forked)
        {
            let waker = self.sleepers.as_ref().list().wakers.remove(&key);
            drop(waker);
        }
    }
}
