//! Cold channels of the inbox: idle channels of which only a few numbers are kept.

use super::Inbox;
use crate::message::answer::Answer;
use crate::message::cold::WARM;
use crate::message::compaction;
use crate::message::incoming::IncomingChannel;
use suci_link::types::ChannelId;

impl Inbox {
    /// Restores the full state of a cold channel.
    #[inline(never)]
    pub(super) fn restore(&mut self, id: ChannelId) -> Option<usize> {
        let cold = self.cold.remove(id)?;
        let announcement = self.refusals.remove(&id);
        let index = self.insert_channel(IncomingChannel::from_cold(
            id,
            cold,
            announcement,
            id.window(self.each_window),
        ));
        // The window may have grown meanwhile.
        self.list_due_update(index);
        Some(index)
    }

    /// Inserts a channel and returns its index.
    pub(super) fn insert_channel(&mut self, channel: IncomingChannel) -> usize {
        let id = channel.id();
        let index = self.channels.insert(channel);
        self.by_id.insert(id, index);
        let priority = self.priorities.get(&id).copied().unwrap_or_default();
        self.ready.set_priority(index, priority);
        self.recent = Some((id, index));
        index
    }

    /// Removes a channel without messages from its index.
    pub(super) fn vacate(&mut self, index: usize) -> Option<IncomingChannel> {
        let channel = self.channels.try_remove(index)?;
        self.ready.forget(index);
        self.by_id.remove(&channel.id());
        self.recent = None;
        Some(channel)
    }

    /// Makes a channel cold if it is idle and more than [`WARM`] channels have full state.
    #[inline]
    pub(super) fn cool_down(&mut self, index: usize) {
        if self.channels.len() > WARM && self.make_cold(index) {
            self.compact();
        }
    }

    /// Makes a channel cold. Returns false if it has something to do.
    pub(super) fn make_cold(&mut self, index: usize) -> bool {
        let listed = self.ready.is_listed(index);
        let channel = self.channels.get(index).filter(|_| !listed);
        let Some(cold) = channel.and_then(IncomingChannel::to_cold) else {
            return false;
        };
        if let Some(channel) = self.vacate(index) {
            let id = channel.id();
            self.cold.insert(id, cold);
            if let Some(announcement) = channel.refusal() {
                self.refusals.insert(id, announcement);
            }
        }
        true
    }

    /// Returns the answer that a channel has for the peer. Afterwards the channel may become cold.
    pub(super) fn take_answer(
        &mut self,
        id: ChannelId,
        say: impl FnOnce(&mut IncomingChannel) -> Option<Answer>,
    ) -> Option<Answer> {
        let index = self.find(id)?;
        let answer = self.channels.get_mut(index).and_then(say);
        self.cool_down(index);
        answer
    }

    /// Compacts the slab of channels. Indices change, so no caller may hold one.
    pub(super) fn compact(&mut self) {
        let (channels, by_id) = (&mut self.channels, &mut self.by_id);
        let Some(moved) =
            compaction::compact(channels, by_id, &mut self.ready, IncomingChannel::id)
        else {
            return;
        };
        self.waiting = moved.all(self.waiting.drain(..));
        self.replies = moved.all(self.replies.drain(..));
        self.recent = None;
    }
}
