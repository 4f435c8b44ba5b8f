//! Messages on their way to the program, once a call receives from one peer or channel: all
//! received messages, by their positions.
//!
//! A program that takes messages in order takes them out of a lock-free ring. The first call that
//! wants messages of one peer or channel closes that ring for such calls: from then on every call
//! takes its messages from here, under a lock. So does the thread when it ends, for the messages
//! that the ring has no room for.

use super::events::Before;
use super::ring::has_reached;
use super::shard::{Shard, length, lock};
use crate::message::Message;
use std::collections::BTreeMap;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::task::Poll;
use suci_proto::Filter;

/// Messages by their positions in the order in which the thread handed them over.
#[derive(Default)]
pub(super) struct Sorted {
    messages: BTreeMap<usize, Message>,
    /// The position after the last one.
    end: usize,
}

impl Sorted {
    fn before(&self, before: Before) -> impl Iterator<Item = usize> {
        let messages = self.messages.iter();
        let concerned = messages.filter(move |(_, message)| {
            message.from == before.node && before.channel.is_none_or(|only| message.channel == only)
        });
        let positions = concerned.map(|(position, _)| *position);
        positions.filter(move |position| !has_reached(*position, before.end))
    }

    /// Whether one of these messages was not taken.
    pub(super) fn holds(&self, before: Before) -> bool {
        self.before(before).next().is_some()
    }

    /// The position after the last of these messages that were not taken.
    pub(super) fn end_of(&self, before: Before) -> Option<usize> {
        let last = self.before(before).last()?;
        Some(last.wrapping_add(1))
    }
}

impl Shard {
    /// All that lies ready, in order.
    pub(super) fn sort(&self) -> MutexGuard<'_, Sorted> {
        self.messages.close();
        let mut sorted = lock(&self.sorted);
        while let Some((position, message)) = self.messages.pop_closed() {
            sorted.messages.insert(position, message);
        }
        let left = self.left.load(Ordering::Relaxed);
        sorted.end = self.messages.emptied().wrapping_add(left);
        self.note_sorted(&sorted);
        sorted
    }

    fn note_sorted(&self, sorted: &Sorted) {
        let len = sorted.messages.len();
        self.sorted_len.store(len, Ordering::Release);
    }

    /// The thread leaves the messages that had no room; no others follow.
    pub(super) fn leave(&self, messages: Vec<Message>) {
        let mut sorted = self.sort();
        self.left.store(messages.len(), Ordering::Relaxed);
        let first = sorted.end;
        for (position, message) in (first..).zip(messages) {
            let bytes = length(&message);
            self.message_bytes.fetch_add(bytes, Ordering::AcqRel);
            sorted.messages.insert(position, message);
        }
        self.note_sorted(&sorted);
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
        let position = *messages.find(|(_, message)| wanted(message))?.0;
        let message = sorted.messages.remove(&position)?;
        self.note_sorted(&sorted);
        drop(sorted);
        self.took(length(&message));
        Some(message)
    }

    /// The next message that `wanted` admits; ready with none when there will be none.
    pub(super) fn take_from(&self, wanted: Filter) -> Poll<Option<Message>> {
        self.take_sorted(|message| wanted.admits(message.from, message.channel))
    }
}
