//! The messages of peers.

use super::sessions::end_of_open;
use super::{SlotUse, Sockets};
use crate::sockets::connection::{Connection, Incoming, Segment, Sent, State};
use crate::sockets::listener::{Placeholder, Room};
use crate::sockets::plant::{Fault, is_planted};
use crate::sockets::wire::{Packet, RefusedCode};
use crate::sockets::{Address, ConnectionFailure, SocketId, SocketKind};
use bytes::Bytes;
use suci_proto::time::Instant;
use suci_proto::types::{ChannelId, NodeId};
use suci_proto::{Data, Message};

/// Longer payloads are memory of their own. Shorter ones share memory with others, which a socket
/// that is not read would keep.
const SHARED: usize = 2 << 10;

impl Sockets {
    pub(super) fn on_message(&mut self, now: Instant, node: NodeId, message: Message) {
        match Packet::read(message.kind, message.tag, &message.user_header) {
            Ok(open @ Packet::Open { .. }) => self.on_open(now, node, message.channel, open),
            Ok(packet) => self.on_packet(node, message.channel, packet, message.payload),
            Err(_) => self.malformed += 1,
        }
    }

    fn on_packet(&mut self, node: NodeId, channel: ChannelId, packet: Packet, payload: Data) {
        let id = packet.to().unwrap_or_default();
        if let Packet::Confirm { from, .. } = packet
            && let Some(SlotUse::Placeholder(placeholder)) = self.entry(id)
            && placeholder.peer.node == node
            && placeholder.remote == from
        {
            self.confirm(id);
            return;
        }
        match self.entry(id) {
            Some(SlotUse::Placeholder(placeholder)) if placeholder.peer.node == node => {
                if !matches!(packet, Packet::Reset { .. }) {
                    self.reset(id);
                }
                self.remove(id);
            }
            Some(SlotUse::Connection(connection)) if connection.peer.node == node => {
                match self.on_connection(id, packet, payload) {
                    Ok(()) => {}
                    Err(OutOfState) => {
                        self.malformed += 1;
                        self.reset(id);
                        self.fail(id, ConnectionFailure::Reset);
                    }
                }
            }
            _ => self.on_stray(node, channel, packet),
        }
    }

    /// Answers a message for a socket that is gone, if its sender would wait for an answer.
    fn on_stray(&mut self, node: NodeId, channel: ChannelId, packet: Packet) {
        if matches!(packet, Packet::Opened { .. }) && is_planted(Fault::LateOpenedIgnored) {
            return;
        }
        if let Some(to) = packet.from() {
            self.push(node, channel, Packet::Reset { to }, Bytes::new());
        }
    }

    /// Answers OPEN: with a placeholder, or with the reason why there is none.
    fn on_open(&mut self, now: Instant, node: NodeId, channel: ChannelId, open: Packet) {
        let Packet::Open {
            from: to,
            source,
            target,
            kind,
            window: limit,
        } = open
        else {
            return;
        };
        let added = self.find_listener(node, target, kind).and_then(|listener| {
            self.add_placeholder(Placeholder {
                listener,
                peer: Address { node, port: source },
                remote: to,
                channel,
                limit,
                window: 0,
                deadline: end_of_open(now),
            })
        });
        let answer = match added {
            Ok((from, window)) => Packet::Opened { to, from, window },
            Err(code) => Packet::Refused { to, code },
        };
        self.push(node, channel, answer, Bytes::new());
        if let Ok((id, _)) = added
            && is_planted(Fault::AcceptedUnconfirmed)
        {
            self.confirm(id);
        }
    }

    /// Returns the listener at a port, if there is or can be made room for a connection of this
    /// kind.
    fn find_listener(
        &mut self,
        from: NodeId,
        port: u16,
        kind: SocketKind,
    ) -> Result<SocketId, RefusedCode> {
        let id = self.listeners.get(&port).copied();
        let id = id.ok_or(RefusedCode::NoListener)?;
        let room = match self.entry(id) {
            Some(SlotUse::Listener(listener)) if listener.kind == kind => listener.room(from),
            Some(SlotUse::Listener(_)) => return Err(RefusedCode::OtherKind),
            _ => return Err(RefusedCode::NoListener),
        };
        match room {
            Room::Free if self.memory.has_room() => {}
            Room::Free => {
                let instead = self.unconfirmed.instead(Some(from));
                self.abort(instead.ok_or(RefusedCode::NoMemory)?);
            }
            Room::Instead(other) => self.abort(other),
            Room::None => return Err(RefusedCode::BacklogFull),
        }
        Ok(id)
    }

    fn add_placeholder(
        &mut self,
        mut placeholder: Placeholder,
    ) -> Result<(SocketId, u64), RefusedCode> {
        let window = self.memory.first_window().ok_or(RefusedCode::NoMemory)?;
        placeholder.window = window;
        let Some(id) = self.insert(SlotUse::Placeholder(placeholder)) else {
            self.memory.release(window);
            return Err(RefusedCode::NoMemory);
        };
        self.deadlines.insert((placeholder.deadline, id));
        self.unconfirmed.add(&placeholder, id);
        if let Some(SlotUse::Listener(listener)) = self.entry_mut(placeholder.listener) {
            listener.unconfirmed.add(&placeholder, id);
        }
        Ok((id, window))
    }

    /// Makes a placeholder a connection that waits for its program.
    fn confirm(&mut self, id: SocketId) {
        let Some(&SlotUse::Placeholder(placeholder)) = self.entry(id) else {
            return;
        };
        let Some(SlotUse::Listener(listener)) = self.entry_mut(placeholder.listener) else {
            return;
        };
        listener.unconfirmed.remove(&placeholder, id);
        listener.ready.push_back(id);
        let (port, kind) = (listener.port, listener.kind);
        self.unconfirmed.remove(&placeholder, id);
        self.deadlines.remove(&(placeholder.deadline, id));
        let mut sent = Sent::default();
        sent.set_limit(placeholder.limit);
        if let Some(entry) = self.entry_mut(id) {
            *entry = SlotUse::Connection(Box::new(Connection {
                port,
                peer: placeholder.peer,
                remote: placeholder.remote,
                kind,
                channel: placeholder.channel,
                state: State::Open,
                incoming: Incoming::new(placeholder.window),
                sent,
            }));
        }
        self.add_live(placeholder.peer.node);
        self.changed.push_back(placeholder.listener);
    }

    /// Handles a message to a connection.
    fn on_connection(
        &mut self,
        id: SocketId,
        packet: Packet,
        payload: Data,
    ) -> Result<(), OutOfState> {
        let Some(connection) = self.connection_mut(id) else {
            return Ok(());
        };
        let state = connection.state;
        match (state, packet) {
            (State::Opening(_), Packet::Opened { from, window, .. }) => {
                connection.remote = from;
                connection.sent.set_limit(window);
                self.set_state(id, State::Open);
                self.push_of(id, Packet::Confirm { to: from, from: id });
            }
            (State::Opening(_), Packet::Refused { code, .. }) => {
                self.fail(id, ConnectionFailure::Refused(code));
            }
            // The program's time was over before the answer came.
            (State::Failed(_), Packet::Opened { from, .. }) => {
                connection.remote = from;
                self.reset(id);
            }
            (State::Opening(_) | State::Open, Packet::Reset { .. }) => {
                self.fail(id, ConnectionFailure::Reset);
            }
            (State::Flushing | State::Closing, packet) => self.on_closed(id, packet, payload),
            (State::Open, Packet::Credit { limit, .. }) => self.on_credit(id, limit),
            (State::Open, Packet::Data { last, .. }) => return self.on_data(id, last, payload),
            (State::Open, Packet::Shutdown { .. }) => {
                connection.incoming.ended = true;
                self.changed.push_back(id);
            }
            (State::Open, Packet::Close { from, .. }) => {
                if is_planted(Fault::CloseDropsUnread) {
                    connection.incoming.clear();
                }
                self.push_of(id, Packet::Closed { to: from });
                self.set_state(id, State::PeerClosed);
            }
            // The connection is over at the other end.
            (State::PeerClosed | State::Failed(_), _) => {}
            (State::Opening(_) | State::Open, _) => return Err(OutOfState),
        }
        Ok(())
    }

    /// Keeps the next part of a stream or message for the program.
    fn on_data(&mut self, id: SocketId, last: bool, payload: Data) -> Result<(), OutOfState> {
        let Some(connection) = self.connection_mut(id) else {
            return Ok(());
        };
        // A program that reads a stream would find nothing, although the socket is readable.
        let is_nothing = connection.kind == SocketKind::Stream && payload.is_empty();
        let was_empty = connection.incoming.is_empty();
        let fits = match is_nothing {
            true => connection.incoming.skip(),
            false => {
                let bytes = own_bytes(payload);
                connection.incoming.push(Segment { bytes, last })
            }
        };
        if !fits {
            return Err(OutOfState);
        }
        if is_nothing {
            self.grant(id);
        } else if was_empty {
            self.changed.push_back(id);
        }
        Ok(())
    }

    /// Handles a message to a connection whose program closed its socket. Nobody reads what comes.
    fn on_closed(&mut self, id: SocketId, packet: Packet, payload: Data) {
        let Some(connection) = self.connection_mut(id) else {
            return;
        };
        match (connection.state, packet) {
            (State::Closing, Packet::Close { .. }) if is_planted(Fault::CrossingCloseIgnored) => {}
            // A CLOSE that crosses this end's is its answer.
            (State::Closing, Packet::Closed { .. } | Packet::Close { .. })
            | (_, Packet::Reset { .. }) => self.remove(id),
            // The peer reads the rest of the last message no more.
            (State::Flushing, Packet::Close { from, .. }) => {
                self.push_of(id, Packet::Closed { to: from });
                self.remove(id);
            }
            (State::Flushing, Packet::Credit { limit, .. }) => self.on_credit(id, limit),
            (State::Flushing, Packet::Data { last, .. }) => {
                let bytes = payload.into_bytes();
                match connection.incoming.push(Segment { bytes, last }) {
                    true => self.drop_incoming(id),
                    false => {
                        self.malformed += 1;
                        self.abort(id);
                    }
                }
            }
            _ => {}
        }
    }

    /// Sends again, if the peer's limit lets it.
    fn on_credit(&mut self, id: SocketId, limit: u64) {
        if let Some(connection) = self.connection_mut(id)
            && connection.sent.set_limit(limit)
        {
            self.changed.push_back(id);
            self.send_rest(id);
        }
    }
}

/// A message that its sender could not send in this state.
struct OutOfState;

/// Returns the bytes in memory that no other message shares.
fn own_bytes(payload: Data) -> Bytes {
    match payload.len() > SHARED {
        true => payload.into_bytes(),
        false => Bytes::copy_from_slice(&payload),
    }
}
