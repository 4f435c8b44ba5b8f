//! The outcome of a message, and its cause.

use super::sizes::len64;
use suci_link::types::{ChannelId, MessageNumber};

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
