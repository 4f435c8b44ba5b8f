//! The content of a sent packet, as far as its loss or acknowledgement has consequences.

use crate::types::{ChannelId, MessageNumber, PacketNumber};

/// A frame that must be repeated if its packet is lost, or completed when it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentFrame {
    /// Messages, or parts of them: the positions `start..end` of a channel, at least one. Positions
    /// count the bytes of all its messages side by side (`SendSegment`).
    Data {
        /// The channel.
        channel: ChannelId,
        /// The first position.
        start: u64,
        /// The position behind the last.
        end: u64,
    },
    /// The request to send a large message.
    Rts {
        /// Its channel.
        channel: ChannelId,
        /// The message.
        message: MessageNumber,
    },
    /// The permission to send a large message.
    Cts {
        /// Its channel.
        channel: ChannelId,
        /// The message.
        message: MessageNumber,
    },
    /// The refusal of a large message.
    Refuse {
        /// Its channel.
        channel: ChannelId,
        /// The message.
        message: MessageNumber,
    },
    /// Memory credit of a channel. A repetition carries the newest limit.
    MaxChannel {
        /// The channel.
        channel: ChannelId,
    },
    /// The notice that a channel's memory credit is used up.
    ChannelBlocked {
        /// The channel.
        channel: ChannelId,
    },
    /// The end of a channel.
    Fin {
        /// The channel.
        channel: ChannelId,
    },
    /// The number of channels that may be opened. A repetition carries the newest number.
    MaxChannels,
    /// The announcement of a flow mode.
    Mode {
        /// The number of the announcement.
        number: u64,
    },
    /// A SUSPEND or RESUME.
    Suspension {
        /// Its number.
        number: u64,
    },
    /// The end of the session.
    Close,
    /// The return of reclaimed socket credit.
    Return {
        /// The generation of the grant.
        generation: u64,
    },
    /// An ACK frame. Once it is acknowledged, ranges up to its largest number need no repetition.
    Ack {
        /// The largest number it acknowledged.
        largest: PacketNumber,
    },
}

/// The kind of a sent packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentKind {
    /// The peer must acknowledge the packet. It counts as in flight and is watched by timers.
    pub eliciting: bool,
    /// The packet probes the path: a packet size or ECN marks. Its loss is no sign of congestion.
    pub path_probe: bool,
    /// The packet is eliciting and was sent outside the congestion window. Such packets have their
    /// own bound, [`MAX_CONTROL`](super::MAX_CONTROL).
    pub control: bool,
}

impl SentFrame {
    /// Extends data to the end of `next`, if `next` is data of the same channel that begins where
    /// this data ends. Returns true if it did.
    pub fn adjoin(&mut self, next: &Self) -> bool {
        let (
            Self::Data { channel, end, .. },
            &Self::Data {
                channel: of,
                start,
                end: reach,
            },
        ) = (self, next)
        else {
            return false;
        };
        let adjoins = (*channel, *end) == (of, start);
        if adjoins {
            *end = reach;
        }
        adjoins
    }
}
