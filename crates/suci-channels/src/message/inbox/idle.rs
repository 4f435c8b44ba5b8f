//! The inbox of an idle peer: it frees all memory that only messages need.

use super::Inbox;
use crate::port::Port;

impl Inbox {
    /// Returns how many of the `sent` messages of the peer the program neither received nor
    /// refused.
    #[must_use]
    pub fn missing_of(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.decided)
    }

    /// Frees the memory of messages. Returns false if a message is here or expected, or an answer
    /// must be sent.
    pub fn shrink(&mut self) -> bool {
        let nothing = self.waiting.is_empty()
            && self.incoming.is_empty()
            && self.unreported.is_empty()
            && !self.has_answers();
        let for_ports = || Port::ALL.iter().any(|port| self.has_for(*port));
        let for_layers = self.has_group_message() || for_ports();
        let taken = self.ready.is_empty() && self.replies.is_empty() && !for_layers;
        if !(nothing && taken && self.accounts.shrink()) {
            return false;
        }
        self.recent = None;
        // All memory credit is free, so an earlier BLOCKED no longer holds.
        self.blocked_at = None;
        self.took_reserved = false;
        self.replies = Default::default();
        self.for_layers = None;
        self.waiting = Default::default();
        self.answers = Default::default();
        self.updates = Default::default();
        self.incoming = Default::default();
        let indices: Vec<usize> = self.by_id.values().copied().collect();
        let all_cold = indices.into_iter().all(|index| self.make_cold(index));
        if all_cold {
            (self.channels, self.by_id, self.ready) = Default::default();
        }
        all_cold
    }
}
