//! Messages: the queues of both directions, retransmission, completion and reassembly.
//!
//! One [`Outbox`] and one [`Inbox`] exist per session, and survive the replacement of its
//! connection: everything here is named by (channel, message, byte range), never by packet number.
//!
//! | part | owns |
//! |---|---|
//! | `messages` | the messages that programs send and receive |
//! | `outcome` | what became of a message, and why |
//! | `outbox` | the channels of the sending direction: bound of the queue, session credit, order of
//! channels |
//! | `outgoing` | one channel of the outbox: memory credit, announced messages |
//! | `send_queue` | the channel's messages in order: sent, acknowledged and lost bytes |
//! | `segment` | consecutive messages that differ in number and bytes only, and their packing into
//! packets |
//! | `frames` | the encoded frames of small messages, and leases of room for more of them |
//! | `held` | the sizes that count against the bounds of a send queue |
//! | `sent_frame` | what a packet carried of the session, for the report of its fate |
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
//! | `sizes` | lengths, and what they are charged |
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
mod messages;
mod outbox;
mod outcome;
mod outgoing;
mod packed_queue;
mod placement;
mod pool;
mod receive_buffer;
mod segment;
mod send_queue;
mod sent_frame;
mod sizes;
mod slot;

pub use answer::{Answer, AnswerError, IncomingInfo};
pub use brief::Brief;
pub use data::Data;
pub use finished::Finished;
pub use frames::ChannelLease;
pub use held::{ByClass, Held, Queued, WantedRoom, has_room};
pub use inbox::{Inbox, InboxLimits, MIN_WINDOW};
pub use messages::{Message, Outgoing, SMALL, SmallOutgoing};
pub use outbox::{NoRoom, Outbox, OutboxLimits, Put};
pub use outcome::{
    CANCELLED, Completion, EXPIRED, NOT_PERMITTED, Outcome, TOO_LONG, TOO_MANY_CHANNELS,
    undelivered,
};
pub use placement::{Place, PlacedBy, Placement};
pub use pool::Pool;
pub use receive_buffer::{LentMemory, ReceiveBuffer};
pub use sent_frame::SentFrame;
pub use sizes::charge;

#[cfg(test)]
mod tests;
