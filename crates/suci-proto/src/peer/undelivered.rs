//! Reports about one peer: a datagram was not delivered, or its process has ended.

use super::absence::KnownAbsence;
use super::port_reports::{Question, Reported};
use super::{Closing, End, Peer};
use crate::counters::LinkState;
use crate::event::{EndReason, LostCause, Unreachable};
use crate::log::LogRecord;
use crate::shared::{Notices, PortInput, Shared};
use crate::undelivered::{ProcessEnd, Undelivered};
use suci_link::time::{Duration, Instant};
use suci_link::wire;

/// Probe timeouts without an answer after which a peer whose port is closed counts as lost.
const PROBES: u32 = 3;

/// How long the network's reports about a peer count for later questions. Linux sends a host six
/// reports at once, and then one in each second (`icmp_ratelimit`), so that later questions often
/// have none of their own.
const REPORTS_KEPT: Duration = Duration::from_secs(10);

impl Peer {
    /// Handles the report that a datagram to `report.to` was not delivered. Returns true if the
    /// engine must check the peer.
    pub(crate) fn on_undelivered(
        &mut self,
        now: Instant,
        report: &Undelivered<'_>,
        shared: &mut Shared,
    ) -> bool {
        let to = Some(report.to);
        let connected = self.connection.as_ref().map(|c| c.link.path.address()) == to;
        let called = self.attempt.as_ref().map(|a| a.to) == to;
        let opening = self.is_of_attempt(report.quoted);
        if !(connected || called || opening) {
            return false;
        }
        shared.log.add_unproven(now, || LogRecord::Undelivered {
            peer: self.node,
            to: report.to,
            reason: report.why,
            local: report.local,
        });
        self.life.note_cause(LostCause::Unreachable(report.why));
        // A false report does no harm if the peer only has to hear of the end.
        let ends = self.closing != Closing::Open && self.session.outbox.is_empty();
        let closed = report.why == Unreachable::Port
            && self.path_address() == to
            && self.session.is_established();
        let question = self.question(report.quoted).filter(|_| closed);
        let reported = question.map_or(Reported::Known, |question| match report.local || ends {
            true => (self.life).on_port_closed(now, question, self.next_question()),
            false => self.life.on_port_reported(now, question),
        });
        if reported == Reported::First {
            // It may have been lost by its silence before.
            self.end_calls_if_dead(&mut shared.notices);
            // The report may be old.
            self.ask_once_more(now, shared);
        }
        let asks = opening && self.note_absence(now, report, shared);
        asks || reported != Reported::Known
    }

    /// Returns true if `quoted` is the beginning of a packet of the present attempt. Only an
    /// observer of our packets knows its token.
    fn is_of_attempt(&self, quoted: &[u8]) -> bool {
        let token = wire::peek_tag(quoted).map(|(_, tag)| tag);
        let attempt = self.attempt.as_ref();
        attempt.is_some_and(|attempt| token == Some(attempt.opening.token()))
    }

    /// Handles a report about a packet of the attempt: nobody is at one of the peer's addresses.
    /// The next address is tried at once. Returns true if the engine must check the peer.
    fn note_absence(
        &mut self,
        now: Instant,
        report: &Undelivered<'_>,
        shared: &mut Shared,
    ) -> bool {
        if self.attempt.as_ref().is_some_and(|it| !it.is_asking()) {
            // The process that gave the cookie has ended. All addresses are asked anew.
            if report.local {
                self.ask_anew(now, shared);
            }
            return report.local;
        }
        let is_candidate = self.candidates().any(|at| at == report.to);
        let Some(attempt) = self.attempt.as_mut().filter(|_| is_candidate) else {
            return false;
        };
        let goes_on = attempt.absence.add(now, report) && attempt.to == report.to;
        if self.is_absent_everywhere() {
            self.life.renew_known_absence(now);
            let sent = (self.attempt.as_ref()).map_or(0, |it| it.opening.tries());
            self.judge_absence(now, sent, &mut shared.notices);
            return false;
        }
        if let Some(attempt) = self.attempt.as_mut().filter(|_| goes_on) {
            attempt.opening.hasten(now);
        }
        goes_on
    }

    /// Returns true if reports say of all addresses of the peer that nobody is there.
    fn is_absent_everywhere(&self) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| {
            let reported = &attempt.absence.addresses;
            self.candidates().all(|at| reported.contains(&at))
        })
    }

    /// Tells the layer of sockets if nobody is at any of the peer's addresses. What this machine's
    /// kernel reports of itself is true at once. A report of the network may be forged, or late: it
    /// counts when another HELLO to each address stayed unanswered until a further one was sent.
    /// The waits between HELLOs double, so the last one is longer than the time that the report
    /// took.
    ///
    /// A host sends few reports in each second. So the next attempts need no reports of their own:
    /// if as many HELLOs stay unanswered, the result is the same.
    ///
    /// `sent`: the HELLOs of the attempt, with one that leaves now.
    pub(super) fn judge_absence(&mut self, now: Instant, sent: u32, notices: &mut Notices) {
        let is_reported = self.is_absent_everywhere();
        let known = self.life.known_absence().filter(|known| {
            let is_fresh = now.since(known.reported) < REPORTS_KEPT;
            is_fresh && self.candidates().all(|at| known.addresses.contains(&at))
        });
        let known = known.map(|known| (known.due, known.is_port));
        let addresses = u32::try_from(self.candidates().count()).unwrap_or(u32::MAX);
        let Some(attempt) = self.attempt.as_mut().filter(|it| !it.absence.is_told) else {
            return;
        };
        let absence = &mut attempt.absence;
        if let Some((_, is_port)) = known.filter(|(due, _)| sent >= *due) {
            absence.is_port |= is_port;
            absence.is_told = true;
        } else if is_reported {
            let challenge = match absence.is_hint {
                true => addresses.saturating_add(1),
                false => 0,
            };
            let due = *absence.due.get_or_insert(sent.saturating_add(challenge));
            if sent < due {
                return;
            }
            absence.is_told = true;
            if let Some(reported) = absence.reported.filter(|_| absence.is_hint) {
                self.life.set_known_absence(KnownAbsence {
                    addresses: absence.addresses.clone(),
                    is_port: absence.is_port,
                    due,
                    reported,
                });
            }
        }
        if absence.is_told {
            self.tell_absent(notices);
        }
    }

    /// Returns true if nobody has the peer's port at any of its addresses, as far as is known.
    pub(super) fn is_absent(&self) -> bool {
        let attempt = self.attempt.as_ref();
        let told = attempt.is_some_and(|it| it.absence.is_told && it.absence.is_port);
        told || self.life.is_absent() || self.life.is_dead()
    }

    /// Tells layers that nobody has the peer's UDP port, or that no way leads to it.
    pub(super) fn tell_absent(&self, notices: &mut Notices) {
        let node = self.node;
        notices.tell_ports(|| match self.is_absent() {
            true => PortInput::NoProcess(node),
            false => PortInput::NoWay(node),
        });
    }

    /// Asks at once whether there is a process by now, if the last answer was that there is none.
    pub(crate) fn ask_for_process(&mut self, now: Instant, shared: &mut Shared) {
        if self.life.is_absent() {
            self.life.ask_again(self.next_question());
            self.ask_once_more(now, shared);
        }
        if self.attempt.as_ref().is_some_and(|it| it.absence.is_told) {
            self.ask_anew(now, shared);
        }
    }

    /// Begins another attempt, due at once. Reports about the present one do not count for it.
    fn ask_anew(&mut self, now: Instant, shared: &mut Shared) {
        self.drop_attempt(shared);
        self.open(now, shared.random());
    }

    /// Handles that the program named an address which the peer did not have. What was concluded
    /// about the process at the old ones says nothing about one at the new one.
    pub(crate) fn on_new_address(&mut self, now: Instant, shared: &mut Shared) {
        if self.life.is_dead() && self.session.is_established() {
            self.end(now, EndReason::ProcessDied, shared);
        }
        self.life.forget_reports();
        if self.attempt.as_ref().is_some_and(|it| it.is_asking()) {
            self.ask_anew(now, shared);
        }
    }

    /// Handles the launcher's report that this peer's process has ended. The launcher may mean
    /// another process than the connected one, so the peer is asked for a sign of life.
    pub(crate) fn on_process_ended(&mut self, now: Instant, end: ProcessEnd, shared: &mut Shared) {
        let for_good = end.is_for_good();
        let established = self.session.is_established();
        if !(established || for_good) {
            // The next process is starting, and will answer.
            return;
        }
        self.life.on_process_ended(now, for_good);
        if for_good && self.life.link() == LinkState::Lost {
            self.end(now, EndReason::ProcessDied, shared);
        } else if established {
            self.end_calls_if_dead(&mut shared.notices);
            self.ask_once_more(now, shared);
        } else if end == ProcessEnd::Failed && self.history.is_empty() {
            // It never talked: the program may wait for its first message, and hears of its death.
            self.open(now, shared.random());
        }
    }

    /// Asks an established peer for a sign of life.
    fn ask_once_more(&mut self, now: Instant, shared: &mut Shared) {
        if self.connection.is_some() {
            self.ask_for_sign_of_life();
        } else if let Some(attempt) = self.attempt.as_mut().filter(|it| it.is_asking()) {
            attempt.opening.hasten(now);
        } else {
            self.open(now, shared.random());
        }
    }

    /// Returns the packet of ours to this peer that begins with `quoted`, if there is one. Only an
    /// observer of our packets knows their tags. Sealed packets have none: their index and number
    /// can be guessed, which does no more harm than a question to the peer.
    fn question(&self, quoted: &[u8]) -> Option<Question> {
        let (index, tag) = wire::peek_tag(quoted)?;
        let (_, number) = wire::peek_number(quoted)?;
        let carried = self
            .connection
            .as_ref()
            .is_some_and(|c| match &c.link.sealing {
                None => c.link.remote == End { index, tag },
                Some(_) => c.link.remote.index == index && c.link.numbers.used(number),
            });
        if carried {
            return Some(Question::Packet(number));
        }
        let opening = self.attempt.as_ref().map(|attempt| &attempt.opening);
        let opening = opening.filter(|opening| opening.token() == tag)?;
        Some(Question::Handshake(tag, opening.tries()))
    }

    /// Returns the first question that is sent from now on.
    fn next_question(&self) -> Option<Question> {
        if let Some(connection) = &self.connection {
            return connection.link.numbers.peek().map(Question::Packet);
        }
        let opening = &self.attempt.as_ref()?.opening;
        let next = opening.tries().saturating_add(1);
        Some(Question::Handshake(opening.token(), next))
    }

    /// Returns how long to wait for a peer whose port is closed: a few probe timeouts.
    pub(crate) fn closed_port_limit(&self) -> Duration {
        let connection = self.connection.as_ref();
        let probe = connection.map_or(crate::handshake::FIRST_WAIT, |c| {
            c.link.recovery.rtt().pto(c.link.params.max_ack_delay)
        });
        probe * PROBES
    }
}
