//! Blocking calls: polls with a waker that unparks the thread.

use crate::clock::Deadline;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

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
}

/// Polls until ready, parking in between.
pub(super) fn wait_for<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    loop {
        if let Some(value) = block_on(Deadline::NEVER, &mut poll) {
            return value;
        }
    }
}

/// Polls until ready, parking in between; nothing, if `deadline` comes first.
pub(super) fn block_on<T>(
    deadline: Deadline,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
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
