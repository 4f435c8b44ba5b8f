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
mod shares;
mod stats;

pub use grant::Grant;
pub use need::Demand;
pub(crate) use shares::{IDLE, TURN, Tenure};
pub use shares::{Overcommitted, Shares};
pub use stats::ShareStats;
pub use suci_link::credit::{
    CONTROL_MIN, ControlAllowance, SendCredit, SocketCredit, SocketReturn, data_charge,
};
pub use suci_link::link::DrainedKind;

#[cfg(test)]
mod tests;
