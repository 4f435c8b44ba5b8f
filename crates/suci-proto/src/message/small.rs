//! Small messages on their way out: frames side by side, as they will stand in a packet.
//!
//! A small message is written as a frame when it is accepted. That is its one copy before the packet, its
//! program has the payload back at once, and it allocates nothing. Filling a packet is then copying a run of
//! frames, whose heads need not be thought about again; sending one again is copying one. With an entry that
//! refers to the payload and a head written for each packet, as long messages have it, all that around
//! the bytes of a message of 32 was ten times as much work as the bytes.

use super::{Outgoing, charge, len64};
use crate::types::{ChannelId, Kind, MessageNumber};
use crate::wire::{self, FragHead, Frame, Start};
use bytes::Bytes;

/// Longest payload that is copied when its message is accepted. Longer ones are gathered by reference:
/// a slice of a gather list costs the kernel about as much as copying so many bytes.
///
/// A frame of so many bytes, with any header, fits every packet that messages may ride on.
pub const SMALL: usize = 256;

/// Memory that a channel without messages keeps for the next, in bytes.
const KEPT: usize = 65_536;

/// Bytes given up at the front that are worth moving the others.
const WORTH_MOVING: usize = 4_096;

/// A message to be sent, whose bytes stay the caller's: they are copied if it is accepted.
#[derive(Clone, Copy, Debug)]
pub struct SmallOutgoing<'a> {
    /// The channel it goes on.
    pub channel: ChannelId,
    /// The program's tag.
    pub tag: u64,
    /// What it means to the program.
    pub kind: Kind,
    /// The program's header, at most [`crate::limits::MAX_USER_HEADER`] bytes (checked by the caller).
    pub user_header: &'a [u8],
    /// The bytes. At most [`SMALL`] where they are queued (checked by the caller).
    pub payload: &'a [u8],
    /// Whether the program wants to hear of its delivery.
    pub notify: bool,
    /// The program's own handle, returned in its [`Completion`](super::Completion).
    pub token: u64,
}

impl SmallOutgoing<'_> {
    /// The same with bytes of its own.
    #[must_use]
    pub fn to_outgoing(&self) -> Outgoing {
        Outgoing {
            channel: self.channel,
            tag: self.tag,
            kind: self.kind,
            user_header: Bytes::copy_from_slice(self.user_header),
            payload: Bytes::copy_from_slice(self.payload),
            notify: self.notify,
            token: self.token,
        }
    }
}

impl Outgoing {
    /// The message as a small one, if it is.
    #[must_use]
    pub fn as_small(&self) -> Option<SmallOutgoing<'_>> {
        (self.payload.len() <= SMALL).then(|| SmallOutgoing {
            channel: self.channel,
            tag: self.tag,
            kind: self.kind,
            user_header: &self.user_header,
            payload: &self.payload,
            notify: self.notify,
            token: self.token,
        })
    }
}

/// A small message until its number leaves the channel's front. Whether it was sent tells the channel's cursor.
#[derive(Clone, Debug)]
pub(super) struct Small {
    pub(super) token: u64,
    /// Where its frame stands in the channel's [`FrameQueue`].
    at: u64,
    frame: u16,
    payload: u16,
    header: u8,
    pub(super) notify: bool,
    /// Its number stands in the channel's list of what is owed again.
    pub(super) listed: bool,
    pub(super) fate: Fate,
}

/// What is known of a small message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing: it waits, or is under way.
    Open,
    /// To be sent again.
    Lost,
    /// The peer has it.
    Acked,
}

impl Small {
    /// Bytes of the payload.
    pub(super) fn total(&self) -> u64 {
        self.payload.into()
    }

    /// Bytes of program data that it counts in the queue.
    pub(super) fn held(&self) -> u64 {
        u64::from(self.payload).saturating_add(self.header.into())
    }

    /// What sending it is charged.
    pub(super) fn charge(&self) -> u64 {
        charge(self.payload.into(), self.header.into())
    }

    /// What asking for it first is charged.
    pub(super) fn request_charge(&self) -> u64 {
        charge(0, self.header.into())
    }

    /// Where its frame begins and ends.
    pub(super) fn span(&self) -> (u64, u64) {
        (self.at, self.at.saturating_add(self.frame.into()))
    }

    /// Bytes of its frame.
    pub(super) fn frame(&self) -> usize {
        self.frame.into()
    }
}

/// The frames of a channel's small messages, one behind the other, from the oldest that is not acknowledged on.
#[derive(Debug, Default)]
pub(super) struct FrameQueue {
    bytes: Vec<u8>,
    /// Bytes at the front of `bytes` that are given up.
    gone: usize,
    /// Where `bytes` begins, counted since the channel was opened.
    base: u64,
}

impl FrameQueue {
    /// Writes the frame of a message that gets this number.
    pub(super) fn push(&mut self, number: MessageNumber, message: &SmallOutgoing<'_>) -> Small {
        let before = self.bytes.len();
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
        head.put(&mut self.bytes, message.payload.len(), false);
        self.bytes.extend_from_slice(message.payload);
        Small {
            token: message.token,
            at: self.base.saturating_add(len64(before)),
            frame: self.bytes.len().saturating_sub(before) as u16,
            payload: message.payload.len() as u16,
            header: message.user_header.len() as u8,
            notify: message.notify,
            listed: false,
            fate: Fate::Open,
        }
    }

    /// The bytes from `start` to `end`.
    pub(super) fn get(&self, start: u64, end: u64) -> &[u8] {
        let place = |at: u64| at.checked_sub(self.base).map(super::index);
        let range = place(start).zip(place(end));
        let bytes = range.and_then(|(start, end)| self.bytes.get(start..end));
        debug_assert!(bytes.is_some(), "frames are kept until acknowledged");
        bytes.unwrap_or_default()
    }

    /// Frames before `end` are not needed any more.
    pub(super) fn release(&mut self, end: u64) {
        let gone = super::index(end.saturating_sub(self.base));
        self.gone = self.gone.max(gone).min(self.bytes.len());
        if self.gone == self.bytes.len() {
            self.base = self.base.saturating_add(len64(self.gone));
            self.gone = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEPT {
                self.bytes = Vec::new();
            }
        } else if self.gone >= WORTH_MOVING && self.gone >= self.bytes.len() / 2 {
            // Each byte is moved at most as often as others before it went.
            self.bytes.drain(..self.gone);
            self.base = self.base.saturating_add(len64(self.gone));
            self.gone = 0;
        }
    }

    /// The message of a frame, with bytes of its own.
    pub(super) fn read(&self, small: &Small) -> Option<Outgoing> {
        let (start, end) = small.span();
        let Some(Ok(Frame::Frag(frag))) = wire::frames(self.get(start, end)).next() else {
            return None;
        };
        let message = SmallOutgoing {
            channel: frag.channel,
            tag: frag.start?.tag,
            kind: frag.start?.kind,
            user_header: frag.start?.user_header,
            payload: frag.data,
            notify: small.notify,
            token: small.token,
        };
        Some(message.to_outgoing())
    }
}

#[cfg(test)]
impl FrameQueue {
    pub(super) fn held(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests;
