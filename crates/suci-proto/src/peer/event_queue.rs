//! The events of one peer that the program did not take, in order: the ends of sessions, each after
//! its messages and other events, then the events of the present session.
//!
//! The engine keeps no other queue of events. A program that takes no events must not cost memory
//! that a peer can increase (F04). At most this much waits for each peer:
//!
//! | event | at most |
//! |---|---|
//! | `Ended` | one for each session with messages that the program did not receive ([`MAX_UNREAD`] at most, with the present one), and one for all others: ends without messages between them are merged |
//! | `Up`, `Lost`, `Quiet`, `Refused` | one of each per session: an event that a later one undoes is dropped |
//! | `Suspended`, `Resumed` | one for each side: an event that undoes a waiting one removes it |
//! | `Writable` | no queue: a bit for each class of channels |
//! | `Incoming` | one per channel of the present session, whose memory credit pays for it |
//! | `ChannelFinished` | no queue: numbers of channels, as ranges of which there are at most as many as channels |
//! | `MemberJoined`, `MemberLeft`, `MemberFailed` | three: a `MemberJoined` removes one that waits, with the end of that member |
//! | `Delivered`, `NotDelivered`, outcomes | one per message that the program itself sent |

use crate::event::{EndReason, Event, MessageOutcome};
use crate::session_events::SessionEvents;
use crate::shared::Promise;
use std::collections::VecDeque;
use suci_channels::message::{Completion, Message};
use suci_link::types::{ChannelId, MessageNumber, NodeId, SessionNumber};

/// Bound of sessions of one peer with messages that the program did not receive, including the
/// present one. A peer that reconnects more often is refused until the program receives (F04).
pub(crate) const MAX_UNREAD: usize = 4;

/// An ended session, merged with the sessions just before it that ended without messages in
/// between.
#[derive(Debug)]
pub(crate) struct EndedSession {
    /// The newest of these sessions.
    pub(crate) session: SessionNumber,
    /// Number of these sessions.
    pub(crate) sessions: u32,
    /// Messages of the first session that arrived and that the program did not take. The end is
    /// reported after the last of them.
    pub(crate) messages: VecDeque<Message>,
    /// Bytes of our memory in these messages; the program's own buffers do not count.
    pub(crate) held: u64,
    /// Memory promised to these messages and the session. It is freed once the messages are taken.
    pub(crate) promise: Promise,
    pub(crate) reason: EndReason,
    pub(crate) outcomes: Vec<Completion>,
    /// Number of messages that failed; the outcomes of some may be omitted.
    pub(crate) failed: u64,
    /// A receiving call reported the end to the program.
    pub(crate) heard: bool,
}

impl EndedSession {
    /// Returns the first of the sessions. All messages belong to it; the later sessions had none.
    fn first(&self) -> SessionNumber {
        SessionNumber(self.session.0.wrapping_sub(self.sessions.saturating_sub(1)))
    }

    /// Returns true if it includes the end of `session`.
    fn covers(&self, session: SessionNumber) -> bool {
        (self.first()..=self.session).contains(&session)
    }

    /// Merges the next ended session, which has no messages. Keeps the outcomes that the program
    /// asked for.
    fn append(&mut self, next: Self) {
        self.session = next.session;
        self.sessions = self.sessions.saturating_add(next.sessions);
        self.reason = self.reason.merged_with(next.reason);
        self.heard = next.heard;
        self.failed = self.failed.saturating_add(next.failed);
        let asked_for = next.outcomes.into_iter().filter(|outcome| outcome.notify);
        self.outcomes.extend(asked_for);
    }

    fn into_event(self, node: NodeId) -> Event {
        let outcome = |c: Completion| MessageOutcome {
            channel: c.channel,
            number: c.number,
            token: c.token,
            notify: c.notify,
            outcome: c.outcome,
        };
        Event::Ended {
            node,
            session: self.session,
            sessions: self.sessions,
            reason: self.reason,
            outcomes: self.outcomes.into_iter().map(outcome).collect(),
        }
    }
}

/// All events of one peer that wait for the program, and the messages of ended sessions.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    pub(super) ends: VecDeque<(SessionEvents, EndedSession)>,
    present: SessionEvents,
    /// Announcements among the present events that no receiving call reported.
    unreported: VecDeque<(ChannelId, MessageNumber)>,
    /// Messages that these events report as not, or not certainly, delivered.
    failed: u64,
    /// Number of these failures that a flush reported, the earliest first.
    flushed: u64,
}

impl EventQueue {
    /// Adds an event of the present session.
    pub(crate) fn push(&mut self, event: Event) {
        self.failed = self.failed.saturating_add(event.failures());
        if let Event::Incoming {
            channel, number, ..
        } = event
        {
            self.unreported.push_back((channel, number));
        }
        self.present.push(event);
    }

    /// Ends the present session.
    pub(crate) fn end(&mut self, ended_session: EndedSession) {
        let mut events = core::mem::take(&mut self.present);
        // Announced messages can no longer be answered.
        events.withdraw(None);
        self.unreported.clear();
        self.failed = self.failed.saturating_add(ended_session.failed);
        self.ends.push_back((events, ended_session));
        self.join(self.ends.len() - 1);
    }

    /// Merges the end at this index with the one before, if no messages come in between.
    fn join(&mut self, index: usize) {
        let joins = index > 0
            && self
                .ends
                .get(index)
                .is_some_and(|(_, f)| f.messages.is_empty());
        if joins
            && let Some((events, ended_session)) = self.ends.remove(index)
            && let Some((events_before, before)) = self.ends.get_mut(index - 1)
        {
            events_before.append(events);
            before.append(ended_session);
        }
    }

    /// Returns the next event of `node` for the program. The end of session `held` is not reported
    /// yet: the program did not take its last message.
    pub(crate) fn next(&mut self, node: NodeId, held: Option<SessionNumber>) -> Option<Event> {
        let event = match self.ends.front_mut() {
            None => self.present.pop(),
            Some((events, _)) if !events.is_empty() => events.pop(),
            Some((_, ended_session))
                if !ended_session.messages.is_empty()
                    || held.is_some_and(|held| ended_session.covers(held)) =>
            {
                None
            }
            Some(_) => {
                let (_, ended_session) = self.ends.pop_front()?;
                self.told(ended_session.failed);
                return Some(ended_session.into_event(node));
            }
        };
        if let Some(Event::Incoming {
            channel, number, ..
        }) = event
        {
            self.unreported.retain(|told| *told != (channel, number));
        }
        self.told(event.as_ref().map_or(0, Event::failures));
        event
    }

    /// Returns the number of announcements that neither the program took nor a receiving call
    /// reported.
    pub(crate) fn unreported(&self) -> usize {
        self.unreported.len()
    }

    /// Reports the first of these announcements. Its event stays.
    pub(super) fn report(&mut self) -> Option<Event> {
        let first = self.unreported.pop_front()?;
        let mut waiting = self.announcements();
        let is_first = |event: &&Event| matches!(event, Event::Incoming { channel, number, .. } if (*channel, *number) == first);
        waiting.find(is_first).cloned()
    }

    /// Notes that an event reported `failed` failures to the program.
    fn told(&mut self, failed: u64) {
        self.failed = self.failed.saturating_sub(failed);
        self.flushed = self.flushed.saturating_sub(failed);
    }

    /// Notes that a flush reported all failures that no event reported.
    pub(crate) fn flush_failures(&mut self) {
        self.flushed = self.failed;
    }

    /// Returns true if [`EventQueue::next`] returns an event.
    pub(crate) fn has_next(&self) -> bool {
        match self.ends.front() {
            None => !self.present.is_empty(),
            Some((events, ended_session)) => {
                !events.is_empty() || ended_session.messages.is_empty()
            }
        }
    }

    /// Returns true if nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.present.is_empty()
    }

    /// Returns the next message of a session that is over, the session's number, and the memory
    /// that is free once the message is taken.
    #[inline]
    pub(crate) fn next_message(&mut self) -> Option<(SessionNumber, Message, Promise)> {
        if self.ends.is_empty() {
            return None;
        }
        self.next_of_ended()
    }

    fn next_of_ended(&mut self) -> Option<(SessionNumber, Message, Promise)> {
        let unread =
            |(_, ended_session): &(SessionEvents, EndedSession)| !ended_session.messages.is_empty();
        let at = self.ends.iter().position(unread)?;
        self.take(at, 0)
    }

    /// As [`EventQueue::next_message`], for one channel.
    pub(super) fn next_message_on(
        &mut self,
        channel: ChannelId,
    ) -> Option<(SessionNumber, Message, Promise)> {
        let mut ends = self.ends.iter().enumerate();
        let (at, index) = ends.find_map(|(at, (_, ended_session))| {
            let mut messages = ended_session.messages.iter();
            Some((at, messages.position(|message| message.channel == channel)?))
        })?;
        self.take(at, index)
    }

    /// Takes the message at `index` of the end `at`, and the memory that is free then.
    fn take(&mut self, at: usize, index: usize) -> Option<(SessionNumber, Message, Promise)> {
        let (_, ended_session) = self.ends.get_mut(at)?;
        let session = ended_session.first();
        let message = ended_session.messages.remove(index)?;
        let mut freed = Promise::default();
        if ended_session.messages.is_empty() {
            freed = core::mem::take(&mut ended_session.promise);
            self.join(at);
        }
        Some((session, message, freed))
    }

    /// Returns why the newest session ended, if the program was told neither by an event nor by
    /// this call.
    pub(super) fn take_unheard_end(&mut self) -> Option<EndReason> {
        let (_, ended_session) = self.ends.back_mut()?;
        let heard = core::mem::replace(&mut ended_session.heard, true);
        (!heard).then_some(ended_session.reason)
    }

    /// Returns true if [`EventQueue::next_message`] returns a message.
    pub(crate) fn has_message(&self) -> bool {
        // Usually no session has ended.
        !self.ends.is_empty() && self.ends.iter().any(|(_, f)| !f.messages.is_empty())
    }

    /// Returns the number of ended sessions with messages that the program did not receive.
    pub(crate) fn unread(&self) -> usize {
        // Usually no session has ended.
        if self.ends.is_empty() {
            return 0;
        }
        self.ends
            .iter()
            .filter(|(_, f)| !f.messages.is_empty())
            .count()
    }

    /// Returns how many ends wait to be reported.
    pub(crate) fn ends(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of failed messages that neither an event nor a flush reported to the
    /// program.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.saturating_sub(self.flushed)
    }

    /// Returns the untaken announcements of messages that wait for the program's decision.
    pub(crate) fn announcements(&self) -> impl Iterator<Item = &Event> {
        let events = self.present.iter();
        events.filter(|event| matches!(event, Event::Incoming { .. }))
    }

    pub(super) fn withdraw(&mut self, channel: ChannelId, number: MessageNumber) {
        self.unreported.retain(|told| *told != (channel, number));
        self.present.withdraw(Some((channel, number)));
    }

    /// Returns the bytes of our memory in messages of ended sessions, until the last of a session
    /// is taken.
    pub(crate) fn held(&self) -> u64 {
        let unread = self.ends.iter().filter(|(_, f)| !f.messages.is_empty());
        unread.map(|(_, ended_session)| ended_session.held).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{LostCause, RefusedReason, Side};
    use bytes::Bytes;
    use suci_link::types::Kind;

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
    fn f04_a_suspension_that_was_undone_is_not_reported() {
        let (node, mut queue) = (NODE, EventQueue::default());
        for by in [Side::Here, Side::There] {
            queue.push(Event::Suspended { node, by });
        }
        for _ in 0..1_000 {
            let by = Side::There;
            queue.push(Event::Resumed { node, by });
            queue.push(Event::Suspended { node, by });
        }
        let told: Vec<_> = std::iter::from_fn(|| queue.next(NODE, None)).collect();
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

    fn ended_session(messages: usize) -> EndedSession {
        let message = Message {
            channel: ChannelId(0),
            number: 0,
            tag: 0,
            kind: Kind::USER,
            user_header: Bytes::new(),
            payload: Bytes::from_static(b"abc").into(),
        };
        EndedSession {
            session: SESSION,
            sessions: 1,
            held: 3 * messages as u64,
            messages: vec![message; messages].into(),
            promise: Promise::default(),
            reason: EndReason::Closed,
            outcomes: Vec::new(),
            failed: 0,
            heard: false,
        }
    }

    fn told(queue: &mut EventQueue) -> Vec<Event> {
        core::iter::from_fn(|| queue.next(NODE, None)).collect()
    }

    #[test]
    fn f32_memory_of_an_ended_session_counts_until_its_last_message_is_taken() {
        let mut queue = EventQueue::default();
        queue.end(ended_session(2));
        assert_eq!(queue.held(), 6);
        assert!(queue.next_message().is_some());
        assert_eq!(queue.held(), 6, "the promise is kept whole till then");
        assert!(queue.next_message().is_some());
        assert_eq!(queue.held(), 0);
    }

    /// The program takes its events late: sessions that closed in order since must not hide that
    /// messages are missing.
    #[test]
    fn f20_a_close_cut_short_is_told_though_later_sessions_closed_in_order() {
        let mut queue = EventQueue::default();
        for missing in [2, 3] {
            queue.end(EndedSession {
                reason: EndReason::CutShort { missing },
                ..ended_session(0)
            });
        }
        queue.end(ended_session(0));
        let told = told(&mut queue);
        let [
            Event::Ended {
                sessions, reason, ..
            },
        ] = told.as_slice()
        else {
            panic!("{told:?}");
        };
        assert_eq!(*sessions, 3);
        assert_eq!(*reason, EndReason::CutShort { missing: 5 });
    }

    #[test]
    fn f04_a_link_that_flaps_is_two_events_at_most() {
        let mut queue = EventQueue::default();
        for _ in 0..1_000 {
            queue.push(UP);
            queue.push(LOST);
            assert!(queue.present.len() <= 2);
        }
        assert_eq!(told(&mut queue), [UP, LOST]);
        for _ in 0..1_000 {
            queue.push(UP);
            queue.push(LOST);
        }
        queue.push(UP);
        assert_eq!(told(&mut queue), [UP], "it was lost when last heard of");
    }

    #[test]
    fn of_two_causes_of_a_loss_the_newest_is_told() {
        let mut queue = EventQueue::default();
        let refused = Event::Lost {
            node: NODE,
            cause: LostCause::Refused(RefusedReason::Mode),
        };
        let all = [LOST, UP, refused.clone()];
        all.into_iter().for_each(|event| queue.push(event));
        assert_eq!(told(&mut queue), [refused]);
    }

    #[test]
    fn merging_up_and_lost_drops_no_other_event() {
        let mut queue = EventQueue::default();
        let all = [UP, delivered(1), LOST, delivered(2), UP, delivered(3)];
        all.into_iter().for_each(|event| queue.push(event));
        let left = [UP, delivered(1), delivered(2), delivered(3)];
        assert_eq!(told(&mut queue), left);
    }

    #[test]
    fn f04_only_the_newest_refusal_is_reported() {
        let mut queue = EventQueue::default();
        for code in 0..1_000 {
            queue.push(refused(code));
        }
        assert_eq!(told(&mut queue), [refused(999)]);
    }

    fn ended(sessions: u32) -> Event {
        Event::Ended {
            node: NODE,
            session: SESSION,
            sessions,
            reason: EndReason::Closed,
            outcomes: Vec::new(),
        }
    }

    #[test]
    fn an_end_follows_the_events_and_messages_of_its_session() {
        let mut queue = EventQueue::default();
        queue.push(UP);
        queue.end(ended_session(2));
        queue.push(UP);
        queue.end(ended_session(1));
        queue.push(UP);
        assert_eq!(told(&mut queue), [UP], "its messages come first");
        assert!(!queue.has_next());
        assert!(queue.next_message().is_some() && !queue.has_next());
        assert!(queue.next_message().is_some() && queue.has_next());
        assert_eq!(told(&mut queue), [ended(1), UP]);
        assert!(queue.next_message().is_some() && queue.next_message().is_none());
        assert_eq!(told(&mut queue), [ended(1), UP]);
        assert!(queue.is_empty());
    }

    /// An end without messages merges with the one before, even while that waits.
    #[test]
    fn f04_an_end_without_messages_is_merged_with_the_one_before() {
        let mut queue = EventQueue::default();
        queue.push(UP);
        queue.end(ended_session(1));
        for number in 0..100 {
            queue.push(UP);
            queue.push(delivered(number));
            queue.push(LOST);
            queue.end(ended_session(0));
        }
        assert_eq!((queue.ends(), queue.unread()), (1, 1));
        queue.end(ended_session(1));
        assert_eq!((queue.ends(), queue.unread()), (2, 2));
        let heard = told(&mut queue);
        assert_eq!(heard[0], UP);
        assert_eq!(heard[1..], (0..100).map(delivered).collect::<Vec<_>>()[..]);
        // The program receives and takes no events.
        assert!(queue.next_message().is_some() && queue.next_message().is_some());
        assert_eq!((queue.ends(), queue.unread()), (1, 0));
        assert_eq!(told(&mut queue), [ended(102)]);
    }

    /// A message that the driver holds delays the end of its own session, and no others.
    #[test]
    fn an_end_waits_for_a_message_that_is_held() {
        let (first, second) = (SessionNumber(2), SESSION);
        let mut queue = EventQueue::default();
        queue.end(EndedSession {
            session: first,
            ..ended_session(0)
        });
        assert_eq!(queue.next(NODE, Some(first)), None);
        queue.end(ended_session(0));
        assert_eq!(queue.next(NODE, Some(first)), None, "both in one");
        assert_eq!(queue.next(NODE, Some(second)), None);
        assert_eq!(queue.next(NODE, Some(SessionNumber(4))), Some(ended(2)));
    }
}
