//! Channels that end, and how many may be opened.
//!
//! A channel is *finished* once its FIN was acknowledged: the peer holds all its messages then and
//! knows that no more will come. Nothing is left of it but its number, which is not used again in
//! the session: a late copy of an old frame cannot be taken for a new one.

use super::{NoRoom, Outbox};
use crate::message::len64;
use crate::message::outgoing::{Fin, OutgoingChannel, Status};
use crate::types::{ChannelId, MessageNumber};
use std::collections::VecDeque;

impl Outbox {
    /// The program sends nothing more on `channel`: FIN follows when all its messages were
    /// acknowledged or refused. False if the program said so before. A channel that was never used
    /// is opened for it. The channel of replies to the peer's requests on `channel` ends with it,
    /// if it is open.
    ///
    /// # Errors
    /// [`NoRoom::Channels`].
    pub fn finish(&mut self, channel: ChannelId) -> Result<bool, NoRoom> {
        if self.is_ended(channel) {
            return Ok(false);
        }
        let place = match self.find(channel) {
            Some(place) => place,
            None => self.open_one_more(channel)?,
        };
        self.want_fin(place);
        if let Some(replies) = self.find(channel.replies()) {
            self.want_fin(replies);
        }
        Ok(true)
    }

    fn want_fin(&mut self, place: usize) {
        if let Some(channel) = self.channels.get_mut(place) {
            channel.fin = Fin::Wanted;
            self.recent = None;
            self.list_fin(place);
        }
    }

    /// Returns true if the program finished the channel.
    pub(super) fn is_ended(&self, channel: ChannelId) -> bool {
        self.get(channel).is_some_and(|c| c.fin != Fin::Open) || self.finished.contains(channel)
    }

    /// How many channels the peer lets this side open, all that were ever opened counted. Only
    /// rises.
    pub fn set_max_channels(&mut self, limit: u64) {
        self.max_channels = self.max_channels.max(limit);
    }

    /// Returns how many channels the peer lets this side have open at once now.
    pub(super) fn channels_at_once(&self) -> u64 {
        self.max_channels.saturating_sub(self.gone())
    }

    /// Returns a channel whose end is to be told, and how many messages it had.
    pub fn poll_fin(&mut self) -> Option<(ChannelId, MessageNumber)> {
        while let Some(id) = self.fins.pop_front() {
            if let Some(place) = self.find(id)
                && let Some(channel) = self.channels.get_mut(place)
            {
                channel.fin = Fin::Sent;
                return Some((id, channel.delivered()));
            }
        }
        self.fins = VecDeque::new();
        None
    }

    /// Returns true if [`poll_fin`](Self::poll_fin) has one.
    #[must_use]
    pub fn has_fins(&self) -> bool {
        !self.fins.is_empty()
    }

    /// The channel ended, and all it had was acknowledged: FIN may go.
    pub(super) fn list_fin(&mut self, place: usize) {
        if let Some(channel) = self.channels.get_mut(place)
            && channel.fin == Fin::Wanted
            && channel.queue.is_empty()
        {
            channel.fin = Fin::Listed;
            self.fins.push_back(channel.id());
        }
    }

    /// FIN was lost: it is told again.
    pub(super) fn on_fin_lost(&mut self, channel: ChannelId) {
        if let Some(place) = self.find(channel)
            && let Some(channel) = self.channels.get_mut(place)
            && channel.fin == Fin::Sent
        {
            channel.fin = Fin::Wanted;
            self.list_fin(place);
        }
    }

    /// FIN arrived: nothing of the channel is needed any more.
    pub(super) fn on_fin_acked(&mut self, id: ChannelId) {
        let Some(place) = self.find(id) else {
            return;
        };
        let over = |c: &OutgoingChannel| matches!(c.fin, Fin::Sent | Fin::Listed);
        if self.channels.get(place).is_some_and(over) {
            self.count_class(self.priority(id), -1);
            self.vacate(place);
            let requests = id.ranked_as();
            if !self.is_open(requests) && !self.is_open(requests.replies()) {
                self.priorities.remove(&requests);
            }
            self.finished.insert(id);
            self.tidy();
        }
    }

    /// Takes a channel without messages out of its place.
    pub(super) fn vacate(&mut self, place: usize) -> Option<OutgoingChannel> {
        self.park(place, Status::Idle);
        let channel = self.channels.try_remove(place)?;
        if channel.turn.to_report {
            self.to_report.retain(|listed| *listed != place);
        }
        self.scheduler.forget(place);
        self.by_id.remove(&channel.id());
        self.recent = None;
        Some(channel)
    }

    /// Returns true if a channel is open.
    pub(super) fn is_open(&self, channel: ChannelId) -> bool {
        self.by_id.contains_key(&channel) || self.cold.contains_key(&channel)
    }

    /// Channels that are open.
    fn open_channels(&self) -> u64 {
        len64(self.channels.len()).saturating_add(len64(self.cold.len()))
    }

    /// Returns how many channels were opened and are open no more.
    pub(super) fn gone(&self) -> u64 {
        self.opened.saturating_sub(self.open_channels())
    }

    /// Opens a channel.
    pub(super) fn open(&mut self, id: ChannelId) -> usize {
        self.opened = self.opened.saturating_add(1);
        self.count_class(self.priority(id), 1);
        self.place(OutgoingChannel::new(id, self.channel_limit))
    }
}

#[cfg(test)]
impl Outbox {
    /// Channels that are open.
    pub(in crate::message) fn channels_held(&self) -> usize {
        self.channels.len() + self.cold.len()
    }

    /// Those of them that are not cold.
    pub(in crate::message) fn warm(&self) -> usize {
        self.channels.len()
    }

    pub(in crate::message) fn finished_ranges(&self) -> usize {
        self.finished.ranges()
    }

    /// As if the peer allowed so few.
    pub(in crate::message) fn limit_channels(&mut self, most: u64) {
        self.max_channels = most;
    }
}
