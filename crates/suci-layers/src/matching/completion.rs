//! Completion receives, until the program takes them.

use super::ReceiveId;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use suci_proto::EndReason;
use suci_proto::types::{ChannelId, Kind, MessageNumber, NodeId, Source};

/// A message that a receive took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    /// The node and the session that it came from.
    pub from: Source,
    /// Its channel.
    pub channel: ChannelId,
    /// Its number there.
    pub number: MessageNumber,
    /// Its tag.
    pub tag: u64,
    /// The program's kind of message.
    pub kind: Kind,
    /// The program's header.
    pub user_header: Bytes,
    /// Where it begins in the buffer of the receive.
    pub offset: u64,
    /// The bytes that are in the buffer.
    pub length: u64,
    /// The bytes that the message had. If they are more than [`length`](Self::length), the rest did
    /// not fit and was discarded.
    pub total: u64,
}

impl Matched {
    /// Returns true if the buffer was too short for the message.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        self.length < self.total
    }
}

/// The session with a node ended. A receive that admits messages of that node alone then gets none,
/// and neither does one that a message of the session was on its way to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmatched {
    /// The node.
    pub node: NodeId,
    /// Why the session ended.
    pub reason: EndReason,
}

/// The end of a receive, or of its part for one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The receive.
    pub receive: ReceiveId,
    /// Its message.
    pub result: Result<Matched, Unmatched>,
    /// The buffer is the program's again. Only receives of several messages have completions
    /// without this.
    pub released: bool,
}

/// Completions in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Completions {
    done: BTreeMap<(ReceiveId, u64), Completion>,
    /// All of them in order, and some that were taken since.
    order: VecDeque<(ReceiveId, u64)>,
    next: u64,
}

impl Completions {
    pub(super) fn push(&mut self, completion: Completion) {
        let key = (completion.receive, self.next);
        self.next = self.next.wrapping_add(1);
        self.done.insert(key, completion);
        // The entries of those taken out of order must not become many.
        if self.order.len() >= 2 * self.done.len() + 64 {
            self.order.retain(|key| self.done.contains_key(key));
        }
        self.order.push_back(key);
    }

    /// Takes the oldest one.
    pub(super) fn pop(&mut self) -> Option<Completion> {
        while let Some(key) = self.order.pop_front() {
            let completion = self.done.remove(&key);
            if completion.is_some() {
                return completion;
            }
        }
        None
    }

    /// Takes the oldest one of a receive.
    pub(super) fn take(&mut self, receive: ReceiveId) -> Option<Completion> {
        let key = self.of(receive)?;
        self.done.remove(&key)
    }

    /// Returns true if a receive has one.
    pub(super) fn has(&self, receive: ReceiveId) -> bool {
        self.of(receive).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// Drops those of a receive.
    pub(super) fn drop_all(&mut self, receive: ReceiveId) {
        while self.take(receive).is_some() {}
    }

    fn of(&self, receive: ReceiveId) -> Option<(ReceiveId, u64)> {
        let mut all = self.done.range((receive, 0)..=(receive, u64::MAX));
        all.next().map(|(key, _)| *key)
    }
}
