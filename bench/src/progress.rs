//! The progress of the run, on standard error.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// The time of a turn beside its measurement: two processes start, warm up and part.
const OVERHEAD: Duration = Duration::from_millis(300);

pub(crate) struct Progress {
    begun: Instant,
    /// The planned turns, and those that are over, by their length.
    planned: Duration,
    over: Duration,
    is_terminal: bool,
}

impl Progress {
    pub(crate) fn new(planned: Duration) -> Self {
        Self {
            begun: Instant::now(),
            planned,
            over: Duration::ZERO,
            is_terminal: stderr().is_terminal(),
        }
    }

    /// The expected time of one turn.
    pub(crate) fn turn(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds) + OVERHEAD
    }

    pub(crate) fn passed(&mut self, turn: Duration) {
        self.over += turn;
    }

    /// The expected remaining time, judged by the time so far.
    fn left(&self) -> Duration {
        let rest = self.planned.saturating_sub(self.over);
        if self.over < Duration::from_secs(5) {
            return rest;
        }
        rest.mul_f64(self.begun.elapsed().as_secs_f64() / self.over.as_secs_f64())
    }

    /// Prints one line that replaces the one before. Without a terminal only texts `worth` a line
    /// of their own are printed.
    pub(crate) fn say(&self, text: &str, worth: bool) {
        let left = self.left().as_secs();
        let (minutes, seconds) = (left / 60, left % 60);
        // If that fails, there is no reader to be told.
        if self.is_terminal {
            let _ = write!(stderr(), "\r\x1b[K{text}; {minutes}:{seconds:02} left");
        } else if worth {
            let _ = writeln!(stderr(), "{text}; {minutes}:{seconds:02} left");
        }
    }

    /// A line that stays.
    pub(crate) fn tell(&self, text: &str) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        let _ = writeln!(stderr(), "{clear}{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_what_is_over() {
        let mut progress = Progress::new(Duration::from_secs(100));
        assert_eq!(progress.left(), Duration::from_secs(100));
        progress.begun -= Duration::from_secs(40);
        progress.passed(Duration::from_secs(20));
        // Everything takes twice as long as planned.
        assert_eq!(progress.left().as_secs_f64().round(), 160.0);
    }
}
