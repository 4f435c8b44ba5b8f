//! The progress of many runs of about the same length.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// The progress of the run, on standard error.
pub(crate) struct Progress {
    begun: Instant,
    planned: usize,
    over: usize,
    /// The time that a run takes, as estimated before the first.
    each: Duration,
    is_terminal: bool,
}

impl Progress {
    pub(crate) fn new(planned: usize, each: Duration) -> Self {
        Self {
            begun: Instant::now(),
            planned,
            over: 0,
            each,
            is_terminal: stderr().is_terminal(),
        }
    }

    /// Notes that one more run is over.
    pub(crate) fn passed(&mut self) {
        self.over += 1;
    }

    fn left(&self) -> Duration {
        let over = u32::try_from(self.over).unwrap_or(u32::MAX);
        let each = self.begun.elapsed().checked_div(over).unwrap_or(self.each);
        each * u32::try_from(self.planned - self.over).unwrap_or(u32::MAX)
    }

    /// Prints one line that replaces the one before. Without a terminal only some lines are
    /// printed.
    pub(crate) fn say(&self, what: &str) {
        let left = self.left().as_secs();
        let (over, planned) = (self.over, self.planned);
        let line = format!(
            "{over}/{planned} {what}; {}:{:02} left",
            left / 60,
            left % 60
        );
        // If that fails, there is no reader to be told.
        if self.is_terminal {
            let _ = write!(stderr(), "\r\x1b[K{line}");
        } else if over.is_multiple_of(10) {
            let _ = writeln!(stderr(), "{line}");
        }
    }

    /// Wipes the line.
    pub(crate) fn clear(&self) {
        if self.is_terminal {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_what_is_over() {
        let mut progress = Progress::new(10, Duration::from_secs(2));
        assert_eq!(progress.left().as_secs(), 20);
        progress.begun -= Duration::from_secs(8);
        progress.passed();
        progress.passed();
        assert_eq!(progress.left().as_secs(), 32);
    }
}
