//! The engine's invariants, checked from outside: the simulator asks at every step.

use super::Engine;
use suci_link::time::Instant;
use suci_link::types::NodeId;

impl Engine {
    /// Checks the invariants: memory below its cap, socket budget not exceeded, nothing in flight
    /// beyond its limits. Looks at every peer.
    ///
    /// # Errors
    /// The violated invariant, in words.
    pub fn audit(&self, now: Instant) -> Result<(), String> {
        self.audit_shared()?;
        let mut held = 0;
        for (key, peer) in self.peers.iter() {
            held += peer.memory_used();
            peer.audit(now, self.dirty.is_listed(key))?;
        }
        if held > self.shared.config.memory {
            return Err(format!(
                "{held} B held, cap {} B",
                self.shared.config.memory
            ));
        }
        Ok(())
    }

    /// Checks the same for the named peers and for the state that all peers share, but not the
    /// memory of all peers in sum. For engines with many peers, few of which changed since the last
    /// check. Nodes that are no peers are passed over.
    ///
    /// # Errors
    /// The violated invariant, in words.
    pub fn audit_peers(&self, now: Instant, nodes: &[NodeId]) -> Result<(), String> {
        self.audit_shared()?;
        let keys = nodes.iter().filter_map(|node| self.peer_key(*node));
        for key in keys {
            if let Some(peer) = self.peers.get(key) {
                peer.audit(now, self.dirty.is_listed(key))?;
            }
        }
        Ok(())
    }

    fn audit_shared(&self) -> Result<(), String> {
        self.shared
            .shares
            .check()
            .map_err(|error| format!("socket budget: {error}"))?;
        if self.shared.memory.is_sound() {
            return Ok(());
        }
        Err(format!(
            "memory promised beyond the pool: {:?}",
            self.shared.memory
        ))
    }
}
