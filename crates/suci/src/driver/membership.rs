//! Membership.

use super::Driver;
use crate::membership::OwnMembership;
use crate::shared::owner;
use std::sync::Arc;
use suci_proto::Port;
use suci_proto::time::Instant;
use suci_proto::types::NodeId;

/// A driver's part in its node's membership.
pub(crate) struct MembershipPart {
    member: Arc<OwnMembership>,
    /// The index of the driver's shard, and how many there are.
    index: usize,
    count: usize,
    /// When the member has something to do.
    next_at: Instant,
    /// Nodes that the engine came to know, or forgot, and whose gates must be told.
    known: Vec<NodeId>,
}

impl MembershipPart {
    pub(crate) fn new(member: Arc<OwnMembership>, index: usize, count: usize) -> Self {
        Self {
            next_at: member.shared.next_at(),
            member,
            index,
            count,
            known: Vec::new(),
        }
    }
}

impl Driver {
    /// Whether membership has something to do.
    pub(super) fn has_membership_work(&self) -> bool {
        let part = self.membership.as_deref();
        part.is_some_and(|part| part.next_at <= self.now)
            || self.engine.has_port_input(Port::Membership)
    }

    /// When membership has something to do without a message.
    pub(super) fn membership_due(&self) -> Option<Instant> {
        self.membership.as_ref().map(|part| part.next_at)
    }

    /// Takes what members told, and tells them. Drops it if this node is no member.
    #[cold]
    pub(super) fn serve_membership(&mut self) {
        let Some(part) = &mut self.membership else {
            while self.engine.poll_port(Port::Membership).is_some() {}
            return;
        };
        let (index, count) = (part.index, part.count);
        let serves = |node| owner(node, count) == index;
        let shared = &part.member.shared;
        let turn = shared.serve(&mut self.engine, self.now, serves);
        part.next_at = shared.next_at();
        part.known.extend(turn.known);
    }

    /// Leaves the cluster: its last messages go before the engine closes.
    pub(super) fn leave_cluster(&mut self) {
        if let Some(part) = &self.membership {
            part.member.shared.leave(&mut self.engine, self.now);
            self.serve_membership();
        }
    }

    /// Takes the nodes that the engine came to know, or forgot, by membership.
    pub(crate) fn take_known(&mut self) -> Vec<NodeId> {
        let part = self.membership.as_mut();
        part.map_or_else(Vec::new, |part| std::mem::take(&mut part.known))
    }
}
