//! Messages that leave together.

use crate::core::Core;
use crate::driver::Driver;
use crate::error::Error;
use crate::message::{self, Draft};
use suci_proto::time::Instant;
use suci_proto::types::{ChannelId, MessageNumber, NodeId};
use suci_proto::{Lease, SMALL, SmallOutgoing};

/// Accepts messages without sending them: see [`Node::batch`](crate::Node::batch).
pub struct Batch<'a> {
    core: &'a Core,
    driver: &'a mut Driver,
    /// When it began, or when the driver last did more than accept: time never goes back for the engine.
    now: Instant,
    /// The last message, if it was a small one.
    last: Option<Last>,
    /// Room for more of its like, to be given back before the driver is asked for anything else.
    lease: Option<Lease>,
}

/// To whom a message went, on which channel, and how many bytes it has.
type Last = (NodeId, ChannelId, usize);

impl<'a> Batch<'a> {
    pub(crate) fn new(core: &'a Core, driver: &'a mut Driver) -> Self {
        let now = driver.now();
        Self {
            core,
            driver,
            now,
            last: None,
            lease: None,
        }
    }

    /// Accepts a message and returns its number on its channel. To a peer that prefers
    /// [`Response`](crate::Mode) it goes at once.
    ///
    /// # Errors
    /// As [`Node::send`](crate::Node::send).
    pub fn send(&mut self, to: NodeId, message: impl Into<Draft>) -> Result<MessageNumber, Error> {
        let draft = message.into();
        let mut last = None;
        if let Some(small) = draft.as_small() {
            if let Some(number) = self.follow(to, &small) {
                return Ok(number);
            }
            last = Some((to, small.channel, small.payload.len()));
        }
        self.accept(last, |driver, now| driver.push(now, to, draft))
    }

    /// Accepts a copy of `bytes` on channel 0.
    ///
    /// # Errors
    /// As [`Node::send`](crate::Node::send).
    pub fn send_copy(&mut self, to: NodeId, bytes: &[u8]) -> Result<MessageNumber, Error> {
        let small = message::small(bytes);
        if let Some(number) = self.follow(to, &small) {
            return Ok(number);
        }
        let last = (bytes.len() <= SMALL).then_some((to, small.channel, bytes.len()));
        self.accept(last, |driver, now| driver.push_copy(now, to, bytes))
    }

    /// Accepts a message that is like those before it, if there is room for it.
    #[inline]
    fn follow(&mut self, to: NodeId, message: &SmallOutgoing<'_>) -> Option<MessageNumber> {
        let (lease, (peer, ..)) = (self.lease.as_mut()?, self.last?);
        if peer != to || self.core.is_forked() {
            return None;
        }
        lease.push(message)
    }

    /// Accepts any message with `push`. If it is a small one it will be the `last`.
    fn accept(
        &mut self,
        last: Option<Last>,
        push: impl FnOnce(&mut Driver, &mut Instant) -> Result<MessageNumber, Error>,
    ) -> Result<MessageNumber, Error> {
        // The program may have forked since the batch began.
        if self.core.is_forked() {
            return Err(Error::Forked);
        }
        self.give_back();
        let number = push(self.driver, &mut self.now)?;
        if self.driver.flush_if_wanted() {
            self.now = self.driver.now();
        }
        if let Some((to, channel, _)) = last
            && last == self.last
        {
            self.lease = self.driver.lend(to, channel);
        }
        self.last = last;
        Ok(number)
    }

    fn give_back(&mut self) {
        if let (Some(lease), Some((to, ..))) = (self.lease.take(), self.last) {
            self.driver.give_back(self.now, to, lease);
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl std::fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Batch")
    }
}
