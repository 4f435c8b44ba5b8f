//! When a missing packet counts as lost: RFC 9002 section 6.1 with thresholds that learn
//! the path's reordering, as RACK-TLP does (RFC 8985 sections 6.2 and 7).
//!
//! A packet is lost once one sent later was acknowledged and either enough packets overtook
//! it or enough time passed. A late acknowledgement of a packet declared lost proves that
//! the thresholds were too tight: they grow until they would have spared it. Genuine losses
//! shrink them again, slowly.

use super::rtt::{GRANULARITY, Rtt};
use crate::fold::folds;
use crate::time::{Duration, Instant};

/// Packets that must overtake before one counts as lost (RFC 9002 6.1.1: at least 3).
pub const MIN_PACKET_THRESHOLD: u64 = 3;

/// What the packet threshold grows to: eight GSO trains of 64. Beyond, time alone decides.
pub const MAX_PACKET_THRESHOLD: u64 = 512;

/// The time threshold is one round trip and this many eighths (RFC 9002 6.1.2: one) ...
const MIN_EIGHTHS: u32 = 1;

/// ... up to one more round trip (RFC 8985 6.2: the window's bound is the smoothed time).
const MAX_EIGHTHS: u32 = 8;

/// Loss episodes without a spurious one after which the thresholds give a step back
/// (RFC 8985 7.4.2 keeps its window for 16 recoveries).
const PERSISTENCE: u32 = 16;

/// Round trips of nothing but loss that make congestion persistent (RFC 9002 7.6.1).
const PERSISTENT_PTOS: u32 = 3;

/// The two thresholds, and what they learned.
#[derive(Clone, Debug)]
pub(super) struct Reordering {
    packets: u64,
    eighths: u32,
    /// Loss episodes since the last spurious one.
    genuine: u32,
    /// Packets sent until here were judged by a window since widened, or belong to an episode
    /// already counted: both at most once a round trip.
    widened_at: Option<Instant>,
    episode_at: Option<Instant>,
}

folds!(Reordering {
    packets,
    eighths,
    genuine,
    widened_at,
    episode_at
});

impl Reordering {
    pub(super) const fn new() -> Self {
        Self {
            packets: MIN_PACKET_THRESHOLD,
            eighths: MIN_EIGHTHS,
            genuine: 0,
            widened_at: None,
            episode_at: None,
        }
    }

    /// How many packets must overtake.
    pub(super) const fn packets(&self) -> u64 {
        self.packets
    }

    /// How long after sending a packet that was overtaken is still waited for.
    pub(super) fn delay(&self, rtt: &Rtt) -> Duration {
        let round_trip = rtt.smoothed().max(rtt.latest());
        let reordering = round_trip.saturating_mul(self.eighths) / 8;
        round_trip.saturating_add(reordering).max(GRANULARITY)
    }

    /// A packet declared lost was acknowledged after all, `distance` numbers behind the
    /// largest acknowledged before it.
    pub(super) fn on_spurious(&mut self, now: Instant, sent_at: Instant, distance: u64, rtt: &Rtt) {
        self.genuine = 0;
        if distance >= self.packets {
            self.packets = distance.saturating_add(1).min(MAX_PACKET_THRESHOLD);
        }
        if now.since(sent_at) >= self.delay(rtt) && self.widened_at < Some(sent_at) {
            self.eighths = self.eighths.saturating_add(1).min(MAX_EIGHTHS);
            self.widened_at = Some(now);
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
            let step = (self.packets / 4).max(1);
            self.packets = self.packets.saturating_sub(step).max(MIN_PACKET_THRESHOLD);
            self.eighths = self.eighths.saturating_sub(1).max(MIN_EIGHTHS);
        }
    }
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
