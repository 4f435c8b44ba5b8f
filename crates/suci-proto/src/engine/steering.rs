//! How the program decides about one peer's flow: controllers, and when to send again.

use super::Engine;
use crate::congestion::ControllerChoice;
use crate::steer::Steer;
use crate::time::Instant;
use crate::types::NodeId;

impl Engine {
    /// Which congestion controller decides for `node` from now on, in this connection and the next.
    /// It learns the path anew. False if there is no such node.
    pub fn set_controller(&mut self, node: NodeId, choice: ControllerChoice) -> bool {
        let Some(key) = self.peer_key(node) else {
            return false;
        };
        if let Some(peer) = self.peers.get_mut(key) {
            peer.controller = choice;
            if let Some(connection) = &mut peer.connection {
                connection.set_controller(choice);
            }
        }
        self.touch(key);
        true
    }

    /// Which congestion controller decides for `node` now; `None` without a connection.
    #[must_use]
    pub fn controller(&self, node: NodeId) -> Option<&'static str> {
        let peer = self.peers.get(self.peer_key(node)?)?;
        Some(peer.connection.as_ref()?.congestion.name())
    }

    /// Installs the program's controller of `node`, in place of the one before; `None` removes it.
    /// It is asked at once. False if there is no such node.
    pub fn steer(&mut self, now: Instant, node: NodeId, steer: Option<Box<dyn Steer>>) -> bool {
        let Some(key) = self.peer_key(node) else {
            return false;
        };
        if let Some(peer) = self.peers.get_mut(key) {
            peer.set_steer(now, steer);
        }
        self.touch(key);
        true
    }

    /// Messages to `node` take at most `rate` bytes per second of UDP payload from now on, what is
    /// sent again included, but at least a packet each second; `None`: whatever network and
    /// receiver take. Acknowledgements, probes and whatever else keeps the connection alive go on
    /// in any case, and so does what rides on a handshake. False if there is no such node.
    pub fn set_rate_cap(&mut self, now: Instant, node: NodeId, rate: Option<u64>) -> bool {
        let Some(key) = self.peer_key(node) else {
            return false;
        };
        if let Some(peer) = self.peers.get_mut(key) {
            peer.cap.set(now, rate);
        }
        self.touch(key);
        true
    }

    /// With `manual`, lost messages to `node` are sent again only when [`Engine::retransmit`] says
    /// so: the classic of user-level protocols. That holds for what was in flight on a path or
    /// connection that was replaced, too. Probes for signs of life go on. False if there is no such
    /// node.
    pub fn set_manual(&mut self, node: NodeId, manual: bool) -> bool {
        let Some(key) = self.peer_key(node) else {
            return false;
        };
        if let Some(peer) = self.peers.get_mut(key) {
            let was = core::mem::replace(&mut peer.session.manual, manual);
            if was && !manual {
                peer.retransmit();
            }
        }
        self.touch(key);
        true
    }

    /// Sends everything to `node` again that was sent and is not acknowledged. What was in flight
    /// counts as gone from the network: calling this again and again outruns congestion control,
    /// and only the receiver's credit is left as a bound. False if there is no such node.
    pub fn retransmit(&mut self, node: NodeId) -> bool {
        let Some(key) = self.peer_key(node) else {
            return false;
        };
        if let Some(peer) = self.peers.get_mut(key) {
            peer.retransmit();
        }
        self.touch(key);
        true
    }
}
