//! A line on the terminal that tells how far a long search is. There is no time of arrival: how
//! many states there will be is known when all are found.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use tableau::Extent;

use crate::tell;

/// How often the line changes. A run that ends sooner shows none.
const EVERY: Duration = Duration::from_millis(250);

/// Progress on standard error; silent unless that is a terminal.
pub(crate) struct Progress {
    begun: Instant,
    shown: Instant,
    lines: u32,
    visible: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self {
            begun: now,
            shown: now,
            lines: 0,
            visible: std::io::stderr().is_terminal(),
        }
    }

    /// Shows where the search is, if it is time to.
    pub(crate) fn look(&mut self, extent: Extent) {
        if self.visible && self.shown.elapsed() >= EVERY {
            self.shown = Instant::now();
            self.lines += 1;
            let line = line(
                extent.expanded,
                extent.found,
                self.begun.elapsed(),
                resident(),
            );
            // Blanks wipe the rest of a longer line.
            tell(&format!("\r{line:<72}"));
        }
    }

    /// Wipes the line.
    pub(crate) fn finish(&self) {
        if self.lines > 0 {
            tell(&format!("\r{:<72}\r", ""));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "three digits for a person")]
fn line(expanded: usize, found: usize, time: Duration, resident: Option<u64>) -> String {
    let rate = expanded as f64 / time.as_secs_f64().max(1e-3);
    let seconds = time.as_secs();
    let memory = resident.map_or(String::new(), |bytes| format!(", {} MiB", bytes >> 20));
    format!("{found} states, {expanded} expanded, {rate:.0}/s{memory}, {seconds} s")
}

/// The memory that this process takes, if the system tells. Of several it is the one that keeps the
/// graph, process 0.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_its_units() {
        assert_eq!(
            line(5_000, 12_000, Duration::from_secs(2), Some(7 << 20)),
            "12000 states, 5000 expanded, 2500/s, 7 MiB, 2 s"
        );
    }

    #[test]
    fn the_system_tells_how_much_memory_is_taken() {
        assert!(resident().is_some_and(|bytes| bytes > 1 << 16));
    }
}
