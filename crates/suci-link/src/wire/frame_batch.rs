//! Frame batches: adjacent frames of whole small messages of one channel, as a sender puts several
//! messages into a packet.
//!
//! The receiver updates its state once for the whole batch. Updates for each frame would be most of
//! the work.

use super::frag::{END, FIRST, Frag, LEN, TAG};
use super::frame::kind::FRAG;
use super::reader::Reader;
use super::sequential_headers::SequentialHeaders;
use crate::types::{ChannelId, MessageNumber};

/// Longest message of a batch, in bytes. A packet holds only one longer message and a piece of the
/// next, so a batch would save nothing.
pub const LONGEST: usize = 1_024;

/// A batch ends once it has this many bytes: a program that keeps one of its messages keeps the
/// memory of the whole batch.
pub(super) const ENOUGH: usize = 2_048;

/// The frame type of a message in a batch, without the tag bit.
const PLAIN: u8 = FRAG | FIRST | END | LEN;

/// The shape of adjacent frames that hold whole short messages with consecutive numbers. They
/// differ in number and data only. Each frame states its length and at most a tag.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameShape {
    /// How many frames there are.
    pub count: u64,
    /// The tag of each.
    pub tag: u64,
    /// Bytes of each frame before its data.
    pub head: usize,
    /// Bytes of each frame's data.
    pub len: usize,
}

impl FrameShape {
    /// Reads the frames at the front of `bytes`. Returns their shape, the first frame, and the
    /// bytes behind them. Stops after the first frame once at most `stop` bytes are left.
    #[inline]
    pub fn read(bytes: &[u8], stop: usize) -> Option<(Self, Frag<'_>, &[u8])> {
        let (&bits, fields) = bytes.split_first()?;
        if bits & !TAG != PLAIN {
            return None;
        }
        let mut r = Reader::new(fields);
        let first = Frag::read(bits, &mut r).ok()?;
        let (len, mut behind) = (first.data.len(), r.rest());
        if len > LONGEST {
            return None;
        }
        let head = bytes.len().checked_sub(behind.len())?.checked_sub(len)?;
        let mut count = 1;
        if behind.len() > stop
            && let Some(mut headers) = SequentialHeaders::after(bytes, head)
        {
            let more;
            (more, behind) = headers.skip(behind, len, stop);
            count += more;
        }
        let shape = Self {
            count,
            tag: first.start?.tag,
            head,
            len,
        };
        Some((shape, first, behind))
    }

    /// Returns the bytes of data of all frames.
    fn payload(&self) -> u64 {
        self.count.saturating_mul(self.len as u64)
    }
}

/// A batch of FRAG frames: at least one, with whole short messages of one channel and consecutive
/// numbers. Only reading bytes makes a `FrameBatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameBatch<'a> {
    channel: ChannelId,
    first: MessageNumber,
    count: u64,
    payload: u64,
    frames: &'a [u8],
}

impl<'a> FrameBatch<'a> {
    /// Reads the batch at the front of `bytes`.
    #[inline]
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let stop = bytes.len().saturating_sub(ENOUGH);
        let (shape, one, mut left) = FrameShape::read(bytes, stop)?;
        let (mut count, mut payload) = (shape.count, shape.payload());
        while left.len() > stop
            && let Some((shape, next, behind)) = FrameShape::read(left, stop)
            && next.channel == one.channel
            && Some(next.message) == one.message.checked_add(count)
        {
            left = behind;
            count = count.saturating_add(shape.count);
            payload = payload.saturating_add(shape.payload());
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

    /// Returns the messages' channel.
    #[inline]
    #[must_use]
    pub fn channel(&self) -> ChannelId {
        self.channel
    }

    /// Returns the number of the first message.
    #[inline]
    #[must_use]
    pub fn first(&self) -> MessageNumber {
        self.first
    }

    /// Returns the number of messages.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the bytes of all messages.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> u64 {
        self.payload
    }

    /// Returns the frames.
    #[inline]
    #[must_use]
    pub fn frames(&self) -> &'a [u8] {
        self.frames
    }
}
