//! Handing messages and events over to the program.

use super::Engine;
use crate::event::{EndReason, Event};
use crate::filter::Filter;
use crate::peer::Peer;
use suci_channels::message::Message;
use suci_link::types::{ChannelId, NodeId, SessionNumber, Source};

impl Engine {
    /// Returns the next event that the program was not told yet: in order for each peer, peers in
    /// turn. The end of a session is told once its last message was taken. A program that takes all
    /// events before each message hears of that end before it gets a message of the next session.
    ///
    /// Untaken events cost bounded memory, which no peer can exceed: ends of sessions merge into
    /// one for each peer, and so do events that undo each other. Outcomes do not merge: there is
    /// one for each message that the program sent with `notify`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.poll_event_holding(None)
    }

    /// As [`Engine::poll_event`] while the driver holds a message from `held` that the program did
    /// not take: the end of that session is not told yet.
    pub fn poll_event_holding(&mut self, held: Option<Source>) -> Option<Event> {
        // The peer of a message that is held stays listed.
        for _ in 0..self.shared.notices.peers_with_events.len() {
            let key = self.shared.notices.peers_with_events.pop_front()?;
            let Some(peer) = self.peers.get_mut(key) else {
                continue;
            };
            let event = peer.next_event(held, &mut self.shared.notices);
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// Returns an announced message ([`Event::Incoming`]) whose event the program did not take.
    /// Each is returned once. It is for a receiving call that finds no message: only the program's
    /// answer lets the announced one come. The event stays. With it comes the session, whose end
    /// withdraws the announcement.
    pub fn poll_unanswered(&mut self) -> Option<(SessionNumber, Event)> {
        // Usually there is none.
        if self.shared.notices.unreported == 0 {
            return None;
        }
        let mut peers = self.peers.iter_active();
        let (key, _) = peers.find(|(_, peer)| peer.events.unreported() > 0)?;
        drop(peers);
        let peer = self.peers.get_mut(key)?;
        let session = peer.session.number;
        Some((session, peer.report_announcement(&mut self.shared.notices)?))
    }

    /// Returns the longest message that is taken without asking the program, in bytes:
    /// `max_message`, or half of `memory`.
    #[must_use]
    pub fn max_unannounced(&self) -> u64 {
        let config = &self.shared.config;
        config.max_message.min(config.memory / 2)
    }

    /// Returns true if [`Engine::poll_event`] has something.
    #[must_use]
    pub fn has_event(&self) -> bool {
        let mut peers = self.shared.notices.peers_with_events.iter();
        peers.any(|key| self.peers.active(*key).is_some_and(Peer::has_event))
    }

    /// Returns the next message for the program: those of peers of higher classes first, within a
    /// class peers in turn; likewise the channels of a peer. Taking it gives its sender memory
    /// credit back.
    pub fn recv(&mut self) -> Option<(Source, Message)> {
        let mut received = None;
        self.recv_some(1, &mut |from, message| received = Some((from, message)));
        received
    }

    /// As [`Engine::recv`] up to `most` times, for less. Returns how many messages `each` was
    /// given.
    pub fn recv_many(&mut self, most: usize, mut each: impl FnMut(Source, Message)) -> usize {
        let mut received = 0;
        while received < most {
            match self.recv_some(most - received, &mut each) {
                0 => break,
                some => received += some,
            }
        }
        received
    }

    /// Returns the next messages of a peer: one if others have a turn after it, otherwise all that
    /// can be taken at once.
    #[inline]
    fn recv_some(&mut self, most: usize, each: &mut impl FnMut(Source, Message)) -> usize {
        let mut urgent = self.urgent_received().map(|(key, _)| key);
        while let Some(key) = urgent.or_else(|| self.readable.front()) {
            let in_order = urgent.take().is_none();
            let Some(peer) = self.peers.get_mut(key) else {
                if in_order {
                    self.readable.drop_front();
                }
                continue;
            };
            let most = if in_order && self.readable.is_front_alone() {
                most
            } else {
                1
            };
            let waited = !peer.has_room_for_session();
            let (node, mut bytes) = (peer.node, 0);
            let received = peer.next_messages(most, &mut self.shared, &mut |session, message| {
                bytes += message.payload.received();
                each(Source { node, session }, message);
            });
            // A peer that had an urgent turn keeps its position in the order, as long as it has
            // something.
            match (in_order, peer.has_message()) {
                (true, true) => self.readable.pass(),
                (true, false) => self.readable.drop_front(),
                (false, true) => {}
                (false, false) => _ = self.readable.remove(key),
            }
            if waited && peer.has_room_for_session() {
                // Its next session may begin.
                self.wheel.set(key, self.last_run);
            }
            self.dirty.add(key);
            if received > 0 {
                self.yields_since = None;
                peer.count_received(received as u64, bytes, &mut self.shared.counters);
                return received;
            }
        }
        0
    }

    /// Returns the next message that `wanted` admits: in order for each channel, as
    /// [`Engine::recv`] would take it if no other were there. Other waiting messages keep their
    /// positions, and their memory credit.
    pub fn recv_from(&mut self, wanted: Filter) -> Option<(Source, Message)> {
        if let Some(node) = wanted.node() {
            return self.recv_of(self.peer_key(node)?, wanted.channel());
        }
        let channel = wanted.channel()?;
        let has_one = |key: &usize| {
            let peer = self.peers.active(*key);
            peer.is_some_and(|peer| peer.has_message_on(channel))
        };
        let key = self.readable.flows().find(has_one)?;
        let received = self.recv_of(key, Some(channel));
        self.readable.send_back(key);
        received
    }

    /// Returns the next message of a peer, or on one of its channels.
    fn recv_of(&mut self, key: usize, channel: Option<ChannelId>) -> Option<(Source, Message)> {
        if !self.readable.is_listed(key) {
            return None;
        }
        let (peer, shared) = (self.peers.get_mut(key)?, &mut self.shared);
        let waited = !peer.has_room_for_session();
        let mut received = None;
        match channel {
            Some(channel) => received = peer.next_message_on(channel, shared),
            None => {
                peer.next_messages(1, shared, &mut |session, message| {
                    received = Some((session, message));
                });
            }
        }
        if !peer.has_message() {
            self.readable.remove(key);
        }
        let (session, message) = received?;
        if waited && peer.has_room_for_session() {
            // Its next session may begin.
            self.wheel.set(key, self.last_run);
        }
        self.dirty.add(key);
        self.yields_since = None;
        let bytes = message.payload.received();
        peer.count_received(1, bytes, &mut self.shared.counters);
        let node = peer.node;
        Some((Source { node, session }, message))
    }

    /// Detects that messages which the program did not take hold back all that `wanted` admits:
    /// they fill the memory of the peer's session. Returns the bytes that they count, and the
    /// channels on which the program can take some. Returns `None` if nothing is held back, or if
    /// `wanted` admits more than one peer or channel.
    #[must_use]
    pub fn blocked_by_unread(&self, wanted: Filter) -> Option<(u64, Vec<ChannelId>)> {
        let (node, channel) = (wanted.node()?, wanted.channel()?);
        self.active_peer(node)?
            .session
            .inbox
            .blocked_by_unread(channel)
    }

    /// Returns why the newest session with `node` ended, if neither an event nor this function told
    /// the program. A program that waits for messages of that session should not wait on. The event
    /// stays.
    pub fn take_unheard_end(&mut self, node: NodeId) -> Option<EndReason> {
        // An idle peer has nothing to tell.
        let key = self.active_peer(node)?.key;
        self.peers.get_mut(key)?.take_unheard_end()
    }
}
