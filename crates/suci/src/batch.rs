//! Messages that leave together.

use crate::core::Core;
use crate::driver::Driver;
use crate::error::Error;
use crate::message::Draft;
use suci_proto::time::Instant;
use suci_proto::types::{MessageNumber, NodeId};

/// Accepts messages without sending them: see [`Node::batch`](crate::Node::batch).
pub struct Batch<'a> {
    core: &'a Core,
    driver: &'a mut Driver,
    /// When it began, or when the driver last did more than accept: time never goes back for the engine.
    now: Instant,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(core: &'a Core, driver: &'a mut Driver) -> Self {
        let now = driver.now();
        Self { core, driver, now }
    }

    /// Accepts a message and returns its number on its channel. To a peer that prefers
    /// [`Response`](crate::Mode) it goes at once.
    ///
    /// # Errors
    /// As [`Node::send`](crate::Node::send).
    pub fn send(&mut self, to: NodeId, message: impl Into<Draft>) -> Result<MessageNumber, Error> {
        self.accept(|driver, now| driver.push(now, to, message.into()))
    }

    /// Accepts a copy of `bytes` on channel 0.
    ///
    /// # Errors
    /// As [`Node::send`](crate::Node::send).
    pub fn send_copy(&mut self, to: NodeId, bytes: &[u8]) -> Result<MessageNumber, Error> {
        self.accept(|driver, now| driver.push_copy(now, to, bytes))
    }

    fn accept(
        &mut self,
        push: impl FnOnce(&mut Driver, &mut Instant) -> Result<MessageNumber, Error>,
    ) -> Result<MessageNumber, Error> {
        // The program may have forked since the batch began.
        if self.core.is_forked() {
            return Err(Error::Forked);
        }
        let number = push(self.driver, &mut self.now)?;
        if self.driver.flush_if_wanted() {
            self.now = self.driver.now();
        }
        Ok(number)
    }
}

impl std::fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Batch")
    }
}
