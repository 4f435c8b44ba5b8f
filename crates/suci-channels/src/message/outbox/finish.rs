//! Finishing channels, and the bound of open ones.
//!
//! A channel is *finished* once its FIN was acknowledged: the peer then has all its messages and
//! knows that no more will follow. Only its number is kept, which is not used again in the session.
//! So a late copy of an old frame cannot be mistaken for a new one.

use super::{NoRoom, Outbox};
use crate::message::TOO_MANY_CHANNELS;
use crate::message::outgoing::{Fin, OutgoingChannel, Status};
use crate::message::sizes::len64;
use std::collections::VecDeque;
use suci_link::limits::MAX_CHANNELS;
use suci_link::types::{ChannelId, MessageNumber};

impl Outbox {
    /// Finishes `channel`: its FIN follows once all its messages are acknowledged or refused.
    /// Returns false if the program finished it before. A channel that was never used is opened
    /// first. The channel of replies to the peer's requests on `channel` ends with it, if it is
    /// open.
    ///
    /// # Errors
    /// [`NoRoom::Channels`].
    pub fn finish(&mut self, channel: ChannelId) -> Result<bool, NoRoom> {
        if self.is_ended(channel) {
            return Ok(false);
        }
        let index = match self.find(channel) {
            Some(index) => index,
            None => self.open_one_more(channel)?,
        };
        self.want_fin(index);
        if let Some(replies) = self.find(channel.replies()) {
            self.want_fin(replies);
        }
        Ok(true)
    }

    fn want_fin(&mut self, index: usize) {
        if let Some(channel) = self.channels.get_mut(index) {
            channel.fin = Fin::Wanted;
            self.list_fin(index);
        }
    }

    /// Returns true if the program finished the channel.
    pub(super) fn is_ended(&self, channel: ChannelId) -> bool {
        self.get(channel).is_some_and(|c| c.fin != Fin::Open) || self.finished.contains(channel)
    }

    /// Sets the number of channels that the peer permits, counting all that were ever opened. Never
    /// lowers it. Messages on channels that were opened before it was announced and are not
    /// among them are not delivered: nothing of them was sent.
    pub fn set_max_channels(&mut self, limit: u64) {
        self.max_channels = self.max_channels.max(limit);
        self.channels_announced = true;
        let Some(early) = self.early.take() else {
            return;
        };
        for (id, ordinal) in early.ordinals {
            if ordinal >= self.max_channels {
                self.deny(id, TOO_MANY_CHANNELS);
            } else if let Some(index) = self.find(id) {
                self.activate(index);
            }
        }
        self.compact();
    }

    /// Returns true if the program may open `channel` although the peer may turn out to permit
    /// fewer: before the handshake says how many it permits, as many as any peer permits. Layers
    /// open no channel that way, since they do not hear that its messages are not delivered.
    pub(super) fn may_open_early(&self, channel: ChannelId) -> bool {
        let is_program = channel.ranked_as().is_user();
        is_program && !self.channels_announced && self.opened < MAX_CHANNELS
    }

    /// Returns true if the channel was opened early and waits for that announcement.
    #[cold]
    pub(super) fn is_early(&self, index: usize) -> bool {
        let (channel, early) = (self.channels.get(index), self.early.as_ref());
        channel
            .zip(early)
            .is_some_and(|(channel, early)| early.ordinals.contains_key(&channel.id()))
    }

    /// Returns the number of channels that the peer now lets this side have open at once.
    pub(super) fn channels_at_once(&self) -> u64 {
        self.max_channels.saturating_sub(self.gone())
    }

    /// Returns a channel whose FIN must be sent, and the number of its messages.
    pub fn poll_fin(&mut self) -> Option<(ChannelId, MessageNumber)> {
        while let Some(id) = self.fins.pop_front() {
            if let Some(index) = self.find(id)
                && let Some(channel) = self.channels.get_mut(index)
            {
                channel.fin = Fin::Sent;
                return Some((id, channel.delivered()));
            }
        }
        self.fins = VecDeque::new();
        None
    }

    /// Returns true if [`poll_fin`](Self::poll_fin) returns a channel.
    #[must_use]
    pub fn has_fins(&self) -> bool {
        !self.fins.is_empty()
    }

    /// Schedules the FIN of an ended channel once all its messages are resolved.
    pub(super) fn list_fin(&mut self, index: usize) {
        if let Some(channel) = self.channels.get_mut(index)
            && channel.fin == Fin::Wanted
            && channel.queue.is_empty()
        {
            channel.fin = Fin::Listed;
            self.fins.push_back(channel.id());
        }
    }

    /// Handles the loss of a FIN: it is sent again.
    pub(super) fn on_fin_lost(&mut self, channel: ChannelId) {
        if let Some(index) = self.find(channel)
            && let Some(channel) = self.channels.get_mut(index)
            && channel.fin == Fin::Sent
        {
            channel.fin = Fin::Wanted;
            self.list_fin(index);
        }
    }

    /// Handles the acknowledgement of a FIN: the channel is removed.
    pub(super) fn on_fin_acked(&mut self, id: ChannelId) {
        let Some(index) = self.find(id) else {
            return;
        };
        let over = |c: &OutgoingChannel| matches!(c.fin, Fin::Sent | Fin::Listed);
        if self.channels.get(index).is_some_and(over) {
            self.count_class(self.priority(id), -1);
            self.vacate(index);
            let requests = id.ranked_as();
            if !self.is_open(requests) && !self.is_open(requests.replies()) {
                self.priorities.remove(&requests);
            }
            self.finished.insert(id);
            self.compact();
        }
    }

    /// Removes a channel without messages from its index.
    pub(super) fn vacate(&mut self, index: usize) -> Option<OutgoingChannel> {
        self.park(index, Status::Idle);
        let channel = self.channels.try_remove(index)?;
        if channel.wait.to_report {
            self.to_report.retain(|listed| *listed != index);
        }
        self.scheduler.forget(index);
        self.by_id.remove(&channel.id());
        self.recent = None;
        Some(channel)
    }

    /// Returns true if a channel is open.
    pub(super) fn is_open(&self, channel: ChannelId) -> bool {
        self.by_id.contains_key(&channel) || self.cold.get(channel).is_some()
    }

    /// Returns the number of open channels.
    fn open_channels(&self) -> u64 {
        len64(self.channels.len()).saturating_add(len64(self.cold.len()))
    }

    /// Returns the number of channels that were opened and are no longer open.
    pub(super) fn gone(&self) -> u64 {
        self.opened.saturating_sub(self.open_channels())
    }

    /// Opens a channel.
    pub(super) fn open(&mut self, id: ChannelId) -> usize {
        self.opened = self.opened.saturating_add(1);
        self.count_class(self.priority(id), 1);
        self.insert_channel(OutgoingChannel::new(id, id.window(self.channel_limit)))
    }
}

#[cfg(test)]
impl Outbox {
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

    /// Sets the number of channels that the peer permits, also to a lower one.
    pub(in crate::message) fn limit_channels(&mut self, most: u64) {
        self.max_channels = most;
        self.channels_announced = true;
    }
}
