//! The end of a channel's frames, where small messages that are alike are appended one after
//! another, by the channel or by who was lent it.

use super::super::{Held, SmallOutgoing, len64};
use super::BLOCK;
use crate::types::{ChannelId, Kind, MessageNumber};
use crate::wire::{FragHead, Row, Start};
use core::ops::Range;

/// Bytes that a block is longer than needed where frames follow one another: they are written over.
const AHEAD: usize = 1_024;

/// The block that takes frames.
#[derive(Debug, Default)]
pub(in crate::message) struct OpenBlock {
    /// The frames, and what will be written over.
    block: Vec<u8>,
    /// Bytes of the frames.
    len: usize,
    /// What the next message is if it is like the last one, and how its head follows from that
    /// one's.
    like: Option<RunShape>,
    row: Option<Row>,
}

/// What messages of a run have in common whose heads are a [`Row`], and the next one's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunShape {
    number: MessageNumber,
    tag: u64,
    token: u64,
    payload: usize,
    kind: Kind,
    notify: bool,
}

impl RunShape {
    #[inline]
    fn of(number: MessageNumber, message: &SmallOutgoing<'_>) -> Self {
        Self {
            number,
            tag: message.tag,
            token: message.token,
            payload: message.payload.len(),
            kind: message.kind,
            notify: message.notify,
        }
    }
}

/// Makes the block so long, and some more, if it has memory for that.
#[inline(never)]
fn lengthen(block: &mut Vec<u8>, end: usize) -> bool {
    let most = block.capacity().min(BLOCK - 1);
    let enough = end <= most;
    if enough {
        block.resize(end.saturating_add(AHEAD).min(most), 0);
    }
    enough
}

impl OpenBlock {
    /// Bytes of its frames.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Some of them.
    #[inline]
    pub(super) fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        self.block.get(range)
    }

    /// Their memory, without what would be written over.
    #[inline]
    pub(super) fn block(&mut self) -> &mut Vec<u8> {
        self.block.truncate(self.len);
        &mut self.block
    }

    /// Puts another block in its place, which is empty.
    pub(super) fn replace(&mut self, block: Vec<u8>) -> Vec<u8> {
        let len = core::mem::take(&mut self.len);
        let mut old = core::mem::replace(&mut self.block, block);
        old.truncate(len);
        old
    }

    /// No message follows the last one in a row.
    pub(super) fn end_row(&mut self) {
        (self.like, self.row) = (None, None);
    }

    /// Appends frames that stood elsewhere.
    pub(super) fn append(&mut self, frames: &[u8]) {
        self.block.truncate(self.len);
        self.block.extend_from_slice(frames);
        self.len = self.block.len();
    }

    /// The frames are not needed any more.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.block.capacity()
    }

    /// Whether messages like the last one may [`follow`](Self::follow) it.
    pub(super) fn is_row(&self) -> bool {
        self.row.is_some()
    }

    /// Writes the frame of a message that is like the one before. False, and nothing done, if it is
    /// not, or there is no room behind that one.
    #[inline(always)]
    pub(super) fn follow(&mut self, number: MessageNumber, message: &SmallOutgoing<'_>) -> bool {
        let (Some(like), Some(row)) = (&mut self.like, &mut self.row) else {
            return false;
        };
        if *like != RunShape::of(number, message) || !message.user_header.is_empty() {
            return false;
        }
        let end = self.len.saturating_add(row.room(message.payload.len()));
        if end > self.block.len() && !lengthen(&mut self.block, end) {
            return false;
        }
        let place = self.block.get_mut(self.len..);
        let written = place.and_then(|place| row.put(place, message.payload));
        if let Some(written) = written {
            self.len = self.len.saturating_add(written);
            like.number = number.wrapping_add(1);
        }
        written.is_some()
    }

    /// Writes the frame of a message, whatever it is. If it is like the one before, and more of a
    /// `row` may come, those will follow.
    pub(super) fn write(&mut self, number: MessageNumber, message: &SmallOutgoing<'_>, row: bool) {
        let before = self.len;
        self.block.truncate(before);
        let head = FragHead {
            channel: message.channel,
            message: number,
            offset: 0,
            end: true,
            start: Some(Start {
                total: len64(message.payload.len()),
                tag: message.tag,
                kind: message.kind,
                user_header: message.user_header,
            }),
        };
        head.put(&mut self.block, message.payload.len(), false);
        let head = self.block.len().saturating_sub(before);
        self.block.extend_from_slice(message.payload);
        self.len = self.block.len();
        let like = RunShape::of(number, message);
        let alike = self.like == Some(like) && message.user_header.is_empty();
        let frame = self.block.get(before..).filter(|_| row && alike);
        self.row = frame.and_then(|frame| Row::after(frame, head));
        self.like = Some(RunShape {
            number: number.wrapping_add(1),
            ..like
        });
    }
}

/// Room for messages like the last one of a channel, for who accepts them without the channel: each
/// is an append, and all else about them is done once, when it is given back
/// ([`Outbox::give_back`](super::super::Outbox::give_back)).
#[must_use = "dropped, it takes messages along that the channel has accepted"]
#[derive(Debug)]
pub struct ChannelLease {
    block: OpenBlock,
    /// The channel, and its place in the outbox.
    channel: ChannelId,
    place: usize,
    next: MessageNumber,
    /// How many were accepted, and how many more may be.
    count: u32,
    left: u32,
    /// Bytes of each.
    payload: u64,
}

impl ChannelLease {
    pub(in crate::message) fn new(
        block: OpenBlock,
        channel: ChannelId,
        place: usize,
        next: MessageNumber,
        (left, payload): (u32, u64),
    ) -> Self {
        Self {
            block,
            channel,
            place,
            next,
            count: 0,
            left,
            payload,
        }
    }

    /// Accepts a message and returns its number. None, and nothing done, if it is not like the
    /// others, or there is no room for more.
    #[inline(always)]
    pub fn push(&mut self, message: &SmallOutgoing<'_>) -> Option<MessageNumber> {
        let number = self.next;
        if self.left == 0 || message.channel != self.channel || !self.block.follow(number, message)
        {
            return None;
        }
        self.left -= 1;
        self.count += 1;
        self.next = number.wrapping_add(1);
        Some(number)
    }

    /// Messages that were accepted, and their bytes.
    #[must_use]
    pub fn accepted(&self) -> Held {
        let count = self.count.into();
        Held::new(count, self.payload.saturating_mul(count))
    }

    /// The channel's place in the outbox, and what it has to take note of.
    pub(in crate::message) fn end(self) -> (usize, u32, OpenBlock) {
        (self.place, self.count, self.block)
    }
}
