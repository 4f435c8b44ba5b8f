//! HELLOs for which there was no room when they came. They are answered in their order as soon as
//! there is room, so that a caller need not repeat its HELLO at the right moment.
//!
//! Anyone can send HELLOs under any node ID, so their number is bounded, and one that is not
//! repeated is forgotten.

use super::sources::SourcePrefix;
use super::{CALLER_TIMEOUT, Claim};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use suci_link::planted;
use suci_link::time::{Duration, Instant};
use suci_link::types::NodeId;

/// A caller that waited for this time is told by REFUSED that we live. Silence timeouts are seldom
/// below a second, and HELLO is repeated 100, 300 and 700 ms after the first one.
const LONG: Duration = Duration::from_millis(250);

/// A caller that waited for this time is told that all slots are taken, if they are: turns are
/// shorter.
const VERY_LONG: Duration = Duration::from_secs(1);

/// Maximum number of HELLOs that wait: about 200 KiB.
const MOST: usize = 1_024;

/// Strangers of one source prefix that wait while more than half of [`MOST`] do, at most.
const MOST_OF_SOURCE: usize = MOST / 8;

/// A HELLO that waits.
#[derive(Debug)]
struct Waiting {
    /// The newest HELLO of the caller.
    claim: Claim,
    /// When the first one came.
    since: Instant,
    /// When the newest one came.
    repeated: Instant,
}

/// How a HELLO waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It is the first one of its caller. It gets no REFUSED, so that all answers together are no
    /// longer than the HELLOs.
    Begins,
    /// A repetition.
    GoesOn,
    /// A repetition of a HELLO that came [`LONG`] ago or earlier.
    IsLong,
    /// A repetition of a HELLO that came [`VERY_LONG`] ago or earlier.
    IsVeryLong,
    /// It does not wait, because too many do.
    Refused,
}

/// HELLOs that wait, each caller's newest.
#[derive(Debug)]
pub(crate) struct Backlog {
    by_ticket: BTreeMap<u64, Waiting>,
    tickets: HashMap<(NodeId, SocketAddr), u64>,
    /// How many wait, by where they come from.
    sources: HashMap<SourcePrefix, usize>,
    /// Maximum number from one source while the backlog is more than half full.
    most_of_source: usize,
    next: u64,
}

impl Backlog {
    /// Makes a backlog for known nodes, any number of which may share an address.
    pub(crate) fn of_known() -> Self {
        Self::new(MOST)
    }

    /// Makes a backlog for strangers.
    pub(crate) fn of_strangers() -> Self {
        Self::new(MOST_OF_SOURCE)
    }

    fn new(most_of_source: usize) -> Self {
        Self {
            by_ticket: BTreeMap::new(),
            tickets: HashMap::new(),
            sources: HashMap::new(),
            most_of_source,
            next: 0,
        }
    }

    /// Enters a HELLO that found no room. A repeated one keeps its ticket. A new one waits at the
    /// end, unless too many wait.
    pub(crate) fn enter(&mut self, now: Instant, claim: &Claim) -> Wait {
        let caller = (claim.node, claim.origin.to);
        let ticket = self.tickets.get(&caller).copied();
        if let Some(waiting) = ticket.and_then(|ticket| self.by_ticket.get_mut(&ticket)) {
            waiting.claim = *claim;
            waiting.repeated = now;
            return match now.since(waiting.since) {
                waited if waited >= VERY_LONG => Wait::IsVeryLong,
                waited if waited >= LONG => Wait::IsLong,
                _ => Wait::GoesOn,
            };
        }
        let source = SourcePrefix::from(claim.origin.to.ip());
        let here = self.sources.get(&source).copied().unwrap_or(0);
        let is_crowded = self.tickets.len() > MOST / 2 && !planted("sources-uncapped");
        if self.tickets.len() >= MOST || is_crowded && here >= self.most_of_source {
            return Wait::Refused;
        }
        self.sources.insert(source, here.saturating_add(1));
        let ticket = self.next;
        self.next = ticket.saturating_add(1);
        self.tickets.insert(caller, ticket);
        let waiting = Waiting {
            claim: *claim,
            since: now,
            repeated: now,
        };
        self.by_ticket.insert(ticket, waiting);
        Wait::Begins
    }

    /// Returns the first HELLO that waits with this ticket or a later one, and its ticket.
    pub(crate) fn first_from(&self, ticket: u64) -> Option<(u64, Claim)> {
        let (ticket, waiting) = self.by_ticket.range(ticket..).next()?;
        Some((*ticket, waiting.claim))
    }

    /// Returns the first HELLO that waits and comes from none of these sources.
    pub(crate) fn first_except(&self, sources: &[SourcePrefix]) -> Option<Claim> {
        let claims = self.by_ticket.values().map(|waiting| waiting.claim);
        let mut others = claims.filter(|claim| !sources.contains(&claim.origin.to.ip().into()));
        others.next()
    }

    /// Forgets HELLOs that are not repeated any more.
    pub(crate) fn forget(&mut self, now: Instant) {
        let old = |waiting: &&Waiting| now >= waiting.repeated + CALLER_TIMEOUT;
        let gone: Vec<_> = self
            .by_ticket
            .values()
            .filter(old)
            .map(|w| w.claim)
            .collect();
        gone.iter().for_each(|claim| self.leave(claim));
    }

    /// Removes a caller that waits no more.
    pub(crate) fn leave(&mut self, claim: &Claim) {
        let Some(ticket) = self.tickets.remove(&(claim.node, claim.origin.to)) else {
            return;
        };
        self.by_ticket.remove(&ticket);
        let source = SourcePrefix::from(claim.origin.to.ip());
        if let Some(here) = self.sources.get_mut(&source) {
            *here = here.saturating_sub(1);
            if *here == 0 {
                self.sources.remove(&source);
            }
        }
    }

    /// Returns how many wait.
    pub(crate) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_ticket.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suci_link::types::Incarnation;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn claim(node: u32, token: u64) -> Claim {
        Claim {
            origin: SocketAddr::from(([10, 0, 0, 1], 7_000)).into(),
            node: NodeId(node),
            incarnation: Incarnation(1),
            token,
        }
    }

    fn waiting(backlog: &Backlog) -> Vec<(u32, u64)> {
        let next = |ticket: u64| backlog.first_from(ticket);
        let all = std::iter::successors(next(0), |(ticket, _)| next(ticket + 1));
        all.map(|(_, claim)| (claim.node.0, claim.token)).collect()
    }

    #[test]
    fn callers_are_answered_in_the_order_in_which_they_came() {
        let mut backlog = Backlog::of_known();
        assert!(backlog.is_empty());
        for node in 1..=3 {
            assert_eq!(backlog.enter(at(0), &claim(node, 1)), Wait::Begins);
        }
        // A repeated HELLO keeps its ticket, even one of another attempt.
        assert_eq!(backlog.enter(at(249), &claim(1, 2)), Wait::GoesOn);
        assert_eq!(backlog.enter(at(250), &claim(1, 2)), Wait::IsLong);
        assert_eq!(backlog.enter(at(999), &claim(1, 2)), Wait::IsLong);
        assert_eq!(backlog.enter(at(1_000), &claim(1, 2)), Wait::IsVeryLong);
        assert_eq!(waiting(&backlog), [(1, 2), (2, 1), (3, 1)]);
        backlog.leave(&claim(2, 1));
        backlog.forget(at(2_499));
        assert_eq!(waiting(&backlog), [(1, 2), (3, 1)]);
        // The third did not come again.
        backlog.forget(at(2_500));
        assert_eq!((waiting(&backlog), backlog.len()), (vec![(1, 2)], 1));
        assert_eq!(backlog.enter(at(2_500), &claim(3, 1)), Wait::Begins);
    }

    #[test]
    fn f02_their_number_is_bounded() {
        let mut backlog = Backlog::of_known();
        for node in 0..5_000 {
            let refused = backlog.enter(at(0), &claim(node, 1)) == Wait::Refused;
            assert_eq!(refused, node >= MOST as u32);
        }
        assert_eq!(backlog.len(), MOST);
        assert_eq!(waiting(&backlog)[0], (0, 1));
    }

    /// F02: a flood from one address leaves room in the backlog of strangers to others.
    #[test]
    fn f02_one_address_does_not_fill_the_backlog_of_strangers() {
        let from = |host: u8, node: u32| Claim {
            origin: SocketAddr::from(([10, 0, 0, host], 7_000)).into(),
            ..claim(node, 1)
        };
        let mut backlog = Backlog::of_strangers();
        let wait = |backlog: &mut Backlog, host| {
            let calls = 0..5_000;
            let enters = |node| backlog.enter(at(0), &from(host, node)) == Wait::Begins;
            calls.map(enters).filter(|waits| *waits).count()
        };
        assert_eq!(wait(&mut backlog, 1), MOST / 2 + 1);
        assert_eq!(wait(&mut backlog, 2), MOST_OF_SOURCE);
        assert_eq!(wait(&mut backlog, 3), MOST_OF_SOURCE);
        let sources = [1, 2].map(|host| from(host, 0).origin.to.ip().into());
        let first = backlog.first_except(&sources).unwrap();
        assert_eq!(first.origin, from(3, 0).origin);
        backlog.leave(&from(2, 0));
        assert_eq!(backlog.enter(at(0), &from(2, 9_999)), Wait::Begins);
        backlog.forget(at(10_000));
        assert!(backlog.is_empty() && backlog.sources.is_empty());
    }
}
