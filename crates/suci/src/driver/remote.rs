//! One-sided operations.

use super::Driver;
use crate::clock::Clock;
use std::time::Duration;

/// The time after which a cycle takes no more operations. Their answers must leave, and other
/// messages wait.
const TIME: Duration = Duration::from_micros(500);

impl Driver {
    /// Sends the requests that the program entered, unless they wait for more
    /// ([`SendCoalescer`](super::SendCoalescer)), as its messages do. The last one carries `bytes`
    /// bytes.
    pub(crate) fn send_requests(&mut self, bytes: usize) {
        let called = self.read_clock();
        self.serve_remote();
        self.send_or_keep(called, bytes as u64);
    }

    /// Serves other nodes' operations at this node, takes the answers to this node's, and sends.
    /// If more came than one call takes, the next cycle is due at once.
    #[cold]
    pub(crate) fn serve_remote(&mut self) {
        let began = Clock.now();
        let has_time = || Clock.now().since(began) <= TIME;
        let layer = &self.places.remote;
        let served = layer.serve(&mut self.engine, self.now, has_time);
        if let Some(mapped) = &self.mapped {
            served.ended.iter().for_each(|node| mapped.forget(*node));
        }
        self.remote_waits = served.waits;
        self.served_remote = true;
        self.places.wake_waiters();
    }
}
