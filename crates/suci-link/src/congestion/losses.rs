//! The random loss that a path may have before its losses count as congestion.
//!
//! After BBR version 3 (draft-ietf-ccwg-bbr, "BBR.LossThresh" and "IsInflightTooHigh"): losses are
//! compared with the bytes in flight or sent meanwhile, and count only beyond a threshold. A bad
//! cable, radio and hosts that drop a packet now and then stay below it. A full buffer does not: a
//! window that grows into it loses its growth.

/// Share of the bytes that may be lost.
const THRESHOLD: f64 = 0.02;
/// Least packets over which losses are judged: of fewer, even one is a large share.
const SPAN: f64 = 100.0;

/// Losses of one span: a round trip, or [`SPAN`] packets if that is more.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    lost: f64,
    /// All bytes whose fate is known.
    resolved: f64,
}

impl Losses {
    pub(super) fn on_acked(&mut self, bytes: f64) {
        self.resolved += bytes;
    }

    pub(super) fn on_lost(&mut self, bytes: f64) {
        self.lost += bytes;
        self.resolved += bytes;
    }

    /// Returns true if more than the threshold was lost, of at least `in_flight` bytes; packets
    /// have `mtu` bytes.
    pub(super) fn exceed(&self, in_flight: f64, mtu: f64) -> bool {
        let of = self.resolved.max(in_flight).max(SPAN * mtu);
        self.lost > THRESHOLD * of
    }

    /// Ends a round trip.
    pub(super) fn end_round(&mut self, mtu: f64) {
        if self.resolved >= SPAN * mtu {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(acked: f64, lost: f64) -> Losses {
        let mut losses = Losses::default();
        losses.on_acked(acked);
        losses.on_lost(lost);
        losses
    }

    #[test]
    fn a_fiftieth_may_be_lost_and_no_more() {
        assert!(!losses(980.0, 20.0).exceed(0.0, 1.0));
        assert!(losses(979.0, 21.0).exceed(0.0, 1.0));
    }

    #[test]
    fn of_few_packets_two_may_be_lost() {
        assert!(!losses(0.0, 2.0).exceed(10.0, 1.0));
        assert!(losses(0.0, 3.0).exceed(10.0, 1.0));
        assert!(!losses(0.0, 3.0).exceed(150.0, 1.0), "of those in flight");
    }

    #[test]
    fn rounds_are_judged_together_until_they_are_a_span() {
        let mut few = losses(97.0, 2.0);
        few.end_round(1.0);
        few.on_lost(1.0);
        assert!(few.exceed(0.0, 1.0));
        let mut span = losses(98.0, 2.0);
        span.end_round(1.0);
        span.on_lost(2.0);
        assert!(!span.exceed(0.0, 1.0));
    }
}
