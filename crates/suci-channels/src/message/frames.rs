//! The encoded frames of a channel's small messages, side by side as they will stand in packets.
//!
//! A small message is encoded as a frame when it is accepted. This is its only copy before it is in
//! a packet: the program may use its buffer again at once, and nothing is allocated. Packets are
//! filled by copying frames, also when messages are sent again. A queue that referred to payloads,
//! and encoded a head for each packet, took ten times as long for a message of 32 bytes.

mod open_block;

pub use open_block::ChannelLease;
pub(super) use open_block::OpenBlock;

use super::SMALL;
use super::SmallOutgoing;
use super::buffer_cache::BufferCache;
use super::sizes::{len64, to_usize};
use open_block::BLOCK;
use std::collections::VecDeque;
use suci_link::limits::MAX_USER_HEADER;
use suci_link::types::MessageNumber;
use suci_link::wire::{self, Frame, Start};

/// Memory for frames that a channel without messages keeps, in bytes.
const OWN: usize = 1_024;

/// Bytes of the first memory that a channel gets. Doubling it leads to exactly `OWN` and `BLOCK`.
const FIRST: usize = 512;

/// Bytes of the longest head of a frame without its user header: type, five varints, and a byte
/// each for kind and length.
const HEAD: usize = 64;

const _: () = assert!(
    HEAD + MAX_USER_HEADER + SMALL < BLOCK,
    "a block has room for any frame"
);

/// The memory of a channel's frames.
pub(super) type FrameBufferCache = BufferCache<Vec<u8>, BLOCK>;

/// Sizes that frames side by side have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EncodedShape {
    /// Bytes of the frame.
    pub(super) len: u16,
    /// Bytes of its payload.
    pub(super) payload: u16,
    /// Bytes of its user header.
    pub(super) header: u8,
}

/// The frames of a channel's small messages, from the oldest one on that is not acknowledged. They
/// stand one behind the other in blocks. A block takes frames until it is full.
#[derive(Debug, Default)]
pub(super) struct FrameQueue {
    /// Full blocks, the oldest first.
    full: VecDeque<Vec<u8>>,
    /// The block behind them, and the position where it begins: a multiple of [`BLOCK`], counted
    /// since the channel was opened.
    last: OpenBlock,
    first: u64,
    /// Empty blocks, kept while other blocks have frames.
    free: Vec<Vec<u8>>,
    /// Bytes of frames of messages that were cancelled since the last [compaction](Self::compact).
    dead: u64,
}

impl FrameQueue {
    /// Takes memory that another queue gave back, if this one has none.
    #[inline]
    pub(super) fn borrow(&mut self, cache: &mut FrameBufferCache) {
        cache.lend(self.last.block());
    }

    /// Gives its memory back if it is empty, and larger than a channel keeps.
    #[inline]
    pub(super) fn give_back(&mut self, cache: &mut FrameBufferCache) {
        if self.last.len() == 0 && self.full.is_empty() {
            cache.collect(self.last.block(), OWN);
            if self.free.capacity() > 0 {
                (self.full, self.free) = Default::default();
            }
        }
    }

    /// Writes the frame of message `number`. Returns where it begins. If the message is like the
    /// one before and `extensible`, others may [`follow`](Self::follow) it.
    pub(super) fn push(
        &mut self,
        number: MessageNumber,
        message: &SmallOutgoing<'_>,
        extensible: bool,
    ) -> (u64, EncodedShape) {
        let (payload, header) = (message.payload.len(), message.user_header.len());
        self.make_room(HEAD.saturating_add(header).saturating_add(payload));
        let (before, at) = (self.last.len(), self.end());
        self.last.write(number, message, extensible);
        let shape = EncodedShape {
            len: self.last.len().saturating_sub(before) as u16,
            payload: payload as u16,
            header: header as u8,
        };
        (at, shape)
    }

    /// Counts bytes of frames whose messages were cancelled. No frame may [`follow`](Self::follow)
    /// them.
    pub(super) fn cancel(&mut self, bytes: u64) {
        self.dead = self.dead.saturating_add(bytes);
        self.last.end_sequence();
    }

    /// Returns true if frames of cancelled messages take half of the memory, and more than a block.
    fn is_sparse(&self) -> bool {
        let full = len64(self.full.len()).saturating_mul(len64(BLOCK));
        let all = self.end().saturating_sub(self.first.saturating_sub(full));
        self.dead > len64(BLOCK) && self.dead >= all / 2
    }

    /// Gives back the memory of cancelled frames once the queue is sparse. Moves all other frames,
    /// whose positions and sizes are `kept`. About one byte at most is copied for each byte that
    /// was cancelled.
    pub(super) fn compact<'a>(&mut self, kept: impl Iterator<Item = (&'a mut u64, u64)>) {
        if !self.is_sparse() {
            return;
        }
        let old = core::mem::take(self);
        for (at, bytes) in kept {
            let frames = old.get(*at, at.saturating_add(bytes));
            self.make_room(frames.len());
            *at = self.end();
            self.last.append(frames);
        }
    }

    /// Returns where the next frame will stand, if the last block has room for it.
    fn end(&self) -> u64 {
        self.first.saturating_add(len64(self.last.len()))
    }

    /// Makes the last block one that has room for `more` bytes.
    fn make_room(&mut self, more: usize) {
        let block = self.last.block();
        let (len, capacity) = (block.len(), block.capacity());
        let needed = len.saturating_add(more);
        if needed >= BLOCK {
            let next = self.free.pop();
            let next = next.unwrap_or_else(|| Vec::with_capacity(BLOCK));
            self.full.push_back(self.last.replace(next));
            self.first = self.first.saturating_add(len64(BLOCK));
        } else if needed > capacity {
            let larger = capacity.saturating_mul(2).max(FIRST).max(needed).min(BLOCK);
            block.reserve_exact(larger.saturating_sub(len));
        }
    }

    /// Writes the frame of a message that is like the one before. Returns false and does nothing if
    /// it is not, or the block has no room.
    #[inline(always)]
    pub(super) fn follow(&mut self, number: MessageNumber, message: &SmallOutgoing<'_>) -> bool {
        self.last.follow(number, message)
    }

    /// Lends the last block, if frames may [`follow`](Self::follow) there. No other method may be
    /// called until it is put back.
    pub(super) fn lend(&mut self) -> Option<OpenBlock> {
        self.last
            .is_extensible()
            .then(|| core::mem::take(&mut self.last))
    }

    /// Takes the lent block back.
    pub(super) fn put_back(&mut self, block: OpenBlock) {
        self.last = block;
    }

    /// Appends the frames from `start` to `end`, which stand side by side, to `out`.
    #[inline(never)]
    pub(super) fn copy(&self, start: u64, end: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.get(start, end));
    }

    #[inline]
    fn get(&self, start: u64, end: u64) -> &[u8] {
        let bytes = if start >= self.first {
            let range = to_usize(start - self.first)..to_usize(end.saturating_sub(self.first));
            self.last.get(range)
        } else {
            self.get_full(start, end)
        };
        debug_assert!(bytes.is_some(), "frames are kept until acknowledged");
        bytes.unwrap_or_default()
    }

    fn get_full(&self, start: u64, end: u64) -> Option<&[u8]> {
        let first = start - start % len64(BLOCK);
        let index = self.full.len().checked_sub(self.blocks_from(first))?;
        let range = to_usize(start - first)..to_usize(end.saturating_sub(first));
        self.full.get(index)?.get(range)
    }

    /// Returns how many full blocks there are from the one that holds `position` on.
    fn blocks_from(&self, position: u64) -> usize {
        let block = len64(BLOCK);
        to_usize((self.first / block).saturating_sub(position / block))
    }

    /// Removes all frames.
    pub(super) fn clear(&mut self) {
        self.release(self.end());
    }

    /// Removes the frames before `end`, where a frame ends.
    pub(super) fn release(&mut self, end: u64) {
        if !self.full.is_empty() {
            let gone = self.full.len().saturating_sub(self.blocks_from(end));
            self.free.extend(self.full.drain(..gone).map(|mut block| {
                block.clear();
                block
            }));
        }
        if end == self.end() {
            // No position is used twice.
            self.last.clear();
            self.dead = 0;
            self.first = self.first.saturating_add(len64(BLOCK));
        }
    }

    /// Returns the description in the frame from `start` to `end`.
    pub(super) fn description(&self, start: u64, end: u64) -> Option<Start<'_>> {
        match wire::frames(self.get(start, end)).next() {
            Some(Ok(Frame::Frag(frag))) => frag.start,
            _ => None,
        }
    }
}

#[cfg(test)]
impl FrameQueue {
    pub(super) fn held(&self) -> usize {
        self.full.iter().map(Vec::len).sum::<usize>() + self.last.len()
    }

    pub(super) fn footprint(&self) -> usize {
        let blocks = self.full.iter().chain(&self.free);
        let lists = (self.full.capacity() + self.free.capacity()) * size_of::<Vec<u8>>();
        blocks.map(Vec::capacity).sum::<usize>() + self.last.capacity() + lists
    }
}

#[cfg(test)]
mod tests;
