//! Credit beyond the buffer, for the packets on a long path whose receiver drains at once.
//!
//! Packets on the wire take no room in the buffer. A receiver that reads each packet as it comes
//! therefore grants, beside the share, as many packets as the path holds: its drain rate times the
//! round trip. The packets drained within a round trip tell it without the sender's help. It grants
//! twice as many, so that a sender which doubles its window finds room.
//!
//! The receiver assumes that it will drain as promptly as before. Packets had to wait in the buffer
//! now and then; the packets that arrive during the longest such wait must not fill more than half
//! of the share. If they would, the limit stops until the grant fits again.

use super::Grant;
use suci_link::recent_max::RecentMax;
use suci_link::time::{Duration, Instant, nanos};
use suci_link::types::PacketNumber;

/// A path with a shorter round trip gets no grant beyond the buffer: the buffer's credit fills it.
const LONG_PATH: Duration = Duration::from_millis(5);

/// Least time for which the longest wait of a packet counts: some polls of a slow receiver.
const WATCH: Duration = Duration::from_millis(200);

/// The grant beyond the share: measurements of the path and of our own draining.
#[derive(Debug)]
pub(super) struct LongPath {
    /// Packets granted beyond the share and not drained.
    pub(super) granted: u64,
    /// Packets that should be granted beyond the share.
    pub(super) target: u64,
    /// When the current round trip began, and the first number not drained then.
    began: Instant,
    from: PacketNumber,
    /// Packets drained in the last two round trips.
    drained: RecentMax<u64>,
    /// Longest wait of a packet in the buffer, in nanoseconds, over periods of [`WATCH`].
    waited: RecentMax<u64>,
    watched: Instant,
}

impl LongPath {
    pub(super) fn new(first: PacketNumber, now: Instant) -> Self {
        Self {
            granted: 0,
            target: 0,
            began: now,
            from: first,
            drained: RecentMax::default(),
            waited: RecentMax::default(),
            watched: now,
        }
    }

    /// Skips `numbers` packet numbers, under which no packet is drained.
    pub(super) fn skip(&mut self, numbers: u64) {
        self.from = self.from.saturating_add(numbers);
    }

    fn watch(&mut self, now: Instant, waited: Duration) {
        if now >= self.watched + WATCH {
            self.waited.end_period();
            self.watched = now;
        }
        self.waited.note(nanos(waited));
    }

    /// Ends a round trip in which everything below `drained_end` was drained.
    fn end_round(&mut self, now: Instant, drained_end: PacketNumber, round_trip: Duration) {
        let took = nanos(now.since(self.began)).max(1);
        if took < nanos(round_trip) {
            return;
        }
        let packets = drained_end.saturating_sub(self.from);
        let in_one = packets.saturating_mul(nanos(round_trip)) / took;
        self.drained.end_period();
        self.drained.note(in_one);
        self.began = now;
        self.from = drained_end;
    }

    /// Twice the packets that the path holds, or fewer: the packets that arrive during the longest
    /// wait must fit half of `share`.
    fn bound(&self, share: u64, round_trip: Duration) -> u64 {
        let holds = self.drained.get().saturating_mul(2);
        let waited = self.waited.get().max(1);
        holds.min(share.saturating_mul(nanos(round_trip)) / 2 / waited)
    }
}

impl Grant {
    /// Notes that a packet is about to be drained after it lay in the buffer for `waited`.
    /// `round_trip` is the path's, if known.
    pub(crate) fn on_path(&mut self, now: Instant, round_trip: Option<Duration>, waited: Duration) {
        let Some(round_trip) = round_trip.filter(|round_trip| *round_trip >= LONG_PATH) else {
            self.long_path.target = 0;
            return;
        };
        self.long_path.watch(now, waited);
        self.long_path.end_round(now, self.drained_end, round_trip);
        self.long_path.target = self.long_path.bound(self.share, round_trip);
    }

    /// Returns the packets that should be granted beyond the share; none to a peer without a share.
    pub(super) const fn beyond(&self) -> u64 {
        if self.share == 0 {
            0
        } else {
            self.long_path.target
        }
    }

    /// Updates the packets granted beyond the share after the numbers drained or granted moved.
    /// They are the excess over the share, but at most as many as were, or should be, granted
    /// beyond it.
    pub(super) fn update_long_path(&mut self) {
        let all = self.limit_end.saturating_sub(self.drained_end);
        let excess = all.saturating_sub(self.division().ahead);
        self.long_path.granted = excess.min(self.long_path.granted.max(self.beyond()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(20);

    /// Returns a grant of 80 packets, with `each` packets drained in each of `rounds` round trips.
    fn drained(each: u64, rounds: u32, round_trip: Duration, waited: Duration) -> Grant {
        let mut now = Instant::from_nanos(1);
        let mut grant = Grant::new(0, 80, 2, 1, now);
        for _ in 0..rounds {
            now += round_trip;
            let last = grant.drained_end() + each - 1;
            grant.on_path(now, Some(round_trip), waited);
            grant.drained(last, true, 80, now);
        }
        grant
    }

    #[test]
    fn twice_the_capacity_of_a_long_path_is_granted_beyond_the_share() {
        let grant = drained(300, 4, ROUND_TRIP, Duration::ZERO);
        assert_eq!(grant.limit_end - grant.drained_end, 70 + 600);
        assert_eq!(grant.outstanding(), 80, "the books know the share");
    }

    #[test]
    fn a_short_path_is_granted_nothing_beyond() {
        let short = Duration::from_micros(4_999);
        let grant = drained(300, 4, short, Duration::ZERO);
        assert_eq!(grant.limit_end - grant.drained_end, 70);
    }

    #[test]
    fn packets_that_arrive_while_others_wait_fill_half_of_the_share() {
        // 40 packets in 2 ms are 400 in 20.
        let grant = drained(300, 4, ROUND_TRIP, Duration::from_millis(2));
        assert_eq!(grant.limit_end - grant.drained_end, 70 + 400);
    }

    #[test]
    fn a_granter_that_lags_grants_no_more_until_the_excess_is_used() {
        let mut grant = drained(300, 4, ROUND_TRIP, Duration::ZERO);
        let (limit, now) = (grant.limit(), Instant::from_nanos(90_000_000));
        grant.on_path(now, Some(ROUND_TRIP), Duration::from_millis(40));
        for number in grant.drained_end()..=limit - 70 - 20 {
            grant.drained(number, true, 80, now);
            assert_eq!((grant.limit(), grant.outstanding()), (limit, 80));
        }
        grant.drained(limit - 70 - 19, true, 80, now);
        assert_eq!(grant.limit(), limit + 1, "20 in 20 ms are allowed");
    }

    #[test]
    fn without_a_share_nothing_is_granted_beyond() {
        let mut grant = drained(300, 4, ROUND_TRIP, Duration::ZERO);
        let limit = grant.limit();
        grant.begin_reclaim(Instant::from_nanos(90_000_000));
        grant.drained(limit, true, 0, Instant::from_nanos(90_000_000));
        assert_eq!(grant.limit(), limit);
        assert_eq!(grant.outstanding(), 0);
    }
}
