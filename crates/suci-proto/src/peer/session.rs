//! A session: what the promises are about. It outlives connections.

use super::suspension::Suspension;
use crate::engine::Promise;
use crate::fold::{Fold, Words, folds};
use crate::limits::MAX_RETIRED;
use crate::message::{Inbox, Outbox};
use crate::types::{Epoch, Incarnation, SessionNumber};
use std::collections::VecDeque;

/// The messages of one pair of incarnations and epoch, in both directions.
#[derive(Debug)]
pub(crate) struct Session {
    /// The peer's incarnation; none until a handshake told it.
    pub(crate) remote: Option<Incarnation>,
    pub(crate) epoch: Epoch,
    /// Which of this node's sessions with the peer it is.
    pub(crate) number: SessionNumber,
    pub(crate) outbox: Outbox,
    pub(crate) inbox: Inbox,
    /// Memory promised to the peer, none before the handshake.
    pub(crate) promise: Promise,
    /// The program says when messages are sent again: neither timers nor losses do.
    pub(crate) manual: bool,
    /// Who holds its messages back.
    pub(crate) suspension: Suspension,
    /// Calls made in it that have no reply yet.
    pub(crate) open_calls: u32,
}

impl Session {
    /// Writes it down once its halves rest.
    pub(super) fn fold(&self, to: &mut Words) {
        let Self {
            remote,
            epoch,
            number,
            outbox,
            inbox,
            promise,
            manual,
            suspension,
            // The peer does not rest while there are any.
            open_calls: _,
        } = self;
        remote.fold(to);
        epoch.fold(to);
        number.fold(to);
        outbox.fold(to);
        inbox.fold(to);
        promise.fold(to);
        manual.fold(to);
        suspension.fold(to);
    }

    /// Makes a new one what was written down.
    pub(super) fn restore(&mut self, from: &mut Words) {
        self.remote = Fold::unfold(from);
        self.epoch = Fold::unfold(from);
        self.number = Fold::unfold(from);
        self.outbox.restore(from);
        self.inbox.restore(from);
        self.promise = Fold::unfold(from);
        self.manual = Fold::unfold(from);
        self.suspension = Fold::unfold(from);
    }

    /// Whether it ever got past the handshake.
    pub(crate) fn is_established(&self) -> bool {
        self.remote.is_some()
    }

    /// Whether the program hears of its end, when it ends.
    pub(crate) fn has_begun(&self) -> bool {
        self.is_established() || !self.outbox.is_empty()
    }
}

/// What is remembered of sessions that are over, so that they stay over: for each incarnation the first epoch
/// that it may still open. An incarnation that was followed by another may come back (two processes may
/// claim one node ID), but not to a session that ended.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The newest last.
    known: VecDeque<(Incarnation, Epoch)>,
    /// Where incarnations begin that are not known, or not any more.
    floor: Epoch,
}

folds!(History { known, floor });

impl History {
    /// The session (`incarnation`, `epoch`) ended.
    pub(crate) fn ended(&mut self, incarnation: Incarnation, epoch: Epoch) {
        self.go_on_at(incarnation, epoch.next());
    }

    /// All sessions with `incarnation` before the one of epoch `next` are over.
    pub(crate) fn go_on_at(&mut self, incarnation: Incarnation, next: Epoch) {
        self.known.retain(|(known, _)| *known != incarnation);
        if self.known.len() == MAX_RETIRED
            && let Some((_, next)) = self.known.pop_front()
            && next.reaches(self.floor)
        {
            self.floor = next;
        }
        self.known.push_back((incarnation, next));
    }

    /// The first epoch that `incarnation` may still open.
    pub(crate) fn next_epoch(&self, incarnation: Incarnation) -> Epoch {
        let known = self.known.iter().find(|(known, _)| *known == incarnation);
        known.map_or(self.floor, |(_, next)| *next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f14_a_session_that_ended_is_never_taken_up_again() {
        let (old, new) = (Incarnation(1), Incarnation(2));
        let mut history = History::default();
        history.ended(old, Epoch(0));
        assert_eq!(history.next_epoch(old), Epoch(1));
        assert_eq!(history.next_epoch(new), Epoch(0));
        history.ended(new, Epoch(0));
        assert_eq!(history.next_epoch(old), Epoch(1), "whoever came between");
    }

    #[test]
    fn f04_the_memory_of_incarnations_is_bounded_and_errs_upwards() {
        let mut history = History::default();
        for n in 0..100 {
            history.ended(Incarnation(n), Epoch(u64::try_from(n % 7).unwrap_or(0)));
        }
        assert_eq!(history.known.len(), MAX_RETIRED);
        assert_eq!(
            history.next_epoch(Incarnation(3)),
            Epoch(7),
            "forgotten: above all that were"
        );
    }
}
