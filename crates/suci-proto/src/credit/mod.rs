//! Socket credit: no peer sends more than its receiver's kernel buffer can hold.
//!
//! A receiver grants packet *numbers*, each charged at the worst true size that a packet of
//! its path costs in the socket buffer. The limit follows the highest number drained, so a
//! lost packet repays itself and no account of single packets is kept. An eighth of the
//! share is held back, because that many packets may still arrive late.
//!
//! A grant belongs to a *generation*, within which it only rises. A generation ends when its sender
//! RETURNs it (asked by RECLAIM, or by itself once it has lapsed) or by a lapse at the receiver.
//! Later grants of an ended generation are ignored. The sender's lapse always comes first. The
//! sender counts L from when it *sent* the newest acknowledged packet, the receiver 2L from when it
//! *drained* its last. So every packet sent before the sender's lapse had L to arrive.
//!
//! Control packets may go `control` numbers beyond the limit, at most
//! [`CONTROL_PACKET`](suci_link::limits::CONTROL_PACKET) bytes each, so that acks, probes and
//! BLOCKED pass a closed window.
//!
//! [`SendCredit`] is the sender's half, [`Grant`] the receiver's, both one per connection and
//! direction; [`Shares`] is the budget of one socket, and every change of a `Grant` passes
//! through it, so the sum cannot be exceeded. Memory credit lives with the messages.

mod grant;
mod need;
mod send;
mod shares;
mod stats;

pub use grant::Grant;
pub use need::{Demand, DrainedKind};
pub use send::{ControlAllowance, SendCredit};
pub(crate) use shares::{IDLE, TURN, Tenure};
pub use shares::{Overcommitted, Shares, data_charge};
pub use stats::ShareStats;

use suci_link::types::PacketNumber;
use suci_link::wire;

/// Fewest control packets that every grant allows beyond its limit; the peer limit follows from it.
const CONTROL_MIN: u64 = 2;

/// The socket half of a CREDIT body: which packet numbers a sender may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketCredit {
    /// The generation that this grant belongs to; a higher one replaces it.
    pub generation: u64,
    /// Highest packet number for data. In INIT and ACCEPT it counts from the first packet number of
    /// its reader (0: only that packet), since the writer of INIT does not know that number yet.
    /// The first number is 0 except in tests.
    pub limit: PacketNumber,
    /// How many numbers beyond the limit control packets may use.
    pub control: u64,
}

impl From<&wire::Credit> for SocketCredit {
    fn from(body: &wire::Credit) -> Self {
        Self {
            generation: body.generation,
            limit: body.limit,
            control: body.control,
        }
    }
}

/// The content of a RETURN: the answer to a RECLAIM, or the notice that a generation lapsed at its
/// sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketReturn {
    /// The generation that ended.
    pub generation: u64,
    /// Highest packet number sent so far; 0 also if nothing was sent yet.
    pub highest: PacketNumber,
    /// Largest UDP payload, in bytes, of packets with a higher number; 0 if the agreed size still
    /// holds.
    pub size: usize,
}

#[cfg(test)]
mod tests;
