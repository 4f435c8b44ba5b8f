//! Cold and finished channels of the inbox, and the memory that the accounts of an idle peer free.

use super::{
    Accounts, Announcement, AnnouncementState, Chunk, IncomingChannel, Listed, PackedQueueCache,
    SlotCache,
};
use crate::message::sizes::{SplitU64, len64};
use suci_link::types::{ChannelId, MessageNumber, ProtocolError};

/// The numbers kept of a cold channel. A refused RTS is kept elsewhere.
#[derive(Clone, Copy, Debug)]
pub(in crate::message) struct ColdIncoming {
    /// The number of the next message.
    base: SplitU64,
    /// Memory credit that its messages took, all of which is free again.
    used: SplitU64,
    /// Memory credit that the sender has left.
    room: u32,
}

impl Accounts {
    /// Frees memory if no granted message is incomplete or untaken. Returns true if it did.
    pub(in crate::message) fn shrink(&mut self) -> bool {
        let expected = self.large != 0 || self.unfinished != 0 || self.unfinished_bytes != 0;
        let nothing = !expected && !self.chunk.has_incomplete();
        if nothing {
            self.chunk = Chunk::default();
            self.blank = None;
            self.slot_cache = SlotCache::default();
            self.packed_queue_cache = PackedQueueCache::default();
        }
        nothing
    }
}

impl IncomingChannel {
    /// Handles FIN: the channel had `count` messages, all of which arrived.
    ///
    /// # Errors
    /// A message is missing, or the count contradicts the channel.
    pub(in crate::message) fn on_fin(&mut self, count: MessageNumber) -> Result<(), ProtocolError> {
        let here = self.base.saturating_add(len64(self.settled));
        if here != count || self.settled != self.slots.len() {
            return Err(ProtocolError::OutOfPlace(
                "the end of a channel before its messages",
            ));
        }
        self.end = Some(count);
        Ok(())
    }

    /// Returns true if the sender finished the channel and the program took all its messages.
    pub(in crate::message) fn is_over(&self) -> bool {
        self.end.is_some() && self.packed.is_empty() && self.slots.is_empty()
    }

    /// Returns the numbers to keep, if the channel has no message and no answer to send.
    pub(in crate::message) fn to_cold(&self) -> Option<ColdIncoming> {
        let no_messages = self.packed.is_empty() && self.slots.is_empty();
        let Listed {
            answer,
            update,
            reply,
            handled,
        } = self.listed;
        let told = !(answer || update || reply || handled);
        let idle = no_messages && told && self.end.is_none() && self.charged == self.consumed;
        let room = u32::try_from(self.limit.saturating_sub(self.charged)).ok()?;
        idle.then_some(ColdIncoming {
            base: SplitU64::of(self.base),
            used: SplitU64::of(self.charged),
            room,
        })
    }

    /// Returns the newest RTS, if it was refused: the sender may not know that yet.
    pub(in crate::message) fn refusal(&self) -> Option<Announcement> {
        let refused = |announcement: &Announcement| {
            matches!(announcement.state, AnnouncementState::Refused(_))
        };
        self.announcement.filter(refused)
    }

    /// Restores a cold channel. Its window is the present one, and granted messages are forgotten.
    pub(in crate::message) fn from_cold(
        id: ChannelId,
        cold: ColdIncoming,
        announcement: Option<Announcement>,
        window: u64,
    ) -> Self {
        let used = cold.used.whole();
        let limit = used.saturating_add(cold.room.into());
        Self {
            base: cold.base.whole(),
            charged: used,
            consumed: used,
            announcement,
            was_cold: true,
            ..Self::new(id, limit, window)
        }
    }
}
