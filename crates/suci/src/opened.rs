//! A node that was built: what never changes, and its drivers.

use crate::budget::Budget;
use crate::clock::Deadline;
use crate::driver::Driver;
use crate::fork::OriginalProcess;
use crate::matching::MatchingState;
use crate::membership::OwnMembership;
use crate::shared_memory::SharedMemory;
use crate::wait::WaitPolicy;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use suci_layers::group::ShrunkNumbers;
use suci_layers::remote::Regions;
use suci_proto::Config;
use suci_proto::types::NodeId;

/// The properties of a node that never change, of either kind.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(crate) id: NodeId,
    pub(crate) local: SocketAddr,
    pub(crate) budget: Budget,
    pub(crate) process: OriginalProcess,
    pub(crate) wait: WaitPolicy,
    pub(crate) regions: Regions,
    pub(crate) matched: Arc<MatchingState>,
    /// Addresses outside of loopback are allowed.
    pub(crate) beyond_loopback: bool,
    /// The numbers of groups that shrank.
    pub(crate) shrunk_numbers: ShrunkNumbers,
    pub(crate) membership: Option<Arc<OwnMembership>>,
    pub(crate) shared_memory: Option<Arc<SharedMemory>>,
}

impl Fixed {
    /// When a wait for a change of a region looks again by itself: nobody tells of the changes that
    /// processes with shared memory make. Never, without shared memory.
    pub(crate) fn next_look(&self) -> Deadline {
        const LOOK: Duration = Duration::from_millis(1);
        let shares = self.shared_memory.as_ref();
        shares.map_or(Deadline::NEVER, |_| Deadline::after(LOOK))
    }
}

/// A node about to start.
pub(crate) struct Opened {
    pub(crate) fixed: Fixed,
    /// One driver for each thread.
    pub(crate) drivers: Vec<Driver>,
    pub(crate) config: Config,
}
