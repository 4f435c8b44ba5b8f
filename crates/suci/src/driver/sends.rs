//! The program's side: sending messages.

use super::Driver;
use crate::error::Error;
use crate::message::{self, OutgoingMessage};
use crate::node::Accepted;
use bytes::Bytes;
use suci_proto::time::Instant;
use suci_proto::types::{MessageNumber, NodeId};
use suci_proto::{CallId, Lease, Outgoing, SMALL, SendError, Side};

impl Driver {
    /// Accepts a message; [`Driver::output_now`] sends it. The time matters only for a
    /// deadline, and if a connection is to be opened.
    pub(crate) fn offer(&mut self, to: NodeId, message: Outgoing) -> Result<MessageNumber, Error> {
        let sent = self.engine.send(self.now, to, message);
        self.note_sent(to, sent)
    }

    /// Offers the engine a request, as [`Driver::offer`] does a message.
    pub(crate) fn offer_call(
        &mut self,
        to: NodeId,
        id: CallId,
        message: Outgoing,
    ) -> Result<(), Error> {
        let sent = self.engine.call(self.now, to, id, message);
        self.note_sent(to, sent)
    }

    /// Takes note of the result of offering the engine a message for `to`.
    #[inline]
    fn note_sent<T>(&mut self, to: NodeId, sent: Result<T, SendError>) -> Result<T, Error> {
        match sent {
            Ok(sent) => {
                self.waiter.on_sent(1);
                Ok(sent)
            }
            Err(error) => Err(Error::from_send(to, error)),
        }
    }

    /// As [`Driver::try_push`]. If there is no room, an event says when there is.
    pub(crate) fn push(
        &mut self,
        to: NodeId,
        message: OutgoingMessage,
    ) -> Result<MessageNumber, Error> {
        let pushed = self.try_push(to, message);
        pushed.map_err(|error| self.want_room(to, error))
    }

    /// If the error says that the queue is full, asks for the event that says when there is room.
    #[cold]
    pub(crate) fn want_room(&mut self, to: NodeId, error: Error) -> Error {
        if let Error::WouldBlock { message, .. } = &error {
            self.engine.want_room(to, message.outgoing());
        }
        error
    }

    /// Accepts a message, as [`Driver::offer`] does, but [tries again](Driver::retry).
    pub(crate) fn try_push(
        &mut self,
        to: NodeId,
        message: OutgoingMessage,
    ) -> Result<MessageNumber, Error> {
        let offered = self.offer(to, message.into_outgoing());
        offered.or_else(|error| self.retry(error, |driver, message| driver.offer(to, message)))
    }

    /// Accepts a request, as [`Driver::try_push`] does a message. Returns the call that it makes.
    pub(crate) fn push_call(
        &mut self,
        to: NodeId,
        message: OutgoingMessage,
    ) -> Result<CallId, Error> {
        let id = self.call_ids.next();
        let offer = |driver: &mut Self, message| driver.offer_call(to, id, message);
        let offered = offer(self, message.into_outgoing());
        offered.or_else(|error| self.retry(error, offer))?;
        Ok(id)
    }

    /// Accepts an active message of the program, as [`Driver::try_push`] does, if it finds room in
    /// the half of the queue that such messages may fill.
    pub(crate) fn push_active(
        &mut self,
        to: NodeId,
        message: Outgoing,
    ) -> Result<MessageNumber, Error> {
        let offer = |driver: &mut Self, message: Outgoing| {
            let bytes = message.payload.len() as u64;
            match driver.engine.has_room_for_active(to, bytes) {
                true => driver.offer(to, message),
                false => Err(Error::from_send(to, SendError::WouldBlock(message))),
            }
        };
        offer(self, message).or_else(|error| self.retry(error, offer))
    }

    /// As [`Driver::push`], with a copy of `bytes` on channel 0. A small message is copied to where
    /// it is queued.
    pub(crate) fn push_copy(&mut self, to: NodeId, bytes: &[u8]) -> Result<MessageNumber, Error> {
        if bytes.len() > SMALL {
            return self.push(to, OutgoingMessage::new(Bytes::copy_from_slice(bytes)));
        }
        let message = message::small(bytes);
        let sent = self.engine.send_small(self.now, to, &message);
        self.note_sent(to, sent).or_else(|error| {
            let pushed = self.retry(error, |driver, message| driver.offer(to, message));
            pushed.map_err(|error| self.want_room(to, error))
        })
    }

    /// Runs a cycle and offers a refused message again, if a cycle may remove the reason: the queue
    /// is full (acknowledgements may wait in the socket), or the peer suspended the session (it may
    /// have resumed it).
    fn retry<T>(
        &mut self,
        error: Error,
        offer: impl FnOnce(&mut Self, Outgoing) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match error {
            Error::WouldBlock { message, .. }
            | Error::Suspended {
                message,
                by: Side::There,
                ..
            } => {
                self.run_cycle()?;
                self.read_clock();
                offer(self, message.into_outgoing())
            }
            error => Err(error),
        }
    }

    /// Takes back a lease, with the messages that it accepted.
    pub(crate) fn give_back(&mut self, lease: Lease) {
        self.waiter.on_sent(lease.accepted().messages);
        self.engine.give_back(self.now, lease);
    }

    /// Accepts a message of `bytes` bytes with `push`, and sends it, unless it waits for more
    /// ([`SendCoalescer`](super::SendCoalescer)). If `push` fails, it takes input if the last poll
    /// at the socket is too long ago. `called` is when the call began, if something that takes time
    /// came first.
    pub(crate) fn send<T>(
        &mut self,
        called: Option<Instant>,
        bytes: usize,
        push: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let now = self.read_clock();
        let pushed = push(self);
        match &pushed {
            Ok(_) => self.send_or_keep(called.unwrap_or(now), bytes as u64),
            // Sends that fail keep the helper from serving the node: take input here. If the socket
            // failed, the next call that needs it says so.
            Err(_) => drop(self.run_cycle_if_stale()),
        }
        pushed
    }

    /// Sends the accepted messages, `bytes` bytes in all, unless they wait for more. The call began
    /// when it was `called`.
    pub(super) fn send_or_keep(&mut self, called: Instant, bytes: u64) {
        if self.coalescer.keeps(called, self.now, bytes) && !self.engine.wants_flush() {
            return;
        }
        self.send_accepted();
        if self.coalescer.wants_end() {
            let now = self.read_clock();
            self.coalescer.on_end(now);
        }
    }

    /// Accepts a message for each of several peers, and sends them as [`Driver::send`] does one.
    /// Returns the result for each peer.
    pub(crate) fn broadcast(&mut self, to: &[NodeId], message: &OutgoingMessage) -> Vec<Accepted> {
        let called = self.read_clock();
        let accept = |&node: &NodeId| {
            let checked = message.check();
            let accepted = checked.and_then(|()| self.push(node, message.clone()));
            (node, accepted)
        };
        let accepted: Vec<_> = to.iter().map(accept).collect();
        let count = accepted.iter().filter(|(_, sent)| sent.is_ok()).count();
        let bytes = count.saturating_mul(message.len());
        self.send_or_keep(called, bytes as u64);
        accepted
    }

    /// As [`Driver::send`], with a copy of `bytes` on channel 0. A long message is copied before
    /// the time is read, since the copy takes longer than everything else.
    pub(crate) fn send_copy(&mut self, to: NodeId, bytes: &[u8]) -> Result<MessageNumber, Error> {
        if bytes.len() <= SMALL {
            return self.send(None, bytes.len(), |driver| driver.push_copy(to, bytes));
        }
        let called = self.coalescer.wants_end().then(|| self.read_clock());
        let message = OutgoingMessage::new(Bytes::copy_from_slice(bytes));
        self.send(called, bytes.len(), |driver| driver.push(to, message))
    }

    /// Sends accepted messages, as far as may be, and polls the socket if the last poll is too long
    /// ago.
    pub(crate) fn send_accepted_now(&mut self) {
        self.read_clock();
        self.send_accepted();
    }

    /// As [`send_accepted_now`](Self::send_accepted_now), after the clock was read. If the last
    /// call left something unsent, the socket is polled before the output: acknowledgements decide
    /// what may be sent. (Urgent messages go even before that.) Otherwise the socket is polled
    /// afterwards.
    pub(super) fn send_accepted(&mut self) {
        let is_stale = self.is_stale();
        let sent = match self.tx_incomplete {
            true => self.output_urgent().and_then(|()| self.run_cycle()),
            false => self.output().and_then(|_| match self.tx_incomplete {
                false if is_stale => self.run_cycle(),
                _ => Ok(()),
            }),
        };
        // The messages stay accepted if the socket failed; the next call that needs the socket
        // reports it.
        drop(sent);
    }

    /// Runs an output if an accepted message should not wait for others. Does nothing after an
    /// output that stopped early: the next cycle goes on.
    pub(crate) fn output_if_wanted(&mut self) {
        if self.engine.wants_flush() && !self.tx_incomplete {
            // The messages stay accepted if the socket failed; the next call that needs the socket
            // reports it.
            let _ = self.output_now();
        }
    }
}
