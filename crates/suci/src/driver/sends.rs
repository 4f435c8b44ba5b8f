//! The program's side: sending messages.

use super::Driver;
use crate::error::Error;
use crate::message::{self, OutgoingMessage};
use crate::node::Accepted;
use bytes::Bytes;
use suci_proto::time::Instant;
use suci_proto::types::{ChannelId, MessageNumber, NodeId};
use suci_proto::{CallId, Lease, Outgoing, SMALL, SendError, Side};

impl Driver {
    /// Accepts a message; [`Driver::output`] sends it. The time matters only for a deadline, and if
    /// a connection is to be opened.
    pub(crate) fn offer(
        &mut self,
        now: Instant,
        to: NodeId,
        message: Outgoing,
    ) -> Result<MessageNumber, Error> {
        let sent = self.engine.send(now, to, message);
        self.note_sent(to, sent)
    }

    /// As [`Driver::try_push`]. If there is no room, an event says when there is.
    pub(crate) fn push(
        &mut self,
        now: &mut Instant,
        to: NodeId,
        message: OutgoingMessage,
    ) -> Result<MessageNumber, Error> {
        let pushed = self.try_push(now, to, message);
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

    /// As [`Driver::offer`], but tries again after a cycle if the queue is full (acknowledgements
    /// may wait in the socket) or if the peer suspended the session (it may have resumed it). Sets
    /// `now` to the time after that cycle.
    pub(crate) fn try_push(
        &mut self,
        now: &mut Instant,
        to: NodeId,
        message: OutgoingMessage,
    ) -> Result<MessageNumber, Error> {
        match self.offer(*now, to, message.into_outgoing()) {
            Ok(number) => Ok(number),
            Err(error) => self.push_again(now, to, error),
        }
    }

    /// Accepts a request, as [`Driver::push`] does a message. Returns the call that it makes.
    pub(crate) fn push_call(
        &mut self,
        now: &mut Instant,
        to: NodeId,
        message: OutgoingMessage,
    ) -> Result<CallId, Error> {
        let id = self.call_ids.next();
        let offered = self.offer_call(*now, to, id, message.into_outgoing());
        let offered = offered.or_else(|error| {
            self.retry(now, error, |driver, now, message| {
                driver.offer_call(now, to, id, message)
            })
        });
        offered.map(|()| id)
    }

    /// Offers the engine a request, as [`Driver::offer`] does a message.
    pub(crate) fn offer_call(
        &mut self,
        now: Instant,
        to: NodeId,
        id: CallId,
        message: Outgoing,
    ) -> Result<(), Error> {
        let sent = self.engine.call(now, to, id, message);
        self.note_sent(to, sent)
    }

    /// As [`Driver::push`], with a copy of `bytes` on channel 0. A small message is copied to where
    /// it is queued.
    pub(crate) fn push_copy(
        &mut self,
        now: &mut Instant,
        to: NodeId,
        bytes: &[u8],
    ) -> Result<MessageNumber, Error> {
        if bytes.len() > SMALL {
            return self.push(now, to, OutgoingMessage::new(Bytes::copy_from_slice(bytes)));
        }
        let message = message::small(bytes);
        let sent = self.engine.send_small(*now, to, &message);
        self.note_sent(to, sent).or_else(|error| {
            let pushed = self.push_again(now, to, error);
            pushed.map_err(|error| self.want_room(to, error))
        })
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

    /// Lends room for messages like the last one: see [`Engine::lend`](suci_proto::Engine::lend).
    pub(crate) fn lend(&mut self, to: NodeId, channel: ChannelId) -> Option<Lease> {
        self.engine.lend(to, channel)
    }

    /// Takes back a lease, with the messages that it accepted.
    pub(crate) fn give_back(&mut self, now: Instant, lease: Lease) {
        self.waiter.on_sent(lease.accepted().messages);
        self.engine.give_back(now, lease);
    }

    /// Offers the message of `error` once more, if a cycle may have changed the reason.
    fn push_again(
        &mut self,
        now: &mut Instant,
        to: NodeId,
        error: Error,
    ) -> Result<MessageNumber, Error> {
        self.retry(now, error, |driver, now, message| {
            driver.offer(now, to, message)
        })
    }

    /// Runs a cycle and offers a refused message again, if a cycle may remove the reason.
    fn retry<T>(
        &mut self,
        now: &mut Instant,
        error: Error,
        offer: impl FnOnce(&mut Self, Instant, Outgoing) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match error {
            Error::WouldBlock { message, .. }
            | Error::Suspended {
                message,
                by: Side::There,
                ..
            } => {
                self.turn()?;
                *now = self.clock.now();
                offer(self, *now, message.into_outgoing())
            }
            error => Err(error),
        }
    }

    /// Accepts a message of `bytes` bytes with `push`, and sends it, unless it waits for more
    /// ([`SendCoalescer`](super::SendCoalescer)). If `push` fails, it takes input if the last look
    /// at the socket is too long ago. `called` is when the call began, if something that takes time
    /// came first.
    pub(crate) fn send<T>(
        &mut self,
        called: Option<Instant>,
        bytes: usize,
        push: impl FnOnce(&mut Self, &mut Instant) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut now = self.clock.now();
        let called = called.unwrap_or(now);
        match push(self, &mut now) {
            Ok(number) => {
                self.send_on_or_keep(called, now, bytes as u64);
                Ok(number)
            }
            Err(error) => {
                // Sends that fail keep the helper from serving the node: take input here. If the
                // socket failed, the next call that needs it says so.
                let _ = self.refresh(now);
                Err(error)
            }
        }
    }

    /// Sends the accepted messages, `bytes` bytes in all, unless they wait for more. The call began
    /// when it was `called`.
    fn send_on_or_keep(&mut self, called: Instant, now: Instant, bytes: u64) {
        if self.coalescer.keeps(called, now, bytes) && !self.engine.wants_flush() {
            return;
        }
        self.send_on_at(now);
        if self.coalescer.wants_end() {
            self.coalescer.on_end(self.clock.now());
        }
    }

    /// Accepts a message for each of several peers, and sends them as [`Driver::send`] does one.
    /// Returns the result for each peer.
    pub(crate) fn broadcast(&mut self, to: &[NodeId], message: &OutgoingMessage) -> Vec<Accepted> {
        let mut now = self.clock.now();
        let called = now;
        let accept = |&node: &NodeId| {
            let checked = message.check();
            let accepted = checked.and_then(|()| self.push(&mut now, node, message.clone()));
            (node, accepted)
        };
        let accepted: Vec<_> = to.iter().map(accept).collect();
        let count = accepted.iter().filter(|(_, sent)| sent.is_ok()).count();
        let bytes = count.saturating_mul(message.len());
        self.send_on_or_keep(called, now, bytes as u64);
        accepted
    }

    /// As [`Driver::send`], with a copy of `bytes` on channel 0. A long message is copied before
    /// the time is read, since the copy takes longer than everything else.
    pub(crate) fn send_copy(&mut self, to: NodeId, bytes: &[u8]) -> Result<MessageNumber, Error> {
        if bytes.len() > SMALL {
            let called = self.coalescer.wants_end().then(|| self.clock.now());
            let message = OutgoingMessage::new(Bytes::copy_from_slice(bytes));
            return self.send(called, bytes.len(), |driver, now| {
                driver.push(now, to, message)
            });
        }
        self.send(None, bytes.len(), |driver, now| {
            driver.push_copy(now, to, bytes)
        })
    }

    /// Sends accepted messages, and looks at the socket if the last look is too long ago.
    pub(crate) fn send_on(&mut self) {
        self.send_on_at(self.clock.now());
    }

    fn send_on_at(&mut self, now: Instant) {
        // The message stays accepted if the socket failed; the next call that needs the socket
        // reports it.
        let _ = self.try_to_send_on(now);
    }

    /// Makes one output. If the last call left something unsent, the socket is looked at before it:
    /// acknowledgements decide what may be sent. (Urgent messages go even before that.) Otherwise
    /// the socket is looked at afterwards, if the last look is too long ago.
    fn try_to_send_on(&mut self, now: Instant) -> Result<(), Error> {
        if self.tx_incomplete {
            self.send_urgent()?;
            return self.turn();
        }
        self.output_at(now)?;
        if self.tx_incomplete {
            return Ok(());
        }
        self.refresh(now)
    }

    /// Sends accepted messages if some should not wait for others. Returns whether it tried. It
    /// does not try again after an output that did not send everything: the next cycle does.
    pub(crate) fn flush_if_wanted(&mut self) -> bool {
        let wants = self.engine.wants_flush() && !self.tx_incomplete;
        if wants {
            // The messages stay accepted if the socket failed; the next call that needs the socket
            // reports it.
            let _ = self.output();
        }
        wants
    }
}
