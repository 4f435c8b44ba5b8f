//! The decision to mark packets to a peer as ECN-capable (RFC 3168), and the check that marked
//! packets arrive.

use crate::planted;
use crate::time::{Duration, Instant};
use crate::wire::EcnCounts;

/// Probe timeouts in a row at which marking stops: one lost probe is no sign.
const TIMEOUTS: u32 = 2;

/// Losses in a row that stop marking, if no marked packet was acknowledged between them: packets
/// without marks, which carry no messages, may be acknowledged all the time.
const ALL_LOST: u32 = 10;

/// CE marks in a row that stop marking: as many packets as RFC 9000 appendix A.4 tests a path with.
const ALL_CONGESTED: u64 = 10;

/// Time from one trial to the next, as for a packet size that failed (RFC 8899 section 5.1.1).
const TRIAL_AFTER: Duration = Duration::from_secs(600);

/// The state of ECN on one path, from the peer's counts.
#[derive(Clone, Debug, Default)]
pub struct EcnValidation {
    /// CE marks that the peer had counted at its last acknowledgement.
    congested: u64,
    /// Packets that the peer had counted with the mark they were sent with. `None` until it
    /// acknowledges something, after the connection began or was idle.
    unchanged: Option<u64>,
    state: EcnState,
}

/// The state of marking.
#[derive(Clone, Debug, PartialEq, Eq)]
enum EcnState {
    Marked {
        /// CE marks in a row while the window was small.
        congested: u64,
        /// Losses since a marked packet was acknowledged.
        lost: u32,
    },
    Stopped {
        /// When a marked PING is due, once the peer answered packets without marks.
        trial_at: Option<Instant>,
    },
}

impl Default for EcnState {
    fn default() -> Self {
        Self::Marked {
            congested: 0,
            lost: 0,
        }
    }
}

/// The sign of congestion in an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnSignal {
    /// No further packet met congestion.
    Clear,
    /// Further packets met congestion.
    Congested,
    /// The path sets CE on each packet: earlier signs of congestion were wrong.
    Meaningless,
}

impl EcnValidation {
    /// Returns true if marking stopped, because the path seems to drop marked packets or to set CE
    /// on each.
    pub const fn is_stopped(&self) -> bool {
        matches!(self.state, EcnState::Stopped { .. })
    }

    /// Returns the number of CE marks that the peer counted on this connection.
    pub const fn congested(&self) -> u64 {
        self.congested
    }

    /// Notes that the probe timer fired for the `count`th time in a row.
    pub fn on_probe_timeout(&mut self, count: u32) {
        if planted("marks-never-stop") {
            return;
        }
        if count >= TIMEOUTS && !self.is_stopped() {
            self.state = EcnState::Stopped { trial_at: None };
        }
    }

    /// Notes that packets, one or several, were declared lost at once.
    pub fn on_lost(&mut self) {
        if planted("marks-never-stop") {
            return;
        }
        if let EcnState::Marked { lost, .. } = &mut self.state {
            *lost = lost.saturating_add(1);
            if *lost >= ALL_LOST {
                self.state = EcnState::Stopped { trial_at: None };
            }
        }
    }

    /// Notes that the peer acknowledged new packets at `now`, and counted `counts` marks on this
    /// connection so far. `is_small` returns whether the congestion window is no larger than the
    /// initial one; it is called only if there are new CE marks. Returns the sign of congestion in
    /// the new counts.
    pub fn on_acked(
        &mut self,
        now: Instant,
        counts: EcnCounts,
        is_small: impl FnOnce() -> bool,
    ) -> EcnSignal {
        let unchanged = counts.ect0.saturating_add(counts.ect1);
        let congested = counts.ce.saturating_sub(self.congested);
        let intact = self.unchanged.is_some_and(|before| unchanged > before);
        self.unchanged = self.unchanged.max(Some(unchanged));
        match &mut self.state {
            state if intact => *state = EcnState::default(),
            EcnState::Stopped { trial_at } => {
                trial_at.get_or_insert(now);
            }
            EcnState::Marked { .. } => {}
        }
        if congested == 0 {
            return EcnSignal::Clear;
        }
        self.congested = counts.ce;
        // These CE marks are of packets that were sent before marking stopped.
        let EcnState::Marked {
            congested: in_row,
            lost,
        } = &mut self.state
        else {
            return EcnSignal::Clear;
        };
        *lost = 0;
        if !intact {
            *in_row = match is_small() {
                true => in_row.saturating_add(congested),
                false => 0,
            };
        }
        if *in_row < ALL_CONGESTED {
            return EcnSignal::Congested;
        }
        let trial_at = Some(now + TRIAL_AFTER);
        self.state = EcnState::Stopped { trial_at };
        EcnSignal::Meaningless
    }

    /// Forgets the count of unchanged marks, which the next acknowledgement repeats, unless marking
    /// may resume by it.
    pub fn shrink(&mut self) {
        if !self.is_stopped() {
            self.unchanged = None;
        }
    }

    /// Returns true if a marked PING should be sent now, to see whether it arrives.
    pub fn trial_due(&self, now: Instant) -> bool {
        matches!(self.state, EcnState::Stopped { trial_at: Some(at) } if at <= now)
    }

    /// Notes that the marked PING was sent.
    pub fn on_trial_sent(&mut self, now: Instant) {
        let trial_at = Some(now + TRIAL_AFTER);
        self.state = EcnState::Stopped { trial_at };
    }

    /// Returns the state for the next connection on the same path, where the peer counts from 0.
    pub fn inherit(&self) -> Self {
        Self {
            congested: 0,
            unchanged: Some(0),
            ..self.clone()
        }
    }

    /// Starts anew on an unknown path.
    pub fn on_path_changed(&mut self) {
        self.state = EcnState::default();
    }
}

#[cfg(test)]
mod tests {
    use super::EcnSignal::{Clear, Congested, Meaningless};
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    fn counts(ect0: u64, ce: u64) -> EcnCounts {
        EcnCounts { ect0, ect1: 0, ce }
    }

    #[test]
    fn f39_marks_stop_at_the_second_probe_timeout_and_are_tried_every_ten_minutes() {
        let mut ecn = EcnValidation::default();
        ecn.on_probe_timeout(1);
        assert!(!ecn.is_stopped());
        ecn.on_probe_timeout(2);
        assert!(ecn.is_stopped());
        assert!(!ecn.trial_due(at(5)), "the peer may be away");
        assert_eq!(ecn.on_acked(at(5), counts(0, 0), || false), Clear);
        assert!(ecn.trial_due(at(5)));
        ecn.on_trial_sent(at(5));
        ecn.on_acked(at(6), counts(0, 0), || false);
        assert!(ecn.is_stopped() && !ecn.trial_due(at(604)));
        assert!(ecn.trial_due(at(605)));
        ecn.on_trial_sent(at(605));
        ecn.on_acked(at(606), counts(1, 0), || false);
        assert!(!ecn.is_stopped() && !ecn.trial_due(at(9_999)));
    }

    #[test]
    fn f39_losses_between_which_no_mark_arrives_stop_the_marks() {
        let mut ecn = EcnValidation::default();
        let lose = |ecn: &mut EcnValidation, seconds: u64, counts| {
            for _ in 1..ALL_LOST {
                ecn.on_lost();
                ecn.on_acked(at(seconds), counts, || false);
            }
            assert!(!ecn.is_stopped());
        };
        // Packets without marks are acknowledged between the losses.
        lose(&mut ecn, 1, counts(1, 0));
        // A marked packet arrived, then one with CE.
        ecn.on_acked(at(2), counts(2, 0), || false);
        lose(&mut ecn, 2, counts(2, 0));
        ecn.on_acked(at(3), counts(2, 1), || false);
        lose(&mut ecn, 3, counts(2, 1));
        ecn.on_lost();
        assert!(ecn.is_stopped());
        ecn.on_acked(at(4), counts(2, 1), || false);
        assert!(ecn.trial_due(at(4)), "the peer answers");
    }

    #[test]
    fn f39_a_peer_that_was_away_and_counted_marks_meanwhile_is_sent_marks_again() {
        let mut ecn = EcnValidation::default();
        assert_eq!(ecn.on_acked(at(1), counts(3, 0), || false), Clear);
        ecn.on_probe_timeout(3);
        assert_eq!(
            ecn.on_acked(at(9), counts(4, 2), || false),
            Congested,
            "two are CE"
        );
        assert!(!ecn.is_stopped());
        assert_eq!(
            ecn.on_acked(at(9), counts(4, 1), || false),
            Clear,
            "an older one"
        );
        assert_eq!(ecn.congested(), 2);
        ecn.on_probe_timeout(2);
        let mut next = ecn.inherit();
        assert!(next.is_stopped());
        assert_eq!(
            next.on_acked(at(9), counts(1, 0), || false),
            Clear,
            "counted from 0"
        );
        assert!(!next.is_stopped());
    }

    #[test]
    fn f39_marks_stop_when_all_packets_of_a_small_window_met_congestion() {
        let mut ecn = EcnValidation::default();
        assert_eq!(ecn.on_acked(at(1), counts(0, 50), || false), Congested);
        assert_eq!(ecn.on_acked(at(1), counts(0, 59), || true), Congested);
        assert!(!ecn.is_stopped(), "only 9 with a small window");
        ecn.on_acked(at(1), counts(1, 61), || true);
        ecn.on_acked(at(2), counts(1, 70), || true);
        assert!(!ecn.is_stopped(), "one arrived unchanged");
        assert_eq!(ecn.on_acked(at(2), counts(1, 71), || true), Meaningless);
        assert!(ecn.is_stopped());
        assert_eq!(
            ecn.on_acked(at(2), counts(1, 80), || true),
            Clear,
            "sent before"
        );
        assert!(ecn.is_stopped() && !ecn.trial_due(at(601)) && ecn.trial_due(at(602)));
        ecn.on_acked(at(603), counts(2, 80), || true);
        assert!(!ecn.is_stopped());
    }
}
