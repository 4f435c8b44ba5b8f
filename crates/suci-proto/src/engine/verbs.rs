//! The calls of the program.

use super::Engine;
use super::ranks::Urgent;
use crate::addresses::Addresses;
use crate::counters::LinkState;
use crate::error::{IncomingError, PeerError, SendError};
use crate::event::{Event, Side};
use crate::peer::{Closing, Peer};
use crate::shared::Shared;
use std::net::SocketAddr;
use suci_channels::message::{
    self, ByClass, Held, NoRoom, Outgoing, Queued, ReceiveBuffer, SMALL, SmallOutgoing,
};
use suci_channels::scheduler::{Priority, Scheduler};
use suci_link::limits;
use suci_link::time::{Duration, Instant};
use suci_link::types::{ChannelId, MessageNumber, NodeId};
use suci_link::wire::Mode;

/// Why a message is not accepted.
pub(super) enum Refusal {
    /// An error that does not return the message.
    For(SendError),
    Full,
    Unread,
    Closing,
    Suspended(Side),
}

impl Refusal {
    fn of(self, message: impl FnOnce() -> Outgoing) -> SendError {
        match self {
            Self::For(error) => error,
            Self::Full => SendError::WouldBlock(message()),
            Self::Unread => SendError::Unread(message()),
            Self::Closing => SendError::Closing(message()),
            Self::Suspended(by) => {
                let message = message();
                SendError::Suspended { message, by }
            }
        }
    }
}

impl From<NoRoom> for Refusal {
    fn from(no: NoRoom) -> Self {
        match no {
            NoRoom::Full => Self::Full,
            NoRoom::Channels(open) => Self::For(SendError::Channels { open }),
            NoRoom::NotPermitted(layer) => Self::For(SendError::NotPermitted { layer }),
            NoRoom::Finished(channel) => Self::For(SendError::Finished { channel }),
        }
    }
}

fn check_header(header: &[u8]) -> Result<(), SendError> {
    let length = header.len();
    if length > limits::MAX_USER_HEADER {
        return Err(SendError::HeaderTooLong { length });
    }
    Ok(())
}

/// A peer that a message may be queued for, and the engine state to update when one is queued.
pub(super) struct SendingPeer<'a> {
    key: usize,
    pub(super) peer: &'a mut Peer,
    shared: &'a mut Shared,
    dirty: &'a mut Scheduler,
    urgent: &'a mut Urgent,
    flush: &'a mut bool,
}

impl SendingPeer<'_> {
    /// Notes that messages were queued.
    #[inline(always)]
    pub(super) fn on_queued(self, now: Instant, queued: Held) {
        let Self { peer, shared, .. } = self;
        if !peer.has_connection() && peer.attempt.is_none() {
            peer.open(now, shared.random());
        }
        *self.flush |= peer.options.mode == Mode::Response;
        shared.counters.messages_sent += queued.messages;
        let traffic = &mut peer.traffic;
        traffic.messages_sent += queued.messages;
        traffic.message_bytes_sent += queued.bytes;
        let class = peer.session.outbox.next_class();
        self.urgent.list(self.key, class, self.dirty);
    }
}

impl Engine {
    /// Enters a node and its address, or several addresses that are tried in turn. They replace
    /// earlier ones for the next connection. If one of them is new and the peer's process is known
    /// to have died, its session ends by [`ProcessDied`](crate::EndReason::ProcessDied): another
    /// process may be at the new address, and is asked at once.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn add_peer(
        &mut self,
        now: Instant,
        node: NodeId,
        addresses: impl Into<Addresses>,
    ) -> Result<(), PeerError> {
        let addresses = addresses.into();
        if node == self.shared.identity.node {
            return Err(PeerError::Itself(node));
        }
        self.removed.remove(&node);
        if let Some(key) = self.peer_key(node) {
            let token = self.shared.random();
            let from = self.update(key, |peer, shared| {
                let is_known = |at: &SocketAddr| peer.book.contains(*at);
                let is_new = !addresses.as_slice().iter().all(is_known);
                peer.book = addresses;
                if is_new {
                    peer.on_new_address(now, shared);
                }
                let from = peer.stranger_from.take();
                shared.met -= usize::from(from.is_some() && !peer.is_met());
                if !peer.session.outbox.is_empty() && peer.connection.is_none() {
                    peer.open(now, token);
                }
                from
            });
            self.uncount_stranger(from);
            return Ok(());
        }
        let most = self.shared.config.max_peers;
        if self.is_full_for_the_book() && !self.strangers.is_empty() {
            self.forget_strangers(now);
        }
        if self.is_full_for_the_book() {
            self.ask_silent_strangers(now);
            return Err(PeerError::TooMany(most));
        }
        let key = self.insert_peer(node, addresses, now);
        self.peers.make_idle(key, now);
        Ok(())
    }

    /// Returns true if the table has no room for another node of the book: the nodes in the book,
    /// or those that count as met, reach `max_peers`.
    fn is_full_for_the_book(&self) -> bool {
        let most = self.shared.config.max_peers;
        let known = || self.peers.len() - self.strangers.values().sum::<usize>();
        self.peers.len() >= most && (self.shared.met >= most || known() >= most)
    }

    /// Returns the key of the peer `node`, if messages can be sent to it.
    #[inline(always)]
    pub(super) fn reach(&mut self, node: NodeId) -> Result<usize, SendError> {
        match self.recent {
            Some((recent, key)) if recent == node && !self.shared.closing => Ok(key),
            _ => self.look_up(node),
        }
    }

    #[inline(never)]
    fn look_up(&mut self, node: NodeId) -> Result<usize, SendError> {
        if self.shared.closing && self.peer(node).is_none_or(|peer| self.closes(peer)) {
            return Err(SendError::Closed);
        }
        let key = self.known(node)?;
        self.recent = Some((node, key));
        Ok(key)
    }

    /// Opens a connection before there is anything to send.
    ///
    /// # Errors
    /// `UnknownPeer` or `Closed`.
    pub fn connect(&mut self, now: Instant, node: NodeId) -> Result<(), SendError> {
        let key = self.reach(node)?;
        let token = self.shared.random();
        self.update(key, |peer, _| {
            if !peer.has_connection() {
                peer.open(now, token);
            }
        });
        Ok(())
    }

    /// Accepts a message for `node`; returns its number on its channel. Never blocks. Copies the
    /// payload if it has up to [`SMALL`] bytes and no deadline. Opens a connection if none is open.
    ///
    /// # Errors
    /// [`SendError`]; `WouldBlock` gives the message back.
    pub fn send(
        &mut self,
        now: Instant,
        node: NodeId,
        message: Outgoing,
    ) -> Result<MessageNumber, SendError> {
        self.send_and(now, node, message, |_| ())
    }

    /// As [`Engine::send`]. Calls `then` with the peer once the message is queued.
    #[inline(always)]
    pub(super) fn send_and(
        &mut self,
        now: Instant,
        node: NodeId,
        message: Outgoing,
        then: impl FnOnce(&mut Peer),
    ) -> Result<MessageNumber, SendError> {
        let length = message.payload.len() as u64;
        if length > limits::MAX_MESSAGE {
            return Err(SendError::TooLong { length });
        }
        check_header(&message.user_header)?;
        let sending = match self.sending_peer(node) {
            Ok(sending) => sending,
            Err(refusal) => return Err(refusal.of(|| message)),
        };
        let (channel, deadline) = (message.channel, message.deadline);
        let outbox = &mut sending.peer.session.outbox;
        let pushed = outbox.push(message);
        let number = pushed.map_err(|(no, message)| Refusal::from(no).of(|| message))?;
        if let Some(deadline) = deadline {
            outbox.set_deadline(channel, number, now + deadline);
        }
        then(sending.peer);
        if channel.carries_sockets() {
            // It may ask for a connection, and an earlier question had no answer.
            sending.peer.ask_for_process(now, sending.shared);
        }
        sending.on_queued(now, Held::one(length));
        Ok(number)
    }

    /// As [`Engine::send`], for a message whose bytes stay the caller's: copied once if it is
    /// small, and into memory of its own if it is longer than [`SMALL`].
    ///
    /// It is inlined, and so is everything that it calls: one function call for each step would be
    /// half of the cost of a small message.
    ///
    /// # Errors
    /// As [`Engine::send`].
    #[inline(always)]
    pub fn send_small(
        &mut self,
        now: Instant,
        node: NodeId,
        message: &SmallOutgoing<'_>,
    ) -> Result<MessageNumber, SendError> {
        let length = message.payload.len() as u64;
        if length > SMALL as u64 {
            return self.send(now, node, message.to_outgoing());
        }
        check_header(message.user_header)?;
        let queued = self.sending_peer(node).and_then(|sending| {
            let number = sending.peer.session.outbox.push_small(message)?;
            sending.on_queued(now, Held::one(length));
            Ok(number)
        });
        queued.map_err(|refusal| refusal.of(|| message.to_outgoing()))
    }

    /// Cancels the messages to `node` on `channel` that the program sent with this token and of
    /// which no packet carried a byte or an RTS yet. Returns their number. They will never be sent,
    /// their outcome is [`Outcome::NotDelivered`](crate::Outcome), and the queue has their room
    /// again. Takes time proportional to the messages that wait on the channel.
    ///
    /// # Errors
    /// `UnknownPeer`.
    pub fn cancel(
        &mut self,
        node: NodeId,
        channel: ChannelId,
        token: u64,
    ) -> Result<u64, SendError> {
        let key = self.known(node)?;
        // An idle peer has no messages.
        if self.peers.active(key).is_none() {
            return Ok(0);
        }
        Ok(self.update(key, |peer, shared| peer.cancel(channel, token, shared)))
    }

    /// Asks for [`Event::Writable`] when the queue to `node` has room for `message`, which
    /// [`Engine::send`] rejected ([`SendError::WouldBlock`]). One event answers all such calls of a
    /// class that come before the program takes it. Returns the class of the message's channel,
    /// which the event will name; `None` if the node is unknown.
    pub fn want_room(&mut self, node: NodeId, message: &Outgoing) -> Option<u8> {
        let key = self.known(node).ok()?;
        let class = self.update(key, |peer, shared| {
            let class = peer.session.outbox.want_room(message);
            // Room may have become free since.
            peer.report_room(&mut shared.notices);
            class
        });
        Some(class)
    }

    /// Returns the peer `node`, if a message may be queued for it.
    #[inline(always)]
    pub(super) fn sending_peer(&mut self, node: NodeId) -> Result<SendingPeer<'_>, Refusal> {
        let key = self.reach(node).map_err(Refusal::For)?;
        let Some(peer) = self.peers.get_mut(key) else {
            return Err(Refusal::For(SendError::UnknownPeer(node)));
        };
        if peer.closing != Closing::Open {
            return Err(Refusal::Closing);
        }
        if let Some(by) = peer.session.suspended_by() {
            return Err(Refusal::Suspended(by));
        }
        if !peer.has_room_for_session() {
            return Err(Refusal::Unread);
        }
        Ok(SendingPeer {
            key,
            peer,
            shared: &mut self.shared,
            dirty: &mut self.dirty,
            urgent: &mut self.ranks.sending,
            flush: &mut self.flush,
        })
    }

    /// Takes a message announced by [`Event::Incoming`], into `buffer` if given (at least as long
    /// as the message).
    ///
    /// # Errors
    /// [`IncomingError`].
    pub fn accept(
        &mut self,
        node: NodeId,
        channel: ChannelId,
        number: MessageNumber,
        buffer: Option<ReceiveBuffer>,
    ) -> Result<(), IncomingError> {
        self.decide(node, channel, number, |peer| {
            peer.session.inbox.accept(channel, number, buffer)
        })
    }

    /// Refuses a message announced by [`Event::Incoming`]; its sender learns `reason`.
    ///
    /// # Errors
    /// [`IncomingError`].
    pub fn refuse(
        &mut self,
        node: NodeId,
        channel: ChannelId,
        number: MessageNumber,
        reason: u64,
    ) -> Result<(), IncomingError> {
        self.decide(node, channel, number, |peer| {
            peer.session.inbox.refuse(channel, number, reason)
        })
    }

    fn decide(
        &mut self,
        node: NodeId,
        channel: ChannelId,
        number: MessageNumber,
        verb: impl FnOnce(&mut Peer) -> Result<(), message::AnswerError>,
    ) -> Result<(), IncomingError> {
        let key = self.peer_key(node);
        let key = key.ok_or(IncomingError::UnknownPeer(node))?;
        let Some(peer) = self.peers.get_mut(key) else {
            return Err(IncomingError::UnknownPeer(node));
        };
        let done = verb(peer).map_err(IncomingError::Inbox);
        if done.is_ok() {
            peer.withdraw_announcement(channel, number, &mut self.shared.notices);
        }
        self.touch(key);
        done
    }

    /// Returns true if a message was accepted for a peer in [`Mode::Response`] since the last
    /// [`Engine::poll_transmit`]: that should be called now, even inside a batch.
    #[must_use]
    pub fn wants_flush(&self) -> bool {
        self.flush
    }

    /// Returns true if [`Engine::poll_transmit`] found messages that cannot be sent yet: they wait
    /// for an answer of their peer, for a timer or for room in the socket. Each call tells of the
    /// time since the one before. A driver must take input and run timers meanwhile.
    pub fn take_found_waiting(&mut self) -> bool {
        core::mem::take(&mut self.shared.notices.found_waiting)
    }

    /// Returns true if messages wait now, as [`Engine::take_found_waiting`] describes. Looks at
    /// every active peer.
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.peers.iter_active().any(|(_, peer)| peer.is_held_up())
    }

    /// Returns true if [`Engine::recv`] is worth calling.
    #[must_use]
    pub fn has_message(&self) -> bool {
        self.readable.front_class().is_some()
    }

    /// Sets the priority of `channel` among the channels of `node`, for the messages that we send
    /// and for the order in which [`Engine::recv`] hands messages over. A class above that of the
    /// node counts among other nodes, too. Holds for all sessions.
    ///
    /// # Errors
    /// `UnknownPeer` or `Closed`; `Channels` if as many as can be opened have a priority.
    pub fn set_channel_priority(
        &mut self,
        node: NodeId,
        channel: ChannelId,
        priority: Priority,
    ) -> Result<(), SendError> {
        let key = self.reach(node)?;
        let peer = self.peers.get_mut(key);
        let set = peer.is_some_and(|p| {
            let set = p.session.outbox.set_priority(channel, priority);
            if set {
                p.session.inbox.set_priority(channel, priority);
                // The channel's messages may leave room in its old class.
                p.report_room(&mut self.shared.notices);
            }
            set
        });
        if set {
            // A waiting message may be urgent now.
            self.touch(key);
            Ok(())
        } else {
            let open = limits::MAX_CHANNELS;
            Err(SendError::Channels { open })
        }
    }

    /// Returns the bytes that `node` would take now as one message on `channel`, if nothing were
    /// queued before it: the lesser of its socket credit and its memory credit. 0 while it is not
    /// up. [`Engine::send`] may accept more, which waits here. Messages longer than this side's
    /// `rts_threshold` ask first in any case.
    #[must_use]
    pub fn remote_window(&self, now: Instant, node: NodeId, channel: ChannelId) -> u64 {
        self.peer(node)
            .map_or(0, |peer| peer.remote_window(now, channel))
    }

    /// Returns every [`Event::Incoming`] that the program has not taken yet, even behind other
    /// events.
    pub fn announcements(&self) -> impl Iterator<Item = &Event> {
        let peers_with_events = self.shared.notices.peers_with_events.iter();
        let peers = peers_with_events.filter_map(|key| self.peers.active(*key));
        peers.flat_map(|peer| peer.events.announcements())
    }

    /// Returns the number of failed messages to `node` whose events the program has not taken yet,
    /// and that no [flush](Engine::flush_failures) reported.
    #[must_use]
    pub fn untold_failures(&self, node: NodeId) -> u64 {
        self.active_peer(node)
            .map_or(0, |peer| peer.events.failed())
    }

    /// Returns for each peer the number of unacknowledged messages and the number of failed
    /// messages that the program does not know of. Omits peers where both are 0. Does not look at
    /// idle peers. Messages about membership and forwarded packets do not count: no program waits
    /// for them.
    pub fn unflushed(&self) -> impl Iterator<Item = (NodeId, u64, u64)> + '_ {
        let all = self.peers.iter_active().map(|(_, peer)| {
            let outbox = &peer.session.outbox;
            let open = outbox.queued().open().messages;
            let others = outbox.open_internal();
            (peer.node, open.saturating_sub(others), peer.events.failed())
        });
        all.filter(|(_, open, failed)| *open > 0 || *failed > 0)
    }

    /// Notes that the driver told the program of all failures so far: [`Engine::unflushed`] and
    /// [`Engine::untold_failures`] count those that follow. Their events stay.
    pub fn flush_failures(&mut self) {
        self.peers
            .iter_active_mut()
            .for_each(|(_, peer)| peer.events.flush_failures());
    }

    /// Returns true while `node` is lost: [`Event::Lost`] was the last news of it.
    #[must_use]
    pub fn is_lost(&self, node: NodeId) -> bool {
        let peer = self.active_peer(node);
        peer.is_some_and(|peer| peer.life.link() == LinkState::Lost)
    }

    /// Returns the messages and bytes accepted for `node` and not yet acknowledged.
    #[must_use]
    pub fn queue_len(&self, node: NodeId) -> (u64, u64) {
        let open = self.queued(node).open();
        (open.messages, open.bytes)
    }

    /// Returns the content of the send queue of `node`, in messages and bytes.
    #[must_use]
    pub fn queued(&self, node: NodeId) -> Queued {
        let peer = self.active_peer(node);
        peer.map_or(Queued::default(), |p| p.session.outbox.queued())
    }

    /// Returns the content of the send queue of `node` by the class of its channels.
    #[must_use]
    pub fn queued_by_class(&self, node: NodeId) -> ByClass {
        let peer = self.active_peer(node);
        peer.map_or(ByClass::default(), |p| p.session.outbox.queued_by_class())
    }

    /// Returns how many messages of this channel, from its first in this session, are all
    /// acknowledged or refused.
    #[must_use]
    pub fn delivered(&self, node: NodeId, channel: ChannelId) -> u64 {
        self.peer(node)
            .map_or(0, |peer| peer.session.outbox.delivered(channel))
    }

    /// Closes all sessions: waits until all accepted messages are acknowledged, tells the peers,
    /// and ends. Peers that have not answered within `patience` are given up then.
    pub fn close(&mut self, now: Instant, patience: Duration) {
        let begun = core::mem::replace(&mut self.shared.closing, true);
        if begun && self.closes_first.take().is_none() {
            return;
        }
        self.close_due(now + patience);
    }

    /// Returns true if a node that closes has no more use for this peer.
    fn closes(&self, peer: &Peer) -> bool {
        let first = self.closes_first;
        first.is_none_or(|first| peer.path_address().is_some_and(first))
    }

    /// Closes all sessions, or those that are closed first.
    pub(super) fn close_due(&mut self, deadline: Instant) {
        for key in self.peers.keys() {
            let due = |peer: &Peer| peer.life.link() != LinkState::Idle && self.closes(peer);
            if self.peers.get(key).is_some_and(due) {
                self.update(key, |peer, _| peer.close(deadline));
            }
        }
    }

    /// Closes the session with one peer, as [`Engine::close`] does with all. Returns whether there
    /// is a session whose end will be told; an attempt to open one is only given up.
    ///
    /// # Errors
    /// `UnknownPeer`.
    pub fn close_peer(
        &mut self,
        now: Instant,
        node: NodeId,
        patience: Duration,
    ) -> Result<bool, SendError> {
        self.end_session(node, |peer, _| peer.close(now + patience))
    }

    /// Gives up the session with a peer at once, and tells the peer; the outcomes come with its
    /// end. Returns whether there is one, as [`Engine::close_peer`] does.
    ///
    /// # Errors
    /// `UnknownPeer`.
    pub fn reset(&mut self, now: Instant, node: NodeId) -> Result<bool, SendError> {
        self.end_session(node, |peer, shared| peer.reset(now, shared))
    }

    fn end_session(
        &mut self,
        node: NodeId,
        end: impl FnOnce(&mut Peer, &mut Shared),
    ) -> Result<bool, SendError> {
        let key = self.known(node)?;
        Ok(self.update(key, |peer, shared| {
            let linked = peer.life.link() != LinkState::Idle;
            let has_begun = linked && peer.session.has_begun();
            if linked {
                end(peer, shared);
            }
            has_begun
        }))
    }

    /// Returns true if [`Engine::close`] is done: no session is left. Peers may still be answering
    /// repeated CLOSEs.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closing && self.closes_first.is_none() && self.has_closed_all()
    }

    /// Returns true if nothing is left of the sessions that were to be closed.
    pub(super) fn has_closed_all(&self) -> bool {
        let mut peers = self.peers.iter_active();
        peers.all(|(_, peer)| peer.closing == Closing::Open) && !self.train.is_pending()
    }
}
