//! Batches of small messages that arrive in order. They are kept in the packed queue instead of one
//! slot for each.

use super::{Accounts, Freed, IncomingChannel};
use crate::message::Message;
use crate::message::packed_queue::{PackedQueue, Taken};
use crate::message::sizes::{charge, len64};
use bytes::Bytes;
use suci_link::limits::MESSAGE_CHARGE;
use suci_link::types::{Kind, MessageNumber};
use suci_link::wire::FrameBatch;

impl IncomingChannel {
    /// Returns the number of the message that the program takes next.
    pub(in crate::message) fn front(&self) -> MessageNumber {
        self.base.saturating_sub(self.packed.len())
    }

    /// Accepts a batch as a whole if it begins with the next unseen message. Returns false and does
    /// nothing if the batch is out of order, exceeds the credit, or would cost more memory than it
    /// is charged.
    pub(in crate::message) fn on_batch(
        &mut self,
        batch: &FrameBatch<'_>,
        accounts: &mut Accounts,
    ) -> bool {
        let charge = (batch.count().saturating_mul(MESSAGE_CHARGE)).saturating_add(batch.payload());
        let taken = batch.first() == self.base
            && self.slots.is_empty()
            && self.end.is_none()
            && PackedQueue::is_worth(batch)
            && self.charge(charge, accounts);
        if taken {
            let (chunk, cache) = (&mut accounts.chunk, &mut accounts.packed_queue_cache);
            self.packed.push(batch, chunk, &accounts.pool, cache);
            self.base = self.base.saturating_add(batch.count());
            accounts.complete = accounts.complete.saturating_add(batch.count());
        }
        taken
    }

    /// Hands the next messages to `each`: up to `most` packed ones, or one other. Adds to `freed`
    /// what they and the skipped messages behind them free. Returns their number.
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
        freed.charge = freed.charge.saturating_add(self.skip_front());
        accounts.slot_cache.collect(&mut self.slots, 0);
        self.consume(freed.charge);
        popped
    }
    /// Takes the next message, if it is complete. Returns it with what it frees.
    pub(in crate::message) fn pop_one(
        &mut self,
        accounts: &mut Accounts,
    ) -> Option<(Message, Freed)> {
        let (mut freed, mut popped) = (Freed::default(), None);
        self.pop(1, accounts, &mut freed, &mut |message| {
            popped = Some(message)
        });
        Some((popped?, freed))
    }
}
