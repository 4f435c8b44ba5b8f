//! Small messages in order: they come and go beside the slots, which know every message by itself.

use super::{Accounts, Freed, IncomingChannel};
use crate::limits::MESSAGE_CHARGE;
use crate::message::packed_queue::{PackedQueue, Taken};
use crate::message::{Message, charge, len64};
use crate::types::{Kind, MessageNumber};
use crate::wire::FrameBatch;
use bytes::Bytes;

impl IncomingChannel {
    /// Returns the number of the message that the program takes next.
    pub(in crate::message) fn front(&self) -> MessageNumber {
        self.base.saturating_sub(self.packed.len())
    }

    /// Takes a run at once, as if its messages came one by one, if it begins with the next message
    /// that never was seen. Else, and if not all of it is in order, nothing is done.
    pub(in crate::message) fn on_batch(
        &mut self,
        run: &FrameBatch<'_>,
        accounts: &mut Accounts,
    ) -> bool {
        let charge = (run.count().saturating_mul(MESSAGE_CHARGE)).saturating_add(run.payload());
        let taken = run.first() == self.base
            && self.slots.is_empty()
            && self.end.is_none()
            && PackedQueue::is_worth(run)
            && self.charge(charge, accounts);
        if taken {
            let (chunk, cache) = (&mut accounts.chunk, &mut accounts.packed_queue_cache);
            self.packed.push(run, chunk, &accounts.pool, cache);
            self.base = self.base.saturating_add(run.count());
            accounts.complete = accounts.complete.saturating_add(run.count());
        }
        taken
    }

    /// Takes the next messages, `most` at most of those that came as runs, or else one. Says what
    /// they, and those behind them that are passed over, free. Returns how many there were.
    #[inline]
    pub(in crate::message) fn pop(
        &mut self,
        most: usize,
        accounts: &mut Accounts,
        freed: &mut Freed,
        each: &mut impl FnMut(Message),
    ) -> usize {
        let mut popped = 0;
        while popped < most
            && let number = self.front()
            && let Some(Taken { tag, payload }) = self.packed.pop(&mut accounts.packed_queue_cache)
        {
            freed.charge = (freed.charge).saturating_add(charge(len64(payload.len()), 0));
            popped = popped.saturating_add(1);
            each(Message {
                channel: self.id,
                number,
                tag,
                kind: Kind::USER,
                user_header: Bytes::new(),
                payload,
            });
        }
        if popped == 0 {
            let message = self.pop_slot(freed);
            popped = usize::from(message.is_some());
            message.into_iter().for_each(each);
        }
        freed.charge = freed.charge.saturating_add(self.pass_over());
        accounts.slot_cache.collect(&mut self.slots, 0);
        self.consume(freed.charge);
        popped
    }
}
