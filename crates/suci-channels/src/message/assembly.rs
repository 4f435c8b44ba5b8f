//! The reassembly of one message that arrives in pieces.
//!
//! Rules (F03, F07): The first piece that states the length pins it. If bytes arrive twice, the
//! first copy stays. Nothing is allocated before it is charged. The number of gaps is bounded by
//! what honest senders cause. Charges count bytes of the message. The pool's size classes may add a
//! quarter to them, and a buffer of unknown length grows by half.

use super::pool::{Buffer, Chunk, Pool};
use super::sizes::{charge, len64, to_usize};
use super::{Data, ReceiveBuffer};
use bytes::Bytes;
use core::ops::Range;
use suci_link::limits::{MESSAGE_CHARGE, MIN_PIECE};
use suci_link::planted;
use suci_link::ranges::RangeSet;
use suci_link::types::Kind;
use suci_link::wire::{ContiguousPackets, Frag, Start};

/// Bound of separate ranges of one message of any length: several times what a full window of
/// alternating losses leaves, and few enough that a search among them stays cheap (F07).
const MOST_SPANS: u64 = 8_192;

/// Number of gaps that any message may have.
const FREE_SPANS: u64 = 4;

/// The properties of a message other than its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) tag: u64,
    pub(super) kind: Kind,
    pub(super) user_header: Bytes,
}

impl Description {
    fn matches(&self, start: &Start<'_>) -> bool {
        self.tag == start.tag
            && self.kind == start.kind
            && self.user_header.as_ref() == start.user_header
    }
}

/// The reason why a piece cannot be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It contradicts an earlier piece.
    Contradiction,
    /// The message has more gaps than honest senders cause.
    Gaps,
}

/// How the message is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charging {
    /// Charged with its length.
    Unannounced,
    /// Announced by RTS. Data may arrive only once `granted`. If `ours`, the bytes count in the
    /// budget of large messages.
    Announced { granted: bool, ours: bool },
}

/// Returns the bytes that a message of `total` bytes counts in the budget of large messages: at
/// least the memory of its entry. Honest senders send an RTS only for messages that are much
/// longer.
pub(super) fn budgeted(total: u64) -> u64 {
    const LEAST: u64 = 256;
    total.max(LEAST)
}

/// A message that is incomplete, or did not arrive in one piece.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) charging: Charging,
    total: Option<u64>,
    description: Option<Description>,
    /// The highest end of any piece so far.
    reach: u64,
    got: RangeSet,
    buffer: Option<Buffer>,
    /// The bytes go to memory that its owner lent.
    placed: bool,
}

impl Assembly {
    /// Returns the state of a message without any piece.
    pub(super) fn unannounced() -> Self {
        Self {
            charging: Charging::Unannounced,
            total: None,
            description: None,
            reach: 0,
            got: RangeSet::new(),
            buffer: None,
            placed: false,
        }
    }

    /// Returns the state of a message that an RTS announced.
    pub(super) fn announced(total: u64, description: Description) -> Self {
        Self {
            charging: Charging::Announced {
                granted: false,
                ours: false,
            },
            total: Some(total),
            description: Some(description),
            ..Self::unannounced()
        }
    }

    /// Makes `memory`, a buffer of the program at least as long as the message, the destination.
    pub(super) fn supply(&mut self, memory: ReceiveBuffer) {
        let len = self.total.map_or(0, to_usize);
        let mut buffer = Buffer::supplied(memory, len);
        self.placed = buffer.is_lent();
        if let Some(early) = self.buffer.take() {
            self.copy_received(&early, &mut buffer);
        }
        self.buffer = Some(buffer);
    }

    /// Moves what arrived from lent memory to ours, where the rest goes, too.
    pub(super) fn take_back(&mut self, pool: &Pool) {
        if let Some(lent) = self.buffer.take_if(|buffer| buffer.is_lent()) {
            let mut buffer = pool.take(lent.len());
            self.copy_received(&lent, &mut buffer);
            self.buffer = Some(buffer);
            self.placed = false;
        }
    }

    fn copy_received(&self, from: &Buffer, to: &mut Buffer) {
        for Range { start, end } in self.got.iter() {
            to.copy_from(from, to_usize(start)..to_usize(end));
        }
    }

    /// Returns true if the bytes go to memory that its owner lent.
    pub(super) fn is_placed(&self) -> bool {
        self.placed
    }

    /// Returns the length of the message and its description, once the piece that says both
    /// arrived.
    pub(super) fn begun(&self) -> Option<(u64, &Description)> {
        Some((self.total?, self.description.as_ref()?))
    }

    /// Returns the kind of the message, if its first piece arrived.
    pub(super) fn kind(&self) -> Option<Kind> {
        self.description
            .as_ref()
            .map(|description| description.kind)
    }

    fn header_len(&self) -> usize {
        self.description
            .as_ref()
            .map_or(0, |description| description.user_header.len())
    }

    /// Returns the memory credit that the message takes, as far as its length is known.
    pub(super) fn charge(&self) -> u64 {
        match self.charging {
            Charging::Unannounced => charge(self.total.unwrap_or(self.reach), self.header_len()),
            Charging::Announced { .. } => charge(0, self.header_len()),
        }
    }

    /// Returns the bytes that it counts in the budget of large messages.
    pub(super) fn budgeted(&self) -> u64 {
        match self.charging {
            Charging::Announced {
                granted: true,
                ours: true,
            } => budgeted(self.total.unwrap_or(0)),
            _ => 0,
        }
    }

    /// Returns the memory credit that the message would take with this piece. Changes nothing.
    ///
    /// # Errors
    /// [`Fault::Contradiction`] if the piece contradicts earlier pieces. [`Fault::Gaps`] if it is
    /// part of a message that honest senders do not cut, because it is not longer than
    /// [`MIN_PIECE`].
    pub(super) fn charge_with(&self, part: &Frag<'_>) -> Result<u64, Fault> {
        let pinned = !planted("length-not-pinned");
        let total = match (self.total, part.total()) {
            (Some(known), Some(said)) if known != said && pinned => {
                return Err(Fault::Contradiction);
            }
            (known, said) => known.or(said),
        };
        let reach = self.reach.max(part.end_offset());
        if total.is_some_and(|total| reach > total) {
            return Err(Fault::Contradiction);
        }
        if total.unwrap_or(reach) <= len64(MIN_PIECE) && !part.is_whole() {
            // The bookkeeping of such a short message would cost several times its charge.
            return Err(Fault::Gaps);
        }
        let header = match (&self.description, &part.start) {
            (Some(known), Some(said)) if !known.matches(said) => return Err(Fault::Contradiction),
            (Some(known), _) => known.user_header.len(),
            (None, said) => said.as_ref().map_or(0, |start| start.user_header.len()),
        };
        Ok(match self.charging {
            Charging::Unannounced => charge(total.unwrap_or(reach), header),
            Charging::Announced { .. } => MESSAGE_CHARGE.saturating_add(len64(header)),
        })
    }

    /// Notes what a piece says about the message that [`charge_with`](Self::charge_with) accepted,
    /// after it was charged. Returns true if the length and the description are known from now on.
    pub(super) fn note(&mut self, part: &Frag<'_>) -> bool {
        let begun = self.begun().is_some();
        self.total = self.total.or(part.total());
        self.reach = self.reach.max(part.end_offset());
        if self.description.is_none()
            && let Some(Start {
                tag,
                kind,
                user_header,
                ..
            }) = part.start
        {
            let user_header = match user_header {
                [] => Bytes::new(),
                header => Bytes::copy_from_slice(header),
            };
            self.description = Some(Description {
                tag,
                kind,
                user_header,
            });
        }
        !begun && self.begun().is_some()
    }

    /// Adds the bytes of a piece that was [noted](Self::note). `chunk` is given if the program can
    /// take the message as soon as it is complete.
    ///
    /// # Errors
    /// [`Fault::Gaps`].
    pub(super) fn add(
        &mut self,
        part: &Frag<'_>,
        pool: &Pool,
        chunk: Option<&mut Chunk>,
    ) -> Result<(), Fault> {
        if part.data.is_empty() {
            return Ok(());
        }
        self.reserve(pool, chunk);
        let range = part.offset..part.end_offset();
        if !self.got.intersects(range.clone()) || planted("overlap-overwrites") {
            self.write(part, range.clone());
        } else {
            // Some of it arrived before: write only the missing ranges.
            let mut missing = RangeSet::from_iter([range.clone()]);
            for known in self.got.overlapping(range.clone()) {
                missing.remove(known);
            }
            for range in missing.iter() {
                self.write(part, range);
            }
        }
        self.got.insert(range);
        let spans = len64(self.got.span_count());
        let most = FREE_SPANS.saturating_add(self.reach / len64(MIN_PIECE));
        if spans > most.min(MOST_SPANS) && !planted("gaps-unlimited") {
            return Err(Fault::Gaps);
        }
        Ok(())
    }

    /// Adds the last piece of a message if `part` is it and all earlier bytes arrived. No charge
    /// and no search are needed then. Returns true if it was added.
    pub(super) fn add_end(&mut self, part: &Frag<'_>) -> bool {
        let is_end = part.start.is_none()
            && part.end
            && self.total == Some(part.end_offset())
            && self.charging == Charging::Unannounced
            && self.description.is_some()
            && self.reach == part.offset
            // No byte beyond the offset arrived, so this length covers all bytes before it.
            && self.got.len() == part.offset;
        let written = is_end
            && self.buffer.as_mut().is_some_and(|buffer| {
                let fits = len64(buffer.len()) == part.end_offset();
                fits && buffer.write(to_usize(part.offset), part.data)
            });
        if written {
            self.reach = part.end_offset();
            self.got.insert(part.offset..part.end_offset());
            debug_assert!(self.is_complete(), "it was its end");
        }
        written
    }

    /// Adds the pieces of `packets`, which continue a piece that was [added](Self::add). Stops
    /// before bytes that arrived earlier, and before the end of the message: the piece that may
    /// complete it is for `add`.
    pub(super) fn add_contiguous(&mut self, packets: &mut ContiguousPackets<'_>) {
        let start = packets.end();
        let (Some(total), Some(buffer)) = (self.total, &mut self.buffer) else {
            return;
        };
        let bound = self.got.next_start(start).map_or(total, |at| at.min(total));
        let mut at = start;
        while let Some(piece) = packets.next_piece(bound.saturating_sub(at).saturating_sub(1)) {
            let written = buffer.write(to_usize(at), piece);
            debug_assert!(written, "reserved up to the message's end");
            at = packets.end();
        }
        self.reach = self.reach.max(at);
        self.got.insert(start..at);
        debug_assert!(
            at == start || self.got.contains(start.saturating_sub(1)),
            "it adjoins the piece before"
        );
    }

    /// Makes the buffer long enough for the whole message if its length is known, else for the
    /// bytes seen so far.
    fn reserve(&mut self, pool: &Pool, chunk: Option<&mut Chunk>) {
        let len = to_usize(self.total.unwrap_or(self.reach));
        if self.buffer.is_none() && self.total.is_some() {
            self.buffer = chunk.and_then(|chunk| chunk.reserve(pool, len));
        }
        if self
            .buffer
            .as_mut()
            .is_some_and(|buffer| buffer.resize(len))
        {
            return;
        }
        let old = self.buffer.take();
        // Every growth copies the buffer, so grow by at least half.
        let grown = match (self.total, &old) {
            (None, Some(old)) => len.max(old.len().saturating_add(old.len() / 2)),
            _ => len,
        };
        let mut buffer = pool.take(grown);
        if let Some(old) = old {
            let copied = buffer.write(0, old.front(len));
            debug_assert!(copied, "the new buffer is longer");
        }
        let cut = buffer.resize(len);
        debug_assert!(cut, "it has at least this length");
        self.buffer = Some(buffer);
    }

    /// Returns true if its bytes are in a chunk.
    pub(super) fn is_in_chunk(&self) -> bool {
        self.buffer.as_ref().is_some_and(Buffer::is_in_chunk)
    }

    /// Copies bytes `range` of the message from `part`.
    fn write(&mut self, part: &Frag<'_>, range: Range<u64>) {
        let from = to_usize(range.start.saturating_sub(part.offset));
        let to = to_usize(range.end.saturating_sub(part.offset));
        let bytes = part.data.get(from..to).unwrap_or_default();
        let buffer = self.buffer.as_mut();
        let written = buffer.is_some_and(|buffer| buffer.write(to_usize(range.start), bytes));
        debug_assert!(written, "reserved before");
    }

    /// Returns true if all bytes and the description arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.description.is_some() && self.total.is_some_and(|total| self.got.covers(0..total))
    }

    /// Returns the bytes and description of a complete message that neither was announced nor has a
    /// header. The rest of the assembly can then be reused.
    pub(super) fn take_plain(&mut self) -> Option<(Bytes, Description)> {
        let plain =
            self.charging == Charging::Unannounced && self.header_len() == 0 && !self.placed;
        let description = self.description.take_if(|_| plain)?;
        let payload = self.buffer.take().map_or_else(Bytes::new, Buffer::freeze);
        Some((payload, description))
    }

    /// Returns the message, if it is complete.
    pub(super) fn finish(self) -> Option<(Description, Data)> {
        if !self.is_complete() {
            return None;
        }
        let payload = match self.placed {
            true => Data::in_lent_memory(self.total.unwrap_or(0)),
            // If the program supplied a buffer, the payload is that buffer.
            false => Data::shared(self.buffer.map_or_else(Bytes::new, Buffer::freeze)),
        };
        self.description.map(|description| (description, payload))
    }
}

#[cfg(test)]
impl Assembly {
    /// Returns the bytes of heap that it uses.
    pub(super) fn heap(&self) -> usize {
        let buffer = self.buffer.as_ref().map_or(0, Buffer::heap);
        size_of::<Self>() + self.got.heap() + buffer + self.header_len()
    }
}
