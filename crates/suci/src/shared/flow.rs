//! How a shared node's traffic flows, as its program decides.

use super::SharedNode;
use crate::error::Error;
use suci_proto::Priority;
use suci_proto::types::{ChannelId, NodeId};
use suci_proto::wire::Mode;

impl SharedNode {
    /// As [`Node::prefer`](crate::Node::prefer); blocks for a turn of the thread.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`].
    pub fn prefer(&self, node: NodeId, mode: Mode) -> Result<(), Error> {
        self.ask(node, move |driver| {
            driver.engine.prefer(driver.now(), node, mode)
        })?
        .map_err(|error| Error::from_send(node, error))
    }

    /// As [`Node::set_priority`](crate::Node::set_priority); blocks for a turn of the thread.
    /// Messages that wait between thread and program keep their order.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`].
    pub fn set_priority(&self, node: NodeId, priority: Priority) -> Result<(), Error> {
        self.ask(node, move |driver| {
            driver.engine.set_priority(node, priority)
        })?
        .map_err(|error| Error::from_send(node, error))
    }

    /// As [`Node::set_channel_priority`](crate::Node::set_channel_priority); blocks for a turn of
    /// the thread.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`], [`Error::Channels`], [`Error::ReservedChannel`].
    pub fn set_channel_priority(
        &self,
        node: NodeId,
        channel: ChannelId,
        priority: Priority,
    ) -> Result<(), Error> {
        Error::check_channel(channel)?;
        let gate = self.inner.shard_of(node).gate(node);
        self.ask(node, move |driver| {
            let done = driver.engine.set_channel_priority(node, channel, priority);
            // The caller's next message meets a gate that knows.
            if let (Some(gate), Ok(())) = (gate, &done) {
                gate.set_class(channel, priority.class());
            }
            done
        })?
        .map_err(|error| Error::from_send(node, error))
    }

    /// As [`Node::finish_channel`](crate::Node::finish_channel), for messages that were accepted
    /// before; blocks for a turn of the thread.
    ///
    /// # Errors
    /// As there.
    pub fn finish_channel(&self, node: NodeId, channel: ChannelId) -> Result<bool, Error> {
        Error::check_channel(channel)?;
        self.ask(node, move |driver| {
            let now = driver.now();
            driver.engine.finish_channel(now, node, channel)
        })?
        .map_err(|error| Error::from_send(node, error))
    }

    /// As [`Node::remote_window`](crate::Node::remote_window); blocks for a turn of the thread.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn remote_window(&self, node: NodeId, channel: ChannelId) -> Result<u64, Error> {
        self.ask(node, move |driver| {
            driver.engine.remote_window(driver.now(), node, channel)
        })
    }
}
