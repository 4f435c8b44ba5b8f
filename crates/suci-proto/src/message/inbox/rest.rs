//! The inbox while no message is on its way: what it forgets, and what is written down of it.

use super::Inbox;
use crate::fold::{Fold, Words};
use crate::message::len64;

impl Inbox {
    /// How many of `sent` messages the program neither received nor refused.
    #[must_use]
    pub fn missing_of(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.decided)
    }

    /// Gives back what messages needed. False if one is here, or expected, or something is to be
    /// told.
    pub(crate) fn rest(&mut self) -> bool {
        let nothing = self.waiting.is_empty()
            && self.incoming.is_empty()
            && self.untold.is_empty()
            && !self.has_answers();
        let taken = self.ready.is_empty() && self.replies.is_empty();
        if !(nothing && taken && self.accounts.rest()) {
            return false;
        }
        self.recent = None;
        // All of the memory is free: what the peer said of it is over.
        self.blocked_at = None;
        self.took_reply = false;
        self.replies = Default::default();
        self.waiting = Default::default();
        self.answers = Default::default();
        self.updates = Default::default();
        self.incoming = Default::default();
        let places: Vec<usize> = self.by_id.values().copied().collect();
        let frozen = places.into_iter().all(|place| self.freeze(place));
        if frozen {
            (self.channels, self.ready) = Default::default();
        }
        frozen
    }

    /// Writes it down once it [rests](Self::rest).
    pub(crate) fn fold(&self, to: &mut Words) {
        let Self {
            limits: _,
            first_limit,
            each_window,
            session_window,
            large_budget,
            accounts,
            consumed,
            decided,
            channels: _,
            by_id: _,
            recent: _,
            cold,
            refusals,
            finished,
            untold: _,
            opened: _,
            max_channels,
            channels_told,
            channels_untold: _,
            ready: _,
            replies: _,
            blocked_at: _,
            took_reply: _,
            priorities,
            waiting: _,
            answers: _,
            updates: _,
            incoming: _,
        } = self;
        first_limit.fold(to);
        each_window.fold(to);
        session_window.fold(to);
        large_budget.fold(to);
        accounts.fold(to);
        to.put_position(*consumed);
        // All that came was received.
        decided.saturating_sub(accounts.complete).fold(to);
        cold.fold(to);
        refusals.fold(to);
        finished.fold(to);
        self.gone().fold(to);
        max_channels.fold(to);
        self.allowed().saturating_sub(*channels_told).fold(to);
        priorities.fold(to);
    }

    /// Makes a new one what was written down.
    pub(crate) fn restore(&mut self, from: &mut Words) {
        self.first_limit = Fold::unfold(from);
        self.each_window = Fold::unfold(from);
        self.session_window = Fold::unfold(from);
        self.large_budget = Fold::unfold(from);
        self.accounts.restore(from);
        self.consumed = from.take_position();
        let refused = u64::unfold(from);
        self.decided = self.accounts.complete.saturating_add(refused);
        self.cold = Fold::unfold(from);
        self.refusals = Fold::unfold(from);
        self.finished = Fold::unfold(from);
        self.opened = len64(self.cold.len()).saturating_add(Fold::unfold(from));
        self.max_channels = Fold::unfold(from);
        self.channels_told = self.allowed().saturating_sub(Fold::unfold(from));
        self.priorities = Fold::unfold(from);
    }
}
