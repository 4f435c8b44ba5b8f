//! Credit left from a time when the share was larger. A peer that needs it uses it up at once; one
//! that does not may keep it for minutes.

use super::Grant;
use suci_link::time::{Duration, Instant};
use suci_link::types::PacketNumber;

/// A surplus is more than this many packets beyond the share, or a quarter of it if that is more.
const SURPLUS: u64 = 4;
const SURPLUS_PART: u64 = 4;

/// A surplus is reclaimed only if it would last this many times as long as it did. A distant peer
/// uses all of it, and a reclaimed peer may not send for a round trip.
const LASTS: u64 = 4;

/// The beginning of a surplus.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surplus {
    since: Instant,
    /// The first number not drained then.
    from: PacketNumber,
}

impl Grant {
    /// Notes the beginning or end of a surplus, after a packet was drained.
    pub(super) fn note_surplus(&mut self, now: Instant) {
        let begun = Surplus {
            since: now,
            from: self.drained_end,
        };
        self.surplus = self.has_surplus().then(|| self.surplus.unwrap_or(begun));
    }

    const fn has_surplus(&self) -> bool {
        let part = self.share / SURPLUS_PART;
        let more = if part > SURPLUS { part } else { SURPLUS };
        self.outstanding() > self.share.saturating_add(more)
    }

    /// Returns true if the peer has had a surplus for `time`, and would keep it for four times as
    /// long.
    pub(crate) fn has_lasting_surplus(&self, now: Instant, time: Duration) -> bool {
        let lasts = |surplus: Surplus| {
            let used = self.drained_end.saturating_sub(surplus.from);
            let left = self.outstanding().saturating_sub(self.share);
            now >= surplus.since + time && left > used.saturating_mul(LASTS)
        };
        self.has_surplus() && self.surplus.is_some_and(lasts)
    }
}
