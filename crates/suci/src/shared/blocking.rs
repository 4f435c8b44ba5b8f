//! Blocking calls: polls with a waker that unparks the thread.

use super::inner::Inner;
use super::sleepers::Registration;
use crate::clock::Deadline;
use crate::error::Error;
use crate::wait::until_some;
use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Arc::new(Unpark(std::thread::current())).into();
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
    fn park<T>(
        &self,
        deadline: Deadline,
        poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Result<Option<T>, Error> {
        if self.is_served_here() {
            return match block_on(Deadline::after(Duration::ZERO), poll) {
                None => Err(Error::OwnThread),
                ready => Ok(ready),
            };
        }
        Ok(block_on(deadline, poll))
    }
}

/// Returns the value of a poll that is ready.
pub(super) fn if_ready<T>(poll: Poll<Result<T, Error>>) -> Result<Option<T>, Error> {
    match poll {
        Poll::Ready(result) => result.map(Some),
        Poll::Pending => Ok(None),
    }
}

fn block_on<T>(deadline: Deadline, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    // A thread that is ending has no waker any more: one for this call alone serves as well.
    let waker = WAKER
        .try_with(Waker::clone)
        .unwrap_or_else(|_| Arc::new(Unpark(std::thread::current())).into());
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = poll(&mut cx) {
            return Some(value);
        }
        match deadline.left() {
            None => std::thread::park(),
            Some(left) if left.is_zero() => return None,
            Some(left) => std::thread::park_timeout(left),
        }
    }
}
