//! Reports of the system that datagrams were not delivered: ICMP errors, and errors of sending.
//! Reports of a launcher that a process has ended.
//!
//! Anyone can forge an ICMP message, so a report ends nothing by itself (RFC 5927, section 5): it
//! is told as the cause if the peer stays silent. One kind of report is more reliable. When a
//! process of this machine ends, this machine's kernel answers for its port, and no packet from the
//! network can pass for that answer. Such a report makes the engine ask the peer for a sign of
//! life, and shortens the wait for its answer. A report of the program that started a process
//! counts as much, and it may add that no other process will follow.

use super::Engine;
use crate::event::Unreachable;
use crate::time::Instant;
use crate::types::NodeId;
use std::net::SocketAddr;

/// Most reports that are handled in each second: so many from the network, and so many from this
/// machine's kernel. Each report is compared with every active peer. They are counted apart,
/// because anyone can send reports from the network.
const REPORTS_PER_SECOND: u64 = 1_000;

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

impl Engine {
    /// Handles the system's report that a datagram was not delivered. Call it before
    /// [`Engine::handle_timeout`].
    pub fn on_undelivered(&mut self, now: Instant, report: &Undelivered<'_>) {
        self.shared.counters.unreachable += 1;
        let handled = match report.local {
            true => &mut self.reports_of_kernel,
            false => &mut self.reports_of_network,
        };
        if !handled.admit(now, REPORTS_PER_SECOND) {
            return;
        }
        let mut touched = Vec::new();
        for (key, peer) in self.peers.iter_active_mut() {
            if peer.on_undelivered(now, report, &mut self.shared) {
                touched.push(key);
            }
        }
        touched.into_iter().for_each(|key| self.touch(key));
    }

    /// Handles the launcher's report that the process of `node` has ended; `for_good`: that no
    /// other will take its place. The peer is asked for a sign of life. Without one for a few probe
    /// timeouts it is [`Lost`](crate::Event::Lost) by
    /// [`ProcessDied`](crate::LostCause::ProcessDied), and with `for_good` its session then ends.
    /// Until the node is heard again, each later session with it ends in the same way.
    ///
    /// Unknown nodes are ignored. The report must come from the launcher itself, never from the
    /// network. Call it after everything that had arrived was taken, and before
    /// [`Engine::handle_timeout`].
    pub fn on_process_ended(&mut self, now: Instant, node: NodeId, for_good: bool) {
        if let Ok(key) = self.known(node) {
            self.update(key, |peer, shared| {
                peer.on_process_ended(now, for_good, shared)
            });
        }
    }
}
