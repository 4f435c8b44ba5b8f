//! What the path delivered of late.

use crate::fold::folds;
use crate::time::{Duration, Instant};

/// Rounds over which the highest delivery rate is remembered.
const RATE_ROUNDS: usize = 8;

/// How long a rate is known to be what the link can do, once or twice.
const KNOWN: Duration = Duration::from_secs(10);

/// Highest delivery rates of the last rounds and of the last seconds, in bytes per second.
#[derive(Debug, Default)]
pub(super) struct Rates {
    rounds: [f64; RATE_ROUNDS],
    at: usize,
    /// Of the current [`KNOWN`], and of the one before.
    known: [f64; 2],
    began: Option<Instant>,
}

folds!(Rates {
    rounds,
    at,
    known,
    began
});

impl Rates {
    pub(super) fn add(&mut self, now: Instant, rate: f64) {
        let began = *self.began.get_or_insert(now);
        if now.since(began) >= KNOWN {
            let recent = now.since(began) < 2 * KNOWN;
            self.known = [0.0, if recent { self.known[0] } else { 0.0 }];
            self.began = Some(now);
        }
        self.known[0] = self.known[0].max(rate);
        if let Some(round) = self.rounds.get_mut(self.at) {
            *round = round.max(rate);
        }
    }

    pub(super) fn next_round(&mut self) {
        self.at = (self.at + 1) % RATE_ROUNDS;
        if let Some(round) = self.rounds.get_mut(self.at) {
            *round = 0.0;
        }
    }

    /// What the link can do, as far as it was seen: others may leave less now.
    pub(super) fn known(&self) -> f64 {
        self.known[0].max(self.known[1])
    }

    /// What was delivered in the last rounds at best.
    pub(super) fn highest(&self) -> f64 {
        self.rounds.iter().fold(0.0, |a, b| a.max(*b))
    }
}
