//! The groups whose members one driver serves alone.

use super::Driver;
use crate::clock::Clock;
use crate::error::Error;
use crate::group::{Carrier, GroupError, ServedGroups, Waiting, has_room};
use std::sync::Arc;
use suci_proto::time::Instant;
use suci_proto::types::NodeId;
use suci_proto::{Engine, Outgoing};

impl Driver {
    /// Carries on the operations of groups that are under way. Returns whether something is to be
    /// sent.
    pub(crate) fn progress_groups(&mut self) -> bool {
        let none = ServedGroups::new(Arc::clone(&self.places.groups));
        let mut groups = core::mem::replace(&mut self.groups, none);
        let (sent, _) = groups.progress(self);
        self.groups = groups;
        sent
    }
}

impl Carrier<Waiting> for Driver {
    fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    fn now(&self) -> Instant {
        Clock.now()
    }

    fn serves(&self, _: NodeId) -> bool {
        true
    }

    fn offer(&mut self, to: NodeId, message: Outgoing) -> Result<bool, GroupError> {
        // Not one of the program's messages, for which an answer may come.
        let sent = self.engine.send(self.now, to, message);
        has_room(sent.map(drop).map_err(|error| Error::from_send(to, error)))
    }
}
