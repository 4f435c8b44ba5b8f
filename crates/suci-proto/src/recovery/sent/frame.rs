//! What a packet carried, as far as that matters to its fate.

use crate::types::{ChannelId, MessageNumber, PacketNumber};

/// What a packet carried that must be repeated if it is lost, or completed when acknowledged.
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
    /// Memory credit of a channel; what is repeated is the newest.
    MaxChannel {
        /// The channel.
        channel: ChannelId,
    },
    /// Memory credit of a channel used up.
    ChannelBlocked {
        /// The channel.
        channel: ChannelId,
    },
    /// The end of a channel.
    Fin {
        /// The channel.
        channel: ChannelId,
    },
    /// How many channels may be opened; what is repeated is the newest.
    MaxChannels,
    /// The announcement of a flow mode.
    Mode {
        /// Which announcement.
        number: u64,
    },
    /// A SUSPEND or RESUME.
    Suspension {
        /// Which one.
        number: u64,
    },
    /// The end of the session.
    Close,
    /// The return of reclaimed socket credit.
    Return {
        /// Of which grant.
        generation: u64,
    },
    /// An ACK frame whose largest was this: once acknowledged, older ranges need no repetition.
    Ack {
        /// The largest number it acknowledged.
        largest: PacketNumber,
    },
}

/// What kind of packet was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentKind {
    /// Whether the peer must acknowledge it: it counts as in flight and is watched by timers.
    pub eliciting: bool,
    /// Whether it probes what the path carries, a size or a mark: its loss says nothing about
    /// congestion.
    pub path_probe: bool,
    /// Whether it is eliciting and went beside the congestion window: such packets have a bound of
    /// their own, [`MAX_CONTROL`](super::MAX_CONTROL).
    pub control: bool,
}

impl SentFrame {
    /// Makes data reach to the end of `next`, if that is data of the same channel and begins where
    /// this ends.
    pub(crate) fn adjoin(&mut self, next: &Self) -> bool {
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
