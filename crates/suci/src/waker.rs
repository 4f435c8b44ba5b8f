//! Ends the wait of a call from another thread, or from a signal handler.

use crate::error::Error;
use crate::fork::OriginalProcess;
use crate::shared::Inner;
use crate::sys::EventFd;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends waits of one node: [`Node::waker`](crate::Node::waker) and
/// [`SharedNode::waker`](crate::SharedNode::waker) give it. It can be cloned, and used by any
/// thread at any time, also while another thread is inside a call of the node.
///
/// A wake ends one wait: the call fails with [`Error::Woken`](crate::Error::Woken). That is a call
/// that waits now, else the next one that would wait. Several wakes before a call notices are one.
/// A call that finds what it waits for leaves the wake to the next one. These calls are ended:
/// those that receive or take events, [`Node::poll`](crate::Node::poll), `send_timeout` (which
/// gives its message back as if its limit were over), `flush` and `call`. `close` is not. Futures
/// are not: a task waits for [`SharedNode::woken_async`](crate::SharedNode::woken_async) beside
/// others. The node's descriptor is readable while a wake is pending.
///
/// ```
/// # fn main() -> Result<(), suci::Error> {
/// use suci::{Error, Node, NodeId};
/// let mut node = Node::builder().id(NodeId(1)).open()?;
/// let waker = node.waker()?;
/// let other = std::thread::spawn(move || waker.wake());
/// assert!(matches!(node.recv(), Err(Error::Woken)));
/// # other.join().unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Waker {
    target: Target,
    process: OriginalProcess,
}

/// The node whose waits a waker ends.
#[derive(Clone)]
pub(crate) enum Target {
    Node(Arc<Wakes>),
    Shared(Arc<Inner>),
}

impl Waker {
    pub(crate) fn of(target: Target) -> Result<Self, Error> {
        let process =
            OriginalProcess::new().map_err(Error::io("mapping the page that notices forks"))?;
        Ok(Self { target, process })
    }

    /// Ends one wait. It is async-signal-safe: it allocates nothing, takes no lock and makes one
    /// system call. In the child of a fork it does nothing. A call of a [`Node`](crate::Node) that
    /// sleeps notices within about 10 ms, one of a [`SharedNode`](crate::SharedNode) at once.
    pub fn wake(&self) {
        if self.process.is_forked() {
            return;
        }
        match &self.target {
            Target::Node(wakes) => wakes.wake(),
            Target::Shared(inner) => inner.wake_one(),
        }
    }

    /// Takes back a wake that no call has noticed. Returns whether there was one. This is for
    /// programs that wait on the node's descriptor and call what does not wait.
    #[must_use]
    pub fn take(&self) -> bool {
        if self.process.is_forked() {
            return false;
        }
        match &self.target {
            Target::Node(wakes) => wakes.take(),
            Target::Shared(inner) => inner.take_wake(),
        }
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}

/// The wake of a [`Node`](crate::Node): an eventfd, on which its sleeps wait, too.
#[derive(Debug)]
pub(crate) struct Wakes {
    event_fd: EventFd,
    /// The eventfd may be signalled: without this, a check would take a system call.
    hint: AtomicBool,
}

impl Wakes {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self {
            event_fd: EventFd::new().map_err(Error::io("making a descriptor to wake the node"))?,
            hint: AtomicBool::new(false),
        })
    }

    fn wake(&self) {
        // The hint comes last: if a reader took it before the write, it would find the eventfd
        // unreadable, and no later reader would check.
        self.event_fd.signal();
        self.hint.store(true, Ordering::Release);
    }

    /// Takes the wake, if there is one.
    pub(crate) fn take(&self) -> bool {
        if !self.hint.load(Ordering::Relaxed) {
            return false;
        }
        self.hint.store(false, Ordering::Relaxed);
        self.event_fd.clear()
    }

    /// A sleep saw that the eventfd was signalled.
    pub(crate) fn on_signalled(&self) {
        self.hint.store(true, Ordering::Relaxed);
    }
}

impl AsRawFd for Wakes {
    fn as_raw_fd(&self) -> RawFd {
        self.event_fd.as_raw_fd()
    }
}
