//! A channel of the inbox without messages, and the session's books beside it.

use super::{Accounts, Channel, Chunk, Request, Runs, SpareRuns, SpareSlots, Verdict};
use crate::fold::{Fold, Words, folds};
use std::collections::VecDeque;

folds!(Request {
    number,
    total,
    verdict,
});

impl Fold for Verdict {
    fn fold(&self, to: &mut Words) {
        let (number, reason): (u8, u64) = match *self {
            Self::Asked => (0, 0),
            Self::Waiting => (1, 0),
            Self::Granted => (2, 0),
            Self::Refused(reason) => (3, reason),
        };
        (number, reason).fold(to);
    }

    fn unfold(from: &mut Words) -> Self {
        match <(u8, u64)>::unfold(from) {
            (1, _) => Self::Waiting,
            (2, _) => Self::Granted,
            (3, reason) => Self::Refused(reason),
            _ => Self::Asked,
        }
    }
}

/// Only once [`Channel::rest`] found nothing.
impl Fold for Channel {
    fn fold(&self, to: &mut Words) {
        let Self {
            id,
            runs: _,
            base,
            slots: _,
            settled: _,
            known,
            consumed,
            window,
            limit,
            request,
            listed: _,
        } = self;
        id.fold(to);
        base.fold(to);
        for position in [known, consumed, limit] {
            to.put_position(*position);
        }
        window.fold(to);
        request.fold(to);
    }

    fn unfold(from: &mut Words) -> Self {
        let channel = Self::new(Fold::unfold(from), 0, 0);
        Self {
            base: Fold::unfold(from),
            known: from.take_position(),
            consumed: from.take_position(),
            limit: from.take_position(),
            window: Fold::unfold(from),
            request: Fold::unfold(from),
            ..channel
        }
    }
}

impl Accounts {
    /// Nothing is expected that the books are about.
    pub(in crate::message) fn rest(&mut self) -> bool {
        let expected = self.large != 0 || self.unfinished != 0 || self.owed != 0;
        let nothing = !expected && !self.chunk.is_lent();
        if nothing {
            self.chunk = Chunk::default();
            self.blank = None;
            self.spare = SpareSlots::default();
            self.spare_runs = SpareRuns::default();
        }
        nothing
    }

    /// Only once [`Accounts::rest`] found nothing.
    pub(in crate::message) fn fold(&self, to: &mut Words) {
        let Self {
            known,
            taken,
            session_limit,
            large: _,
            complete,
            unfinished: _,
            owed: _,
            pool: _,
            chunk: _,
            blank: _,
            spare: _,
            spare_runs: _,
        } = self;
        for position in [known, taken, session_limit] {
            to.put_position(*position);
        }
        complete.fold(to);
    }

    pub(in crate::message) fn restore(&mut self, from: &mut Words) {
        self.known = from.take_position();
        self.taken = from.take_position();
        self.session_limit = from.take_position();
        self.complete = Fold::unfold(from);
    }
}

impl Channel {
    /// Gives back what messages needed. False if one is here, or expected, or something is to be told.
    pub(in crate::message) fn rest(&mut self) -> bool {
        let no_messages = self.runs.is_empty() && self.slots.is_empty();
        let nothing = no_messages && !self.listed.answer && !self.listed.update;
        if nothing {
            self.runs = Runs::default();
            self.slots = VecDeque::new();
        }
        nothing
    }
}
