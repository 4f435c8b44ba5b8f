//! Announced messages that keep receiving calls waiting, until the program is told of them.

use super::shard::lock;
use crate::error::Error;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use suci_proto::Event;
use suci_proto::types::{ChannelId, MessageNumber, NodeId, SessionNumber};

/// Announced messages of which neither an event nor a receiving call told the program. The engine
/// tells of each once, so there are no more than it may have announced.
pub(super) struct Unanswered {
    events: Mutex<VecDeque<(SessionNumber, Event)>>,
    /// Their number, read without the lock by every call that finds no message.
    count: AtomicUsize,
    /// The longest message that is taken without the program's consent, in bytes.
    max_unannounced: u64,
}

impl Unanswered {
    /// None so far.
    pub(super) const fn new(max_unannounced: u64) -> Self {
        Self {
            events: Mutex::new(VecDeque::new()),
            count: AtomicUsize::new(0),
            max_unannounced,
        }
    }

    /// Messages were announced that only the program can let come.
    pub(super) fn announce(&self, events: Vec<(SessionNumber, Event)>) {
        self.change(|all| all.extend(events));
    }

    /// The program takes this event: no receiving call has to tell it of the message that it
    /// announces.
    pub(super) fn forget(&self, event: &Event) {
        if let Event::Incoming { .. } = event {
            self.change(|all| all.retain(|(_, e)| e != event));
        }
    }

    /// This session with the node ended, and those before it: messages announced in them cannot be
    /// answered any more.
    pub(super) fn forget_until(&self, node: NodeId, ended: SessionNumber) {
        self.change(|all| all.retain(|(session, e)| e.node() != node || *session > ended));
    }

    /// The program answered this message.
    pub(super) fn answered(&self, from: NodeId, on: ChannelId, which: MessageNumber) {
        let is_other = |(_, event): &(SessionNumber, Event)| match *event {
            Event::Incoming {
                node,
                channel,
                number,
                ..
            } => (node, channel, number) != (from, on, which),
            _ => true,
        };
        self.change(|all| all.retain(is_other));
    }

    /// The error of a receiving call that would wait for an announced message, which only an answer
    /// of the program lets come. Each announcement is told once.
    pub(super) fn take(&self) -> Option<Error> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let (_, announced) = self.change(VecDeque::pop_front)?;
        Error::needs_answer(&announced, self.max_unannounced)
    }

    fn change<T>(&self, change: impl FnOnce(&mut VecDeque<(SessionNumber, Event)>) -> T) -> T {
        let mut all = lock(&self.events);
        let result = change(&mut all);
        self.count.store(all.len(), Ordering::Release);
        result
    }
}
