//! Threads and tasks that wait for a condition that another thread makes true.
//!
//! A waiter registers its waker, then looks once more. The other thread makes the condition true,
//! then looks for waiters. A full fence lies between the two steps on both sides, so one of them
//! sees the other and no wake-up is lost. Without waiters, waking costs a fence and a load.
//!
//! Each waiter has a place of its own, even if two have the same waker: a waiter that leaves takes
//! no other's place.

use crate::fork::Birth;
use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

/// The place of the waiter that stays.
const STAYS: u64 = 0;

/// The waiters for one thing.
#[derive(Debug)]
pub(crate) struct Sleepers {
    any: AtomicBool,
    list: Mutex<WakerList>,
}

#[derive(Debug, Default)]
pub(super) struct WakerList {
    wakers: BTreeMap<u64, Waker>,
    /// The last place that was given away.
    last: u64,
}

impl Sleepers {
    pub(crate) fn new() -> Self {
        Self {
            any: AtomicBool::new(false),
            list: Mutex::new(WakerList::default()),
        }
    }

    pub(super) fn list(&self) -> MutexGuard<'_, WakerList> {
        // Wakers are cloned, run and dropped outside of the lock, so that nothing panics within it.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the waiter that stays, of which there is at most one, to be woken by the next
    /// [`Sleepers::wake`]. Look again after it.
    pub(crate) fn enter(&self, waker: Waker) {
        self.enter_at(Some(STAYS), waker);
    }

    /// Enters a waiter at its place, or at a new one. Returns the place.
    fn enter_at(&self, place: Option<u64>, waker: Waker) -> u64 {
        let (place, before) = {
            let mut list = self.list();
            let place = place.unwrap_or_else(|| {
                list.last += 1;
                list.last
            });
            let before = list.wakers.insert(place, waker);
            self.any.store(true, Ordering::Relaxed);
            (place, before)
        };
        drop(before);
        fence(Ordering::SeqCst);
        place
    }

    /// Whether a waiter is registered.
    pub(crate) fn has_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Wakes all waiters, if there are any. Call it after the change.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let woken = {
            let mut list = self.list();
            self.any.store(false, Ordering::Relaxed);
            std::mem::take(&mut list.wakers)
        };
        woken.into_values().for_each(Waker::wake);
    }
}

impl AsRef<Self> for Sleepers {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// The place of one waiting call among the sleepers of `S`. If it is dropped before the call was
/// woken, it leaves nothing behind, except in the child of a fork: there the lock may be held by a
/// thread that does not exist in the child.
#[derive(Debug)]
pub(crate) struct Seat<S: AsRef<Sleepers>> {
    sleepers: S,
    place: Option<u64>,
    birth: Option<Birth>,
}

impl<S: AsRef<Sleepers>> Seat<S> {
    pub(crate) const fn new(sleepers: S) -> Self {
        Self {
            sleepers,
            place: None,
            birth: None,
        }
    }

    /// Enters the waiter, to be woken by the next [`Sleepers::wake`]. Look again after it.
    pub(crate) fn enter(&mut self, waker: &Waker) {
        let sleepers = self.sleepers.as_ref();
        self.birth = Birth::known();
        self.place = Some(sleepers.enter_at(self.place, waker.clone()));
    }

    /// Polls `look`; if it is not ready the task is woken by the next [`Sleepers::wake`].
    pub(crate) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut look: impl FnMut() -> Poll<T>,
    ) -> Poll<T> {
        if let ready @ Poll::Ready(_) = look() {
            return ready;
        }
        self.enter(cx.waker());
        look()
    }
}

impl<S: AsRef<Sleepers>> Drop for Seat<S> {
    fn drop(&mut self) {
        if let Some(place) = self.place
            && !self.birth.is_some_and(Birth::is_forked)
        {
            let waker = self.sleepers.as_ref().list().wakers.remove(&place);
            drop(waker);
        }
    }
}
