//! The state of the link to a peer: silence, Lost, giving up.
//!
//! Silence counts only while something is outstanding or the peer is watched, and only while our
//! own driver ran: the engine shifts the times by any time that passed undrained. A peer is Lost
//! only if it was asked: a node without credit for a probe gets no answer, which shows nothing.

use super::absence::KnownAbsence;
use super::mode::SHORT;
use super::port_reports::{PortReports, Question, Reported};
use crate::counters::LinkState;
use crate::event::LostCause;
use crate::handshake::LONGEST_WAIT;
use suci_link::time::{Duration, Instant, earlier};

/// More packets than one exchange has ([`SHORT`]) are a stream if each comes within this time after
/// the one before. If the next one does not, the sender has paused, or this end's address has
/// changed, which only this end can tell the sender.
const PAUSE: Duration = Duration::from_millis(500);

/// How long it takes to try the keys of both sides, two each at most: an attempt that is refused is
/// followed by the next one after [`LONGEST_WAIT`].
const KEYS_TRIED: Duration = LONGEST_WAIT.saturating_mul(4);

/// The judgement of a peer's silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The state does not change.
    Unchanged,
    /// The silence timeout has passed: the peer is lost, for now.
    Lost,
    /// The silence timeout has passed for a peer that is [presumed
    /// alive](SilenceLimits::presumed_alive).
    Quiet,
    /// `give_up_after` has passed.
    GiveUp,
    /// The network reports that the peer's port is closed, and a question stayed unanswered for a
    /// few probe timeouts. Reports may be forged, so the peer is not lost. But a program that asks
    /// for a new connection need not wait.
    Absent,
}

/// The state of another process's claim to the peer's node ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contest {
    /// The peer is gone.
    Won,
    /// The peer was asked for a sign of life a moment ago, or is probably gone.
    Open,
    /// The peer may be alive.
    Lost,
}

/// The limits of a peer's silence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SilenceLimits {
    pub(crate) silence_timeout: Duration,
    pub(crate) give_up_after: Duration,
    /// Silence of any length does not show the peer's end: it announced that its engine does not
    /// run while its program computes, or its launcher reports the ends of its processes.
    pub(crate) presumed_alive: bool,
    /// How long a peer may be silent whose port is closed, as this machine's kernel reports.
    pub(crate) closed_port: Duration,
}

/// The link's state and its points in time.
#[derive(Debug)]
pub(crate) struct Life {
    link: LinkState,
    /// When an authentic packet was last heard.
    heard: Instant,
    /// Packets of a stream received since the peer last acknowledged a packet of ours, or was asked
    /// to.
    streamed: u64,
    /// The time since which something has always been outstanding.
    waiting_since: Option<Instant>,
    /// When the first ack-eliciting packet (or HELLO) since the last sign of life was sent, and the
    /// time of the next one, at least an eighth of the silence timeout later.
    asked: Option<Instant>,
    asked_again: Option<Instant>,
    /// When the peer last answered that it has no room for us, or we had no room for it.
    put_off: Option<Instant>,
    /// The time since which another process claims this peer's node ID and the old path was not
    /// heard.
    contested_since: Option<Instant>,
    /// The newest claim of another process to this peer's node ID: its time, and the token of its
    /// first INIT.
    claim: Option<Box<(Instant, u64)>>,
    /// Reports about its port since it was last heard. Usually there are none.
    reports: Option<Box<PortReports>>,
    /// The launcher also reports that no other process will take its place.
    gone: bool,
    /// The peer's process closed its node: it opens no session again.
    left: bool,
    /// Why it may be silent: the newest report since it was last heard.
    cause: LostCause,
    /// When a side first refused a key of the other since the peer was last heard.
    key_refused_since: Option<Instant>,
}

impl Life {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            link: LinkState::Idle,
            heard: now,
            streamed: 0,
            waiting_since: None,
            asked: None,
            asked_again: None,
            put_off: None,
            contested_since: None,
            claim: None,
            reports: None,
            gone: false,
            left: false,
            cause: LostCause::NoAnswer,
            key_refused_since: None,
        }
    }

    /// Returns the state for the next session. A process that has ended for good stays gone, one
    /// that closed its node does not come back.
    pub(crate) fn for_next_session(&self, now: Instant) -> Self {
        Self {
            gone: self.gone,
            reports: self.gone.then(|| {
                Box::new(PortReports {
                    closed_since: Some(now),
                    ..PortReports::default()
                })
            }),
            left: self.left,
            ..Self::new(now)
        }
    }

    pub(crate) fn link(&self) -> LinkState {
        self.link
    }

    /// Notes that a connection is being opened.
    pub(crate) fn connecting(&mut self) {
        if self.link == LinkState::Idle {
            self.link = LinkState::Connecting;
        }
    }

    /// Notes that an authentic packet came. Returns true if the link came up by it.
    pub(crate) fn hear(&mut self, now: Instant) -> bool {
        self.heard = now;
        self.asked = None;
        self.asked_again = None;
        self.contested_since = None;
        self.forget_reports();
        self.left = false;
        self.cause = LostCause::NoAnswer;
        self.key_refused_since = None;
        let came_up = self.link != LinkState::Up;
        self.link = LinkState::Up;
        came_up
    }

    /// Forgets what was reported of the peer's port and of the end of its process.
    pub(crate) fn forget_reports(&mut self) {
        self.reports = None;
        self.gone = false;
    }

    /// Returns the result of earlier attempts since the peer was last heard.
    pub(super) fn known_absence(&self) -> Option<&KnownAbsence> {
        self.reports.as_ref()?.known_absence.as_ref()
    }

    /// Notes that all the reports came again.
    pub(super) fn renew_known_absence(&mut self, now: Instant) {
        let reports = self.reports.as_deref_mut();
        if let Some(known) = reports.and_then(|reports| reports.known_absence.as_mut()) {
            known.reported = now;
        }
    }

    /// Notes the result of an attempt.
    pub(super) fn set_known_absence(&mut self, known: KnownAbsence) {
        self.reports.get_or_insert_default().known_absence = Some(known);
    }

    /// Notes that `packets` packets came just now that ask for an acknowledgement. The peer was
    /// last heard before at `before`.
    pub(crate) fn on_streamed(&mut self, packets: u64, before: Instant) {
        let so_far = match self.heard < before + PAUSE {
            true => self.streamed,
            false => 0,
        };
        self.streamed = so_far.saturating_add(packets);
    }

    /// Ends the stream: the peer acknowledged a packet of ours, so it knows our address, or it was
    /// asked to.
    pub(crate) fn end_stream(&mut self) {
        self.streamed = 0;
    }

    /// Returns when a peer that streamed and paused should be asked.
    pub(crate) fn pauses_at(&self) -> Option<Instant> {
        (self.streamed > SHORT && self.link == LinkState::Up).then(|| self.heard + PAUSE)
    }

    /// Sets whether anything waits for the peer.
    pub(crate) fn set_waiting(&mut self, now: Instant, waiting: bool) {
        match (waiting, self.waiting_since) {
            (true, None) => self.waiting_since = Some(now),
            (false, Some(_)) => self.waiting_since = None,
            _ => {}
        }
    }

    fn silent_since(&self) -> Option<Instant> {
        self.waiting_since.map(|since| since.max(self.heard))
    }

    /// Notes that a packet was sent that a live peer answers.
    pub(crate) fn ask(&mut self, now: Instant, silence_timeout: Duration) {
        let first = *self.asked.get_or_insert(now);
        // Usually the first question is the only one.
        if self.asked_again.is_none() && now > first && now >= first + silence_timeout / 8 {
            self.asked_again = Some(now);
        }
    }

    /// Returns true if the peer is lost, or has left a question unanswered for at least `time`.
    pub(crate) fn is_silent(&self, now: Instant, time: Duration) -> bool {
        self.link == LinkState::Lost || self.asked.is_some_and(|at| now >= at + time)
    }

    /// Returns when the peer counts as lost by its silence, if nothing is heard meanwhile. The
    /// silence timeout counts from when something began to wait for the peer or, before it ever
    /// answered, from the first HELLO. The peer must have been asked twice, and had half of the
    /// timeout to answer the second question: without credit to ask, silence shows nothing, and a
    /// single question may be lost.
    fn lost_by_silence_at(&self, limits: SilenceLimits) -> Option<Instant> {
        let since = match self.link {
            LinkState::Up => self.silent_since(),
            LinkState::Connecting => self.asked,
            _ => None,
        };
        self.silent_at(since?, limits)
    }

    /// Returns when the peer counts as lost by its death, if nothing is heard meanwhile.
    fn lost_by_death_at(&self, limits: SilenceLimits) -> Option<Instant> {
        let may_die = matches!(
            self.link,
            LinkState::Up | LinkState::Connecting | LinkState::Quiet
        );
        self.dead_at(limits.closed_port).filter(|_| may_die)
    }

    /// Returns when the peer counts as dead, if nothing is heard meanwhile. This machine's kernel
    /// reported that its port is closed, or its launcher that its process has ended. The peer is
    /// dead when a question then stays unanswered for `closed_port`. If the kernel reports the same
    /// of that question, the silence before it counts, too: a peer whose port has changed would
    /// have been heard a moment ago. Whether anything waits for the peer does not matter.
    fn dead_at(&self, closed_port: Duration) -> Option<Instant> {
        let reports = self.reports.as_deref()?;
        let confirmed = reports.confirmed_at;
        let confirmed = confirmed.map(|at| at.max(self.heard + closed_port));
        let asked = reports.closed_since.zip(self.asked);
        earlier(
            confirmed,
            asked.map(|(closed, asked)| closed.max(asked) + closed_port),
        )
    }

    /// Returns when a peer counts as lost by a silence that began at `since` alone.
    fn silent_at(&self, since: Instant, limits: SilenceLimits) -> Option<Instant> {
        let asked = self.asked_again?;
        let since = self.put_off.map_or(since, |at| at.max(since));
        let timeout = limits.silence_timeout;
        Some((since + timeout).max(asked + timeout / 2))
    }

    /// Judges the silence at `now`; returns `Lost` and `Quiet` only once.
    pub(crate) fn judge(&mut self, now: Instant, limits: SilenceLimits) -> Verdict {
        let is_over = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        let dead = is_over(self.lost_by_death_at(limits));
        let silent = is_over(self.lost_by_silence_at(limits));
        if limits.presumed_alive && !dead {
            if silent {
                self.link = LinkState::Quiet;
                return Verdict::Quiet;
            }
            return Verdict::Unchanged;
        }
        if !limits.presumed_alive && is_over(self.given_up_at(limits)) {
            return Verdict::GiveUp;
        }
        if dead || silent {
            self.link = LinkState::Lost;
            if self.is_port_closed() {
                self.cause = LostCause::ProcessDied;
            }
            return Verdict::Lost;
        }
        let absent = is_over(self.absent_at(limits.closed_port));
        if let Some(reports) = self.reports.as_deref_mut().filter(|_| absent) {
            reports.absent = true;
            return Verdict::Absent;
        }
        Verdict::Unchanged
    }

    /// Notes the report of this machine's kernel that the port is closed to which `question` went.
    /// `next` is the first question that is sent from now on.
    pub(crate) fn on_port_closed(
        &mut self,
        now: Instant,
        question: Question,
        next: Option<Question>,
    ) -> Reported {
        let reports = self.reports.get_or_insert_default();
        if reports.closed_since.is_none() {
            reports.closed_since = Some(now);
            reports.next = next;
            return Reported::First;
        }
        match reports.next.is_some_and(|next| question.follows(next)) {
            true if reports.confirmed_at.is_none() => {
                reports.confirmed_at = Some(now);
                Reported::Again
            }
            _ => Reported::Known,
        }
    }

    /// Notes the network's report that the port is closed to which `question` went.
    pub(crate) fn on_port_reported(&mut self, now: Instant, question: Question) -> Reported {
        let reports = self.reports.get_or_insert_default();
        let late = reports.next.is_some_and(|next| !question.follows(next));
        if late || reports.reported_since.is_some() {
            return Reported::Known;
        }
        reports.reported_since = Some(now);
        Reported::First
    }

    /// Forgets the network's reports. Later ones count from the question `next` on, if there is
    /// one: reports of earlier questions come late.
    pub(crate) fn ask_again(&mut self, next: Option<Question>) {
        if let Some(reports) = &mut self.reports {
            reports.reported_since = None;
            reports.absent = false;
            reports.next = next;
        }
    }

    /// Returns true if no process seems to have the peer's port: see [`Verdict::Absent`].
    pub(crate) fn is_absent(&self) -> bool {
        self.reports
            .as_deref()
            .is_some_and(|reports| reports.absent)
    }

    /// Returns when the network's report counts as true: a question then stayed unanswered for
    /// `closed_port`.
    fn absent_at(&self, closed_port: Duration) -> Option<Instant> {
        let reports = self.reports.as_deref().filter(|reports| !reports.absent)?;
        let (reported, asked) = reports.reported_since.zip(self.asked)?;
        Some(reported.max(asked) + closed_port)
    }

    /// Notes the launcher's report that the peer's process has ended; `for_good`: that no other
    /// will take its place.
    pub(crate) fn on_process_ended(&mut self, now: Instant, for_good: bool) {
        let reports = self.reports.get_or_insert_default();
        reports.closed_since.get_or_insert(now);
        self.gone |= for_good;
    }

    /// Returns true if the process has ended for good, as far as nothing was heard from the peer
    /// since.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Returns true if this machine's kernel reported the port as closed, or the launcher the end
    /// of the process, since the peer was last heard.
    pub(crate) fn is_port_closed(&self) -> bool {
        let reports = self.reports.as_deref();
        reports.is_some_and(|reports| reports.closed_since.is_some())
    }

    /// Returns true if the peer's port was reported as closed since the peer was last heard.
    pub(crate) fn has_reports(&self) -> bool {
        self.reports.is_some()
    }

    /// Returns when [`Life::judge`] may have a new result.
    pub(crate) fn deadline(&self, limits: SilenceLimits) -> Option<Instant> {
        let given_up = self.given_up_at(limits);
        let given_up = given_up.filter(|_| !limits.presumed_alive);
        let absent = self.absent_at(limits.closed_port);
        let absent = absent.filter(|_| !limits.presumed_alive);
        let lost = earlier(
            self.lost_by_death_at(limits),
            self.lost_by_silence_at(limits),
        );
        earlier(earlier(lost, absent), given_up)
    }

    /// Returns when the session is given up, if nothing is heard meanwhile.
    fn given_up_at(&self, limits: SilenceLimits) -> Option<Instant> {
        Some(self.silent_since()? + limits.give_up_after)
    }

    /// Notes a report that may explain the peer's silence. A report changes nothing else: it may be
    /// forged.
    pub(crate) fn note_cause(&mut self, cause: LostCause) {
        self.cause = cause;
    }

    /// Notes that a side refused a key of the other. Returns true if the peer was not heard for as
    /// long as it takes to try all keys, and this one was refused after that.
    pub(crate) fn keys_differ(&mut self, now: Instant) -> bool {
        now >= *self.key_refused_since.get_or_insert(now) + KEYS_TRIED
    }

    /// Returns true if the process at the peer's address refused the handshake last, for another
    /// reason than a lack of room.
    pub(crate) fn is_refused_for_good(&self) -> bool {
        matches!(self.cause, LostCause::Refused(reason) if !reason.is_for_now())
    }

    /// Returns the cause of the peer's silence, as far as it is known.
    pub(crate) fn cause(&self) -> LostCause {
        self.cause
    }

    /// Notes that the peer answered that it has no room, or that we had no room for it: it is not
    /// lost. The time until it is given up does not change.
    pub(crate) fn put_off(&mut self, now: Instant) {
        self.put_off = Some(now);
        self.left = false;
        // A process answered, perhaps another one.
        self.ask_again(None);
        if let Some(reports) = &mut self.reports {
            reports.known_absence = None;
        }
    }

    /// Notes that the peer's process closes its node.
    pub(crate) fn leave(&mut self) {
        self.left = true;
    }

    /// Returns true if the peer's process closed its node, and no process of the peer gave a sign
    /// of life since.
    pub(crate) fn has_left(&self) -> bool {
        self.left
    }

    /// Returns true if the process that has the session has ended: this machine's kernel or the
    /// launcher reported it, and a question stayed unanswered.
    pub(crate) fn is_dead(&self) -> bool {
        self.link == LinkState::Lost && self.is_port_closed()
    }

    /// Returns when an authentic packet was last heard.
    pub(crate) fn last_heard(&self) -> Instant {
        self.heard
    }

    /// Returns when the peer last gave any sign of life.
    pub(crate) fn sign_at(&self) -> Instant {
        self.put_off.map_or(self.heard, |at| at.max(self.heard))
    }

    /// Judges the claim of another process to the node ID, by an INIT with this `token`. The claim
    /// wins once the old path has left questions unanswered for `timeout`: the challenges that the
    /// first claim caused, or earlier probes that found the peer lost. If this machine's kernel
    /// reports that the peer's port is closed, the claim wins after `closed_port`. The INIT of a
    /// claim that is not decided yet is repeated.
    pub(crate) fn contest(
        &mut self,
        now: Instant,
        token: u64,
        timeout: Duration,
        closed_port: Duration,
    ) -> Contest {
        let since = *self.contested_since.get_or_insert(now);
        let dead = self.dead_at(closed_port).is_some_and(|at| now >= at);
        if dead || self.link == LinkState::Lost || now.since(since) >= timeout {
            return Contest::Won;
        }
        let repeated = self
            .claim
            .as_deref()
            .is_some_and(|(at, first)| *first == token || now.since(*at) < LONGEST_WAIT);
        if !repeated {
            self.claim = Some(Box::new((now, token)));
        }
        if repeated && !self.is_port_closed() {
            Contest::Lost
        } else {
            Contest::Open
        }
    }

    /// Shifts all times by `late`, for which the socket was not drained: it was not silence.
    pub(crate) fn shift(&mut self, late: Duration) {
        self.heard += late;
        let marks = [
            &mut self.waiting_since,
            &mut self.asked,
            &mut self.asked_again,
            &mut self.put_off,
            &mut self.contested_since,
            &mut self.key_refused_since,
        ];
        for mark in marks.into_iter().flatten() {
            *mark += late;
        }
        if let Some(reports) = &mut self.reports {
            reports.shift(late);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::RefusedReason;

    const LIMITS: SilenceLimits = SilenceLimits {
        silence_timeout: Duration::from_secs(10),
        give_up_after: Duration::from_secs(300),
        presumed_alive: false,
        closed_port: Duration::from_millis(50),
    };

    const TIMEOUT: Duration = LIMITS.silence_timeout;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// Asks the peer at `second`, and again two seconds later.
    fn ask(life: &mut Life, second: u64) {
        life.ask(at(second), LIMITS.silence_timeout);
        life.ask(at(second + 2), LIMITS.silence_timeout);
    }

    fn up() -> Life {
        let mut life = Life::new(at(0));
        assert!(life.hear(at(0)));
        life
    }

    /// This machine's kernel reports the port as closed to which the packet `number` went. The next
    /// packet has the number 10.
    fn closed(life: &mut Life, now: Instant, number: u64) -> Reported {
        life.on_port_closed(now, Question::Packet(number), Some(Question::Packet(10)))
    }

    #[test]
    fn f17_lost_once_then_given_up() {
        let mut life = up();
        life.set_waiting(at(1), true);
        ask(&mut life, 1);
        assert_eq!(life.judge(at(10), LIMITS), Verdict::Unchanged);
        assert_eq!(life.judge(at(11), LIMITS), Verdict::Lost);
        assert_eq!(life.judge(at(12), LIMITS), Verdict::Unchanged, "said once");
        assert_eq!(life.deadline(LIMITS), Some(at(301)));
        assert_eq!(life.judge(at(301), LIMITS), Verdict::GiveUp);
    }

    #[test]
    fn f17_an_unattended_peer_is_quiet_and_never_given_up() {
        let limits = SilenceLimits {
            presumed_alive: true,
            ..LIMITS
        };
        let mut life = up();
        life.set_waiting(at(0), true);
        ask(&mut life, 0);
        assert_eq!(life.deadline(limits), Some(at(10)));
        assert_eq!(life.judge(at(10), limits), Verdict::Quiet);
        assert_eq!(life.link(), LinkState::Quiet);
        assert_eq!(life.deadline(limits), None, "nothing follows");
        assert_eq!(life.judge(at(100_000), limits), Verdict::Unchanged);
        assert!(life.hear(at(100_001)), "up again");
    }

    #[test]
    fn lost_is_undone_by_an_answer() {
        let mut life = up();
        life.set_waiting(at(0), true);
        ask(&mut life, 0);
        assert_eq!(life.judge(at(10), LIMITS), Verdict::Lost);
        assert!(life.hear(at(20)), "came up again");
        assert!(!life.hear(at(21)), "once");
        ask(&mut life, 21);
        assert_eq!(life.deadline(LIMITS), Some(at(31)));
    }

    #[test]
    fn f17_a_peer_without_room_is_not_lost_but_still_given_up() {
        let mut life = up();
        life.set_waiting(at(0), true);
        ask(&mut life, 0);
        for second in 1..300 {
            life.put_off(at(second));
            assert_eq!(life.judge(at(second), LIMITS), Verdict::Unchanged);
        }
        assert_eq!(life.deadline(LIMITS), Some(at(300)));
        assert_eq!(life.judge(at(300), LIMITS), Verdict::GiveUp);
        let mut life = up();
        life.set_waiting(at(0), true);
        ask(&mut life, 0);
        life.put_off(at(5));
        assert_eq!(life.deadline(LIMITS), Some(at(15)));
        assert_eq!(life.judge(at(15), LIMITS), Verdict::Lost);
    }

    #[test]
    fn f17_a_peer_that_was_not_asked_is_not_lost() {
        let mut life = up();
        life.set_waiting(at(0), true);
        assert_eq!(life.deadline(LIMITS), Some(at(300)), "given up at last");
        assert_eq!(life.judge(at(20), LIMITS), Verdict::Unchanged);
        life.ask(at(20), LIMITS.silence_timeout);
        life.ask(at(21), LIMITS.silence_timeout);
        assert_eq!(life.deadline(LIMITS), Some(at(300)), "asked once");
        life.ask(at(24), LIMITS.silence_timeout);
        life.ask(at(28), LIMITS.silence_timeout);
        assert_eq!(life.deadline(LIMITS), Some(at(29)));
        assert_eq!(life.judge(at(28), LIMITS), Verdict::Unchanged);
        assert_eq!(life.judge(at(29), LIMITS), Verdict::Lost);
    }

    #[test]
    fn f17_a_peer_that_never_answered_is_lost_after_the_silence_timeout() {
        let refused = LostCause::Refused(RefusedReason::NotAllowed);
        let mut life = Life::new(at(0));
        life.connecting();
        ask(&mut life, 5);
        assert_eq!(life.deadline(LIMITS), Some(at(15)), "nothing waits for it");
        life.note_cause(refused);
        assert_eq!(life.judge(at(14), LIMITS), Verdict::Unchanged);
        assert_eq!(life.judge(at(15), LIMITS), Verdict::Lost);
        assert_eq!((life.link(), life.cause()), (LinkState::Lost, refused));
        assert_eq!(
            life.judge(at(1_000), LIMITS),
            Verdict::Unchanged,
            "said once"
        );
        life.set_waiting(at(1_000), true);
        assert_eq!(life.deadline(LIMITS), Some(at(1_300)), "given up later");
        assert!(life.hear(at(1_001)), "it starts late");
        assert_eq!(life.cause(), LostCause::NoAnswer);
    }

    #[test]
    fn an_idle_peer_is_never_lost() {
        let mut life = up();
        assert_eq!(life.judge(at(10_000), LIMITS), Verdict::Unchanged);
        life.set_waiting(at(10_000), true);
        ask(&mut life, 10_000);
        assert_eq!(
            life.judge(at(10_001), LIMITS),
            Verdict::Unchanged,
            "counted from the wait"
        );
    }

    #[test]
    fn f12_f14_a_peer_lost_to_a_claim_of_its_id_was_asked_long_enough() {
        let timeout = LIMITS.silence_timeout;
        let mut life = up();
        life.set_waiting(at(0), true);
        ask(&mut life, 0);
        let contest =
            |life: &mut Life, second| life.contest(at(second), second, timeout, LIMITS.closed_port);
        assert_ne!(contest(&mut life, 9), Contest::Won, "it may yet answer");
        assert_eq!(life.judge(at(10), LIMITS), Verdict::Lost);
        assert_eq!(contest(&mut life, 10), Contest::Won);
        assert!(life.hear(at(11)), "it lives after all");
        assert_ne!(contest(&mut life, 12), Contest::Won, "and is asked anew");
        assert_eq!(contest(&mut life, 22), Contest::Won);
    }

    #[test]
    fn f12_the_first_init_of_a_claim_waits_for_the_old_process_to_answer() {
        let timeout = LIMITS.silence_timeout;
        let mut life = up();
        assert_eq!(
            life.contest(at(1), 7, timeout, LIMITS.closed_port),
            Contest::Open
        );
        assert!(!life.hear(at(1)), "it answers");
        assert_eq!(
            life.contest(at(1), 7, timeout, LIMITS.closed_port),
            Contest::Lost
        );
        assert_eq!(
            life.contest(at(1), 8, timeout, LIMITS.closed_port),
            Contest::Lost,
            "another"
        );
        assert_eq!(
            life.contest(at(3), 9, timeout, LIMITS.closed_port),
            Contest::Open
        );
    }

    #[test]
    fn f17_a_closed_port_of_this_machine_shortens_the_wait() {
        let ms = |ms| at(1) + Duration::from_millis(ms);
        let mut life = up();
        life.set_waiting(at(1), true);
        life.ask(at(1), LIMITS.silence_timeout);
        assert_eq!(closed(&mut life, ms(10), 8), Reported::First);
        assert_eq!(closed(&mut life, ms(20), 9), Reported::Known);
        assert_eq!(
            life.contest(ms(20), 7, TIMEOUT, LIMITS.closed_port),
            Contest::Open
        );
        assert_eq!(
            life.contest(ms(30), 7, TIMEOUT, LIMITS.closed_port),
            Contest::Open
        );
        assert_eq!(life.deadline(LIMITS), Some(ms(60)));
        assert_eq!(life.judge(ms(59), LIMITS), Verdict::Unchanged);
        assert_eq!(life.judge(ms(60), LIMITS), Verdict::Lost);
        assert_eq!(life.cause(), LostCause::ProcessDied);
        assert_eq!(
            life.contest(ms(60), 7, TIMEOUT, LIMITS.closed_port),
            Contest::Won
        );
        // The report was wrong: the peer answers.
        let mut life = up();
        life.set_waiting(at(1), true);
        life.ask(at(1), LIMITS.silence_timeout);
        assert_eq!(closed(&mut life, ms(10), 8), Reported::First);
        assert!(!life.hear(ms(20)));
        assert_eq!(life.judge(ms(60), LIMITS), Verdict::Unchanged);
        assert_eq!(closed(&mut life, ms(70), 9), Reported::First, "news");
    }

    /// The kernel reports the same of a question that was asked after its first report: a peer that
    /// was silent for long is dead at once, another one by its silence alone.
    #[test]
    fn f13_f17_a_report_of_a_later_question_ends_the_wait_unless_the_peer_was_heard_just_now() {
        let ms = |ms| at(1) + Duration::from_millis(ms);
        for (heard, dead) in [(at(0), ms(11)), (ms(0), ms(50)), (ms(9), ms(59))] {
            let mut life = up();
            assert!(!life.hear(heard));
            life.ask(ms(10), LIMITS.silence_timeout);
            assert_eq!(closed(&mut life, ms(10), 9), Reported::First);
            assert_eq!(life.deadline(LIMITS), Some(ms(60)));
            assert_eq!(closed(&mut life, ms(11), 10), Reported::Again);
            assert_eq!(closed(&mut life, ms(12), 11), Reported::Known);
            assert_eq!(life.deadline(LIMITS), Some(dead));
            assert_eq!(life.judge(dead, LIMITS), Verdict::Lost);
            assert_eq!(life.cause(), LostCause::ProcessDied);
        }
    }

    /// The network reports the port as closed: silence decides, and another question asks anew.
    #[test]
    fn f25_a_report_of_the_network_counts_after_a_silence_and_for_one_question() {
        let ms = |ms| at(1) + Duration::from_millis(ms);
        let mut life = up();
        life.ask(ms(0), LIMITS.silence_timeout);
        let report =
            |life: &mut Life, now, number| life.on_port_reported(now, Question::Packet(number));
        assert_eq!(report(&mut life, ms(10), 1), Reported::First);
        assert_eq!(report(&mut life, ms(20), 2), Reported::Known);
        assert_eq!(life.judge(ms(59), LIMITS), Verdict::Unchanged);
        assert_eq!(life.judge(ms(60), LIMITS), Verdict::Absent);
        assert_eq!(life.judge(ms(61), LIMITS), Verdict::Unchanged, "said once");
        life.ask_again(Some(Question::Packet(5)));
        assert!(!life.is_absent());
        assert_eq!(report(&mut life, ms(100), 4), Reported::Known, "late");
        assert_eq!(report(&mut life, ms(110), 5), Reported::First);
        life.put_off(ms(120));
        assert_eq!(life.judge(ms(200), LIMITS), Verdict::Unchanged, "a cookie");
    }

    #[test]
    fn f12_a_closed_port_decides_a_contest_however_the_link_stands() {
        let limits = SilenceLimits {
            presumed_alive: true,
            ..LIMITS
        };
        // One peer is long idle, the other long quiet.
        let (idle, mut quiet) = (up(), up());
        quiet.set_waiting(at(0), true);
        ask(&mut quiet, 0);
        assert_eq!(quiet.judge(at(10), limits), Verdict::Quiet);
        for mut life in [idle, quiet] {
            let contest = |life: &mut Life, now| life.contest(now, 7, TIMEOUT, limits.closed_port);
            assert_eq!(contest(&mut life, at(60)), Contest::Open);
            life.ask(at(60), TIMEOUT);
            assert_eq!(closed(&mut life, at(60), 8), Reported::First);
            let short = at(60) + Duration::from_millis(49);
            assert_eq!(contest(&mut life, short), Contest::Open);
            let dead = at(60) + Duration::from_millis(50);
            assert_eq!(life.deadline(LIMITS), Some(dead));
            assert_eq!(contest(&mut life, dead), Contest::Won);
            assert_eq!(life.judge(dead, LIMITS), Verdict::Lost);
            assert_eq!(life.cause(), LostCause::ProcessDied);
        }
    }

    #[test]
    fn f16_time_undrained_is_not_silence() {
        let mut life = up();
        life.set_waiting(at(0), true);
        ask(&mut life, 0);
        life.shift(Duration::from_secs(60));
        assert_eq!(life.judge(at(61), LIMITS), Verdict::Unchanged);
        assert_eq!(life.judge(at(70), LIMITS), Verdict::Lost);
    }
}
