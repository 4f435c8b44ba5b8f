//! Events of one session that wait for the program.

use crate::event::Event;
use std::collections::VecDeque;
use suci_link::types::{ChannelId, MessageNumber};

/// Events of one session with one peer that the program did not take, in order. An event that a
/// later one makes obsolete is dropped, so that the peer cannot make them many (F04): they are as
/// few as the table in `peer/event_queue.rs` says.
#[derive(Debug, Default)]
pub struct SessionEvents {
    queue: VecDeque<Event>,
}

impl SessionEvents {
    /// Takes the next event.
    pub fn pop(&mut self) -> Option<Event> {
        self.queue.pop_front()
    }

    /// Returns true if none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the events in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.queue.iter()
    }

    /// Adds an event, and removes events that it makes obsolete.
    pub fn push(&mut self, event: Event) {
        match event {
            // Of Up, Lost, Up, the program needs only the first.
            Event::Up { .. } | Event::Quiet { .. } | Event::Lost { .. } => {
                let mut waits = false;
                self.queue.retain_mut(|earlier| {
                    let undone = waits && is_about_link(earlier);
                    if core::mem::discriminant(earlier) == core::mem::discriminant(&event) {
                        // The newest of two causes of a loss is reported.
                        earlier.clone_from(&event);
                        waits = true;
                    }
                    !undone
                });
                if waits {
                    return;
                }
            }
            // A suspension and its resumption cancel each other, since the program knows the
            // resulting state.
            Event::Suspended { node, by } if self.remove(&Event::Resumed { node, by }) => return,
            Event::Resumed { node, by } if self.remove(&Event::Suspended { node, by }) => return,
            Event::MemberJoined { .. } => self.drop_last_member(),
            Event::MemberLeft { .. } => self.drop_last_end(),
            Event::Refused { reason, .. } => self.queue.retain(|earlier| {
                !matches!(earlier, Event::Refused { reason: before, .. }
                    if before.denied_layer() == reason.denied_layer())
            }),
            // Each side suspends once before it resumes; of the others there is one for each
            // message of the program, channel or member, or they are kept elsewhere.
            Event::Suspended { .. }
            | Event::Resumed { .. }
            | Event::Ended { .. }
            | Event::Delivered { .. }
            | Event::NotDelivered { .. }
            | Event::Writable { .. }
            | Event::Incoming { .. }
            | Event::ChannelFinished { .. }
            | Event::MemberFailed { .. } => {}
        }
        self.queue.push_back(event);
    }

    /// Removes the events about the last member that joined, if it is gone since: another one
    /// joins, and the program hears only of that.
    fn drop_last_member(&mut self) {
        let joined = |event: &Event| matches!(event, Event::MemberJoined { .. });
        let gone = |event: &Event| is_about_member(event) && !joined(event);
        if let Some(at) = self.queue.iter().rposition(joined)
            && let Some(end) = self.queue.iter().rposition(gone)
            && at < end
        {
            self.queue.remove(end);
            self.queue.remove(at);
        }
    }

    /// Removes the end of a member that turns out to have left.
    fn drop_last_end(&mut self) {
        if let Some(at) = self.queue.iter().rposition(is_about_member)
            && !matches!(self.queue.get(at), Some(Event::MemberJoined { .. }))
        {
            self.queue.remove(at);
        }
    }

    fn remove(&mut self, which: &Event) -> bool {
        let index = self.queue.iter().position(|event| event == which);
        index.and_then(|index| self.queue.remove(index)).is_some()
    }

    /// Merges the events of a later session that ended before this one's end was taken. Only events
    /// about messages and members are kept, since the state of the link at that time no longer
    /// matters.
    pub fn append(&mut self, next: Self) {
        let kept = |e: &Event| {
            let about_message = matches!(e, Event::Delivered { .. } | Event::NotDelivered { .. });
            about_message || is_about_member(e)
        };
        next.queue
            .into_iter()
            .filter(kept)
            .for_each(|event| self.push(event));
    }

    /// Withdraws an announcement, or all of them.
    pub fn withdraw(&mut self, which: Option<(ChannelId, MessageNumber)>) {
        self.queue.retain(|event| match event {
            Event::Incoming {
                channel, number, ..
            } => which.is_some_and(|which| which != (*channel, *number)),
            _ => true,
        });
    }
}

/// Returns true if the event is about the state of the link to the peer.
fn is_about_link(event: &Event) -> bool {
    matches!(
        event,
        Event::Up { .. } | Event::Quiet { .. } | Event::Lost { .. }
    )
}

/// Returns true if the event is about the peer as a member of the cluster.
fn is_about_member(event: &Event) -> bool {
    matches!(
        event,
        Event::MemberJoined { .. } | Event::MemberLeft { .. } | Event::MemberFailed { .. }
    )
}
