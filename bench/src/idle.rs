//! Checks if other processes use the machine.

use std::time::{Duration, Instant};

use xtask::error::{Context, Failure, Result};

/// The time of one look.
const LOOK: Duration = Duration::from_millis(200);

/// The share of all processors that may be in use, the hypervisor's theft included: ticks of 10 ms
/// allow no finer bound.
const BUSY: f64 = 0.08;

/// How often it is reported that we wait.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// After this long, other processes are not expected to go away.
const PATIENCE: Duration = Duration::from_secs(600);

/// Waits until the machine is idle, and calls `say` with the share in use once it has to.
pub(crate) fn wait(mut say: impl FnMut(f64)) -> Result<()> {
    let begun = Instant::now();
    let mut said = None;
    let mut before = ticks()?;
    loop {
        std::thread::sleep(LOOK);
        let now = ticks()?;
        let busy = now.since(before);
        if busy <= BUSY {
            return Ok(());
        }
        if begun.elapsed() >= PATIENCE {
            return Err(Failure::new(format!(
                "{:.0} % of the machine were in use for {} s; stop what else runs",
                100.0 * busy,
                PATIENCE.as_secs()
            )));
        }
        if said.is_none_or(|at: Instant| at.elapsed() >= SAY_EVERY) {
            said = Some(Instant::now());
            say(busy);
        }
        before = now;
    }
}

/// Clock ticks of all processors since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    all: u64,
    idle: u64,
}

impl Ticks {
    /// The share of the time from `before` that was not idle.
    fn since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle);
        if all == 0 {
            return 0.0;
        }
        all.saturating_sub(idle) as f64 / all as f64
    }
}

fn ticks() -> Result<Ticks> {
    let path = "/proc/stat";
    let text = std::fs::read_to_string(path).context(path)?;
    parse(&text).context(format!("{path}: no line of all processors"))
}

/// user nice system idle iowait irq softirq steal, proc_stat(5).
fn parse(text: &str) -> Option<Ticks> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let mut counts = Vec::new();
    for word in line.split_whitespace().take(8) {
        counts.push(word.parse::<u64>().ok()?);
    }
    let (idle, waiting) = (counts.get(3)?, counts.get(4)?);
    Some(Ticks {
        all: counts.iter().sum(),
        idle: idle + waiting,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_in_use_is_what_is_not_idle() {
        let before = parse("cpu  10 0 10 80 0 0 0 0 5 5\ncpu0 1 2 3 4\n").unwrap();
        assert_eq!(before, Ticks { all: 100, idle: 80 });
        let now = parse("cpu  20 0 15 150 5 0 0 10 0 0\n").unwrap();
        assert_eq!(now.since(before), 0.25);
        assert_eq!(now.since(now), 0.0);
        assert!(parse("intr 1 2 3").is_none());
    }
}
