//! One peer of a node: the program's decisions about it, and the known facts.

use crate::clock::Clock;
use crate::error::Error;
use crate::node::Node;
use crate::shared::SharedNode;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;
use suci_proto::types::{ChannelId, NodeId};
use suci_proto::{Engine, PeerOptions, PeerStats, Priority, SendError, Steer};

/// One peer, as its node sees it: [`Node::peer`] and [`SharedNode::peer`] give it. It costs
/// nothing to make and names the peer only: whether the node knows the peer, each call says.
///
/// No call waits for the peer. On a [`SharedNode`] each call blocks for about one cycle of the
/// thread that serves the peer.
///
/// ```
/// # fn main() -> Result<(), suci::Error> {
/// use suci::{ChannelId, Error, Mode, Node, NodeId, Priority};
/// let mut node = Node::builder().id(NodeId(1)).open()?;
/// node.add_peer(NodeId(0), "127.0.0.1:7000".parse().unwrap())?;
/// let peer = node.peer(NodeId(0));
/// peer.configure(|options| options.mode = Mode::Throughput)?;
/// // Questions overtake the bulk on other channels.
/// peer.set_channel_priority(ChannelId(1), Priority::new(6, 16).unwrap())?;
/// peer.suspend()?;
/// assert!(matches!(node.send(NodeId(0), "now"), Err(Error::Suspended { .. })));
/// node.peer(NodeId(0)).resume()?;
/// node.send(NodeId(0), "now")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Peer<'a> {
    host: Host<'a>,
    id: NodeId,
}

#[derive(Clone, Copy, Debug)]
enum Host<'a> {
    Node(&'a Node),
    Shared(&'a SharedNode),
}

impl Node {
    /// A peer: its settings, its state, its end.
    #[must_use]
    pub fn peer(&self, id: NodeId) -> Peer<'_> {
        let host = Host::Node(self);
        Peer { host, id }
    }
}

impl SharedNode {
    /// A peer: its settings, its state, its end.
    #[must_use]
    pub fn peer(&self, id: NodeId) -> Peer<'_> {
        let host = Host::Shared(self);
        Peer { host, id }
    }
}

impl Peer<'_> {
    /// The peer's ID.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.id
    }

    // ---- settings

    /// Returns the program's options for the peer.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn options(&self) -> Result<PeerOptions, Error> {
        let options = self.ask(move |engine, id| engine.options(id))?;
        options.map_err(|error| Error::from_send(self.id, error))
    }

    /// Changes options of the peer, for all its sessions and connections from now on. Other options
    /// stay, also when several threads change some at the same time. A [`SharedNode`] runs `change`
    /// on the thread that serves the peer. If `change` panics, no option changes, and the panic
    /// goes on in the caller.
    ///
    /// # Errors
    /// As [`Peer::set_options`]. `change` is not run for an unknown peer.
    pub fn configure(
        &self,
        change: impl FnOnce(&mut PeerOptions) + Send + 'static,
    ) -> Result<(), Error> {
        let (changed, panicked) = self.change(move |engine, id| {
            let mut panicked = None;
            // The program's fault must not end the thread that serves all peers.
            let guarded = |options: &mut PeerOptions| {
                let mut new = *options;
                match catch_unwind(AssertUnwindSafe(|| change(&mut new))) {
                    Ok(()) => *options = new,
                    Err(panic) => panicked = Some(panic),
                }
            };
            let changed = engine.change_options(Clock.now(), id, guarded);
            (changed, panicked)
        })?;
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
        changed.map_err(|error| Error::from_options(self.id, error))
    }

    /// Sets all options of the peer, for all its sessions and connections from now on.
    /// [`Peer::configure`] changes some and leaves the others.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`]; [`Error::Config`] for a limit of silence that is
    /// out of its range. Nothing changes then.
    pub fn set_options(&self, options: PeerOptions) -> Result<(), Error> {
        self.configure(move |old| *old = options)
    }

    /// Sets how urgent a channel is beside other channels of the peer, in both directions. If its
    /// class is higher than that of the peer ([`PeerOptions::priority`]), it counts as that class
    /// beside other peers, too. Its messages then wait for one train at most, whatever is queued
    /// for other peers.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Channels`], [`Error::ReservedChannel`].
    pub fn set_channel_priority(
        &self,
        channel: ChannelId,
        priority: Priority,
    ) -> Result<(), Error> {
        Error::check_channel(channel)?;
        let gate = self.gate();
        self.verb(move |engine, id| {
            let done = engine.set_channel_priority(id, channel, priority);
            // The next message meets a gate that knows.
            if let (Some(gate), Ok(())) = (gate, &done) {
                gate.set_class(channel, priority.class());
            }
            done
        })
    }

    /// Installs the program's steering function, in place of the one before. It is asked at once,
    /// when the peer acknowledges something, and when it wanted to be asked again. It may only hold
    /// back messages that network and receiver would allow. It survives connections. A
    /// [`SharedNode`] calls it in the thread that serves the peer. `examples/yield_to_urgent.rs`
    /// has one.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn steer(&self, steer: impl Steer + 'static) -> Result<(), Error> {
        self.set_steer(Some(Box::new(steer)))
    }

    /// Removes the program's steering function.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn unsteer(&self) -> Result<(), Error> {
        self.set_steer(None)
    }

    fn set_steer(&self, steer: Option<Box<dyn Steer>>) -> Result<(), Error> {
        self.known(move |engine, id| engine.steer(Clock.now(), id, steer))
    }

    // ---- connection and flow

    /// Opens a connection before there is anything to send. Sending does it by itself.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn connect(&self) -> Result<(), Error> {
        self.verb(move |engine, id| engine.connect(Clock.now(), id))
    }

    /// Holds back all messages to and from the peer until [`Peer::resume`]. What was accepted is
    /// kept on both sides and flows afterwards; meanwhile sending fails on both with
    /// [`Error::Suspended`], and what had arrived can still be received. The peer is told, and its
    /// program by [`Event::Suspended`](crate::Event::Suspended). Acknowledgements and signs of life
    /// go on: a suspended peer is [`Lost`](crate::Event::Lost) only if it is silent.
    ///
    /// Suspension lasts as long as the session, even if the connection is replaced. Either side may
    /// suspend; messages flow when neither does. [`Peer::stats`] tells which side did. On a
    /// [`SharedNode`], messages that other threads send in the same moment may still be accepted;
    /// they are kept as well.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn suspend(&self) -> Result<(), Error> {
        self.set_suspended(true)
    }

    /// Undoes [`Peer::suspend`]. Messages flow again unless the peer suspended the session, too.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn resume(&self) -> Result<(), Error> {
        self.set_suspended(false)
    }

    fn set_suspended(&self, suspended: bool) -> Result<(), Error> {
        let gate = self.gate();
        self.verb(move |engine, id| {
            let done = match suspended {
                true => engine.suspend(id),
                false => engine.resume(id),
            };
            // The next message meets a gate that knows.
            if let Some(gate) = gate {
                gate.set_suspended(engine.suspended_by(id));
            }
            done
        })
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
    /// Returns false if the channel was finished before, or the session is closing.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::ReservedChannel`]; [`Error::Channels`]
    /// if it was not used yet and cannot be opened.
    pub fn finish_channel(&self, channel: ChannelId) -> Result<bool, Error> {
        Error::check_channel(channel)?;
        self.verb(move |engine, id| engine.finish_channel(Clock.now(), id, channel))
    }

    /// Takes back the messages on `channel` with this [`token`](crate::OutgoingMessage::token) of
    /// which nothing was sent. Returns how many. The queue has their room at once. Of those sent
    /// with [`notify`](crate::OutgoingMessage::notify),
    /// [`Event::NotDelivered`](crate::Event::NotDelivered) tells with the reason
    /// [`CANCELLED`](crate::CANCELLED).
    ///
    /// ```
    /// # fn main() -> Result<(), suci::Error> {
    /// use suci::{ChannelId, Node, NodeId, OutgoingMessage};
    /// let mut node = Node::builder().id(NodeId(1)).open()?;
    /// node.add_peer(NodeId(0), "127.0.0.1:7000".parse().unwrap())?;
    /// node.send(NodeId(0), OutgoingMessage::new("a frame").token(7))?;
    /// // No node answered there yet, so it was not sent.
    /// assert_eq!(node.peer(NodeId(0)).cancel(ChannelId(0), 7)?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn cancel(&self, channel: ChannelId, token: u64) -> Result<u64, Error> {
        match self.host {
            Host::Node(node) => node.cancel(self.id, channel, token),
            Host::Shared(node) => node.cancel(self.id, channel, token),
        }
    }

    /// Sends everything again that was sent and is not acknowledged, as far as flow control allows:
    /// for [`PeerOptions::manual_retransmission`].
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn retransmit(&self) -> Result<(), Error> {
        self.known(move |engine, id| engine.retransmit(id))
    }

    // ---- what is known

    /// Returns what is known about the peer now; nothing if the node does not know it.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::Closed`].
    pub fn stats(&self) -> Result<Option<PeerStats>, Error> {
        self.ask(move |engine, id| engine.peer_stats(id))
    }

    /// The name of the congestion controller that decides now; nothing without a connection.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::Closed`].
    pub fn controller(&self) -> Result<Option<&'static str>, Error> {
        self.ask(move |engine, id| engine.controller(id))
    }

    /// Messages accepted and not yet acknowledged, and their bytes of payload and header. Of those
    /// that are, some still count in the queue: [`send_queue`](crate::NodeBuilder::send_queue) says
    /// which.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], also for a node that came by itself and was forgotten since.
    pub fn queue_len(&self) -> Result<(u64, u64), Error> {
        match self.host {
            Host::Node(node) => node.queue_len(self.id),
            Host::Shared(node) => node.queue_len(self.id),
        }
    }

    /// How many messages of a channel, from its first in this session, are resolved: the peer's
    /// library holds them, its program refused them, or this program cancelled them and the peer
    /// knows that.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::Closed`].
    pub fn delivered(&self, channel: ChannelId) -> Result<u64, Error> {
        self.ask(move |engine, id| engine.delivered(id, channel))
    }

    /// Bytes that the peer would take now as one message on `channel`, if nothing were queued
    /// before it ([`Peer::queue_len`]). It is the known room in its kernel's buffer or in its
    /// library's memory, whichever is less. 0 while it is not up. Sending takes more than that; it
    /// waits here then.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::Closed`].
    pub fn remote_window(&self, channel: ChannelId) -> Result<u64, Error> {
        self.ask(move |engine, id| engine.remote_window(Clock.now(), id, channel))
    }

    // ---- ends

    /// Closes the session: waits (in the background) until the peer has everything, for at most
    /// `patience`, then tells it. Returns whether there is a session; if so
    /// [`Event::Ended`](crate::Event::Ended) follows.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn close(&self, patience: Duration) -> Result<bool, Error> {
        self.verb(move |engine, id| engine.close_peer(Clock.now(), id, patience))
    }

    /// Gives the session up at once. Returns whether there is one; if so
    /// [`Event::Ended`](crate::Event::Ended) with the outcomes follows.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn reset(&self) -> Result<bool, Error> {
        self.verb(move |engine, id| engine.reset(Clock.now(), id))
    }

    // ---- how both kinds of nodes do it

    /// Runs a question that changes nothing.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Engine, NodeId) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let id = self.id;
        match self.host {
            Host::Node(node) => Ok(question(&mut node.enter_to_ask()?.engine, id)),
            Host::Shared(node) => node.ask(id, move |driver| question(&mut driver.engine, id)),
        }
    }

    /// Runs a change, and sends the output that it allows.
    fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Engine, NodeId) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let id = self.id;
        match self.host {
            Host::Node(node) => {
                let mut driver = node.enter_open()?;
                let result = work(&mut driver.engine, id);
                // The change holds even if the socket failed; the next call that needs the socket
                // reports it.
                let _ = driver.output_now();
                Ok(result)
            }
            Host::Shared(node) => node.ask(id, move |driver| work(&mut driver.engine, id)),
        }
    }

    /// Does the same as `change`, for a verb of the engine.
    fn verb<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Engine, NodeId) -> Result<T, SendError> + Send + 'static,
    ) -> Result<T, Error> {
        self.change(work)?
            .map_err(|error| Error::from_send(self.id, error))
    }

    /// Does the same as `change`, for a verb that reports whether it knows the peer.
    fn known(
        &self,
        work: impl FnOnce(&mut Engine, NodeId) -> bool + Send + 'static,
    ) -> Result<(), Error> {
        let known = self.change(work)?;
        known.then_some(()).ok_or(Error::UnknownPeer(self.id))
    }

    /// The gate that senders on other threads debit before they hand a message over.
    fn gate(&self) -> Option<std::sync::Arc<crate::shared::Gate>> {
        match self.host {
            Host::Node(_) => None,
            Host::Shared(node) => node.gate(self.id),
        }
    }
}
