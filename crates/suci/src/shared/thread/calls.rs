//! The calls of a thread's peers: their results, their limits, and cancelled ones.

use super::Worker;
use crate::error::Error;
use crate::message::Message;
use std::sync::atomic::{Ordering, fence};
use suci_proto::CallId;

impl Worker {
    /// Gives the callers the results of their calls, as many replies as there is room for, and ends
    /// the calls whose time is over.
    pub(super) fn end_calls(&mut self) {
        let (shard, engine) = (self.guard.shard(), &mut self.driver.engine);
        loop {
            self.replies_left = engine.has_call();
            let has_room = shard.has_reply_room();
            if self.replies_left && !has_room && !shard.replies_wait.swap(true, Ordering::Relaxed) {
                // `replies_wait` is set only now: replies taken meanwhile made room unnoticed.
                fence(Ordering::SeqCst);
                continue;
            }
            let done = match has_room {
                true => engine.poll_call(),
                // Failures need none.
                false => engine.poll_failed_call(),
            };
            let Some((id, result)) = done else {
                self.replies_left = engine.has_call();
                break;
            };
            let Some(answer) = self.calls.remove(id) else {
                continue;
            };
            let to = answer.about().to;
            let result = match result {
                Ok((from, reply)) => Ok(Message::new(from, reply)),
                Err(error) => Err(Error::from_call(to, error)),
            };
            let bytes = result.as_ref().ok();
            bytes.into_iter().for_each(|reply| shard.gives_reply(reply));
            if let Err(Ok(reply)) = answer.give(result) {
                shard.took_reply(&reply);
                engine.count_late_replies(1);
            }
        }
        if self.calls.next_due().is_some() {
            let now = self.driver.read_clock();
            while let Some(answer) = self.calls.pop_due(now) {
                self.driver.engine.cancel_call(answer.about().id);
                let error = answer.about().timed_out();
                // As above.
                let _ = answer.give(Err(error));
            }
        }
        if self.guard.shard().cancelled.swap(false, Ordering::Acquire) {
            let unwanted = self.calls.unwanted();
            unwanted
                .into_iter()
                .for_each(|id| self.cancel_call(id, false));
        }
    }

    /// The caller waits no longer. `late`: its reply was there already.
    pub(in crate::shared) fn cancel_call(&mut self, id: CallId, late: bool) {
        if self.calls.remove(id).is_some() {
            self.driver.engine.cancel_call(id);
        }
        self.driver.engine.count_late_replies(u64::from(late));
    }
}
