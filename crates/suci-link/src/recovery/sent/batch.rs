//! Packets that left together.

use super::{Content, RateSnapshot};
use crate::time::Instant;
use core::ops::{Deref, Range};

/// Packets with consecutive numbers that differ only in the bytes that they carried: consecutive
/// pieces of a message, all of one length. A train of a long message is usually one batch; every
/// other packet is a batch of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentBatch {
    /// Position of the first packet.
    pub(super) first: u64,
    /// Number of packets.
    pub(super) count: u64,
    pub(super) sent: Sent,
    /// Index of the first frame among all frames ever recorded.
    pub(super) first_frame: u64,
    pub(super) frame_count: u32,
    /// Bytes of the piece of a message that was each packet's only content, or 0. One frame
    /// describes the pieces of all packets.
    piece: u32,
}

/// The properties that all packets of a batch share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::recovery) struct Sent {
    pub(in crate::recovery) eliciting: bool,
    pub(in crate::recovery) path_probe: bool,
    pub(in crate::recovery) control: bool,
    /// Bytes of the datagram, at most 65,507.
    pub(in crate::recovery) size: u32,
    pub(in crate::recovery) sent_at: Instant,
    pub(in crate::recovery) rate: RateSnapshot,
}

impl SentBatch {
    /// Returns the batch of packets from position `first` on that carried `frames`, the first of
    /// which has index `first_frame`. If there are several packets, each carried an equal piece of
    /// one part.
    pub(super) fn new<T: Content>(
        first: u64,
        count: u64,
        sent: Sent,
        first_frame: u64,
        frames: &[T],
    ) -> Self {
        let piece = match frames {
            [part] if sent.eliciting => part.divisible() / count.max(1),
            _ => 0,
        };
        Self {
            first,
            count,
            sent,
            first_frame,
            frame_count: u32::try_from(frames.len()).unwrap_or(u32::MAX),
            piece: u32::try_from(piece).unwrap_or(0),
        }
    }

    /// Returns the position behind the last packet.
    pub(super) fn end(&self) -> u64 {
        self.first.saturating_add(self.count)
    }

    /// Adds the packets of `next` if they differ from these only in their pieces. `parts` is the
    /// frame of this batch, `more` that of `next`. Returns true if they were added.
    pub(super) fn join<T: Content>(&mut self, next: &Self, parts: &mut T, more: &T) -> bool {
        let joined = self.piece > 0
            && (self.end(), self.piece) == (next.first, next.piece)
            && self.sent == next.sent
            && parts.adjoin(more);
        if joined {
            self.count = self.count.saturating_add(next.count);
        }
        joined
    }

    /// Returns what the packets in `positions` carried. `frames` are the frames of this batch.
    pub(super) fn carried<'a, T: Content>(
        &self,
        positions: &Range<u64>,
        frames: &'a [T],
    ) -> Carried<'a, T> {
        match frames {
            [parts] if self.count > 1 && self.piece > 0 => {
                let offset = |position: u64| {
                    let before = position.saturating_sub(self.first);
                    before.saturating_mul(self.piece.into())
                };
                let bytes = offset(positions.start)..offset(positions.end);
                Carried::Part([parts.piece(bytes)])
            }
            _ => Carried::Frames(frames),
        }
    }
}

/// The frames that packets carried.
#[derive(Debug)]
pub(in crate::recovery) enum Carried<'a, T> {
    /// The frames of a single packet.
    Frames(&'a [T]),
    /// The part of a message that some packets of a batch carried.
    Part([T; 1]),
}

impl<T> Deref for Carried<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Frames(frames) => frames,
            Self::Part(part) => part,
        }
    }
}
