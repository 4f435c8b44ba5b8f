//! The priorities of channels.

use super::Outbox;
use crate::message::sizes::len64;
use crate::scheduler::Priority;
use std::collections::BTreeMap;
use suci_link::limits::MAX_CHANNELS;
use suci_link::types::ChannelId;

impl Outbox {
    /// Sets the priority of a channel, from its next packet on and for retransmissions. Returns
    /// false if the maximum number of channels already has one.
    pub fn set_priority(&mut self, channel: ChannelId, priority: Priority) -> bool {
        if len64(self.priorities.len()) >= MAX_CHANNELS && !self.priorities.contains_key(&channel) {
            return false;
        }
        let before = self.priorities.insert(channel, priority);
        for channel in [channel, channel.replies()] {
            if self.is_open(channel) {
                self.count_class(before.unwrap_or_default(), -1);
                self.count_class(priority, 1);
            }
            if let Some(&index) = self.by_id.get(&channel) {
                self.move_class(index, priority.class());
                self.scheduler.set_priority(index, priority);
            }
        }
        true
    }

    /// Returns true if a channel has a priority of its own.
    #[must_use]
    pub fn has_priorities(&self) -> bool {
        !self.priorities.is_empty()
    }

    /// Removes and returns the priorities that the program set, for the next session.
    pub fn take_priorities(&mut self) -> BTreeMap<ChannelId, Priority> {
        core::mem::take(&mut self.priorities)
    }

    /// Sets the priorities of all channels of a new session.
    pub fn set_priorities(&mut self, priorities: BTreeMap<ChannelId, Priority>) {
        self.priorities = priorities;
    }

    /// Returns the priority of a channel, opened or not.
    #[cold]
    pub(super) fn priority(&self, channel: ChannelId) -> Priority {
        let priority = self.priorities.get(&channel.ranked_as());
        priority.copied().unwrap_or_default()
    }

    /// Adds `more` to the number of open channels with this priority.
    pub(super) fn count_class(&mut self, priority: Priority, more: i32) {
        if let Some(count) = self.open_by_class.get_mut(usize::from(priority.class())) {
            *count = count.saturating_add_signed(more);
        }
    }

    /// Returns true if a channel of a higher class is open.
    pub(super) fn has_class_above(&self, class: u8) -> bool {
        let above = self
            .open_by_class
            .iter()
            .skip(usize::from(class).saturating_add(1));
        above.copied().any(|count| count > 0)
    }
}
