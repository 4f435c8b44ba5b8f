//! Receiving from one peer, or on one channel.

use super::SharedNode;
use super::blocking::if_ready;
use crate::error::Error;
use crate::message::Message;
use std::future::poll_fn;
use std::time::Duration;
use suci_proto::Filter;

impl SharedNode {
    /// As [`Node::recv_from`](crate::Node::recv_from): blocks until a message arrives that `from`
    /// admits.
    ///
    /// # Errors
    /// As [`Node::recv_from`](crate::Node::recv_from), but for [`Error::MemoryFull`] and
    /// [`Error::UnknownPeer`]: another thread may take the messages that fill the memory, or add
    /// the node. Each call that waits when a session ends
    /// hears of it.
    pub fn recv_from(&self, from: impl Into<Filter>) -> Result<Message, Error> {
        let receiving = self.inner.receiving_from(&self.round_robin, from.into());
        self.inner.wait(receiving)
    }

    /// As [`SharedNode::recv_from`], for at most `limit`.
    ///
    /// # Errors
    /// As [`SharedNode::recv_from`].
    pub fn recv_from_timeout(
        &self,
        from: impl Into<Filter>,
        limit: Duration,
    ) -> Result<Option<Message>, Error> {
        let receiving = self.inner.receiving_from(&self.round_robin, from.into());
        self.inner.wait_within(limit, receiving)
    }

    /// The next message that `from` admits, if it lies ready now. While more lie ready than the
    /// program takes, the thread hands over the messages that a call waits for only once it waits.
    ///
    /// # Errors
    /// As [`SharedNode::recv_from`].
    pub fn try_recv_from(&self, from: impl Into<Filter>) -> Result<Option<Message>, Error> {
        let from = from.into();
        let known = self.inner.ends_told(from);
        if_ready(self.inner.take_from(&self.round_robin, from, known))
    }

    /// As [`SharedNode::recv_from`], without blocking. If the future is dropped before, no message
    /// is lost.
    ///
    /// # Errors
    /// As [`SharedNode::recv_from`].
    pub async fn recv_from_async(&self, from: impl Into<Filter>) -> Result<Message, Error> {
        poll_fn(self.inner.receiving_from(&self.round_robin, from.into())).await
    }
}
