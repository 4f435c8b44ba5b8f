//! How far a long computation is, on standard error.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// A run that ends sooner shows nothing.
const SOON: Duration = Duration::from_secs(1);

/// The time between two lines: on a terminal, where one replaces the other, and elsewhere.
const ON_TERMINAL: Duration = Duration::from_millis(250);
const ELSEWHERE: Duration = Duration::from_secs(5);

pub(crate) struct Progress {
    begun: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
    is_visible: bool,
}

impl Progress {
    pub(crate) fn new(is_visible: bool) -> Self {
        Self {
            begun: Instant::now(),
            shown: None,
            is_terminal: stderr().is_terminal(),
            is_visible,
        }
    }

    /// Shows how much of the work is done and how long the rest will take, if it is time to.
    pub(crate) fn show(&mut self, done: u64, all: u64) {
        let pause = match self.is_terminal {
            true => ON_TERMINAL,
            false => ELSEWHERE,
        };
        let is_due = self.shown.map_or_else(
            || self.begun.elapsed() >= SOON,
            |shown| shown.elapsed() >= pause,
        );
        if !self.is_visible || !is_due {
            return;
        }
        self.shown = Some(Instant::now());
        let line = line(done, all, self.begun.elapsed());
        // If that fails, there is no reader to be told.
        let _ = match self.is_terminal {
            true => write!(stderr(), "\r\x1b[K{line}"),
            false => writeln!(stderr(), "{line}"),
        };
    }

    /// Wipes the line.
    pub(crate) fn clear(&self) {
        if self.is_terminal && self.shown.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn line(done: u64, all: u64, time: Duration) -> String {
    let left = match done {
        0 => "unknown time".to_owned(),
        _ => {
            let rest = all.saturating_sub(done) as f64 / done as f64;
            let seconds = (time.as_secs_f64() * rest) as u64;
            format!("{}:{:02}", seconds / 60, seconds % 60)
        }
    };
    format!("{done} of {all}, {left} left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_what_is_done() {
        let time = Duration::from_secs(30);
        assert_eq!(line(25, 100, time), "25 of 100, 1:30 left");
        assert_eq!(line(0, 100, time), "0 of 100, unknown time left");
    }
}
