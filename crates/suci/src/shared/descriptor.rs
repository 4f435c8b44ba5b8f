//! One descriptor for the program's own epoll, for any number of threads.

use super::SharedNode;
use super::event_fd::EventFd;
use super::inner::Inner;
use super::shard::Shard;
use crate::error::Error;
use crate::sys::Bell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

/// The descriptor, and its state.
pub(super) struct Sign {
    bell: Bell,
    event_fd: EventFd,
    /// The program asked for it: from then on it must be right.
    exposed: AtomicBool,
}

impl Wake for Sign {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.event_fd.light(|| self.bell.ring());
    }
}

impl Sign {
    pub(super) fn new() -> Result<Self, Error> {
        let trouble = Error::io("making a descriptor for the program to wait on");
        Ok(Self {
            bell: Bell::new().map_err(trouble)?,
            event_fd: EventFd::new(),
            exposed: AtomicBool::new(false),
        })
    }
}

impl Inner {
    /// A call found nothing: the descriptor says so, unless something came meanwhile.
    pub(super) fn nothing_found(&self) {
        let sign = &self.sign;
        if !sign.exposed.load(Ordering::Relaxed) {
            return;
        }
        let enter = || {
            let waker = Waker::from(Arc::clone(sign));
            self.message_ready.0.enter(waker.clone());
            self.event_ready.0.enter(waker.clone());
            self.wakes.waiting.enter(waker);
        };
        let hush = || {
            sign.bell.hush();
        };
        let ring = || sign.bell.ring();
        let waits = || self.wakes.is_pending() || self.shards.iter().any(Shard::has_news);
        sign.event_fd.clear(hush, enter, waits, ring);
    }
}

impl SharedNode {
    fn expose(&self) -> &Bell {
        let sign = &self.inner.sign;
        if !sign.exposed.swap(true, Ordering::Relaxed) && !self.inner.is_forked() {
            self.inner.nothing_found();
        }
        &sign.bell
    }
}

impl AsRawFd for SharedNode {
    /// A descriptor for epoll, poll or select, the same for all handles: readable while a message
    /// or an event waits, a wake is pending, or the node is closed. What makes it unreadable is
    /// [`SharedNode::try_next`] that finds nothing, or [`SharedNode::try_recv`] or
    /// [`SharedNode::next_event`] where neither of both does; do nothing else with it.
    fn as_raw_fd(&self) -> RawFd {
        self.expose().as_raw_fd()
    }
}

impl AsFd for SharedNode {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.expose().as_fd()
    }
}
