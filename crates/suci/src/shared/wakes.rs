//! A wake of a node that threads serve: ends the wait of one of its calls.
//!
//! A signal handler may take no lock, so it cannot wake the waiting calls itself: it leaves a mark,
//! and signals the first I/O thread, which wakes them. Each checks the mark; the first one to take
//! it fails.

use super::SharedNode;
use super::inner::Inner;
use super::sleepers::{Registration, Sleepers};
use crate::error::Error;
use crate::waker::{Target, Waker};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The mark, and the calls that wait.
#[derive(Default)]
pub(super) struct WakeMark {
    /// No call has taken the wake yet.
    pending: AtomicBool,
    /// The first I/O thread has yet to wake the calls.
    requested: AtomicBool,
    /// There is a waker: waiting calls enter `waiting`.
    used: AtomicBool,
    pub(super) waiting: Sleepers,
}

impl WakeMark {
    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }
}

impl Inner {
    /// Ends the wait of one call. Async-signal-safe.
    pub(crate) fn wake_one(&self) {
        self.wakes.pending.store(true, Ordering::SeqCst);
        self.wakes.requested.store(true, Ordering::SeqCst);
        // The thread may be about to sleep: only the eventfd is sure to be noticed.
        if let Some(first) = self.shards.first() {
            first.event_fd.signal();
        }
    }

    /// Takes the wake, if there is one.
    pub(crate) fn take_wake(&self) -> bool {
        self.wakes.is_pending() && self.wakes.pending.swap(false, Ordering::SeqCst)
    }

    /// Wakes the waiting calls if a wake was requested. The first I/O thread calls it.
    pub(super) fn forward_wake(&self) {
        if self.wakes.requested.load(Ordering::Relaxed)
            && self.wakes.requested.swap(false, Ordering::SeqCst)
        {
            self.wakes.waiting.wake();
        }
    }
}

impl SharedNode {
    /// Returns a handle by which any thread, and signal handlers, end waits of this node's calls.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn waker(&self) -> Result<Waker, Error> {
        self.inner.wakes.used.store(true, Ordering::SeqCst);
        Waker::of(Target::Shared(Arc::clone(&self.inner)))
    }

    /// Waits for a wake, and takes it: for tasks, which a wake does not end by itself. If the
    /// future is dropped before it is ready, the wake stays.
    pub async fn woken_async(&self) {
        self.inner.wakes.used.store(true, Ordering::SeqCst);
        let mut registration = Registration::new(&self.inner.wakes.waiting);
        poll_fn(|cx| registration.poll_until(cx, || self.inner.take_wake())).await;
    }
}
