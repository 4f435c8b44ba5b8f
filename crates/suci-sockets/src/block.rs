//! Blocking calls, made of polls.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Not at all.
    None,
    /// Until then.
    Until(Instant),
    /// For ever.
    Forever,
}

impl Patience {
    /// For this time from now on; for ever without one, or if the clock does not reach so far.
    pub(crate) fn within(limit: Option<Duration>) -> Self {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        until.map_or(Self::Forever, Self::Until)
    }

    /// Parks the thread until it is woken. Returns false when the time is over.
    fn park(self) -> bool {
        match self {
            Self::None => false,
            Self::Forever => {
                thread::park();
                true
            }
            Self::Until(at) => {
                let left = at.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return false;
                }
                thread::park_timeout(left);
                true
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    /// One waker for each thread, so that a socket keeps one and not one for each call.
    static WAKER: RefCell<Waker> = RefCell::new(Waker::from(Arc::new(Unpark(thread::current()))));
}

/// Polls until `poll` is ready. Returns nothing if the time is over before.
pub(crate) fn block_on<T>(
    patience: Patience,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    let waker = WAKER.with(|waker| waker.borrow().clone());
    let mut cx = match patience {
        Patience::None => Context::from_waker(Waker::noop()),
        Patience::Until(_) | Patience::Forever => Context::from_waker(&waker),
    };
    loop {
        if let Poll::Ready(result) = poll(&mut cx) {
            return Some(result);
        }
        if !patience.park() {
            return None;
        }
    }
}
