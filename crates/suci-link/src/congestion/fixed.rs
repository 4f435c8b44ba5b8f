//! A window that the program sets and that never changes, as in classic user-level protocols.

use super::{AckSample, CongestionEvent, Controller};
use crate::recovery::Rtt;
use crate::time::Instant;

/// Smallest window, in packets (RFC 9002 section 7.2).
const MIN_PACKETS: u64 = 2;

/// A fixed window. For networks whose capacity the program knows and does not share: it does not
/// react to congestion.
#[derive(Clone, Debug)]
pub struct Fixed {
    bytes: u64,
    mtu: u64,
}

impl Fixed {
    /// Returns a controller with a window of `bytes`, at least two packets of `mtu` bytes of UDP
    /// payload.
    #[must_use]
    pub fn new(bytes: u64, mtu: usize) -> Self {
        let mtu = mtu as u64;
        Self { bytes, mtu }
    }
}

impl Controller for Fixed {
    fn on_sent(&mut self, _now: Instant, _bytes: u64, _in_flight: u64) {}

    fn on_ack(&mut self, _now: Instant, _sample: &AckSample<'_>) {}

    fn on_congestion(&mut self, _now: Instant, _event: &CongestionEvent) {}

    fn on_spurious(&mut self, _now: Instant) {}

    fn restart(&mut self, mtu: usize, _most: u64) {
        self.mtu = mtu as u64;
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.mtu = mtu as u64;
    }

    fn window(&self) -> u64 {
        self.bytes.max(MIN_PACKETS * self.mtu)
    }

    fn pacing_rate(&self, _rtt: &Rtt) -> Option<u64> {
        None
    }

    fn name(&self) -> &'static str {
        "fixed"
    }
}
