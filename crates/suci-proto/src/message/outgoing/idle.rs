//! A channel of the outbox without messages.

use super::{Fin, OutgoingChannel, Queue};
use crate::message::Halves;
use crate::types::{ChannelId, MessageNumber};

/// What is left of a channel that has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::message) struct IdleOutgoing {
    base: Halves,
    used: Halves,
    /// Memory credit left, or as much of it as can be told.
    room: u32,
}

impl IdleOutgoing {
    /// The number of the next message.
    pub(in crate::message) fn base(&self) -> MessageNumber {
        self.base.whole()
    }

    /// Memory credit left.
    pub(in crate::message) fn room(&self) -> u64 {
        self.room.into()
    }

    /// Raises the limit.
    pub(in crate::message) fn raise_limit(&mut self, limit: u64) {
        let room = limit.saturating_sub(self.used.whole());
        self.room = self.room.max(u32::try_from(room).unwrap_or(u32::MAX));
    }
}

impl OutgoingChannel {
    /// Whether it has no message, waits for nothing, and is to be told nothing.
    pub(in crate::message) fn is_idle(&self) -> bool {
        let nothing = self.queue.is_empty() && self.owed == 0 && self.asked.is_none();
        let waits = self.turn.parked.is_some() || self.turn.to_report;
        nothing && !waits && self.fin == Fin::Open
    }

    /// What is left of it while it is idle.
    pub(in crate::message) fn frozen(&self) -> IdleOutgoing {
        IdleOutgoing {
            base: Halves::of(self.base()),
            used: Halves::of(self.used),
            room: u32::try_from(self.room()).unwrap_or(u32::MAX),
        }
    }

    /// As it was before it was frozen.
    pub(in crate::message) fn thawed(id: ChannelId, cold: IdleOutgoing) -> Self {
        let (base, used) = (cold.base(), cold.used.whole());
        Self {
            queue: Queue::at(base),
            charged: base,
            used,
            ..Self::new(id, used.saturating_add(cold.room()))
        }
    }
}
