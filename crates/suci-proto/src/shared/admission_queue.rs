//! The queue for slots in the socket's receive buffer, when there are more peers than slots.
//!
//! The first node in the queue gets the next slot. A node joins it when it asks and there is no
//! slot, by its HELLO or by our own attempt to open a connection to it. A node that stops asking
//! loses its ticket. All strangers together count as one node, since one attacker could pretend to
//! be many.

use crate::handshake::CALLER_TIMEOUT;
use std::collections::{BTreeMap, HashMap};
use suci_link::time::{Duration, Instant};

/// Shortest time between two searches for nodes that stopped asking.
const PAUSE: Duration = Duration::from_millis(100);

/// The key of a peer, or `None` for all strangers.
pub(crate) type Asker = Option<usize>;

/// The queue for slots.
#[derive(Debug, Default)]
pub(crate) struct AdmissionQueue {
    tickets: BTreeMap<u64, (Asker, Instant)>,
    by_asker: HashMap<Asker, u64>,
    next: u64,
    /// When nodes that stopped asking were last removed.
    forgot: Instant,
}

impl AdmissionQueue {
    /// Returns true if `who` may have one of `room` slots now. If not, it waits until it
    /// [leaves](Self::leave) or stops asking.
    pub(crate) fn ask(&mut self, now: Instant, who: Asker, room: u64) -> bool {
        self.forget(now);
        let ticket = self.by_asker.get(&who).copied().unwrap_or(self.next);
        let enough = usize::try_from(room).unwrap_or(usize::MAX);
        let before = self.tickets.range(..ticket).take(enough).count();
        if before < enough && ticket == self.next {
            return true;
        }
        if ticket == self.next {
            self.next = ticket.saturating_add(1);
            self.by_asker.insert(who, ticket);
        }
        self.tickets.insert(ticket, (who, now));
        before < enough
    }

    /// Lets `who` wait although a slot may be free: something else is missing.
    pub(crate) fn wait(&mut self, now: Instant, who: Asker) {
        let _ = self.ask(now, who, 0);
    }

    /// Returns the peers that may have one of `room` slots now.
    pub(crate) fn first(&self, room: u64) -> Vec<usize> {
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let first = self.tickets.values().take(room);
        first.filter_map(|(who, _)| *who).collect()
    }

    /// Removes a node that has its slot, or wants none any more.
    pub(crate) fn leave(&mut self, who: Asker) {
        if let Some(ticket) = self.by_asker.remove(&who) {
            self.tickets.remove(&ticket);
        }
    }

    /// Returns true if the queue is empty. Nodes that stopped asking may still be in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// Returns how many nodes wait.
    pub(crate) fn len(&mut self, now: Instant) -> usize {
        self.forget(now);
        self.tickets.len()
    }

    /// Removes nodes that stopped asking, so that they delay no other node and no peer gives up its
    /// slot for them. It searches the whole queue, so it does that at most every [`PAUSE`].
    fn forget(&mut self, now: Instant) {
        if now < self.forgot + PAUSE {
            return;
        }
        self.forgot = now;
        let Self {
            tickets, by_asker, ..
        } = self;
        tickets.retain(|_, (who, asked)| {
            let stays = now < *asked + CALLER_TIMEOUT;
            if !stays {
                by_asker.remove(who);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn slots_go_to_the_node_that_waited_longest() {
        let mut queue = AdmissionQueue::default();
        assert!(queue.ask(at(0), Some(9), 1), "nobody waits");
        assert_eq!(queue.len(at(0)), 0);
        for who in [Some(1), Some(2), None, Some(3)] {
            assert!(!queue.ask(at(0), who, 0));
        }
        assert_eq!(queue.len(at(0)), 4);
        assert!(!queue.ask(at(1), Some(2), 1), "another is first");
        assert!(!queue.ask(at(1), Some(4), 4), "four came before");
        assert!(queue.ask(at(1), Some(4), 5));
        assert!(queue.ask(at(1), Some(1), 1));
        assert!(queue.ask(at(1), Some(1), 1), "until it has it");
        queue.leave(Some(1));
        assert!(queue.ask(at(1), Some(2), 1));
        queue.leave(Some(2));
        assert!(queue.ask(at(1), None, 1), "strangers have a ticket, too");
        queue.leave(None);
        queue.leave(None);
        assert!(queue.ask(at(1), Some(3), 1));
    }

    #[test]
    fn a_node_that_stopped_asking_is_removed_behind_one_that_asks() {
        let mut queue = AdmissionQueue::default();
        for who in 1..=5 {
            assert!(!queue.ask(at(1), Some(who), 0));
        }
        assert!(!queue.ask(at(3), None, 5), "five came before");
        for second in 2..=5 {
            assert!(!queue.ask(at(second), Some(1), 0));
        }
        assert_eq!(queue.len(at(5)), 2, "the first and the last");
        assert!(queue.ask(at(5), None, 2));
    }

    #[test]
    fn a_node_that_stopped_asking_delays_no_other() {
        let mut queue = AdmissionQueue::default();
        assert!(!queue.ask(at(0), Some(1), 0));
        assert!(!queue.ask(at(1), Some(2), 0));
        assert!(!queue.ask(at(2), Some(2), 1));
        assert!(
            queue.ask(at(3), Some(2), 1),
            "the first did not ask for 3 s"
        );
        assert_eq!(queue.len(at(5)), 1);
        assert_eq!(queue.len(at(6)), 0);
        assert!(!queue.ask(at(6), Some(1), 0), "at the end again");
        assert_eq!(queue.len(at(6)), 1);
    }
}
