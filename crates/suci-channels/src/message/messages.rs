//! The messages that programs send and receive.

use super::brief::Brief;
use super::data::Data;
use bytes::Bytes;
use core::fmt;
use suci_link::time::Duration;
use suci_link::types::{ChannelId, Kind, MessageNumber};

/// Bytes of the longest payload that is copied when its message is accepted. A longer payload stays
/// the program's until it is acknowledged. Packets copy it or refer to it (`COPIED`).
///
/// A frame with so many bytes of payload, and any user header, fits every packet that may carry
/// messages.
pub const SMALL: usize = 256;

/// A message to be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The channel it goes on.
    pub channel: ChannelId,
    /// The program's tag.
    pub tag: u64,
    /// The program's kind of message.
    pub kind: Kind,
    /// The program's header, at most [`suci_link::limits::MAX_USER_HEADER`] bytes (checked by the
    /// caller).
    pub user_header: Bytes,
    /// The payload, at most [`suci_link::limits::MAX_MESSAGE`] bytes (checked by the caller). It is
    /// held until it is acknowledged.
    pub payload: Bytes,
    /// True if the program wants to hear of its delivery.
    pub notify: bool,
    /// The program's own handle, returned in its [`Completion`](super::Completion). Of sockets, the
    /// bytes of programs have 0: if they are not delivered, closing the node says so. Other
    /// messages of sockets only open, steer and end connections.
    pub token: u64,
    /// Longest time in the queue. If no byte of the message was sent by then, it is cancelled. The
    /// time counts from the call of `Engine::send` that accepts it.
    pub deadline: Option<Duration>,
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("channel", &self.channel)
            .field("tag", &self.tag)
            .field("kind", &self.kind)
            .field("user_header", &Brief(&self.user_header))
            .field("payload", &Brief(&self.payload))
            .field("notify", &self.notify)
            .field("token", &self.token)
            .field("deadline", &self.deadline)
            .finish()
    }
}

/// A message to be sent whose bytes stay the caller's. They are copied if the message is accepted.
#[derive(Clone, Copy, Debug)]
pub struct SmallOutgoing<'a> {
    /// The channel it goes on.
    pub channel: ChannelId,
    /// The program's tag.
    pub tag: u64,
    /// The program's kind of message.
    pub kind: Kind,
    /// The program's header, at most [`suci_link::limits::MAX_USER_HEADER`] bytes (checked by the
    /// caller).
    pub user_header: &'a [u8],
    /// The payload, at most [`SMALL`] bytes (checked by the caller).
    pub payload: &'a [u8],
    /// True if the program wants to hear of its delivery.
    pub notify: bool,
    /// The program's own handle, returned in its [`Completion`](super::Completion).
    pub token: u64,
}

impl SmallOutgoing<'_> {
    /// Returns the same message with a copy of the bytes.
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
            deadline: None,
        }
    }
}

impl Outgoing {
    /// Returns the message as a small one, if it is small. A message with a deadline is never a
    /// small one: it needs an entry of its own, so that its memory is freed when it expires.
    #[must_use]
    pub fn as_small(&self) -> Option<SmallOutgoing<'_>> {
        (self.payload.len() <= SMALL && self.deadline.is_none()).then(|| SmallOutgoing {
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

/// A message received completely.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The channel it came on.
    pub channel: ChannelId,
    /// Its number there.
    pub number: MessageNumber,
    /// The program's tag.
    pub tag: u64,
    /// The program's kind of message.
    pub kind: Kind,
    /// The program's header.
    pub user_header: Bytes,
    /// The payload.
    pub payload: Data,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("channel", &self.channel)
            .field("number", &self.number)
            .field("tag", &self.tag)
            .field("kind", &self.kind)
            .field("user_header", &Brief(&self.user_header))
            .field("payload", &Brief(&self.payload))
            .finish()
    }
}
