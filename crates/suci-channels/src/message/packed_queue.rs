//! A queue of small messages that arrived in order, stored as the frames of their packets.
//!
//! The messages of one packet are one entry, copied and charged at once. Taking a message parses
//! its frame again. That costs less than an entry for each message. It costs even less if the
//! following frames differ in the number only.

use super::buffer_cache::BufferCache;
use super::data::Data;
use super::pool::{Chunk, Pool};
use super::sizes::len64;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use suci_link::limits::MESSAGE_CHARGE;
use suci_link::wire::{FrameBatch, FrameShape};

/// Memory of an entry in a queue that grows by half.
const ENTRY: u64 = size_of::<Bytes>() as u64 * 3 / 2;

/// Smallest capacity of a queue, in entries.
const FEWEST: usize = 4;

/// A cache for the buffer of a packed queue, of at most 8 KiB.
pub(super) type PackedQueueCache = BufferCache<VecDeque<Bytes>, 256>;

/// Messages of one channel, in order and without a gap, that can be taken at once.
#[derive(Debug, Default)]
pub(super) struct PackedQueue {
    /// Each entry holds the frames of one packet that were not taken.
    frames: VecDeque<Bytes>,
    messages: u64,
    /// The shape of the next frames, and how many have it; zero if it was not read yet.
    shape: FrameShape,
}

/// A message taken from the queue.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) tag: u64,
    pub(super) payload: Data,
}

impl PackedQueue {
    /// Returns how many messages there are.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.messages
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Returns true if a batch costs no more memory than its messages are charged, not counting
    /// unused space at the end of a chunk.
    pub(super) fn is_worth(batch: &FrameBatch<'_>) -> bool {
        let heads = len64(batch.frames().len()).saturating_sub(batch.payload());
        heads.saturating_add(ENTRY) <= batch.count().saturating_mul(MESSAGE_CHARGE)
    }

    /// Appends the messages of a batch, after they were charged.
    pub(super) fn push(
        &mut self,
        batch: &FrameBatch<'_>,
        chunk: &mut Chunk,
        pool: &Pool,
        cache: &mut PackedQueueCache,
    ) {
        cache.lend(&mut self.frames);
        if self.frames.len() == self.frames.capacity() {
            self.frames
                .reserve_exact((self.frames.len() / 2).max(FEWEST));
        }
        self.frames.push_back(chunk.copy(pool, &[], batch.frames()));
        self.messages = self.messages.saturating_add(batch.count());
    }

    /// Takes the first message from the queue.
    #[inline]
    pub(super) fn pop(&mut self, cache: &mut PackedQueueCache) -> Option<Taken> {
        let frames = self.frames.front_mut()?;
        if self.shape.count == 0 {
            let shape = FrameShape::read(frames, 0);
            debug_assert!(shape.is_some(), "read before it was put here");
            self.shape = shape?.0;
        }
        self.shape.count = self.shape.count.saturating_sub(1);
        let FrameShape { tag, head, len, .. } = self.shape;
        frames.advance(head);
        let is_last = len >= frames.len();
        let payload = if let Some(few) = Data::copy_front(frames, len) {
            frames.advance(len);
            few
        } else if is_last {
            Data::shared(core::mem::take(frames))
        } else {
            Data::shared(frames.split_to(len))
        };
        if is_last {
            self.frames.pop_front();
            cache.collect(&mut self.frames, 0);
        }
        self.messages = self.messages.saturating_sub(1);
        Some(Taken { tag, payload })
    }
}

#[cfg(test)]
impl PackedQueue {
    /// Returns the bytes of heap that it uses, without chunks.
    pub(super) fn footprint(&self) -> usize {
        self.frames.capacity() * size_of::<Bytes>()
    }
}
