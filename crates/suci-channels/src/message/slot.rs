//! One message of a channel, from its first byte until the program takes it.

use super::assembly::{Assembly, Charging, Description};
use super::buffer_cache::BufferCache;
use super::sizes::{charge, len64};
use bytes::Bytes;
use std::collections::VecDeque;
use suci_link::limits::MESSAGE_CHARGE;
use suci_link::types::Kind;

/// A cache for the buffer of a queue of slots, of at most 16 KiB.
pub(super) type SlotCache = BufferCache<VecDeque<Slot>, 256>;

/// A message that is not packed. The type is small, since a peer can make us keep one for each 64 B
/// of its credit.
#[derive(Debug)]
pub(super) enum Slot {
    /// No part arrived.
    Unseen,
    /// Arrived in one piece: header and payload side by side.
    Whole {
        bytes: Bytes,
        tag: u64,
        kind: Kind,
        header_len: u8,
    },
    /// Arrives in pieces, or was announced by RTS.
    Pieces(Box<Assembly>),
    /// Complete after it arrived in pieces.
    Assembled(Box<Assembly>),
    /// The program refused it. The charge stays until the message is skipped.
    Refused { charge: u64 },
    /// Arrived completely and is discarded, since its sender cancelled it ([`Kind::VOID`]). The
    /// charge stays until the message is skipped.
    Void { charge: u64 },
}

const _: () = assert!(
    size_of::<Slot>() <= 64,
    "no more than what a message is charged"
);

impl Slot {
    /// Returns the slot of a complete message. Most need only their bytes; the assembly is returned
    /// for reuse by the next message.
    pub(super) fn assembled(mut assembly: Box<Assembly>) -> (Self, Option<Box<Assembly>>) {
        match assembly.take_plain() {
            Some((bytes, Description { tag, kind, .. })) => {
                *assembly = Assembly::unannounced();
                let whole = Self::Whole {
                    bytes,
                    tag,
                    kind,
                    header_len: 0,
                };
                (whole, Some(assembly))
            }
            None => (Self::Assembled(assembly), None),
        }
    }

    /// Returns the memory credit that it takes.
    pub(super) fn charge(&self) -> u64 {
        match self {
            Self::Unseen => MESSAGE_CHARGE,
            Self::Whole { bytes, .. } => charge(len64(bytes.len()), 0),
            Self::Pieces(assembly) | Self::Assembled(assembly) => assembly.charge(),
            Self::Refused { charge } | Self::Void { charge } => *charge,
        }
    }

    /// Returns the kind of a message that is complete.
    pub(super) fn kind(&self) -> Option<Kind> {
        match self {
            Self::Whole { kind, .. } => Some(*kind),
            Self::Assembled(assembly) => assembly.kind(),
            _ => None,
        }
    }

    /// Returns true if the message was announced by RTS.
    pub(super) fn was_announced(&self) -> bool {
        match self {
            Self::Unseen | Self::Whole { .. } | Self::Void { .. } => false,
            Self::Pieces(assembly) | Self::Assembled(assembly) => {
                assembly.charging != Charging::Unannounced
            }
            Self::Refused { .. } => true,
        }
    }

    /// Returns true if the program can take it, once it is first.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self, Self::Whole { .. } | Self::Assembled(_))
    }

    /// Returns true if the program never takes it.
    pub(super) fn is_skipped(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Void { .. })
    }

    /// Returns true if its bytes go, or went, to memory that its owner lent.
    pub(super) fn is_placed(&self) -> bool {
        match self {
            Self::Pieces(assembly) | Self::Assembled(assembly) => assembly.is_placed(),
            _ => false,
        }
    }

    /// Returns true if it delays no message behind it.
    pub(super) fn is_settled(&self) -> bool {
        self.is_complete() || self.is_skipped()
    }
}

impl SlotCache {
    /// Makes `slots` at least `len` long, with capacity for one more. The capacity grows by half
    /// instead of doubling, because a slot costs as much memory as a message is charged.
    #[inline]
    pub(super) fn lengthen(&mut self, slots: &mut VecDeque<Slot>, len: usize) {
        if len > slots.len() || len >= slots.capacity() {
            self.fill(slots, len);
        }
    }

    #[inline(never)]
    fn fill(&mut self, slots: &mut VecDeque<Slot>, len: usize) {
        self.lend(slots);
        let more = len.saturating_sub(slots.len());
        if len >= slots.capacity() {
            slots.reserve_exact(more.saturating_add(1).max(slots.len() / 2));
        }
        slots.extend(core::iter::repeat_with(|| Slot::Unseen).take(more));
    }
}

#[cfg(test)]
impl Slot {
    /// Returns the bytes of heap that it uses.
    fn heap(&self) -> usize {
        match self {
            Self::Whole { bytes, .. } => bytes.len(),
            Self::Pieces(assembly) | Self::Assembled(assembly) => assembly.heap(),
            Self::Unseen | Self::Refused { .. } | Self::Void { .. } => 0,
        }
    }
}

/// Returns the bytes of heap that a channel's messages use.
#[cfg(test)]
pub(super) fn footprint(slots: &VecDeque<Slot>) -> usize {
    slots.capacity() * size_of::<Slot>() + slots.iter().map(Slot::heap).sum::<usize>()
}
