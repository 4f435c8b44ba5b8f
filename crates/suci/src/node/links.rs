//! A node's links with its peers, as its program decides.

use super::Node;
use crate::error::Error;
use std::time::Duration;
use suci_proto::types::NodeId;

impl Node {
    /// Removes a node from the book: its session ends at once, as by [`Node::abandon`], and from
    /// then on it is unknown. It may come back by itself only with
    /// [`Accept::Anyone`](crate::Accept::Anyone). Returns whether there was a session, whose
    /// `Ended` follows.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`].
    pub fn remove_peer(&mut self, node: NodeId) -> Result<bool, Error> {
        let mut turn = self.enter_open()?;
        let has_begun = turn.remove_peer(node);
        let has_begun = has_begun.map_err(|error| Error::from_send(node, error))?;
        turn.output()?;
        Ok(has_begun)
    }

    /// Holds back all messages to and from `node` until [`Node::resume`]; returns at once. What was
    /// accepted is kept on both sides and flows afterwards; meanwhile sending fails on both with
    /// [`Error::Suspended`], and what had arrived can still be received. The peer is told, and its
    /// program by [`Event::Suspended`](crate::Event::Suspended). Acknowledgements and signs of life
    /// go on: a suspended peer is [`Lost`](crate::Event::Lost) only if it is silent.
    ///
    /// Suspension lasts as long as the session, whatever becomes of the connection. Either side may
    /// suspend; messages flow when neither does. [`Node::peer_stats`] tells who did.
    ///
    /// ```
    /// # fn main() -> Result<(), suci::Error> {
    /// use suci::{Error, Node, NodeId};
    /// let mut node = Node::builder().id(NodeId(1)).open()?;
    /// node.add_peer(NodeId(0), "127.0.0.1:7000".parse().unwrap())?;
    /// node.suspend(NodeId(0))?;
    /// assert!(matches!(node.send(NodeId(0), "now"), Err(Error::Suspended { .. })));
    /// node.resume(NodeId(0))?;
    /// node.send(NodeId(0), "now")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`].
    pub fn suspend(&mut self, node: NodeId) -> Result<(), Error> {
        let mut turn = self.enter_open()?;
        turn.engine
            .suspend(node)
            .map_err(|error| Error::from_send(node, error))?;
        turn.output()
    }

    /// Undoes [`Node::suspend`]. Messages flow again unless the peer suspended the session, too.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`].
    pub fn resume(&mut self, node: NodeId) -> Result<(), Error> {
        let mut turn = self.enter_open()?;
        turn.engine
            .resume(node)
            .map_err(|error| Error::from_send(node, error))?;
        turn.output()
    }

    /// How long the silence of `node` is borne before it counts as lost (at least 100 ms), and
    /// before its session ends (at least as long), instead of what the builder said for all.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`], [`Error::Config`].
    pub fn set_patience(
        &mut self,
        node: NodeId,
        silence_timeout: Duration,
        give_up_after: Duration,
    ) -> Result<(), Error> {
        let mut turn = self.enter_open()?;
        turn.engine
            .set_patience(node, silence_timeout, give_up_after)
            .map_err(|error| Error::from_patience(node, error))?;
        turn.output()
    }

    /// Whether the silence of `node` is noticed when nothing waits for it, too: it is asked for a
    /// sign of life three times per silence timeout. It needs a connection, which [`Node::connect`]
    /// opens.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`].
    pub fn watch(&mut self, node: NodeId, on: bool) -> Result<(), Error> {
        let mut turn = self.enter_open()?;
        turn.engine
            .watch(node, on)
            .map_err(|error| Error::from_send(node, error))?;
        turn.output()
    }
}
