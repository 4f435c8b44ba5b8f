//! The answer to a command, on its way back.

use super::shard::lock;
use super::sleepers::{Seat, Sleepers};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

struct Slot<T> {
    value: Mutex<Option<T>>,
    settled: AtomicBool,
    ready: Sleepers,
}

/// The thread's end. Dropping it without an answer tells the asker that there is none.
pub(super) struct Answer<T>(Arc<Slot<T>>);

/// The asker's end.
pub(super) struct Reply<T>(Arc<Slot<T>>);

pub(super) fn pair<T>() -> (Answer<T>, Reply<T>) {
    let (value, settled) = (Mutex::new(None), AtomicBool::new(false));
    let slot = Arc::new(Slot {
        value,
        settled,
        ready: Sleepers::new(),
    });
    (Answer(Arc::clone(&slot)), Reply(slot))
}

impl<T> Answer<T> {
    pub(super) fn give(self, value: T) {
        *lock(&self.0.value) = Some(value);
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        self.0.settled.store(true, Ordering::Release);
        self.0.ready.wake();
    }
}

impl<T> Reply<T> {
    /// Polls for the answer; it is nothing if the thread went away.
    pub(super) fn waiting(&self) -> impl FnMut(&mut Context<'_>) -> Poll<Option<T>> {
        let slot = &self.0;
        let mut seat = Seat::new(&slot.ready);
        move |cx| {
            seat.poll(cx, || match slot.settled.load(Ordering::Acquire) {
                true => Poll::Ready(lock(&slot.value).take()),
                false => Poll::Pending,
            })
        }
    }
}
