//! Calls that wait for messages of one peer, or on one channel.
//!
//! As for [`Sleepers`](super::sleepers::Sleepers): a waiter registers its filter, then looks once
//! more. The thread hands a message over, then looks for waiters. A full fence lies between the two
//! steps on both sides, so one of them sees the other.

use crate::fork::Birth;
use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::task::Waker;
use suci_proto::Filter;

/// The filters that waiting calls registered.
#[derive(Debug)]
pub(super) struct Wants {
    any: AtomicBool,
    /// Something was entered that the thread has not looked at.
    fresh: AtomicBool,
    list: Mutex<WantList>,
}

#[derive(Debug, Default)]
struct WantList {
    wants: BTreeMap<u64, (Filter, Waker)>,
    /// The last place that was given away.
    last: u64,
}

impl Wants {
    pub(super) fn new() -> Self {
        Self {
            any: AtomicBool::new(false),
            fresh: AtomicBool::new(false),
            list: Mutex::new(WantList::default()),
        }
    }

    fn list(&self) -> MutexGuard<'_, WantList> {
        // Wakers are cloned, run and dropped outside of the lock, so that nothing panics within it.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, place: Option<u64>, filter: Filter, waker: Waker) -> u64 {
        let (place, before) = {
            let mut list = self.list();
            let place = place.unwrap_or_else(|| {
                list.last += 1;
                list.last
            });
            let before = list.wants.insert(place, (filter, waker));
            self.any.store(true, Ordering::Relaxed);
            self.fresh.store(true, Ordering::Relaxed);
            (place, before)
        };
        drop(before);
        fence(Ordering::SeqCst);
        place
    }

    /// Wakes those whose filter `concerns` accepts. Call it after the change.
    pub(super) fn wake(&self, concerns: impl Fn(Filter) -> bool) {
        fence(Ordering::SeqCst);
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let woken: Vec<_> = {
            let mut list = self.list();
            let woken = list
                .wants
                .extract_if(.., |_, (filter, _)| concerns(*filter));
            let woken = woken.map(|(_, (_, waker))| waker).collect();
            self.any.store(!list.wants.is_empty(), Ordering::Relaxed);
            woken
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Returns the filters registered now, and notes that the thread has seen them.
    pub(super) fn look(&self) -> Vec<Filter> {
        if !self.any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.fresh.store(false, Ordering::Relaxed);
        let list = self.list();
        list.wants.values().map(|(filter, _)| *filter).collect()
    }

    /// Whether something was entered that the thread has not looked at.
    pub(super) fn has_fresh(&self) -> bool {
        self.fresh.load(Ordering::Relaxed)
    }
}

/// The place of one waiting call. If it is dropped before the call was woken, it leaves nothing
/// behind, except in the child of a fork, where the lock may be held by a thread that does not
/// exist in the child.
#[derive(Debug)]
pub(super) struct WantSeat<'a> {
    wants: &'a Wants,
    filter: Filter,
    place: Option<u64>,
    birth: Option<Birth>,
}

impl<'a> WantSeat<'a> {
    pub(super) const fn new(wants: &'a Wants, filter: Filter) -> Self {
        Self {
            wants,
            filter,
            place: None,
            birth: None,
        }
    }

    /// Enters the waiter, to be woken by the next [`Wants::wake`] that concerns it. Look again
    /// after it.
    pub(super) fn enter(&mut self, waker: &Waker) {
        self.birth = Birth::known();
        self.place = Some(self.wants.enter(self.place, self.filter, waker.clone()));
    }
}

impl Drop for WantSeat<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place
            && !self.birth.is_some_and(Birth::is_forked)
        {
            let want = self.wants.list().wants.remove(&place);
            drop(want);
        }
    }
}
