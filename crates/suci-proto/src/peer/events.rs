//! The messages and events of a peer as the program takes them: those of ended sessions, their
//! ends, then those of the present session; and the engine's list of peers with events.

use super::Peer;
use super::event_queue::{EventQueue, MAX_UNREAD};
use crate::event::{EndReason, Event};
use crate::shared::{Notices, Shared};
use suci_channels::message::Message;
use suci_link::types::{ChannelId, MessageNumber, SessionNumber, Source};

impl Peer {
    /// Passes the next messages for the program to `each`, sessions in order: at least one, if
    /// there is one, and at most `most`. Returns how many.
    #[inline]
    pub(crate) fn next_messages(
        &mut self,
        most: usize,
        shared: &mut Shared,
        each: &mut impl FnMut(SessionNumber, Message),
    ) -> usize {
        // Usually no session has ended.
        if self.events.ends() > 0
            && let Some((session, message)) = self.next_of_ended(shared)
        {
            each(session, message);
            return 1;
        }
        self.before_taking();
        let session = self.session.number;
        let inbox = &mut self.session.inbox;
        let popped = inbox.pop_some(most, &mut |message| each(session, message));
        if inbox.has_finished() {
            self.list_events(&mut shared.notices);
        }
        popped
    }

    #[cold]
    fn next_of_ended(&mut self, shared: &mut Shared) -> Option<(SessionNumber, Message)> {
        let (session, message, freed) = self.events.next_message()?;
        self.keep_for_groups(session, freed, &mut shared.memory);
        self.list_events(&mut shared.notices);
        Some((session, message))
    }

    /// Notes that a message of the present session is about to be taken. The memory that it frees
    /// goes to the peer that waited longest: the next large message of this peer queues, too.
    #[inline]
    pub(super) fn before_taking(&mut self) {
        self.took_messages = true;
        if self.session.inbox.large_held() > 0 {
            self.session.inbox.set_large_budget(0);
        }
    }

    /// Returns the next message on `channel`, sessions in order, and its session.
    pub(crate) fn next_message_on(
        &mut self,
        channel: ChannelId,
        shared: &mut Shared,
    ) -> Option<(SessionNumber, Message)> {
        if let Some((session, message, freed)) = self.events.next_message_on(channel) {
            self.keep_for_groups(session, freed, &mut shared.memory);
            self.list_events(&mut shared.notices);
            return Some((session, message));
        }
        self.before_taking();
        let message = self.session.inbox.pop_on(channel)?;
        if self.session.inbox.has_finished() {
            self.list_events(&mut shared.notices);
        }
        Some((self.session.number, message))
    }

    /// Returns true if [`Peer::next_message_on`] returns a message.
    pub(crate) fn has_message_on(&self, channel: ChannelId) -> bool {
        let mut ended = self.events.ends.iter();
        let waits = |message: &Message| message.channel == channel;
        ended.any(|(_, ended_session)| ended_session.messages.iter().any(waits))
            || self.session.inbox.has_ready_on(channel)
    }

    /// Returns why the newest session ended, if the program was told neither by an event nor by
    /// this call.
    pub(crate) fn take_unheard_end(&mut self) -> Option<EndReason> {
        self.events.take_unheard_end()
    }

    /// Returns true if [`Peer::next_messages`] returns a message.
    pub(crate) fn has_message(&self) -> bool {
        self.events.has_message() || self.session.inbox.has_ready()
    }

    /// Queues an event of this session for the program, behind the ends of earlier sessions.
    pub(crate) fn push_event(&mut self, event: Event, notices: &mut Notices) {
        self.tell_layers(&event, notices);
        self.change_events(notices, |events| events.push(event));
    }

    /// Changes the waiting events, and the engine's count over all peers with them.
    pub(super) fn change_events<T>(
        &mut self,
        notices: &mut Notices,
        change: impl FnOnce(&mut EventQueue) -> T,
    ) -> T {
        let before = self.events.unreported();
        let result = change(&mut self.events);
        notices.unreported = (notices.unreported + self.events.unreported()).saturating_sub(before);
        self.list_events(notices);
        result
    }

    /// Withdraws the announcement of a message that was answered before the program took it.
    pub(crate) fn withdraw_announcement(
        &mut self,
        channel: ChannelId,
        number: MessageNumber,
        notices: &mut Notices,
    ) {
        self.change_events(notices, |events| events.withdraw(channel, number));
    }

    /// Takes an announcement that no receiving call reported, and counts it as reported.
    pub(crate) fn report_announcement(&mut self, notices: &mut Notices) -> Option<Event> {
        self.change_events(notices, EventQueue::report)
    }

    /// Enters the engine's queue of peers with events, if there is one to take.
    pub(super) fn list_events(&mut self, notices: &mut Notices) {
        if !self.has_listed_events && self.has_event() {
            self.has_listed_events = true;
            notices.peers_with_events.push_back(self.key);
        }
    }

    /// Returns true if [`Peer::next_event`] returns an event.
    pub(crate) fn has_event(&self) -> bool {
        let (inbox, outbox) = (&self.session.inbox, &self.session.outbox);
        let unqueued = || inbox.has_finished() || outbox.has_wanted_room();
        self.events.has_next() || (self.events.ends() == 0 && unqueued())
    }

    /// Returns true if the program must be told something about this peer, now or later.
    pub(super) fn has_untold(&self) -> bool {
        !self.events.is_empty() || self.session.outbox.wants_room() || self.layer_remains.is_some()
    }

    /// Returns the next event for the program. The caller took the peer out of the engine's queue.
    pub(crate) fn next_event(
        &mut self,
        held: Option<Source>,
        notices: &mut Notices,
    ) -> Option<Event> {
        self.has_listed_events = false;
        let node = self.node;
        let held = held.filter(|held| held.node == node);
        let mut event = self.change_events(notices, |queue| {
            queue.next(node, held.map(|held| held.session))
        });
        // The held message may be the last of its channel.
        if event.is_none() && self.events.ends() == 0 && held.is_none() {
            let finished = self.session.inbox.poll_finished();
            event = finished.map(|channel| Event::ChannelFinished { node, channel });
        }
        if event.is_none() && self.events.ends() == 0 {
            let room = self.session.outbox.poll_room();
            event = room.map(|class| Event::Writable { node, class });
        }
        self.list_events(notices);
        event
    }

    /// Returns true if the session has begun, or a new one may begin: false while messages of too
    /// many earlier sessions are unread (F04).
    #[inline(always)]
    pub(crate) fn has_room_for_session(&self) -> bool {
        self.session.has_begun() || self.events.unread() < MAX_UNREAD
    }
}
