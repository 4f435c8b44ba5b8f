//! The driver cycle: its beginning, acknowledgements that may wait for the next one, and gaps
//! between cycles.

use super::Engine;
use crate::peer::Peer;
use crate::transmit::TX_BUDGET;
use suci_link::time::{Duration, Instant, earlier};

/// A driver that is later than its deadline by more than this was held up: by its program's
/// computing, a stopped process, or a paused machine.
const GAP: Duration = Duration::from_millis(100);

/// A driver that did not run for longer than this may have been stopped, even if no timer was due
/// meanwhile.
const ABSENCE: Duration = Duration::from_secs(10);

impl Engine {
    /// Begins a driver cycle at `now`. Acknowledgements that no packet carried since the last cycle
    /// are sent in this one (with [`crate::Config::ack_on_poll`]). Time for which the driver was
    /// held up does not count as silence of any peer.
    pub fn begin_cycle(&mut self, now: Instant) {
        let expected = self.expected.map_or(now, |at| at.max(self.last_run));
        self.notice_gap(now, expected);
        self.expected = None;
        self.last_run = now;
        self.expect_newcomers(now);
        self.force_acks();
    }

    /// Makes acknowledgements that wait for the next cycle due: the next packet carries them, or
    /// they are sent alone.
    fn force_acks(&mut self) {
        let mut waits = core::mem::take(&mut self.ack_waits);
        for key in waits.drain(..) {
            let Some(peer) = self.peers.get_mut(key) else {
                continue;
            };
            peer.ack_waits = false;
            // Most acknowledgements left with an answer since.
            if peer.has_deferred_ack() {
                if let Some(connection) = &mut peer.connection {
                    connection.link.received.force();
                }
                self.touch(key);
            }
        }
        self.ack_waits = waits;
    }

    /// Notes a gap if the driver, which was expected at `expected`, was held up until `now`.
    #[inline]
    pub(super) fn notice_gap(&mut self, now: Instant, expected: Instant) {
        if now > self.last_run + ABSENCE {
            self.resumed_at = now;
        }
        if now <= expected + GAP {
            return;
        }
        // Subtract only the time beyond `GAP`: otherwise a driver that is always late would never
        // see a peer as silent.
        self.on_gap(now, now.since(expected + GAP));
    }

    /// Handles a gap: the driver was held up for `late`.
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

    /// Returns true if the program may get its message before [`Engine::poll_transmit`] is called.
    /// A message is there, and only an acknowledgement waits to be sent: the program's answer may
    /// carry it. [`Engine::poll_transmit`] must then be called before the driver sleeps, since it
    /// sets [`Engine::next_timeout`].
    pub fn defer_output(&mut self, now: Instant) -> bool {
        let shared = &self.shared;
        let quiet = shared.replies.is_empty()
            && !shared.paths.is_asking()
            && !self.train.is_pending()
            && !self.has_input_of_layers()
            && (self.has_message()
                || self.has_call()
                || self.has_group_message()
                || self.has_active());
        let Some(key) = self.dirty.only().filter(|_| quiet) else {
            return false;
        };
        let Some(peer) = self.peers.active_mut(key) else {
            return false;
        };
        if !peer.has_only_deferrable_ack(now, &mut self.shared) {
            return false;
        }
        let ack = peer.ack_deadline();
        self.expected = earlier(self.next_timeout(), ack);
        true
    }

    /// Returns true if the program should take a message before the driver transmits at `now`,
    /// because that message is more urgent than everything to send. Returns false after
    /// [`TX_BUDGET`], since the program may take no messages.
    pub fn output_yields(&mut self, now: Instant) -> bool {
        if !self.message_outranks_output() {
            self.yields_since = None;
            return false;
        }
        now.since(*self.yields_since.get_or_insert(now)) <= TX_BUDGET
    }

    /// Notes that the driver stops transmitting at `now` although there may be more to send. It
    /// must begin the next cycle at once; a later one counts as a gap.
    pub fn end_tx(&mut self, now: Instant) {
        self.expected = Some(now);
    }

    /// Sets the peer's timer to its deadline. A peer without a deadline may become idle.
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
