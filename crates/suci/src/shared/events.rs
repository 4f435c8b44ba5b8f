//! Events on their way to the program, for whichever handle takes them first.
//!
//! The thread hands over every event of the engine at once, whether the program takes events or
//! not: calls that wait for a peer hear of its end by them. A program that takes none must not cost
//! memory that a peer can drive (F04): when many wait, those are dropped that a later one makes
//! history ([`Events::compact`]).

use super::ring::has_reached;
use super::shard::Shard;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use suci_proto::limits::MAX_CHANNELS;
use suci_proto::types::{ChannelId, Layer, NodeId};
use suci_proto::{Engine, Event, MessageOutcome, Side};

/// When this many events wait, the queue is searched for events that later ones replace. Beyond
/// this number, events of refused messages are not added.
pub(super) const EVENTS: usize = 1_024;

/// At most this many ends of channels wait, the newest: as many as a peer can have open at once. If
/// the program takes events now and then, none is dropped.
const CHANNEL_ENDS: usize = MAX_CHANNELS as usize;

/// The queue.
pub(super) struct Events {
    queue: VecDeque<Placed>,
    /// Length at which the queue is searched.
    compact_at: usize,
    /// The thread keeps events back of messages that it refused, and wants to hear when there is
    /// room.
    pub(super) more: bool,
}

/// An event, and where it stands among the messages.
struct Placed {
    /// How many messages came before it; wraps.
    after: usize,
    /// Messages that it reports as failed and that no flush reported.
    failed: u64,
    event: Event,
}

/// A state that events report. Of two events about one node and the same state the later one is
/// enough.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Link,
    /// Whether by this side.
    Suspension(bool),
    /// The layer that is refused, unless it is the connection.
    Refused(Option<Layer>),
    Announced(ChannelId),
    Finished(ChannelId),
    Member,
}

/// Later events of the same node, as the compaction meets them from newest to oldest.
#[derive(Default)]
struct Later {
    states: BTreeSet<State>,
    /// The position of the next end of a session among the events kept.
    end: Option<usize>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            compact_at: EVENTS,
            more: false,
        }
    }
}

/// The state that an event reports. Ends of sessions, outcomes of messages and room report none.
fn state(event: &Event) -> Option<State> {
    match *event {
        Event::Up { .. } | Event::Lost { .. } | Event::Quiet { .. } => Some(State::Link),
        Event::Suspended { by, .. } | Event::Resumed { by, .. } => {
            Some(State::Suspension(by == Side::Here))
        }
        Event::Refused { reason, .. } => Some(State::Refused(reason.denied_layer())),
        Event::Incoming { channel, .. } => Some(State::Announced(channel)),
        Event::ChannelFinished { channel, .. } => Some(State::Finished(channel)),
        Event::MemberJoined { .. } | Event::MemberLeft { .. } | Event::MemberFailed { .. } => {
            Some(State::Member)
        }
        // The queue has at most one event about room for each class of a peer, and the end of a
        // session does not undo it.
        Event::Ended { .. }
        | Event::Delivered { .. }
        | Event::NotDelivered { .. }
        | Event::Writable { .. } => None,
    }
}

fn is_channel_end(event: &Event) -> bool {
    matches!(event, Event::ChannelFinished { .. })
}

impl Placed {
    /// Takes up the end of the sessions before, as the engine does: of the outcomes after the first
    /// session those stay that the program asked for.
    fn take_up(&mut self, before: Self) {
        let Event::Ended {
            sessions: earlier,
            outcomes: mut all,
            ..
        } = before.event
        else {
            return;
        };
        if let Event::Ended {
            sessions, outcomes, ..
        } = &mut self.event
        {
            *sessions = sessions.saturating_add(earlier);
            let asked_for = |outcome: &MessageOutcome| outcome.notify;
            all.extend(core::mem::take(outcomes).into_iter().filter(asked_for));
            *outcomes = all;
            self.failed = self.failed.saturating_add(before.failed);
        }
    }
}

impl Events {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none wait.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds an event that came after `after` messages. It reports `failed` messages as failed that
    /// no flush reported.
    pub(super) fn push(&mut self, after: usize, failed: u64, event: Event) {
        self.queue.push_back(Placed {
            after,
            failed,
            event,
        });
    }

    /// Takes back the newest event that equals this one. Whether there was one.
    pub(super) fn take_back(&mut self, event: &Event) -> bool {
        let mut queue = self.queue.iter();
        let position = queue.rposition(|placed| placed.event == *event);
        position
            .and_then(|position| self.queue.remove(position))
            .is_some()
    }

    /// The next event. Whether the thread is to hear that there is room.
    pub(super) fn pop(&mut self) -> (Option<Event>, bool) {
        let event = self.queue.pop_front().map(|placed| placed.event);
        let refill = self.more && self.queue.len() <= EVENTS / 2;
        self.more &= !refill;
        (event, refill)
    }

    /// How many messages came before the next event.
    pub(super) fn next_after(&self) -> Option<usize> {
        self.queue.front().map(|placed| placed.after)
    }

    /// The failures that no flush reported, with their nodes: this one does.
    pub(super) fn flush_failures(&mut self) -> impl Iterator<Item = (NodeId, u64)> {
        let failures = self.queue.iter_mut().map(|placed| {
            let failed = core::mem::take(&mut placed.failed);
            (placed.event.node(), failed)
        });
        failures.filter(|(_, failed)| *failed > 0)
    }

    /// How many events wait beside the ends of channels, which have a bound of their own.
    fn others(&self) -> usize {
        let others = self.queue.iter();
        others
            .filter(|placed| !is_channel_end(&placed.event))
            .count()
    }

    /// Drops events that later ones replace. For one node these stay: the newest event about each
    /// [`State`] of the present session, outcomes of messages, room, and the ends of sessions. Two
    /// ends become one if `is_between` finds none of the node's messages between them.
    fn compact(&mut self, is_between: impl Fn(NodeId, usize, usize) -> bool) {
        let mut later: BTreeMap<NodeId, Later> = BTreeMap::new();
        let mut kept: Vec<Placed> = Vec::new();
        let mut channel_ends = 0;
        for placed in core::mem::take(&mut self.queue).into_iter().rev() {
            let node = placed.event.node();
            let later = later.entry(node).or_default();
            if is_channel_end(&placed.event) {
                channel_ends += 1;
                if channel_ends > CHANNEL_ENDS {
                    continue;
                }
            }
            if let Some(state) = state(&placed.event) {
                if later.end.is_none() && later.states.insert(state) {
                    kept.push(placed);
                }
                continue;
            }
            if matches!(placed.event, Event::Ended { .. }) {
                let next = later.end.and_then(|position| kept.get_mut(position));
                if let Some(next) = next
                    && !is_between(node, placed.after, next.after)
                {
                    next.take_up(placed);
                    continue;
                }
                later.end = Some(kept.len());
            }
            kept.push(placed);
        }
        self.queue = kept.into_iter().rev().collect();
    }
}

impl Shard {
    /// Bounds the events that wait for a program that takes none. Events of nodes that the engine
    /// forgot are dropped if there are too many, as in the engine.
    pub(super) fn compact(&self, events: &mut Events, engine: &Engine) {
        if events.len() < events.compact_at {
            return;
        }
        let most = EVENTS + 2 * engine.peer_count();
        if !self.messages.is_closed() {
            // The thread cannot look at messages in the ring.
            let taken = self.messages.emptied();
            events.compact(|_, from, to| from != to && !has_reached(taken, to));
        }
        if events.others() > most || self.messages.is_closed() {
            let mut positions: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
            for (position, message) in self.sort().positions() {
                positions.entry(message.from).or_default().push(position);
            }
            events.compact(|node, from, to| {
                let is_there =
                    |position: &usize| has_reached(*position, from) && !has_reached(*position, to);
                positions
                    .get(&node)
                    .is_some_and(|positions| positions.iter().any(is_there))
            });
        }
        if events.others() > most {
            events
                .queue
                .retain(|placed| engine.knows(placed.event.node()));
        }
        events.compact_at = EVENTS.max(2 * events.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suci_proto::types::SessionNumber;
    use suci_proto::{EndReason, Outcome};

    const PEER: NodeId = NodeId(1);
    const OTHER: NodeId = NodeId(2);

    fn up(node: NodeId, session: u32) -> Event {
        let session = SessionNumber(session);
        Event::Up { node, session }
    }

    fn ended(node: NodeId, session: u32, sessions: u32, tokens: &[(u64, bool)]) -> Event {
        let outcome = |&(token, notify): &(u64, bool)| MessageOutcome {
            channel: ChannelId(0),
            number: 0,
            token,
            notify,
            outcome: Outcome::Unknown,
        };
        Event::Ended {
            node,
            session: SessionNumber(session),
            sessions,
            reason: EndReason::Closed,
            outcomes: tokens.iter().map(outcome).collect(),
        }
    }

    fn delivered(token: u64) -> Event {
        Event::Delivered {
            node: PEER,
            channel: ChannelId(0),
            number: 0,
            token,
        }
    }

    fn queue(events: &[(usize, Event)]) -> Events {
        let mut all = Events::default();
        for (after, event) in events {
            all.push(*after, event.failures(), event.clone());
        }
        all
    }

    fn drain(mut events: Events) -> Vec<Event> {
        std::iter::from_fn(|| events.pop().0).collect()
    }

    #[test]
    fn ends_without_messages_between_them_become_one() {
        let mut events = queue(&[
            (0, up(PEER, 0)),
            (1, delivered(7)),
            (1, ended(PEER, 0, 1, &[(1, false)])),
            (1, up(OTHER, 0)),
            (1, up(PEER, 1)),
            (2, ended(PEER, 1, 1, &[(2, false), (3, true)])),
            (2, up(PEER, 2)),
        ]);
        events.compact(|_, _, _| false);
        let failures: Vec<_> = events.flush_failures().collect();
        assert_eq!(
            failures,
            [(PEER, 3)],
            "also those whose outcomes are left out"
        );
        let expected = [
            delivered(7),
            up(OTHER, 0),
            ended(PEER, 1, 2, &[(1, false), (3, true)]),
            up(PEER, 2),
        ];
        assert_eq!(drain(events), expected);
    }

    #[test]
    fn an_end_stays_before_the_messages_of_the_next_session() {
        let all = [
            (1, ended(PEER, 0, 1, &[])),
            (2, ended(OTHER, 0, 1, &[])),
            (3, ended(PEER, 1, 1, &[])),
            (4, ended(OTHER, 1, 1, &[])),
        ];
        let mut events = queue(&all);
        // A message of the peer's is the third one.
        events.compact(|node, from, to| node == PEER && (from..to).contains(&2));
        let [(_, first), _, (_, third), _] = all;
        assert_eq!(drain(events), [first, third, ended(OTHER, 1, 2, &[])]);
    }

    /// However many channels a peer opens and finishes.
    #[test]
    fn f04_of_the_ends_of_channels_the_newest_stay() {
        let finished = |channel| Event::ChannelFinished {
            node: PEER,
            channel: ChannelId(channel),
        };
        let mut events = Events::default();
        let all = 3 * CHANNEL_ENDS as u32;
        for channel in 0..all {
            events.push(0, 0, finished(channel));
        }
        events.compact(|_, _, _| false);
        assert_eq!((events.len(), events.others()), (CHANNEL_ENDS, 0));
        let first = all - CHANNEL_ENDS as u32;
        assert_eq!(events.pop().0, Some(finished(first)));
        // With the session they are over, too.
        events.push(0, 0, ended(PEER, 0, 1, &[]));
        events.compact(|_, _, _| false);
        assert_eq!(drain(events), [ended(PEER, 0, 1, &[])]);
    }

    /// The program asked for room and hears of it, however the session goes on.
    #[test]
    fn room_is_told_whatever_follows() {
        let room = Event::Writable {
            node: PEER,
            class: 4,
        };
        let mut events = queue(&[(0, up(PEER, 0)), (0, room.clone()), (1, up(OTHER, 0))]);
        events.push(1, 0, ended(PEER, 0, 1, &[]));
        events.compact(|_, _, _| false);
        assert_eq!(events.len(), 3);
        assert!(events.take_back(&room) && !events.take_back(&room));
        events.push(2, 0, room.clone());
        assert_eq!(drain(events), [up(OTHER, 0), ended(PEER, 0, 1, &[]), room]);
    }

    /// Only the newest event of each state stays, whatever a peer does in one session.
    #[test]
    fn f04_of_each_state_the_newest_event_stays() {
        let (node, by) = (PEER, Side::There);
        let mut events = Events::default();
        for session in 0..1_000 {
            events.push(0, 0, up(node, session));
            events.push(0, 0, Event::Quiet { node });
            events.push(0, 0, Event::Suspended { node, by });
            events.push(0, 0, Event::Resumed { node, by });
        }
        events.compact(|_, _, _| false);
        let expected = [Event::Quiet { node }, Event::Resumed { node, by }];
        assert_eq!(drain(events), expected);
    }
}
