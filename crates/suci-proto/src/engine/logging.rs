//! Records for the driver's log.

use super::Engine;
use crate::log::{DropReason, LogRecord};
use crate::time::Instant;
use crate::types::NodeId;
use crate::wire::{Header, HeaderError, PacketType};
use std::net::SocketAddr;

impl Engine {
    /// Whether the engine makes records for [`Engine::poll_log`]. It makes none at first. Records
    /// that wait are dropped when it ends.
    pub fn set_logging(&mut self, on: bool) {
        self.shared.log.set_on(on);
    }

    /// The node whose engine this is.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.shared.identity.node
    }

    /// Whether the engine makes records.
    #[must_use]
    pub fn is_logging(&self) -> bool {
        self.shared.log.is_on()
    }

    /// The next record of what happened. Ask in each turn, until there is none: at most 256 wait,
    /// and at most 1,000 are made in each second, of which 100 are about packets that anybody may
    /// have sent. [`LogRecord::Suppressed`] tells how many were left out.
    pub fn poll_log(&mut self) -> Option<LogRecord> {
        self.shared.log.poll(self.last_run)
    }

    /// A datagram came that is no packet.
    #[cold]
    pub(super) fn on_no_packet(&mut self, now: Instant, from: SocketAddr, error: HeaderError) {
        let counters = &mut self.shared.counters;
        match error {
            HeaderError::Version(_) => counters.wrong_version += 1,
            HeaderError::Checksum => counters.bad_checksum += 1,
            _ => counters.malformed += 1,
        }
        self.shared.log.add_unproven(now, || LogRecord::Dropped {
            packet: None,
            peer: None,
            from,
            reason: DropReason::Header(error),
        });
    }

    /// A handshake packet came that anybody may have sent.
    pub(super) fn log_received(&mut self, now: Instant, from: SocketAddr, header: &Header) {
        self.shared.log.add_unproven(now, || LogRecord::Received {
            packet: header.kind,
            peer: NodeId(header.index),
            from,
        });
    }

    /// A handshake packet came that answers one of ours.
    pub(super) fn log_answer(&mut self, now: Instant, from: SocketAddr, header: &Header) {
        self.shared.log.add(now, || LogRecord::Received {
            packet: header.kind,
            peer: NodeId(header.index),
            from,
        });
    }

    /// A packet is dropped that anybody may have sent.
    pub(super) fn log_dropped(
        &mut self,
        now: Instant,
        from: SocketAddr,
        header: &Header,
        reason: DropReason,
    ) {
        let named = header.kind != PacketType::Data;
        self.shared.log.add_unproven(now, || LogRecord::Dropped {
            packet: Some(header.kind),
            peer: named.then_some(NodeId(header.index)),
            from,
            reason,
        });
    }

    /// A handshake packet is dropped because it does not fit.
    pub(super) fn reject(
        &mut self,
        now: Instant,
        from: SocketAddr,
        header: &Header,
        reason: DropReason,
    ) {
        self.shared.counters.handshake_rejected += 1;
        self.log_dropped(now, from, header, reason);
    }

    /// A handshake packet is dropped because its body cannot be read.
    pub(super) fn reject_malformed(&mut self, now: Instant, from: SocketAddr, header: &Header) {
        self.shared.counters.malformed += 1;
        self.log_dropped(now, from, header, DropReason::Malformed);
    }
}
