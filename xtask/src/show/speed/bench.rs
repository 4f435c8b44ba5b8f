//! Ahead of every alternative, near the kernel's limit. Each line runs the bench with
//! those whom it names; ratios are medians of the ratios of each round, between namespaces at MTU 1500. Where
//! others block, Suci does what it does by default (it looks for up to 50 us before it sleeps).

use crate::bench::{self, Row};
use crate::error::Result;
use crate::show::tools::median;
use crate::show::{Ctx, Figure, Line};

pub(super) const LINES: &[Line] = &[
    Line {
        name: "rtt-spin",
        must: "64 B round trip, spinning: at most 1.15 x raw UDP, below MPICH, UCX and libfabric",
        run: round_trip_spinning,
    },
    Line {
        name: "rtt-block",
        must: "64 B round trip, blocking: at most 1.0 x TCP cubic",
        run: round_trip_blocking,
    },
    Line {
        name: "stream-64k",
        must: "64 KiB one way: 1.0 x TCP cubic and bbr, CPU per GB 0.95 x cubic's, 0.85 x the bound \
               without payload CRC (blocking and spinning), 4 x quinn, 1.5 x ZeroMQ",
        run: |_| large("stream-65536@"),
    },
    Line {
        name: "stream-1m",
        must: "1 MiB one way: the same",
        run: |_| large("stream-1048576@"),
    },
    Line {
        name: "stream-1472",
        must: "1,472 B one way, in batches: 0.7 x the bound (without payload CRC), 8 x TCP without \
               batching, 3 x ZeroMQ",
        run: packets,
    },
    Line {
        name: "rate-32",
        must: "32 B messages, in batches: 3 x ZeroMQ, 1.5 x quinn with batching, 50 x MPICH",
        run: |_| rate("rate-32@"),
    },
    Line {
        name: "rate-128",
        must: "128 B messages, in batches: the same",
        run: |_| rate("rate-128@"),
    },
    Line {
        name: "loss",
        must: "1 % loss, 64 KiB: at least 0.7 x its own goodput without loss, above every contender",
        run: loss,
    },
    Line {
        name: "broadcast",
        must: "64 KiB to 3: the sum at least 1.0 x three TCP streams",
        run: broadcast,
    },
    Line {
        name: "mix",
        must: "DSE's mix of requests and replies, 16 in flight: at least 5 x TCP",
        run: mix,
    },
];

/// What is demanded of a ratio.
#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// Reported only.
    Any,
}

/// The ratios of one line, and whether all hold.
struct Judge {
    holds: bool,
    text: String,
}

impl Judge {
    fn new(text: String) -> Self {
        Self { holds: true, text }
    }

    /// A ratio called `what`.
    fn hold(&mut self, what: &str, ratio: f64, bound: Bound) {
        // No bound holds for what is not a number.
        let holds = match bound {
            Bound::AtLeast(least) => ratio >= least,
            Bound::AtMost(most) => ratio <= most,
            Bound::Any => true,
        };
        self.holds &= holds;
        let mark = if holds { "" } else { " (!)" };
        self.text = format!("{}; {what} {ratio:.2}{mark}", self.text);
    }

    /// The figures of `ours` by those of `theirs`.
    fn compare(&mut self, rows: &[Row], ours: &str, theirs: &str, bound: Bound) -> Result<()> {
        let (own, other) = (
            bench::of(rows, ours)?.values(),
            bench::of(rows, theirs)?.values(),
        );
        let ratios = own.iter().zip(&other).map(|(own, other)| own / other);
        self.hold(
            &format!("{ours} / {theirs}"),
            median(ratios.collect()),
            bound,
        );
        Ok(())
    }

    fn figure(self) -> Result<Figure> {
        Ok(Figure::new(self.holds, self.text))
    }
}

/// The rows of one task with the contenders named, and the figure of one of them to begin with.
fn measured(task: &str, versus: &str, ours: &str) -> Result<(Vec<Row>, Judge)> {
    let rows = bench::rows(&["--only", task, "--vs", versus])?;
    let median = bench::of(&rows, ours)?.figure("median")?;
    let judge = Judge::new(format!("{ours} {}", shown(median)));
    Ok((rows, judge))
}

/// Round trips and goodput to a hundredth, rates without.
fn shown(figure: f64) -> String {
    match figure {
        1000.0.. => format!("{figure:.0}"),
        _ => format!("{figure:.2}"),
    }
}

fn round_trip_spinning(_: &Ctx) -> Result<Figure> {
    let versus = "udp,tcp-cubic,mpich,ucx,fabric";
    let (rows, mut judge) = measured("rtt-64@", versus, "suci spin")?;
    judge.compare(&rows, "suci spin", "udp spin", Bound::AtMost(1.15))?;
    for other in [
        "mpich spin",
        "ucx spin",
        "fabric-tcp spin",
        "fabric-udp spin",
    ] {
        judge.compare(&rows, "suci spin", other, Bound::AtMost(1.0))?;
    }
    percentiles(&rows, judge, &["suci spin", "udp spin"])
}

fn round_trip_blocking(_: &Ctx) -> Result<Figure> {
    let (rows, mut judge) = measured("rtt-64@", "tcp-cubic", "suci adaptive")?;
    judge.compare(
        &rows,
        "suci adaptive",
        "tcp-cubic block",
        Bound::AtMost(1.0),
    )?;
    judge.compare(&rows, "suci block", "tcp-cubic block", Bound::Any)?;
    percentiles(&rows, judge, &["suci adaptive", "tcp-cubic block"])
}

/// Appends the 99th percentiles of some.
fn percentiles(rows: &[Row], mut judge: Judge, whose: &[&str]) -> Result<Figure> {
    for who in whose {
        let p99 = bench::of(rows, who)?.figure("p99")?;
        judge.text = format!("{}; p99 {who} {p99:.1} us", judge.text);
    }
    judge.figure()
}

fn large(task: &str) -> Result<Figure> {
    let (rows, mut judge) = measured(task, "tcp,gso,quinn,zeromq", "suci adaptive")?;
    for other in ["tcp-cubic block", "tcp-bbr block"] {
        judge.compare(&rows, "suci adaptive", other, Bound::AtLeast(1.0))?;
    }
    let cpu = |who| bench::of(&rows, who)?.figure("cpu_seconds_per_gb");
    let ratio = cpu("suci adaptive")? / cpu("tcp-cubic block")?;
    judge.hold("CPU per GB / tcp-cubic's", ratio, Bound::AtMost(0.95));
    let near = Bound::AtLeast(0.85);
    judge.compare(&rows, "suci-no-crc adaptive", "gso block", near)?;
    judge.compare(&rows, "suci-no-crc spin", "gso spin", near)?;
    judge.compare(&rows, "suci spin", "tcp-cubic spin", Bound::Any)?;
    judge.compare(&rows, "suci adaptive", "quinn block", Bound::AtLeast(4.0))?;
    judge.compare(&rows, "suci adaptive", "zeromq block", Bound::AtLeast(1.5))?;
    judge.figure()
}

fn packets(_: &Ctx) -> Result<Figure> {
    let (rows, mut judge) = measured(
        "stream-1472@",
        "tcp-cubic,gso,zeromq",
        "suci-batch adaptive",
    )?;
    judge.compare(
        &rows,
        "suci-batch-no-crc adaptive",
        "gso block",
        Bound::AtLeast(0.7),
    )?;
    judge.compare(
        &rows,
        "suci-batch adaptive",
        "tcp-cubic block",
        Bound::AtLeast(8.0),
    )?;
    judge.compare(
        &rows,
        "suci-batch adaptive",
        "zeromq block",
        Bound::AtLeast(3.0),
    )?;
    judge.compare(&rows, "suci adaptive", "zeromq block", Bound::Any)?;
    judge.figure()
}

fn rate(task: &str) -> Result<Figure> {
    let versus = "tcp-cubic-batch,zeromq,quinn-batch,mpich";
    let (rows, mut judge) = measured(task, versus, "suci-batch adaptive")?;
    judge.compare(
        &rows,
        "suci-batch adaptive",
        "zeromq block",
        Bound::AtLeast(3.0),
    )?;
    judge.compare(
        &rows,
        "suci-batch adaptive",
        "quinn-batch block",
        Bound::AtLeast(1.5),
    )?;
    judge.compare(
        &rows,
        "suci-batch adaptive",
        "mpich spin",
        Bound::AtLeast(50.0),
    )?;
    // The goal.
    judge.compare(
        &rows,
        "suci-batch adaptive",
        "tcp-cubic-batch block",
        Bound::Any,
    )?;
    judge.figure()
}

fn loss(_: &Ctx) -> Result<Figure> {
    let without = bench::rows(&["--net", "veth-plain", "--vs", "suci"])?;
    let rows = bench::rows(&["--net", "veth-loss"])?;
    let lossless = bench::of(&without, "suci adaptive")?.figure("median")?;
    let own = bench::of(&rows, "suci adaptive")?.figure("median")?;
    let mut judge = Judge::new(format!("suci block {}", shown(own)));
    judge.hold(
        "of its own without loss",
        own / lossless,
        Bound::AtLeast(0.7),
    );
    for row in rows.iter().filter(|row| !row.who().starts_with("suci")) {
        judge.compare(&rows, "suci adaptive", &row.who(), Bound::AtLeast(1.0))?;
    }
    judge.figure()
}

fn broadcast(_: &Ctx) -> Result<Figure> {
    let (rows, mut judge) = measured("broadcast-65536@", "tcp-cubic", "suci adaptive")?;
    judge.compare(
        &rows,
        "suci adaptive",
        "tcp-cubic block",
        Bound::AtLeast(1.0),
    )?;
    judge.figure()
}

fn mix(_: &Ctx) -> Result<Figure> {
    let (rows, mut judge) = measured("mix@", "tcp-cubic", "suci adaptive")?;
    judge.compare(
        &rows,
        "suci adaptive",
        "tcp-cubic block",
        Bound::AtLeast(5.0),
    )?;
    judge.compare(&rows, "suci adaptive", "tcp-cubic-batch block", Bound::Any)?;
    judge.figure()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |contender: &str, values: [f64; 3]| {
            let text = format!(
                r#"{{"contender":"{contender}","wait":"block","median":{},"values":{values:?}}}"#,
                values[1]
            );
            Row::parse(&text).unwrap()
        };
        vec![
            row("suci", [2.0, 4.0, 8.0]),
            row("tcp-cubic", [2.0, 2.0, 1.0]),
        ]
    }

    #[test]
    fn a_ratio_is_the_median_of_those_of_the_rounds() {
        let mut judge = Judge::new("x".to_owned());
        judge
            .compare(
                &rows(),
                "suci block",
                "tcp-cubic block",
                Bound::AtLeast(2.0),
            )
            .unwrap();
        assert!(judge.holds, "{}", judge.text);
        judge
            .compare(
                &rows(),
                "suci block",
                "tcp-cubic block",
                Bound::AtLeast(2.1),
            )
            .unwrap();
        judge
            .compare(&rows(), "suci block", "tcp-cubic block", Bound::AtMost(2.0))
            .unwrap();
        let figure = judge.figure().unwrap();
        assert!(!figure.holds);
        let ratio = "suci block / tcp-cubic block 2.00";
        assert_eq!(figure.text, format!("x; {ratio}; {ratio} (!); {ratio}"));
    }

    #[test]
    fn who_did_not_finish_fails_the_line() {
        let mut judge = Judge::new(String::new());
        let missing = judge.compare(&rows(), "suci block", "zeromq block", Bound::Any);
        assert_eq!(
            missing.unwrap_err().to_string(),
            "zeromq block did not finish"
        );
    }

    #[test]
    fn nothing_holds_for_what_is_not_a_number() {
        let mut judge = Judge::new(String::new());
        judge.hold("nothing", f64::NAN, Bound::AtLeast(0.0));
        assert!(!judge.holds);
    }
}
