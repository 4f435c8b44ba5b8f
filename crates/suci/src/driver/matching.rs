//! Matching of messages with the program's receives.

use super::Driver;
use crate::clock::Clock;
use std::time::Duration;

/// The time after which a cycle takes no more messages. Answers must leave, and other messages
/// wait.
const TIME: Duration = Duration::from_micros(500);

impl Driver {
    /// As [`serve_matching`](Self::serve_matching), if there is something to do.
    pub(crate) fn match_arrived(&mut self) {
        if self.places.matching.has_work(&self.engine) {
            self.serve_matching();
        }
    }

    /// Gives messages that came to receives, answers announced ones, and wakes the threads that
    /// wait. If more came than one call takes, the next cycle is due at once.
    #[cold]
    pub(crate) fn serve_matching(&mut self) {
        let began = Clock.now();
        let goes_on = || Clock.now().since(began) <= TIME;
        self.places.matching.serve(&mut self.engine, goes_on);
        self.places.matched.wake();
    }
}
