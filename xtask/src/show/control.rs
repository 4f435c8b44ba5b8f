//! A small question to a busy server: `tests/src/bin/control` measures it, this judges.

use super::{Ctx, Figure};
use crate::error::{Context, Result};
use crate::exec;
use std::process::Command;

/// Rounds, and seconds of each turn.
const RUN: [&str; 2] = ["9", "2"];

/// The 99th percentile that suffices in any case, in microseconds.
const ENOUGH: f64 = 5_000.0;

/// The part of its rate alone that bulk keeps at least.
const KEPT: f64 = 0.9;

/// Whether questions wait no longer than with TCP and two sockets in the same run, or 5 ms, while
/// bulk keeps its rate.
pub(super) fn beside_bulk(_: &Ctx) -> Result<Figure> {
    let build = ["build", "--locked", "--release", "-p", "suci-tests"];
    exec::run(&mut exec::cargo(
        build.into_iter().chain(["--bin", "control"]),
    ))?;
    let program = exec::target_dir().join("release").join("control");
    let output = exec::capture(Command::new(program).args(RUN))?;
    judge(&output)
}

fn judge(output: &str) -> Result<Figure> {
    let bound = value(output, "tcp", "p99_us")?.max(ENOUGH);
    let mut holds = true;
    for contender in ["node", "shared"] {
        holds &= value(output, contender, "p99_us")? <= bound;
        holds &= value(output, contender, "of_lone_rate")? >= KEPT;
    }
    Ok(Figure::new(holds, output.trim().replace('\n', "\n    ")))
}

/// Reads the value behind `key` in the line of `contender`.
fn value(output: &str, contender: &str, key: &str) -> Result<f64> {
    let mut lines = output.lines().map(str::split_whitespace);
    let mut words = lines
        .find_map(|mut words| (words.next() == Some(contender)).then_some(words))
        .context(format!("no line of {contender}"))?;
    words.find(|&word| word == key);
    let found = words.next().and_then(|word| word.parse().ok());
    found.context(format!("no {key} of {contender}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program's output, with these percentiles, and the part of the rate that the node's bulk
    /// kept.
    fn output(node: u32, tcp: u32, kept: f64) -> String {
        format!(
            "five processes\n\
             node   p50_us 1 p99_us {node} (1 to 9) bulk_gbit 3 of_lone_rate {kept} (0.80 to 1.00)\n\
             shared p50_us 1 p99_us 4000 (1 to 9) bulk_gbit 3 of_lone_rate 0.95 (0.80 to 1.00)\n\
             tcp    p50_us 1 p99_us {tcp} (1 to 9) bulk_gbit 9 of_lone_rate 0.70 (0.50 to 1.00)\n"
        )
    }

    #[test]
    fn questions_may_wait_as_long_as_with_tcp_or_5_ms() {
        let holds = |node, tcp, kept| judge(&output(node, tcp, kept)).unwrap().holds;
        assert!(holds(5_000, 100, 0.9));
        assert!(!holds(5_001, 100, 0.9));
        assert!(holds(5_001, 5_001, 0.9));
        assert!(!holds(1, 5_001, 0.89));
        assert!(judge("node p50_us 1\n").is_err());
    }
}
