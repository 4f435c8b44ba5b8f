//! How a node's traffic flows, as its program decides.

use super::Node;
use crate::error::Error;
use suci_proto::Priority;
use suci_proto::types::{ChannelId, NodeId};
use suci_proto::wire::Mode;

impl Node {
    /// How traffic to `node` should flow from now on: many bytes, or early answers. The peer is
    /// told and does its part. [`Mode`] says what changes;
    /// [`NodeBuilder::prefer`](crate::NodeBuilder::prefer) sets what holds for peers of which
    /// nothing is said.
    ///
    /// ```
    /// # fn main() -> Result<(), suci::Error> {
    /// use suci::{ChannelId, Mode, Node, NodeId, Priority};
    /// let mut node = Node::builder().id(NodeId(1)).open()?;
    /// node.add_peer(NodeId(0), "127.0.0.1:7000".parse().unwrap())?;
    /// node.prefer(NodeId(0), Mode::Throughput)?;
    /// // Questions overtake the bulk on other channels.
    /// let urgent = Priority::new(6, 16).unwrap();
    /// node.set_channel_priority(NodeId(0), ChannelId(1), urgent)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`].
    pub fn prefer(&mut self, node: NodeId, mode: Mode) -> Result<(), Error> {
        let mut turn = self.enter_open()?;
        let now = turn.now();
        turn.engine
            .prefer(now, node, mode)
            .map_err(|error| Error::from_send(node, error))?;
        turn.output()
    }

    /// How urgent `node` is beside other nodes: whose packets go first, and whose messages
    /// [`Node::recv`] takes first. Default: [`Priority::DEFAULT`].
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`].
    pub fn set_priority(&mut self, node: NodeId, priority: Priority) -> Result<(), Error> {
        self.enter_open()?
            .engine
            .set_priority(node, priority)
            .map_err(|error| Error::from_send(node, error))
    }

    /// How urgent a channel is beside other channels of the same node, in both directions. Where
    /// its class is higher than that of the node ([`Node::set_priority`]), it counts as that class
    /// beside other nodes, too: its messages wait for one train at most, whatever is queued for
    /// whom.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`], [`Error::Channels`], [`Error::ReservedChannel`].
    pub fn set_channel_priority(
        &mut self,
        node: NodeId,
        channel: ChannelId,
        priority: Priority,
    ) -> Result<(), Error> {
        Error::check_channel(channel)?;
        self.enter_open()?
            .engine
            .set_channel_priority(node, channel, priority)
            .map_err(|error| Error::from_send(node, error))
    }

    /// Sends nothing more on `channel`. When all its messages were acknowledged the peer is told;
    /// its program hears [`Event::ChannelFinished`](crate::Event::ChannelFinished) after the last
    /// of them. Then nothing of the channel is kept but its number, which cannot be used again in
    /// this session: sending on it fails with [`Error::FinishedChannel`]. Numbers that go up are
    /// remembered as one range. The other direction goes on until the peer finishes it. The
    /// channel's priority is forgotten.
    ///
    /// Replies to the peer's requests on the channel count as messages on it: send them before.
    ///
    /// Returns at once. False if the channel was finished before, or the session is closing.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`], [`Error::ReservedChannel`]; [`Error::Channels`]
    /// if it was not used yet and cannot be opened.
    pub fn finish_channel(&mut self, node: NodeId, channel: ChannelId) -> Result<bool, Error> {
        Error::check_channel(channel)?;
        let mut turn = self.enter_open()?;
        let now = turn.now();
        let finished = turn.engine.finish_channel(now, node, channel);
        let finished = finished.map_err(|error| Error::from_send(node, error))?;
        turn.output()?;
        Ok(finished)
    }

    /// Bytes that `node` would take now as one message on `channel`, if nothing were queued before
    /// it ([`Node::queue_len`]): as far as its kernel's buffer and its library's memory are known
    /// to have room. 0 while it is not up. [`Node::send`] takes more than that; it waits here then.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn remote_window(&self, node: NodeId, channel: ChannelId) -> Result<u64, Error> {
        let turn = self.enter_to_ask()?;
        Ok(turn.engine.remote_window(turn.now(), node, channel))
    }
}
