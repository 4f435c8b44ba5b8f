//! Messages that leave together.

use crate::core::Core;
use crate::driver::Driver;
use crate::error::Error;
use crate::message::{self, OutgoingMessage};
use suci_proto::types::{ChannelId, Kind, MessageNumber, NodeId};
use suci_proto::{Lease, SMALL, SmallOutgoing};

/// Accepts messages without sending them: see [`Node::batch`](crate::Node::batch).
pub struct Batch<'a> {
    core: &'a Core,
    driver: &'a mut Driver,
    /// The last message, if it was a small one without a header.
    last: Option<Last>,
    /// Room for more messages like the last one. It is given back before the driver does anything
    /// else.
    lease: Option<Lease>,
}

/// The properties of a small message without a header. A lease accepts the messages that follow if
/// they have the same ones.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Last {
    to: NodeId,
    channel: ChannelId,
    tag: u64,
    kind: Kind,
    token: u64,
    notify: bool,
    bytes: usize,
}

impl Last {
    fn of(to: NodeId, message: &SmallOutgoing<'_>) -> Option<Self> {
        let last = Self {
            to,
            channel: message.channel,
            tag: message.tag,
            kind: message.kind,
            token: message.token,
            notify: message.notify,
            bytes: message.payload.len(),
        };
        (message.user_header.is_empty() && last.bytes <= SMALL).then_some(last)
    }
}

impl<'a> Batch<'a> {
    pub(crate) fn new(core: &'a Core, driver: &'a mut Driver) -> Self {
        driver.read_clock();
        Self {
            core,
            driver,
            last: None,
            lease: None,
        }
    }

    /// Accepts a message and returns its number on its channel. To a peer that prefers
    /// [`Response`](crate::Mode) it goes at once.
    ///
    /// # Errors
    /// As [`Node::send`](crate::Node::send).
    pub fn send(
        &mut self,
        to: NodeId,
        message: impl Into<OutgoingMessage>,
    ) -> Result<MessageNumber, Error> {
        let message = message.into();
        let mut last = None;
        if let Some(small) = message.as_small() {
            if let Some(number) = self.follow(to, &small) {
                return Ok(number);
            }
            last = Last::of(to, &small);
        }
        message.check()?;
        self.accept(last, |driver| driver.push(to, message))
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
        let last = Last::of(to, &small);
        self.accept(last, |driver| driver.push_copy(to, bytes))
    }

    /// Accepts a message by the lease, if it is like those before it and there is room for it.
    #[inline]
    fn follow(&mut self, to: NodeId, message: &SmallOutgoing<'_>) -> Option<MessageNumber> {
        let lease = self.lease.as_mut()?;
        if lease.node() != to || self.core.is_forked() {
            return None;
        }
        lease.push(message)
    }

    /// Accepts any message with `push`. It becomes `last` if a lease can accept others like it.
    fn accept(
        &mut self,
        last: Option<Last>,
        push: impl FnOnce(&mut Driver) -> Result<MessageNumber, Error>,
    ) -> Result<MessageNumber, Error> {
        // The program may have forked since the batch began.
        if self.core.is_forked() {
            return Err(Error::Forked);
        }
        self.give_back();
        let number = push(self.driver)?;
        self.driver.output_if_wanted();
        if let Some(last) = last
            && self.last == Some(last)
        {
            self.lease = self.driver.engine.lend(last.to, last.channel);
        }
        self.last = last;
        Ok(number)
    }

    fn give_back(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.driver.give_back(lease);
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.give_back();
        // The call that made the batch sends it, unless the program's function panicked.
        if std::thread::panicking() {
            self.driver.leave_output();
        }
    }
}

impl std::fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Batch")
    }
}
