//! The events to come: a heap in the order of virtual time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use suci_proto::time::Instant;

/// Events by time; those of the same time come in the order in which they were pushed, so that a
/// run is the same every time.
#[derive(Debug)]
pub struct Queue<T> {
    heap: BinaryHeap<Entry<T>>,
    pushed: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Instant,
    order: u64,
    event: T,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            pushed: 0,
        }
    }
}

impl<T> Queue<T> {
    /// Adds an event.
    pub fn push(&mut self, at: Instant, event: T) {
        let order = self.pushed;
        self.pushed += 1;
        self.heap.push(Entry { at, order, event });
    }

    /// Returns the time of the next event.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Returns all that is still to come, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.heap.iter().map(|entry| &entry.event)
    }

    /// Takes the next event if it is due at `limit` or before.
    pub fn pop_until(&mut self, limit: Instant) -> Option<(Instant, T)> {
        if self.next_at()? > limit {
            return None;
        }
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    /// Reversed: the standard heap yields the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}
