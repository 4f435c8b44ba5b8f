//! What the path delivered of late.

use crate::fold::folds;

/// Rounds over which the highest delivery rate is remembered.
const RATE_ROUNDS: usize = 8;

/// Highest delivery rate of the last rounds, in bytes per second.
#[derive(Debug, Default)]
pub(super) struct Rates {
    rounds: [f64; RATE_ROUNDS],
    at: usize,
}

folds!(Rates { rounds, at });

impl Rates {
    pub(super) fn add(&mut self, rate: f64) {
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

    pub(super) fn highest(&self) -> f64 {
        self.rounds.iter().fold(0.0, |a, b| a.max(*b))
    }
}
