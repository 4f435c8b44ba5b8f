//! When a missing packet counts as lost: RFC 9002 section 6.1 with thresholds that learn
//! the path's reordering, as RACK-TLP does (RFC 8985 sections 6.2 and 7).
//!
//! A packet is lost once one sent later was acknowledged and either enough packets overtook
//! it or enough time passed. A late acknowledgement of a packet declared lost proves that
//! the thresholds were too tight: they grow until they would have spared it. Genuine losses
//! shrink them again, slowly.

use super::rtt::{GRANULARITY, Rtt};
use crate::time::{Duration, Instant};

/// Packets that must overtake before one counts as lost (RFC 9002 6.1.1: at least 3).
pub const MIN_PACKET_THRESHOLD: u64 = 3;

/// What the packet threshold grows to: eight GSO trains of 64. Where more packets overtake one,
/// time alone decides, as it does for RACK on every path that reorders (RFC 8985 section 6.2).
pub const MAX_PACKET_THRESHOLD: u64 = 512;

/// The time threshold is one round trip and this part of another (RFC 9002 6.1.2: an eighth) ...
const LEAST_PART: u32 = 8;

/// ... up to so many more round trips. RFC 8985 6.2 bounds its window at one; radio and links that
/// share packets out among several lines delay some of them by more than that inside a machine
/// room.
const MOST_LATE: u32 = 2;

/// The packet threshold where time alone decides.
const NEVER: u64 = u64::MAX;

/// Loss episodes without a spurious one after which the thresholds give a quarter back
/// (RFC 8985 7.4.2 keeps its window for 16 recoveries).
const PERSISTENCE: u32 = 16;

/// Round trips of nothing but loss that make congestion persistent (RFC 9002 7.6.1).
const PERSISTENT_PTOS: u32 = 3;

/// The two thresholds, and what they learned.
#[derive(Clone, Debug)]
pub(super) struct Reordering {
    packets: u64,
    /// By how much packets exceeded a round trip that were not lost. As a time: a queue makes round
    /// trips longer, and what reorders packets remains.
    late: Duration,
    /// Loss episodes since the last spurious one.
    genuine: u32,
    /// Packets sent until here belong to an episode already counted: at most one in a round trip.
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

    /// How many packets must overtake; more than there are if only time decides.
    pub(super) const fn packets(&self) -> u64 {
        self.packets
    }

    /// How long after sending a packet that was overtaken is still waited for.
    pub(super) fn delay(&self, rtt: &Rtt) -> Duration {
        let round_trip = round_trip(rtt);
        let most = round_trip.saturating_mul(MOST_LATE);
        let late = self.late.min(most).max(round_trip / LEAST_PART);
        round_trip.saturating_add(late).max(GRANULARITY)
    }

    /// A packet declared lost was acknowledged after all, `distance` numbers behind the largest
    /// acknowledged before it. Its acknowledgement arrived `took` after it was sent.
    pub(super) fn on_spurious(&mut self, took: Duration, distance: u64, rtt: &Rtt) {
        self.genuine = 0;
        if distance >= self.packets {
            let spares = distance.saturating_add(1);
            let counts = spares <= MAX_PACKET_THRESHOLD;
            self.packets = if counts { spares } else { NEVER };
        }
        if took >= self.delay(rtt) {
            // The next one may be somewhat later.
            let round_trip = round_trip(rtt);
            let late = took.saturating_sub(round_trip);
            let spares = late.saturating_add(round_trip / LEAST_PART);
            let most = round_trip.saturating_mul(MOST_LATE);
            self.late = self.late.max(spares.min(most));
        }
    }

    /// Packets were declared lost, the newest of them sent at `sent_at`.
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

/// What the time threshold is measured in (RFC 9002 6.1.2).
fn round_trip(rtt: &Rtt) -> Duration {
    rtt.smoothed().max(rtt.latest())
}

/// Finds persistent congestion among the losses of one pass: two eliciting packets sent
/// further apart than three probe timeouts, both lost, and nothing sent between them
/// acknowledged (RFC 9002 7.6).
#[derive(Clone, Debug, Default)]
pub(super) struct LossRun {
    first: Option<Instant>,
    longest: Duration,
}

impl LossRun {
    /// An acknowledged packet lies between the last loss and the next.
    pub(super) fn interrupt(&mut self) {
        self.first = None;
    }

    /// The next lost packet, in the order of sending.
    pub(super) fn extend(&mut self, sent_at: Instant) {
        let first = *self.first.get_or_insert(sent_at);
        self.longest = self.longest.max(sent_at.since(first));
    }

    /// Whether the longest run means persistent congestion.
    pub(super) fn is_persistent(&self, rtt: &Rtt, max_ack_delay: Duration) -> bool {
        self.longest > rtt.pto(max_ack_delay).saturating_mul(PERSISTENT_PTOS)
    }
}
