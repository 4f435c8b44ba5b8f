//! Channels that the peer opens and finishes.
//!
//! The peer is told the number of channels that it may open in all. The number follows the entries
//! kept here: each open channel is one, and each range of finished channel numbers is one.
//! Finishing a channel never adds an entry, so a permission once given holds.

use super::Inbox;
use crate::message::answer::Answer;
use crate::message::incoming::IncomingChannel;
use crate::message::sizes::len64;
use suci_link::planted;
use suci_link::types::{ChannelId, MessageNumber, ProtocolError};

impl Inbox {
    /// Raises the bound of channels to `most`. Never lowers it. The handshake announces it.
    pub fn set_max_channels(&mut self, most: u64) {
        self.max_channels = self.max_channels.max(most);
        self.channels_announced = self.channels_announced.max(self.allowed());
    }

    /// Returns the announced number of channels that the peer may open, counting all that it ever
    /// opened.
    #[must_use]
    pub fn channels_announced(&self) -> u64 {
        self.channels_announced
    }

    /// Handles FIN: the peer sends no more on a channel, which had `count` messages. A repeated one
    /// is ignored.
    ///
    /// # Errors
    /// The peer broke a rule: its connection is to be closed.
    pub fn on_fin(
        &mut self,
        channel: ChannelId,
        count: MessageNumber,
    ) -> Result<(), ProtocolError> {
        let Some(index) = self.find_or_open(channel)? else {
            return Ok(());
        };
        if let Some(channel) = self.channels.get_mut(index) {
            channel.on_fin(count)?;
        }
        self.leave_if_over(index);
        Ok(())
    }

    /// Returns a channel that the peer finished and whose messages the program took all: each
    /// channel once, low numbers first.
    pub fn poll_finished(&mut self) -> Option<ChannelId> {
        self.unreported.pop_first()
    }

    /// Returns true if [`poll_finished`](Self::poll_finished) returns a channel.
    #[must_use]
    #[inline]
    pub fn has_finished(&self) -> bool {
        !self.unreported.is_empty()
    }

    /// Opens a channel for the peer. Returns `None` if it was finished before.
    #[cold]
    pub(super) fn open(&mut self, id: ChannelId) -> Result<Option<usize>, ProtocolError> {
        if self.finished.contains(id) {
            return Ok(None);
        }
        if !self.permitted.permits(id.layer()) && !planted("layers-unchecked") {
            return Err(ProtocolError::NotPermitted(id.layer()));
        }
        if self.opened >= self.channels_announced {
            return Err(ProtocolError::Limit("channels"));
        }
        self.opened = self.opened.saturating_add(1);
        let (limit, window) = (id.window(self.first_limit), id.window(self.each_window));
        let index = self.insert_channel(IncomingChannel::new(id, limit, window));
        self.list_due_update(index);
        Ok(Some(index))
    }

    /// Removes a channel that is over, except for its number.
    #[inline]
    pub(super) fn leave_if_over(&mut self, index: usize) {
        match self.channels.get(index) {
            Some(channel) if channel.is_over() => self.retire(index),
            _ => self.cool_down(index),
        }
    }

    #[inline(never)]
    fn retire(&mut self, index: usize) {
        if let Some(channel) = self.vacate(index) {
            let id = channel.id();
            self.priorities.remove(&id);
            self.finished.insert(id);
            // Channels of other layers are hidden from programs.
            if id.is_user() {
                self.unreported.insert(id);
            }
            // So many ranges arise only if the program takes some of these events and leaves
            // others. Then drop the range of the lowest numbers.
            if len64(self.unreported.ranges()) > self.max_channels {
                self.unreported.pop_first_range();
            }
            self.compact();
        }
    }

    /// Returns the number of channels that the peer may open, counting all that it ever opened.
    /// Never decreases.
    pub(super) fn allowed(&self) -> u64 {
        let entries = self
            .open_channels()
            .saturating_add(len64(self.finished.ranges()));
        let more = self.max_channels.saturating_sub(entries);
        self.opened.saturating_add(more)
    }

    fn open_channels(&self) -> u64 {
        len64(self.channels.len()).saturating_add(len64(self.cold.len()))
    }

    /// Returns true if the number of channels must be announced: the peer may soon find no channel,
    /// or may open many more than it knows.
    #[inline]
    pub(super) fn channels_due(&self) -> bool {
        if self.finished.is_empty() {
            return self.channels_lost;
        }
        let allowed = self.allowed();
        let more = allowed.saturating_sub(self.channels_announced);
        let left = self.channels_announced.saturating_sub(self.opened);
        let many = self.max_channels / 4;
        self.channels_lost || (more > 0 && (more >= many || left < many))
    }

    pub(super) fn announce_channels(&mut self) -> Answer {
        self.channels_lost = false;
        self.channels_announced = self.channels_announced.max(self.allowed());
        Answer::MaxChannels {
            limit: self.channels_announced,
        }
    }
}

#[cfg(test)]
impl Inbox {
    /// Returns the number of open channels.
    pub(in crate::message) fn channels_held(&self) -> usize {
        self.channels.len() + self.cold.len()
    }

    /// Returns the number of open channels that are not cold.
    pub(in crate::message) fn warm(&self) -> usize {
        self.channels.len()
    }

    pub(in crate::message) fn finished_ranges(&self) -> usize {
        self.finished.ranges()
    }
}
