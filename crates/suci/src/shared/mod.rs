//! A node that threads of its own serve, and its handles.
//!
//! | part | owns |
//! |---|---|
//! | `ring` | the bounded queue between threads |
//! | `sorted` | the messages of that queue in order, once calls want only some of them |
//! | `calls` | requests that wait for their replies |
//! | `sleepers` | the waiting threads and tasks, of which none misses its wake-up |
//! | `serving` | which thread serves a shard |
//! | `parker` | the sleep of a thread on its descriptors |
//! | `caller` | callers that serve a shard while they wait |
//! | `gate` | the messages queued for one peer |
//! | `shard` | the state that handles and one thread share |
//! | `cross_shard` | datagrams on their way from one thread to another |
//! | `inner` | the state that handles and all threads share |
//! | `events` | events on their way to the program |
//! | `unanswered` | announced messages that keep receiving calls waiting |
//! | `verbs` | the operations of handles on this state, without waiting |
//! | `receive` | taking messages and events |
//! | `remote` | one-sided operations |
//! | `active` | active messages on their way to the program |
//! | `thread` | the work for a shard, which has its driver, and the I/O thread |
//! | `wakes` | the end of a call's wait by another thread or a signal handler |
//! | `readiness`, `descriptor` | the descriptor for the program's own epoll |
//! | `blocking`, `asyncio` | the same calls, serving or parking, or awaiting |

mod active;
mod asyncio;
mod blocking;
mod caller;
mod calls;
mod cross_shard;
mod descriptor;
mod events;
mod gate;
mod groups;
mod inner;
mod matching;
mod membership;
mod parker;
mod readiness;
mod receive;
mod remote;
mod remote_async;
mod reply;
mod ring;
mod select;
mod serving;
mod shard;
mod sleepers;
mod sockets;
mod sorted;
mod thread;
mod unanswered;
mod verbs;
mod wakes;

pub use blocking::block_on;
pub use caller::{Attendance, Waited};
pub(crate) use cross_shard::{CrossShardMessage, CrossShardQueue};
pub(crate) use gate::Gate;
pub(crate) use inner::Inner;
pub(crate) use shard::owner;
pub(crate) use sleepers::Sleepers;
pub use sockets::{BoundPort, SocketHandle, SocketLayer, SocketListener};

use crate::budget::Warning;
use crate::clock::Deadline;
use crate::driver::Driver;
use crate::error::Error;
use crate::message::{Message, OutgoingMessage};
use crate::node::{Accepted, DROP_PATIENCE};
use crate::opened::Opened;
use crate::reach::check_peer;
use crate::security::{Keyring, NodeKey, PublicKeys, SharedKeys};
use bytes::Bytes;
use shard::{Command, Shard, lock};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use suci_proto::types::{ChannelId, MessageNumber, NodeId};
use suci_proto::{Counters, IncomingError, PeerInfo, ReceiveBuffer, ShareStats};
use thread::Worker;
use verbs::RoundRobin;

/// A handle to a node that I/O threads serve: `Send`, `Sync`, and cheap to clone.
///
/// Calls come in up to four forms: trying (returns at once), blocking (parks the thread), timed,
/// and `async` (any runtime or none; nothing is lost when a future is dropped before it is ready).
/// A handle takes from its node's threads in rotation; threads that receive should have a clone
/// each.
///
/// Messages and events go to whichever handle takes them first; [`SharedNode::next`] takes both in
/// exact order. [`Next`](crate::Next) says what each call takes, and in which order. A call that
/// takes the last message of a session wakes calls that wait for the end of that session.
///
/// Every call may fail with [`Error::Forked`] in the child of a fork, with [`Error::Closed`] once
/// any handle closed the node, and with [`Error::ThreadGone`] if one of the I/O threads met an
/// error. The other threads then tell their peers, and end too; messages that had arrived can still
/// be taken. A call that would wait on one of those threads, which run the program's steering
/// functions and wakers too, fails with [`Error::OwnThread`]; [`SharedNode::send_timeout`] gives
/// its message back instead, and a future is pending there as anywhere.
///
/// Dropping the last handle closes the node with a patience of one second, or of none while its
/// thread panics.
pub struct SharedNode {
    inner: Arc<Inner>,
    round_robin: RoundRobin,
}

impl std::fmt::Debug for SharedNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedNode")
            .field("id", &self.inner.fixed.id)
            .field("local", &self.inner.fixed.local)
            .field("threads", &self.threads())
            .field("closed", &self.inner.closing)
            .finish()
    }
}

impl SharedNode {
    pub(crate) fn start(opened: Opened) -> Result<Self, Error> {
        let Opened {
            fixed,
            drivers,
            config,
        } = opened;
        let shards: Result<Vec<Shard>, Error> = drivers
            .iter()
            .map(|driver| Shard::new(driver, config.send_queue))
            .collect();
        let inner = Arc::new(Inner::new(fixed, shards?.into())?);
        let worker = |(index, driver)| Worker::new(Arc::clone(&inner), index, driver);
        let workers: Vec<_> = drivers.into_iter().enumerate().map(worker).collect();
        for worker in workers {
            // If there are not enough threads, those that run end with those that cannot begin.
            let thread = std::thread::Builder::new().name("suci-io".into());
            let thread = thread
                .spawn(move || worker.run())
                .map_err(Error::io("starting an I/O thread"))?;
            lock(&inner.life).threads.push(thread);
        }
        let round_robin = RoundRobin::default();
        Ok(Self { inner, round_robin })
    }

    /// This node's ID.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.inner.fixed.id
    }

    /// The local address, with the port that the system chose.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.fixed.local
    }

    /// How many I/O threads serve it.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.inner.shards.len()
    }

    /// The gate that senders to `node` debit before they hand a message over.
    pub(crate) fn gate(&self, node: NodeId) -> Option<Arc<Gate>> {
        self.inner.shard_of(node).gate(node)
    }

    // ---- asking a thread

    /// Runs `question` on the thread that serves `node` and waits for its answer: for about one
    /// cycle of the thread.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        node: NodeId,
        question: impl FnOnce(&mut Driver) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let shard = self.inner.shard_of(node);
        self.ask_at(shard, |worker| question(&mut worker.driver))
    }

    /// Runs `question` on each of the threads, one after the other.
    fn ask_all<T: Send + 'static>(
        &self,
        question: impl Fn(&mut Driver) -> T + Copy + Send + 'static,
    ) -> Result<Vec<T>, Error> {
        let shards = self.inner.shards.iter();
        let ask = |shard| self.ask_at(shard, move |worker| question(&mut worker.driver));
        shards.map(ask).collect()
    }

    fn ask_at<T: Send + 'static>(
        &self,
        shard: &Shard,
        question: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.inner.check_open()?;
        if self.inner.is_served_here() {
            return Err(Error::OwnThread);
        }
        let (answer, reply) = reply::pair_about(());
        // The asker waits for the answer, whatever happens.
        let command = Command::run(move |worker| drop(answer.give(question(worker))));
        self.inner.wait_for(self.inner.pushing(shard, command))??;
        match self.inner.wait_for(reply.waiting())? {
            Some(answer) => Ok(answer),
            None => Err(self.inner.wait_for(self.inner.ending())?),
        }
    }

    /// The threads that have one-sided requests which the targets may not have.
    fn requesting(&self) -> Result<impl Iterator<Item = &Shard>, Error> {
        // In the child of a fork a thread may hold the lock for ever that does not exist there.
        self.inner.check_open()?;
        let shards = self.inner.shards.iter();
        Ok(shards.filter(|shard| !shard.places.remote().unanswered().is_empty()))
    }

    /// Changes the keys of a sealed node; see [`Node::set_keys`](crate::Node::set_keys). Blocks for
    /// a cycle of each thread.
    ///
    /// # Errors
    /// [`Error::NotSealed`], [`Error::Closed`].
    pub fn set_keys(&self, keys: impl Into<Keyring>) -> Result<(), Error> {
        let keys = keys.into();
        self.change_keys(|shared| shared.set(keys))
    }

    /// Changes the keys of a node that has its own; see
    /// [`Node::set_node_keys`](crate::Node::set_node_keys). Blocks for a cycle of each thread.
    ///
    /// # Errors
    /// [`Error::NotSealed`], [`Error::Key`], [`Error::Closed`].
    pub fn set_node_keys(
        &self,
        own: impl Into<Keyring<NodeKey>>,
        public: PublicKeys,
    ) -> Result<(), Error> {
        let own = own.into();
        self.change_keys(move |shared| shared.set_of_node(&own, public))
    }

    fn change_keys(
        &self,
        change: impl FnOnce(&SharedKeys) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let first = self.inner.shards.first().ok_or(Error::Closed)?;
        self.ask_at(first, |worker| worker.driver.change_keys(change))??;
        self.ask_all(|driver| driver.renew_keys()).map(drop)
    }

    /// Enters a node and its address into the book, as
    /// [`Node::add_peer`](crate::Node::add_peer) does; blocks for a cycle of the thread.
    ///
    /// # Errors
    /// [`Error::Peer`], [`Error::PlainOnNetwork`], [`Error::Unreachable`].
    pub fn add_peer(&self, node: NodeId, address: SocketAddr) -> Result<(), Error> {
        let fixed = &self.inner.fixed;
        check_peer(fixed.beyond_loopback, fixed.local, address)?;
        let gate = self.inner.shard_of(node).gate_or_new(node);
        self.ask(node, move |driver| {
            let added = driver.add_peer(node, address);
            gate.set_removed(!driver.engine.knows(node));
            added
        })??;
        Ok(())
    }

    /// As [`Node::remove_peer`](crate::Node::remove_peer); blocks for a cycle of the thread.
    /// Messages to the node that the thread has not taken yet are not delivered.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn remove_peer(&self, node: NodeId) -> Result<bool, Error> {
        let gate = self.inner.shard_of(node).gate(node);
        self.ask(node, move |driver| {
            let had_session = driver.remove_peer(node);
            if let Some(gate) = gate {
                gate.set_removed(!driver.engine.knows(node));
            }
            had_session
        })?
        .map_err(|error| Error::from_send(node, error))
    }

    /// As [`Node::peers`](crate::Node::peers); blocks for a cycle of each thread.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn peers(&self) -> Result<Vec<PeerInfo>, Error> {
        let peers = self.ask_all(|driver| driver.engine.peer_infos().collect::<Vec<_>>())?;
        let mut peers = peers.concat();
        peers.sort_unstable_by_key(|peer| peer.node);
        Ok(peers)
    }

    /// How many peers the receive buffers serve (1,260 with 8 MiB) in all, if each thread has
    /// equally many.
    #[must_use]
    pub fn peer_limit(&self) -> u64 {
        self.inner.fixed.budget.peer_limit
    }

    /// How the receive buffer of each thread's socket is shared out now; blocks for a cycle of
    /// each.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn share_stats(&self) -> Result<Vec<ShareStats>, Error> {
        self.ask_all(|driver| driver.engine.share_stats())
    }

    /// Returns the system's setting that keeps the node from working well, and the remedy.
    #[must_use]
    pub fn warning(&self) -> Option<Warning> {
        self.inner.fixed.budget.warning()
    }

    /// Returns the counters since the node was opened; blocks for a cycle of each thread.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn counters(&self) -> Result<Counters, Error> {
        let each = self.thread_counters()?;
        Ok(sum(each.into_iter().map(|(counters, _)| counters)))
    }

    /// Returns the counters of its sockets; blocks for a cycle of each thread.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn socket_counters(&self) -> Result<suci_net::Counters, Error> {
        let each = self.thread_counters()?;
        Ok(sum(each.into_iter().map(|(_, socket)| socket)))
    }

    /// The same for each thread and its socket; blocks for a cycle of each. A peer is served by the
    /// thread whose index in the list is the lowest byte of its node ID modulo the number of
    /// threads.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn thread_counters(&self) -> Result<Vec<(Counters, suci_net::Counters)>, Error> {
        self.ask_all(|driver| (*driver.engine.counters(), driver.backend_counters()))
    }

    /// As [`Node::accept`](crate::Node::accept); blocks for a cycle of the thread.
    ///
    /// # Errors
    /// [`Error::Incoming`].
    pub fn accept(
        &self,
        node: NodeId,
        channel: ChannelId,
        number: MessageNumber,
    ) -> Result<(), Error> {
        self.decide((node, channel, number), move |driver| {
            driver.engine.accept(node, channel, number, None)
        })
    }

    /// As [`Node::accept_into`](crate::Node::accept_into); blocks for a cycle of the thread.
    ///
    /// # Errors
    /// [`Error::Incoming`].
    pub fn accept_into(
        &self,
        node: NodeId,
        channel: ChannelId,
        number: MessageNumber,
        buffer: impl Into<ReceiveBuffer>,
    ) -> Result<(), Error> {
        let buffer = Some(buffer.into());
        self.decide((node, channel, number), move |driver| {
            driver.engine.accept(node, channel, number, buffer)
        })
    }

    /// Refuses a message announced by [`Event::Incoming`](crate::Event::Incoming); blocks for a
    /// cycle of the thread.
    ///
    /// # Errors
    /// [`Error::Incoming`].
    pub fn refuse(
        &self,
        node: NodeId,
        channel: ChannelId,
        number: MessageNumber,
        reason: u64,
    ) -> Result<(), Error> {
        self.decide((node, channel, number), move |driver| {
            driver.engine.refuse(node, channel, number, reason)
        })
    }

    fn decide(
        &self,
        (node, channel, number): (NodeId, ChannelId, MessageNumber),
        verb: impl FnOnce(&mut Driver) -> Result<(), IncomingError> + Send + 'static,
    ) -> Result<(), Error> {
        self.ask(node, verb)??;
        self.inner.shard_of(node).answered(node, channel, number);
        Ok(())
    }

    // ---- sending

    /// Accepts a message if there is room for it. The message gets its number later: events about
    /// the message name the number and the token. If the session is closing or has too many
    /// channels, the event [`NotDelivered`](crate::Event::NotDelivered) says so, once for each
    /// message, with the number [`UNNUMBERED`](crate::UNNUMBERED). While 16,384 events of the peer
    /// wait for the program, further such messages take room in the queue. So take events, also
    /// while you wait for room. If the program never took an event and they fill the queue, those
    /// sent without `notify` are dropped; only [`SharedNode::flush`] counts them then.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] gives the message back, and the event
    /// [`Event::Writable`](crate::Event::Writable) says when there is room. One event answers all
    /// messages of a class that were not taken, even if the program sent one of them meanwhile.
    /// [`Error::UnknownPeer`] and others say what is wrong.
    pub fn send(&self, to: NodeId, message: impl Into<OutgoingMessage>) -> Result<(), Error> {
        let sent = self.inner.send(to, message.into());
        sent.map_err(|error| self.inner.want_room(error))
    }

    /// Accepts a copy of `bytes` on channel 0 if there is room for it.
    ///
    /// # Errors
    /// As [`SharedNode::send`].
    pub fn send_copy(&self, to: NodeId, bytes: &[u8]) -> Result<(), Error> {
        self.send(to, Bytes::copy_from_slice(bytes))
    }

    /// Blocks until there is room for the message, for at most `limit`.
    ///
    /// # Errors
    /// As [`SharedNode::send`]; [`Error::WouldBlock`] when `limit` is over.
    pub fn send_timeout(
        &self,
        to: NodeId,
        message: impl Into<OutgoingMessage>,
        limit: Duration,
    ) -> Result<(), Error> {
        let mut message = Some(message.into());
        let sending = self.inner.sending(to, &mut message);
        let sent = self.inner.wait_until(Deadline::after(limit), sending);
        match (sent, message) {
            (Ok(Some(result)), _) => result,
            // A caller that may not wait has its message back, too.
            (Ok(None) | Err(_), Some(message)) => {
                let message = Box::new(message);
                Err(self.inner.want_room(Error::WouldBlock { to, message }))
            }
            // The message is kept until it is sent.
            (Ok(None) | Err(_), None) => Ok(()),
        }
    }

    /// As [`Node::call`](crate::Node::call): sends a request to `to` and blocks until its reply
    /// comes, for at most `limit`. Any number of threads may call at once. Replies that their
    /// callers have not taken yet are bounded as messages are.
    ///
    /// # Errors
    /// As [`Node::call`](crate::Node::call).
    pub fn call(
        &self,
        to: NodeId,
        message: impl Into<OutgoingMessage>,
        limit: Duration,
    ) -> Result<Message, Error> {
        self.inner.call(to, message.into(), limit)
    }

    /// Sends one payload to many peers and tells for each whether it was accepted. Up to 256 bytes
    /// are copied for each peer; a longer payload is held once for all, and one of more than 2 KiB
    /// is copied for none.
    ///
    /// # Errors
    /// [`Error::Closed`]. Errors of single peers stand in the list.
    pub fn broadcast(
        &self,
        to: &[NodeId],
        message: impl Into<OutgoingMessage>,
    ) -> Result<Vec<Accepted<()>>, Error> {
        self.inner.check_open()?;
        let message = message.into();
        let accept = |&node: &NodeId| (node, self.send(node, message.clone()));
        Ok(to.iter().map(accept).collect())
    }

    /// As [`Peer::cancel`](crate::Peer::cancel).
    pub(crate) fn cancel(&self, to: NodeId, channel: ChannelId, token: u64) -> Result<u64, Error> {
        let shard = self.inner.shard_of(to);
        let cancel = move |worker: &mut Worker| worker.cancel_messages(to, channel, token);
        self.ask_at(shard, cancel)?
            .map_err(|error| Error::from_send(to, error))
    }

    /// Blocks until every accepted message and every request of a one-sided operation is
    /// acknowledged or has failed, for at most `limit`.
    /// Messages to a peer whose last four sessions left messages untaken are neither, until the
    /// program receives those.
    ///
    /// # Errors
    /// [`Error::NotFlushed`], as [`Node::flush`](crate::Node::flush).
    pub fn flush(&self, limit: Duration) -> Result<(), Error> {
        for shard in self.requesting()? {
            self.ask_at(shard, Worker::count_requests)?;
        }
        let flushed = self.inner.flushing();
        match self.inner.wait_within(limit, flushed)? {
            Some(()) => Ok(()),
            None => self.inner.flushed(),
        }
    }

    /// As [`Peer::queue_len`](crate::Peer::queue_len).
    pub(crate) fn queue_len(&self, node: NodeId) -> Result<(u64, u64), Error> {
        self.inner.check_open()?;
        let shard = self.inner.shard_of(node);
        if shard.places.remote().unanswered().contains(&node) {
            self.ask_at(shard, Worker::count_requests)?;
        }
        shard
            .gate(node)
            .filter(|gate| !gate.is_removed())
            .map(|gate| gate.queued())
            .map(|queued| (queued.messages, queued.bytes))
            .ok_or(Error::UnknownPeer(node))
    }

    // ---- the end

    /// Blocks until every peer has everything and knows of the end, for at most `patience` in all.
    /// Received messages and the events can still be taken. Messages to a peer that had closed its
    /// node before they were sent are not waited for, unless another process answers for it.
    ///
    /// # Errors
    /// [`Error::NotFlushed`] names those that did not get everything, to the handle that closed
    /// first; the node is closed all the same. [`Error::Closed`] to the others.
    /// [`Error::OwnThread`] to one of its I/O threads.
    pub fn close(&self, patience: Duration) -> Result<(), Error> {
        if self.inner.is_served_here() {
            return Err(Error::OwnThread);
        }
        self.inner.begin_close(patience)?;
        self.inner.wait_for(self.inner.finishing())?;
        self.inner.take_result()
    }
}

impl SharedNode {
    /// In the child of a fork: closes the descriptors of the parent's node, as dropping its last
    /// handle does. For the C library, which cannot drop handles that calls of other threads had at
    /// the fork.
    #[doc(hidden)]
    pub fn abandon(&self) {
        self.inner.abandon();
    }
}

impl Clone for SharedNode {
    fn clone(&self) -> Self {
        self.inner.handles.fetch_add(1, Ordering::Relaxed);
        Self {
            inner: Arc::clone(&self.inner),
            round_robin: RoundRobin::default(),
        }
    }
}

impl Drop for SharedNode {
    fn drop(&mut self) {
        if self.inner.is_forked() {
            // The thread does not exist here and the parent's sessions are not ours to end.
            if self.inner.handles.fetch_sub(1, Ordering::Relaxed) == 1 {
                self.inner.abandon();
            }
            std::mem::forget(Arc::clone(&self.inner));
            return;
        }
        if self.inner.handles.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let patience = if std::thread::panicking() {
            Duration::ZERO
        } else {
            DROP_PATIENCE
        };
        if self.inner.is_served_here() {
            // A waker that a thread called dropped the last handle: it cannot wait for itself.
            let _ = self.inner.begin_close(patience);
        } else {
            // A program that wants to know calls `close`.
            let _ = self.close(patience);
        }
    }
}

fn sum<T: Default + std::ops::AddAssign>(all: impl Iterator<Item = T>) -> T {
    let mut sum = T::default();
    all.for_each(|one| sum += one);
    sum
}

#[cfg(test)]
mod scaling;
#[cfg(test)]
mod tests;
