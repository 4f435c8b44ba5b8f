//! Sending for programs: a message is accepted whole, and its rest waits in the table.

use super::{SendRefused, Sockets};
use crate::sockets::connection::State;
use crate::sockets::wire::Packet;
use crate::sockets::{ConnectionFailure, SocketId};
use bytes::Bytes;

impl Sockets {
    /// Sends `bytes`, or their first part. With `last` they end a message, and all of them are
    /// accepted: what finds no room follows by itself, and the socket takes nothing else before.
    /// Returns how many bytes were accepted.
    ///
    /// # Errors
    /// [`SendRefused`]
    pub fn send(&mut self, id: SocketId, bytes: &[u8], last: bool) -> Result<usize, SendRefused> {
        let failed = SendRefused::Failed;
        let connection = self.connection(id);
        let connection = connection.ok_or(failed(ConnectionFailure::Closed))?;
        if let Some(failure) = connection.send_failure() {
            return Err(failed(failure));
        }
        if self.ending {
            return Err(failed(ConnectionFailure::Closed));
        }
        if !connection.sent.rest.is_empty() {
            return Err(SendRefused::Full);
        }
        let (mut left, mut is_begun) = (bytes, false);
        while !(is_begun && left.is_empty())
            && let Some(length) = self.take_room(id, left.len())
        {
            let (part, rest) = left.split_at(length);
            let is_last = last && rest.is_empty();
            self.push_data(id, Bytes::copy_from_slice(part), is_last);
            (left, is_begun) = (rest, true);
        }
        match is_begun {
            false => Err(SendRefused::Full),
            true if last => {
                self.keep_rest(id, left);
                Ok(bytes.len())
            }
            true => Ok(bytes.len() - left.len()),
        }
    }

    /// Takes room for the next part of `length` bytes. Returns its length; `None` if it must wait.
    fn take_room(&mut self, id: SocketId, length: usize) -> Option<usize> {
        let node = self.connection(id)?.peer.node;
        if !self.has_room(node) {
            self.room_wanted.entry(node).or_default().insert(id);
            return None;
        }
        self.connection_mut(id)?.sent.take(length)
    }

    fn push_data(&mut self, id: SocketId, part: Bytes, last: bool) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        let to = connection.remote;
        let (node, channel) = (connection.peer.node, connection.channel);
        let data = Packet::Data { to, from: id, last };
        self.push(node, channel, data, part);
    }

    /// Keeps the rest of a message until there is room for it.
    fn keep_rest(&mut self, id: SocketId, rest: &[u8]) {
        if let Some(connection) = self.connection_mut(id)
            && !rest.is_empty()
        {
            connection.sent.rest = Bytes::copy_from_slice(rest);
            self.unsent.insert(id);
        }
    }

    /// Sends the rest of a message as far as there is room.
    pub(super) fn send_rest(&mut self, id: SocketId) {
        while let Some(connection) = self.connection(id)
            && let length @ 1.. = connection.sent.rest.len()
            && let Some(length) = self.take_room(id, length)
            && let Some(connection) = self.connection_mut(id)
        {
            let part = connection.sent.rest.split_to(length);
            let is_last = connection.sent.rest.is_empty();
            self.push_data(id, part, is_last);
            if is_last {
                self.on_rest_sent(id);
            }
        }
    }

    /// Goes on with what waited for the rest of a message.
    fn on_rest_sent(&mut self, id: SocketId) {
        self.unsent.remove(&id);
        let Some(connection) = self.connection(id) else {
            return;
        };
        let is_ended = connection.sent.ended;
        match connection.state {
            State::Flushing => self.push_close(id),
            State::Open if self.ending => self.fail(id, ConnectionFailure::Closed),
            _ => {
                self.changed.push_back(id);
                if is_ended {
                    self.push_shutdown(id);
                }
            }
        }
    }

    /// Drops the rest of a message, which can never be sent.
    pub(super) fn drop_rest(&mut self, id: SocketId) {
        self.unsent.remove(&id);
        if let Some(connection) = self.connection_mut(id) {
            connection.sent.rest = Bytes::new();
        }
    }
}
