//! The probe timeout: RFC 9002 section 6.2.

use super::rtt::Rtt;
use crate::planted;
use crate::time::{Duration, Instant, nanos};

/// Longest interval between probes. RFC 9002 sets no bound. But a peer that returns from a pause or
/// a partition must be found soon, and one small packet each 3 s loads no path. A path whose own
/// timeout is longer keeps that timeout.
pub const MAX_BACKOFF: Duration = Duration::from_secs(3);

/// Largest exponent of the back-off: [`MAX_BACKOFF`] cuts a larger one for every timeout above 46
/// us.
const MAX_EXPONENT: u32 = 16;

/// State of the probe timer of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Pto {
    /// Number of probe timeouts since the last acknowledgement.
    count: u32,
    /// Start of the timeout: the last time at which an eliciting packet was sent or acknowledged
    /// (RFC 9002 6.2.1), losses were declared, or the timer fired. The last two keep a sender that
    /// may not send from waking up without end.
    since: Option<Instant>,
}

impl Pto {
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// Restarts the timeout at `now`.
    pub(super) fn restart(&mut self, now: Instant) {
        self.since = self.since.max(Some(now));
    }

    /// Notes that the peer acknowledged a new packet, and ends the back-off.
    pub(super) fn on_progress(&mut self, now: Instant) {
        self.count = 0;
        self.restart(now);
    }

    /// Notes that the timeout passed. Returns the number of probes to send: one, then two each,
    /// since one may be lost.
    pub(super) fn on_fired(&mut self, now: Instant) -> u32 {
        self.count = self.count.saturating_add(1);
        self.restart(now);
        if self.count == 1 { 1 } else { 2 }
    }

    /// Returns the time of the next probe if an eliciting packet is in flight.
    pub(super) fn deadline(&self, rtt: &Rtt, max_ack_delay: Duration) -> Option<Instant> {
        if planted("pto-not-rearmed") && self.count > 0 {
            return None;
        }
        let since = self.since?;
        let base = rtt.pto_nanos(max_ack_delay);
        let backed_off = base.saturating_mul(1 << self.count.min(MAX_EXPONENT));
        let wait = backed_off.min(nanos(MAX_BACKOFF).max(base));
        Some(Instant::from_nanos(since.as_nanos().saturating_add(wait)))
    }
}
