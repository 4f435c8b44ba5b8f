//! Packets that left together.

use super::{RateMark, SentFrame};
use crate::time::Instant;
use core::ops::{Deref, Range};

/// Packets with consecutive numbers that differ in nothing but the bytes they carried: pieces of
/// one length that follow one another in a message. Mostly a train of a long message; all others
/// fly alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentBatch {
    /// Position of the first.
    pub(super) first: u64,
    /// How many.
    pub(super) count: u64,
    pub(super) sent: Sent,
    /// Index of the first frame among all frames ever recorded.
    pub(super) first_frame: u64,
    pub(super) frame_count: u32,
    /// Bytes of the part of a message that is all each packet carried, or 0. The parts of all are
    /// one frame.
    piece: u32,
}

/// What is the same for all packets of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::recovery) struct Sent {
    pub(in crate::recovery) eliciting: bool,
    pub(in crate::recovery) path_probe: bool,
    pub(in crate::recovery) control: bool,
    /// Bytes of the datagram, at most 65,507.
    pub(in crate::recovery) size: u32,
    pub(in crate::recovery) sent_at: Instant,
    pub(in crate::recovery) rate: RateMark,
}

impl SentBatch {
    /// Packets from position `first` on that carried `frames`, the first of which has index
    /// `first_frame`. If they are several, then equal pieces of a part each.
    pub(super) fn new(
        first: u64,
        count: u64,
        sent: Sent,
        first_frame: u64,
        frames: &[SentFrame],
    ) -> Self {
        let piece = match frames {
            [SentFrame::Data { start, end, .. }] if sent.eliciting => {
                end.saturating_sub(*start) / count.max(1)
            }
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

    /// One past the last position.
    pub(super) fn end(&self) -> u64 {
        self.first.saturating_add(self.count)
    }

    /// Takes in `next` if its packets differ in nothing but their pieces. `parts` is the frame of
    /// all here, `more` that of `next`.
    pub(super) fn join(&mut self, next: &Self, parts: &mut SentFrame, more: &SentFrame) -> bool {
        let joined = self.piece > 0
            && (self.end(), self.piece) == (next.first, next.piece)
            && self.sent == next.sent
            && parts.adjoin(more);
        if joined {
            self.count = self.count.saturating_add(next.count);
        }
        joined
    }

    /// What the packets in `positions` carried, of `frames`, those of all packets here.
    pub(super) fn carried<'a>(
        &self,
        positions: &Range<u64>,
        frames: &'a [SentFrame],
    ) -> Carried<'a> {
        match *frames {
            [SentFrame::Data { channel, start, .. }] if self.count > 1 => {
                let offset = |position: u64| {
                    let before = position.saturating_sub(self.first);
                    start.saturating_add(before.saturating_mul(self.piece.into()))
                };
                Carried::Part([SentFrame::Data {
                    channel,
                    start: offset(positions.start),
                    end: offset(positions.end),
                }])
            }
            _ => Carried::Frames(frames),
        }
    }
}

/// What packets carried.
#[derive(Debug)]
pub(in crate::recovery) enum Carried<'a> {
    /// What one did.
    Frames(&'a [SentFrame]),
    /// What some of a flight did.
    Part([SentFrame; 1]),
}

impl Deref for Carried<'_> {
    type Target = [SentFrame];

    fn deref(&self) -> &[SentFrame] {
        match self {
            Self::Frames(frames) => frames,
            Self::Part(part) => part,
        }
    }
}
