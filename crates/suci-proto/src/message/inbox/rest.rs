//! The inbox while no message is on its way: what it forgets, and what is written down of it.

use super::{Channel, Inbox};
use crate::fold::{Fold, Words};

impl Inbox {
    /// How many of `sent` messages the program neither received nor refused.
    #[must_use]
    pub fn missing_of(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.decided)
    }

    /// Gives back what messages needed. False if one is here, or expected, or something is to be told.
    pub(crate) fn rest(&mut self) -> bool {
        let nothing = self.waiting.is_empty() && self.incoming.is_empty() && !self.has_answers();
        let taken = self.ready.is_empty() && self.replies.is_empty();
        if !(nothing && taken && self.accounts.rest()) {
            return false;
        }
        self.recent = None;
        self.replies = Default::default();
        self.waiting = Default::default();
        self.answers = Default::default();
        self.updates = Default::default();
        self.incoming = Default::default();
        self.channels.iter_mut().all(Channel::rest)
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
            channels,
            by_id: _,
            recent: _,
            ready,
            replies: _,
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
        channels.fold(to);
        ready.fold(to);
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
        self.channels = Fold::unfold(from);
        let places = self.channels.iter().enumerate();
        self.by_id = places.map(|(place, c)| (c.id(), place)).collect();
        self.ready = Fold::unfold(from);
        self.priorities = Fold::unfold(from);
    }
}
