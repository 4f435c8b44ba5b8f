//! Whether packets to a peer are marked as ECN-capable (RFC 3168), and whether such packets arrive.
//!
//! Some middle boxes drop marked packets. So the marks stop at the second probe timeout in a row, as RFC 9000
//! section 13.4.2 allows. Others say of every marked packet that it met congestion (CE). So the marks stop, too, when
//! ten packets in a row arrived with CE although the window is no larger than the one that connections begin with:
//! the sender cannot be the cause. The marks begin again as soon as the peer counted a packet that arrived as it was
//! sent: the peer was away, or the loss had another cause. To find that out, one PING goes marked once the peer
//! answers, and another every ten minutes. A path that erases marks is no fault: nothing that is sent depends on them.

use crate::fold::folds;
use crate::time::{Duration, Instant};
use crate::wire::EcnCounts;

/// Probe timeouts in a row at which the marks stop: one lost probe is no sign.
const TIMEOUTS: u32 = 2;

/// CE marks in a row that stop the marks: as many packets as RFC 9000 appendix A.4 tests a path with.
const ALL_CONGESTED: u64 = 10;

/// Time from one trial to the next, as for a packet size that failed (RFC 8899 section 5.1.1).
const TRIAL_AFTER: Duration = Duration::from_secs(600);

/// What is known about marks on one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    /// CE marks that the peer had counted when it last said so.
    congested: u64,
    /// The same of packets that arrived with the mark that they were sent with.
    unchanged: u64,
    /// CE marks since the last packet that arrived without one or found the window large.
    row: u64,
    /// Nothing is marked.
    stopped: bool,
    /// When a marked PING is due, once the peer answered packets without marks.
    trial_at: Option<Instant>,
}

folds!(Marks {
    congested,
    unchanged,
    row,
    stopped,
    trial_at
});

/// What an acknowledgement tells of the marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkSign {
    /// No packet met congestion.
    Clear,
    /// Packets met congestion.
    Congested,
    /// All packets seem to have, but the path marks whatever it carries.
    Meaningless,
}

impl Marks {
    /// Whether the marks stopped, because marked packets seem to vanish.
    pub(crate) const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// CE marks that the peer has counted on this connection.
    pub(crate) const fn congested(&self) -> u64 {
        self.congested
    }

    /// The probe timer fired for the `count`th time in a row.
    pub(crate) fn on_probe_timeout(&mut self, count: u32) {
        if count >= TIMEOUTS && !self.stopped {
            self.stopped = true;
            self.trial_at = None;
        }
    }

    /// The peer acknowledged something new at `now`, and counted `counts` marks on this connection so far. `small`:
    /// the congestion window is no larger than connections begin with. Returns what the marks tell that the peer had
    /// not told of before.
    pub(crate) fn on_acked(&mut self, now: Instant, counts: EcnCounts, small: bool) -> MarkSign {
        let unchanged = counts.ect0.saturating_add(counts.ect1);
        let congested = counts.ce.saturating_sub(self.congested);
        let intact = unchanged > self.unchanged;
        self.row = match intact || !small {
            true => 0,
            false => self.row.saturating_add(congested),
        };
        self.unchanged = self.unchanged.max(unchanged);
        self.congested = self.congested.max(counts.ce);
        if intact {
            self.stopped = false;
        } else if !self.stopped && self.row >= ALL_CONGESTED {
            self.stopped = true;
            self.trial_at = Some(now + TRIAL_AFTER);
            return MarkSign::Meaningless;
        } else if self.stopped && self.trial_at.is_none() {
            self.trial_at = Some(now);
        }
        // Once the marks stopped, CE only tells of packets that were sent before.
        match congested {
            1.. if !self.stopped => MarkSign::Congested,
            _ => MarkSign::Clear,
        }
    }

    /// Whether a marked PING should go now, to see whether it arrives.
    pub(crate) fn trial_due(&self, now: Instant) -> bool {
        self.stopped && self.trial_at.is_some_and(|at| at <= now)
    }

    /// The marked PING that was due went out.
    pub(crate) fn on_trial_sent(&mut self, now: Instant) {
        self.trial_at = Some(now + TRIAL_AFTER);
    }

    /// The same path on a new connection, on which the peer counts from 0.
    pub(crate) fn inherit(&self) -> Self {
        Self {
            congested: 0,
            unchanged: 0,
            ..self.clone()
        }
    }

    /// The path is another.
    pub(crate) fn on_path_changed(&mut self) {
        self.stopped = false;
    }
}

#[cfg(test)]
mod tests {
    use super::MarkSign::{Clear, Congested, Meaningless};
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    fn counts(ect0: u64, ce: u64) -> EcnCounts {
        EcnCounts { ect0, ect1: 0, ce }
    }

    #[test]
    fn f36_marks_stop_at_the_second_probe_timeout_and_are_tried_every_ten_minutes() {
        let mut marks = Marks::default();
        marks.on_probe_timeout(1);
        assert!(!marks.is_stopped());
        marks.on_probe_timeout(2);
        assert!(marks.is_stopped());
        assert!(!marks.trial_due(at(5)), "the peer may be away");
        assert_eq!(marks.on_acked(at(5), counts(0, 0), false), Clear);
        assert!(marks.trial_due(at(5)));
        marks.on_trial_sent(at(5));
        marks.on_acked(at(6), counts(0, 0), false);
        assert!(marks.is_stopped() && !marks.trial_due(at(604)));
        assert!(marks.trial_due(at(605)));
        marks.on_trial_sent(at(605));
        marks.on_acked(at(606), counts(1, 0), false);
        assert!(!marks.is_stopped() && !marks.trial_due(at(9_999)));
    }

    #[test]
    fn f36_a_peer_that_was_away_and_counted_marks_meanwhile_is_sent_marks_again() {
        let mut marks = Marks::default();
        assert_eq!(marks.on_acked(at(1), counts(3, 0), false), Clear);
        marks.on_probe_timeout(3);
        assert_eq!(
            marks.on_acked(at(9), counts(4, 2), false),
            Congested,
            "two are CE"
        );
        assert!(!marks.is_stopped());
        assert_eq!(
            marks.on_acked(at(9), counts(4, 1), false),
            Clear,
            "an older one"
        );
        assert_eq!(marks.congested(), 2);
        marks.on_probe_timeout(2);
        let mut next = marks.inherit();
        assert!(next.is_stopped());
        assert_eq!(
            next.on_acked(at(9), counts(1, 0), false),
            Clear,
            "counted from 0"
        );
        assert!(!next.is_stopped());
    }

    #[test]
    fn f36_marks_stop_when_all_packets_of_a_small_window_met_congestion() {
        let mut marks = Marks::default();
        assert_eq!(marks.on_acked(at(1), counts(0, 50), false), Congested);
        assert_eq!(marks.on_acked(at(1), counts(0, 59), true), Congested);
        assert!(!marks.is_stopped(), "only 9 with a small window");
        marks.on_acked(at(1), counts(1, 61), true);
        marks.on_acked(at(2), counts(1, 70), true);
        assert!(!marks.is_stopped(), "one arrived unchanged");
        assert_eq!(marks.on_acked(at(2), counts(1, 71), true), Meaningless);
        assert!(marks.is_stopped());
        assert_eq!(
            marks.on_acked(at(2), counts(1, 80), true),
            Clear,
            "sent before"
        );
        assert!(marks.is_stopped() && !marks.trial_due(at(601)) && marks.trial_due(at(602)));
        marks.on_acked(at(603), counts(2, 80), true);
        assert!(!marks.is_stopped());
    }
}
