//! A peer's deadlines: what happens when time passes.

use super::life::{SilenceLimits, Verdict};
use super::{Closing, Connection, Peer};
use crate::counters::LinkState;
use crate::credit::{Shares, Tenure};
use crate::event::{EndReason, Event};
use crate::log::LogRecord;
use crate::shared::Shared;
use suci_link::recovery::TimerAction;
use suci_link::time::{Duration, Instant, earlier, nanos};
use suci_link::types::{ChannelId, ProtocolError};
use suci_link::{limits, planted};

/// A silent peer is asked for a sign of life this many times per silence timeout.
const KEEP_ALIVES: u32 = 3;

/// Least silence timeout while one side has no room. Then a REFUSED comes every second or so, of
/// which several may be lost.
const PUT_OFF: Duration = Duration::from_secs(6);

/// The earliest of the noted times; [`Instant::MAX`] if none was noted.
struct Earliest(Instant);

impl Earliest {
    #[inline]
    fn note(&mut self, at: Option<Instant>) {
        self.0 = self.0.min(at.unwrap_or(Instant::MAX));
    }
}

impl Peer {
    /// Returns the next time at which [`Peer::on_timeout`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let mut earliest = Earliest(Instant::MAX);
        earliest.note(self.attempt_at());
        earliest.note(self.lingering);
        earliest.note(self.closing_deadline());
        earliest.note(self.steering_deadline());
        earliest.note(self.session.outbox.next_deadline());
        if let Some(connection) = &self.connection
            && connection.link.numbers.peek().is_some()
        {
            connection.note_deadlines(&mut earliest);
            earliest.note(self.reopens_at());
        }
        // Usually an acknowledgement or a probe is due long before.
        if earliest.0 > self.silent_from() || self.life.has_reports() {
            earliest.note(self.life.deadline(self.silence_limits()));
            earliest.note(self.keep_alive_at());
        }
        (earliest.0 < Instant::MAX).then_some(earliest.0)
    }

    /// Returns when another connection is begun because the peer took the slot of this one and does
    /// not answer that messages wait: a HELLO needs no number. Without it the next question may
    /// have to wait, and its answer UNKNOWN may be held back.
    fn reopens_at(&self) -> Option<Instant> {
        let connection = self.connection.as_ref()?;
        let pto = || connection.link.probe_timeout();
        let at = connection.link.credit.unanswered_at(pto)?;
        let waits = !self.session.outbox.is_empty() && self.lingering.is_none();
        (waits && self.attempt.is_none()).then_some(at)
    }

    /// Returns the time before which the peer's silence means nothing.
    fn silent_from(&self) -> Instant {
        let interval = nanos(self.options.silence_timeout) / u64::from(KEEP_ALIVES);
        let heard = self.life.last_heard().as_nanos();
        let at = Instant::from_nanos(
            heard.saturating_add(interval.min(nanos(self.options.give_up_after))),
        );
        self.life.pauses_at().map_or(at, |pause| pause.min(at))
    }

    /// Returns the deadline of acknowledgements alone.
    pub(crate) fn ack_deadline(&self) -> Option<Instant> {
        self.connection.as_ref()?.link.ack_deadline()
    }

    /// Returns the limits of this peer's silence now.
    pub(crate) fn silence_limits(&self) -> SilenceLimits {
        let mut limits = SilenceLimits {
            silence_timeout: self.options.silence_timeout,
            give_up_after: self.options.give_up_after,
            presumed_alive: self.is_presumed_alive(),
            closed_port: self.closed_port_limit(),
        };
        if self.put_off && !self.life.is_refused_for_good() {
            limits.silence_timeout = self.options.silence_timeout.max(PUT_OFF);
        }
        limits
    }

    /// Returns true if silence shows nothing about the peer. A supervised peer that refuses this
    /// node is not silent.
    fn is_presumed_alive(&self) -> bool {
        // If the port is closed, no process computes. What the process of an earlier session
        // announced says nothing about the one that is called now.
        let computes = self.unattended && self.session.connected && !self.life.is_port_closed();
        computes || (self.supervised && !self.life.is_refused_for_good())
    }

    fn closing_deadline(&self) -> Option<Instant> {
        match self.closing {
            Closing::Open => None,
            Closing::Draining { deadline } | Closing::Sent { deadline } => Some(deadline),
        }
    }

    /// Handles that the peer does not know our connection any more. If the session was about to
    /// end, it has ended; otherwise another connection is made.
    pub(crate) fn on_forgotten(&mut self, now: Instant, token: u64, shared: &mut Shared) {
        // Either side took the other's slot away.
        let over = |c: &Connection| c.grant.is_dismissed() || c.link.credit.is_reclaimed();
        if matches!(self.closing, Closing::Sent { .. }) {
            self.end(now, EndReason::ClosedHere, shared);
        } else if self.connection.as_deref().is_some_and(over) {
            self.give_up_slot(now, shared);
        } else {
            self.open(now, token);
        }
    }

    /// Returns true if anything waits for the peer's answer.
    pub(crate) fn is_waiting(&self) -> bool {
        let unanswered = self
            .connection
            .as_ref()
            .is_some_and(|c| c.link.recovery.has_eliciting_in_flight());
        self.has_unfinished() || unanswered && self.lingering.is_none()
    }

    /// Returns true if anything but a packet in flight waits for the peer's answer, or if the peer
    /// is watched.
    fn has_unfinished(&self) -> bool {
        let unfinished = !self.session.outbox.is_empty()
            || self.session.inbox.has_unfinished()
            || self.session.open_calls > 0
            || self.awaited > 0
            || self.closing != Closing::Open;
        let watched = self.options.keep_alive && self.connection.is_some();
        self.lingering.is_none() && (unfinished || watched)
    }

    /// Returns when a peer that was not heard for a while is next asked for a sign of life: a peer
    /// that streamed, a watched idle peer, or one for which something waits. Often no packet in
    /// flight elicits an answer then: something waits for credit, for the answer to an RTS, or for
    /// the rest of a large message. Or probes are rare.
    fn keep_alive_at(&self) -> Option<Instant> {
        let connection = self.connection.as_ref()?;
        let none_elicits = !connection.link.recovery.has_eliciting_in_flight();
        let open = !self.session.outbox.is_empty() || self.session.inbox.has_unfinished();
        // Packets in flight already probe a silent peer, ever more seldom. On a path that takes
        // longer than a keep-alive, the question of the last one would be reason for the next.
        let due = match self.life.link() {
            LinkState::Up => self.has_unfinished(),
            _ => open && none_elicits,
        };
        let pinging = connection.link.pending.ping || connection.link.numbers.peek().is_none();
        if pinging || self.lingering.is_some() {
            return None;
        }
        let again = || {
            self.life.last_heard().max(self.kept_alive) + self.options.silence_timeout / KEEP_ALIVES
        };
        let paused = self.life.pauses_at().filter(|_| none_elicits);
        earlier(paused, due.then(again))
    }

    /// Does everything that is due at `now`.
    pub(crate) fn on_timeout(&mut self, now: Instant, shared: &mut Shared) {
        self.on_lingering_over(now, shared);
        self.expire_messages(now, shared);
        if self.keep_alive_at().is_some_and(|at| at <= now) {
            self.kept_alive = now;
            self.life.end_stream();
            self.ask_for_sign_of_life();
        }
        if self.reopens_at().is_some_and(|at| at <= now) {
            let token = shared.random();
            self.open(now, token);
        }
        if self.steering_deadline().is_some_and(|at| at <= now) {
            self.consult(now);
        }
        self.on_recovery_timeout(now, shared);
        let patience = self.silence_limits().give_up_after;
        if let Some(connection) = &mut self.connection {
            shared.shares.expire(&mut connection.grant, now);
            connection.repay_previous(now, &mut shared.shares);
            connection.reclaim_if_due(now, &mut shared.shares);
            if shared.shares.ignores_reclaim(&connection.grant, patience) {
                // Otherwise other peers would never get this credit.
                self.fail(now, ProtocolError::Limit("unanswered RECLAIMs"), shared);
            }
        }
        self.on_closing_deadline(now, shared);
        self.judge_silence(now, shared);
    }

    /// Cancels the messages whose deadline passed before any part of them was sent. Timers may run
    /// after packets are built, so this runs before both.
    pub(super) fn expire_messages(&mut self, now: Instant, shared: &mut Shared) {
        let deadline = self.session.outbox.next_deadline();
        if deadline.is_some_and(|at| at <= now) {
            self.session.outbox.expire(planted_expiry(now));
            self.report_completions(shared);
        }
    }

    /// Cancels messages, as [`Engine::cancel`](crate::Engine::cancel) says.
    pub(crate) fn cancel(&mut self, channel: ChannelId, token: u64, shared: &mut Shared) -> u64 {
        let cancelled = self.session.outbox.cancel(channel, token);
        self.report_completions(shared);
        cancelled
    }

    fn on_recovery_timeout(&mut self, now: Instant, shared: &mut Shared) {
        let repeats = self.is_up() && !self.session.manual;
        let Some(connection) = &mut self.connection else {
            return;
        };
        let action = connection.link.on_timeout(now, repeats, &mut self.session);
        connection.log_resized(now, &mut shared.log);
        match action {
            TimerAction::None => {}
            TimerAction::LossesDeclared(lost) => {
                shared.counters.packets_lost += u64::from(lost.packets);
                self.traffic.packets_lost += u64::from(lost.packets);
                self.report_narrow(now, shared);
            }
            TimerAction::Probe { .. } => {
                shared.counters.probes += 1;
                self.traffic.probes += 1;
            }
        }
    }

    /// Drops the connection when the time for answering repeated CLOSEs is over. Later ones are
    /// answered by UNKNOWN while this process lives. If it is about to end, all its answers may
    /// have been lost, so it sends a CLOSE, too.
    fn on_lingering_over(&mut self, now: Instant, shared: &mut Shared) {
        if self.lingering.is_some_and(|until| until <= now) {
            if shared.closing {
                self.send_final_close(shared.close_code(), shared);
            }
            self.drop_connection(shared);
        }
    }

    fn on_closing_deadline(&mut self, now: Instant, shared: &mut Shared) {
        if self
            .closing_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            self.leave(now, EndReason::ClosedHere, shared);
        }
    }

    /// Ends the session because the program gives the peer up.
    pub(crate) fn reset(&mut self, now: Instant, shared: &mut Shared) {
        self.leave(now, EndReason::Reset, shared);
    }

    /// Ends the session without waiting. The peer is sent CLOSE; if all copies are lost, UNKNOWN
    /// tells it while this process lives.
    fn leave(&mut self, now: Instant, reason: EndReason, shared: &mut Shared) {
        if self.lingering.is_none() {
            self.send_final_close(shared.close_code(), shared);
        }
        self.end(now, reason, shared);
    }

    fn judge_silence(&mut self, now: Instant, shared: &mut Shared) {
        match self.life.judge(now, self.silence_limits()) {
            Verdict::Unchanged => {}
            Verdict::Lost if self.closing != Closing::Open && self.is_out_of_reach() => {
                self.leave(now, EndReason::ClosedHere, shared);
            }
            Verdict::Lost => {
                let (node, cause) = (self.node, self.life.cause());
                shared.log.add(now, || LogRecord::Lost {
                    peer: node,
                    at: self.path_address(),
                    cause,
                });
                self.push_event(Event::Lost { node, cause }, &mut shared.notices);
                shared.notices.lost.insert(node);
                self.end_calls_if_dead(&mut shared.notices);
                if self.life.is_gone() {
                    return self.end(now, EndReason::ProcessDied, shared);
                }
                if let Some(connection) = &mut self.connection
                    && connection.link.recovery.in_flight() > limits::MIN_MTU as u64
                {
                    connection.link.mtu.on_peer_lost();
                    connection.link.mtu_changed();
                    connection.log_resized(now, &mut shared.log);
                }
                // The peer may have restarted at an address in the book, and not know this
                // connection.
                let token = shared.random();
                self.open(now, token);
            }
            Verdict::Quiet => self.on_quiet(now, shared),
            Verdict::GiveUp => self.end(now, EndReason::Silent, shared),
            Verdict::Absent => self.tell_absent(&mut shared.notices),
        }
    }

    /// Handles a quiet peer: its engine does not run, so it is probed on its path only, within its
    /// grants. HELLOs would pile up in its buffer meanwhile. If it restarts at the same address,
    /// UNKNOWN or its launcher tells us.
    fn on_quiet(&mut self, now: Instant, shared: &mut Shared) {
        let node = self.node;
        shared.log.add(now, || LogRecord::Quiet { peer: node });
        self.push_event(Event::Quiet { node }, &mut shared.notices);
        let elsewhere = |path| !self.book.is_empty() && !self.book.contains(path);
        if self.path_address().is_some_and(elsewhere) {
            let token = shared.random();
            self.open(now, token);
        }
    }

    /// Closes the session once everything is acknowledged, at the latest at `deadline`.
    pub(crate) fn close(&mut self, deadline: Instant) {
        if self.closing == Closing::Open {
            self.closing = Closing::Draining { deadline };
        }
    }

    /// Makes CLOSE due again on the next connection: the one that carried it is gone, and CLOSE may
    /// be lost.
    pub(super) fn close_again(&mut self) {
        if let Closing::Sent { deadline } = self.closing {
            self.closing = Closing::Draining { deadline };
        }
    }

    /// Sends CLOSE when draining is done and there is a connection. A session unknown to the peer
    /// just ends; but after an INIT the peer may have a session, which would stay without CLOSE. A
    /// session that no process can take part in ends, too, even with messages queued.
    #[inline(always)]
    pub(crate) fn advance_closing(&mut self, now: Instant, shared: &mut Shared) {
        if self.closing != Closing::Open && self.is_out_of_reach() {
            return self.leave(now, EndReason::ClosedHere, shared);
        }
        let Closing::Draining { deadline } = self.closing else {
            return;
        };
        let has_offer = self.has_offer();
        // A peer that knows nothing of the session needs no void messages.
        let is_known = self.session.is_established() || has_offer;
        let outbox = &self.session.outbox;
        if !outbox.is_empty() && (is_known || !outbox.has_voids_only()) {
            return;
        }
        match &mut self.connection {
            Some(connection) if self.lingering.is_none() => {
                connection.link.pending.close = true;
                self.closing = Closing::Sent { deadline };
            }
            // The connection gave up its slot, or waits for ACCEPT, and the peer must be told of
            // the end.
            None if (self.session.is_established() && !self.is_itself) || has_offer => {
                let token = shared.random();
                self.open(now, token);
            }
            _ => self.end(now, EndReason::ClosedHere, shared),
        }
    }

    /// Returns true if no process can receive the waiting messages. Either the process that has the
    /// session has ended, or the peer's last process closed its node before this session began; and
    /// no other process was heard since. Or the peer is lost, for which sockets fail, and only
    /// their messages wait: they are worth nothing if the peer comes back.
    fn is_out_of_reach(&self) -> bool {
        let has_left = || self.life.has_left() && !self.session.is_established();
        let is_lost = self.life.link() == LinkState::Lost;
        self.life.is_dead() || has_left() || (is_lost && self.has_only_failed_sockets())
    }

    /// Returns true if messages of sockets wait, and none of the program.
    fn has_only_failed_sockets(&self) -> bool {
        let outbox = &self.session.outbox;
        let of_sockets = outbox.open_of_sockets();
        let open = outbox.queued().open().messages;
        of_sockets > 0 && open == of_sockets + outbox.open_internal()
    }

    /// Handles a gap: the socket was not drained for `late` (F16).
    pub(crate) fn on_gap(&mut self, now: Instant, late: Duration) {
        self.life.shift(late);
        if let Some(connection) = &mut self.connection {
            let delay = connection.link.params.max_ack_delay;
            connection.link.recovery.on_resumed_after_gap(now, delay);
        }
    }
}

impl Peer {
    /// Asks this peer to return unused credit while socket credit is short. Returns true if a
    /// packet must be sent.
    pub(crate) fn balance_credit(&mut self, now: Instant, shares: &mut Shares) -> bool {
        let Some(connection) = &mut self.connection else {
            return false;
        };
        shares.satisfy_if_silent(&mut connection.grant, now);
        connection.reclaim_if_due(now, shares);
        connection.link.pending.reclaim.is_some() || connection.grant.update_due()
    }

    /// Gives credit to this peer, which waited for some. Returns false if it did not take any.
    pub(crate) fn serve(&mut self, now: Instant, shares: &mut Shares) -> bool {
        let Some(connection) = &mut self.connection else {
            return false;
        };
        shares.serve(&mut connection.grant, now);
        !connection.grant.is_dormant()
    }
}

/// Returns `now`, or a second later with the planted fault `expires-early`.
fn planted_expiry(now: Instant) -> Instant {
    match planted("expires-early") {
        true => now + Duration::from_secs(1),
        false => now,
    }
}

impl Connection {
    fn note_deadlines(&self, earliest: &mut Earliest) {
        earliest.note(Some(self.link.deadline()));
        earliest.note(self.grant.lapse_at());
        for previous in &self.previous {
            earliest.note(previous.lapse_at());
        }
        earliest.note(self.reclaim_at);
    }

    /// Releases the grants of earlier connections that lapsed. Usually they are released when this
    /// connection is heard, but the peer may have died before that.
    fn repay_previous(&mut self, now: Instant, shares: &mut Shares) {
        self.previous.retain_mut(|grant| {
            let stays = grant.lapse_at().is_some_and(|at| at > now);
            if !stays {
                shares.release(grant);
            }
            stays
        });
    }

    fn reclaim_if_due(&mut self, now: Instant, shares: &mut Shares) {
        let tenure = Tenure::of(self.link.recovery.rtt().pto(Duration::ZERO));
        if shares.reclaim_due(&self.grant, tenure, now) {
            self.link.pending.reclaim = shares.reclaim(&mut self.grant, now);
            // The peer needs the current limit for a correct RETURN.
            self.link.pending.credit = true;
        }
        self.reclaim_at = shares.reclaim_at(&self.grant);
    }
}
