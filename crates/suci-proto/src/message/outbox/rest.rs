//! The outbox while no message is on its way: what it forgets, and what is written down of it.

use super::Outbox;
use crate::fold::{Fold, Words};
use crate::message::len64;
use crate::types::ChannelId;

impl Outbox {
    /// Gives back what messages needed. False if there is one, or something is to be told.
    pub(crate) fn rest(&mut self) -> bool {
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
            (self.channels, self.turns) = Default::default();
        }
        frozen && self.channel_parked == 0 && self.answer_parked == 0
    }

    /// Writes it down once it [rests](Self::rest).
    pub(crate) fn fold(&self, to: &mut Words) {
        let Self {
            limits: _,
            channels: _,
            by_id: _,
            recent: _,
            cold,
            finished,
            fins: _,
            opened: _,
            max_channels,
            turns: _,
            priorities,
            open_by_class: _,
            session_parked: _,
            channel_parked: _,
            answer_parked: _,
            to_report: _,
            peer_max_message,
            unasked: _,
            channel_limit,
            window,
            session_limit,
            session_used,
            queued: _,
            over: _,
            accepted,
            // A peer with void messages in its queue does not rest.
            voids: _,
            deadlines: _,
            completions: _,
            // A peer rests only while the program waits for no room.
            wanted: _,
            spares: _,
        } = self;
        cold.fold(to);
        finished.fold(to);
        self.gone().fold(to);
        max_channels.fold(to);
        priorities.fold(to);
        peer_max_message.fold(to);
        channel_limit.fold(to);
        window.fold(to);
        session_limit.fold(to);
        session_used.fold(to);
        accepted.fold(to);
    }

    /// Makes a new one what was written down.
    pub(crate) fn restore(&mut self, from: &mut Words) {
        self.cold = Fold::unfold(from);
        self.finished = Fold::unfold(from);
        self.opened = len64(self.cold.len()).saturating_add(Fold::unfold(from));
        self.max_channels = Fold::unfold(from);
        self.priorities = Fold::unfold(from);
        self.open_by_class = Default::default();
        let open: Vec<ChannelId> = self.cold.keys().copied().collect();
        for channel in open {
            self.count_class(self.priority(channel), 1);
        }
        self.peer_max_message = Fold::unfold(from);
        self.channel_limit = Fold::unfold(from);
        self.window = Fold::unfold(from);
        self.session_limit = Fold::unfold(from);
        self.session_used = Fold::unfold(from);
        self.accepted = Fold::unfold(from);
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
