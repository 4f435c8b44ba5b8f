//! Reports of the system and of a launcher about peers.

use crate::event::Unreachable;
use std::net::SocketAddr;

/// The system's report that a datagram was not delivered.
#[derive(Clone, Copy, Debug)]
pub struct Undelivered<'a> {
    /// Destination of the datagram.
    pub to: SocketAddr,
    /// Why it did not arrive.
    pub why: Unreachable,
    /// True if `to` is an address of this machine, and this machine's kernel made the report. Never
    /// true of a report that came from the network.
    pub local: bool,
    /// The first bytes of the datagram, as the report quotes them; the engine needs 28.
    pub quoted: &'a [u8],
}

/// The end of a process, as its launcher reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// Another process takes its place.
    Replaced,
    /// No other process takes its place. It ended in order.
    Finished,
    /// No other process takes its place. It failed: by a signal, or with an exit status other than
    /// 0.
    Failed,
}

impl ProcessEnd {
    /// Returns true if no other process takes its place.
    pub(crate) fn is_for_good(self) -> bool {
        self != Self::Replaced
    }
}
