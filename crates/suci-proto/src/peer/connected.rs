//! A peer that has a connection, as the functions see it that build its packets and take its
//! frames.

use super::{Closing, Connection, Peer, Session};
use crate::counters::Traffic;
use crate::peer::life::Life;
use std::net::SocketAddr;
use suci_link::rate_cap::RateCap;
use suci_link::time::Duration;
use suci_link::types::NodeId;

/// The parts of a peer that has a connection which a packet is made of, which note that it was
/// sent, or which a received packet changes. [`Peer::connected`] is the only place that asks if
/// there is a connection. Events for the program are not among them: what a received packet tells
/// it is in `Effects`.
pub(super) struct Connected<'a> {
    pub(super) node: NodeId,
    /// The peer's key in the engine.
    pub(super) key: usize,
    pub(super) connection: &'a mut Connection,
    pub(super) session: &'a mut Session,
    pub(super) life: &'a mut Life,
    pub(super) cap: &'a mut RateCap,
    pub(super) traffic: &'a mut Traffic,
    pub(super) last_source: &'a mut Option<SocketAddr>,
    pub(super) silence_timeout: Duration,
    pub(super) closing: Closing,
    /// As [`Peer::is_up`].
    pub(super) is_up: bool,
    /// As [`Peer::carries_data`].
    pub(super) carries_data: bool,
    /// The session is over: the connection only answers repeated CLOSEs.
    pub(super) is_over: bool,
}

impl Peer {
    /// Returns the parts of a peer that has a connection; `None` without one.
    #[inline(always)]
    pub(super) fn connected(&mut self) -> Option<Connected<'_>> {
        let (is_up, carries_data) = (self.is_up(), self.carries_data());
        Some(Connected {
            node: self.node,
            key: self.key,
            connection: self.connection.as_mut()?,
            session: &mut self.session,
            life: &mut self.life,
            cap: &mut self.cap,
            traffic: &mut self.traffic,
            last_source: &mut self.last_source,
            silence_timeout: self.options.silence_timeout,
            closing: self.closing,
            is_up,
            carries_data,
            is_over: self.lingering.is_some(),
        })
    }
}
