//! Credit of a time when the share was larger: used up at once by who needs it, and kept for
//! minutes by who does not.

use super::Grant;
use crate::time::{Duration, Instant};
use crate::types::PacketNumber;

/// So many packets beyond the share, or a quarter of it if that is more, are a surplus.
const SURPLUS: u64 = 4;
const SURPLUS_PART: u64 = 4;

/// It has to last so many times as long as it did for its owner to be asked for it: a peer far away
/// uses all of it, and whoever is asked may not send for a round trip.
const LASTS: u64 = 4;

/// When it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surplus {
    since: Instant,
    /// The first number not drained then.
    from: PacketNumber,
}

impl Grant {
    /// After a packet was drained.
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

    /// Whether it has had much more than its share for so long, and will for four times as long.
    pub(in crate::credit) fn hoards(&self, now: Instant, time: Duration) -> bool {
        let lasts = |surplus: Surplus| {
            let used = self.drained_end.saturating_sub(surplus.from);
            let left = self.outstanding().saturating_sub(self.share);
            now >= surplus.since + time && left > used.saturating_mul(LASTS)
        };
        self.has_surplus() && self.surplus.is_some_and(lasts)
    }
}
