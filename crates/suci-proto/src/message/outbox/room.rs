//! Tells the program when a class of channels has room again.

use super::Outbox;
use crate::message::{Held, Outgoing, WantedRoom, has_room, len64};

impl Outbox {
    /// The program waits until the queue has room for `message`. Of several in one class the
    /// smallest decides. Returns the class of the message's channel.
    pub fn want_room(&mut self, message: &Outgoing) -> u8 {
        let class = self.priority(message.channel).class();
        self.wanted.add(class, Held::of(message).charge());
        class
    }

    /// Whether the program waits for room.
    #[inline]
    pub const fn wants_room(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Whether [`poll_room`](Self::poll_room) has a class.
    #[inline]
    pub fn has_wanted_room(&self) -> bool {
        self.wants_room() && self.find_room().is_some()
    }

    /// A class that has the room that the program waits for. It waits no longer then.
    pub fn poll_room(&mut self) -> Option<u8> {
        let class = self.find_room()?;
        self.wanted.remove(class);
        Some(class)
    }

    /// What the program waits for outlasts the session: the next one's queue is empty.
    pub fn take_wanted_room(&mut self) -> WantedRoom {
        core::mem::take(&mut self.wanted)
    }

    /// The program waits for this room since an earlier session.
    pub fn set_wanted_room(&mut self, wanted: WantedRoom) {
        self.wanted = wanted;
    }

    #[cold]
    fn find_room(&self) -> Option<u8> {
        self.wanted.find(|class, charge| {
            let held = self.queued.get(class);
            held.messages < len64(self.limits.max_queued_messages)
                && has_room(held.charge(), charge, self.limits.max_queued_bytes)
        })
    }
}
