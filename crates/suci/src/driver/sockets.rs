//! The layer of sockets.

use super::Driver;
use crate::clock::Clock;
use std::time::Duration;
use suci_proto::time::Instant;

/// The time after which a cycle takes no more messages of sockets. Answers must leave, and other
/// messages wait.
const TIME: Duration = Duration::from_micros(500);

impl Driver {
    /// Returns true if the layer of sockets has something to do.
    pub(super) fn has_socket_work(&self) -> bool {
        self.sockets.has_left_output() || self.socket_service.has_work(&self.engine, self.now)
    }

    /// Returns the time when the layer has something to do.
    pub(super) const fn sockets_due(&self) -> Option<Instant> {
        self.socket_service.due()
    }

    /// Returns true if messages of sockets may be in the engine's queues, of which the gates of a
    /// shared node know nothing.
    pub(crate) const fn sends_for_sockets(&self) -> bool {
        self.socket_service.has_sent()
    }

    /// Takes what came for sockets, and sends. If more came than one call takes, the next cycle is
    /// due at once.
    #[cold]
    pub(crate) fn serve_sockets(&mut self) {
        self.sockets.begin_serving();
        let began = Clock.now();
        let goes_on = || Clock.now().since(began) <= TIME;
        let (table, now) = (&*self.sockets, self.now);
        self.socket_service
            .serve(table, &mut self.engine, now, goes_on);
    }
}
