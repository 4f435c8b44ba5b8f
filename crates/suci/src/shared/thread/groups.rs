//! The thread's part in the operations of groups.

use super::{Worker, open_account};
use crate::clock::Clock;
use crate::error::Error;
use crate::group::{Carrier, GroupError, ServedGroups, Waiting, has_room};
use crate::shared::shard::owner;
use std::sync::Arc;
use suci_proto::message::Held;
use suci_proto::time::Instant;
use suci_proto::types::NodeId;
use suci_proto::{Engine, Outgoing};

impl Worker {
    /// Carries on the operations of groups that are under way. Returns whether something is to be
    /// sent.
    pub(super) fn progress_groups(&mut self) -> bool {
        let none = ServedGroups::new(Arc::clone(&self.driver.places.groups));
        let mut groups = core::mem::replace(&mut self.groups, none);
        let (sent, advanced) = groups.progress(self);
        self.groups = groups;
        for group in advanced {
            self.guard.inner.wake_others(&group, self.guard.index);
        }
        sent
    }
}

impl Carrier<Waiting> for Worker {
    fn engine(&mut self) -> &mut Engine {
        &mut self.driver.engine
    }

    fn now(&self) -> Instant {
        Clock.now()
    }

    fn serves(&self, node: NodeId) -> bool {
        owner(node, self.guard.inner.shards.len()) == self.guard.index
    }

    fn offer(&mut self, to: NodeId, message: Outgoing) -> Result<bool, GroupError> {
        has_room(self.offer_of_group(to, message))
    }
}

impl Worker {
    /// The message counts in the peer's gate, as those of the program do. The engine takes one on
    /// each channel of a group whatever others have queued.
    fn offer_of_group(&mut self, to: NodeId, message: Outgoing) -> Result<(), Error> {
        let gate = self.guard.shard().gate(to);
        let gate = gate.filter(|gate| !gate.is_removed());
        let gate = gate.ok_or(Error::UnknownPeer(to))?;
        let (class, size) = (gate.class_of(message.channel), Held::of(&message));
        if !gate.debit(class, size) {
            if self.driver.engine.open_on(to, message.channel) > 0 {
                return Err(Error::would_block(to, message));
            }
            gate.debit_beyond_limit(class, size);
        }
        let offered = self.driver.offer(to, message);
        match &offered {
            Ok(_) => {
                let (accounts, open) = (&mut self.accounts, &mut self.open);
                let account = open_account(accounts, open, &self.guard, to);
                account.held.change(class, |held| held.plus(size));
            }
            Err(_) => gate.credit(class, size),
        }
        offered.map(drop)
    }
}
