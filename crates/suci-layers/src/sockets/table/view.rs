//! The view that tests have of a table.

use super::{SlotUse, Sockets};
use crate::sockets::SocketId;
use crate::sockets::connection::State;

/// A slot in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sockets) enum View {
    Listener,
    Placeholder,
    Opening,
    /// The program closed it; the rest of a message waits for the peer.
    Flushing(SocketId),
    Closing,
    /// It waits to be accepted.
    Unaccepted(SocketId),
    Open(SocketId),
    /// The peer closed, or the connection failed.
    Over,
}

impl View {
    /// Returns the peer's socket, if the connection is open.
    pub(in crate::sockets) const fn open_with(self) -> Option<SocketId> {
        match self {
            Self::Unaccepted(remote) | Self::Open(remote) | Self::Flushing(remote) => Some(remote),
            _ => None,
        }
    }
}

impl Sockets {
    /// Returns all slots in use.
    pub(in crate::sockets) fn views(&self) -> Vec<(SocketId, View)> {
        let view = |id: SocketId| match self.entry(id) {
            Some(SlotUse::Listener(_)) => View::Listener,
            Some(SlotUse::Placeholder(_)) => View::Placeholder,
            Some(SlotUse::Connection(connection)) => match connection.state {
                State::Opening(_) => View::Opening,
                State::Flushing => View::Flushing(connection.remote),
                State::Closing => View::Closing,
                State::PeerClosed | State::Failed(_) => View::Over,
                State::Open if self.waits(id) => View::Unaccepted(connection.remote),
                State::Open => View::Open(connection.remote),
            },
            Some(SlotUse::Free) | None => View::Over,
        };
        self.ids().map(|id| (id, view(id))).collect()
    }

    /// Returns true if a peer is to be watched.
    pub(in crate::sockets) fn has_live(&self) -> bool {
        !self.live.is_empty()
    }

    fn waits(&self, id: SocketId) -> bool {
        self.listeners.values().any(|listener| {
            let entry = self.entry(*listener);
            matches!(entry, Some(SlotUse::Listener(listener)) if listener.ready.contains(&id))
        })
    }
}
