//! The memory of messages that no receive has taken.

use super::table::{Coming, Decision, Landing, Matching, Owner, Untaken};
use super::{Envelope, MESSAGE_CHARGE, MessageId};
use suci_proto::Message;
use suci_proto::types::{NodeId, Source};

impl Matching {
    /// Returns true if one more message of `node` may be kept. Otherwise its messages should stay
    /// in the engine ([`Engine::hold_port`](suci_proto::Engine::hold_port)).
    #[must_use]
    pub fn takes(&self, node: NodeId) -> bool {
        self.held < self.memory / 2 || self.held_of(node) < self.share()
    }

    /// Notes that the engine can never have the memory for an announced message.
    pub(super) fn on_too_long(&mut self, decision: &Decision) {
        if let Some(message) = self.unexpected.get_mut(&decision.id) {
            let charge = core::mem::take(&mut message.charge);
            let node = message.description.place.from.node;
            self.refund(node, charge);
        }
    }

    /// Returns true if a message that an ended session left is to be kept, or goes to a receive.
    /// The session's memory credit bounds such messages no more. So they have the memory that is
    /// left; once it is used up, all later ones of that session are dropped.
    pub(super) fn keeps_last(&mut self, from: Source, message: &Message) -> bool {
        let (channel, number) = (message.channel, message.number);
        let place = Landing {
            from,
            channel,
            number,
        };
        let is_known = match self.coming.get(&place) {
            Some(Coming::Placed { .. }) => true,
            Some(Coming::Untaken(id)) => self
                .unexpected
                .get(id)
                .is_some_and(|one| one.charge > 0 || !matches!(one.owner, Owner::Nobody)),
            None => false,
        };
        if is_known {
            return true;
        }
        let envelope = Envelope {
            channel,
            node: from.node,
            tag: message.tag,
        };
        let header = message.user_header.len() as u64;
        let charge = message.payload.received() + header + MESSAGE_CHARGE;
        let fits = self.held.saturating_add(charge) <= self.memory
            || self.posted.first(&envelope).is_some();
        if !fits {
            self.cut_short = Some(from);
        }
        self.cut_short != Some(from)
    }

    /// The bytes that each node may use when half of the memory is used up: an even part of the
    /// other half.
    fn share(&self) -> u64 {
        let nodes = self.held_by.len().max(1) as u64;
        self.memory / 2 / nodes
    }

    fn held_of(&self, node: NodeId) -> u64 {
        self.held_by.get(&node).copied().unwrap_or(0)
    }

    /// Returns true if there is room for `bytes` more bytes of a node.
    pub(super) fn has_room(&self, node: NodeId, bytes: u64) -> bool {
        self.held.saturating_add(bytes) <= self.memory / 2
            || self.held_of(node).saturating_add(bytes) <= self.share()
    }

    /// Counts the memory of a message.
    pub(super) fn charge(&mut self, id: MessageId) {
        let Some(message) = self.unexpected.get_mut(&id).filter(|one| one.charge == 0) else {
            return;
        };
        let charge = charge_of(message);
        message.charge = charge;
        let held = self.held_by.entry(message.description.place.from.node);
        let held = held.or_default();
        *held = held.saturating_add(charge);
        self.held = self.held.saturating_add(charge);
    }

    /// Frees memory of a node's message. Announced messages may now have room.
    pub(super) fn refund(&mut self, node: NodeId, charge: u64) {
        self.held = self.held.saturating_sub(charge);
        if let Some(held) = self.held_by.get_mut(&node) {
            *held = held.saturating_sub(charge);
            if *held == 0 {
                self.held_by.remove(&node);
            }
        }
        if charge > 0 && !self.parked.is_empty() {
            for id in self.parked.clone() {
                self.pull(id);
            }
        }
    }
}

/// Returns the bytes that a message counts.
pub(super) fn charge_of(message: &Untaken) -> u64 {
    let header = message.description.user_header.len() as u64;
    MESSAGE_CHARGE
        .saturating_add(header)
        .saturating_add(message.total)
}
