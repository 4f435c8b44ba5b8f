//! What the program has not been told of one peer yet, in order: the ends of sessions, each after its messages
//! and what else happened in it, then what happened in the present session.
//!
//! The engine keeps no queue of events beside this: a program that takes none must not cost memory that a
//! peer can drive (F04). So much may wait for each peer:
//!
//! | event | at most |
//! |---|---|
//! | `Ended` | [`MAX_ENDS`], the present session's included; further sessions are refused |
//! | `Up`, `Lost`, `Quiet`, `Refused` | one of each per session: what a later one undoes is left out |
//! | `Suspended`, `Resumed` | one for each side: what undoes one that waits takes it away |
//! | `Incoming` | one per channel of the present session, whose memory credit pays for it |
//! | `Delivered`, `NotDelivered`, outcomes | one per message that the program itself sent |

use super::Peer;
use crate::engine::{Promise, Shared};
use crate::event::{EndReason, Event, MessageOutcome, undelivered};
use crate::message::Message;
use crate::types::{ChannelId, MessageNumber, NodeId, SessionNumber, Source};
use std::collections::VecDeque;

/// Sessions of one peer whose end the program was not told yet, the present one included. A peer that returns
/// more often is refused until the program takes messages and events (F04).
pub(crate) const MAX_ENDS: usize = 4;

/// A session that is over.
#[derive(Debug)]
pub(crate) struct Farewell {
    pub(crate) session: SessionNumber,
    /// What had arrived in it and the program did not take yet. The end is told after the last.
    pub(crate) messages: VecDeque<Message>,
    /// Bytes of our memory in them: what came into the program's own buffers does not count.
    pub(crate) held: u64,
    /// Memory that they and the session were promised; free when they are taken.
    pub(crate) promise: Promise,
    pub(crate) reason: EndReason,
    pub(crate) outcomes: Vec<MessageOutcome>,
    /// A call that waited for the peer's messages said that it is over.
    pub(crate) heard: bool,
}

impl Farewell {
    /// Takes the message at `place`, and what is free then.
    fn take(&mut self, place: usize) -> Option<(SessionNumber, Message, Promise)> {
        let message = self.messages.remove(place)?;
        let freed = if self.messages.is_empty() {
            core::mem::take(&mut self.promise)
        } else {
            Promise::default()
        };
        Some((self.session, message, freed))
    }
}

/// Events of one session.
#[derive(Debug, Default)]
struct Events {
    queue: VecDeque<Event>,
}

/// Everything about one peer that waits for the program, messages of the present session apart.
#[derive(Debug, Default)]
pub(crate) struct News {
    ends: VecDeque<(Events, Farewell)>,
    present: Events,
    /// Messages that these events report as not, or not certainly, delivered.
    failed: u64,
}

impl Events {
    /// Adds an event, and leaves out what it makes history.
    fn push(&mut self, event: Event) {
        match event {
            // Of Up, Lost, Up the program needs to hear the first only.
            Event::Up { .. } | Event::Quiet { .. } | Event::Lost { .. } => {
                let mut waits = false;
                self.queue.retain_mut(|earlier| {
                    let undone = waits && is_about_link(earlier);
                    if core::mem::discriminant(earlier) == core::mem::discriminant(&event) {
                        // Of two causes of a loss the newest is told.
                        earlier.clone_from(&event);
                        waits = true;
                    }
                    !undone
                });
                if waits {
                    return;
                }
            }
            // Who suspended and resumed meanwhile left everything as the program knows it, or the reverse.
            Event::Suspended { node, by } if self.remove(&Event::Resumed { node, by }) => return,
            Event::Resumed { node, by } if self.remove(&Event::Suspended { node, by }) => return,
            Event::Refused { .. } => self.queue.retain(|e| !matches!(e, Event::Refused { .. })),
            _ => {}
        }
        self.queue.push_back(event);
    }

    fn remove(&mut self, which: &Event) -> bool {
        let place = self.queue.iter().position(|event| event == which);
        place.and_then(|place| self.queue.remove(place)).is_some()
    }

    /// Takes an announcement back, or all of them.
    fn withdraw(&mut self, which: Option<(ChannelId, MessageNumber)>) {
        self.queue.retain(|event| match event {
            Event::Incoming {
                channel, number, ..
            } => which.is_some_and(|which| which != (*channel, *number)),
            _ => true,
        });
    }
}

impl News {
    /// Something happened in the present session.
    pub(crate) fn tell(&mut self, event: Event) {
        self.failed = self.failed.saturating_add(event.failures());
        self.present.push(event);
    }

    /// The present session is over.
    pub(crate) fn end(&mut self, farewell: Farewell) {
        let mut events = core::mem::take(&mut self.present);
        // Nobody can answer them any more.
        events.withdraw(None);
        self.failed = self.failed.saturating_add(undelivered(&farewell.outcomes));
        self.ends.push_back((events, farewell));
    }

    /// The next event for the program of `node`'s. The end of session `held` is not told yet: the program did not take
    /// its last message.
    pub(crate) fn next(&mut self, node: NodeId, held: Option<SessionNumber>) -> Option<Event> {
        let event = match self.ends.front_mut() {
            None => self.present.queue.pop_front(),
            Some((events, _)) if !events.queue.is_empty() => events.queue.pop_front(),
            Some((_, farewell))
                if !farewell.messages.is_empty() || Some(farewell.session) == held =>
            {
                None
            }
            Some(_) => self.ends.pop_front().map(|(_, farewell)| Event::Ended {
                node,
                session: farewell.session,
                reason: farewell.reason,
                outcomes: farewell.outcomes,
            }),
        };
        let told = event.as_ref().map_or(0, Event::failures);
        self.failed = self.failed.saturating_sub(told);
        event
    }

    /// Whether [`News::next`] has something.
    pub(crate) fn has_next(&self) -> bool {
        match self.ends.front() {
            None => !self.present.queue.is_empty(),
            Some((events, farewell)) => !events.queue.is_empty() || farewell.messages.is_empty(),
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.present.queue.is_empty()
    }

    /// The next message of a session that is over, which session that is, and the memory that is free once the message is
    /// taken.
    #[inline]
    pub(crate) fn next_message(&mut self) -> Option<(SessionNumber, Message, Promise)> {
        if self.ends.is_empty() {
            return None;
        }
        self.next_of_ended()
    }

    fn next_of_ended(&mut self) -> Option<(SessionNumber, Message, Promise)> {
        let unread = |(_, farewell): &&mut (Events, Farewell)| !farewell.messages.is_empty();
        let (_, farewell) = self.ends.iter_mut().find(unread)?;
        farewell.take(0)
    }

    /// As [`News::next_message`], for one channel.
    fn next_message_on(&mut self, channel: ChannelId) -> Option<(SessionNumber, Message, Promise)> {
        self.ends.iter_mut().find_map(|(_, farewell)| {
            let mut messages = farewell.messages.iter();
            let place = messages.position(|message| message.channel == channel)?;
            farewell.take(place)
        })
    }

    /// Why the newest session ended, if the program was told neither by an event nor by this.
    fn take_unheard_end(&mut self) -> Option<EndReason> {
        let (_, farewell) = self.ends.back_mut()?;
        let heard = core::mem::replace(&mut farewell.heard, true);
        (!heard).then_some(farewell.reason)
    }

    /// Whether [`News::next_message`] has one.
    pub(crate) fn has_message(&self) -> bool {
        // Mostly no session has ended.
        !self.ends.is_empty() && self.ends.iter().any(|(_, f)| !f.messages.is_empty())
    }

    /// Sessions that are over and whose end the program was not told.
    pub(crate) fn ends(&self) -> usize {
        self.ends.len()
    }

    /// Messages whose failure the program was not told.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Messages that wait for the program's decision, as far as it has not taken the events that say so.
    pub(crate) fn announcements(&self) -> impl Iterator<Item = &Event> {
        let events = self.present.queue.iter();
        events.filter(|event| matches!(event, Event::Incoming { .. }))
    }

    /// An announced message was answered before the program took its announcement.
    pub(crate) fn withdraw(&mut self, channel: ChannelId, number: MessageNumber) {
        self.present.withdraw(Some((channel, number)));
    }

    /// Bytes of our memory in messages of ended sessions, until the last of a session is taken.
    pub(crate) fn held(&self) -> u64 {
        let unread = self.ends.iter().filter(|(_, f)| !f.messages.is_empty());
        unread.map(|(_, farewell)| farewell.held).sum()
    }
}

/// Whether it says how the link to the peer stands.
fn is_about_link(event: &Event) -> bool {
    matches!(
        event,
        Event::Up { .. } | Event::Quiet { .. } | Event::Lost { .. }
    )
}

impl Peer {
    /// Gives `each` the next messages for the program, sessions in order: one at least, if there is one, and `most` at
    /// most. Returns how many.
    #[inline]
    pub(crate) fn next_messages(
        &mut self,
        most: usize,
        shared: &mut Shared,
        each: &mut impl FnMut(SessionNumber, Message),
    ) -> usize {
        self.read = true;
        let Some((session, message, freed)) = self.news.next_message() else {
            if self.session.inbox.large_held() > 0 {
                // What a large message held is for whoever waited longest: its sender's next one queues, too.
                self.session.inbox.set_large_budget(0);
            }
            let session = self.session.number;
            let inbox = &mut self.session.inbox;
            return inbox.pop_some(most, &mut |message| each(session, message));
        };
        shared.memory.release(freed);
        self.list_news(shared);
        each(session, message);
        1
    }

    /// The next message on `channel`, sessions in order, and its session.
    pub(crate) fn next_message_on(
        &mut self,
        channel: ChannelId,
        shared: &mut Shared,
    ) -> Option<(SessionNumber, Message)> {
        self.read = true;
        if let Some((session, message, freed)) = self.news.next_message_on(channel) {
            shared.memory.release(freed);
            self.list_news(shared);
            return Some((session, message));
        }
        if self.session.inbox.large_held() > 0 {
            // As in `next_messages`.
            self.session.inbox.set_large_budget(0);
        }
        let message = self.session.inbox.pop_on(channel)?;
        Some((self.session.number, message))
    }

    /// Whether [`Peer::next_message_on`] has one.
    pub(crate) fn has_message_on(&self, channel: ChannelId) -> bool {
        let mut ended = self.news.ends.iter();
        let waits = |message: &Message| message.channel == channel;
        ended.any(|(_, farewell)| farewell.messages.iter().any(waits))
            || self.session.inbox.has_ready_on(channel)
    }

    /// Why the newest session ended, if the program was told neither by an event nor by this.
    pub(crate) fn take_unheard_end(&mut self) -> Option<EndReason> {
        self.news.take_unheard_end()
    }

    /// Whether [`Peer::next_messages`] has one.
    pub(crate) fn has_message(&self) -> bool {
        self.news.has_message() || self.session.inbox.has_ready()
    }

    /// Tells the program of something in this session, once it heard of the end of those before.
    pub(crate) fn tell(&mut self, event: Event, shared: &mut Shared) {
        self.news.tell(event);
        self.list_news(shared);
    }

    /// Enters the engine's queue of peers with events, if there is one to take.
    pub(super) fn list_news(&mut self, shared: &mut Shared) {
        if !self.newsworthy && self.news.has_next() {
            self.newsworthy = true;
            shared.newsworthy.push_back(self.key);
        }
    }

    /// Whether [`Peer::next_event`] has one.
    pub(crate) fn has_event(&self) -> bool {
        self.news.has_next()
    }

    /// The next event for the program; the peer left the engine's queue for it.
    pub(crate) fn next_event(
        &mut self,
        held: Option<Source>,
        shared: &mut Shared,
    ) -> Option<Event> {
        self.newsworthy = false;
        let held = held.filter(|held| held.node == self.node);
        let event = self.news.next(self.node, held.map(|held| held.session));
        self.list_news(shared);
        event
    }

    /// Whether the session goes on, or one may begin: not while the program is to hear of too many ends (F04).
    pub(crate) fn has_room_for_session(&self) -> bool {
        self.session.has_begun() || self.news.ends() < MAX_ENDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{LostCause, RefusedReason, Side};
    use crate::types::Kind;
    use bytes::Bytes;

    const NODE: NodeId = NodeId(7);
    const SESSION: SessionNumber = SessionNumber(3);
    const UP: Event = Event::Up {
        node: NODE,
        session: SESSION,
    };
    const LOST: Event = Event::Lost {
        node: NODE,
        cause: LostCause::NoAnswer,
    };

    #[test]
    fn f04_a_suspension_that_was_undone_is_not_told() {
        let (node, mut news) = (NODE, News::default());
        for by in [Side::Here, Side::There] {
            news.tell(Event::Suspended { node, by });
        }
        for _ in 0..1_000 {
            let by = Side::There;
            news.tell(Event::Resumed { node, by });
            news.tell(Event::Suspended { node, by });
        }
        let told: Vec<_> = std::iter::from_fn(|| news.next(NODE, None)).collect();
        let sides = [Side::Here, Side::There];
        assert_eq!(told, sides.map(|by| Event::Suspended { node, by }));
    }

    fn refused(code: u64) -> Event {
        Event::Refused {
            node: NODE,
            reason: RefusedReason::Other(code),
        }
    }

    fn delivered(number: MessageNumber) -> Event {
        Event::Delivered {
            node: NODE,
            channel: ChannelId(0),
            number,
            token: 0,
        }
    }

    fn farewell(messages: usize) -> Farewell {
        let message = Message {
            channel: ChannelId(0),
            number: 0,
            tag: 0,
            kind: Kind::USER,
            user_header: Bytes::new(),
            payload: Bytes::from_static(b"abc").into(),
        };
        Farewell {
            session: SESSION,
            held: 3 * messages as u64,
            messages: vec![message; messages].into(),
            promise: Promise::default(),
            reason: EndReason::Closed,
            outcomes: Vec::new(),
            heard: false,
        }
    }

    fn told(news: &mut News) -> Vec<Event> {
        core::iter::from_fn(|| news.next(NODE, None)).collect()
    }

    #[test]
    fn f32_memory_of_an_ended_session_counts_until_its_last_message_is_taken() {
        let mut news = News::default();
        news.end(farewell(2));
        assert_eq!(news.held(), 6);
        assert!(news.next_message().is_some());
        assert_eq!(news.held(), 6, "the promise is kept whole till then");
        assert!(news.next_message().is_some());
        assert_eq!(news.held(), 0);
    }

    #[test]
    fn f04_a_link_that_flaps_is_two_events_at_most() {
        let mut news = News::default();
        for _ in 0..1_000 {
            news.tell(UP);
            news.tell(LOST);
            assert!(news.present.queue.len() <= 2);
        }
        assert_eq!(told(&mut news), [UP, LOST]);
        for _ in 0..1_000 {
            news.tell(UP);
            news.tell(LOST);
        }
        news.tell(UP);
        assert_eq!(told(&mut news), [UP], "it was lost when last heard of");
    }

    #[test]
    fn of_two_causes_of_a_loss_the_newest_is_told() {
        let mut news = News::default();
        let refused = Event::Lost {
            node: NODE,
            cause: LostCause::Refused(RefusedReason::Mode),
        };
        let all = [LOST, UP, refused.clone()];
        all.into_iter().for_each(|event| news.tell(event));
        assert_eq!(told(&mut news), [refused]);
    }

    #[test]
    fn what_a_flap_leaves_out_is_nothing_else() {
        let mut news = News::default();
        let all = [UP, delivered(1), LOST, delivered(2), UP, delivered(3)];
        all.into_iter().for_each(|event| news.tell(event));
        let left = [UP, delivered(1), delivered(2), delivered(3)];
        assert_eq!(told(&mut news), left);
    }

    #[test]
    fn f04_of_refusals_the_newest_is_told() {
        let mut news = News::default();
        for code in 0..1_000 {
            news.tell(refused(code));
        }
        assert_eq!(told(&mut news), [refused(999)]);
    }

    #[test]
    fn an_end_follows_what_happened_and_what_arrived_in_its_session() {
        let mut news = News::default();
        news.tell(UP);
        news.end(farewell(2));
        news.tell(UP);
        news.end(farewell(0));
        news.tell(UP);
        assert_eq!(told(&mut news), [UP], "its messages come first");
        assert!(!news.has_next());
        assert!(news.next_message().is_some() && !news.has_next());
        assert!(news.next_message().is_some() && news.has_next());
        assert!(news.next_message().is_none());
        let ended = Event::Ended {
            node: NODE,
            session: SESSION,
            reason: EndReason::Closed,
            outcomes: Vec::new(),
        };
        assert_eq!(told(&mut news), [ended.clone(), UP, ended, UP]);
        assert!(news.is_empty());
    }
}
