//! One-sided operations: a node reads and changes memory of another node without that node's
//! program.
//!
//! The terms are those of OpenSHMEM, MPI RMA and libfabric. A [`Target`] opens [`Regions`] of its
//! memory with [`Rights`] and a random key. An [`Initiator`] that was told number and key puts,
//! gets, and applies atomic operations. The target checks each request before it touches anything.
//!
//! **Order.** All requests of an initiator to a target are on one channel, whose messages are
//! handled in order. So a request sees the effect of all earlier ones, and operations on the same
//! bytes of a region take effect in order. One case needs care: the bytes of a long put go directly
//! to their places, in the order in which packets arrive, and the same may hold for the put behind
//! it. The target places no put beside an incomplete one that touches the same bytes. Bytes
//! elsewhere may become visible before those of an earlier put, as OpenSHMEM and MPI allow. After a
//! *fence* they must not: a mark on the next put tells the target to place it only when all earlier
//! puts are complete. So a fence costs one bit, no message, and no wait of the initiator; of short
//! messages the order needs no mark at all.
//!
//! **Completion.** Messages arrive exactly once while a session lasts, so a put needs no reply. A
//! *flush* asks for one when everything before is applied; a *quiet* does this at all targets. Both
//! cover the operations of their [`Context`] alone.
//!
//! **Shared memory.** A process that has the memory of a target's region at hand ([`DirectRegion`])
//! applies its operations itself, by the target's rules, while no request to the target is on its
//! way. Other operations, and those that break a rule, go to the target.

mod context;
mod direct;
mod error;
mod initiator;
mod layer;
mod layout;
mod memory;
mod region;
mod target;
mod wire;

pub use context::{Context, TooManyContexts};
pub use direct::DirectRegion;
pub use error::{BeginError, Cause, OperationError, RemoteError, RemoteErrorKind};
pub use initiator::{
    Destination, Initiator, MAX_OPERATIONS, OperationEnd, OperationId, RemoteRegion,
};
pub use layer::{Layer, Outcome, Served, SharedLayer};
pub use layout::{Extent, InvalidLayout, Layout, MAX_ELEMENTS, MAX_EXTENTS};
pub use memory::{AtomicOp, Lent, Memory, Placement, Width};
pub use region::{MAX_REGIONS, RegionId, Regions, Rights, TooManyRegions};
pub use target::Target;
pub use wire::{Access, Action, REPLIES, REQUESTS, Reply, Request, Signal, SignalUpdate};

use suci_proto::types::Kind;

/// Maximum number of bytes of data of one reply. It bounds the memory that a request ties up at the
/// target. An initiator splits a longer contiguous get into several requests.
pub const LONGEST_REPLY: usize = 1 << 20;

/// The description of a message, which is known before its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// Its tag.
    pub tag: u64,
    /// Its kind.
    pub kind: Kind,
    /// Its user header.
    pub user_header: &'a [u8],
    /// The length of its payload.
    pub total: u64,
}

/// The payload of a message that arrived.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// All bytes went to their [`Placement`].
    Placed,
    /// The bytes.
    Bytes(&'a [u8]),
}

/// Where the bytes of a message go.
#[derive(Clone, Debug)]
pub enum PlaceDecision {
    /// They go to lent memory. The handler is called with [`Body::Placed`] in the message's turn.
    Direct(Placement),
    /// They may go to lent memory once all earlier messages of the channel are handled: ask again
    /// then, or treat it as [`Buffer`](Self::Buffer).
    AfterEarlier,
    /// The node keeps them for the handler.
    Buffer,
}
