//! When a peer is idle, and which memory it gives back.
//!
//! An idle peer keeps everything that a promise rests on: incarnations and epochs, the numbers of
//! messages and packets, received packets, memory credit and socket credit both ways, measurements
//! of the path, and counters. It forgets the state of packets given up long ago.

use super::{Closing, EventQueue, Peer};
use suci_link::limits::COOKIE_LIFETIME;
use suci_link::time::Instant;

impl Peer {
    /// Gives back memory that only an active peer needs. Returns false if something waits for the
    /// peer, for the program, or for time to pass.
    pub(crate) fn shrink(&mut self, now: Instant) -> bool {
        // An INIT whose cookie expired is not answered again.
        if self
            .newest_cookie
            .is_some_and(|at| now > at + COOKIE_LIFETIME)
        {
            self.accepted = None;
        }
        let quiet = self.deadline().is_none()
            && self.closing == Closing::Open
            && self.lingering.is_none()
            && self.attempt.is_none()
            && self.accepted.is_none();
        let untold =
            self.ack_waits || self.has_listed_events || self.took_messages || self.has_untold();
        let steered = self.steering.is_some();
        let waiting = self.is_waiting() || self.session.promise.is_waiting();
        if !quiet || untold || steered || waiting {
            return false;
        }
        if let Some(connection) = &mut self.connection
            && !connection.shrink()
        {
            return false;
        }
        // The program was told everything.
        self.events = EventQueue::default();
        self.session.outbox.shrink() && self.session.inbox.shrink()
    }
}
