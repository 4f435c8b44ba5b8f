//! Runs: whole small messages of one channel side by side, as a batch of them leaves in a packet.
//!
//! Taken together they cost their receiver its books once, where frame by frame the books are most
//! of the work.

use super::frag::{END, FIRST, LEN, TAG};
use super::frame::kind::FRAG;
use super::reader::{Reader, short_varints};
use super::row::Row;
use crate::types::{ChannelId, MessageNumber};

/// Longest message of a run. Longer ones are one to a packet and a piece of the next, where a run
/// has nothing to save.
pub(crate) const LONGEST: usize = 1_024;

/// A run ends with the message with which it has so many bytes: who keeps one of its messages keeps
/// the run.
pub(super) const ENOUGH: usize = 2_048;

/// The type of the simplest of them.
const PLAIN: u8 = FRAG | FIRST | END | LEN;

/// A FRAG that holds a whole message, a short one, of which nothing is said but its tag, and tells
/// its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    channel: ChannelId,
    message: MessageNumber,
    tag: u64,
    head: usize,
    len: usize,
}

impl Plain {
    /// The frame at the front of `bytes`, if it is such a one.
    #[inline]
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (&bits, fields) = bytes.split_first()?;
        if bits == PLAIN
            && let Some(([channel, message, len], size)) = short_varints(fields)
        {
            return Self::of(bytes, [channel, message, 0, len], 1 + size);
        }
        if bits & !TAG != PLAIN {
            return None;
        }
        let mut r = Reader::new(fields);
        let (channel, message) = (r.varint().ok()?, r.varint().ok()?);
        let tag = if bits & TAG != 0 { r.varint().ok()? } else { 0 };
        let len = r.varint().ok()?;
        Self::of(
            bytes,
            [channel, message, tag, len],
            bytes.len().checked_sub(r.remaining())?,
        )
    }

    /// The frame at the front of `bytes` whose `head` bytes say this, unless they say what cannot
    /// be.
    #[inline]
    fn of(bytes: &[u8], [channel, message, tag, len]: [u64; 4], head: usize) -> Option<Self> {
        let len = usize::try_from(len).ok()?;
        let left = bytes.len().checked_sub(head)?;
        (len <= left.min(LONGEST)).then_some(Self {
            channel: ChannelId(u32::try_from(channel).ok()?),
            message,
            tag,
            head,
            len,
        })
    }

    /// The program's tag.
    #[inline]
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// Bytes of the frame before its data.
    #[inline]
    #[must_use]
    pub fn head(&self) -> usize {
        self.head
    }

    /// Bytes of data, all of which are there.
    #[inline]
    #[must_use]
    pub fn data(&self) -> usize {
        self.len
    }

    /// Whether all but number and data is the same.
    #[inline]
    fn is_like(&self, other: &Self) -> bool {
        (self.tag, self.head, self.len) == (other.tag, other.head, other.len)
    }

    /// What follows it in `bytes`, at whose front it stands.
    #[inline]
    fn behind<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        bytes.get(self.head.checked_add(self.len)?..)
    }
}

/// [`Plain`] frames of one channel with consecutive numbers: at least one. Only reading bytes makes
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    channel: ChannelId,
    first: MessageNumber,
    count: u64,
    payload: u64,
    frames: &'a [u8],
}

impl<'a> Run<'a> {
    /// The run at the front of `bytes`.
    #[inline]
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let one = Plain::read(bytes)?;
        let (mut left, mut count, mut payload) = (one.behind(bytes)?, 1_u64, one.len as u64);
        let mut last = one;
        let stop = bytes.len().saturating_sub(ENOUGH);
        while left.len() > stop
            && let Some(next) = Plain::read(left)
            && next.channel == one.channel
            && Some(next.message) == one.message.checked_add(count)
            && let Some(behind) = next.behind(left)
        {
            let frame = left;
            left = behind;
            let mut more = 0;
            if next.is_like(&last)
                && let Some(mut row) = Row::after(frame, next.head)
            {
                (more, left) = row.skip(left, next.len, stop);
            }
            let messages = more.saturating_add(1);
            count = count.saturating_add(messages);
            payload = payload.saturating_add(messages.saturating_mul(next.len as u64));
            last = next;
        }
        let frames = bytes.get(..bytes.len().saturating_sub(left.len()))?;
        Some(Self {
            channel: one.channel,
            first: one.message,
            count,
            payload,
            frames,
        })
    }

    /// The messages' channel.
    #[inline]
    #[must_use]
    pub fn channel(&self) -> ChannelId {
        self.channel
    }

    /// The number of the first.
    #[inline]
    #[must_use]
    pub fn first(&self) -> MessageNumber {
        self.first
    }

    /// How many there are.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of all messages together.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> u64 {
        self.payload
    }

    /// The frames.
    #[inline]
    #[must_use]
    pub fn frames(&self) -> &'a [u8] {
        self.frames
    }
}
