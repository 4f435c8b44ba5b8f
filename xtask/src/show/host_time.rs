//! Time that belongs to the host is not the network's: busy hosts, paths that become faster, and
//! small queues, beside real TCP on emulated links.

use super::tools::{count, simulate, tests_of};
use super::{Ctx, Figure, Line, median};
use crate::error::{Context, Result};
use crate::ladders;

/// Rounds in which the contenders take turns.
const ROUNDS: usize = 9;

/// Time of a run in milliseconds, when the rate changes, and the parts that are printed.
const TIME: &str = "time=10000";
const LONG_TIME: &str = "time=20000";
const PART: &str = "every=500";
const PART_SECONDS: f64 = 0.5;

/// Threads that never sleep, on two cores.
const BUSY: &str = "busy=12";

pub(super) const LINES: &[Line] = &[
    Line {
        name: "busy-20ms",
        must: "12 busy threads, 50 Mbit/s, 20 ms: at least 0.8 x TCP CUBIC",
        run: |_| {
            let link = ["round_trip=20000", "rate=50000000", "queue=125000"];
            at_least(0.8, "cubic", &[&link[..], &[BUSY, TIME]].concat())
        },
    },
    Line {
        name: "busy-1ms",
        must: "12 busy threads, 1 Gbit/s, 1 ms: at least 0.8 x TCP CUBIC",
        run: |_| {
            let link = ["round_trip=1000", "rate=1000000000", "queue=500000"];
            at_least(0.8, "cubic", &[&link[..], &[BUSY, TIME]].concat())
        },
    },
    Line {
        name: "faster-20ms",
        must: "10 to 100 Mbit/s at 20 ms: nine tenths after 3 s",
        run: |_| {
            let [suci, bbr] = times_until_full("round_trip=20000")?;
            Ok(Figure::new(suci <= 3.0, followed(suci, bbr)))
        },
    },
    Line {
        name: "faster-100ms",
        must: "10 to 100 Mbit/s at 100 ms: nine tenths after 8 s, or BBR's time",
        run: |_| {
            let [suci, bbr] = times_until_full("round_trip=100000")?;
            Ok(Figure::new(suci <= 8.0_f64.max(bbr), followed(suci, bbr)))
        },
    },
    Line {
        name: "there-and-back",
        must: "200, 20 and 200 Mbit/s at 20 ms: at least 0.8 x BBR",
        run: |_| {
            let link = ["round_trip=20000", "rate=200000000", "queue=250000"];
            let changes = ["then=5000:20000000", "then=10000:200000000", LONG_TIME];
            at_least(0.8, "bbr", &[&link[..], &changes].concat())
        },
    },
    Line {
        name: "loss-1ms",
        must: "300 Mbit/s, 1 ms, 2 % loss: at least 0.8 x BBR",
        run: |_| {
            let link = ["round_trip=1000", "rate=300000000", "queue=250000"];
            at_least(0.8, "bbr", &[&link[..], &["loss=0.02"]].concat())
        },
    },
    Line {
        name: "small-queue",
        must: "100 Mbit/s, 1 ms, 15 KB of queue: at least 0.8 x BBR",
        run: |_| {
            let link = ["round_trip=1000", "rate=100000000", "queue=15000"];
            at_least(0.8, "bbr", &link)
        },
    },
    Line {
        name: "fairness-sim",
        must: "two flows, and one beside CUBIC, at 0.2 to 100 ms: Jain, shares (simulated)",
        run: |_| tests_of("suci-link", "congestion::tests", &[]),
    },
    Line {
        name: "busy-sim",
        must: "hosts that run 1 ms of 10, or stop anywhere, fill a long path (simulated)",
        run: |_| tests_of("suci-sim", "f33_", &[]),
    },
    Line {
        name: "busy-seeds",
        must: "10,000 seeds with busy hosts pass",
        run: seeds,
    },
];

/// Whether Suci reaches `share` of the goodput of TCP with that congestion control on the same
/// link, by the medians of rounds in turns.
fn at_least(share: f64, control: &str, link: &[&str]) -> Result<Figure> {
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (figures, contender) in rounds.iter_mut().zip(["suci", control]) {
            figures.push(ladders::goodput_of(contender, link)?);
        }
    }
    let [suci, tcp] = rounds.map(median);
    let text = format!("{suci:.1} Mbit/s, TCP {control} {tcp:.1}");
    Ok(Figure::new(suci >= share * tcp, text))
}

/// The seconds until Suci and BBR reach nine tenths of 100 Mbit/s after the rate was 10: medians of
/// rounds in turns.
fn times_until_full(round_trip: &str) -> Result<[f64; 2]> {
    let change = ["rate=10000000", "queue=250000", "then=5000:100000000"];
    let link = [&[round_trip][..], &change, &[LONG_TIME, PART]].concat();
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (times, contender) in rounds.iter_mut().zip(["suci", "bbr"]) {
            times.push(seconds_until_full(&ladders::run_of(contender, &link)?)?);
        }
    }
    Ok(rounds.map(median))
}

fn followed(suci: f64, bbr: f64) -> String {
    format!("{suci:.1} s, TCP bbr {bbr:.1} s")
}

/// Returns the seconds from the change at 5 s to the first part with 90 Mbit/s, of a run that
/// prints `parts MBIT...`; infinite if there is none.
fn seconds_until_full(output: &str) -> Result<f64> {
    let parts = output.lines().find_map(|line| line.strip_prefix("parts "));
    let parts = parts.context(format!("no parts in {output:?}"))?;
    let mut after = parts.split_whitespace().skip(10);
    let full = |part: &str| part.parse::<f64>().is_ok_and(|mbit| mbit >= 90.0);
    let at = after.position(full);
    Ok(at.map_or(f64::INFINITY, |at| at as f64 * PART_SECONDS))
}

fn seeds(ctx: &Ctx) -> Result<Figure> {
    let summary = simulate(ctx, &["--profile", "busy", "--seeds", "0..10000"])?;
    let (messages, faults) = (count(&summary, "messages")?, count(&summary, "faults")?);
    let text = format!("{messages} messages, {faults} faults");
    Ok(Figure::new(true, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_until_the_link_is_full_begins_with_the_change() {
        let before = ["9.8"; 10].join(" ");
        let time = |after: &str| seconds_until_full(&format!("parts {before} {after}\nmbit 1\n"));
        assert_eq!(time("11.0 40.0 91.0 95.0").unwrap(), 1.0);
        assert_eq!(time("11.0").unwrap(), f64::INFINITY);
        assert!(seconds_until_full("mbit 1").is_err());
    }
}
