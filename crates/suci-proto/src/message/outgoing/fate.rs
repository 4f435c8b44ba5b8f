//! What became of a channel's messages: acknowledged, owed again, answered, over.

use super::{Item, OutgoingChannel, Queue};
use crate::message::entry::{Entry, LargePhase, Long};
use crate::message::small::{FrameQueue, SmallState};
use crate::message::{Completion, Held, Outcome, index, len64};
use crate::types::{MessageNumber, ProtocolError};
use core::ops::Range;
use std::collections::VecDeque;

/// What acknowledgements released.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::message) struct Released {
    pub(in crate::message) messages: usize,
    pub(in crate::message) bytes: u64,
    /// What of these was copied, and is kept until all messages before are over too.
    pub(in crate::message) copied: u64,
    /// Void messages, which count nothing else.
    pub(in crate::message) voids: u64,
}

impl Released {
    /// Bytes that are kept no longer.
    pub(in crate::message) fn freed(self) -> u64 {
        self.bytes.saturating_sub(self.copied)
    }

    /// The messages, with what is kept of them.
    pub(in crate::message) fn kept(self) -> Held {
        Held::new(len64(self.messages), self.copied)
    }

    fn add(&mut self, bytes: u64, copied: u64, messages: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.copied = self.copied.saturating_add(copied);
        self.messages = self.messages.saturating_add(index(messages));
    }

    fn add_voids(&mut self, messages: u64) {
        self.voids = self.voids.saturating_add(messages);
    }
}

impl OutgoingChannel {
    /// Changes the entry of message `number`, which is the first in it, and keeps the books of what
    /// is owed.
    pub(super) fn change(&mut self, number: MessageNumber, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entry_mut(number) else {
            return;
        };
        let before = entry.owes();
        change(entry);
        let after = entry.owes();
        let listed = entry.listed();
        let list = after && !*listed;
        *listed |= list;
        if list {
            self.resend.push_back(number);
        }
        match (before, after) {
            (false, true) => self.owed = self.owed.saturating_add(1),
            (true, false) => self.owed = self.owed.saturating_sub(1),
            _ => {}
        }
        while self.owed == 0 && !self.resend.is_empty() {
            self.unlist_front();
        }
    }

    /// The peer has `count` messages from `first` on, all of each.
    pub(in crate::message) fn whole_acked(&mut self, first: MessageNumber, count: u32) -> Released {
        let mut released = Released::default();
        let end = first.saturating_add(count.into());
        // Small ones that were not lost meanwhile concern nobody else's books.
        let mut others = false;
        for item in self.queue.sent_mut(first, end) {
            debug_assert!(item.first >= first && item.end() <= end, "all of a run");
            match &mut item.entry {
                Entry::Small(small) if small.fate == SmallState::Open => {
                    small.fate = SmallState::Acked;
                    match small.is_void() {
                        true => released.add_voids(small.count().into()),
                        false => released.add(small.held(), small.held(), small.count().into()),
                    }
                }
                other => others |= !other.is_done(),
            }
        }
        if others {
            self.each_in(first, end, |channel, number| {
                channel.one_acked(number, &mut released);
            });
        }
        released
    }

    fn one_acked(&mut self, number: MessageNumber, released: &mut Released) {
        if self.entry(number).is_some_and(|entry| !entry.is_done()) {
            self.change(number, |entry| {
                let (count, bytes) = (entry.count(), entry.acked());
                match entry.is_void() {
                    true => released.add_voids(count),
                    false => released.add(bytes, entry.copied(), count),
                }
            });
        }
    }

    /// Does something for each entry of which messages stand in `first..end`, by the number of its
    /// first. What a packet carried are whole entries: runs are divided where a packet is full, and
    /// never joined again.
    fn each_in(
        &mut self,
        first: MessageNumber,
        end: MessageNumber,
        mut act: impl FnMut(&mut Self, MessageNumber),
    ) {
        let mut number = first.max(self.base());
        while number < end
            && let Some(item) = self.queue.get(number)
        {
            let (first, next) = (item.first, item.end());
            debug_assert_eq!(first, number, "an entry begins where what was sent does");
            act(self, first);
            number = next;
        }
    }

    /// `range` of message `number`, or of the chain that it began, was acknowledged.
    pub(in crate::message) fn part_acked(
        &mut self,
        number: MessageNumber,
        range: Range<u64>,
    ) -> Released {
        let mut released = Released::default();
        if let Some(at) = self.chain_at(number) {
            self.change_chain(at, |chain| {
                let more = chain.acked(range);
                released.add(more.saturating_mul(chain.total()), 0, more);
            });
            return released;
        }
        self.change(number, |entry| {
            let Entry::Long(long) = entry else { return };
            if long.part_acked(range) {
                released.add(entry.acked(), entry.copied(), 1);
            }
        });
        released
    }

    fn change_long(&mut self, number: MessageNumber, change: impl FnOnce(&mut Long)) {
        self.change(number, |entry| {
            if let Entry::Long(long) = entry {
                change(long);
            }
        });
    }

    /// The RTS of `number` was acknowledged; it waits for its answer.
    pub(in crate::message) fn rts_acked(&mut self, number: MessageNumber) {
        self.change_long(number, |long| {
            if let LargePhase::Asked { lost } = &mut long.phase {
                *lost = false;
            }
        });
    }

    /// Whatever was sent and is not known to have arrived is owed again.
    pub(in crate::message) fn all_lost(&mut self) {
        let sent = self.queue.cursor();
        self.each_in(self.base(), self.queue.end(), |channel, number| {
            channel.change(number, |entry| match entry {
                Entry::Small(_) if number < sent => entry.whole_lost(),
                Entry::Small(_) => {}
                Entry::Chain(chain) => chain.all_lost(),
                Entry::Long(long) => long.all_lost(),
            });
        });
    }

    /// `count` messages from `first` on were lost, all of each.
    pub(in crate::message) fn whole_lost(&mut self, first: MessageNumber, count: u32) {
        let end = first.saturating_add(count.into());
        self.each_in(first, end, |channel, number| {
            channel.change(number, Entry::whole_lost);
        });
    }

    pub(in crate::message) fn part_lost(&mut self, number: MessageNumber, range: Range<u64>) {
        match self.chain_at(number) {
            Some(at) => self.change_chain(at, |chain| chain.lost(range)),
            None => self.change_long(number, |long| long.part_lost(range)),
        }
    }

    pub(in crate::message) fn rts_lost(&mut self, number: MessageNumber) {
        self.change_long(number, |long| {
            if let LargePhase::Asked { lost } = &mut long.phase {
                *lost = true;
            }
        });
    }

    /// Whether an answer to message `number` has something to change. A repeated one has not.
    fn answers(&self, number: MessageNumber) -> Result<bool, ProtocolError> {
        if self.asked == Some(number) {
            return Ok(true);
        }
        // Below `base` nothing is remembered: taken for a repetition.
        if number < self.base() || self.long(number).is_some_and(|long| long.asked) {
            return Ok(false);
        }
        Err(ProtocolError::OutOfPlace(
            "an answer to a message that did not ask",
        ))
    }

    /// The receiver permits message `number`. True if that is news.
    pub(in crate::message) fn granted(
        &mut self,
        number: MessageNumber,
    ) -> Result<bool, ProtocolError> {
        if !self.answers(number)? {
            return Ok(false);
        }
        self.asked = None;
        self.change_long(number, |long| long.phase = LargePhase::Granted);
        Ok(true)
    }

    /// The receiver refuses message `number`.
    pub(in crate::message) fn refused(
        &mut self,
        number: MessageNumber,
        reason: u64,
    ) -> Result<Released, ProtocolError> {
        let mut released = Released::default();
        if self.answers(number)? {
            self.asked = None;
            self.change_long(number, |long| {
                let copied = long.copied();
                released.add(long.finish(LargePhase::Refused(reason)), copied, 1);
            });
            self.move_cursor();
        }
        Ok(released)
    }

    /// Takes the first messages off the queue for which nothing more is to be done, and says what
    /// became of those that asked for it or were refused. Returns what was kept of them and is not
    /// any more.
    pub(in crate::message) fn pop_done(&mut self, out: &mut VecDeque<Completion>) -> Released {
        let mut popped = Released::default();
        let mut frames = None;
        while let Some(item) = self.queue.pop_front_if(Entry::is_done) {
            if let Some(small) = item.entry.small() {
                // Of void messages that had no frames this is 0.
                frames = frames.max(Some(small.span(small.count()).1));
            }
            if item.entry.is_void() {
                popped.add_voids(item.entry.count());
                continue;
            }
            popped.add(0, item.entry.copied(), item.entry.count());
            let (_, notify) = item.entry.token();
            if notify || item.entry.is_refused() {
                out.extend(self.completions(&item));
            }
        }
        if let Some(end) = frames {
            self.frames.release(end);
        }
        // A chain's first messages may be over while others of it are not.
        let channel = self.id;
        if let Some((numbers, chain)) = self.queue.leave() {
            popped.add(0, 0, numbers.end.saturating_sub(numbers.start));
            let (token, notify) = (chain.token, chain.notify);
            let completion = |number| Completion {
                channel,
                number,
                token,
                notify,
                outcome: Outcome::Delivered,
                reason: None,
            };
            out.extend(numbers.filter(|_| notify).map(completion));
        }
        popped
    }

    /// What became of the messages of an entry.
    fn completions(&self, item: &Item) -> impl Iterator<Item = Completion> {
        let Item { first, entry } = item;
        let (outcome, reason) = match entry {
            Entry::Long(long) if let LargePhase::Refused(reason) = long.phase => {
                (Outcome::NotDelivered, Some(reason))
            }
            _ if entry.is_done() => (Outcome::Delivered, None),
            _ if *first < self.queue.cursor() => (unacknowledged(), None),
            _ => (Outcome::NotDelivered, None),
        };
        let (token, notify) = entry.token();
        let channel = self.id;
        (*first..item.end()).map(move |number| Completion {
            channel,
            number,
            token,
            notify,
            outcome: match entry {
                Entry::Chain(chain) if chain.has_arrived(number) => Outcome::Delivered,
                Entry::Chain(chain) if number < chain.unfinished() => unacknowledged(),
                Entry::Chain(_) => Outcome::NotDelivered,
                _ => outcome,
            },
            reason,
        })
    }

    /// The session is over: the outcome of everything left, in order.
    pub(in crate::message) fn end_all(&mut self, out: &mut Vec<Completion>) {
        for item in self.queue.iter().filter(|item| !item.entry.is_void()) {
            out.extend(self.completions(item));
        }
        let end = self.queue.end();
        self.queue = Queue::at(end);
        self.frames = FrameQueue::default();
        self.resend.clear();
        self.charged = end;
        self.asked = None;
        self.owed = 0;
    }
}

/// The outcome of a message that was sent and not fully acknowledged.
fn unacknowledged() -> Outcome {
    #[cfg(suci_plant)]
    if crate::plant::active("delivered-unacknowledged") {
        return Outcome::Delivered;
    }
    Outcome::Unknown
}
