//! Tells `tracing` how connections come up and end, and which packets were dropped: target `suci`,
//! level `DEBUG`.
//!
//! The engine makes records of rare steps only, and of a bounded number in each second, whatever
//! peers send.

use crate::driver::Driver;
use crate::security::{Cipher, KeyError, KeyId};
use crate::statistics::NoFile;
use std::net::SocketAddr;
use suci_proto::LogRecord;
use suci_proto::types::NodeId;
use tracing::{Level, debug, enabled, warn};

/// The target of all events.
const TARGET: &str = "suci";

/// Whether a subscriber wants the events.
#[inline]
pub(crate) fn is_wanted() -> bool {
    enabled!(target: TARGET, Level::DEBUG)
}

/// A node is open: logs its address for peers, and the number of peers that its buffer serves.
pub(crate) fn opened(node: NodeId, address: SocketAddr, recv_buffer: usize, peer_limit: u64) {
    debug!(target: TARGET, node = node.0, %address, recv_buffer, peer_limit, "node opened");
}

/// A node seals its packets: logs with which cipher, and which keys it has.
pub(crate) fn sealed(node: NodeId, cipher: Cipher, keys: &[KeyId]) {
    debug!(target: TARGET, node = node.0, %cipher, ?keys, "packets are sealed");
}

/// A node has other keys now.
pub(crate) fn keys_changed(node: NodeId, keys: &[KeyId]) {
    debug!(target: TARGET, node = node.0, ?keys, "keys changed");
}

/// The changed key file of a node cannot be used: the node keeps its keys. That is a warning, since
/// the node may soon be the only one without the new key.
pub(crate) fn key_file_unusable(node: NodeId, error: &KeyError) {
    warn!(target: TARGET, node = node.0, %error, "the node keeps its keys");
}

/// A node has no statistics file.
pub(crate) fn no_statistics(node: NodeId, error: &NoFile) {
    warn!(target: TARGET, node = node.0, %error, "statistics are not published");
}

impl Driver {
    /// Writes the engine's records to the log, and tells the engine whether a subscriber wants
    /// more. It costs one test if none does.
    #[inline]
    pub(crate) fn write_log(&mut self) {
        let wanted = is_wanted();
        if wanted || self.engine.is_logging() {
            self.write_records(wanted);
        }
    }

    #[cold]
    fn write_records(&mut self, wanted: bool) {
        if wanted != self.engine.is_logging() {
            self.engine.set_logging(wanted);
        }
        let node = self.engine.node();
        while let Some(record) = self.engine.poll_log() {
            write(node, &record);
        }
    }
}

/// Writes a record of `node`.
fn write(node: NodeId, record: &LogRecord) {
    let node = node.0;
    match *record {
        LogRecord::Sent {
            packet,
            peer,
            to,
            tries,
        } => {
            debug!(target: TARGET, node, peer = peer.0, address = %to, %packet, tries, "handshake packet sent");
        }
        LogRecord::Received { packet, peer, from } => {
            debug!(target: TARGET, node, peer = peer.0, address = %from, %packet, "handshake packet received");
        }
        LogRecord::Dropped {
            packet,
            peer,
            from,
            reason,
        } => {
            let (peer, packet) = (peer.map(|peer| peer.0), packet.map(tracing::field::display));
            debug!(target: TARGET, node, peer, address = %from, packet, %reason, "packet dropped");
        }
        LogRecord::Refuses { peer, to, reason } => {
            debug!(name: "refuses", target: TARGET, node, peer = peer.0, address = %to, ?reason, remedy = %reason, "refuses a peer");
        }
        LogRecord::Refused { peer, reason } => {
            debug!(target: TARGET, node, peer = peer.0, ?reason, remedy = %reason, "connection refused");
        }
        LogRecord::Connected {
            peer,
            to,
            epoch,
            datagram,
        } => {
            debug!(target: TARGET, node, peer = peer.0, address = %to, epoch = epoch.0, datagram, "connected");
        }
        LogRecord::PacketSize { to, datagram } => {
            debug!(target: TARGET, node, address = %to, datagram, "packet size changed");
        }
        LogRecord::Moved { peer, from, to } => {
            debug!(target: TARGET, node, peer = peer.0, %from, address = %to, "peer moved to another address");
        }
        LogRecord::Undelivered {
            peer,
            to,
            reason,
            local,
        } => {
            debug!(target: TARGET, node, peer = peer.0, address = %to, ?reason, local, "datagram not delivered");
        }
        LogRecord::Suppressed { records } => {
            debug!(target: TARGET, node, records, "too many events: some were left out");
        }
        LogRecord::Up { .. }
        | LogRecord::Lost { .. }
        | LogRecord::Quiet { .. }
        | LogRecord::Ended { .. } => write_state(node, record),
    }
}

/// The same for a record about the state of the link to a peer.
fn write_state(node: u32, record: &LogRecord) {
    match *record {
        LogRecord::Up { peer, session } => {
            debug!(target: TARGET, node, peer = peer.0, session = session.0, "peer is up");
        }
        LogRecord::Lost { peer, at, cause } => {
            let address = at.map(tracing::field::display);
            debug!(target: TARGET, node, peer = peer.0, address, ?cause, "peer is lost");
        }
        LogRecord::Quiet { peer } => {
            debug!(target: TARGET, node, peer = peer.0, "peer is quiet");
        }
        LogRecord::Ended {
            peer,
            session,
            reason,
            undelivered,
        } => {
            debug!(target: TARGET, node, peer = peer.0, session = session.0, ?reason, undelivered, "session ended");
        }
        _ => {}
    }
}
