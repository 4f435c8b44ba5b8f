//! Events on their way to the program, for whichever handle takes them first.
//!
//! The thread hands over every event of the engine at once, whether the program takes events or
//! not: calls that wait for a peer hear of its end by them. A program that takes none must not cost
//! memory that a peer can drive (F04). So each node has a queue of the same form as in the engine
//! (`suci-proto/src/peer/event_queue.rs`), with the same bounds: an event that a later one makes
//! obsolete is dropped, and ends without messages between them become one.
//!
//! Messages lie elsewhere ([`Shard::messages`]). The end of a session, and all that follows it,
//! waits until the program took that session's messages; the end of a channel, until it took those
//! of the channel.

use super::shard::Shard;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{Ordering, fence};
use suci_proto::limits::MAX_CHANNELS;
use suci_proto::message::Finished;
use suci_proto::types::{ChannelId, MessageNumber, NodeId};
use suci_proto::{CLASSES, Event, MessageOutcome, SessionEvents};

/// When this many events of a node wait (about 2 MiB), those of refused messages to it are not
/// added: the messages take room in the queue instead.
pub(super) const EVENTS: usize = 16_384;

/// Messages that an event waits for: those of a node, or of one of its channels, before a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    pub(super) node: NodeId,
    pub(super) channel: Option<ChannelId>,
    /// The position after the last of them; wraps.
    pub(super) end: usize,
}

/// The end of a session.
#[derive(Debug)]
struct End {
    event: Event,
    /// The number of messages that it reports as failed, also those whose outcomes are left out.
    failed: u64,
    /// The position after the last message of the node that the program has to take before.
    after: Option<usize>,
}

impl End {
    /// Merges the next end, which no message separates from this one, as the engine does: of the
    /// outcomes after the first session those stay that the program asked for.
    fn append(&mut self, next: Self) {
        self.failed = self.failed.saturating_add(next.failed);
        if let Event::Ended {
            session,
            sessions,
            reason,
            outcomes,
            ..
        } = &mut self.event
            && let Event::Ended {
                session: newest,
                sessions: more,
                reason: newer,
                outcomes: further,
                ..
            } = next.event
        {
            *session = newest;
            *sessions = sessions.saturating_add(more);
            *reason = reason.merged_with(newer);
            let asked_for = |outcome: &MessageOutcome| outcome.notify;
            outcomes.extend(further.into_iter().filter(asked_for));
        }
    }
}

/// The events of one node.
#[derive(Debug, Default)]
struct NodeEvents {
    /// Ends of sessions, each after the events of its session.
    ends: VecDeque<(SessionEvents, End)>,
    present: SessionEvents,
    /// Channels that the peer finished in the present session, and the position after the last of
    /// each channel's messages; then those without a message to be taken.
    finishing: BTreeMap<ChannelId, usize>,
    finished: Finished,
    /// A bit for each class of channels of which the program is to hear that there is room.
    room: u8,
    /// Messages that these events report as failed, and how many of them a flush reported.
    failed: u64,
    flushed: u64,
    /// The node is among those whose next event may be taken.
    listed: bool,
}

/// Whether the next event of a node may be taken.
enum NextEvent {
    Free,
    /// After the program took messages.
    Held,
    None,
}

const fn class_bit(class: u8) -> u8 {
    1 << (class % CLASSES as u8)
}

impl NodeEvents {
    fn len(&self) -> usize {
        let ends = self.ends.iter();
        ends.map(|(events, _)| events.len() + 1).sum::<usize>() + self.present.len()
    }

    fn push(&mut self, event: Event, after: Option<usize>) {
        match event {
            Event::Ended { .. } => {
                let mut events = core::mem::take(&mut self.present);
                // Announced messages can no longer be answered, and all channels are over.
                events.withdraw(None);
                self.finishing.clear();
                self.finished = Finished::default();
                let failed = event.failures();
                let end = End {
                    event,
                    failed,
                    after,
                };
                self.ends.push_back((events, end));
                self.join();
            }
            Event::ChannelFinished { channel, .. } => match after {
                Some(end) => drop(self.finishing.insert(channel, end)),
                None => self.finish(channel),
            },
            Event::Writable { class, .. } => self.room |= class_bit(class),
            event => self.present.push(event),
        }
    }

    fn finish(&mut self, channel: ChannelId) {
        self.finished.insert(channel);
        // As in the engine: the program took some of these events and left others.
        if self.finished.ranges() as u64 > MAX_CHANNELS {
            self.finished.pop_first_range();
        }
    }

    /// Merges ends that no message separates.
    fn join(&mut self) {
        let mut index = 1;
        while let Some((_, next)) = self.ends.get(index) {
            // The program took all messages before the next end, or all that it has yet to take
            // come before this one.
            let this = self.ends.get(index - 1).map(|(_, end)| end.after);
            let joins = next.after.is_none() || this == Some(next.after);
            if joins
                && let Some((events, next)) = self.ends.remove(index)
                && let Some((before, this)) = self.ends.get_mut(index - 1)
            {
                before.append(events);
                this.after = next.after;
                this.append(next);
            } else {
                index += 1;
            }
        }
    }

    /// The program may have taken messages that events of `node` wait for.
    fn release(&mut self, node: NodeId, is_taken: &impl Fn(Before) -> bool) {
        let is_taken = |channel, end| is_taken(Before { node, channel, end });
        for (_, end) in &mut self.ends {
            if end.after.is_some_and(|after| !is_taken(None, after)) {
                break;
            }
            end.after = None;
        }
        self.join();
        let over = |channel: &ChannelId, end: &mut usize| is_taken(Some(*channel), *end);
        let over: Vec<_> = self.finishing.extract_if(.., over).collect();
        over.into_iter()
            .for_each(|(channel, _)| self.finish(channel));
    }

    fn next(&self) -> NextEvent {
        let may_be_taken = match self.ends.front() {
            Some((events, end)) => !events.is_empty() || end.after.is_none(),
            None => !(self.present.is_empty() && self.finished.is_empty() && self.room == 0),
        };
        if may_be_taken {
            NextEvent::Free
        } else if self.ends.is_empty() && self.finishing.is_empty() {
            NextEvent::None
        } else {
            NextEvent::Held
        }
    }

    /// Takes the next event that may be taken.
    fn pop(&mut self, node: NodeId) -> Option<Event> {
        let (event, failed) = match self.ends.front_mut() {
            Some((events, _)) if !events.is_empty() => with_failures(events.pop()?),
            Some((_, end)) if end.after.is_some() => return None,
            Some(_) => {
                let (_, end) = self.ends.pop_front()?;
                (end.event, end.failed)
            }
            None if !self.present.is_empty() => with_failures(self.present.pop()?),
            None => (self.pop_state(node)?, 0),
        };
        self.failed = self.failed.saturating_sub(failed);
        self.flushed = self.flushed.saturating_sub(failed);
        Some(event)
    }

    /// Takes an event of which only the state is kept.
    fn pop_state(&mut self, node: NodeId) -> Option<Event> {
        if let Some(channel) = self.finished.pop_first() {
            return Some(Event::ChannelFinished { node, channel });
        }
        let class = (0..CLASSES as u8).find(|class| self.room & class_bit(*class) != 0)?;
        self.room &= !class_bit(class);
        Some(Event::Writable { node, class })
    }
}

fn with_failures(event: Event) -> (Event, u64) {
    let failed = event.failures();
    (event, failed)
}

/// The queues of all nodes.
#[derive(Debug, Default)]
pub(super) struct Events {
    nodes: BTreeMap<NodeId, NodeEvents>,
    /// Nodes whose next event may be taken: one event of each in turn.
    free: VecDeque<NodeId>,
    /// Nodes with events that wait until the program takes messages.
    held: BTreeSet<NodeId>,
    /// Nodes for which the thread keeps events back of messages that it refused.
    kept_back: BTreeSet<NodeId>,
    /// One of them has room for such events again.
    pub(super) has_refill: bool,
    /// The program took an event at some time.
    are_taken: bool,
}

impl Events {
    /// How many events of `node` wait.
    pub(super) fn len_of(&self, node: NodeId) -> usize {
        self.nodes.get(&node).map_or(0, NodeEvents::len)
    }

    /// Whether no event may be taken before a message is.
    pub(super) fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// Whether events wait until the program takes messages.
    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether the program took an event at some time.
    pub(super) fn are_taken(&self) -> bool {
        self.are_taken
    }

    fn change<T>(&mut self, node: NodeId, change: impl FnOnce(&mut NodeEvents) -> T) -> T {
        let events = self.nodes.entry(node).or_default();
        let changed = change(events);
        let next = events.next();
        let waits = !events.finishing.is_empty() || matches!(next, NextEvent::Held);
        match next {
            NextEvent::Free if !core::mem::replace(&mut events.listed, true) => {
                self.free.push_back(node);
            }
            NextEvent::Free => {}
            NextEvent::Held | NextEvent::None => {
                if core::mem::take(&mut events.listed) {
                    self.free.retain(|listed| *listed != node);
                }
                if matches!(next, NextEvent::None) {
                    self.nodes.remove(&node);
                }
            }
        }
        match waits {
            true => self.held.insert(node),
            false => self.held.remove(&node),
        };
        changed
    }

    /// Adds an event. It reports `failed` messages as failed that no flush reported. Of the node's
    /// messages that it must not come before, the program has yet to take those before the position
    /// `after`.
    pub(super) fn push(&mut self, event: Event, failed: u64, after: Option<usize>) {
        self.change(event.node(), |events| {
            let all = event.failures();
            events.failed = events.failed.saturating_add(all);
            events.flushed = (events.flushed).saturating_add(all.saturating_sub(failed));
            events.push(event, after);
        });
    }

    /// Takes back the event that there is room for messages to `node`. Whether there was one.
    pub(super) fn take_back_room(&mut self, node: NodeId, class: u8) -> bool {
        let bit = class_bit(class);
        let waits = |events: &NodeEvents| events.room & bit != 0;
        let was_there = self.nodes.get(&node).is_some_and(waits);
        if was_there {
            self.change(node, |events| events.room &= !bit);
        }
        was_there
    }

    /// Takes back the announcement of a message that the program answered.
    pub(super) fn withdraw(&mut self, node: NodeId, channel: ChannelId, number: MessageNumber) {
        if self.nodes.contains_key(&node) {
            let which = Some((channel, number));
            self.change(node, |events| events.present.withdraw(which));
        }
    }

    /// The program may have taken messages. `is_taken` says whether it took all of those.
    pub(super) fn release(&mut self, is_taken: impl Fn(Before) -> bool) {
        for node in self.held.clone() {
            self.change(node, |events| events.release(node, &is_taken));
        }
    }

    /// Whether an event may be taken that was held until then.
    pub(super) fn is_released(&self, is_taken: impl Fn(Before) -> bool) -> bool {
        let held = self
            .held
            .iter()
            .filter_map(|node| self.nodes.get_key_value(node));
        let mut ends =
            held.filter_map(|(node, events)| Some((*node, events.ends.front()?.1.after?)));
        ends.any(|(node, end)| {
            let channel = None;
            is_taken(Before { node, channel, end })
        })
    }

    /// The earliest position of which a message may be the first behind a held event, as seen from
    /// the position `from`.
    pub(super) fn held_until(&self, from: usize) -> Option<usize> {
        let held = self.held.iter().filter_map(|node| self.nodes.get(node));
        let ends = held.filter_map(|events| events.ends.front());
        let ends = ends.filter_map(|(_, end)| end.after);
        ends.min_by_key(|end| end.wrapping_sub(from))
    }

    /// The next event that may be taken. Whether the thread is to hear that there is room.
    pub(super) fn pop(&mut self) -> (Option<Event>, bool) {
        let Some(node) = self.free.pop_front() else {
            return (None, false);
        };
        let event = self.change(node, |events| {
            events.listed = false;
            events.pop(node)
        });
        self.are_taken |= event.is_some();
        let refill = self.kept_back.contains(&node) && self.len_of(node) <= EVENTS / 2;
        if refill {
            self.kept_back.remove(&node);
            self.has_refill = true;
        }
        (event, refill)
    }

    /// The thread keeps events back of messages to `node`, and wants to hear when there is room.
    pub(super) fn keep_back(&mut self, node: NodeId) {
        self.kept_back.insert(node);
    }

    /// The failures that no flush reported, with their nodes: this one does.
    pub(super) fn flush_failures(&mut self) -> impl Iterator<Item = (NodeId, u64)> {
        let failures = self.nodes.iter_mut().map(|(node, events)| {
            let left = events.failed.saturating_sub(events.flushed);
            events.flushed = events.failed;
            (*node, left)
        });
        failures.filter(|(_, failed)| *failed > 0)
    }

    /// Drops the events of nodes that are not `known`, if more than `most` nodes have events.
    pub(super) fn forget(&mut self, most: usize, known: impl Fn(NodeId) -> bool) {
        if self.nodes.len() <= most {
            return;
        }
        self.nodes.retain(|node, _| known(*node));
        self.free.retain(|node| self.nodes.contains_key(node));
        self.held.retain(|node| self.nodes.contains_key(node));
    }
}

impl Shard {
    /// Lets events be taken whose messages the program took.
    pub(super) fn release_events(&self, events: &mut Events) {
        if !events.has_held() {
            return;
        }
        // A message that is taken after this wakes the caller, if it waits: see `holds_events`.
        fence(Ordering::SeqCst);
        match self.messages.emptied_open() {
            Some(taken) => events.release(|before| super::ring::has_reached(taken, before.end)),
            None => {
                let sorted = self.sort();
                events.release(|before| !sorted.holds(before));
            }
        }
        self.note_held(events);
    }

    /// Notes whether calls that take messages must wake those that wait for events.
    pub(super) fn note_held(&self, events: &Events) {
        self.holds_events
            .store(events.has_held(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
