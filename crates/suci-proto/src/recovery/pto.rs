//! When silence calls for a probe: the probe timeout of RFC 9002 section 6.2.

use super::rtt::Rtt;
use crate::time::{Duration, Instant, nanos};

/// Longest wait that back-off grows to. RFC 9002 sets none; a peer that returns from a pause
/// or a partition must be found soon, and one small packet each 3 s burdens no path. A path
/// whose own timeout is longer keeps that.
pub const MAX_BACKOFF: Duration = Duration::from_secs(3);

/// Back-off beyond 2^16 is cut by [`MAX_BACKOFF`] for every timeout above 46 us.
const MAX_EXPONENT: u32 = 16;

/// State of the probe timer of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Pto {
    /// How often it fired since the last acknowledgement.
    count: u32,
    /// What it counts from: the last time that an eliciting packet was sent or acknowledged
    /// (RFC 9002 6.2.1), losses were declared, or it fired itself. The last two keep a sender
    /// that may not send from being woken without end.
    since: Option<Instant>,
}

impl Pto {
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// Something happened that deserves a full timeout from `now`.
    pub(super) fn restart(&mut self, now: Instant) {
        self.since = self.since.max(Some(now));
    }

    /// The peer acknowledged something new: it lives, and back-off ends.
    pub(super) fn on_progress(&mut self, now: Instant) {
        self.count = 0;
        self.restart(now);
    }

    /// The timeout passed. Says how many probes to send: one may be lost, so later ones go in
    /// pairs.
    pub(super) fn on_fired(&mut self, now: Instant) -> u32 {
        self.count = self.count.saturating_add(1);
        self.restart(now);
        if self.count == 1 { 1 } else { 2 }
    }

    /// When to probe if something eliciting is in flight.
    pub(super) fn deadline(&self, rtt: &Rtt, max_ack_delay: Duration) -> Option<Instant> {
        #[cfg(suci_plant)]
        if crate::plant::active("pto-not-rearmed") && self.count > 0 {
            return None;
        }
        let since = self.since?;
        let base = rtt.pto_nanos(max_ack_delay);
        let backed_off = base.saturating_mul(1 << self.count.min(MAX_EXPONENT));
        let wait = backed_off.min(nanos(MAX_BACKOFF).max(base));
        Some(Instant::from_nanos(since.as_nanos().saturating_add(wait)))
    }
}
