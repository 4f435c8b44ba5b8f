//! The messages of a channel, in the order of their numbers: those sent and not acknowledged, and
//! those that wait.
//!
//! They stand apart because small ones stand in runs, as they were accepted, and leave in others,
//! as packets have room: a run is divided where the two meet, which costs nothing at the ends of
//! two queues.

use super::super::Outgoing;
use super::super::chain::Chain;
use super::super::entry::{Entry, LargePhase, Long};
use super::super::small::Small;
use super::{Cancelled, OWN, Spares};
use crate::types::MessageNumber;
use core::ops::Range;
use std::collections::VecDeque;

/// A message or a run of them.
#[derive(Debug)]
pub(super) struct Item {
    /// The number of the first.
    pub(super) first: MessageNumber,
    pub(super) entry: Entry,
}

impl Item {
    /// The number behind it.
    pub(super) fn end(&self) -> MessageNumber {
        self.first.saturating_add(self.entry.count())
    }
}

/// All messages whose numbers have not left the channel's front.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Every byte of them was sent once.
    sent: VecDeque<Item>,
    /// The first of them may have been sent in part.
    waiting: VecDeque<Item>,
    /// Void entries that were made since [`join_voids`](Self::join_voids) last joined all.
    loose: usize,
    base: MessageNumber,
    cursor: MessageNumber,
    end: MessageNumber,
}

impl Queue {
    /// An empty one, whose next message has this number.
    pub(super) fn at(number: MessageNumber) -> Self {
        Self {
            base: number,
            cursor: number,
            end: number,
            ..Self::default()
        }
    }

    /// The number of the first message.
    pub(super) fn base(&self) -> MessageNumber {
        self.base
    }

    /// The first message of which some byte was never sent; if a chain was sent in part, the first
    /// that is left of it.
    pub(super) fn cursor(&self) -> MessageNumber {
        self.cursor
    }

    /// The number that the next message will have.
    pub(super) fn end(&self) -> MessageNumber {
        self.end
    }

    pub(super) fn is_empty(&self) -> bool {
        self.base == self.end
    }

    /// Takes memory that another left, if it has none.
    #[inline]
    pub(super) fn borrow(&mut self, spares: &mut Spares) {
        if self.is_empty() {
            spares.sent.lend(&mut self.sent);
            spares.waiting.lend(&mut self.waiting);
        }
    }

    /// Gives its memory back, if it is more than a channel keeps.
    #[inline]
    pub(super) fn give_back(&mut self, spares: &mut Spares) {
        spares.sent.collect(&mut self.sent, OWN);
        spares.waiting.collect(&mut self.waiting, OWN);
    }

    /// Everything, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Item> {
        self.sent.iter().chain(&self.waiting)
    }

    /// The first message that waits.
    #[inline]
    pub(super) fn next(&self) -> Option<&Entry> {
        self.waiting.front().map(|item| &item.entry)
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn next_mut(&mut self) -> Option<&mut Entry> {
        self.waiting.front_mut().map(|item| &mut item.entry)
    }

    /// What waits behind it.
    pub(super) fn after_next(&self) -> Option<&Item> {
        self.waiting.get(1)
    }

    /// Where message `number` stands in `list`.
    #[inline]
    fn place(list: &VecDeque<Item>, number: MessageNumber) -> Option<usize> {
        // Most questions are about the first, or what was sent last.
        let (front, back) = (list.front()?, list.back()?);
        if number < front.end() {
            return (number >= front.first).then_some(0);
        }
        if number >= back.first {
            return (number < back.end()).then(|| list.len().saturating_sub(1));
        }
        let place = list.partition_point(|item| item.end() <= number);
        (place < list.len()).then_some(place)
    }

    fn list(&mut self, number: MessageNumber) -> &mut VecDeque<Item> {
        if number < self.cursor {
            &mut self.sent
        } else {
            &mut self.waiting
        }
    }

    /// The entry that message `number` stands in.
    pub(super) fn get(&self, number: MessageNumber) -> Option<&Item> {
        let list = if number < self.cursor {
            &self.sent
        } else {
            &self.waiting
        };
        list.get(Self::place(list, number)?)
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, number: MessageNumber) -> Option<&mut Item> {
        let list = self.list(number);
        list.get_mut(Self::place(list, number)?)
    }

    /// Those of `first..end` that were sent.
    pub(super) fn sent_mut(
        &mut self,
        first: MessageNumber,
        end: MessageNumber,
    ) -> impl Iterator<Item = &mut Item> {
        let from = Self::place(&self.sent, first.max(self.base));
        let sent = self.sent.range_mut(from.unwrap_or(self.sent.len())..);
        sent.take_while(move |item| item.first < end)
    }

    /// Appends a message. Returns its number.
    pub(super) fn push(&mut self, entry: Entry) -> MessageNumber {
        let first = self.end;
        self.end = first.saturating_add(1);
        self.waiting.push_back(Item { first, entry });
        first
    }

    /// Appends a message that is no small one: to the chain that stands last, or makes one of it
    /// and the last message, if they are alike and wait.
    pub(super) fn push_long(&mut self, message: Outgoing) -> MessageNumber {
        let number = self.end;
        if let Some(Item { first, entry }) = self.waiting.back_mut() {
            match entry {
                Entry::Chain(chain) if chain.takes(&message) => {
                    chain.push(message);
                    self.end = number.saturating_add(1);
                    return number;
                }
                Entry::Long(long) if let Some(chain) = Chain::of(*first, long, &message) => {
                    *entry = Entry::Chain(Box::new(chain));
                    self.end = number.saturating_add(1);
                    return number;
                }
                _ => {}
            }
        }
        self.push(Entry::Long(Box::new(Long::new(message))))
    }

    /// Makes messages of their own of those of the chain in which message `number` waits, if it is
    /// a chain, of which nothing was sent.
    pub(super) fn dissolve(&mut self, number: MessageNumber) {
        let Some(place) = Self::place(&self.waiting, number) else {
            return;
        };
        let Some(Item {
            entry: Entry::Chain(chain),
            ..
        }) = self.waiting.get_mut(place)
        else {
            return;
        };
        let mut single = chain.end();
        if chain.untouched() == single {
            return;
        }
        let singles = chain.cut_off();
        let is_left = chain.count() > 0;
        // Few stand before it.
        let before: Vec<_> = self.waiting.drain(..place).collect();
        let chain = self.waiting.pop_front().filter(|_| is_left);
        for long in singles.rev() {
            single = single.saturating_sub(1);
            self.waiting.push_front(Item {
                first: single,
                entry: Entry::Long(Box::new(long)),
            });
        }
        for item in before.into_iter().chain(chain).rev() {
            self.waiting.push_front(item);
        }
    }

    /// How many entries wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Where message `number` stands among the entries that wait.
    pub(super) fn waiting_place(&self, number: MessageNumber) -> Option<usize> {
        Self::place(&self.waiting, number)
    }

    /// The token of the messages of the entry at `place` of those that wait.
    pub(super) fn token_at(&self, place: usize) -> Option<u64> {
        let item = self.waiting.get(place)?;
        Some(item.entry.token().0)
    }

    /// All small messages whose frames are kept.
    pub(super) fn smalls_mut(&mut self) -> impl Iterator<Item = &mut Small> {
        let items = self.sent.iter_mut().chain(&mut self.waiting);
        items.filter_map(|item| item.entry.small_mut())
    }

    /// Makes the messages of the entry at `place` of those that wait void, as far as nothing of
    /// them was sent. Also returns the small ones that they were. None if there is nothing to
    /// cancel.
    pub(super) fn make_void(&mut self, place: usize) -> Option<(Cancelled, Option<Small>)> {
        let item = self.waiting.get_mut(place)?;
        let (end, before) = (item.end(), item.entry.held());
        let (token, notify) = item.entry.token();
        let (first, deadline) = match &mut item.entry {
            Entry::Small(small) if small.is_void() => return None,
            Entry::Small(_) => (item.first, None),
            Entry::Chain(chain) => {
                let first = chain.untouched();
                drop(chain.cut_off());
                (first, None)
            }
            Entry::Long(long) if matches!(long.phase, LargePhase::Queued) => {
                (item.first, long.deadline)
            }
            Entry::Long(_) => return None,
        };
        let count = u32::try_from(end.saturating_sub(first)).ok()?;
        if count == 0 {
            return None;
        }
        let small = item.entry.small().cloned();
        let at = small
            .as_ref()
            .map_or(0, |small| small.span(small.count()).1);
        let void = Entry::Small(Small::void(count, at));
        let mut held = before;
        if first > item.first {
            // The messages of the chain that were begun stay.
            held = held.minus(item.entry.held());
            let item = Item { first, entry: void };
            self.waiting.insert(place.saturating_add(1), item);
        } else {
            item.entry = void;
        }
        self.loose = self.loose.saturating_add(1);
        let cancelled = Cancelled {
            numbers: first..end,
            held,
            token,
            notify,
            deadline,
        };
        Some((cancelled, small))
    }

    /// Makes one entry of void messages in a row, once half of the entries may be such: joining
    /// each when it is made would move all behind it, each time.
    pub(super) fn join_voids(&mut self) {
        if self.loose.saturating_mul(2) <= self.waiting.len() {
            return;
        }
        self.loose = 0;
        let mut joined: VecDeque<Item> = VecDeque::new();
        for item in core::mem::take(&mut self.waiting) {
            if let Some(Item {
                entry: Entry::Small(before),
                ..
            }) = joined.back_mut()
                && let Entry::Small(next) = &item.entry
                && before.join_void(next)
            {
                continue;
            }
            joined.push_back(item);
        }
        self.waiting = joined;
    }

    /// Takes those of the front's messages away that are over while others behind them are not: the
    /// number of the first, how many, and what they are.
    pub(super) fn leave(&mut self) -> Option<(Range<MessageNumber>, &Chain)> {
        let front = self.sent.front_mut().or(self.waiting.front_mut())?;
        let Entry::Chain(chain) = &mut front.entry else {
            return None;
        };
        let over = chain.leave();
        let first = front.first;
        front.first = first.saturating_add(over);
        self.base = front.first;
        self.cursor = self.cursor.max(self.base);
        (over > 0).then_some((first..front.first, chain))
    }

    /// The run that the last message stands in, if it is a small one that waits.
    pub(super) fn last_small(&mut self) -> Option<&mut Small> {
        match &mut self.waiting.back_mut()?.entry {
            Entry::Small(last) => Some(last),
            Entry::Chain(_) | Entry::Long(_) => None,
        }
    }

    /// Counts so many messages more to that run, of which it has fewer than [`u32::MAX`].
    pub(super) fn extend_by(&mut self, count: u32) {
        let extended = self.last_small().is_some_and(|last| last.extend_by(count));
        debug_assert!(extended || count == 0, "nothing came behind what was lent");
        if extended {
            self.end = self.end.saturating_add(count.into());
        }
    }

    /// Counts a message more to the run that stands last, if it `follows`, as the one with the
    /// number given. Returns that.
    #[inline(always)]
    pub(super) fn extend_if(
        &mut self,
        follows: impl FnOnce(MessageNumber) -> bool,
    ) -> Option<MessageNumber> {
        let number = self.end;
        let extended = self.last_small()?.extend_if(|| follows(number));
        self.end = number.saturating_add(extended.into());
        extended.then_some(number)
    }

    /// Appends a small message: to the run that stands last, if it is like those.
    pub(super) fn push_small(&mut self, small: Small) -> MessageNumber {
        if self.last_small().is_some_and(|last| last.join(&small)) {
            let number = self.end;
            self.end = number.saturating_add(1);
            return number;
        }
        self.push(Entry::Small(small))
    }

    /// The first `count` messages of the entry that waits first have been sent.
    pub(super) fn advance(&mut self, count: u32) {
        let Some(item) = self.waiting.front_mut() else {
            return;
        };
        if let Entry::Small(run) = &mut item.entry
            && let Some(sent) = run.take_front(count)
        {
            let first = item.first;
            item.first = first.saturating_add(count.into());
            self.cursor = item.first;
            let entry = Entry::Small(sent);
            self.sent.push_back(Item { first, entry });
        } else if let Some(sent) = self.waiting.pop_front() {
            self.cursor = sent.end();
            self.sent.push_back(sent);
        }
    }

    /// Divides the run in which message `number` stands behind its first `count` messages. Returns
    /// the number of the first that is apart now; none if there is nothing behind them.
    pub(super) fn divide(&mut self, number: MessageNumber, count: u32) -> Option<MessageNumber> {
        let list = self.list(number);
        let place = Self::place(list, number)?;
        let item = list.get_mut(place)?;
        let Entry::Small(run) = &mut item.entry else {
            return None;
        };
        let rest = run.split(count)?;
        let first = item.end();
        let entry = Entry::Small(rest);
        list.insert(place.saturating_add(1), Item { first, entry });
        Some(first)
    }

    /// Takes the first entry away if it was sent and `is_over`.
    pub(super) fn pop_front_if(&mut self, is_over: impl FnOnce(&Entry) -> bool) -> Option<Item> {
        let front = self.sent.front()?;
        if !is_over(&front.entry) {
            return None;
        }
        self.base = front.end();
        self.sent.pop_front()
    }
}

#[cfg(test)]
impl Queue {
    pub(super) fn footprint(&self) -> usize {
        (self.sent.capacity() + self.waiting.capacity()) * size_of::<Item>()
    }
}
