//! Reports about one peer: a datagram was not delivered, or its process has ended.

use super::{Closing, End, Peer};
use crate::counters::Link;
use crate::engine::{Shared, Undelivered};
use crate::event::{EndReason, LostCause, Unreachable};
use crate::log::LogRecord;
use crate::time::{Duration, Instant};
use crate::wire;

/// Probe timeouts without an answer after which a peer whose port is closed counts as lost.
const PROBES: u32 = 3;

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
        let connected = self.connection.as_ref().map(|c| c.path.address()) == to;
        let called = self.attempt.as_ref().map(|a| a.to) == to;
        if !(connected || called) {
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
        let trusted = report.local || ends;
        let closed = trusted
            && report.why == Unreachable::Port
            && self.path_address() == to
            && self.session.is_established()
            && self.sent(report.quoted);
        if !closed || !self.life.on_port_closed(now) {
            return false;
        }
        // It may have been lost by its silence before.
        self.end_calls_if_dead(shared);
        // The report may be old.
        self.ask_once_more(now, shared);
        true
    }

    /// Handles the launcher's report that this peer's process has ended; `for_good`: that no other
    /// will take its place. The launcher may mean another process than the connected one, so the
    /// peer is asked for a sign of life.
    pub(crate) fn on_process_ended(&mut self, now: Instant, for_good: bool, shared: &mut Shared) {
        let established = self.session.is_established();
        if !(established || for_good) {
            // The next process is starting, and will answer.
            return;
        }
        self.life.on_process_ended(now, for_good);
        if for_good && self.life.link() == Link::Lost {
            self.end(now, EndReason::ProcessDied, shared);
        } else if established {
            self.end_calls_if_dead(shared);
            self.ask_once_more(now, shared);
        }
    }

    /// Asks an established peer for a sign of life.
    fn ask_once_more(&mut self, now: Instant, shared: &mut Shared) {
        if self.connection.is_some() {
            self.ask_for_sign_of_life();
        } else {
            self.open(now, shared.random());
        }
    }

    /// Returns true if `quoted` is the beginning of a packet of ours to this peer. Only an observer
    /// of our packets knows their tags. Sealed packets have none: their index and number can be
    /// guessed, which does no more harm than a question to the peer.
    fn sent(&self, quoted: &[u8]) -> bool {
        let Some((index, tag)) = wire::peek_tag(quoted) else {
            return false;
        };
        let carried = self.connection.as_ref().is_some_and(|c| match &c.sealing {
            None => c.remote == End { index, tag },
            Some(_) => wire::peek_number(quoted)
                .is_some_and(|(index, number)| c.remote.index == index && c.numbers.used(number)),
        });
        let attempt = self.attempt.as_ref();
        carried || attempt.is_some_and(|a| a.opening.token() == tag)
    }

    /// Returns how long to wait for a peer whose port is closed: a few probe timeouts.
    pub(crate) fn closed_port_limit(&self) -> Duration {
        let connection = self.connection.as_ref();
        let probe = connection.map_or(crate::handshake::FIRST_WAIT, |c| {
            c.recovery.rtt().pto(c.params.max_ack_delay)
        });
        probe * PROBES
    }
}
