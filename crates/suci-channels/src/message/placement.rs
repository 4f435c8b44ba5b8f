//! Where the bytes of a message go: into memory that its layer names when the message begins.

use super::ReceiveBuffer;
use super::answer::IncomingInfo;
use super::assembly::Assembly;
use super::sizes::len64;
use core::fmt;
use std::sync::Arc;
use suci_link::types::{ChannelId, MessageNumber, SessionNumber, Source};

/// Names memory for messages that begin.
///
/// A message is asked about once: when the piece with its length and description arrives or, if it
/// is announced, before it is permitted. In both cases all earlier messages of its channel were
/// taken, or go to memory that was named for them. So bytes get ahead of those of an earlier
/// message only if the layer names memory for both. A message that came in one packet is not asked
/// about.
pub trait Placement: Send + Sync {
    /// Decides where the bytes of a message go as they come. Must not block. The message may belong
    /// to a session that began after one whose end the layer has not heard of yet.
    fn place(&self, from: Source, message: &IncomingInfo) -> Place;
}

/// The decision where the bytes of a message go.
#[derive(Debug)]
pub enum Place {
    /// Into this memory, which is at least as long as the message.
    Named(ReceiveBuffer),
    /// Into memory of the engine.
    Own,
    /// An announced message is asked about again after the next message of its channel was taken,
    /// one about one-sided operations after it was handled.
    /// The bytes of others go into memory of the engine.
    Later,
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

/// The placement of messages of one session.
#[derive(Debug, Default)]
pub(super) struct Places {
    from: Option<Source>,
    by: PlacedBy,
}

impl Places {
    pub(super) fn new(from: Source, by: PlacedBy) -> Self {
        let from = Some(from);
        Self { from, by }
    }

    /// Sets the number of the session.
    pub(super) fn set_session(&mut self, session: SessionNumber) {
        self.from = self.from.map(|from| Source { session, ..from });
    }

    /// Returns true if memory may be named for a message.
    pub(super) fn is_some(&self) -> bool {
        self.by.is_some()
    }

    /// Returns the decision about the message in `assembly`.
    #[inline(never)]
    pub(super) fn find(
        &self,
        channel: ChannelId,
        number: MessageNumber,
        assembly: &Assembly,
    ) -> Place {
        let (Some(placement), Some(from), Some((total, description))) =
            (&self.by.0, self.from, assembly.begun())
        else {
            return Place::Own;
        };
        let message = IncomingInfo {
            channel,
            number,
            total,
            tag: description.tag,
            kind: description.kind,
            user_header: description.user_header.clone(),
        };
        let place = placement.place(from, &message);
        if let Place::Named(memory) = &place
            && len64(memory.len()) < total
        {
            debug_assert!(false, "a layer named {} B for {total} B", memory.len());
            return Place::Own;
        }
        place
    }
}
