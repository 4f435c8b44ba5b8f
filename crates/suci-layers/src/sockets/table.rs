//! All sockets of a shard.

mod receive;
mod send;
mod sessions;
#[cfg(test)]
pub(super) mod view;

use super::connection::{Connection, Incoming, PromisedMemory, Segment, Sent, State};
use super::listener::{Listener, Placeholder, Placeholders};
use super::plant::{Fault, is_planted};
use super::wire::{Packet, channel};
use super::{
    Address, ConnectionFailure, MAX_ANSWERS, MAX_CLOSING, MAX_DROPPED, MAX_SOCKETS, OUTPUT,
    SEGMENT_CHARGE, SocketId, SocketKind,
};
use crate::output::Output;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use suci_proto::time::Instant;
use suci_proto::types::{ChannelId, NodeId};
use suci_proto::{NOT_PERMITTED, Outgoing, PortInput};

/// No connection can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// There is no memory for another socket, or there are too many.
    NoMemory,
    /// The node is being closed.
    Closed,
}

/// No connection can be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptError {
    /// None waits.
    Pending,
    /// The socket does not listen, or was closed.
    NotListening,
}

/// Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendRefused {
    /// There is no room yet.
    Full,
    /// There will be none.
    Failed(ConnectionFailure),
}

/// The next part of what arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes; `last` if they end a message.
    Data {
        /// The bytes.
        bytes: Bytes,
        /// They end a message.
        last: bool,
    },
    /// The peer sends nothing more.
    End,
    /// Nothing is there yet.
    Pending,
}

/// The calls for which a socket is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// A call that receives or accepts would not wait.
    pub readable: bool,
    /// A call that sends would not wait.
    pub writable: bool,
}

/// The use of a slot.
#[derive(Clone, Debug)]
enum SlotUse {
    Free,
    Listener(Box<Listener>),
    Placeholder(Placeholder),
    Connection(Box<Connection>),
}

#[derive(Clone, Debug)]
struct Slot {
    /// How often the slot was freed. It makes the numbers of its sockets different.
    generation: u64,
    entry: SlotUse,
}

/// The sockets of one shard, and the messages of the layer that wait to be sent.
///
/// The program's calls, the input of the engine ([`Sockets::on_input`]) and time
/// ([`Sockets::on_timeout`]) change it. After each change take the sockets whose waiters look again
/// ([`Sockets::poll_changed`]), and send ([`Sockets::transmit`]).
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    slots: Vec<Slot>,
    free: Vec<usize>,
    listeners: BTreeMap<u16, SocketId>,
    output: Output,
    /// Sockets that wait for room in the output for their peer.
    room_wanted: BTreeMap<NodeId, BTreeSet<SocketId>>,
    deadlines: BTreeSet<(Instant, SocketId)>,
    changed: VecDeque<SocketId>,
    /// The number of connections with each node that are open, or being opened or closed.
    live: BTreeMap<NodeId, u32>,
    /// The closed sockets for which each node's answers are awaited, the oldest first.
    closing: BTreeMap<NodeId, VecDeque<SocketId>>,
    /// A node was added to `live`, or left it.
    live_changed: bool,
    /// OPENs that were handed to the engine, and that nobody waits for any more.
    withdrawn: VecDeque<Withdrawn>,
    /// Sockets that sent the first part of a message and keep its rest.
    unsent: BTreeSet<SocketId>,
    /// Nodes that did not answer in time and were not heard since, and why connections to them
    /// failed.
    lost: BTreeMap<NodeId, ConnectionFailure>,
    /// The node is being closed: sockets send what they accepted, and accept nothing.
    ending: bool,
    pub(super) memory: PromisedMemory,
    /// The placeholders of all listeners.
    unconfirmed: Placeholders,
    malformed: u64,
    dropped: u64,
}

/// A message that need not be sent any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdrawn {
    /// Its receiver.
    pub node: NodeId,
    /// Its channel.
    pub channel: ChannelId,
    /// Its token, which no other message on the channel has.
    pub token: u64,
}

impl Sockets {
    /// Returns a table without sockets.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    // ---- the program's calls

    /// Listens at `port`. At most `backlog` connections, but at least one, may wait to be accepted.
    ///
    /// # Errors
    /// There are too many sockets.
    pub fn listen(
        &mut self,
        port: u16,
        kind: SocketKind,
        backlog: usize,
    ) -> Result<SocketId, OpenError> {
        let listener = Box::new(Listener::new(port, kind, backlog));
        let id = self.insert(SlotUse::Listener(listener));
        let id = id.ok_or(OpenError::NoMemory)?;
        self.listeners.insert(port, id);
        Ok(id)
    }

    /// Opens a connection from `port` to `peer`. It can be used when [`Sockets::status`] says so.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn connect(
        &mut self,
        now: Instant,
        port: u16,
        peer: Address,
        kind: SocketKind,
    ) -> Result<SocketId, OpenError> {
        // Nothing would end it after [`Sockets::end`].
        if self.ending {
            return Err(OpenError::Closed);
        }
        if !self.memory.has_room()
            && let Some(other) = self.unconfirmed.instead(None)
        {
            self.abort(other);
        }
        let window = self.memory.first_window().ok_or(OpenError::NoMemory)?;
        let deadline = self.end_of_open_to(now, peer.node);
        let connection = Box::new(Connection {
            port,
            peer,
            remote: SocketId::default(),
            kind,
            channel: ChannelId::default(),
            state: State::Opening(deadline),
            incoming: Incoming::new(window),
            sent: Sent::default(),
        });
        let Some(id) = self.insert(SlotUse::Connection(connection)) else {
            self.memory.release(window);
            return Err(OpenError::NoMemory);
        };
        if let Some(connection) = self.connection_mut(id) {
            connection.channel = channel(id);
        }
        self.add_live(peer.node);
        self.deadlines.insert((deadline, id));
        self.push_open(id);
        Ok(id)
    }

    /// Returns whether a connection is open; `None` while its answer is awaited.
    #[must_use]
    pub fn status(&self, id: SocketId) -> Option<Result<(), ConnectionFailure>> {
        match self.connection(id).map(|connection| connection.state) {
            Some(State::Opening(_)) => None,
            Some(State::Open | State::PeerClosed) => Some(Ok(())),
            Some(State::Failed(failure)) => Some(Err(failure)),
            Some(State::Flushing | State::Closing) | None => Some(Err(ConnectionFailure::Closed)),
        }
    }

    /// Takes the next connection of a listener, and the peer's address.
    ///
    /// # Errors
    /// [`AcceptError`]
    pub fn accept(&mut self, listener: SocketId) -> Result<(SocketId, Address), AcceptError> {
        let Some(SlotUse::Listener(listener)) = self.entry_mut(listener) else {
            return Err(AcceptError::NotListening);
        };
        let id = listener.ready.pop_front().ok_or(AcceptError::Pending)?;
        let peer = self.connection(id).map(|connection| connection.peer);
        Ok((id, peer.ok_or(AcceptError::Pending)?))
    }

    /// Takes the next part of what arrived.
    ///
    /// # Errors
    /// The connection failed, and all that arrived before was taken.
    pub fn take(&mut self, id: SocketId) -> Result<Received, ConnectionFailure> {
        let Some(SlotUse::Connection(connection)) = entry_mut(&mut self.slots, id) else {
            return Err(ConnectionFailure::Closed);
        };
        let Some(Segment { bytes, last }) = connection.incoming.pop() else {
            return match connection.state {
                State::Failed(failure) => Err(failure),
                State::Flushing | State::Closing => Err(ConnectionFailure::Closed),
                State::PeerClosed => Ok(Received::End),
                _ if connection.incoming.ended => Ok(Received::End),
                State::Open | State::Opening(_) => Ok(Received::Pending),
            };
        };
        self.grant(id);
        Ok(Received::Data { bytes, last })
    }

    /// Lets the peer send again, if half of the window was taken.
    fn grant(&mut self, id: SocketId) {
        if let Some(SlotUse::Connection(connection)) = entry_mut(&mut self.slots, id)
            && matches!(connection.state, State::Open | State::Flushing)
            && let Some(limit) = connection.incoming.grant(&mut self.memory)
        {
            let to = connection.remote;
            self.push_of(id, Packet::Credit { to, limit });
        }
    }

    /// Drops what arrived for a program that closed its socket. The peer can go on for a while: it
    /// may have closed its socket, too, and wait with the rest of a message.
    fn drop_incoming(&mut self, id: SocketId) {
        if let Some(connection) = self.connection_mut(id) {
            let bytes = connection.incoming.drop_all();
            let is_too_much = connection.incoming.dropped > MAX_DROPPED;
            self.dropped += bytes;
            match is_too_much {
                true => self.abort(id),
                false => self.grant(id),
            }
        }
    }

    /// Ends the direction towards the peer. Nothing happens if it has ended already.
    ///
    /// # Errors
    /// The connection is not open any more, or not yet.
    pub fn shutdown(&mut self, id: SocketId) -> Result<(), ConnectionFailure> {
        let connection = self.connection_mut(id).ok_or(ConnectionFailure::Closed)?;
        if core::mem::replace(&mut connection.sent.ended, true) {
            return Ok(());
        }
        if let Some(failure) = connection.send_failure()
            && failure != ConnectionFailure::BrokenPipe
        {
            connection.sent.ended = false;
            return Err(failure);
        }
        // The rest of a message goes first.
        if connection.state == State::Open && connection.sent.rest.is_empty() {
            self.push_shutdown(id);
        }
        Ok(())
    }

    fn push_shutdown(&mut self, id: SocketId) {
        if let Some(connection) = self.connection(id) {
            let (to, from) = (connection.remote, id);
            self.push_of(id, Packet::Shutdown { to, from });
        }
    }

    /// Closes a socket for the program, which loses what it has not read. What it sent before is
    /// delivered.
    pub fn close(&mut self, id: SocketId) {
        match self.entry_mut(id) {
            Some(SlotUse::Listener(listener)) => {
                let (port, waiting) = (listener.port, listener.take_waiting());
                self.listeners.remove(&port);
                for waiting in waiting {
                    self.abort(waiting);
                }
                self.remove(id);
            }
            Some(SlotUse::Connection(connection)) => {
                let (node, is_sent) = (connection.peer.node, connection.sent.rest.is_empty());
                match connection.state {
                    State::Open => {
                        connection.state = State::Flushing;
                        self.await_closed(node, id);
                        match is_sent {
                            true => self.push_close(id),
                            false => self.drop_incoming(id),
                        }
                    }
                    State::Flushing | State::Closing => return,
                    State::Opening(_) => {
                        self.forget_open(id);
                        self.remove(id);
                    }
                    State::PeerClosed | State::Failed(_) => self.remove(id),
                }
            }
            Some(SlotUse::Placeholder(_) | SlotUse::Free) | None => return,
        }
        self.changed.push_back(id);
    }

    /// Tells the peer that the program closed the socket.
    fn push_close(&mut self, id: SocketId) {
        let Some(SlotUse::Connection(connection)) = entry_mut(&mut self.slots, id) else {
            return;
        };
        connection.state = State::Closing;
        connection.incoming.clear();
        self.memory.release(connection.incoming.window);
        connection.incoming.window = 0;
        let (to, from) = (connection.remote, id);
        self.push_of(id, Packet::Close { to, from });
    }

    /// Notes that a closed socket waits for its peer. Resets the oldest of too many.
    fn await_closed(&mut self, node: NodeId, id: SocketId) {
        let closing = self.closing.entry(node).or_default();
        closing.push_back(id);
        if closing.len() > MAX_CLOSING
            && let Some(oldest) = closing.front().copied()
        {
            self.abort(oldest);
        }
    }

    /// Returns what a socket is ready for.
    #[must_use]
    pub fn readiness(&self, id: SocketId) -> Readiness {
        match self.entry(id) {
            Some(SlotUse::Listener(listener)) => Readiness {
                readable: !listener.ready.is_empty(),
                writable: false,
            },
            Some(SlotUse::Connection(connection)) => {
                let opening = matches!(connection.state, State::Opening(_));
                let failed = !opening && connection.send_failure().is_some();
                let has_room = self.has_room(connection.peer.node);
                let is_free = connection.sent.rest.is_empty() && connection.sent.has_room();
                let may_send = !opening && is_free && has_room;
                Readiness {
                    readable: connection.is_readable(),
                    writable: failed || may_send,
                }
            }
            // It was closed, which a call says at once.
            Some(SlotUse::Placeholder(_) | SlotUse::Free) | None => Readiness {
                readable: true,
                writable: true,
            },
        }
    }

    /// Notes that a program waits until it can send. [`Sockets::poll_changed`] then names the
    /// socket when that may be so.
    pub fn want_room(&mut self, id: SocketId) {
        if let Some(connection) = self.connection(id) {
            let node = connection.peer.node;
            if !self.has_room(node) {
                self.room_wanted.entry(node).or_default().insert(id);
            }
        }
    }

    pub(super) fn has_room(&self, node: NodeId) -> bool {
        waiting_charge(&self.output, node) < OUTPUT
    }

    // ---- the driver's calls

    /// Handles what the engine has for the layer.
    pub fn on_input(&mut self, now: Instant, input: PortInput) {
        match input {
            PortInput::Message(from, message) | PortInput::Last(from, message) => {
                self.on_message(now, from.node, message);
            }
            PortInput::Up(node) => self.forget_lost(node),
            PortInput::Lost(node, cause) => self.on_lost(node, cause),
            PortInput::NoProcess(node) => self.on_absent(node, ConnectionFailure::NoProcess),
            PortInput::NoWay(node) => self.on_absent(node, ConnectionFailure::Unreachable),
            PortInput::Refused {
                node,
                reason: NOT_PERMITTED,
                ..
            } => self.on_denied(node),
            PortInput::Refused { node, .. } => {
                self.fail_all(node, ConnectionFailure::Reset, ConnectionFailure::Reset)
            }
            PortInput::Ended(node, _, reason) => {
                self.forget_lost(node);
                self.on_ended(node, reason);
            }
        }
    }

    /// Fails all sockets, since the node is closed. Those that keep the rest of a message fail when
    /// it was sent: see [`Sockets::has_unsent`].
    pub fn end(&mut self) {
        self.ending = true;
        for id in self.ids().collect::<Vec<_>>() {
            if !self.unsent.contains(&id) {
                self.end_one(id);
            }
        }
    }

    fn end_one(&mut self, id: SocketId) {
        match self.entry(id) {
            Some(SlotUse::Connection(connection)) => match connection.state {
                State::Opening(_) => {
                    self.forget_open(id);
                    self.fail(id, ConnectionFailure::Closed);
                }
                State::Open => self.fail(id, ConnectionFailure::Closed),
                State::Flushing | State::Closing => self.remove(id),
                State::PeerClosed | State::Failed(_) => {}
            },
            Some(SlotUse::Placeholder(_)) => self.remove(id),
            Some(SlotUse::Listener(listener)) => {
                let port = listener.port;
                self.listeners.remove(&port);
                self.changed.push_back(id);
            }
            Some(SlotUse::Free) | None => {}
        }
    }

    /// Returns true while a socket keeps the rest of a message that it accepted.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Fails the sockets that [`Sockets::end`] left. Returns how many messages, or parts of
    /// streams, each node will never get.
    pub fn give_up(&mut self) -> BTreeMap<NodeId, u64> {
        let left = self.left(|_| true);
        self.ending = true;
        for id in self.ids().collect::<Vec<_>>() {
            self.end_one(id);
        }
        left
    }

    /// Drops the messages that wait for nodes of which `is_lost` returns true: their sockets have
    /// failed. Returns how many messages, or parts of streams, each will never get.
    pub fn drop_output(&mut self, is_lost: impl Fn(NodeId) -> bool) -> BTreeMap<NodeId, u64> {
        let nodes: BTreeSet<_> = self.output.iter().map(|(node, _)| node).collect();
        let lost: BTreeSet<_> = nodes.into_iter().filter(|node| is_lost(*node)).collect();
        let left = self.left(|node| lost.contains(&node));
        lost.into_iter().for_each(|node| self.output.clear(node));
        left
    }

    /// Counts the messages, and parts of streams, that some nodes have not been sent.
    fn left(&self, is_one: impl Fn(NodeId) -> bool) -> BTreeMap<NodeId, u64> {
        let unsent = self.unsent.iter().filter_map(|id| self.connection(*id));
        let unsent = unsent.map(|connection| connection.peer.node);
        let data = self.output.iter().filter(|(_, message)| {
            let packet = Packet::read(message.kind, message.tag, &message.user_header);
            matches!(packet, Ok(Packet::Data { .. }))
        });
        let mut left = BTreeMap::new();
        let all = unsent.chain(data.map(|(node, _)| node));
        for node in all.filter(|node| is_one(*node)) {
            *left.entry(node).or_default() += 1;
        }
        left
    }

    /// Offers the messages that wait to `offer`, those to one node in order, until it takes one to
    /// that node no more. Sockets that wait for room are among [`Sockets::poll_changed`] then.
    pub fn transmit(&mut self, mut offer: impl FnMut(NodeId, &Outgoing) -> bool) {
        loop {
            self.output.transmit(&mut offer);
            let output = &self.output;
            let mut freed = Vec::new();
            self.room_wanted.retain(|node, waiting| {
                let full = waiting_charge(output, *node) > OUTPUT / 2;
                if !full {
                    freed.extend(waiting.iter().copied());
                }
                full
            });
            if freed.is_empty() {
                return;
            }
            for id in freed {
                self.changed.push_back(id);
                self.send_rest(id);
            }
        }
    }

    /// Fails the connections with a node that the engine does not know.
    pub fn on_unknown(&mut self, node: NodeId) {
        self.fail_all(
            node,
            ConnectionFailure::Unreachable,
            ConnectionFailure::Reset,
        );
        self.output.clear(node);
    }

    /// Fails the connections with a node that does not permit this one sockets.
    pub fn on_denied(&mut self, node: NodeId) {
        self.fail_all(
            node,
            ConnectionFailure::NotAllowed,
            ConnectionFailure::NotAllowed,
        );
        self.output.clear(node);
    }

    /// Returns the next socket whose waiters look again.
    pub fn poll_changed(&mut self) -> Option<SocketId> {
        self.changed.pop_front()
    }

    /// Returns true if messages wait to be sent, or to be withdrawn.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.output.is_empty() || !self.withdrawn.is_empty()
    }

    /// Returns the next message that the engine may cancel, if it has not sent it yet. Without that
    /// a node that is closed would wait for peers that never answered.
    pub fn poll_withdrawn(&mut self) -> Option<Withdrawn> {
        self.withdrawn.pop_front()
    }

    /// Returns false while so many answers to a node wait that no more of its messages should be
    /// taken.
    #[must_use]
    pub fn takes(&self, node: NodeId) -> bool {
        self.output.count(node) < MAX_ANSWERS
    }

    /// Returns the nodes with which connections are open, if others are among them since the last
    /// call. A node with an open connection should be watched: a process that was killed sends
    /// nothing that would tell its end.
    pub fn poll_live(&mut self) -> Option<BTreeSet<NodeId>> {
        let changed = core::mem::take(&mut self.live_changed);
        changed.then(|| self.live.keys().copied().collect())
    }

    fn add_live(&mut self, node: NodeId) {
        let count = self.live.entry(node).or_default();
        *count += 1;
        self.live_changed |= *count == 1;
    }

    fn remove_live(&mut self, node: NodeId) {
        if let Some(count) = self.live.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                self.live.remove(&node);
                self.live_changed = true;
            }
        }
    }

    /// Returns the number of sockets, placeholders included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the bytes that are promised to peers.
    #[must_use]
    pub const fn promised(&self) -> u64 {
        self.memory.promised
    }

    /// Returns the number of messages of the layer that could not be read, or that no correct peer
    /// sends in the state of the connection: they end it.
    #[must_use]
    pub const fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Returns the number of bytes that came to closed sockets which still sent.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    // ---- slots

    fn ids(&self) -> impl Iterator<Item = SocketId> {
        let used = |slot: &&Slot| !matches!(slot.entry, SlotUse::Free);
        let slots = self.slots.iter().enumerate();
        slots
            .filter(move |(_, slot)| used(slot))
            .map(|(index, slot)| id_of(index, slot.generation))
    }

    fn ids_of(&self, node: NodeId) -> Vec<SocketId> {
        let belongs = |id: &SocketId| match self.entry(*id) {
            Some(SlotUse::Connection(connection)) => connection.peer.node == node,
            Some(SlotUse::Placeholder(placeholder)) => placeholder.peer.node == node,
            Some(SlotUse::Listener(_) | SlotUse::Free) | None => false,
        };
        self.ids().filter(belongs).collect()
    }

    fn entry(&self, id: SocketId) -> Option<&SlotUse> {
        let slot = self.slots.get(index_of(id))?;
        (id_of(index_of(id), slot.generation) == id).then_some(&slot.entry)
    }

    fn entry_mut(&mut self, id: SocketId) -> Option<&mut SlotUse> {
        entry_mut(&mut self.slots, id)
    }

    fn connection(&self, id: SocketId) -> Option<&Connection> {
        match self.entry(id) {
            Some(SlotUse::Connection(connection)) => Some(connection),
            _ => None,
        }
    }

    fn connection_mut(&mut self, id: SocketId) -> Option<&mut Connection> {
        match self.entry_mut(id) {
            Some(SlotUse::Connection(connection)) => Some(connection),
            _ => None,
        }
    }

    fn insert(&mut self, entry: SlotUse) -> Option<SocketId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < MAX_SOCKETS => {
                let generation = 0;
                let entry = SlotUse::Free;
                self.slots.push(Slot { generation, entry });
                self.slots.len() - 1
            }
            None => return None,
        };
        let slot = self.slots.get_mut(index)?;
        slot.entry = entry;
        Some(id_of(index, slot.generation))
    }

    /// Frees a slot, and all that its entry took.
    fn remove(&mut self, id: SocketId) {
        let index = index_of(id);
        let Some(entry) = self.entry_mut(id) else {
            return;
        };
        match core::mem::replace(entry, SlotUse::Free) {
            SlotUse::Free => return,
            SlotUse::Listener(_) => {}
            SlotUse::Placeholder(placeholder) => {
                self.memory.release(placeholder.window);
                self.deadlines.remove(&(placeholder.deadline, id));
                self.unconfirmed.remove(&placeholder, id);
                let listener = self.entry_mut(placeholder.listener);
                if let Some(SlotUse::Listener(listener)) = listener {
                    listener.unconfirmed.remove(&placeholder, id);
                }
            }
            SlotUse::Connection(connection) => {
                self.memory.release(connection.incoming.window);
                self.forget_waits(id, &connection);
            }
        }
        if let Some(slot) = self.slots.get_mut(index)
            && !is_planted(Fault::ReusedIds)
        {
            slot.generation += 1;
        }
        self.free.push(index);
    }

    fn forget_waits(&mut self, id: SocketId, connection: &Connection) {
        self.unsent.remove(&id);
        if let State::Opening(deadline) = connection.state {
            self.deadlines.remove(&(deadline, id));
        }
        let node = connection.peer.node;
        if connection.state.is_live() {
            self.remove_live(node);
        }
        if matches!(connection.state, State::Flushing | State::Closing)
            && let Some(closing) = self.closing.get_mut(&node)
        {
            closing.retain(|other| *other != id);
            if closing.is_empty() {
                self.closing.remove(&node);
            }
        }
        if let Some(waiting) = self.room_wanted.get_mut(&node) {
            waiting.remove(&id);
            if waiting.is_empty() {
                self.room_wanted.remove(&node);
            }
        }
    }

    fn set_state(&mut self, id: SocketId, state: State) {
        let Some(connection) = self.connection_mut(id) else {
            return;
        };
        let node = connection.peer.node;
        let before = core::mem::replace(&mut connection.state, state);
        if before.is_live() && !state.is_live() {
            self.remove_live(node);
        }
        if let State::Opening(deadline) = before {
            self.deadlines.remove(&(deadline, id));
        }
        if state != State::Open {
            self.drop_rest(id);
        }
        self.changed.push_back(id);
    }

    /// Ends a connection for a reason that its program hears of.
    fn fail(&mut self, id: SocketId, failure: ConnectionFailure) {
        self.set_state(id, State::Failed(failure));
    }

    // ---- output

    /// Tells the peer that there is no such socket any more.
    fn reset(&mut self, id: SocketId) {
        let (node, channel, to) = match self.entry(id) {
            Some(SlotUse::Placeholder(placeholder)) => (
                placeholder.peer.node,
                placeholder.channel,
                placeholder.remote,
            ),
            Some(SlotUse::Connection(connection)) => {
                (connection.peer.node, connection.channel, connection.remote)
            }
            Some(SlotUse::Listener(_) | SlotUse::Free) | None => return,
        };
        self.push(node, channel, Packet::Reset { to }, Bytes::new());
    }

    /// Gives a socket up, and tells the peer.
    fn abort(&mut self, id: SocketId) {
        self.reset(id);
        self.remove(id);
    }

    fn push_open(&mut self, id: SocketId) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        let open = Packet::Open {
            from: id,
            source: connection.port,
            target: connection.peer.port,
            kind: connection.kind,
            window: connection.incoming.window,
        };
        self.push_of(id, open);
    }

    /// Takes an OPEN back: from the messages that wait, or else from the engine.
    fn forget_open(&mut self, id: SocketId) {
        if let Some(connection) = self.connection(id) {
            let (node, channel) = (connection.peer.node, connection.channel);
            let is_open = |message: &Outgoing| read_open(message) == Some(id);
            if !self.output.remove(node, is_open) {
                let token = open_token(id);
                self.withdrawn.push_back(Withdrawn {
                    node,
                    channel,
                    token,
                });
            }
        }
    }

    fn push_of(&mut self, id: SocketId, packet: Packet) {
        if let Some(connection) = self.connection(id) {
            let (node, channel) = (connection.peer.node, connection.channel);
            self.push(node, channel, packet, Bytes::new());
        }
    }

    fn push(&mut self, node: NodeId, channel: ChannelId, packet: Packet, payload: Bytes) {
        let (kind, tag, user_header) = packet.write();
        let token = match packet {
            Packet::Open { from, .. } => open_token(from),
            Packet::Data { .. } => 0,
            _ => CONTROL,
        };
        let message = Outgoing {
            channel,
            tag,
            kind,
            user_header,
            payload,
            notify: false,
            token,
            deadline: None,
        };
        self.output.push(node, message);
    }
}

/// Returns the bytes and charges of the messages that wait for a node.
fn waiting_charge(output: &Output, node: NodeId) -> usize {
    output.bytes(node) + output.count(node) * SEGMENT_CHARGE as usize
}

/// The token of messages that carry no bytes of a program, and open nothing.
const CONTROL: u64 = u64::MAX;

/// Returns the token of a socket's OPEN: neither 0, which bytes of programs have, nor [`CONTROL`].
const fn open_token(id: SocketId) -> u64 {
    id.0 + 1
}

/// Returns the socket that a message opens, if it is an OPEN.
fn read_open(message: &Outgoing) -> Option<SocketId> {
    match Packet::read(message.kind, message.tag, &message.user_header) {
        Ok(Packet::Open { from, .. }) => Some(from),
        _ => None,
    }
}

fn entry_mut(slots: &mut [Slot], id: SocketId) -> Option<&mut SlotUse> {
    let slot = slots.get_mut(index_of(id))?;
    (id_of(index_of(id), slot.generation) == id).then_some(&mut slot.entry)
}

const fn index_of(id: SocketId) -> usize {
    (id.0 % MAX_SOCKETS as u64) as usize
}

/// The number of the socket in a slot: high bits tell the sockets of the slot apart.
const fn id_of(index: usize, generation: u64) -> SocketId {
    SocketId(generation * MAX_SOCKETS as u64 + index as u64)
}
