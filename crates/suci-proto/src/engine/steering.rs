//! The program's control of one peer's flow: its steering function, and retransmission on demand.

use super::Engine;
use crate::steer::Steer;
use suci_link::time::Instant;
use suci_link::types::NodeId;

impl Engine {
    /// Returns the name of the congestion controller of `node` now; `None` without a connection.
    #[must_use]
    pub fn controller(&self, node: NodeId) -> Option<&'static str> {
        Some(self.peer(node)?.connection.as_ref()?.link.congestion.name())
    }

    /// Installs the program's steering function of `node`, in place of the one before; `None`
    /// removes it. It is asked at once. Returns false if there is no such node.
    pub fn steer(&mut self, now: Instant, node: NodeId, steer: Option<Box<dyn Steer>>) -> bool {
        let Some(key) = self.peer_key(node) else {
            return false;
        };
        self.update(key, |peer, _| peer.set_steer(now, steer));
        true
    }

    /// Sends everything to `node` again that was sent and is not acknowledged. Packets in flight
    /// count as gone from the network: repeated calls outrun congestion control, so that only the
    /// receiver's credit bounds the flow. Returns false if there is no such node.
    pub fn retransmit(&mut self, node: NodeId) -> bool {
        let Some(key) = self.peer_key(node) else {
            return false;
        };
        self.update(key, |peer, _| peer.retransmit());
        true
    }
}
