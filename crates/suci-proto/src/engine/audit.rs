//! The engine's invariants, checked from outside: the simulator asks at every step.

use super::Engine;
use crate::time::Instant;

impl Engine {
    /// Checks what must always hold: memory below its cap, socket budget not exceeded, nothing in flight
    /// beyond its limits.
    ///
    /// # Errors
    /// What does not hold, in words.
    pub fn audit(&self, now: Instant) -> Result<(), String> {
        self.shared
            .shares
            .check()
            .map_err(|error| format!("socket budget: {error}"))?;
        if !self.shared.memory.is_sound() {
            return Err(format!(
                "memory promised beyond the pool: {:?}",
                self.shared.memory
            ));
        }
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
}
