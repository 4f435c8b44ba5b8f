//! One descriptor for the program's own epoll, for any number of threads.

use super::SharedNode;
use super::inner::Inner;
use super::readiness::Readiness;
use super::shard::Shard;
use crate::error::Error;
use crate::sys::{EventFd, IdentifiedFd};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

/// The descriptor, and its state.
pub(super) struct NodeDescriptor {
    event_fd: EventFd,
    copy: IdentifiedFd,
    /// The child of a fork has closed its copy.
    closed: AtomicBool,
    readiness: Readiness,
    /// The program asked for it: from then on it must be right.
    exposed: AtomicBool,
}

impl Wake for NodeDescriptor {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.readiness.signal(|| self.event_fd.signal());
    }
}

impl NodeDescriptor {
    pub(super) fn new() -> Result<Self, Error> {
        let trouble = Error::io("making a descriptor for the program to wait on");
        let event_fd = EventFd::new().map_err(trouble)?;
        Ok(Self {
            copy: IdentifiedFd::new(event_fd.as_raw_fd()),
            closed: AtomicBool::new(false),
            event_fd,
            readiness: Readiness::new(),
            exposed: AtomicBool::new(false),
        })
    }

    /// Closes the descriptor in the child of a fork, which has given its last handle back.
    pub(super) fn close_copy(&self) {
        if !self.closed.swap(true, Ordering::Relaxed) {
            // SAFETY: the handles of the parent's node do nothing in this process, and the last of
            // them, with which the descriptor was valid, is given back.
            unsafe { self.copy.close_if_same() };
        }
    }
}

impl Inner {
    /// A call found nothing: the descriptor says so, unless something came meanwhile.
    pub(super) fn nothing_found(&self) {
        let descriptor = &self.descriptor;
        if !descriptor.exposed.load(Ordering::Relaxed) {
            return;
        }
        let enter = || {
            let waker = Waker::from(Arc::clone(descriptor));
            self.message_ready.0.enter(waker.clone());
            self.event_ready.0.enter(waker.clone());
            self.wakes.waiting.enter(waker);
        };
        let read = || {
            descriptor.event_fd.clear();
        };
        let write = || descriptor.event_fd.signal();
        let waits =
            || self.wakes.is_pending() || self.shards.iter().any(Shard::has_message_or_event);
        descriptor.readiness.clear(read, enter, waits, write);
    }
}

impl SharedNode {
    fn expose(&self) -> &EventFd {
        let descriptor = &self.inner.descriptor;
        if !descriptor.exposed.swap(true, Ordering::Relaxed) && !self.inner.is_forked() {
            self.inner.nothing_found();
        }
        &descriptor.event_fd
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
