//! One socket: a node, and what the classic interface keeps beside it.

use super::pending::PendingMessages;
use crate::entry::Host;
use crate::error::{
    BUFFER_TOO_SHORT, BUSY, ENDED, ERRNO_BIT, Failure, NOT_FLUSHED, QUEUE_FULL, SUSPENDED,
    TIMED_OUT, TOO_LONG,
};
use crate::handle::{Entered, Handle, Removed};
use crate::limit::{Limit, Rest};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use suci::{
    Bytes, ChannelId, Error, Event, LinkState, Message, MessageOutcome, Mode, Node, NodeId,
    Outcome, PeerOptions, Side,
};

/// Messages that are taken from the node at once. Until the program reads them, they count no
/// longer in the node's memory.
const TAKEN_AT_ONCE: usize = 64;

/// Failures that wait to be told.
const MOST_FAILURES: usize = 1_024;

/// How long `datagram_close` waits at a time for room in the node's queues.
const ROUND: Duration = Duration::from_millis(10);

/// Maximum time that `datagram_close` waits.
const HOUR: Duration = Duration::from_secs(3_600);

/// The limits of a socket, from the options with which it was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The longest message, in bytes.
    pub(super) max_message: u64,
    /// Bytes queued for one destination.
    pub(super) send_queue: u64,
}

/// `enum datagram_connection`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    Idle = 0,
    Connecting = 1,
    Connected = 2,
    Silent = 3,
    Disconnected = 4,
    DisconnectedThere = 5,
}

pub(super) struct Socket {
    node: Handle,
    id: NodeId,
    bounds: Bounds,
    /// Retransmission is the program's.
    manual: bool,
    /// The destination of `datagram_write`.
    destination: Option<NodeId>,
    /// The sender of the message that was read last.
    source: Option<NodeId>,
    pending: PendingMessages,
    found: VecDeque<Message>,
    /// Nodes that this program disconnected, and those whose program did so as far as the events
    /// say that `datagram_ready` took.
    disconnected: BTreeSet<NodeId>,
    disconnected_there: BTreeSet<NodeId>,
    /// Failures that the next calls of `datagram_ready` tell.
    failures: VecDeque<Failure>,
}

impl Socket {
    /// In the child of a fork: closes the descriptors of the parent's node.
    pub(super) fn abandon(&self) {
        // The child has nobody else who could give that handle back.
        let _ = self.node.remove();
    }
}

fn alone(entered: &mut Entered) -> Result<&mut Node, Failure> {
    match entered.host() {
        Host::Alone(node) => Ok(node),
        Host::Shared(_) => Err(Failure::internal()),
    }
}

impl Socket {
    /// Makes the socket of a caller-driven node, whose retransmission is the program's if `manual`.
    pub(super) fn new(node: Handle, manual: bool, bounds: Bounds) -> Result<Self, Failure> {
        let mut entered = node.enter()?;
        let own = alone(&mut entered)?;
        let id = own.id();
        if manual {
            for peer in own.peers()? {
                set_options(own, peer.node, |options| {
                    options.manual_retransmission = true
                })?;
            }
        }
        Ok(Self {
            node,
            id,
            bounds,
            manual,
            destination: None,
            source: None,
            pending: PendingMessages::default(),
            found: VecDeque::new(),
            disconnected: BTreeSet::new(),
            disconnected_there: BTreeSet::new(),
            failures: VecDeque::new(),
        })
    }

    pub(super) fn node(&self) -> Handle {
        self.node
    }

    pub(super) fn id(&self) -> NodeId {
        self.id
    }

    fn with_node<T>(&self, call: impl FnOnce(&mut Node) -> Result<T, Error>) -> Result<T, Failure> {
        let mut entered = self.node.enter()?;
        Ok(call(alone(&mut entered)?)?)
    }

    // ---- sending

    pub(super) fn set_destination(&mut self, to: NodeId) -> Result<(), Failure> {
        self.accepted(to)?;
        self.destination = Some(to);
        Ok(())
    }

    /// Queues a copy of `bytes` to the chosen destination.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let to = self.destination.ok_or_else(|| {
            let text = "no destination was chosen: call datagram_destination() first";
            Failure::new(ERRNO_BIT | libc::EDESTADDRREQ, text)
        })?;
        // Nothing is copied in vain.
        let accepted = self.may_queue(to, bytes.len())?;
        self.queue(to, &mut vec![Bytes::copy_from_slice(bytes)], accepted)
    }

    /// Queues messages to `to`: all, or on failure none.
    pub(super) fn put(&mut self, to: NodeId, mut messages: Vec<Bytes>) -> Result<(), Failure> {
        let longest = messages.iter().map(Bytes::len).max();
        let accepted = self.may_queue(to, longest.unwrap_or(0))?;
        self.queue(to, &mut messages, accepted)
    }

    /// Checks a message of `length` bytes to `to`. Returns the messages and bytes to it that the
    /// node holds.
    fn may_queue(&self, to: NodeId, length: usize) -> Result<(u64, u64), Failure> {
        let accepted = self.accepted(to)?;
        let most = self.bounds.max_message;
        if length as u64 > most {
            let text = format!(
                "a message of {length} bytes: at most {most}; raise max_message of the options at both ends"
            );
            return Err(Failure::new(TOO_LONG, text));
        }
        let by = if self.disconnected.contains(&to) {
            "this program: call datagram_reconnect()"
        } else if self.disconnected_there.contains(&to) {
            "its own program: wait until that reconnects"
        } else {
            return Ok(accepted);
        };
        let text = format!("node {} was disconnected by {by}", to.0);
        Err(Failure::new(SUSPENDED, text))
    }

    fn queue(
        &mut self,
        to: NodeId,
        messages: &mut Vec<Bytes>,
        accepted: (u64, u64),
    ) -> Result<(), Failure> {
        let most = self.bounds.send_queue;
        match self.pending.push(to, messages, accepted, most) {
            true => Ok(()),
            false => Err(Failure::new(
                QUEUE_FULL,
                format!(
                    "the queue to node {} is full ({most} bytes): call datagram_ready()",
                    to.0
                ),
            )),
        }
    }

    /// Returns the messages and bytes to a node that the library accepted and that it did not
    /// acknowledge.
    fn accepted(&self, to: NodeId) -> Result<(u64, u64), Failure> {
        self.with_node(|node| node.peer(to).queue_len())
    }

    /// Returns the number of messages to a node that it did not acknowledge.
    pub(super) fn queue_length(&self, to: NodeId) -> Result<u64, Failure> {
        let (accepted, _) = self.accepted(to)?;
        Ok(accepted.saturating_add(self.pending.count(to)))
    }

    /// Hands the waiting messages to the node, which sends them together.
    fn hand_over(&mut self, node: &mut Node) -> Result<(), Failure> {
        for error in self.pending.hand_over(node)? {
            self.fail(error.into());
        }
        Ok(())
    }

    // ---- input and output

    /// Does input and output, then waits within the limit for a message. Returns whether one can be
    /// read.
    pub(super) fn ready(&mut self, limit: Limit) -> Result<bool, Failure> {
        let rest = limit.start();
        let mut entered = self.node.enter()?;
        if !self.found.is_empty() {
            // A batch of nothing sends what is due, and looks at the socket now and then.
            self.hand_over(alone(&mut entered)?)?;
            return self.result();
        }
        loop {
            let node = alone(&mut entered)?;
            if !self.pending.is_empty() {
                self.hand_over(node)?;
            }
            let polled = node.poll(rest.left().duration());
            let woken = matches!(polled, Err(Error::Woken)) && entered.entry().take_woken();
            let has_news = match polled {
                Ok(has_news) => has_news,
                Err(Error::Woken) => true,
                Err(error) => return Err(error.into()),
            };
            if has_news {
                let node = alone(&mut entered)?;
                self.take_events(node)?;
                self.take_messages(node)?;
            }
            let is_done = !self.found.is_empty() || !self.failures.is_empty() || woken;
            if is_done || rest.left() == Limit::Now {
                return self.result();
            }
        }
    }

    fn result(&mut self) -> Result<bool, Failure> {
        match self.failures.pop_front() {
            Some(failure) => Err(failure),
            None => Ok(!self.found.is_empty()),
        }
    }

    /// Takes messages that are there.
    fn take_messages(&mut self, node: &mut Node) -> Result<(), Failure> {
        let mut taken = Vec::new();
        node.recv_many(&mut taken, TAKEN_AT_ONCE, Duration::ZERO)?;
        self.found.extend(taken);
        Ok(())
    }

    fn take_events(&mut self, node: &mut Node) -> Result<(), Failure> {
        while let Some(event) = node.next_event()? {
            self.take_event(node, event)?;
        }
        Ok(())
    }

    fn take_event(&mut self, node: &mut Node, event: Event) -> Result<(), Failure> {
        match event {
            Event::Up { node: peer, .. } => self.begin(node, peer),
            Event::Suspended {
                node: peer,
                by: Side::There,
            } => {
                self.disconnected_there.insert(peer);
                Ok(())
            }
            Event::Resumed {
                node: peer,
                by: Side::There,
            } => {
                self.disconnected_there.remove(&peer);
                Ok(())
            }
            Event::Ended {
                node: peer,
                reason,
                outcomes,
                ..
            } => {
                self.disconnected_there.remove(&peer);
                let ended = Error::Ended { node: peer, reason };
                self.note_undelivered(&ended, &outcomes);
                self.begin(node, peer)
            }
            Event::NotDelivered {
                node: peer,
                token,
                reason,
                ..
            } => {
                let text = format!(
                    "node {} refused a message of {token} bytes: it takes at most {reason}",
                    peer.0
                );
                self.fail(Failure::new(TOO_LONG, text));
                Ok(())
            }
            // The sender learns the limit as the reason.
            Event::Incoming {
                node: peer,
                channel,
                number,
                ..
            } => Ok(node.refuse(peer, channel, number, self.bounds.max_message)?),
            _ => Ok(()),
        }
    }

    /// Applies to a new session what the program chose for the peer.
    fn begin(&mut self, node: &mut Node, peer: NodeId) -> Result<(), Failure> {
        if self.manual {
            set_options(node, peer, |options| options.manual_retransmission = true)?;
        }
        if self.disconnected.contains(&peer) {
            node.peer(peer).suspend()?;
        }
        Ok(())
    }

    /// The program hears of a session that ended before everything was delivered.
    fn note_undelivered(&mut self, ended: &Error, outcomes: &[MessageOutcome]) {
        let undelivered = |outcome: &&MessageOutcome| outcome.outcome != Outcome::Delivered;
        let count = outcomes.iter().filter(undelivered).count();
        if count > 0 {
            let text = format!("{ended}; {count} messages to it may not have arrived");
            self.fail(Failure::new(ENDED, text));
        }
    }

    fn fail(&mut self, failure: Failure) {
        if self.failures.len() < MOST_FAILURES {
            self.failures.push_back(failure);
        }
    }

    // ---- receiving

    fn nothing_found() -> Failure {
        let text = "no message was found: call datagram_ready()";
        Failure::new(TIMED_OUT, text)
    }

    /// Returns the length of the next message.
    pub(super) fn next_length(&self) -> Result<usize, Failure> {
        let next = self.found.front().ok_or_else(Self::nothing_found)?;
        Ok(next.payload.len())
    }

    /// Takes the next message.
    pub(super) fn take(&mut self) -> Result<Message, Failure> {
        let message = self.found.pop_front().ok_or_else(Self::nothing_found)?;
        self.source = Some(message.from);
        Ok(message)
    }

    /// Takes the next message if a buffer of `size` bytes has room for it.
    pub(super) fn take_within(&mut self, size: usize) -> Result<Message, Failure> {
        let length = self.next_length()?;
        if length > size {
            let text = format!(
                "the next message has {length} bytes, the buffer {size}: pass a longer one"
            );
            return Err(Failure::new(BUFFER_TOO_SHORT, text));
        }
        self.take()
    }

    pub(super) fn source(&self) -> Result<NodeId, Failure> {
        self.source.ok_or_else(|| {
            let text = "no message was read: call datagram_read() first";
            Failure::new(TIMED_OUT, text)
        })
    }

    /// Acknowledges what was received: acknowledgements that found no packet to ride on become due
    /// with the next driver cycle.
    pub(super) fn acknowledge(&mut self, to: NodeId) -> Result<(), Failure> {
        self.accepted(to)?;
        let mut entered = self.node.enter()?;
        match alone(&mut entered)?.poll(Duration::ZERO) {
            Ok(_) | Err(Error::Woken) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    // ---- one peer

    pub(super) fn retransmit(&mut self, to: NodeId) -> Result<(), Failure> {
        match self.manual {
            true => self.with_node(|node| node.peer(to).retransmit()),
            false => self.accepted(to).map(drop),
        }
    }

    pub(super) fn remote_window(&self, to: NodeId) -> Result<u64, Failure> {
        self.accepted(to)?;
        self.with_node(|node| node.peer(to).remote_window(ChannelId(0)))
    }

    pub(super) fn prefer(&mut self, to: NodeId, mode: Mode) -> Result<(), Failure> {
        let mut entered = self.node.enter()?;
        set_options(alone(&mut entered)?, to, |options| options.mode = mode)
    }

    pub(super) fn disconnect(&mut self, to: NodeId) -> Result<(), Failure> {
        self.with_node(|node| node.peer(to).suspend())?;
        self.disconnected.insert(to);
        Ok(())
    }

    pub(super) fn reconnect(&mut self, to: NodeId) -> Result<(), Failure> {
        self.with_node(|node| {
            node.peer(to).resume()?;
            node.peer(to).connect()
        })?;
        self.disconnected.remove(&to);
        Ok(())
    }

    pub(super) fn connection(&self, to: NodeId) -> Result<Connection, Failure> {
        self.accepted(to)?;
        if self.disconnected.contains(&to) {
            return Ok(Connection::Disconnected);
        }
        if self.disconnected_there.contains(&to) {
            return Ok(Connection::DisconnectedThere);
        }
        let stats = self.with_node(|node| node.peer(to).stats())?;
        Ok(match stats {
            Some(stats) => match stats.link {
                LinkState::Connecting => Connection::Connecting,
                LinkState::Up => Connection::Connected,
                LinkState::Lost | LinkState::Quiet => Connection::Silent,
                _ => Connection::Idle,
            },
            // The own node, to which there is no connection.
            None => Connection::Connected,
        })
    }

    // ---- the end

    /// Delivers what can be delivered within the limit, and closes the node. Fails with `BUSY`
    /// before it did anything.
    pub(super) fn close(&mut self, limit: Limit) -> Result<(), Failure> {
        let rest = limit.start();
        let finished = self.finish(rest);
        if let Err(failure) = &finished
            && failure.code() == BUSY
        {
            return finished.map(drop);
        }
        let patience = rest.left().duration().min(HOUR);
        let closed = self.with_node(|node| node.close(patience));
        if let Removed::Ours(entry) = self.node.remove()? {
            drop(entry);
        }
        closed?;
        match finished? {
            0 => Ok(()),
            left => Err(Failure::new(
                NOT_FLUSHED,
                format!("{left} queued messages were not sent: reconnect, or allow more time"),
            )),
        }
    }

    /// Sends what can be sent before the node is closed, and leaves retransmission to the library.
    /// Returns the number of messages that remain.
    fn finish(&mut self, rest: Rest) -> Result<u64, Failure> {
        let mut entered = self.node.enter()?;
        let node = alone(&mut entered)?;
        if self.manual {
            for peer in node.peers()? {
                set_options(node, peer.node, |options| {
                    options.manual_retransmission = false
                })?;
            }
        }
        loop {
            self.hand_over(node)?;
            // Messages to nodes that stay disconnected wait in vain.
            let may_go = |to: NodeId| !self.disconnected.contains(&to);
            if !self.pending.destinations().any(may_go) || rest.left() == Limit::Now {
                let counts = self.pending.destinations().map(|to| self.pending.count(to));
                return Ok(counts.sum());
            }
            match node.poll(rest.left().duration().min(ROUND)) {
                Ok(_) | Err(Error::Woken) => {}
                Err(error) => return Err(error.into()),
            }
            self.take_events(node)?;
            // Nobody reads messages any more. They must not keep the peers' from arriving.
            self.found.clear();
            self.take_messages(node)?;
        }
    }
}

/// Changes the options of a peer.
fn set_options(
    node: &Node,
    peer: NodeId,
    change: impl FnOnce(&mut PeerOptions),
) -> Result<(), Failure> {
    let mut options = node.peer(peer).options()?;
    change(&mut options);
    Ok(node.peer(peer).set_options(options)?)
}
