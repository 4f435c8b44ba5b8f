//! Reports of the system that datagrams were not delivered: ICMP errors, and errors of sending.
//! Reports of a launcher that a process has ended, and that it would report that.
//!
//! Anyone can forge an ICMP message, so a report ends nothing by itself (RFC 5927, section 5): it
//! is told as the cause if the peer stays silent. One kind of report is more reliable. When a
//! process of this machine ends, this machine's kernel answers for its port, and no packet from the
//! network can pass for that answer. Such a report makes the engine ask the peer for a sign of
//! life, and shortens the wait for its answer. A report of the program that started a process
//! counts as much, and it may add that no other process will follow.

use super::Engine;
use crate::undelivered::{ProcessEnd, Undelivered};
use std::ops::RangeInclusive;
use suci_link::time::Instant;
use suci_link::types::NodeId;

/// Maximum number of reports that are handled in each second: this many from the network, and this
/// many from this machine's kernel. Each report is compared with every active peer. They are
/// counted apart, because anyone can send reports from the network.
const REPORTS_PER_SECOND: u64 = 1_000;

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

    /// Handles the launcher's report that the process of `node` has ended. The peer is asked for a
    /// sign of life. Without one for a few probe timeouts it is [`Lost`](crate::Event::Lost) by
    /// [`ProcessDied`](crate::LostCause::ProcessDied), and its session then ends, unless another
    /// process takes its place. Until the node is heard again, each later session with it ends in
    /// the same way.
    ///
    /// A node that never had a session with this one is reported only if something waits for it, or
    /// if its process failed: the program may wait for its first message. Processes that never
    /// talked end in order without an event.
    ///
    /// Unknown nodes are ignored. The report must come from the launcher itself, never from the
    /// network. Call it after everything that had arrived was taken, and before
    /// [`Engine::handle_timeout`].
    pub fn on_process_ended(&mut self, now: Instant, node: NodeId, end: ProcessEnd) {
        if end.is_for_good() {
            // If another process is heard under this ID, it is not the launcher's.
            self.peers.supervise(node.0..=node.0, false);
        }
        if let Ok(key) = self.known(node) {
            self.update(key, |peer, shared| peer.on_process_ended(now, end, shared));
        }
    }

    /// Notes whether a launcher reports each end of the processes of these nodes, by
    /// [`Engine::on_process_ended`], until it says that a node's last process has ended. The
    /// silence of such a peer then shows nothing: however long it starts, or is stopped, it is
    /// reported as [`Quiet`](crate::Event::Quiet) instead of lost, and never given up. A peer that
    /// refuses this node for good is not silent: the limits of silence hold for it.
    ///
    /// It holds for nodes that are added later, too. The report must come from the launcher itself,
    /// never from the network.
    pub fn set_supervised(&mut self, nodes: RangeInclusive<u32>, supervised: bool) {
        for key in self.peers.supervise(nodes, supervised) {
            self.touch(key);
        }
    }
}
