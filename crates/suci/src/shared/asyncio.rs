//! The calls of a [`SharedNode`] that wait, as futures. They need no runtime: wakers are all they
//! use.

use super::SharedNode;
use super::reply;
use super::shard::{Command, Shard};
use super::thread::Worker;
use crate::error::Error;
use crate::message::{Message, OutgoingMessage};
use crate::next::Next;
use std::future::poll_fn;
use std::time::Duration;
use suci_proto::Event;
use suci_proto::types::NodeId;

impl SharedNode {
    /// Waits until there is room for the message. If the future is dropped before, nothing was
    /// sent.
    ///
    /// # Errors
    /// As [`SharedNode::send`], without [`Error::WouldBlock`].
    pub async fn send_async(
        &self,
        to: NodeId,
        message: impl Into<OutgoingMessage>,
    ) -> Result<(), Error> {
        let mut message = Some(message.into());
        poll_fn(self.inner.sending(to, &mut message)).await
    }

    /// As [`SharedNode::call`]: waits for the reply, for at most `limit`. If the future is dropped
    /// before, the call is cancelled: its reply will be dropped and counted. A reply that is there
    /// waits in the future: while untaken replies hold more than 4 MiB for one thread, its other
    /// replies wait.
    ///
    /// # Errors
    /// As [`SharedNode::call`].
    pub async fn call_async(
        &self,
        to: NodeId,
        message: impl Into<OutgoingMessage>,
        limit: Duration,
    ) -> Result<Message, Error> {
        self.inner.call_async(to, message.into(), limit).await
    }

    /// Waits until a message arrives. If the future is dropped before, no message is lost.
    ///
    /// # Errors
    /// As [`SharedNode::recv`].
    pub async fn recv_async(&self) -> Result<Message, Error> {
        poll_fn(self.inner.receiving(&self.round_robin)).await
    }

    /// Waits until a message or an event is there, and takes it: in exact order, see [`Next`].
    /// If the future is dropped before, nothing is lost.
    ///
    /// # Errors
    /// As [`SharedNode::next`].
    pub async fn next_async(&self) -> Result<Next, Error> {
        poll_fn(self.inner.awaiting_next(&self.round_robin)).await
    }

    /// Waits until something happens.
    ///
    /// # Errors
    /// As [`SharedNode::next_event`].
    pub async fn event_async(&self) -> Result<Event, Error> {
        poll_fn(self.inner.hearing(&self.round_robin)).await
    }

    /// As [`ask_at`](Self::ask_at), for a task.
    async fn ask_at_async<T: Send + 'static>(
        &self,
        shard: &Shard,
        question: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, reply) = reply::pair_about(());
        let command = Command::run(move |worker| drop(answer.give(question(worker))));
        poll_fn(self.inner.pushing(shard, command)).await?;
        match poll_fn(reply.waiting()).await {
            Some(answer) => Ok(answer),
            None => Err(poll_fn(self.inner.ending()).await),
        }
    }

    /// Waits until every accepted message is acknowledged or has failed, as [`SharedNode::flush`]
    /// does.
    ///
    /// # Errors
    /// As [`SharedNode::flush`].
    pub async fn flush_async(&self) -> Result<(), Error> {
        for shard in self.requesting()? {
            self.ask_at_async(shard, Worker::count_requests).await?;
        }
        poll_fn(self.inner.flushing()).await
    }

    /// As [`SharedNode::wait_until`]: waits until `ready` returns something. Changes through
    /// [shared memory](crate::NodeBuilder::shared_memory) do not wake the task by themselves.
    ///
    /// # Errors
    /// As [`SharedNode::wait_until`].
    pub async fn wait_until_async<T>(&self, ready: impl FnMut() -> Option<T>) -> Result<T, Error> {
        self.inner.check_open()?;
        poll_fn(self.inner.awaiting_change(ready)).await
    }

    /// Closes the node, as [`SharedNode::close`] does. If the future is dropped before it is ready,
    /// the node closes all the same.
    ///
    /// # Errors
    /// As [`SharedNode::close`].
    pub async fn close_async(&self, patience: Duration) -> Result<(), Error> {
        self.inner.begin_close(patience)?;
        poll_fn(self.inner.finishing()).await;
        self.inner.take_result()
    }
}
