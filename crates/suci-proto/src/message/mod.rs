//! Messages: what is queued, sent, repeated and completed, and what is put together again.
//!
//! One [`Outbox`] and one [`Inbox`] exist per session, and survive the replacement of its
//! connection: everything here is named by (channel, message, byte range), never by packet number.
//!
//! | part | owns |
//! |---|---|
//! | `outbox` | the channels of one direction: queue bound, session credit, fair turns |
//! | `brief` | bytes of messages as errors and traces show them |
//! | `data` | payloads as the program gets them |
//! | `held` | what messages count against that bound |
//! | `outgoing` | one channel of it: memory credit, and which message asks first |
//! | `send_queue` | the channel's messages in order: what was sent, arrived, is to be sent again |
//! | `segment` | messages there that differ in number and bytes only, and how they fill packets |
//! | `frames` | the encoded frames of small messages, and room lent for more of them |
//! | `inbox` | the channels of the other direction: session credit, budget of large messages |
//! | `answer` | what is asked of the program and told the peer |
//! | `finished` | channel numbers that are not used again |
//! | `incoming` | one channel of it: order, memory credit, the answer to its RTS |
//! | `packed_queue` | small messages that came in order, a packet's side by side |
//! | `slot` | any other message on its way in |
//! | `assembly` | the bytes of one message in pieces |
//! | `places` | the places of channels, given back when few are needed |
//! | `buffer_cache` | what empty queues of either direction lend to others |
//! | `pool` | where received bytes live |
//!
//! **Memory credit** is counted in *charges* ([`charge`]), at absolute offsets per channel and per
//! session. A message is charged once, when its first byte or its RTS is first sent; repeating
//! never needs more. A message announced by RTS is charged without its length, which the CTS
//! grants.

mod answer;
mod assembly;
mod brief;
mod buffer_cache;
mod data;
mod finished;
mod frames;
mod held;
mod inbox;
mod incoming;
mod outbox;
mod outgoing;
mod packed_queue;
mod places;
mod pool;
mod segment;
mod send_queue;
mod slot;

pub use answer::{Answer, AnswerError, IncomingInfo};
pub use brief::Brief;
pub use data::Data;
pub use frames::{ChannelLease, SMALL};
pub use held::{ByClass, Held, Queued, WantedRoom, has_room};
pub use inbox::{Inbox, InboxLimits, MIN_WINDOW};
pub use outbox::{NoRoom, Outbox, OutboxLimits, Put};
pub use pool::Pool;
#[cfg(doc)]
use segment::COPIED;

use crate::limits::MESSAGE_CHARGE;
use crate::time::Duration;
use crate::types::{ChannelId, Kind, MessageNumber};
use bytes::Bytes;
use core::fmt;

/// Channels of a direction that keep what they need for messages although they are idle. Others are
/// cold: they are kept apart, in few bytes.
const WARM: usize = if cfg!(test) { 2 } else { 64 };

/// A number that stands beside shorter ones without a gap between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Halves([u32; 2]);

impl Halves {
    const fn of(number: u64) -> Self {
        Self([number as u32, (number >> 32) as u32])
    }

    const fn whole(self) -> u64 {
        let [low, high] = self.0;
        (high as u64) << 32 | low as u64
    }
}

/// A message to be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The channel it goes on.
    pub channel: ChannelId,
    /// The program's tag.
    pub tag: u64,
    /// The program's kind of message.
    pub kind: Kind,
    /// The program's header, at most [`crate::limits::MAX_USER_HEADER`] bytes (checked by the
    /// caller).
    pub user_header: Bytes,
    /// The bytes, at most [`crate::limits::MAX_MESSAGE`] (checked by the caller). Held until
    /// acknowledged.
    pub payload: Bytes,
    /// True if the program wants to hear of its delivery.
    pub notify: bool,
    /// The program's own handle, returned in its [`Completion`].
    pub token: u64,
    /// How long it may wait in the queue: if none of it was sent by then, it is cancelled. The time
    /// counts from when [`Engine::send`](crate::Engine::send) accepts the message.
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

/// A message to be sent, whose bytes stay the caller's: they are copied if it is accepted.
#[derive(Clone, Copy, Debug)]
pub struct SmallOutgoing<'a> {
    /// The channel it goes on.
    pub channel: ChannelId,
    /// The program's tag.
    pub tag: u64,
    /// What it means to the program.
    pub kind: Kind,
    /// The program's header, at most [`crate::limits::MAX_USER_HEADER`] bytes (checked by the
    /// caller).
    pub user_header: &'a [u8],
    /// The bytes. At most [`SMALL`] where they are queued (checked by the caller).
    pub payload: &'a [u8],
    /// True if the program wants to hear of its delivery.
    pub notify: bool,
    /// The program's own handle, returned in its [`Completion`].
    pub token: u64,
}

impl SmallOutgoing<'_> {
    /// Returns the same with bytes of its own.
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
    /// Returns the message as a small one, if it is. One with a deadline is not: it keeps an entry
    /// of its own, so that its memory is free when it expires.
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
    /// What it means to the program.
    pub kind: Kind,
    /// The program's header.
    pub user_header: Bytes,
    /// The bytes.
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

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The peer's library holds all of it: fully acknowledged.
    Delivered,
    /// The peer cannot have all of it: refused, or some part was never sent.
    NotDelivered,
    /// Sent, but not fully acknowledged.
    Unknown,
}

/// The end of a message's way, for the sending program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its channel.
    pub channel: ChannelId,
    /// Its number.
    pub number: MessageNumber,
    /// The program's own handle.
    pub token: u64,
    /// True if the program asked to be told.
    pub notify: bool,
    /// What became of it.
    pub outcome: Outcome,
    /// The receiver's reason, if it refused; [`CANCELLED`] or [`EXPIRED`] if it was taken back
    /// here.
    pub reason: Option<u64>,
}

/// In [`Event::NotDelivered`](crate::Event::NotDelivered): the sending program cancelled the
/// message.
pub const CANCELLED: u64 = u64::MAX - 1;

/// In [`Event::NotDelivered`](crate::Event::NotDelivered): none of the message had been sent when
/// its deadline passed.
pub const EXPIRED: u64 = u64::MAX - 2;

/// Returns how many of these were not, or not certainly, delivered.
pub(crate) fn undelivered(outcomes: &[Completion]) -> u64 {
    let failed = |o: &&Completion| o.outcome != Outcome::Delivered;
    len64(outcomes.iter().filter(failed).count())
}

/// Returns what a message of `total` bytes with a header of `user_header` bytes counts against
/// memory credit.
#[must_use]
pub fn charge(total: u64, user_header: usize) -> u64 {
    MESSAGE_CHARGE
        .saturating_add(len64(user_header))
        .saturating_add(total)
}

/// Returns a length in memory as a length of the protocol.
const fn len64(len: usize) -> u64 {
    len as u64
}

/// Returns a length of the protocol as one in memory; one that cannot be held cannot be reached
/// either.
fn index(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
