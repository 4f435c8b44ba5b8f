//! A listener: the connections that wait for its program.

use super::{Address, SocketId, SocketKind};
use std::collections::{BTreeMap, VecDeque};
use suci_proto::time::Instant;
use suci_proto::types::{ChannelId, NodeId};

/// The trace of a connection that its client has not confirmed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placeholder {
    pub(super) listener: SocketId,
    pub(super) peer: Address,
    pub(super) remote: SocketId,
    pub(super) channel: ChannelId,
    /// Bytes and charges that this end may send.
    pub(super) limit: u64,
    /// Bytes and charges that the client may send.
    pub(super) window: u64,
    /// When it gives way.
    pub(super) deadline: Instant,
}

/// The placeholders of each node, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Placeholders(BTreeMap<NodeId, VecDeque<SocketId>>);

impl Placeholders {
    fn count(&self) -> usize {
        self.0.values().map(VecDeque::len).sum()
    }

    /// Returns the placeholder that gives way to one of `node`, or to a connection of the program,
    /// where there is no room for both. A node that opens connections and never confirms them must
    /// not keep others out. So it is the oldest of the node that has the most, if `node` still has
    /// fewer afterwards or as many. Two nodes never push out each other in turns.
    pub(super) fn instead(&self, node: Option<NodeId>) -> Option<SocketId> {
        let own = node.and_then(|node| self.0.get(&node));
        let own = own.map_or(0, VecDeque::len);
        let most = self.0.values().max_by_key(|ids| ids.len())?;
        most.front().copied().filter(|_| most.len() > own + 1)
    }

    pub(super) fn add(&mut self, placeholder: &Placeholder, id: SocketId) {
        let ids = self.0.entry(placeholder.peer.node).or_default();
        ids.push_back(id);
    }

    pub(super) fn remove(&mut self, placeholder: &Placeholder, id: SocketId) {
        let node = placeholder.peer.node;
        if let Some(ids) = self.0.get_mut(&node)
            && let Some(index) = ids.iter().position(|other| *other == id)
        {
            ids.remove(index);
            if ids.is_empty() {
                self.0.remove(&node);
            }
        }
    }
}

/// The room that a listener has for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// If this placeholder is given up.
    Instead(SocketId),
    None,
}

/// A socket that takes connections.
#[derive(Clone, Debug)]
pub(super) struct Listener {
    pub(super) port: u16,
    pub(super) kind: SocketKind,
    backlog: usize,
    pub(super) unconfirmed: Placeholders,
    /// Connections that wait for the program.
    pub(super) ready: VecDeque<SocketId>,
}

impl Listener {
    /// `backlog` connections may wait, at least one.
    pub(super) fn new(port: u16, kind: SocketKind, backlog: usize) -> Self {
        Self {
            port,
            kind,
            backlog: backlog.max(1),
            unconfirmed: Placeholders::default(),
            ready: VecDeque::new(),
        }
    }

    /// Returns the room for a connection of `node`.
    pub(super) fn room(&self, node: NodeId) -> Room {
        if self.unconfirmed.count() + self.ready.len() < self.backlog {
            return Room::Free;
        }
        let instead = self.unconfirmed.instead(Some(node));
        instead.map_or(Room::None, Room::Instead)
    }

    /// Takes all that wait out of a listener that is closed.
    pub(super) fn take_waiting(&mut self) -> Vec<SocketId> {
        let unconfirmed = core::mem::take(&mut self.unconfirmed).0;
        let ready = core::mem::take(&mut self.ready);
        unconfirmed.into_values().flatten().chain(ready).collect()
    }
}
