//! One message of a channel on its way in, from nothing to what the program takes.

use super::assembly::{Assembly, Way};
use super::{charge, len64};
use crate::limits::MESSAGE_CHARGE;
use crate::types::Kind;
use bytes::Bytes;

/// A message from the channel's front on. Small: a peer can make us keep one per 64 B of its credit.
#[derive(Debug)]
pub(super) enum Slot {
    /// Nothing came yet.
    Unseen,
    /// Came in one piece: header and payload side by side.
    Whole {
        bytes: Bytes,
        tag: u64,
        kind: Kind,
        header_len: u8,
    },
    /// Comes in pieces, or was announced.
    Pieces(Box<Assembly>),
    /// Complete, after it came in pieces.
    Assembled(Box<Assembly>),
    /// The program did not want it. Charged so much.
    Refused { charge: u64 },
}

const _: () = assert!(
    size_of::<Slot>() <= 64,
    "no more than what a message is charged"
);

impl Slot {
    /// What it counts against memory credit.
    pub(super) fn charge(&self) -> u64 {
        match self {
            Self::Unseen => MESSAGE_CHARGE,
            Self::Whole { bytes, .. } => charge(len64(bytes.len()), 0),
            Self::Pieces(assembly) | Self::Assembled(assembly) => assembly.charge(),
            Self::Refused { charge } => *charge,
        }
    }

    /// Whether the message was announced by RTS.
    pub(super) fn has_asked(&self) -> bool {
        match self {
            Self::Unseen | Self::Whole { .. } => false,
            Self::Pieces(assembly) | Self::Assembled(assembly) => assembly.way != Way::Unasked,
            Self::Refused { .. } => true,
        }
    }

    /// Whether the program can take it, once it is first.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self, Self::Whole { .. } | Self::Assembled(_))
    }

    /// Whether it holds up nothing behind it.
    pub(super) fn is_settled(&self) -> bool {
        self.is_complete() || matches!(self, Self::Refused { .. })
    }
}
