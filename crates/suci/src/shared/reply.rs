//! The answer to a command, on its way back.

use super::shard::lock;
use super::sleepers::{Registration, Sleepers};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// The value on its way between the two ends.
enum Value<T> {
    /// Nothing yet.
    Awaited,
    Given(T),
    /// The value was taken, or no caller waits for it any more.
    Over,
}

struct ReplySlot<T, A> {
    about: A,
    value: Mutex<Value<T>>,
    settled: AtomicBool,
    ready: Sleepers,
}

/// The thread's end. Dropping it without an answer tells the asker that there is none. It has the
/// description of the question.
pub(super) struct Answer<T, A>(Arc<ReplySlot<T, A>>);

/// The asker's end.
pub(super) struct Reply<T, A>(Arc<ReplySlot<T, A>>);

/// Both ends of one answer, with a value `about` that both can see.
pub(super) fn pair_about<T, A>(about: A) -> (Answer<T, A>, Reply<T, A>) {
    let (value, settled) = (Mutex::new(Value::Awaited), AtomicBool::new(false));
    let slot = Arc::new(ReplySlot {
        about,
        value,
        settled,
        ready: Sleepers::new(),
    });
    (Answer(Arc::clone(&slot)), Reply(slot))
}

impl<T, A> Answer<T, A> {
    pub(super) fn about(&self) -> &A {
        &self.0.about
    }

    /// Gives the answer; gives it back if no caller waits for it any more.
    pub(super) fn give(self, value: T) -> Result<(), T> {
        let mut slot = lock(&self.0.value);
        match *slot {
            Value::Over => Err(value),
            _ => {
                *slot = Value::Given(value);
                Ok(())
            }
        }
    }

    /// Whether the asker waits still.
    pub(super) fn is_wanted(&self) -> bool {
        !matches!(*lock(&self.0.value), Value::Over)
    }
}

impl<T, A> Drop for Answer<T, A> {
    fn drop(&mut self) {
        self.0.settled.store(true, Ordering::Release);
        self.0.ready.wake();
    }
}

impl<T, A> Reply<T, A> {
    pub(super) fn about(&self) -> &A {
        &self.0.about
    }

    /// Polls for the answer; it is nothing if the thread went away.
    pub(super) fn waiting(
        &self,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Option<T>> + use<'_, T, A> {
        let slot = &self.0;
        let mut registration = Registration::new(&slot.ready);
        move |cx| {
            let settled = registration.poll_until(cx, || slot.settled.load(Ordering::Acquire));
            settled.map(|()| self.close())
        }
    }

    /// The caller waits no longer. Returns the answer, if it is there.
    pub(super) fn close(&self) -> Option<T> {
        let before = std::mem::replace(&mut *lock(&self.0.value), Value::Over);
        match before {
            Value::Given(value) => Some(value),
            Value::Awaited | Value::Over => None,
        }
    }
}
