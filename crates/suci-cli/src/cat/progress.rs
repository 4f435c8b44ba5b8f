//! A line on the terminal that tells how far it is.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::error::tell_in_one_piece;

/// How often the line changes.
const EVERY: Duration = Duration::from_millis(250);

/// Progress on standard error; silent unless that is a terminal.
pub(super) struct Progress {
    begun: Instant,
    shown: Instant,
    bytes: u64,
    visible: bool,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        let now = Instant::now();
        let visible = !quiet && std::io::stderr().is_terminal();
        Self {
            begun: now,
            shown: now,
            bytes: 0,
            visible,
        }
    }

    /// Adds `bytes` to the progress.
    pub(super) fn add(&mut self, bytes: usize) {
        if self.bytes == 0 {
            // The wait for the first bytes does not count in the rate.
            self.begun = Instant::now();
        }
        self.bytes = self
            .bytes
            .saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        if self.visible && self.shown.elapsed() >= EVERY {
            self.shown = Instant::now();
            self.show("");
        }
    }

    /// Returns the number of bytes in all.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Leaves the last state on the terminal.
    pub(super) fn finish(&self) {
        if self.visible {
            self.show("\n");
        }
    }

    fn show(&self, after: &str) {
        let line = line(self.bytes, self.begun.elapsed());
        // Blanks wipe the rest of a longer line.
        tell_in_one_piece(&format!("\r{line:<60}{after}"));
    }
}

#[expect(clippy::cast_precision_loss, reason = "three digits for a person")]
fn line(bytes: u64, time: Duration) -> String {
    let (mib, seconds) = (bytes as f64 / f64::from(1 << 20), time.as_secs_f64());
    let rate = if seconds > 0.0 {
        bytes as f64 * 8.0 / 1e6 / seconds
    } else {
        0.0
    };
    format!("{mib:.1} MiB in {seconds:.1} s, {rate:.1} Mbit/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_its_units() {
        assert_eq!(
            line(3 << 20, Duration::from_secs(2)),
            "3.0 MiB in 2.0 s, 12.6 Mbit/s"
        );
        assert_eq!(line(0, Duration::ZERO), "0.0 MiB in 0.0 s, 0.0 Mbit/s");
    }
}
