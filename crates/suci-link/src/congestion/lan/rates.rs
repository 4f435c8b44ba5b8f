//! Delivery rates of the path of late.

use crate::recent_max::RecentMax;
use crate::time::{Duration, Instant};

/// Rounds over which the highest delivery rate is remembered.
const RATE_ROUNDS: usize = 8;

/// The highest rate is remembered for at least this time, and for less than twice as long.
const KNOWN: Duration = Duration::from_secs(10);

/// Highest delivery rates of the last rounds and of the last seconds, in bytes per second.
#[derive(Debug, Default)]
pub(super) struct Rates {
    rounds: [f64; RATE_ROUNDS],
    at: usize,
    /// Highest rate over periods of [`KNOWN`].
    known: RecentMax<f64>,
    began: Option<Instant>,
}

impl Rates {
    pub(super) fn add(&mut self, now: Instant, rate: f64) {
        let began = *self.began.get_or_insert(now);
        if now.since(began) >= KNOWN {
            if now.since(began) >= 2 * KNOWN {
                self.known = RecentMax::default();
            }
            self.known.end_period();
            self.began = Some(now);
        }
        self.known.note(rate);
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

    /// Returns the highest rate of the last seconds, which estimates the link's: other flows may
    /// leave less now.
    pub(super) fn of_link(&self) -> f64 {
        self.known.get()
    }

    /// Returns the highest rate of the last rounds.
    pub(super) fn recent(&self) -> f64 {
        self.rounds.iter().fold(0.0, |a, b| a.max(*b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_rate_is_remembered_for_ten_to_twenty_seconds() {
        for (seconds, known) in [(9, 100.0), (10, 100.0), (19, 100.0), (20, 1.0), (40, 1.0)] {
            let began = Instant::from_nanos(1);
            let mut rates = Rates::default();
            rates.add(began, 100.0);
            rates.add(began + Duration::from_secs(seconds), 1.0);
            assert_eq!(rates.of_link(), known, "{seconds} s later");
            (0..RATE_ROUNDS).for_each(|_| rates.next_round());
            assert_eq!(rates.recent(), 0.0);
        }
        let mut rates = Rates::default();
        for second in 0..20 {
            rates.add(
                Instant::from_nanos(1) + Duration::from_secs(second),
                20.0 - second as f64,
            );
        }
        assert_eq!(rates.of_link(), 20.0);
        rates.add(Instant::from_nanos(1) + Duration::from_secs(20), 0.5);
        assert_eq!(rates.of_link(), 10.0);
    }
}
