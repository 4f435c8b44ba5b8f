//! The groups whose members one driver serves alone.

use super::Driver;
use crate::error::Error;
use crate::group::Carrier;
use suci_proto::types::NodeId;
use suci_proto::{Engine, Outgoing};

impl Driver {
    /// Carries on the operations of groups that are under way. Returns whether something is to be
    /// sent.
    pub(crate) fn progress_groups(&mut self) -> bool {
        let mut groups = core::mem::take(&mut self.groups);
        let (sent, _) = groups.progress(self);
        self.groups = groups;
        sent
    }
}

impl Carrier for Driver {
    fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    fn serves(&self, _: NodeId) -> bool {
        true
    }

    fn offer(&mut self, to: NodeId, message: Outgoing) -> Result<(), Error> {
        Self::offer(self, to, message).map(drop)
    }
}
