//! Records: the knowledge of one member about another.

use core::net::SocketAddr;
use suci_proto::types::{Incarnation, NodeId};

/// The state of a member. Of two records with the same version, the later one in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// It takes part.
    Alive,
    /// A neighbour does not hear it. It is dead unless it answers soon.
    Suspect,
    /// It was silent for too long, or its process is known to have ended.
    Failed,
    /// It said that it leaves.
    Left,
}

impl Status {
    /// Returns true if the member counts as one.
    #[must_use]
    pub const fn is_present(self) -> bool {
        matches!(self, Self::Alive | Self::Suspect)
    }
}

/// A statement about a node, as members tell each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its node ID.
    pub node: NodeId,
    /// Its process.
    pub incarnation: Incarnation,
    /// Rises whenever the member contradicts what others say of it.
    pub version: u64,
    /// Its state.
    pub status: Status,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Record {
    /// Returns true if this record replaces `other`, which is about the same node. All members
    /// compare alike, so they come to the same record in whatever order they hear of several.
    #[must_use]
    pub fn replaces(&self, other: &Self) -> bool {
        self.rank() > other.rank()
    }

    fn rank(&self) -> (u64, Status, u128, SocketAddr) {
        (self.version, self.status, self.incarnation.0, self.address)
    }

    /// Returns true if others can send to the address.
    #[must_use]
    pub fn has_address(&self) -> bool {
        is_usable(self.address)
    }
}

/// Returns true if packets can be sent to the address.
pub(super) fn is_usable(address: SocketAddr) -> bool {
    !address.ip().is_unspecified() && !address.ip().is_multicast() && address.port() != 0
}
