//! Messages: the queues of both directions, retransmission, completion and reassembly.
//!
//! One [`Outbox`] and one [`Inbox`] exist per session, and survive the replacement of its
//! connection: everything here is named by (channel, message, byte range), never by packet number.
//!
//! | part | owns |
//! |---|---|
//! | `outbox` | the channels of the sending direction: bound of the queue, session credit, order of
//! channels |
//! | `outgoing` | one channel of the outbox: memory credit, announced messages |
//! | `send_queue` | the channel's messages in order: sent, acknowledged and lost bytes |
//! | `segment` | consecutive messages that differ in number and bytes only, and their packing into
//! packets |
//! | `frames` | the encoded frames of small messages, and leases of room for more of them |
//! | `held` | the sizes that count against the bounds of a send queue |
//! | `inbox` | the channels of the receiving direction: session credit, budget of large messages |
//! | `incoming` | one channel of the inbox: order, memory credit, the answer to its RTS |
//! | `answer` | the questions to the program and the answers to the peer |
//! | `packed_queue` | small messages that arrived in order, as the frames of each packet |
//! | `slot` | any other message that is not taken yet |
//! | `assembly` | the bytes of one message that arrives in pieces |
//! | `placement` | the memory that layers name for messages |
//! | `pool` | the buffers of received bytes |
//! | `data` | the payload that the program receives |
//! | `finished` | channel numbers that are not used again |
//! | `cold` | the numbers kept of cold channels |
//! | `compaction` | compaction of the slab of channels |
//! | `buffer_cache` | buffers that empty queues of either direction lend to others |
//! | `brief` | the bytes of a message in errors and traces |
//!
//! **Memory credit** is counted in *charges* ([`charge`]), at absolute offsets per channel and per
//! session. A message is charged once, when its first byte or its RTS is first sent. A
//! retransmission needs no more credit. A message announced by RTS is charged without its length,
//! which the CTS grants.

mod answer;
mod assembly;
mod brief;
mod buffer_cache;
mod cold;
mod compaction;
mod data;
mod finished;
mod frames;
mod held;
mod inbox;
mod incoming;
mod outbox;
mod outgoing;
mod packed_queue;
mod placement;
mod pool;
mod receive_buffer;
mod segment;
mod send_queue;
mod slot;

pub use answer::{Answer, AnswerError, IncomingInfo};
pub use brief::Brief;
pub use data::Data;
pub use finished::Finished;
pub use frames::{ChannelLease, SMALL};
pub use held::{ByClass, Held, Queued, WantedRoom, has_room};
pub use inbox::{Inbox, InboxLimits, MIN_WINDOW};
pub use outbox::{NoRoom, Outbox, OutboxLimits, Put};
pub use placement::{Place, PlacedBy, Placement};
pub use pool::Pool;
pub use receive_buffer::{LentMemory, ReceiveBuffer};
#[cfg(doc)]
use segment::COPIED;

use bytes::Bytes;
use core::fmt;
use suci_link::limits::MESSAGE_CHARGE;
use suci_link::time::Duration;
use suci_link::types::{ChannelId, Kind, MessageNumber};

/// Channels of one direction that keep their full state although they are idle. Other idle channels
/// are *cold*: only a few numbers of them are kept. Traffic on so few channels never pays for
/// freezing and restoring. Those of both directions take 45 KiB of a session.
const WARM: usize = if cfg!(test) { 2 } else { 64 };

/// A `u64` with the alignment of a `u32`, so that a struct with shorter numbers needs no padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SplitU64([u32; 2]);

impl SplitU64 {
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
    /// The program's header, at most [`suci_link::limits::MAX_USER_HEADER`] bytes (checked by the
    /// caller).
    pub user_header: Bytes,
    /// The payload, at most [`suci_link::limits::MAX_MESSAGE`] bytes (checked by the caller). It is
    /// held until it is acknowledged.
    pub payload: Bytes,
    /// True if the program wants to hear of its delivery.
    pub notify: bool,
    /// The program's own handle, returned in its [`Completion`]. Of sockets, the bytes of programs
    /// have 0: if they are not delivered, closing the node says so. Other messages of sockets only
    /// open, steer and end connections.
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
    /// The program's own handle, returned in its [`Completion`].
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

/// The outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The peer's library holds all of it: the message is fully acknowledged.
    Delivered,
    /// The peer cannot have all of it: refused, or some part was never sent.
    NotDelivered,
    /// Sent, but not fully acknowledged.
    Unknown,
}

/// The completion of a sent message, for the sending program.
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
    /// The outcome.
    pub outcome: Outcome,
    /// The receiver's reason if it refused the message; [`CANCELLED`] or [`EXPIRED`] if it was
    /// withdrawn at this side; [`NOT_PERMITTED`] or [`TOO_MANY_CHANNELS`].
    pub reason: Option<u64>,
}

/// In the event `NotDelivered`: the sending program cancelled the
/// message.
pub const CANCELLED: u64 = u64::MAX - 1;

/// In the event `NotDelivered`: none of the message had been sent when
/// its deadline passed.
pub const EXPIRED: u64 = u64::MAX - 2;

/// In the event `NotDelivered`: the other node's file of public keys
/// does not permit this node the message's layer.
pub const NOT_PERMITTED: u64 = u64::MAX - 3;

/// In the event `NotDelivered`: the other node permits no more channels.
/// It says how many it permits when the session begins; until then this node accepts messages on
/// more of them.
pub const TOO_MANY_CHANNELS: u64 = u64::MAX - 4;

/// In the event `NotDelivered`: the message is longer than the other
/// node takes.
pub const TOO_LONG: u64 = u64::MAX;

impl Completion {
    /// Returns true if a program misses the message when it is not delivered.
    const fn is_awaited(&self) -> bool {
        !self.channel.carries_sockets() || self.token == 0
    }
}

/// Returns the number of these messages that were not, or not certainly, delivered, and that a
/// program misses.
pub fn undelivered(outcomes: &[Completion]) -> u64 {
    let failed = |o: &&Completion| o.outcome != Outcome::Delivered && o.is_awaited();
    len64(outcomes.iter().filter(failed).count())
}

/// Returns the memory credit that a message of `total` bytes with a header of `user_header` bytes
/// takes.
#[must_use]
pub fn charge(total: u64, user_header: usize) -> u64 {
    MESSAGE_CHARGE
        .saturating_add(len64(user_header))
        .saturating_add(total)
}

/// Converts a length in memory to a length of the protocol.
const fn len64(len: usize) -> u64 {
    len as u64
}

/// Converts a length of the protocol to a length in memory. A length beyond `usize` becomes
/// `usize::MAX`, which no buffer reaches.
fn to_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
