//! Runs: whole small messages of one channel side by side, as a batch of them leaves in a packet.
//!
//! Taken together they cost their receiver its books once, where frame by frame the books are most of the work.

use super::frag::{END, FIRST, LEN, TAG};
use super::frame::kind::FRAG;
use super::reader::{Reader, short_varints};
use crate::types::{ChannelId, MessageNumber};

/// The type of the simplest of them.
const PLAIN: u8 = FRAG | FIRST | END | LEN;

/// A FRAG that holds a whole message, of which nothing is said but its tag, and tells its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    channel: ChannelId,
    message: MessageNumber,
    /// The program's tag.
    pub tag: u64,
    /// Bytes of the frame before its data.
    pub head: usize,
    /// Bytes of data, all of which are there.
    pub len: usize,
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

    /// The frame at the front of `bytes` whose `head` bytes say this, unless they say what cannot be.
    #[inline]
    fn of(bytes: &[u8], [channel, message, tag, len]: [u64; 4], head: usize) -> Option<Self> {
        let len = usize::try_from(len).ok()?;
        let left = bytes.len().checked_sub(head)?;
        (len <= left).then_some(Self {
            channel: ChannelId(u32::try_from(channel).ok()?),
            message,
            tag,
            head,
            len,
        })
    }

    /// What follows it in `bytes`, at whose front it stands.
    #[inline]
    fn behind<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        bytes.get(self.head.checked_add(self.len)?..)
    }
}

/// [`Plain`] frames of one channel with consecutive numbers: at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// The messages' channel.
    pub channel: ChannelId,
    /// The number of the first.
    pub first: MessageNumber,
    /// How many there are.
    pub count: u64,
    /// Bytes of all messages together.
    pub payload: u64,
    /// The frames.
    pub frames: &'a [u8],
}

impl<'a> Run<'a> {
    /// The longest run at the front of `bytes`.
    #[inline]
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let one = Plain::read(bytes)?;
        let (mut left, mut count, mut payload) = (one.behind(bytes)?, 1_u64, one.len as u64);
        while !left.is_empty()
            && let Some(next) = Plain::read(left)
            && next.channel == one.channel
            && Some(next.message) == one.message.checked_add(count)
            && let Some(behind) = next.behind(left)
        {
            left = behind;
            count = count.saturating_add(1);
            payload = payload.saturating_add(next.len as u64);
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
}
