//! Membership: which nodes are in the cluster, as members tell each other.
//!
//! Each member has a table of records, one for each node. It is replicated by the epidemic
//! algorithms of Demers and others (PODC 1987): a record that is new goes to the neighbours at once
//! ("rumor mongering"), and each member compares its table with that of a random neighbour every
//! few seconds by a digest ("anti-entropy"), after which both send what the other lacks. A record
//! has a version. The greater one counts, so all come to the same table in whatever order they
//! hear. Records of members that are gone ("death certificates") are kept for a time.
//!
//! Suspicion and refutation are those of SWIM (Das, Gupta, Motivala, DSN 2002), but no probes are:
//! each member watches its neighbours by its engine, which knows of silence, closed ports and ended
//! processes anyway. A member that hears that others suspect it says so with a higher version.
//!
//! Neighbours follow from the table: the next two on a ring of hashed node IDs, and fingers as in
//! Chord. A member among 1,000 so has sessions with about 14 others. HyParView and Plumtree (Leitão
//! and others, 2007) choose neighbours at random and repair them by a protocol of their own; here
//! all know the whole table, so that no such protocol is needed.
//!
//! [`Membership`] is one member's part. [`SharedMembership`] drives it by an engine.

mod layer;
mod outbox;
mod protocol;
mod random;
mod record;
mod table;
mod wire;

pub use layer::{MembershipTurn, SharedMembership};
pub use protocol::{Change, Contact, JoinState, Membership, MembershipCounters};
pub use record::{Record, Status};
pub use table::{BUCKETS, position};
pub use wire::{MAX_CLUSTER_NAME, MAX_MESSAGE, MembershipBody, MembershipMessage, cluster_number};

use core::time::Duration;

/// Settings of a member. Those of all members of a cluster should be equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the cluster: members of clusters with different names do not mix. At most
    /// [`MAX_CLUSTER_NAME`] bytes.
    pub cluster: String,
    /// Least time between two messages to one node.
    pub interval: Duration,
    /// Time between two looks at the neighbours' links while nothing happens.
    pub check_interval: Duration,
    /// Time between two comparisons with a neighbour.
    pub sync_interval: Duration,
    /// Time between two attempts to reach a node that failed, or a seed that is no member.
    pub retry_interval: Duration,
    /// Time in which a member must refute that it is dead. It begins when a neighbour does not hear
    /// it, which takes the engine's silence timeout.
    pub suspicion: Duration,
    /// Time after which a node that failed or left is forgotten. A network that was divided for
    /// longer comes together again only by its seeds.
    pub forget_after: Duration,
    /// Maximum number of nodes in the table, gone ones included. Each takes about 200 B.
    pub max_members: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster: String::new(),
            interval: Duration::from_millis(200),
            check_interval: Duration::from_secs(1),
            sync_interval: Duration::from_secs(5),
            retry_interval: Duration::from_secs(10),
            suspicion: Duration::from_secs(5),
            forget_after: Duration::from_secs(3600),
            max_members: 16_384,
        }
    }
}
