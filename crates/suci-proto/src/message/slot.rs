//! One message of a channel on its way in, from nothing to what the program takes.

use super::assembly::{Assembly, Description, Way};
use super::buffer_cache::BufferCache;
use super::{charge, len64};
use crate::limits::MESSAGE_CHARGE;
use crate::types::Kind;
use bytes::Bytes;
use std::collections::VecDeque;

/// The memory of a queue of messages, of at most 16 KiB.
pub(super) type SlotCache = BufferCache<VecDeque<Slot>, 256>;

/// A message from the channel's front on. Small: a peer can make us keep one per 64 B of its
/// credit.
#[derive(Debug)]
pub(super) enum Slot {
    /// Nothing came yet.
    Unseen,
    /// Came in one piece: header and payload side by side.
    Whole {
        bytes: Bytes,
        tag: u64,
        kind: Kind,
        header_len: u8,
    },
    /// Comes in pieces, or was announced.
    Pieces(Box<Assembly>),
    /// Complete, after it came in pieces.
    Assembled(Box<Assembly>),
    /// The program did not want it. Charged so much.
    Refused { charge: u64 },
    /// Came completely, and is discarded: its sender cancelled it ([`Kind::VOID`]). Charged so
    /// much.
    Void { charge: u64 },
}

const _: () = assert!(
    size_of::<Slot>() <= 64,
    "no more than what a message is charged"
);

impl Slot {
    /// A message that is complete. Most need nothing beside their bytes any more: what is left is
    /// for the next one.
    pub(super) fn assembled(mut assembly: Box<Assembly>) -> (Self, Option<Box<Assembly>>) {
        match assembly.take_plain() {
            Some((bytes, Description { tag, kind, .. })) => {
                *assembly = Assembly::unasked();
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

    /// Returns what it counts against memory credit.
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
    pub(super) fn has_asked(&self) -> bool {
        match self {
            Self::Unseen | Self::Whole { .. } | Self::Void { .. } => false,
            Self::Pieces(assembly) | Self::Assembled(assembly) => assembly.way != Way::Unasked,
            Self::Refused { .. } => true,
        }
    }

    /// Returns true if the program can take it, once it is first.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self, Self::Whole { .. } | Self::Assembled(_))
    }

    /// Returns true if the program never takes it.
    pub(super) fn is_passed_over(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Void { .. })
    }

    /// Returns true if it holds up nothing behind it.
    pub(super) fn is_settled(&self) -> bool {
        self.is_complete() || self.is_passed_over()
    }
}

impl SlotCache {
    /// Makes `slots` at least `len` long, with memory for one more. Grows by half, not by doubling:
    /// a slot costs what a message is charged.
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
    /// Returns the bytes allocated for it, its own place apart.
    fn heap(&self) -> usize {
        match self {
            Self::Whole { bytes, .. } => bytes.len(),
            Self::Pieces(assembly) | Self::Assembled(assembly) => assembly.heap(),
            Self::Unseen | Self::Refused { .. } | Self::Void { .. } => 0,
        }
    }
}

/// Returns the bytes allocated for a channel's messages.
#[cfg(test)]
pub(super) fn footprint(slots: &VecDeque<Slot>) -> usize {
    slots.capacity() * size_of::<Slot>() + slots.iter().map(Slot::heap).sum::<usize>()
}
