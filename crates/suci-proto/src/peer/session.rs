//! A session: what the promises are about. It outlives connections.

use crate::engine::Promise;
use crate::event::{EndReason, Event, MessageOutcome};
use crate::limits::MAX_RETIRED;
use crate::message::{Inbox, Message, Outbox};
use crate::types::{Epoch, Incarnation, NodeId};
use std::collections::VecDeque;

/// The messages of one pair of incarnations and epoch, in both directions.
#[derive(Debug)]
pub(crate) struct Session {
    /// The peer's incarnation; none until a handshake told it.
    pub(crate) remote: Option<Incarnation>,
    pub(crate) epoch: Epoch,
    pub(crate) outbox: Outbox,
    pub(crate) inbox: Inbox,
    /// Memory promised to the peer, none before the handshake.
    pub(crate) promise: Promise,
}

impl Session {
    /// Whether it ever got past the handshake.
    pub(crate) fn is_established(&self) -> bool {
        self.remote.is_some()
    }
}

/// A session that is over, until the program took what had arrived in it.
#[derive(Debug)]
pub(crate) struct Farewell {
    pub(crate) messages: VecDeque<Message>,
    /// Memory that they and the session were promised; free when they are taken.
    pub(crate) promise: Promise,
    pub(crate) reason: EndReason,
    pub(crate) outcomes: Vec<MessageOutcome>,
}

impl Farewell {
    /// Bytes of the messages not yet taken.
    pub(crate) fn held(&self) -> u64 {
        self.messages.iter().map(|m| m.payload.len() as u64).sum()
    }

    pub(crate) fn into_event(self, node: NodeId) -> Event {
        Event::Ended {
            node,
            reason: self.reason,
            outcomes: self.outcomes,
        }
    }
}

/// What is remembered of sessions that are over, so that they stay over.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The incarnation of the newest session that ended, and the epoch after it.
    last: Option<(Incarnation, Epoch)>,
    /// Incarnations that were followed by another.
    retired: VecDeque<Incarnation>,
}

impl History {
    /// The session (`incarnation`, `epoch`) ended.
    pub(crate) fn ended(&mut self, incarnation: Incarnation, epoch: Epoch) {
        if let Some((last, _)) = self.last
            && last != incarnation
        {
            self.retire(last);
        }
        self.last = Some((incarnation, Epoch(epoch.0.saturating_add(1))));
    }

    fn retire(&mut self, incarnation: Incarnation) {
        if self.retired.len() == MAX_RETIRED {
            self.retired.pop_front();
        }
        self.retired.push_back(incarnation);
    }

    /// `incarnation` opens a session: whatever came before it stays refused.
    pub(crate) fn succeeded_by(&mut self, incarnation: Incarnation) {
        if let Some((last, _)) = self.last
            && last != incarnation
        {
            self.retire(last);
            self.last = None;
        }
    }

    /// The first epoch that `incarnation` may still open.
    pub(crate) fn next_epoch(&self, incarnation: Incarnation) -> Epoch {
        match self.last {
            Some((last, epoch)) if last == incarnation => epoch,
            _ => Epoch(0),
        }
    }

    /// Whether `incarnation` was followed by another one.
    pub(crate) fn is_retired(&self, incarnation: Incarnation) -> bool {
        #[cfg(suci_plant)]
        if crate::plant::active("stale-incarnation") {
            return false;
        }
        self.retired.contains(&incarnation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f14_old_incarnations_and_epochs_stay_refused() {
        let (old, new) = (Incarnation(1), Incarnation(2));
        let mut history = History::default();
        history.ended(old, Epoch(0));
        assert_eq!(history.next_epoch(old), Epoch(1));
        assert_eq!(history.next_epoch(new), Epoch(0));
        assert!(!history.is_retired(old), "may come back at a higher epoch");
        history.succeeded_by(new);
        assert!(history.is_retired(old));
        assert!(!history.is_retired(new));
    }

    #[test]
    fn f04_the_memory_of_retired_incarnations_is_bounded() {
        let mut history = History::default();
        for n in 0..100 {
            history.ended(Incarnation(n), Epoch(0));
        }
        assert_eq!(history.retired.len(), MAX_RETIRED);
        assert!(history.is_retired(Incarnation(98)));
    }
}
