//! The questions of an inbox to the program, and its answers to the peer.

use super::{ReceiveBuffer, SentFrame};
use bytes::Bytes;
use core::fmt;
use suci_link::types::{ChannelId, Kind, MessageNumber};
use suci_link::wire::Frame;

/// A large message that needs the program's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingInfo {
    /// Its channel.
    pub channel: ChannelId,
    /// Its number.
    pub number: MessageNumber,
    /// Its length in bytes.
    pub total: u64,
    /// The program's tag.
    pub tag: u64,
    /// The program's kind of message.
    pub kind: Kind,
    /// The program's header.
    pub user_header: Bytes,
}

/// An answer that must be sent to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Permission to send a message.
    Cts {
        /// Its channel.
        channel: ChannelId,
        /// Its number.
        message: MessageNumber,
    },
    /// Refusal of a message.
    Refuse {
        /// Its channel.
        channel: ChannelId,
        /// Its number.
        message: MessageNumber,
        /// The program's reason.
        reason: u64,
    },
    /// A channel's memory credit.
    MaxChannel {
        /// The channel.
        channel: ChannelId,
        /// The absolute limit.
        limit: u64,
    },
    /// The number of channels that the peer may open.
    MaxChannels {
        /// The limit, which counts all channels that the peer ever opened.
        limit: u64,
    },
}

impl Answer {
    /// Returns the frame, and the record of it for the packet that carries it.
    #[must_use]
    pub const fn frame(&self) -> (Frame<'static>, SentFrame) {
        match *self {
            Self::Cts { channel, message } => (
                Frame::Cts { channel, message },
                SentFrame::Cts { channel, message },
            ),
            Self::Refuse {
                channel,
                message,
                reason,
            } => (
                Frame::Refuse {
                    channel,
                    message,
                    reason,
                },
                SentFrame::Refuse { channel, message },
            ),
            Self::MaxChannel { channel, limit } => (
                Frame::MaxChannel { channel, limit },
                SentFrame::MaxChannel { channel },
            ),
            Self::MaxChannels { limit } => (Frame::MaxChannels { limit }, SentFrame::MaxChannels),
        }
    }
}

/// The reason why a large message cannot be answered.
#[derive(PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// No such message waits for an answer.
    #[error("no such message waits for an answer: it was answered, or withdrawn, before")]
    NotWaiting,
    /// The buffer is shorter than the message; it is given back.
    #[error("the buffer has {} bytes, the message {needed}: offer a longer one", .buffer.len())]
    TooShort {
        /// The buffer.
        buffer: ReceiveBuffer,
        /// Bytes that the message has.
        needed: u64,
    },
    /// The message is longer than the library may hold, so it needs a buffer of the program.
    #[error(
        "a message of {total} bytes needs a buffer: accept it into one of the program, or raise memory, half of which \
         ({max} bytes) the library may hold"
    )]
    NeedsBuffer {
        /// Bytes that the message has.
        total: u64,
        /// Budget of all large messages, in bytes.
        max: u64,
    },
}

impl fmt::Debug for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWaiting => f.write_str("NotWaiting"),
            Self::TooShort { buffer, needed } => f
                .debug_struct("TooShort")
                .field("buffer", buffer)
                .field("needed", needed)
                .finish(),
            Self::NeedsBuffer { total, max } => f
                .debug_struct("NeedsBuffer")
                .field("total", total)
                .field("max", max)
                .finish(),
        }
    }
}
