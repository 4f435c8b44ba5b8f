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
    /// The placeholders of each node, the oldest first.
    unconfirmed: BTreeMap<NodeId, VecDeque<SocketId>>,
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
            unconfirmed: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    /// Returns the room for a connection of `node`. A node that opens connections and never
    /// confirms them must not keep others out. So a placeholder of the node that has the most gives
    /// way, if `node` still has fewer afterwards or as many. Two nodes never push out each other in
    /// turns.
    pub(super) fn room(&self, node: NodeId) -> Room {
        let lengths = self.unconfirmed.values().map(VecDeque::len);
        if lengths.sum::<usize>() + self.ready.len() < self.backlog {
            return Room::Free;
        }
        let own = self.unconfirmed.get(&node).map_or(0, VecDeque::len);
        let most = self.unconfirmed.values().max_by_key(|ids| ids.len());
        let oldest = most
            .filter(|ids| ids.len() > own + 1)
            .and_then(|ids| ids.front());
        oldest.map_or(Room::None, |id| Room::Instead(*id))
    }

    pub(super) fn add_placeholder(&mut self, node: NodeId, id: SocketId) {
        self.unconfirmed.entry(node).or_default().push_back(id);
    }

    pub(super) fn remove_placeholder(&mut self, node: NodeId, id: SocketId) {
        if let Some(ids) = self.unconfirmed.get_mut(&node) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.unconfirmed.remove(&node);
            }
        }
    }

    /// Takes all that wait out of a listener that is closed.
    pub(super) fn take_waiting(&mut self) -> Vec<SocketId> {
        let unconfirmed = core::mem::take(&mut self.unconfirmed);
        let ready = core::mem::take(&mut self.ready);
        unconfirmed.into_values().flatten().chain(ready).collect()
    }
}
