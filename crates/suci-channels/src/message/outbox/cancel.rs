//! Cancelling messages before any part of them was sent: by the program, or because their deadline
//! passed. Such a message gets its outcome and leaves the queue at once. Its number is still sent
//! to the peer, as a void message.

use super::Outbox;
use crate::message::send_queue::Cancelled;
use crate::message::{CANCELLED, Completion, EXPIRED, Outcome};
use suci_link::time::Instant;
use suci_link::types::{ChannelId, MessageNumber};

impl Outbox {
    /// Sets the time at which message `number`, which was queued last, expires.
    pub fn set_deadline(&mut self, channel: ChannelId, number: MessageNumber, at: Instant) {
        if let Some(index) = self.find(channel)
            && let Some(queued) = self.channels.get_mut(index)
        {
            queued.queue.set_deadline(number, at);
            self.deadlines.insert((at, channel, number));
        }
    }

    /// Returns the time at which the next message expires.
    #[inline]
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, ..)| *at)
    }

    /// Cancels the messages whose deadline passed.
    pub fn expire(&mut self, now: Instant) {
        while let Some(&(at, channel, number)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            let cancelled = self.cancel_one(channel, number, EXPIRED);
            debug_assert!(cancelled, "what is sent has no deadline any more");
        }
    }

    /// Cancels one message that has a unique token or a deadline. Returns false if part of it was
    /// sent.
    pub fn cancel_one(&mut self, channel: ChannelId, number: MessageNumber, reason: u64) -> bool {
        let Some(&index) = self.by_id.get(&channel) else {
            return false;
        };
        let queued = self.channels.get_mut(index);
        let cancelled = queued.and_then(|queued| queued.cancel_one(number));
        self.on_cancelled(index, channel, reason, cancelled) > 0
    }

    /// Cancels the messages on `channel` with this token of which nothing was sent. Returns their
    /// number. O(messages that wait there).
    pub fn cancel(&mut self, channel: ChannelId, token: u64) -> u64 {
        let Some(&index) = self.by_id.get(&channel) else {
            // The channel has no messages.
            return 0;
        };
        let queued = self.channels.get_mut(index);
        let cancelled = queued.map_or(Vec::new(), |queued| queued.cancel_token(token));
        self.on_cancelled(index, channel, CANCELLED, cancelled.into_iter().rev())
    }

    /// Accounts for cancelled messages of a channel, in order. Returns their number.
    fn on_cancelled(
        &mut self,
        index: usize,
        channel: ChannelId,
        reason: u64,
        all: impl IntoIterator<Item = Cancelled>,
    ) -> u64 {
        let sum = self.sum_of(index, channel);
        let mut count = 0_u64;
        for cancelled in all {
            let Cancelled {
                numbers,
                held,
                token,
                notify,
                deadline,
            } = cancelled;
            self.queued.change(sum, |all| all.minus(held));
            count = count.saturating_add(held.messages);
            if let Some(at) = deadline {
                self.deadlines.remove(&(at, channel, numbers.start));
            }
            let completion = |number| Completion {
                channel,
                number,
                token,
                notify,
                outcome: Outcome::NotDelivered,
                reason: Some(reason),
            };
            let told = numbers.filter(|_| notify).map(completion);
            self.completions.extend(told);
        }
        if count > 0 {
            self.voids = self.voids.saturating_add(count);
            // Neither program knows of these messages any more, so they no longer count as
            // accepted.
            self.accepted = self.accepted.saturating_sub(count);
            // Messages that waited behind them may go now.
            self.activate(index);
        }
        count
    }
}
