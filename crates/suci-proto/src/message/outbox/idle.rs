//! The outbox while no message is on its way: what it forgets, and what is written down of it.

use super::Outbox;

impl Outbox {
    /// Gives back what messages needed. False if there is one, or something is to be told.
    pub(crate) fn shrink(&mut self) -> bool {
        // Finds out that those who have a turn have nothing to send.
        let nothing = self.is_empty() && !self.has_sendable() && self.completions.is_empty();
        let told =
            self.session_parked.is_empty() && self.to_report.is_empty() && !self.wants_room();
        if !(nothing && told && self.turns.is_empty()) {
            return false;
        }
        self.recent = None;
        // The next acknowledgement tells it again.
        self.unasked = 0;
        self.wanted = Default::default();
        self.session_parked = Vec::new();
        self.to_report = Default::default();
        self.completions = Default::default();
        self.spares = Default::default();
        let places: Vec<usize> = self.by_id.values().copied().collect();
        let frozen = places.into_iter().all(|place| self.freeze(place));
        if frozen {
            (self.channels, self.by_id, self.turns) = Default::default();
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
            let class = self.turns.priority(place).class();
            queued.change(class, |held| held.plus(channel.held()));
        }
        assert_eq!(queued, self.queued);
    }

    /// Bytes allocated for messages, those of long ones apart.
    pub(in crate::message) fn footprint(&self) -> usize {
        let held: usize = self.channels.iter().map(|(_, c)| c.footprint()).sum();
        held + self.spares.footprint()
    }
}
