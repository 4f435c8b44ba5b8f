//! The record that a link keeps of a packet, until the packet's fate is known.

use crate::recovery::Content;
use crate::types::PacketNumber;
use core::ops::Range;

/// A frame that must be repeated if its packet is lost, or completed when it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded<T> {
    /// The session's content.
    Cargo(T),
    /// The announcement of a flow mode.
    Mode {
        /// The number of the announcement.
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

impl<T: Content> Content for Recorded<T> {
    #[inline]
    fn adjoin(&mut self, next: &Self) -> bool {
        match (self, next) {
            (Self::Cargo(part), Self::Cargo(next)) => part.adjoin(next),
            _ => false,
        }
    }

    #[inline]
    fn divisible(&self) -> u64 {
        match self {
            Self::Cargo(part) => part.divisible(),
            _ => 0,
        }
    }

    #[inline]
    fn piece(&self, bytes: Range<u64>) -> Self {
        match self {
            Self::Cargo(part) => Self::Cargo(part.piece(bytes)),
            other => *other,
        }
    }

    #[inline]
    fn is_repeated(&self) -> bool {
        !matches!(self, Self::Ack { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Nothing {}

    impl Content for Nothing {}

    #[test]
    fn frames_of_a_link_are_whole_and_probes_repeat_no_acknowledgement() {
        let frames: [Recorded<Nothing>; 4] = [
            Recorded::Mode { number: 1 },
            Recorded::Close,
            Recorded::Return { generation: 1 },
            Recorded::Ack { largest: 1 },
        ];
        for mut frame in frames {
            assert!(!frame.adjoin(&frames[0]) && frame.divisible() == 0);
            assert_eq!(frame.piece(0..0), frame);
        }
        assert_eq!(
            frames.map(|frame| frame.is_repeated()),
            [true, true, true, false]
        );
    }
}
