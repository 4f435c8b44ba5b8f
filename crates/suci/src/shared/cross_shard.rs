//! Datagrams that came to the socket of another shard than their peer's.
//!
//! The kernel chooses the socket by the same byte (`suci_net::udp::Udp::into_group`), so there are
//! hardly any. Some come while the sockets are opened, others in the middle of a train whose first
//! datagram names another shard. They go to the owner by its bounded ring, since only the owner
//! knows their connection.

use super::shard::{Shard, owner};
use crate::launcher::Notice;
use std::sync::Arc;
use suci_net::Report;
use suci_proto::types::NodeId;
use suci_proto::wire::peek_index;
use suci_proto::{Arrival, Outgoing};

/// Something on its way to another shard.
pub(crate) enum CrossShardMessage {
    Datagram {
        arrival: Arrival,
        bytes: Box<[u8]>,
    },
    /// A datagram of any shard was not delivered.
    Report(Report),
    /// The launcher reported something.
    Notice(Notice),
    /// A packet to be sent on to a neighbour.
    Routed(NodeId, Box<Outgoing>),
}

/// A shard's index among those of its node, and its way to the others.
pub(crate) struct CrossShardQueue {
    own: usize,
    shards: Arc<[Shard]>,
    /// Shards to which something was sent since they were last woken.
    unwoken: Vec<usize>,
}

impl CrossShardQueue {
    pub(super) fn new(own: usize, shards: Arc<[Shard]>) -> Self {
        let unwoken = Vec::new();
        Self {
            own,
            shards,
            unwoken,
        }
    }

    /// The shard that owns this datagram, if it is not this one. A datagram too short to name its
    /// owner is dropped here.
    pub(crate) fn other_owner(&self, datagram: &[u8]) -> Option<usize> {
        let [lowest, ..] = peek_index(datagram)?.to_le_bytes();
        let owner = usize::from(lowest) % self.shards.len();
        (owner != self.own).then_some(owner)
    }

    /// Sends a datagram on; [`CrossShardQueue::wake`] follows. Says whether there was room.
    pub(crate) fn forward(&mut self, owner: usize, forwarded: CrossShardMessage) -> bool {
        let Some(shard) = self.shards.get(owner) else {
            return false;
        };
        let sent = shard.forwarded.push(forwarded).is_ok();
        if !self.unwoken.contains(&owner) {
            self.unwoken.push(owner);
        }
        sent
    }

    /// Sends a report to all other shards, as far as there is room; [`CrossShardQueue::wake`]
    /// follows.
    pub(crate) fn spread(&mut self, report: Report) {
        for other in 0..self.shards.len() {
            if other != self.own {
                self.forward(other, CrossShardMessage::Report(report));
            }
        }
    }

    /// Whether this shard serves `node`.
    pub(crate) fn owns(&self, node: NodeId) -> bool {
        owner(node, self.shards.len()) == self.own
    }

    /// Sends a notice about `node` to the shard that serves it; [`CrossShardQueue::wake`] follows.
    /// Says whether there was room.
    pub(crate) fn tell(&mut self, node: NodeId, notice: Notice) -> bool {
        self.forward(
            owner(node, self.shards.len()),
            CrossShardMessage::Notice(notice),
        )
    }

    /// Sends a notice to all other shards; [`CrossShardQueue::wake`] follows. Says whether there
    /// was room for all: else all get it again.
    pub(crate) fn tell_all(&mut self, notice: Notice) -> bool {
        let others = (0..self.shards.len()).filter(|other| *other != self.own);
        let others: Vec<_> = others.collect();
        let told = others
            .into_iter()
            .filter(|other| !self.forward(*other, CrossShardMessage::Notice(notice)));
        told.count() == 0
    }

    /// Sends a packet on to the shard that serves the neighbour `next`; [`CrossShardQueue::wake`]
    /// follows. Says whether there was room.
    pub(crate) fn route(&mut self, next: NodeId, message: Outgoing) -> bool {
        self.forward(
            owner(next, self.shards.len()),
            CrossShardMessage::Routed(next, Box::new(message)),
        )
    }

    /// Wakes the shards to which something was sent, if they sleep: once for all of it.
    pub(crate) fn wake(&mut self) {
        for owner in self.unwoken.drain(..) {
            if let Some(shard) = self.shards.get(owner) {
                shard.unpark();
            }
        }
    }

    /// The next datagram that another socket got.
    pub(crate) fn receive(&self) -> Option<CrossShardMessage> {
        self.shards.get(self.own)?.forwarded.pop()
    }
}
