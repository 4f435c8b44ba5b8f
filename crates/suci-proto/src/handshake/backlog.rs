//! HELLOs for which there was no room when they came. They are answered in their order as soon as
//! there is room, so that a caller need not repeat its HELLO at the right moment.
//!
//! Anybody may call under any name, so their number is bounded, and one that is not repeated is
//! forgotten.

use super::{Claim, LONGEST_WAIT};
use crate::time::{Duration, Instant};
use crate::types::NodeId;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A HELLO that was not repeated for so long is forgotten. A caller repeats it within
/// [`LONGEST_WAIT`]; a forger of addresses may not.
const PATIENCE: Duration = Duration::from_millis(1_100);

const _: () = assert!(PATIENCE.as_millis() > LONGEST_WAIT.as_millis());

/// Most HELLOs that wait: about 200 KiB.
const MOST: usize = 1_024;

/// HELLOs that wait, each caller's newest.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// By turn, each with the time of its last repetition.
    waiting: BTreeMap<u64, (Claim, Instant)>,
    /// The turn of each caller, and since when it waits.
    turns: BTreeMap<(NodeId, SocketAddr), (u64, Instant)>,
    next: u64,
}

impl Backlog {
    /// A HELLO found no room. It keeps its turn when it is repeated. A new one waits at the end,
    /// unless too many wait. Returns whether its caller waits for so long that it should hear that
    /// we live.
    pub(crate) fn enter(&mut self, now: Instant, claim: &Claim) -> bool {
        let caller = (claim.node, claim.from);
        let (turn, since) = match self.turns.get(&caller) {
            Some(waiting) => *waiting,
            None if self.turns.len() < MOST => {
                let turn = self.next;
                self.next = turn.saturating_add(1);
                self.turns.insert(caller, (turn, now));
                (turn, now)
            }
            None => return true,
        };
        self.waiting.insert(turn, (*claim, now));
        now >= since + LONGEST_WAIT
    }

    /// The first that waits.
    pub(crate) fn first(&mut self, now: Instant) -> Option<Claim> {
        while let Some((_, (claim, asked))) = self.waiting.first_key_value() {
            let claim = *claim;
            if now < *asked + PATIENCE {
                return Some(claim);
            }
            self.leave(&claim);
        }
        None
    }

    /// The caller waits no more.
    pub(crate) fn leave(&mut self, claim: &Claim) {
        if let Some((turn, _)) = self.turns.remove(&(claim.node, claim.from)) {
            self.waiting.remove(&turn);
        }
    }

    /// How many wait, or did a short while ago.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Incarnation;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn claim(node: u32, token: u64) -> Claim {
        Claim {
            from: SocketAddr::from(([10, 0, 0, 1], 7_000)),
            node: NodeId(node),
            incarnation: Incarnation(1),
            token,
        }
    }

    #[test]
    fn callers_are_answered_in_the_order_in_which_they_came() {
        let mut backlog = Backlog::default();
        assert!(backlog.is_empty() && backlog.first(at(0)).is_none());
        for node in 1..=3 {
            assert!(!backlog.enter(at(0), &claim(node, 1)));
        }
        // Repeated, perhaps by another attempt, it keeps its turn.
        assert!(!backlog.enter(at(999), &claim(1, 2)));
        assert!(backlog.enter(at(1_000), &claim(1, 2)), "that is long");
        assert_eq!(backlog.len(), 3);
        let first = backlog.first(at(1_000)).unwrap();
        assert_eq!((first.node, first.token), (NodeId(1), 2));
        backlog.leave(&first);
        // The others did not come again.
        assert_eq!(backlog.first(at(1_099)).unwrap().node, NodeId(2));
        assert!(backlog.first(at(1_100)).is_none() && backlog.is_empty());
    }

    #[test]
    fn f02_their_number_is_bounded() {
        let mut backlog = Backlog::default();
        for node in 0..5_000 {
            assert_eq!(backlog.enter(at(0), &claim(node, 1)), node >= MOST as u32);
        }
        assert_eq!(backlog.len(), MOST);
        assert_eq!(backlog.first(at(0)).unwrap().node, NodeId(0));
    }
}
