//! The thresholds after which a missing packet counts as lost: RFC 9002 section 6.1, with
//! thresholds that adapt to the path's reordering, as RACK-TLP's do (RFC 8985 sections 6.2 and 7).
//!
//! A packet is lost once a later packet was acknowledged, and either enough packets overtook it or
//! enough time passed. A late acknowledgement of a packet declared lost proves that the thresholds
//! were too tight. They then grow until they would not have declared it lost. Genuine losses shrink
//! them again, slowly.

use super::rtt::{GRANULARITY, Rtt};
use crate::time::{Duration, Instant};

/// Packets that must overtake a packet before it counts as lost (RFC 9002 6.1.1: at least 3).
pub const MIN_PACKET_THRESHOLD: u64 = 3;

/// Bound of the packet threshold: eight GSO trains of 64. If more packets overtake one, only time
/// decides, as it does for RACK on every path that reorders (RFC 8985 section 6.2).
pub const MAX_PACKET_THRESHOLD: u64 = 512;

/// The time threshold is one round trip plus at least this part of another (RFC 9002 6.1.2: an
/// eighth).
const LEAST_PART: u32 = 8;

/// The time threshold is one round trip plus at most so many more. RFC 8985 6.2 bounds its window
/// at one more. Radio links, and links that distribute packets over several lines, delay some
/// packets by more than that inside a machine room.
const MOST_LATE: u32 = 2;

/// The packet threshold if only time decides.
const NEVER: u64 = u64::MAX;

/// Genuine loss episodes in succession after which the thresholds shrink by a quarter (RFC 8985
/// 7.4.2 keeps its window for 16 recoveries).
const PERSISTENCE: u32 = 16;

/// Probe timeouts without any acknowledgement that make congestion persistent (RFC 9002 7.6.1).
const PERSISTENT_PTOS: u32 = 3;

/// The two thresholds, adapted to the path.
#[derive(Clone, Debug)]
pub(super) struct Reordering {
    packets: u64,
    /// Largest excess over a round trip of packets that were not lost. It is stored as a time: a
    /// queue makes round trips longer, but the cause of reordering does not change.
    late: Duration,
    /// Loss episodes since the last spurious one.
    genuine: u32,
    /// Losses of packets sent until this time belong to an episode that is already counted. So
    /// there is at most one episode in a round trip.
    episode_at: Option<Instant>,
}

impl Reordering {
    pub(super) const fn new() -> Self {
        Self {
            packets: MIN_PACKET_THRESHOLD,
            late: Duration::ZERO,
            genuine: 0,
            episode_at: None,
        }
    }

    /// Returns the packet threshold. It is unreachable if only time decides.
    pub(super) const fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the time after sending at which a packet that was overtaken counts as lost.
    pub(super) fn delay(&self, rtt: &Rtt) -> Duration {
        let round_trip = round_trip(rtt);
        let most = round_trip.saturating_mul(MOST_LATE);
        let late = self.late.min(most).max(round_trip / LEAST_PART);
        round_trip.saturating_add(late).max(GRANULARITY)
    }

    /// Adapts the thresholds to a packet that was declared lost and then acknowledged. Its number
    /// was `distance` below the largest acknowledged before it. Its acknowledgement arrived `took`
    /// after it was sent.
    pub(super) fn on_spurious(&mut self, took: Duration, distance: u64, rtt: &Rtt) {
        self.genuine = 0;
        // Allow a margin in both, since the next packet may be later.
        if distance >= self.packets {
            let enough = distance.saturating_add(distance / u64::from(LEAST_PART) + 1);
            let counts = enough <= MAX_PACKET_THRESHOLD;
            self.packets = if counts { enough } else { NEVER };
        }
        if took >= self.delay(rtt) {
            let round_trip = round_trip(rtt);
            let late = took.saturating_sub(round_trip);
            let enough = late.saturating_add(round_trip / LEAST_PART);
            let most = round_trip.saturating_mul(MOST_LATE);
            self.late = self.late.max(enough.min(most));
        }
    }

    /// Notes that packets were declared lost, the newest of which was sent at `sent_at`.
    pub(super) fn on_losses(&mut self, now: Instant, sent_at: Instant) {
        if self.episode_at >= Some(sent_at) {
            return;
        }
        self.episode_at = Some(now);
        self.genuine = self.genuine.saturating_add(1);
        if self.genuine >= PERSISTENCE {
            self.genuine = 0;
            let packets = self.packets.min(MAX_PACKET_THRESHOLD);
            let step = (packets / 4).max(1);
            self.packets = packets.saturating_sub(step).max(MIN_PACKET_THRESHOLD);
            self.late = self.late.saturating_sub(self.late / 4);
        }
    }
}

/// Returns the round-trip time that the time threshold is based on (RFC 9002 6.1.2).
fn round_trip(rtt: &Rtt) -> Duration {
    rtt.smoothed().max(rtt.latest())
}

/// Finds persistent congestion among the losses of one pass: two eliciting packets sent further
/// apart than three probe timeouts, both lost, and nothing sent between them acknowledged (RFC 9002
/// 7.6).
#[derive(Clone, Debug, Default)]
pub(super) struct PersistentCongestion {
    first: Option<Instant>,
    longest: Duration,
}

impl PersistentCongestion {
    /// Notes that an acknowledged packet lies between the last loss and the next.
    pub(super) fn interrupt(&mut self) {
        self.first = None;
    }

    /// Adds the next lost packet, in the order of sending.
    pub(super) fn extend(&mut self, sent_at: Instant) {
        let first = *self.first.get_or_insert(sent_at);
        self.longest = self.longest.max(sent_at.since(first));
    }

    /// Returns true if the losses mean persistent congestion.
    pub(super) fn is_persistent(&self, rtt: &Rtt, max_ack_delay: Duration) -> bool {
        self.longest > rtt.pto(max_ack_delay).saturating_mul(PERSISTENT_PTOS)
    }
}
