//! Cold channels of the outbox, of which only a few numbers are kept, and the idle state of the
//! outbox.
//!
//! Some idle channels keep their full state, so that traffic on few channels does not pay for
//! freezing and restoring.

use super::Outbox;
use crate::message::cold::WARM;
use crate::message::compaction;
use crate::message::outgoing::OutgoingChannel;
use suci_link::types::ChannelId;

impl Outbox {
    /// Restores the full state of a cold channel.
    #[inline(never)]
    pub(super) fn restore(&mut self, id: ChannelId) -> Option<usize> {
        let cold = self.cold.remove(id)?;
        let channel = OutgoingChannel::from_cold(id, cold, self.cold_end);
        Some(self.insert_channel(channel))
    }

    /// Inserts a channel and returns its index.
    pub(super) fn insert_channel(&mut self, channel: OutgoingChannel) -> usize {
        let id = channel.id();
        let index = self.channels.insert(channel);
        self.by_id.insert(id, index);
        self.scheduler.set_priority(index, self.priority(id));
        self.recent = Some((id, index));
        index
    }

    /// Makes a channel cold if it is idle and more than [`WARM`] channels have full state.
    #[inline]
    pub(super) fn cool_down(&mut self, index: usize) {
        if self.channels.len() > WARM {
            self.make_cold(index);
        }
    }

    /// Makes a channel cold. Returns false if it has something to do.
    pub(super) fn make_cold(&mut self, index: usize) -> bool {
        let idle = !self.scheduler.is_listed(index)
            && self
                .channels
                .get(index)
                .is_some_and(OutgoingChannel::is_idle);
        if let Some(channel) = idle.then(|| self.vacate(index)).flatten() {
            self.cold_end = self.cold_end.max(channel.queue.end());
            self.cold.insert(channel.id(), channel.to_cold());
        }
        idle
    }

    /// Compacts the slab of channels. Indices change, so no caller may hold one.
    pub(super) fn compact(&mut self) {
        let (channels, by_id) = (&mut self.channels, &mut self.by_id);
        let Some(moved) =
            compaction::compact(channels, by_id, &mut self.scheduler, OutgoingChannel::id)
        else {
            return;
        };
        self.session_parked = moved.all(self.session_parked.drain(..));
        self.to_report = moved.all(self.to_report.drain(..));
        self.recent = None;
    }
}

impl Outbox {
    /// Frees the memory of messages. Returns false if there is a message or something to report.
    pub fn shrink(&mut self) -> bool {
        // `has_sendable` removes scheduled channels that have nothing to send.
        let nothing = self.is_empty() && !self.has_sendable() && self.completions.is_empty();
        let told =
            self.session_parked.is_empty() && self.to_report.is_empty() && !self.wants_room();
        if !(nothing && told && self.scheduler.is_empty()) {
            return false;
        }
        self.recent = None;
        // The next acknowledgement sets it again.
        self.unannounced = 0;
        self.wanted = Default::default();
        self.session_parked = Vec::new();
        self.to_report = Default::default();
        self.completions = Default::default();
        self.caches = Default::default();
        let indices: Vec<usize> = self.by_id.values().copied().collect();
        let all_cold = indices.into_iter().all(|index| self.make_cold(index));
        if all_cold {
            (self.channels, self.by_id, self.scheduler) = Default::default();
        }
        all_cold && self.channel_parked == 0 && self.answer_parked == 0
    }
}

#[cfg(test)]
impl Outbox {
    /// Asserts that each class counts exactly the messages of its channels.
    pub(in crate::message) fn audit_queued(&self) {
        let mut queued = crate::message::ByClass::default();
        for (index, channel) in &self.channels {
            let sum = self.sum_of(index, channel.id());
            queued.change(sum, |held| held.plus(channel.queue.held()));
        }
        assert_eq!(queued, self.queued);
    }

    /// Returns the bytes allocated for messages, without the payloads of those that are not small.
    pub(in crate::message) fn footprint(&self) -> usize {
        let held: usize = self.channels.iter().map(|(_, c)| c.queue.footprint()).sum();
        held + self.caches.footprint()
    }
}
