//! Matching: a program posts receives, each with a pattern, and every message goes to the oldest
//! receive that admits it, as in MPI and in libfabric's tagged interface.
//!
//! **Order.** Messages of one node on one channel are matched in the order in which they were sent.
//! A message goes to the oldest receive that admits it, and a receive takes the oldest message that
//! it admits, whether its pattern is exact or leaves node and tag open. [`Matching`] has both
//! queues; its index finds an entry of either without walking the queue.
//!
//! **Memory.** A message longer than a packet is matched when it begins. If a receive admits it,
//! its bytes go straight to the buffer of that receive. Others are kept until they are received:
//! at most [`MEMORY`] bytes of them. A node with its share of that is [held](Matching::takes): its
//! next messages stay in the engine, where memory credit holds their sender back. An announced
//! message for which there is no memory stays with its sender until a receive admits it.
//!
//! **Truncation.** Of a message that is longer than the buffer, the rest is discarded, and
//! [`Matched::total`] tells the whole length.

mod completion;
mod index;
mod memory;
mod room;
mod service;
mod table;

#[cfg(test)]
mod tests;

pub use completion::{Completion, Matched, Unmatched};
pub use memory::{Buffer, BufferError};
pub use service::{MatchingService, MatchingTable};
pub use table::{Matching, NoSuchMessage, Peeked};

use suci_proto::types::{ChannelId, NodeId};

/// The bytes of messages that no receive has taken, for all nodes together, beside one message of
/// each node.
pub const MEMORY: u64 = 128 << 20;

/// Each message that no receive has taken counts this beside its payload and its header.
pub const MESSAGE_CHARGE: u64 = 256;

/// The highest number of a channel of messages that receives match: receives on one channel match
/// no message on another.
pub const LAST_CHANNEL: u32 = (1 << 24) - 1;

/// A receive of this node: unique as long as the node lives. Later ones have higher numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiveId(pub u64);

/// A message that no receive has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// The messages that a receive admits: those on one channel, of one node or any, whose tag has the
/// same bits as the pattern's, except the bits that do not count.
///
/// ```
/// # use suci_layers::matching::Pattern;
/// # use suci_proto::types::NodeId;
/// let exact = Pattern::tag(9).from(NodeId(3));
/// let any_low_byte = Pattern::tag(0x500).ignoring(0xff);
/// let any = Pattern::any().on(1);
/// # assert!(exact != any_low_byte && any != exact);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub(crate) channel: ChannelId,
    pub(crate) from: Option<NodeId>,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
}

impl Pattern {
    /// Admits messages of any node on channel 0 with this tag.
    #[must_use]
    pub const fn tag(tag: u64) -> Self {
        Self {
            channel: ChannelId::of_matching(0),
            from: None,
            tag,
            ignore: 0,
        }
    }

    /// Admits all messages on channel 0.
    #[must_use]
    pub const fn any() -> Self {
        Self::tag(0).ignoring(u64::MAX)
    }

    /// Admits messages of this node only.
    #[must_use]
    pub const fn from(mut self, node: NodeId) -> Self {
        self.from = Some(node);
        self
    }

    /// Bits of the tag that are 1 here do not count.
    #[must_use]
    pub const fn ignoring(mut self, bits: u64) -> Self {
        self.ignore = bits;
        self
    }

    /// Admits messages on the channel with this number, of which the lower 24 bits count.
    #[must_use]
    pub const fn on(mut self, channel: u32) -> Self {
        self.channel = ChannelId::of_matching(channel);
        self
    }

    /// The node whose messages it admits; all if there is none.
    #[must_use]
    pub const fn node(&self) -> Option<NodeId> {
        self.from
    }
}

/// The parts of a message by which it is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) channel: ChannelId,
    pub(crate) node: NodeId,
    pub(crate) tag: u64,
}
