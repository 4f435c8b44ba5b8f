//! Messages that are taken back before any of them was sent.
//!  A cancelled message keeps its number, which the program and the messages behind it already
//! have, and becomes a void one ([`Kind::VOID`]): the peer takes it in its turn and discards it.
//! Consecutive void messages are one entry, so a channel has at most one more of these than of
//! others that wait.

use super::OutgoingChannel;
use crate::message::Held;
use crate::time::Instant;
use crate::types::MessageNumber;
use core::ops::Range;

/// Consecutive messages that were cancelled.
#[derive(Debug)]
pub(in crate::message) struct Cancelled {
    pub(in crate::message) numbers: Range<MessageNumber>,
    /// The room in the queue that they gave back.
    pub(in crate::message) held: Held,
    pub(in crate::message) token: u64,
    pub(in crate::message) notify: bool,
    pub(in crate::message) deadline: Option<Instant>,
}

impl OutgoingChannel {
    /// Sets when message `number` expires, which was queued just now.
    pub(in crate::message) fn set_deadline(&mut self, number: MessageNumber, at: Instant) {
        if let Some(long) = self.long_mut(number) {
            long.deadline = Some(at);
        }
    }

    /// The deadline of message `number`, which is over: some of it is about to be sent.
    pub(in crate::message) fn take_deadline(&mut self, number: MessageNumber) -> Option<Instant> {
        self.long_mut(number)?.deadline.take()
    }

    /// Cancels the messages with this token of which nothing was sent, the last ones first.
    pub(in crate::message) fn cancel_token(&mut self, token: u64) -> Vec<Cancelled> {
        let mut cancelled = Vec::new();
        // Backwards: what changes behind a place does not move it.
        for place in (0..self.queue.waiting()).rev() {
            if self.queue.token_at(place) == Some(token) {
                cancelled.extend(self.cancel_at(place));
            }
        }
        self.after_cancel();
        cancelled
    }

    /// Cancels message `number`, which has an entry of its own, if nothing of it was sent.
    pub(in crate::message) fn cancel_one(&mut self, number: MessageNumber) -> Option<Cancelled> {
        let place = self.queue.waiting_place(number)?;
        let cancelled = self.cancel_at(place);
        self.after_cancel();
        cancelled
    }

    fn cancel_at(&mut self, place: usize) -> Option<Cancelled> {
        let (cancelled, small) = self.queue.make_void(place)?;
        if let Some(small) = small {
            self.frames.cancel(&small);
        }
        Some(cancelled)
    }

    fn after_cancel(&mut self) {
        self.queue.join_voids();
        self.frames.compact(self.queue.smalls_mut());
        // All that is left of a chain may have been sent.
        self.move_cursor();
    }
}
