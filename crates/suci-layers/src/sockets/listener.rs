//! A listener: the connections that wait for its program.

use super::{Address, SocketId, SocketKind};
use std::collections::VecDeque;
use suci_proto::types::ChannelId;

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
}

/// A socket that takes connections.
#[derive(Clone, Debug)]
pub(super) struct Listener {
    pub(super) port: u16,
    pub(super) kind: SocketKind,
    backlog: usize,
    /// The number of placeholders.
    unconfirmed: usize,
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
            unconfirmed: 0,
            ready: VecDeque::new(),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.unconfirmed + self.ready.len() >= self.backlog
    }

    pub(super) fn add_placeholder(&mut self) {
        self.unconfirmed += 1;
    }

    pub(super) fn remove_placeholder(&mut self) {
        self.unconfirmed = self.unconfirmed.saturating_sub(1);
    }
}
