//! Channels of the outbox without messages, of which few numbers are left, and an outbox without
//! any message.
//!
//! Some stay as they are, so that what goes to and fro on a few channels pays for nothing here.

use super::Outbox;
use crate::message::WARM;
use crate::message::outgoing::OutgoingChannel;
use crate::message::places;
use crate::types::ChannelId;

impl Outbox {
    /// Takes up a channel that is cold.
    #[inline(never)]
    pub(super) fn thaw(&mut self, id: ChannelId) -> Option<usize> {
        let cold = self.cold.remove(&id)?;
        let channel = OutgoingChannel::thawed(id, cold, self.cold_end);
        Some(self.place(channel))
    }

    /// Gives a channel its place.
    pub(super) fn place(&mut self, channel: OutgoingChannel) -> usize {
        let id = channel.id();
        let place = self.channels.insert(channel);
        self.by_id.insert(id, place);
        self.scheduler.set_priority(place, self.priority(id));
        self.remember(id, place);
        place
    }

    /// The channel may have nothing to do any more: beyond [`WARM`] it is cold then.
    #[inline]
    pub(super) fn cool(&mut self, place: usize) {
        if self.channels.len() > WARM {
            self.freeze(place);
        }
    }

    /// Makes a channel cold. False if it has something to do.
    pub(super) fn freeze(&mut self, place: usize) -> bool {
        let idle = !self.scheduler.is_listed(place)
            && self
                .channels
                .get(place)
                .is_some_and(OutgoingChannel::is_idle);
        if let Some(channel) = idle.then(|| self.vacate(place)).flatten() {
            self.cold_end = self.cold_end.max(channel.queue.end());
            self.cold.insert(channel.id(), channel.frozen());
        }
        idle
    }

    /// Gives back places that were needed once. Places change: not while anybody holds one.
    pub(super) fn tidy(&mut self) {
        let (channels, by_id) = (&mut self.channels, &mut self.by_id);
        let Some(moved) =
            places::give_back(channels, by_id, &mut self.scheduler, OutgoingChannel::id)
        else {
            return;
        };
        self.session_parked = moved.all(self.session_parked.drain(..));
        self.to_report = moved.all(self.to_report.drain(..));
        self.recent = None;
    }
}

impl Outbox {
    /// Gives back what messages needed. False if there is one, or something is to be told.
    pub(crate) fn shrink(&mut self) -> bool {
        // Finds out that those who have a turn have nothing to send.
        let nothing = self.is_empty() && !self.has_sendable() && self.completions.is_empty();
        let told =
            self.session_parked.is_empty() && self.to_report.is_empty() && !self.wants_room();
        if !(nothing && told && self.scheduler.is_empty()) {
            return false;
        }
        self.recent = None;
        // The next acknowledgement tells it again.
        self.unasked = 0;
        self.wanted = Default::default();
        self.session_parked = Vec::new();
        self.to_report = Default::default();
        self.completions = Default::default();
        self.caches = Default::default();
        let places: Vec<usize> = self.by_id.values().copied().collect();
        let frozen = places.into_iter().all(|place| self.freeze(place));
        if frozen {
            (self.channels, self.by_id, self.scheduler) = Default::default();
        }
        frozen && self.channel_parked == 0 && self.answer_parked == 0
    }
}

#[cfg(test)]
impl Outbox {
    /// Each class holds what its channels do.
    pub(in crate::message) fn audit_queued(&self) {
        let mut queued = crate::message::ByClass::default();
        for (place, channel) in &self.channels {
            let class = self.scheduler.priority(place).class();
            queued.change(class, |held| held.plus(channel.queue.held()));
        }
        assert_eq!(queued, self.queued);
    }

    /// Returns the bytes allocated for messages, without the payloads of those that are not small.
    pub(in crate::message) fn footprint(&self) -> usize {
        let held: usize = self.channels.iter().map(|(_, c)| c.queue.footprint()).sum();
        held + self.caches.footprint()
    }
}
