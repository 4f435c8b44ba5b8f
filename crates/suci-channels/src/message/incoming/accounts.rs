//! The accounts that all channels of a session share.

use crate::message::assembly::{Assembly, Charging};
use crate::message::packed_queue::PackedQueueCache;
use crate::message::placement::Places;
use crate::message::pool::{Chunk, Pool};
use crate::message::slot::{Slot, SlotCache};

/// Session credit on the receiver's side, and the budget of large messages.
#[derive(Debug)]
pub(in crate::message) struct Accounts {
    /// Charges of all messages that began in this session, taken ones included.
    pub(in crate::message) charged: u64,
    /// Charges of the messages that the program took.
    pub(in crate::message) taken: u64,
    pub(in crate::message) session_limit: u64,
    /// Bytes of large messages that were granted into our memory and that the program did not take.
    pub(in crate::message) large: u64,
    /// Messages received completely.
    pub(in crate::message) complete: u64,
    /// Large messages that were permitted and are incomplete.
    pub(in crate::message) unfinished: u64,
    /// The part of `large` that belongs to incomplete messages.
    pub(in crate::message) unfinished_bytes: u64,
    pub(in crate::message) places: Places,
    pub(in crate::message) pool: Pool,
    pub(in crate::message) chunk: Chunk,
    /// An unused assembly, for the next message that arrives in pieces.
    pub(in crate::message) blank: Option<Box<Assembly>>,
    pub(in crate::message) slot_cache: SlotCache,
    pub(in crate::message) packed_queue_cache: PackedQueueCache,
}

/// The credit that a taken message frees.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::message) struct Freed {
    pub(in crate::message) charge: u64,
    pub(in crate::message) large: u64,
}

impl Accounts {
    /// Returns an assembly for a message without any piece.
    pub(super) fn unannounced(&mut self) -> Box<Assembly> {
        let blank = self.blank.take();
        blank.unwrap_or_else(|| Box::new(Assembly::unannounced()))
    }

    /// Completes a message that arrived in pieces, and returns its slot.
    pub(super) fn on_assembled(&mut self, assembly: Box<Assembly>) -> Slot {
        if assembly.charging != Charging::Unannounced {
            self.unfinished = self.unfinished.saturating_sub(1);
            self.unfinished_bytes = self.unfinished_bytes.saturating_sub(assembly.budgeted());
        }
        if assembly.is_in_chunk() {
            self.chunk.on_completed();
        }
        self.complete = self.complete.saturating_add(1);
        let (slot, blank) = Slot::assembled(assembly);
        self.blank = blank.or(self.blank.take());
        slot
    }
}
