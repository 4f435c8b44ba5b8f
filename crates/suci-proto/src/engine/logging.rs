//! Records for the driver's log.

use super::Engine;
use crate::handshake::ArrivedPacket;
use crate::log::{DropReason, LogRecord};
use std::net::SocketAddr;
use suci_link::time::Instant;
use suci_link::types::NodeId;
use suci_link::wire::{HeaderError, PacketType};

impl Engine {
    /// Sets whether the engine makes records for [`Engine::poll_log`]. It makes none at first.
    /// Turning it off drops the records that wait.
    pub fn set_logging(&mut self, on: bool) {
        self.shared.log.set_on(on);
    }

    /// Returns the node whose engine this is.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.shared.identity.node
    }

    /// Returns true if the engine makes records.
    #[must_use]
    pub fn is_logging(&self) -> bool {
        self.shared.log.is_on()
    }

    /// Returns the next log record. Call it in each cycle until there is none. At most 256 records
    /// wait. At most 1,000 are made in each second, 100 of them about packets that anyone may have
    /// sent. [`LogRecord::Suppressed`] tells how many were left out.
    pub fn poll_log(&mut self) -> Option<LogRecord> {
        self.shared.log.poll(self.last_run)
    }

    /// Counts and logs a datagram that is no packet.
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

    /// Logs the arrival of a handshake packet that anyone may have sent.
    pub(super) fn log_received(&mut self, packet: &ArrivedPacket<'_>) {
        self.shared
            .log
            .add_unproven(packet.now, || LogRecord::Received {
                packet: packet.header.kind,
                peer: NodeId(packet.header.index),
                from: packet.arrival.from,
            });
    }

    /// Logs the arrival of a handshake packet that answers one of ours.
    pub(super) fn log_answer(&mut self, packet: &ArrivedPacket<'_>) {
        self.shared.log.add(packet.now, || LogRecord::Received {
            packet: packet.header.kind,
            peer: NodeId(packet.header.index),
            from: packet.arrival.from,
        });
    }

    /// Logs the drop of a packet that anyone may have sent.
    pub(super) fn log_dropped(&mut self, packet: &ArrivedPacket<'_>, reason: DropReason) {
        let named = packet.header.kind != PacketType::Data;
        self.shared
            .log
            .add_unproven(packet.now, || LogRecord::Dropped {
                packet: Some(packet.header.kind),
                peer: named.then_some(NodeId(packet.header.index)),
                from: packet.arrival.from,
                reason,
            });
    }

    /// Counts and logs the drop of a handshake packet that does not fit the state.
    pub(super) fn reject(&mut self, packet: &ArrivedPacket<'_>, reason: DropReason) {
        self.shared.counters.handshake_rejected += 1;
        self.log_dropped(packet, reason);
    }

    /// Counts and logs the drop of a handshake packet whose body cannot be read.
    pub(super) fn reject_malformed(&mut self, packet: &ArrivedPacket<'_>) {
        self.shared.counters.malformed += 1;
        self.log_dropped(packet, DropReason::Malformed);
    }
}
