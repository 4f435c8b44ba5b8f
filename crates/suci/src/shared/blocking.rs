//! Blocking calls: polls, between which the thread serves the node or parks.

use super::SharedNode;
use super::caller::Waited;
use super::inner::Inner;
use super::shard::{Shard, lock};
use super::sleepers::Registration;
use crate::clock::Deadline;
use crate::error::Error;
use crate::wait::until_some;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// Wakes a thread that waits.
struct Unpark {
    thread: Thread,
    /// It was woken since it polled last.
    woken: AtomicBool,
    /// The shards of the node that it serves meanwhile.
    serves: Mutex<Option<Arc<[Shard]>>>,
}

impl Unpark {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            thread: std::thread::current(),
            woken: AtomicBool::new(false),
            serves: Mutex::default(),
        })
    }

    fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
        let serves = lock(&self.serves).clone();
        if let Some(shards) = serves {
            shards.iter().for_each(Shard::rouse_caller);
        }
    }
}

thread_local! {
    static WAKER: Arc<Unpark> = Unpark::new();
    /// The node of which this thread is an I/O thread; null for other threads.
    static SERVED: Cell<*const Inner> = const { Cell::new(ptr::null()) };
}

impl Inner {
    /// The calling thread is one of this node's from now on.
    pub(super) fn serve_here(&self) {
        SERVED.set(self);
    }

    /// Does work of an I/O thread on the calling thread.
    pub(super) fn serving_here<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = SERVED.replace(self);
        let result = work();
        SERVED.set(before);
        result
    }

    /// Whether the calling thread is one of this node's: it runs the program's steering functions
    /// and wakers too.
    pub(super) fn is_served_here(&self) -> bool {
        ptr::eq(SERVED.get(), self)
    }

    /// Polls until ready, parking in between. A wake does not end it.
    pub(super) fn wait_for<T>(
        &self,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Result<T, Error> {
        until_some(|| self.park(Deadline::NEVER, &mut poll))
    }

    /// As [`Inner::wait_for`], but a wake ends it.
    pub(super) fn wait<T>(
        &self,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<Result<T, Error>>,
    ) -> Result<T, Error> {
        until_some(|| self.wait_until(Deadline::NEVER, &mut poll))?
    }

    /// As [`Inner::wait`], for at most `limit`.
    pub(super) fn wait_within<T>(
        &self,
        limit: Duration,
        poll: impl FnMut(&mut Context<'_>) -> Poll<Result<T, Error>>,
    ) -> Result<Option<T>, Error> {
        self.wait_until(Deadline::after(limit), poll)?.transpose()
    }

    /// Polls until ready, parking in between; nothing, if `deadline` comes first. A wake ends it.
    pub(super) fn wait_until<T>(
        &self,
        deadline: Deadline,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Result<Option<T>, Error> {
        if !self.wakes.is_used() {
            return self.park(deadline, poll);
        }
        let mut registration = Registration::new(&self.wakes.waiting);
        let ready = self.park(deadline, |cx| match poll(cx) {
            Poll::Pending => {
                let woken = registration.poll_until(cx, || self.take_wake());
                woken.map(|()| Err(Error::Woken))
            }
            ready => ready.map(Ok),
        })?;
        ready.transpose()
    }

    /// Polls until ready, parking in between; nothing, if `deadline` comes first. Where it would
    /// have to park on a thread of this node, it is refused.
    pub(super) fn park<T>(
        &self,
        deadline: Deadline,
        poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Result<Option<T>, Error> {
        if self.is_served_here() {
            return match self.block_on(Deadline::after(Duration::ZERO), poll) {
                None => Err(Error::OwnThread),
                ready => Ok(ready),
            };
        }
        Ok(self.block_on(deadline, poll))
    }

    /// Polls until ready, or until `deadline`. Meanwhile the thread serves the node, if no other
    /// one does; else it parks.
    fn block_on<T>(
        &self,
        deadline: Deadline,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        // A thread that is ending has no waker any more: one for this call alone serves as well.
        let unpark = WAKER.try_with(Arc::clone).unwrap_or_else(|_| Unpark::new());
        let waker = Waker::from(Arc::clone(&unpark));
        let mut cx = Context::from_waker(&waker);
        loop {
            unpark.woken.store(false, Ordering::Release);
            if let Poll::Ready(value) = poll(&mut cx) {
                return Some(value);
            }
            if deadline.is_over() {
                return None;
            }
            if !self.serve_until(deadline, &unpark) {
                match deadline.left() {
                    None => std::thread::park(),
                    Some(left) => std::thread::park_timeout(left),
                }
            }
        }
    }

    /// Serves the node until the thread is woken, or until `deadline`. Returns false if another
    /// thread does, or is to.
    fn serve_until(&self, deadline: Deadline, unpark: &Unpark) -> bool {
        let Some(attendance) = self.attend() else {
            return false;
        };
        *lock(&unpark.serves) = Some(Arc::clone(&self.shards));
        let waited = attendance.wait(&mut [], None, deadline.left(), || unpark.is_woken());
        *lock(&unpark.serves) = None;
        matches!(
            waited,
            Ok(Waited::Ready | Waited::Polled | Waited::TimedOut | Waited::Interrupted)
        )
    }
}

/// Polls until ready, as calls of the node that block do; nothing, if `limit` is over before. For
/// the crate `suci-sockets`.
///
/// # Errors
/// [`Error::OwnThread`] in a waker that the node calls.
pub fn block_on<T>(
    node: &SharedNode,
    limit: Option<Duration>,
    poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Result<Option<T>, Error> {
    let deadline = limit.map_or(Deadline::NEVER, Deadline::after);
    node.inner.park(deadline, poll)
}

/// Returns the value of a poll that is ready.
pub(super) fn if_ready<T>(poll: Poll<Result<T, Error>>) -> Result<Option<T>, Error> {
    match poll {
        Poll::Ready(result) => result.map(Some),
        Poll::Pending => Ok(None),
    }
}
