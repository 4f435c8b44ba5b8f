//! Sessions that end, and peers that do not answer.

use super::{Entry, Sockets, read_open};
use crate::sockets::Failure;
use crate::sockets::connection::State;
use crate::sockets::plant::{Fault, is_planted};
use std::collections::BTreeSet;
use suci_proto::types::NodeId;
use suci_proto::{EndReason, LostCause, Outgoing, RefusedReason, Unreachable};

impl Sockets {
    pub(super) fn on_lost(&mut self, node: NodeId, cause: LostCause) {
        let opening = match cause {
            LostCause::NoAnswer => Failure::TimedOut,
            LostCause::Unreachable(Unreachable::Port) | LostCause::ProcessDied => {
                Failure::NoProcess
            }
            LostCause::Unreachable(_) => Failure::Unreachable,
            LostCause::Refused(reason) => match reason {
                // The engine tries again after these.
                RefusedReason::NoSocketCredit
                | RefusedReason::NoMemory
                | RefusedReason::TooManyPeers
                | RefusedReason::Unread
                | RefusedReason::NoSocketCreditHere
                | RefusedReason::NoMemoryHere => Failure::TimedOut,
                _ => Failure::NotAllowed,
            },
        };
        let open = match cause {
            LostCause::ProcessDied => Failure::Reset,
            _ => Failure::TimedOut,
        };
        self.fail_all(node, opening, open);
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
                Some(Entry::Placeholder(_)) => {
                    if !is_planted(Fault::PlaceholdersOutliveSession) {
                        self.remove(id);
                    }
                }
                Some(Entry::Connection(connection)) => match connection.state {
                    State::Opening(_) if waiting.contains(&id) => {}
                    State::Opening(_) => match opening_failure(reason) {
                        None => self.push_open(id),
                        Some(failure) => self.fail(id, failure),
                    },
                    State::Open => self.fail(id, Failure::Reset),
                    State::Closing => self.remove(id),
                    State::PeerClosed | State::Failed(_) => {}
                },
                Some(Entry::Listener(_) | Entry::Free) | None => {}
            }
        }
    }

    /// Fails all connections with a node, and tells it, if it should answer again.
    pub(super) fn fail_all(&mut self, node: NodeId, opening: Failure, open: Failure) {
        for id in self.ids_of(node) {
            match self.entry(id) {
                Some(Entry::Placeholder(_)) => {
                    self.reset(id);
                    self.remove(id);
                }
                Some(Entry::Connection(connection)) => match connection.state {
                    State::Opening(_) => {
                        self.forget_open(id);
                        self.fail(id, opening);
                    }
                    State::Open => {
                        self.reset(id);
                        self.fail(id, open);
                    }
                    // The peer still answers CLOSE, or the session ends.
                    State::Closing | State::PeerClosed | State::Failed(_) => {}
                },
                Some(Entry::Listener(_) | Entry::Free) | None => {}
            }
        }
    }
}

/// Returns why a connection that waits for its answer fails when the session ends; `None` if the
/// next session may carry the question.
const fn opening_failure(reason: EndReason) -> Option<Failure> {
    match reason {
        EndReason::Closed
        | EndReason::CutShort { .. }
        | EndReason::Restarted
        | EndReason::PeerEnded => None,
        EndReason::ClosedHere | EndReason::Reset => Some(Failure::Reset),
        EndReason::Silent => Some(Failure::TimedOut),
        EndReason::ProcessDied => Some(Failure::NoProcess),
        EndReason::Protocol(_) | EndReason::PeerProtocol(_) => Some(Failure::Reset),
    }
}
