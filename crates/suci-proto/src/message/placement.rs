//! Where the bytes of a message go: into memory that its layer names when the message begins.

use super::answer::IncomingInfo;
use super::assembly::Assembly;
use super::{ReceiveBuffer, len64};
use crate::types::{ChannelId, MessageNumber, NodeId};
use core::fmt;
use std::sync::Arc;

/// Names memory for messages that begin.
///
/// A message is asked about once: when the piece with its length and description arrives or, if it
/// is announced, before it is permitted; in both cases once all earlier messages of its channel
/// were taken, or go to memory that was named for them. So bytes get ahead of those of an earlier
/// message only if the layer names memory for both. A message that fits into one packet is never
/// asked about.
pub trait Placement: Send + Sync {
    /// Returns memory, at least as long as the message, into which its bytes go as they come;
    /// `None` for memory of the engine. Must not block.
    fn place(&self, from: NodeId, message: &IncomingInfo) -> Option<ReceiveBuffer>;
}

/// The [`Placement`] of a node, if it has one.
#[derive(Clone, Default)]
pub struct PlacedBy(Option<Arc<dyn Placement>>);

impl PlacedBy {
    /// Memory is named by `placement`.
    #[must_use]
    pub fn new(placement: Arc<dyn Placement>) -> Self {
        Self(Some(placement))
    }

    /// Returns true if there is a placement.
    #[must_use]
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for PlacedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_some() { "Placement" } else { "none" })
    }
}

/// The placement of messages from one peer.
#[derive(Debug, Default)]
pub(super) struct Places {
    from: Option<NodeId>,
    by: PlacedBy,
}

impl Places {
    pub(super) fn new(from: NodeId, by: PlacedBy) -> Self {
        let from = Some(from);
        Self { from, by }
    }

    /// Returns true if memory may be named for a message.
    pub(super) fn is_some(&self) -> bool {
        self.by.is_some()
    }

    /// Returns memory for the message in `assembly`, if its layer names some.
    #[inline(never)]
    pub(super) fn find(
        &self,
        channel: ChannelId,
        number: MessageNumber,
        assembly: &Assembly,
    ) -> Option<ReceiveBuffer> {
        let placement = self.by.0.as_ref()?;
        let (total, description) = assembly.begun()?;
        let message = IncomingInfo {
            channel,
            number,
            total,
            tag: description.tag,
            kind: description.kind,
            user_header: description.user_header.clone(),
        };
        let memory = placement.place(self.from?, &message)?;
        let fits = len64(memory.len()) >= total;
        debug_assert!(fits, "a layer named {} B for {total} B", memory.len());
        fits.then_some(memory)
    }
}
