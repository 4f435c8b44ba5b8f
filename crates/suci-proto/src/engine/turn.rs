//! When the driver is here: how a turn begins, what may wait for the next one, and time that passed
//! without any.

use super::Engine;
use crate::peer::Peer;
use crate::time::{Duration, Instant, earlier};
use crate::wire::Mode;

/// A driver that comes later than its deadline by more than this was held up: by its program's
/// computing, a stopped process, a paused machine.
const GAP: Duration = Duration::from_millis(100);

/// Of one that comes after more than this nobody knows whether it slept or was stopped, if nothing
/// was due.
const ABSENCE: Duration = Duration::from_secs(10);

/// How long a driver transmits before it looks at its socket and hands messages over. With 200 us
/// a stream of 40 Gbit/s lost a fiftieth.
pub const TX_BUDGET: Duration = Duration::from_micros(500);

impl Engine {
    /// A turn of the driver begins at `now`. Acknowledgements that found nothing to ride on since
    /// the last turn go out in this one (with [`crate::Config::ack_on_poll`]), and a driver that
    /// was held up is noticed: that time counts for nobody's silence.
    pub fn begin_turn(&mut self, now: Instant) {
        self.begin_keeping_acks(now);
        self.force_acks();
    }

    /// As [`Engine::begin_turn`], for a driver whose program is about to send something:
    /// acknowledgements go on waiting until [`Engine::force_acks`].
    pub fn begin_keeping_acks(&mut self, now: Instant) {
        let expected = self.expected.map_or(now, |at| at.max(self.last_run));
        self.notice_gap(now, expected);
        self.expected = None;
        self.last_run = now;
        self.expect_newcomers(now);
    }

    /// Whether there are acknowledgements that wait for a turn to begin, and none of a peer that
    /// prefers response: they may wait for another.
    #[must_use]
    pub fn acks_may_wait(&self) -> bool {
        let owing = |&key: &usize| self.peers.active(key).filter(|peer| peer.owes_ack());
        let mut owing = self.ack_waits.iter().filter_map(owing).peekable();
        let urgent = |peer: &Peer| {
            let connection = peer.connection.as_ref();
            connection.is_some_and(|c| c.modes.theirs() == Mode::Response)
        };
        owing.peek().is_some() && !owing.any(urgent)
    }

    /// Acknowledgements that wait for a turn to begin wait no longer: they go with what is sent
    /// next, or alone.
    pub fn force_acks(&mut self) {
        let mut waits = core::mem::take(&mut self.ack_waits);
        for key in waits.drain(..) {
            let Some(peer) = self.peers.get_mut(key) else {
                continue;
            };
            peer.ack_waits = false;
            // Most have gone since, with an answer.
            if peer.owes_ack() {
                if let Some(connection) = &mut peer.connection {
                    connection.received.force();
                }
                self.touch(key);
            }
        }
        self.ack_waits = waits;
    }

    /// A driver that should have been here at `expected` was held up until `now`, unless it is
    /// about then.
    #[inline]
    pub(super) fn notice_gap(&mut self, now: Instant, expected: Instant) {
        if now > self.last_run + ABSENCE {
            self.resumed_at = now;
        }
        if now <= expected + GAP {
            return;
        }
        // What is no gap by itself is silence in one, too: else nobody was ever silent to who is
        // always late.
        self.on_gap(now, now.since(expected + GAP));
    }

    /// The driver was held up for so long.
    #[cold]
    fn on_gap(&mut self, now: Instant, late: Duration) {
        self.shared.counters.gaps += 1;
        // An idle peer waits for nothing.
        let mut keys = Vec::new();
        for (key, peer) in self.peers.iter_active_mut() {
            peer.on_gap(now, late);
            keys.push(key);
        }
        keys.into_iter().for_each(|key| self.touch(key));
    }

    /// Whether the program may have its message before [`Engine::poll_transmit`] is asked: there is
    /// one, and nothing would be sent but an acknowledgement that waits for its answer to ride on.
    /// Then that must follow before the driver sleeps: only it knows what [`Engine::next_timeout`]
    /// will be.
    pub fn defer_output(&mut self, now: Instant) -> bool {
        let shared = &self.shared;
        let quiet = shared.replies.is_empty()
            && !shared.paths.is_asking()
            && !self.train.is_pending()
            && (self.has_message() || self.has_call());
        let Some(key) = self.dirty.only().filter(|_| quiet) else {
            return false;
        };
        let Some(peer) = self.peers.active(key) else {
            return false;
        };
        if !peer.has_nothing_to_say(now) {
            return false;
        }
        self.expected = earlier(self.next_timeout(), peer.ack_deadline());
        true
    }

    /// Whether the driver should not transmit at `now`, but have the program take a message first
    /// that is more urgent than all that may go. Not for longer than [`TX_BUDGET`]: the program may
    /// take no messages.
    pub fn output_yields(&mut self, now: Instant) -> bool {
        if !self.message_outranks_output() {
            self.yields_since = None;
            return false;
        }
        now.since(*self.yields_since.get_or_insert(now)) <= TX_BUDGET
    }

    /// The driver stops at `now` although more may go, and means to be back at once: if it is not,
    /// it was held up.
    pub fn end_tx(&mut self, now: Instant) {
        self.expected = Some(now);
    }

    /// Has the peer looked after when it is next due. A peer that waits for no moment
    /// may become idle.
    pub(super) fn arm(&mut self, now: Instant, key: usize) {
        if let Some(deadline) = self.peers.active(key).and_then(Peer::deadline) {
            return self.wheel.set(key, deadline);
        }
        self.wheel.cancel(key);
        if !self.dirty.is_listed(key) && !self.readable.is_listed(key) {
            self.peers.make_idle(key, now);
        }
    }
}
