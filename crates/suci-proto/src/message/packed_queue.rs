//! Small messages that came in order, until the program takes them: their frames side by side, as
//! they came.
//!
//! What a packet holds of them is one entry, copied at once and booked at once. Who takes a message
//! reads its frame again, which is less work than an entry for each message, written, kept and
//! taken apart; less still where it is known that more follow of which nothing but the number
//! differs.

use super::buffer_cache::BufferCache;
use super::data::Data;
use super::pool::{Chunk, Pool};
use crate::limits::MESSAGE_CHARGE;
use crate::wire::{FrameBatch, FrameShape};
use bytes::{Buf, Bytes};
use std::collections::VecDeque;

/// What an entry costs in a queue that grows by half.
const ENTRY: u64 = size_of::<Bytes>() as u64 * 3 / 2;

/// The least memory of a queue, in entries.
const FEWEST: usize = 4;

/// The memory of a queue of runs, of at most 8 KiB.
pub(super) type PackedQueueCache = BufferCache<VecDeque<Bytes>, 256>;

/// Messages of one channel, in order and without a gap, that can be taken at once.
#[derive(Debug, Default)]
pub(super) struct PackedQueue {
    /// The frames of a packet each, from the first on that was not taken.
    frames: VecDeque<Bytes>,
    messages: u64,
    /// The shape that the first frames share, as far as they were not taken.
    like: FrameShape,
}

/// A message as it was taken out of a run.
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

    /// Returns true if a run costs no more memory than its messages are charged, apart from what
    /// its chunk has left at the end.
    pub(super) fn is_worth(run: &FrameBatch<'_>) -> bool {
        let heads = super::len64(run.frames().len()).saturating_sub(run.payload());
        heads.saturating_add(ENTRY) <= run.count().saturating_mul(MESSAGE_CHARGE)
    }

    /// Appends the messages of a run, once they were charged.
    pub(super) fn push(
        &mut self,
        run: &FrameBatch<'_>,
        chunk: &mut Chunk,
        pool: &Pool,
        cache: &mut PackedQueueCache,
    ) {
        cache.lend(&mut self.frames);
        if self.frames.len() == self.frames.capacity() {
            self.frames
                .reserve_exact((self.frames.len() / 2).max(FEWEST));
        }
        self.frames.push_back(chunk.copy(pool, &[], run.frames()));
        self.messages = self.messages.saturating_add(run.count());
    }

    /// Takes the first message.
    #[inline]
    pub(super) fn pop(&mut self, cache: &mut PackedQueueCache) -> Option<Taken> {
        let frames = self.frames.front_mut()?;
        if self.like.count == 0 {
            let shape = FrameShape::read(frames, 0);
            debug_assert!(shape.is_some(), "read before it was put here");
            self.like = shape?.0;
        }
        self.like.count = self.like.count.saturating_sub(1);
        let FrameShape { tag, head, len, .. } = self.like;
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
    /// Returns the bytes allocated for it, what it shares with others apart.
    pub(super) fn footprint(&self) -> usize {
        self.frames.capacity() * size_of::<Bytes>()
    }
}
