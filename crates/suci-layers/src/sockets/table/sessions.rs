//! Sessions that end, and peers that do not answer.

use super::{SlotUse, Sockets, entry_mut, read_open};
use crate::sockets::connection::State;
use crate::sockets::plant::{Fault, is_planted};
use crate::sockets::{ConnectionFailure, LOST_TIMEOUT, OPEN_TIMEOUT};
use std::collections::BTreeSet;
use std::time::Duration;
use suci_proto::time::{Instant, nanos};
use suci_proto::types::NodeId;
use suci_proto::{EndReason, LostCause, Outgoing, Unreachable};

impl Sockets {
    /// Fails the connections whose answer did not come in time, and gives placeholders up that were
    /// not confirmed in time.
    pub fn on_timeout(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            if let Some(SlotUse::Placeholder(_)) = self.entry(id) {
                self.abort(id);
            } else {
                let node = self.connection(id).map(|connection| connection.peer.node);
                let known = node.and_then(|node| self.lost.get(&node));
                let failure = known.copied().unwrap_or(ConnectionFailure::TimedOut);
                self.forget_open(id);
                self.fail(id, failure);
            }
        }
    }

    /// Returns when [`Sockets::on_timeout`] has something to do.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Returns when a connection to a node fails that begins at `now`, if no answer comes.
    pub(super) fn end_of_open_to(&self, now: Instant, node: NodeId) -> Instant {
        match self.lost.contains_key(&node) {
            true => after(now, LOST_TIMEOUT),
            false => end_of_open(now),
        }
    }

    /// Forgets that a node was lost, if it was: it was heard, or its session ended. Connections
    /// that wait for its answer have as much time as those to any other node.
    pub(super) fn forget_lost(&mut self, node: NodeId) {
        if self.lost.remove(&node).is_none() {
            return;
        }
        for id in self.ids_of(node) {
            if let Some(SlotUse::Connection(connection)) = entry_mut(&mut self.slots, id)
                && let State::Opening(deadline) = &mut connection.state
            {
                self.deadlines.remove(&(*deadline, id));
                *deadline = after(*deadline, OPEN_TIMEOUT - LOST_TIMEOUT);
                self.deadlines.insert((*deadline, id));
            }
        }
    }

    pub(super) fn on_lost(&mut self, node: NodeId, cause: LostCause) {
        let opening = match cause {
            LostCause::NoAnswer => ConnectionFailure::TimedOut,
            LostCause::Unreachable(Unreachable::Port) | LostCause::ProcessDied => {
                ConnectionFailure::NoProcess
            }
            LostCause::Unreachable(_) => ConnectionFailure::Unreachable,
            LostCause::Refused(reason) => ConnectionFailure::Rejected(reason),
        };
        let open = match cause {
            LostCause::ProcessDied => ConnectionFailure::Reset,
            _ => ConnectionFailure::TimedOut,
        };
        self.lost.insert(node, opening);
        self.fail_all(node, opening, open);
    }

    /// Handles that no process has the peer's port, or that no way leads to the peer. Connections
    /// that wait for its answer fail, as those of TCP do. Others are judged by the peer's silence.
    pub(super) fn on_absent(&mut self, node: NodeId, failure: ConnectionFailure) {
        for id in self.ids_of(node) {
            if let Some(SlotUse::Connection(connection)) = self.entry(id)
                && matches!(connection.state, State::Opening(_))
            {
                self.forget_open(id);
                self.fail(id, failure);
            }
        }
    }

    /// A session is over, with all that was sent in it and not answered. An OPEN that was in it
    /// goes into the next session: what it opened at the peer is gone.
    pub(super) fn on_ended(&mut self, node: NodeId, reason: EndReason) {
        if !is_planted(Fault::OutputOutlivesSession) {
            let goes_on = |message: &Outgoing| read_open(message).is_some();
            self.output.remove(node, |message| !goes_on(message));
        }
        let waiting: BTreeSet<_> = self.output.messages(node).filter_map(read_open).collect();
        for id in self.ids_of(node) {
            match self.entry(id) {
                Some(SlotUse::Placeholder(_)) => {
                    if !is_planted(Fault::PlaceholdersOutliveSession) {
                        self.remove(id);
                    }
                }
                Some(SlotUse::Connection(connection)) => match connection.state {
                    State::Opening(_) if waiting.contains(&id) => {}
                    State::Opening(_) => match opening_failure(reason) {
                        None => self.push_open(id),
                        Some(failure) => self.fail(id, failure),
                    },
                    State::Open => self.fail(id, ConnectionFailure::Reset),
                    State::Flushing | State::Closing => self.remove(id),
                    State::PeerClosed | State::Failed(_) => {}
                },
                Some(SlotUse::Listener(_) | SlotUse::Free) | None => {}
            }
        }
    }

    /// Fails all connections with a node, and tells it, if it should answer again.
    pub(super) fn fail_all(
        &mut self,
        node: NodeId,
        opening: ConnectionFailure,
        open: ConnectionFailure,
    ) {
        for id in self.ids_of(node) {
            match self.entry(id) {
                Some(SlotUse::Placeholder(_)) => self.abort(id),
                Some(SlotUse::Connection(connection)) => match connection.state {
                    State::Opening(_) => {
                        self.forget_open(id);
                        self.fail(id, opening);
                    }
                    State::Open => {
                        self.reset(id);
                        self.fail(id, open);
                    }
                    State::Flushing => self.abort(id),
                    // The peer still answers CLOSE, or the session ends.
                    State::Closing | State::PeerClosed | State::Failed(_) => {}
                },
                Some(SlotUse::Listener(_) | SlotUse::Free) | None => {}
            }
        }
    }
}

/// Returns why a connection that waits for its answer fails when the session ends; `None` if the
/// next session may carry the question.
const fn opening_failure(reason: EndReason) -> Option<ConnectionFailure> {
    match reason {
        EndReason::Closed
        | EndReason::CutShort { .. }
        | EndReason::Restarted
        | EndReason::PeerEnded => None,
        EndReason::ClosedHere | EndReason::Reset => Some(ConnectionFailure::Reset),
        EndReason::Silent => Some(ConnectionFailure::TimedOut),
        EndReason::ProcessDied => Some(ConnectionFailure::NoProcess),
        EndReason::Revoked
        | EndReason::RevokedThere
        | EndReason::Protocol(_)
        | EndReason::PeerProtocol(_) => Some(ConnectionFailure::Reset),
    }
}

/// Returns when an attempt to open a connection is over that begins, or arrives, at `now`.
pub(super) fn end_of_open(now: Instant) -> Instant {
    after(now, OPEN_TIMEOUT)
}

fn after(now: Instant, time: Duration) -> Instant {
    Instant::from_nanos(now.as_nanos().saturating_add(nanos(time)))
}
