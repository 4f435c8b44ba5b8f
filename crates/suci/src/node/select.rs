//! Receiving from one peer, or on one channel.

use super::Node;
use crate::error::Error;
use crate::message::Message;
use crate::wait::until_some;
use std::time::Duration;
use suci_proto::Filter;

impl Node {
    /// Blocks until a message arrives that `from` admits: those of a [`NodeId`](crate::NodeId), on
    /// a [`ChannelId`](crate::ChannelId), or of a pair of both.
    ///
    /// Other messages keep their order and wait for other calls. They count in the memory that
    /// their senders were granted. So a peer that the program leaves alone stops, and others go on.
    /// One channel that it leaves alone takes half of the memory for its peer's session at most;
    /// several may take all, and then nothing comes on the others, replies excepted. An
    /// [`Event::Lost`](crate::Event::Lost) does not end the wait.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use suci::{AcceptPolicy, ChannelId, OutgoingMessage, Node, NodeId};
    /// # fn main() -> Result<(), suci::Error> {
    /// let mut server = Node::builder().id(NodeId(0)).accept(AcceptPolicy::Anyone).open()?;
    /// let mut client = Node::builder().id(NodeId(1)).open()?;
    /// client.add_peer(NodeId(0), server.local_addr())?;
    /// client.send(NodeId(0), "data")?;
    /// client.send(NodeId(0), OutgoingMessage::new("control").channel(ChannelId(1)))?;
    /// let soon = Duration::from_secs(5);
    /// let control = server.recv_from_timeout(ChannelId(1), soon)?.unwrap();
    /// let data = server.recv_from_timeout((NodeId(1), ChannelId(0)), soon)?.unwrap();
    /// assert_eq!((&*control.payload, &*data.payload), (&b"control"[..], &b"data"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Ended`] when nothing of the peer is left and its session ended: once for each end
    /// that the program has not heard of by an event or by this. The event stays.
    /// [`Error::UnknownPeer`] for a node that is not known and that the node's
    /// [`AcceptPolicy`](crate::AcceptPolicy) keeps out.
    /// [`Error::MemoryFull`] when one peer and one channel are wanted, and nothing can come there
    /// before the program takes other messages of the peer. As [`Node::recv`].
    pub fn recv_from(&mut self, from: impl Into<Filter>) -> Result<Message, Error> {
        let from = from.into();
        until_some(|| self.recv_from_within(from, None))
    }

    /// As [`Node::recv_from`], for at most `limit`.
    ///
    /// # Errors
    /// As [`Node::recv_from`].
    pub fn recv_from_timeout(
        &mut self,
        from: impl Into<Filter>,
        limit: Duration,
    ) -> Result<Option<Message>, Error> {
        self.recv_from_within(from.into(), Some(limit))
    }

    /// The next message that `from` admits, if there is one now.
    ///
    /// # Errors
    /// As [`Node::recv_from`].
    pub fn try_recv_from(&mut self, from: impl Into<Filter>) -> Result<Option<Message>, Error> {
        let from = from.into();
        self.try_take(|driver| driver.take_from(from))?.transpose()
    }

    fn recv_from_within(
        &mut self,
        from: Filter,
        limit: Option<Duration>,
    ) -> Result<Option<Message>, Error> {
        let taken = self.take_within(limit, |driver| Some((driver.await_from(from)?, 1)))?;
        taken.transpose()
    }
}
