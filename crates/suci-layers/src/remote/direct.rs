//! Regions of other nodes whose memory this process reaches itself.

use super::initiator::Destination;
use super::layout::Layout;
use super::memory::{AtomicOp, Memory, Width, gather, scatter};
use super::region::Rights;
use super::target::{integer_end, put_end, write};
use super::wire::Signal;
use super::{Body, LONGEST_REPLY};
use core::fmt;
use std::sync::Arc;

/// Bytes of a copy between two memories that is made at a time.
const PIECE: u64 = 16 << 10;

/// A region of another node whose memory this process reaches itself.
///
/// Operations keep the rules of a [`Target`](super::Target). One that breaks a rule changes
/// nothing, and its call says only that it was not applied: the caller sends it to the target,
/// which refuses it with the reason.
pub struct DirectRegion {
    rights: Rights,
    memory: Arc<dyn Memory>,
}

impl fmt::Debug for DirectRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectRegion")
            .field("rights", &self.rights)
            .finish_non_exhaustive()
    }
}

impl DirectRegion {
    /// Returns a region with this memory, to which its owner gave these rights.
    #[must_use]
    pub fn new(rights: Rights, memory: Arc<dyn Memory>) -> Self {
        Self { rights, memory }
    }

    /// Writes `data` and then the signal, as [`Initiator::put`](super::Initiator::put). Returns
    /// false if it was not applied.
    #[must_use]
    pub fn put(&self, layout: &Layout, data: &[u8], signal: Option<Signal>) -> bool {
        let needed = match signal {
            Some(_) => Rights::WRITE | Rights::ATOMIC,
            None => Rights::WRITE,
        };
        let admitted = layout.total() == data.len() as u64
            && self.rights.contains(needed)
            && put_end(layout, signal).is_ok_and(|end| end <= self.memory.len());
        admitted && write(&*self.memory, layout, signal, Body::Bytes(data)).is_ok()
    }

    /// Copies bytes to `into`, as [`Initiator::get`](super::Initiator::get). Returns false if it
    /// was not applied.
    #[must_use]
    pub fn get(&self, layout: &Layout, into: &mut [u8]) -> bool {
        layout.total() == into.len() as u64
            && self.may_get(layout)
            && gather(&*self.memory, layout, into)
    }

    /// As [`get`](Self::get), into memory that others may use meanwhile.
    #[must_use]
    pub fn get_into(&self, layout: &Layout, into: &Destination) -> bool {
        let total = layout.total();
        let fits = total == into.layout.total() && into.layout.end() <= into.memory.len();
        if !fits || !self.may_get(layout) {
            return false;
        }
        // A piece stays in the processor's cache on its way.
        let longest = if layout.is_contiguous() { PIECE } else { total };
        let mut buffer = vec![0; usize::try_from(longest.min(total)).unwrap_or(0)];
        let mut at = 0;
        while at < total {
            let length = longest.min(total - at);
            let part = layout.part(at, length);
            let part = part.as_ref().unwrap_or(layout);
            let piece = usize::try_from(length).ok();
            let Some(piece) = piece.and_then(|length| buffer.get_mut(..length)) else {
                return false;
            };
            let copied = gather(&*self.memory, part, piece)
                && scatter(&*into.memory, &into.layout, at, piece);
            if !copied {
                return false;
            }
            at += length;
        }
        true
    }

    fn may_get(&self, layout: &Layout) -> bool {
        // A longer one is refused unless it is contiguous.
        let short = layout.total() <= LONGEST_REPLY as u64 || layout.is_contiguous();
        short && self.rights.contains(Rights::READ) && layout.end() <= self.memory.len()
    }

    /// Applies an atomic operation. Returns the integer before; nothing if it was not applied.
    #[must_use]
    pub fn atomic(&self, offset: u64, width: Width, op: AtomicOp) -> Option<u64> {
        let fits = integer_end(offset, width).is_ok_and(|end| end <= self.memory.len());
        let admitted = fits && self.rights.contains(Rights::ATOMIC);
        admitted.then(|| self.memory.atomic(offset, width, op))?
    }
}
