//! Strangers that were forgotten while a copy of their INIT could still open a session.

use std::collections::HashMap;
use suci_link::limits::COOKIE_LIFETIME;
use suci_link::time::Instant;
use suci_link::types::NodeId;

/// Maximum number of strangers that left whose cookies are remembered: 2 MiB.
const MOST_DEPARTED: usize = 1 << 16;

/// Strangers that were forgotten while their cookies were still valid, and the newest cookie of
/// each. An INIT with that cookie or an older one may be a copy: its session is over.
#[derive(Debug, Default)]
pub(super) struct Departed {
    newest: HashMap<NodeId, Instant>,
}

impl Departed {
    /// Returns how many they are.
    pub(super) fn len(&self) -> usize {
        self.newest.len()
    }

    /// Returns true if a cookie of the time `made` may have been used before `node` was forgotten.
    pub(super) fn is_old(&self, node: NodeId, made: Instant) -> bool {
        self.newest.get(&node).is_some_and(|newest| made <= *newest)
    }

    pub(super) fn remember(&mut self, node: NodeId, newest: Instant) {
        let at = self.newest.entry(node).or_insert(newest);
        *at = newest.max(*at);
    }

    /// Forgets expired cookies. Returns how many more may be remembered.
    pub(super) fn room(&mut self, now: Instant) -> usize {
        self.newest.retain(|_, at| now <= *at + COOKIE_LIFETIME);
        MOST_DEPARTED.saturating_sub(self.newest.len())
    }
}
