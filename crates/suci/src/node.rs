//! A node that works when its program calls it.

mod active;
mod calls;
mod groups;
mod matching;
mod membership;
mod receive;
mod remote;
mod select;

use crate::batch::Batch;
use crate::builder::NodeBuilder;
use crate::calls::CallIds;
use crate::clock::Deadline;
use crate::core::{Core, DriverGuard};
use crate::driver::{Driver, no_descriptor};
use crate::error::Error;
use crate::helper;
use crate::message::{Message, OutgoingMessage};
use crate::opened::{Fixed, Opened};
use crate::placement::Places;
use crate::reach::check_peer;
use crate::security::{Keyring, NodeKey, PublicKeys};
use crate::wait::{Awaited, WaitPolicy, until_some};
use crate::waker::{Target, Waker};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use suci_proto::types::{ChannelId, MessageNumber, NodeId};
use suci_proto::{Counters, Event, PeerInfo, ReceiveBuffer};

/// How long dropping a node waits for what it accepted.
pub(crate) const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// The result of a broadcast for one peer: the message's number ([`Node`]), or the error.
pub type Accepted<T = MessageNumber> = (NodeId, Result<T, Error>);

/// A process of the cluster, as its own program sees it: one UDP socket, a queue and channels per
/// peer.
///
/// The program's calls do all the work (input, timers, output). If the program makes no call for
/// 100 ms, a helper thread serves the node until the next call. A node can be sent to another
/// thread but not shared; see [`SharedNode`](crate::SharedNode) for that.
///
/// A call blocks only if its name or text says so. Apart from blocking, a call spends at most about
/// 500 us transmitting and at most about 1 ms reading the socket. Both come on top of a call's time
/// limit. Output that is left goes with the next call, or the helper sends it within about 2 ms.
///
/// If no call read the socket for 200 us, the next call reads it. A call that changes something
/// then also runs timers and transmits. A call that only reads a setting or a statistic transmits
/// only if the node is [`unattended`](crate::NodeBuilder::unattended), or if the program waits on
/// its descriptor. Every call may fail with [`Error::Forked`] in the child of a fork and with
/// [`Error::Closed`] after [`Node::close`].
///
/// Dropping a node closes it with a patience of one second, or of none while its thread panics. A
/// program that must know whether everything arrived calls [`Node::close`].
pub struct Node {
    pub(crate) core: Arc<Core>,
    helper: Option<JoinHandle<()>>,
    pub(crate) fixed: Fixed,
    places: Arc<Places>,
    closed: bool,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("id", &self.fixed.id)
            .field("local", &self.fixed.local)
            .field("closed", &self.closed)
            .finish()
    }
}

impl Node {
    /// Settings of a node to be opened.
    #[must_use]
    pub fn builder() -> NodeBuilder {
        NodeBuilder::default()
    }

    /// Opens the node that the environment describes: as `suci run` makes it, or as another
    /// launcher does (PMIx, PMI, Slurm, Kubernetes, in this order; docs/launchers.md). The node's
    /// ID is the process's rank, and the book has all processes. Where the launcher carries
    /// values, addresses go through it, and keys that are made for this run if nothing names
    /// others, so that the nodes are sealed. The call then waits for all processes, at most for
    /// 120 s ([`env::LAUNCH_TIMEOUT`](crate::env::LAUNCH_TIMEOUT)).
    ///
    /// # Errors
    /// As [`NodeBuilder::open`]; [`Error::Launcher`] tells what was found, what is missing, and
    /// what to set.
    pub fn from_env() -> Result<Self, Error> {
        Self::builder().open()
    }

    pub(crate) fn start(opened: Opened) -> Result<Self, Error> {
        let Opened {
            fixed,
            drivers,
            config,
        } = opened;
        let attended = !config.unattended;
        let mut driver = drivers.into_iter().next().ok_or_else(no_descriptor)?;
        driver.coalescer.allowed = attended;
        driver.call_ids = CallIds::new()?;
        let places = Arc::clone(&driver.places);
        let core = Arc::new(Core::new(driver, fixed.process)?);
        let helper = attended
            .then(|| helper::spawn(Arc::clone(&core)))
            .transpose()?;
        Ok(Self {
            core,
            helper,
            fixed,
            places,
            closed: false,
        })
    }

    pub(crate) fn enter(&self) -> Result<DriverGuard<'_>, Error> {
        self.core.enter()
    }

    /// Enters a call that needs an open node. It first sends the messages that waited for the next
    /// call, so that its own changes come after them.
    pub(crate) fn enter_open(&self) -> Result<DriverGuard<'_>, Error> {
        let mut driver = self.enter_to_send()?;
        if driver.coalescer.holds_messages() {
            driver.send_accepted_now();
        }
        serve(&mut driver);
        Ok(driver)
    }

    /// Takes the driver for a call that sends one more message.
    pub(crate) fn enter_to_send(&self) -> Result<DriverGuard<'_>, Error> {
        let driver = self.enter()?;
        if self.closed {
            Err(Error::Closed)
        } else {
            Ok(driver)
        }
    }

    /// Enters a call that only reads state. It takes what arrived, and leaves output to the helper.
    /// It transmits only if the helper does not send output that calls leave: the node has no
    /// helper, or the program waits on the descriptor.
    pub(crate) fn enter_to_ask(&self) -> Result<DriverGuard<'_>, Error> {
        let mut driver = self.enter()?;
        if !self.closed && !driver.coalescer.allowed {
            serve(&mut driver);
        } else if !self.closed && !std::thread::panicking() {
            driver.read_clock();
            // The next call that needs the socket meets the same error and reports it.
            let _ = driver.input_if_stale();
        }
        Ok(driver)
    }

    // ---- who and where

    /// This node's ID.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.fixed.id
    }

    /// The local address, with the port that the system chose.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.fixed.local
    }

    /// Enters a node and its address into the book; a known node's address is replaced for its next
    /// connection. If the address is new and the node's process is known to have died, its session
    /// ends by [`EndReason::ProcessDied`](crate::EndReason::ProcessDied), and calls go to the
    /// process at the new address.
    ///
    /// # Errors
    /// [`Error::Peer`], [`Error::PlainOnNetwork`], [`Error::Unreachable`].
    pub fn add_peer(&mut self, node: NodeId, address: SocketAddr) -> Result<(), Error> {
        check_peer(self.fixed.beyond_loopback, self.fixed.local, address)?;
        let mut driver = self.enter_open()?;
        Ok(driver.add_peer(node, address)?)
    }

    /// Changes the keys of a sealed node. New handshakes use them at once, and every connection
    /// gets a fresh handshake; no message is lost. Once a key was taken out, nothing is sealed or
    /// opened before that handshake: to change a key, first give every node the new and the old one
    /// ([`Keyring::of_two`](crate::security::Keyring::of_two)), then the new one alone. If the keys
    /// came from a file, its next change replaces these.
    ///
    /// # Errors
    /// [`Error::NotSealed`], [`Error::Closed`].
    pub fn set_keys(&mut self, keys: impl Into<Keyring>) -> Result<(), Error> {
        let mut driver = self.enter_open()?;
        driver.change_keys(|shared| shared.set(keys.into()))?;
        driver.run_cycle()
    }

    /// Changes the keys of a node that has its own ([`NodeBuilder::node_keys`]), and the public
    /// keys of all. The session of a node whose key was taken out ends ([`EndReason::Revoked`]),
    /// and so does that of a node that may use fewer layers. Other connections that are concerned
    /// get a fresh handshake. To change this node's own key: first enter the new one beside the old
    /// one in the public keys of every node, then change it here, then take the old one out.
    ///
    /// # Errors
    /// [`Error::NotSealed`], [`Error::Key`], [`Error::Closed`].
    ///
    /// [`NodeBuilder::node_keys`]: crate::NodeBuilder::node_keys
    /// [`EndReason::Revoked`]: crate::EndReason::Revoked
    pub fn set_node_keys(
        &mut self,
        own: impl Into<Keyring<NodeKey>>,
        public: PublicKeys,
    ) -> Result<(), Error> {
        let mut driver = self.enter_open()?;
        driver.change_keys(|shared| shared.set_of_node(&own.into(), public))?;
        driver.run_cycle()
    }

    /// All peers, by ID: those of the book, and those that came by themselves and are there still.
    /// Each comes with its link, which tells whether it answers.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn peers(&self) -> Result<Vec<PeerInfo>, Error> {
        let mut peers: Vec<_> = self.enter_to_ask()?.engine.peer_infos().collect();
        peers.sort_unstable_by_key(|peer| peer.node);
        Ok(peers)
    }

    /// Removes a node from the book: its session ends at once, as by
    /// [`Peer::reset`](crate::Peer::reset), and from then on it is unknown. It may come back by
    /// itself only with [`AcceptPolicy::Anyone`](crate::AcceptPolicy::Anyone). Returns whether
    /// there was a session, whose `Ended` follows. This node itself stays known.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn remove_peer(&mut self, node: NodeId) -> Result<bool, Error> {
        let mut driver = self.enter_open()?;
        let has_begun = driver.remove_peer(node);
        let has_begun = has_begun.map_err(|error| Error::from_send(node, error))?;
        driver.output_now()?;
        Ok(has_begun)
    }

    // ---- sending

    /// Sends a message and returns its number on its channel. A node may send to itself: its own
    /// program receives the message like any other, and no packet leaves.
    ///
    /// Payloads of up to 256 B are copied by this call (unless they have a deadline), those of up
    /// to 2 KiB when a packet is built, longer ones never. A payload that this call does not copy
    /// is released when the peer has acknowledged it.
    ///
    /// Sends at once all that may be sent. If that takes longer than about 500 us, the rest goes
    /// with the next call, or the helper sends it within about 2 ms.
    ///
    /// Messages of a burst leave together. After 32 sends in quick succession (each began within 5
    /// us of the end of the one before; the first after a wait does not count) the next messages
    /// wait for the program's next call. They leave when a call waits, finds no message, or changes
    /// anything. They also leave with a send that comes 20 us after the first of them, or with
    /// which they reach 1 MiB. If the program stays away, the helper sends them within 2 ms, and
    /// the program must then make twice as many quick sends before anything waits again. A program
    /// that knows the end of a burst says so by a [`batch`](Node::batch), or by
    /// [`poll`](Node::poll) with no time to wait. Messages to a peer that prefers
    /// [`Response`](crate::Mode) never wait, nor do those of a node that is
    /// [`unattended`](crate::NodeBuilder::unattended) or whose descriptor the program waits on.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] and [`Error::Unread`] give the message back; [`Error::UnknownPeer`],
    /// [`Error::TooLong`] and others say what is wrong with it. After [`Error::WouldBlock`] the
    /// event [`Event::Writable`] says when there is room: once for all messages of a class that
    /// were not taken, even if the program sent one of them meanwhile.
    pub fn send(
        &mut self,
        to: NodeId,
        message: impl Into<OutgoingMessage>,
    ) -> Result<MessageNumber, Error> {
        let message = message.into();
        message.check()?;
        let mut driver = self.enter_to_send()?;
        driver.send(None, message.len(), |driver| driver.push(to, message))
    }

    /// Sends a copy of `bytes` on channel 0.
    ///
    /// # Errors
    /// As [`Node::send`].
    pub fn send_copy(&mut self, to: NodeId, bytes: &[u8]) -> Result<MessageNumber, Error> {
        let mut driver = self.enter_to_send()?;
        driver.send_copy(to, bytes)
    }

    /// As [`Node::send`], but while the queue is full it blocks, for at most `limit`.
    ///
    /// # Errors
    /// As [`Node::send`]; [`Error::WouldBlock`] when `limit` is over.
    pub fn send_timeout(
        &mut self,
        to: NodeId,
        message: impl Into<OutgoingMessage>,
        limit: Duration,
    ) -> Result<MessageNumber, Error> {
        let message = message.into();
        message.check()?;
        let mut driver = self.enter_to_send()?;
        match try_send(&mut driver, to, message) {
            Err(Error::WouldBlock { message, .. }) => {
                send_when_possible(&mut driver, self.fixed.wait, to, *message, limit)
            }
            sent => sent,
        }
    }

    /// In the child of a fork: closes the descriptors of the parent's node, as dropping it does.
    /// For the C library, whose node may have been inside a call of another thread at the fork.
    #[doc(hidden)]
    pub fn abandon(&self) {
        self.core.abandon();
    }

    /// Sends several messages as one batch: small ones share packets, and nothing leaves before
    /// `fill` returned (unless it fills a queue, or goes to a peer that prefers
    /// [`Response`](crate::Mode)).
    ///
    /// # Errors
    /// No further ones. `fill` handles the errors of single messages.
    pub fn batch<R>(&mut self, fill: impl FnOnce(&mut Batch<'_>) -> R) -> Result<R, Error> {
        let mut driver = self.enter_open()?;
        let result = fill(&mut Batch::new(&self.core, &mut driver));
        if self.core.is_forked() {
            return Err(Error::Forked);
        }
        // The program's function may have computed for long.
        driver.show_life();
        driver.send_accepted_now();
        Ok(result)
    }

    /// Sends one payload to many peers, as [`Node::send`] does to one, and tells for each whether
    /// it was accepted. Up to 256 bytes are copied for each peer; a longer payload is held once for
    /// all, and one of more than 2 KiB is copied for none.
    ///
    /// # Errors
    /// No further ones. Those of single peers stand in the list.
    pub fn broadcast(
        &mut self,
        to: &[NodeId],
        message: impl Into<OutgoingMessage>,
    ) -> Result<Vec<Accepted>, Error> {
        let message = message.into();
        Ok(self.enter_to_send()?.broadcast(to, &message))
    }

    /// As [`Peer::cancel`](crate::Peer::cancel).
    pub(crate) fn cancel(&self, to: NodeId, channel: ChannelId, token: u64) -> Result<u64, Error> {
        // Cancel before any output: messages that still wait for the next call could leave.
        let mut driver = self.enter_to_send()?;
        let cancelled = driver.engine.cancel(to, channel, token);
        let cancelled = cancelled.map_err(|error| Error::from_send(to, error))?;
        if cancelled > 0 {
            // Messages that waited behind them may go.
            driver.send_accepted_now();
        }
        Ok(cancelled)
    }

    /// Blocks until every accepted message is acknowledged, for at most `limit`.
    ///
    /// # Errors
    /// [`Error::NotFlushed`] names the peers that have not acknowledged everything, or whose
    /// session ended before: once, unless the program has taken the event that tells it.
    pub fn flush(&mut self, limit: Duration) -> Result<(), Error> {
        let deadline = Deadline::after(limit);
        let mut driver = self.enter_open()?;
        driver.waiter.begin(self.fixed.wait, Awaited::Progress);
        driver.run_cycle()?;
        while !driver.is_flushed() && !deadline.is_over() {
            pause(&mut driver, deadline)?;
        }
        driver.flushed()
    }

    /// As [`Peer::queue_len`](crate::Peer::queue_len).
    pub(crate) fn queue_len(&self, node: NodeId) -> Result<(u64, u64), Error> {
        let driver = self.enter_to_ask()?;
        if !driver.engine.knows(node) {
            return Err(Error::UnknownPeer(node));
        }
        Ok(driver.engine.queue_len(node))
    }

    // ---- receiving

    /// Blocks until a message arrives. Events do not wake it: a program that waits for peers that
    /// may end uses [`Node::next`]. A program that needs no events does not have to take them.
    ///
    /// # Errors
    /// [`Error::Closed`] when closed and everything that had arrived was taken.
    /// [`Error::NeedsAnswer`] if no message is there and an announced one waits for the program's
    /// answer. Each is told once, so that the next call receives from others.
    pub fn recv(&mut self) -> Result<Message, Error> {
        until_some(|| self.recv_within(None))
    }

    /// Blocks until a message arrives, for at most `limit`.
    ///
    /// # Errors
    /// As [`Node::recv`].
    pub fn recv_timeout(&mut self, limit: Duration) -> Result<Option<Message>, Error> {
        self.recv_within(Some(limit))
    }

    /// The next message, if there is one now. It waits for nothing, and so never fails with
    /// [`Error::NeedsAnswer`].
    ///
    /// # Errors
    /// As [`Node::recv`].
    pub fn try_recv(&mut self) -> Result<Option<Message>, Error> {
        self.try_take(Driver::take_message)
    }

    /// Takes a message announced by [`Event::Incoming`] into memory of the library; it arrives like
    /// any other.
    ///
    /// # Errors
    /// [`Error::Incoming`]: no such message waits, or it needs a buffer ([`Node::accept_into`]).
    pub fn accept(
        &mut self,
        node: NodeId,
        channel: ChannelId,
        number: MessageNumber,
    ) -> Result<(), Error> {
        self.decide(|driver| Ok(driver.engine.accept(node, channel, number, None)?))
    }

    /// Takes a message announced by [`Event::Incoming`] into `buffer`, which must be at least as
    /// long; its payload will be that memory, not a copy.
    ///
    /// # Errors
    /// [`Error::Incoming`].
    pub fn accept_into(
        &mut self,
        node: NodeId,
        channel: ChannelId,
        number: MessageNumber,
        buffer: impl Into<ReceiveBuffer>,
    ) -> Result<(), Error> {
        let buffer = Some(buffer.into());
        self.decide(|driver| Ok(driver.engine.accept(node, channel, number, buffer)?))
    }

    /// Refuses a message announced by [`Event::Incoming`]; its sender learns `reason`.
    ///
    /// # Errors
    /// [`Error::Incoming`].
    pub fn refuse(
        &mut self,
        node: NodeId,
        channel: ChannelId,
        number: MessageNumber,
        reason: u64,
    ) -> Result<(), Error> {
        self.decide(|driver| Ok(driver.engine.refuse(node, channel, number, reason)?))
    }

    fn decide(&mut self, verb: impl FnOnce(&mut Driver) -> Result<(), Error>) -> Result<(), Error> {
        let mut driver = self.enter_open()?;
        verb(&mut driver)?;
        driver.output_now()
    }

    // ---- both

    /// Returns a handle by which other threads, and signal handlers, end waits of this node.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no descriptor for it.
    pub fn waker(&self) -> Result<Waker, Error> {
        Waker::of(Target::Node(self.core.wakes()?))
    }

    /// Does input and output, then blocks for at most `limit` until a message or an event waits, or
    /// an active message, if the program [extracts](crate::active::ActiveMessages::extract) them.
    /// Returns whether one does. While packets arrive as fast as they are taken, a call ends soon
    /// after the first message, and the next one goes on.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn poll(&mut self, limit: Duration) -> Result<bool, Error> {
        let deadline = Deadline::after(limit);
        let mut driver = self.enter_open()?;
        driver.waiter.begin(self.fixed.wait, Awaited::Message);
        driver.run_cycle()?;
        while !driver.has_message_or_event() && !deadline.is_over() {
            pause(&mut driver, deadline)?;
        }
        driver.waiter.end();
        Ok(driver.has_message_or_event())
    }

    /// The next event that a call has found; polls the socket only if no call has for 200 us.
    /// The end of a session comes after its last message was taken; one that [`Node::recv_into`]
    /// had no room for was not. Ends of sessions with one peer that are not taken become one.
    ///
    /// # Errors
    /// [`Error::Closed`] when closed and all were taken.
    pub fn next_event(&mut self) -> Result<Option<Event>, Error> {
        match self.enter_to_ask()?.poll_event() {
            None if self.closed => Err(Error::Closed),
            event => Ok(event),
        }
    }

    /// Blocks until something happens, for at most `limit`. Messages do not end the wait.
    ///
    /// # Errors
    /// As [`Node::next_event`]; [`Error::Io`].
    pub fn event_timeout(&mut self, limit: Duration) -> Result<Option<Event>, Error> {
        if let Some(event) = self.next_event()? {
            return Ok(Some(event));
        }
        let deadline = Deadline::after(limit);
        let mut driver = self.enter_open()?;
        driver.waiter.begin(self.fixed.wait, Awaited::Progress);
        driver.run_cycle()?;
        loop {
            let event = driver.poll_event();
            if event.is_some() || deadline.is_over() {
                return Ok(event);
            }
            pause(&mut driver, deadline)?;
        }
    }

    /// All events that calls have found, as [`Node::next_event`] tells them.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn events(&mut self) -> Result<Vec<Event>, Error> {
        let mut driver = self.enter_to_ask()?;
        Ok(std::iter::from_fn(|| driver.poll_event()).collect())
    }

    // ---- ends

    /// Blocks until every peer has everything and knows of the end, for at most `patience` in all.
    /// Received messages and the events can still be taken. Messages to a peer that had closed its
    /// node before they were sent are not waited for, unless another process answers for it.
    ///
    /// # Errors
    /// [`Error::NotFlushed`] names those that did not get everything. The node is closed all the
    /// same.
    pub fn close(&mut self, patience: Duration) -> Result<(), Error> {
        let mut driver = self.enter_open()?;
        // A wake does not end it.
        let wakes = driver.wakes.take();
        let result = driver.close(patience);
        driver.wakes = wakes;
        drop(driver);
        self.closed = true;
        if let Some(helper) = self.helper.take() {
            helper::stop(&self.core, helper);
        }
        result
    }

    // ---- seeing it

    /// Returns the counters since the node was opened.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn counters(&self) -> Result<Counters, Error> {
        Ok(*self.enter_to_ask()?.engine.counters())
    }

    /// Returns the counters of its socket since the node was opened.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn socket_counters(&self) -> Result<suci_net::Counters, Error> {
        Ok(self.enter_to_ask()?.backend_counters())
    }
}

/// Runs a cycle if the last poll of the socket is too long ago. The helper expects that a program
/// that makes calls serves its node, so each call that sets something does. It runs none during a
/// panic: the panic may be that of the program's steering function, which a cycle would call again.
fn serve(driver: &mut DriverGuard<'_>) {
    if !std::thread::panicking() {
        driver.read_clock();
        // The next call that needs the socket meets the same error and reports it.
        let _ = driver.run_cycle_if_stale();
    }
}

/// Waits a little: sleeps, or polls once more while it may spin; not at all after a wake.
fn pause(driver: &mut DriverGuard<'_>, deadline: Deadline) -> Result<(), Error> {
    if driver.take_wake() {
        return Err(Error::Woken);
    }
    wait_on(driver, deadline)
}

fn try_send(
    driver: &mut DriverGuard<'_>,
    to: NodeId,
    message: OutgoingMessage,
) -> Result<MessageNumber, Error> {
    driver.send(None, message.len(), |driver| driver.try_push(to, message))
}

/// Waits until the message is accepted, for at most `limit`. Otherwise an event says when there is
/// room.
#[cold]
fn send_when_possible(
    driver: &mut DriverGuard<'_>,
    policy: WaitPolicy,
    to: NodeId,
    mut message: OutgoingMessage,
    limit: Duration,
) -> Result<MessageNumber, Error> {
    let deadline = Deadline::after(limit);
    driver.waiter.begin(policy, Awaited::Progress);
    while !deadline.is_over() && !driver.take_wake() {
        wait_on(driver, deadline)?;
        match try_send(driver, to, message) {
            Err(Error::WouldBlock { message: back, .. }) => message = *back,
            sent => return sent,
        }
    }
    let message = Box::new(message);
    Err(driver.want_room(to, Error::WouldBlock { to, message }))
}

/// As [`wait_on`], in a call that waits for room in a queue.
fn wait_for_progress(
    driver: &mut DriverGuard<'_>,
    deadline: Deadline,
    wait: WaitPolicy,
) -> Result<(), Error> {
    driver.waiter.begin(wait, Awaited::Progress);
    pause(driver, deadline)
}

/// Waits a little. The helper sees that a call lasts.
fn wait_on(driver: &mut DriverGuard<'_>, deadline: Deadline) -> Result<(), Error> {
    driver.wait_and_run_cycle(deadline)?;
    driver.show_life();
    Ok(())
}

impl AsRawFd for Node {
    /// Returns a descriptor for epoll, poll or select: readable when [`Node::poll`] has something
    /// to do, and while a wake is pending. It nests the socket, a timer and events; do nothing else
    /// with it.
    fn as_raw_fd(&self) -> RawFd {
        self.core.expose()
    }
}

impl AsFd for Node {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.core.expose();
        self.core.descriptor()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.core.is_forked() {
            // The parent's sessions, and a thread that does not exist here: nothing is ours to end.
            self.core.abandon();
            std::mem::forget(Arc::clone(&self.core));
            std::mem::forget(self.helper.take());
            return;
        }
        if !self.closed {
            let patience = if std::thread::panicking() {
                Duration::ZERO
            } else {
                DROP_PATIENCE
            };
            // A program that wants to know calls `close`.
            let _ = self.close(patience);
        }
        if let Some(helper) = self.helper.take() {
            helper::stop(&self.core, helper);
        }
    }
}
