//! Messages on their way to the program, once a call receives from one peer or channel: all
//! received messages, by their places.
//!
//! A program that takes messages in order takes them out of a lock-free ring. The first call that
//! wants messages of one peer or channel closes that ring for such calls: from then on every call
//! takes its messages from here, under a lock.

use super::shard::{Shard, length, lock};
use crate::message::Message;
use std::collections::BTreeMap;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::task::Poll;
use suci_proto::Filter;

/// Messages by their places in the order in which the thread handed them over.
#[derive(Default)]
pub(super) struct Sorted {
    messages: BTreeMap<usize, Message>,
    /// Place of the first message that was left in the engine when the thread closed it, once those
    /// messages are here.
    rest: Option<usize>,
    /// The place after the last one.
    end: usize,
}

impl Sorted {
    /// The messages that were not taken, and their places.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, &Message)> {
        self.messages
            .iter()
            .map(|(place, message)| (*place, message))
    }

    /// The first place of a message that was not taken.
    pub(super) fn first(&self) -> usize {
        self.messages.keys().next().copied().unwrap_or(self.end)
    }
}

impl Shard {
    /// All that lies ready, in order.
    pub(super) fn sort(&self) -> MutexGuard<'_, Sorted> {
        self.messages.close();
        let mut sorted = lock(&self.sorted);
        // Read before looking: messages from before the rest are there by then.
        let rest = self.rest.get();
        while let Some((place, message)) = self.messages.pop_closed() {
            sorted.messages.insert(place, message);
        }
        sorted.end = self.messages.emptied();
        if let Some(rest) = rest {
            let mut rest = lock(rest);
            let end = sorted.end;
            let first = *sorted.rest.get_or_insert(end);
            for (place, message) in (first..).zip(rest.drain()) {
                sorted.messages.insert(place, message);
            }
            sorted.end = first.wrapping_add(rest.all());
        }
        let len = sorted.messages.len();
        self.sorted_len.store(len, Ordering::Release);
        sorted
    }

    /// The first message that is `wanted`; ready with none when there will be none.
    pub(super) fn take_sorted(&self, wanted: impl Fn(&Message) -> bool) -> Poll<Option<Message>> {
        let done = self.done.load(Ordering::Acquire);
        match self.take_out(self.sort(), wanted) {
            None if !done => Poll::Pending,
            message => Poll::Ready(message),
        }
    }

    /// Takes the first message out that is `wanted`.
    pub(super) fn take_out(
        &self,
        mut sorted: MutexGuard<'_, Sorted>,
        wanted: impl Fn(&Message) -> bool,
    ) -> Option<Message> {
        let mut messages = sorted.messages.iter();
        let place = *messages.find(|(_, message)| wanted(message))?.0;
        let message = sorted.messages.remove(&place)?;
        let len = sorted.messages.len();
        self.sorted_len.store(len, Ordering::Release);
        let left = sorted.rest.is_some_and(|rest| place >= rest);
        drop(sorted);
        // A message that was left in the engine no longer counts toward the bound of the ring.
        self.took(if left { 0 } else { length(&message) });
        Some(message)
    }

    /// The next message that `wanted` admits; ready with none when there will be none.
    pub(super) fn take_from(&self, wanted: Filter) -> Poll<Option<Message>> {
        self.take_sorted(|message| wanted.admits(message.from, message.channel))
    }
}
