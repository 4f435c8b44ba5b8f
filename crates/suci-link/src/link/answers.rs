//! The consequences of the peer's acknowledgements, and of their absence, for window, packet size
//! and credit.

use super::ecn::EcnSignal;
use super::{CongestionUndo, Fate, Link};
use crate::congestion::{AckSample, Cause, CongestionEvent, initial_window};
use crate::limits::{CONTROL_PACKET, MIN_MTU};
use crate::recovery::{AckSummary, Content, LossSummary, TimerAction};
use crate::time::{Duration, Instant};
use crate::wire::EcnCounts;

impl<T: Content> Link<T> {
    /// Passes an acknowledgement on to credit, congestion control and path MTU.
    pub(super) fn on_ack_summary(
        &mut self,
        now: Instant,
        in_flight_before: u64,
        summary: &AckSummary,
    ) {
        if summary.spurious > 0 && self.undo.on_spurious(&self.recovery) {
            self.congestion.on_spurious(now);
        }
        if let Some(sent_at) = summary.largest_newly_acked_sent_at {
            self.since_ping = 0;
            self.pinged_at = self.pinged_at.filter(|pinged_at| *pinged_at > sent_at);
            self.pending.probes = 0;
            self.pending.small_ping = false;
            self.credit.on_acked(sent_at, now);
            if let Some(rate) = summary.rate {
                self.delivery_rate = rate.per_second();
                self.cwnd_validation
                    .on_sample(now, self.recovery.rtt(), &rate);
            }
            if summary.newly_acked_bytes > 0 {
                let sample = AckSample {
                    bytes: summary.newly_acked_bytes,
                    in_flight_before,
                    in_flight: self.recovery.in_flight(),
                    delivered: self.recovery.delivered(),
                    largest_sent_at: sent_at,
                    rtt: self.recovery.rtt(),
                    path: summary.path_sample,
                    rate: summary.rate,
                    app_limited: self.app_limited,
                    paced: self.is_paced_by_window(now),
                };
                self.congestion.on_ack(now, &sample);
            }
        }
        if summary.largest_acked_size > 0 {
            self.mtu.on_acked(summary.largest_acked_size);
        }
        if let Some(size) = summary.mtu_probe_acked
            && self.mtu.on_probe_acked(size)
        {
            self.mtu_changed();
        }
        self.on_losses(now, &summary.lost);
    }

    /// Handles packets that were declared lost.
    fn on_losses(&mut self, now: Instant, lost: &LossSummary) {
        if let Some(size) = lost.mtu_probe_lost {
            self.mtu.on_probe_lost(now, size);
        }
        let Some(sent_at) = lost.largest_lost_sent_at else {
            return;
        };
        self.ecn.on_lost();
        let too_large = lost.largest_size > self.mtu.current();
        let fell = self.mtu.on_lost(now, lost.largest_size, sent_at);
        if fell {
            self.mtu_changed();
        }
        if fell || too_large {
            self.on_too_large(now, sent_at, lost.persistent);
            return;
        }
        let overlaps = self.undo.on_losses(&self.recovery);
        self.congestion.on_congestion(
            now,
            &CongestionEvent {
                cause: Cause::Loss,
                bytes_lost: lost.bytes,
                largest_lost_sent_at: sent_at,
                persistent: lost.persistent,
                in_flight: self.recovery.in_flight(),
                overlaps,
            },
        );
    }

    /// Starts congestion control anew after packets were lost for their size, which is no
    /// congestion. After a long silence size may not be the only cause: then it starts with the
    /// smallest window (RFC 9002 7.6, RFC 4821 7.7).
    fn on_too_large(&mut self, now: Instant, sent_at: Instant, persistent: bool) {
        // Once for all packets in flight.
        if self.anew_at.is_some_and(|at| sent_at <= at) {
            return;
        }
        self.anew_at = Some(now);
        // Earlier losses that prove spurious from now on concern the former state of the
        // controller.
        self.undo = CongestionUndo::default();
        let most = if persistent { 0 } else { u64::MAX };
        self.congestion.restart(self.mtu.current(), most);
    }

    /// Handles the peer's counts of ECN marks (RFC 3168).
    pub(super) fn on_ecn_counts(&mut self, now: Instant, counts: EcnCounts, summary: &AckSummary) {
        let Some(sent_at) = summary.largest_newly_acked_sent_at else {
            return;
        };
        let (window, mtu) = (|| self.congestion.window() as f64, self.mtu.current());
        match self
            .ecn
            .on_acked(now, counts, || window() <= initial_window(mtu))
        {
            EcnSignal::Clear => return,
            EcnSignal::Congested => {}
            // The controller took earlier CE marks for congestion.
            EcnSignal::Meaningless => {
                self.congestion.restart(self.mtu.current(), u64::MAX);
                return;
            }
        }
        // A reaction to a mark is never undone, nor are the reactions before it.
        self.undo = CongestionUndo::default();
        self.congestion.on_congestion(
            now,
            &CongestionEvent {
                cause: Cause::Ecn,
                bytes_lost: 0,
                largest_lost_sent_at: sent_at,
                persistent: false,
                in_flight: self.recovery.in_flight(),
                overlaps: false,
            },
        );
    }

    /// Does what is due: asks for a first sign of life, and handles the loss timer or the probe
    /// timer. `repeats`: a probe may repeat what is in flight. Returns what was done.
    pub fn on_timeout(
        &mut self,
        now: Instant,
        repeats: bool,
        cargo: &mut impl Fate<T>,
    ) -> TimerAction {
        self.ask_first_question(now);
        let max_ack_delay = self.params.max_ack_delay;
        let (recovery, mut fates) = self.fates(cargo);
        let action = recovery.on_timeout(now, max_ack_delay, &mut fates);
        match &action {
            TimerAction::None => {}
            TimerAction::LossesDeclared(lost) => self.on_losses(now, lost),
            TimerAction::Probe { count } => {
                self.on_probe_due(*count);
                // Beyond the credit limit a probe stays a PING, of the size of a control packet.
                let number = self.numbers.peek();
                if repeats && number.is_some_and(|n| self.credit.may_send_data(n, now)) {
                    let (recovery, mut fates) = self.fates(cargo);
                    recovery.repeat_oldest(*count, &mut fates);
                }
            }
        }
        action
    }

    /// Handles the socket's refusal of a packet of `size` bytes: it and its like never left this
    /// machine. Returns true if the path does not carry packets that every path must.
    pub fn on_too_big(&mut self, now: Instant, size: usize, cargo: &mut impl Fate<T>) -> bool {
        self.mtu.on_too_big(now, size);
        self.mtu_changed();
        let largest = self.mtu.current();
        let (recovery, mut fates) = self.fates(cargo);
        recovery.drop_larger_than(largest, &mut fates);
        self.mtu.on_floor_refused(size)
    }

    /// Handles the probe timer: the next `count` packets may go whatever window and pacer say, and
    /// ask for an acknowledgement.
    fn on_probe_due(&mut self, count: u32) {
        self.pending.ping = true;
        // The peer may be silent because the CREDIT was lost without which it cannot answer.
        self.pending.credit = true;
        self.pending.probes = count;
        let timeouts = self.recovery.pto_count();
        self.ecn.on_probe_timeout(timeouts);
        let large = self.recovery.in_flight() > MIN_MTU as u64;
        if large && self.mtu.on_probe_timeout(timeouts) {
            self.mtu_changed();
        }
        // Full packets alone would all be lost on a path that does not carry them, and nothing
        // would tell it from silence.
        let data = self.recovery.in_flight() > CONTROL_PACKET as u64;
        if data && self.mtu.suspects_floor(timeouts) {
            self.pending.small_ping = true;
            self.pending.probes = 2;
        }
    }

    /// Forgets what was measured on the path before: packets go to another address now. The first
    /// answer took `round_trip`. The caller [begins](Self::begin_on_route) on the new path before,
    /// and gives up what is in flight.
    pub(super) fn on_moved(&mut self, round_trip: Duration) {
        self.ecn.on_path_changed();
        self.undo = CongestionUndo::default();
        self.cwnd_validation.on_path_changed();
        self.pinged_at = None;
        self.recovery.on_path_changed(round_trip);
    }

    /// Returns when an acknowledgement has waited long enough for a packet that carries it, unless
    /// it waits for the next cycle.
    #[must_use]
    pub fn ack_deadline(&self) -> Option<Instant> {
        self.received.deadline().filter(|_| !self.acks_on_poll())
    }

    /// Returns the next time at which something is due on the link; [`Instant::MAX`] if nothing is.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        let mut earliest = Instant::MAX;
        let mut note = |at: Option<Instant>| earliest = earliest.min(at.unwrap_or(Instant::MAX));
        // While even the reserve for control packets is used up, these deadlines wait, too.
        let not_before = |at: Option<Instant>| at.map(|at| at.max(self.control_at.unwrap_or(at)));
        note(not_before(self.ack_deadline()));
        note(self.recovery.next_timeout(self.params.max_ack_delay));
        note(self.paced_until);
        note(self.capped_until);
        note(self.control_at);
        note(not_before(self.first_question_at()));
        if self.may_elicit() && self.may_ask() {
            note(not_before(self.path.deadline()));
            note(not_before(self.credit.blocked_timer()));
        }
        earliest
    }
}
