//! The block at the end of a channel's frames. The channel, or a holder of a [`ChannelLease`],
//! appends small messages there that differ in nothing but their bytes.

use super::super::sizes::len64;
use super::super::{Held, SmallOutgoing};
use core::ops::Range;
use suci_link::types::{ChannelId, Kind, MessageNumber};
use suci_link::wire::{FragHead, SequentialHeaders, Start};

/// Bytes of a block of frames. The last byte is never used, so no frame begins at the position
/// where the frames of the block before end.
pub(super) const BLOCK: usize = 16_384;

/// Bytes by which a block is lengthened ahead of its frames, which overwrite them.
const AHEAD: usize = 1_024;

/// The block that takes frames.
#[derive(Debug, Default)]
pub(in crate::message) struct OpenBlock {
    /// The frames, and bytes that the next ones overwrite.
    block: Vec<u8>,
    /// Bytes of the frames.
    len: usize,
    /// The next message if it is like the last one, and the heads of such messages.
    expected: Option<ExpectedMessage>,
    headers: Option<SequentialHeaders>,
}

/// All of a message but its bytes, for messages whose heads are [`SequentialHeaders`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ExpectedMessage {
    number: MessageNumber,
    tag: u64,
    token: u64,
    payload: usize,
    kind: Kind,
    notify: bool,
}

impl ExpectedMessage {
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

/// Lengthens the block to `end` and up to [`AHEAD`] more. Returns false if it lacks the memory.
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
    /// Returns the bytes of the frames.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes of the frames in `range`.
    #[inline]
    pub(super) fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        self.block.get(range)
    }

    /// Returns the memory of the frames, cut behind the last one.
    #[inline]
    pub(super) fn block(&mut self) -> &mut Vec<u8> {
        self.block.truncate(self.len);
        &mut self.block
    }

    /// Replaces the block by an empty one. Returns the old one.
    pub(super) fn replace(&mut self, block: Vec<u8>) -> Vec<u8> {
        let len = core::mem::take(&mut self.len);
        let mut old = core::mem::replace(&mut self.block, block);
        old.truncate(len);
        old
    }

    /// Ends the sequence: no message may [`follow`](Self::follow) the last one.
    pub(super) fn end_sequence(&mut self) {
        (self.expected, self.headers) = (None, None);
    }

    /// Appends frames of another block.
    pub(super) fn append(&mut self, frames: &[u8]) {
        self.block.truncate(self.len);
        self.block.extend_from_slice(frames);
        self.len = self.block.len();
    }

    /// Removes the frames.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.block.capacity()
    }

    /// Returns true if messages like the last one may [`follow`](Self::follow) it.
    pub(super) fn is_extensible(&self) -> bool {
        self.headers.is_some()
    }

    /// Writes the frame of a message that is like the one before. Returns false and does nothing if
    /// it is not, or the block has no room.
    #[inline(always)]
    pub(super) fn follow(&mut self, number: MessageNumber, message: &SmallOutgoing<'_>) -> bool {
        let (Some(expected), Some(headers)) = (&mut self.expected, &mut self.headers) else {
            return false;
        };
        if *expected != ExpectedMessage::of(number, message) || !message.user_header.is_empty() {
            return false;
        }
        let end = self.len.saturating_add(headers.room(message.payload.len()));
        if end > self.block.len() && !lengthen(&mut self.block, end) {
            return false;
        }
        let rest = self.block.get_mut(self.len..);
        let written = rest.and_then(|rest| headers.put(rest, message.payload));
        if let Some(written) = written {
            self.len = self.len.saturating_add(written);
            expected.number = number.wrapping_add(1);
        }
        written.is_some()
    }

    /// Writes the frame of any message. If it is like the one before and `extensible`, others may
    /// [`follow`](Self::follow) it.
    pub(super) fn write(
        &mut self,
        number: MessageNumber,
        message: &SmallOutgoing<'_>,
        extensible: bool,
    ) {
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
        let written = ExpectedMessage::of(number, message);
        let alike = self.expected == Some(written) && message.user_header.is_empty();
        let frame = self.block.get(before..).filter(|_| extensible && alike);
        self.headers = frame.and_then(|frame| SequentialHeaders::after(frame, head));
        self.expected = Some(ExpectedMessage {
            number: number.wrapping_add(1),
            ..written
        });
    }
}

/// Room for messages like the last one of a channel. Its holder accepts them without the channel:
/// each costs an append. All else is done once for all of them when the lease is [given
/// back](super::super::Outbox::give_back).
#[must_use = "dropped, it takes messages along that the channel has accepted"]
#[derive(Debug)]
pub struct ChannelLease {
    block: OpenBlock,
    /// The channel, and its index in the outbox.
    channel: ChannelId,
    index: usize,
    next: MessageNumber,
    /// How many messages were accepted, and how many more may be.
    count: u32,
    left: u32,
    /// Bytes of payload of each message.
    payload: u64,
}

impl ChannelLease {
    pub(in crate::message) fn new(
        block: OpenBlock,
        channel: ChannelId,
        index: usize,
        next: MessageNumber,
        (left, payload): (u32, u64),
    ) -> Self {
        Self {
            block,
            channel,
            index,
            next,
            count: 0,
            left,
            payload,
        }
    }

    /// Accepts a message and returns its number. Returns none and does nothing if the message is
    /// not like the others, or there is no room for more.
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

    /// Returns the accepted messages and their bytes.
    #[must_use]
    pub fn accepted(&self) -> Held {
        let count = self.count.into();
        Held::new(count, self.payload.saturating_mul(count))
    }

    /// Returns the channel's index in the outbox, how many messages were accepted, and the block.
    pub(in crate::message) fn end(self) -> (usize, u32, OpenBlock) {
        (self.index, self.count, self.block)
    }
}
