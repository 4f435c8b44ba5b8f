//! The content of a sent packet that concerns a session.

use core::ops::Range;
use suci_link::link::Recorded;
use suci_link::recovery::Content;
use suci_link::types::{ChannelId, MessageNumber};

/// A frame of a session that must be repeated if its packet is lost, or completed when it is
/// acknowledged.
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
    /// A SUSPEND or RESUME.
    Suspension {
        /// Its number.
        number: u64,
    },
}

const _: () = assert!(
    size_of::<Recorded<SentFrame>>() == size_of::<SentFrame>(),
    "a link that keeps it needs no more memory"
);

impl Content for SentFrame {
    /// Extends data to the end of `next`, if `next` is data of the same channel that begins where
    /// this data ends.
    #[inline]
    fn adjoin(&mut self, next: &Self) -> bool {
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

    #[inline]
    fn divisible(&self) -> u64 {
        match self {
            Self::Data { start, end, .. } => end.saturating_sub(*start),
            _ => 0,
        }
    }

    #[inline]
    fn piece(&self, bytes: Range<u64>) -> Self {
        match *self {
            Self::Data { channel, start, .. } => Self::Data {
                channel,
                start: start.saturating_add(bytes.start),
                end: start.saturating_add(bytes.end),
            },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(channel: u32, start: u64, end: u64) -> SentFrame {
        let channel = ChannelId(channel);
        SentFrame::Data {
            channel,
            start,
            end,
        }
    }

    #[test]
    fn data_of_one_channel_adjoins_where_one_ends_and_the_next_begins() {
        let mut sum = data(1, 10, 20);
        assert!(sum.adjoin(&data(1, 20, 25)));
        assert_eq!(sum, data(1, 10, 25));
        let others = [data(2, 25, 30), data(1, 26, 30), data(1, 24, 30)];
        for other in others.into_iter().chain([SentFrame::MaxChannels]) {
            assert!(!sum.adjoin(&other));
            assert_eq!(sum, data(1, 10, 25), "nothing changed");
        }
    }

    #[test]
    fn only_data_is_divided() {
        let (whole, other) = (data(1, 100, 160), SentFrame::MaxChannels);
        assert_eq!((whole.divisible(), other.divisible()), (60, 0));
        assert_eq!(whole.piece(20..40), data(1, 120, 140));
        assert_eq!(other.piece(0..0), other);
    }
}
