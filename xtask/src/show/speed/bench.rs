//! Ahead of every alternative, near the kernel's limit. Each line asks the bench for the contenders
//! that it names. The bench measures those that it has not measured of this tree before. Ratios,
//! those of percentiles and of processor time too, are medians of the ratios of each round, between
//! namespaces at MTU 1500. Figures of one contender alone are medians over rounds. The share that
//! loss leaves is of two such medians: it is between two tasks, which have no round in common. A
//! ratio counts if at least half of the rounds have it, of which there must be nine; and Suci must
//! finish each of its rounds. For goodput, the bound is judged without payload CRC, and all other
//! contenders with it. The other way round is reported, as are figures without a demand. Where
//! others block, Suci has its defaults (it polls for up to 50 us before it sleeps).

use crate::bench::{self, Row};
use crate::error::{Failure, Result};
use crate::show::tools::median;
use crate::show::{Ctx, Figure, Line};

pub(super) const LINES: &[Line] = &[
    Line {
        name: "rtt-spin",
        must: "64 B round trip, spinning: at most 1.15 x raw UDP, below MPICH, UCX and libfabric; p99 too",
        run: round_trip_spinning,
    },
    Line {
        name: "rtt-block",
        must: "64 B round trip, by default (looks 50 us, then sleeps) and asleep at once: at most 1.0 x TCP cubic, \
               blocking; p99 too",
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
        must: "32 B messages, in batches: 3 x ZeroMQ, 1.5 x quinn with batching, 50 x MPICH \
               (which sends one by one)",
        run: |_| rate("rate-32@"),
    },
    Line {
        name: "rate-128",
        must: "128 B messages, in batches: the same",
        run: |_| rate("rate-128@"),
    },
    Line {
        name: "loss",
        must: "1 % loss, 64 KiB: at least 0.7 x its own goodput without loss (of a task of its own), above every contender",
        run: loss,
    },
    Line {
        name: "broadcast",
        must: "64 KiB to 3: the sum at least 1.0 x three TCP streams",
        run: broadcast,
    },
    Line {
        name: "mix",
        must: "DSE's mix of requests and replies, 16 in flight, a send each: at least 5 x TCP with a write each",
        run: mix,
    },
];

/// Rounds that Suci must finish at least.
const ROUNDS: f64 = 9.0;

/// The bound on a ratio.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// Reported only.
    Any,
}

/// The ratios of one line, and whether all hold.
pub(super) struct Judge {
    holds: bool,
    text: String,
}

impl Judge {
    fn new(text: String) -> Self {
        Self { holds: true, text }
    }

    /// Judges a ratio called `what`.
    pub(super) fn hold(&mut self, what: &str, ratio: f64, bound: Bound) {
        // No bound holds for NaN.
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
    pub(super) fn compare(
        &mut self,
        rows: &[Row],
        ours: &str,
        theirs: &str,
        bound: Bound,
    ) -> Result<()> {
        self.finished(bench::of(rows, ours)?, bound)?;
        let ratio = ratio(rows, "values", ours, theirs)?;
        self.hold(&format!("{ours} / {theirs}"), ratio, bound);
        Ok(())
    }

    /// If there is a demand on the contender of `row`, it must have finished each of at least
    /// [`ROUNDS`] rounds.
    fn finished(&mut self, row: &Row, bound: Bound) -> Result<()> {
        let (asked, failed) = (turns(row)?, row.figure("failures")?);
        let whole = asked >= ROUNDS && failed == 0.0;
        if !whole && !matches!(bound, Bound::Any) {
            self.holds = false;
            let note = match failed {
                0.0 => format!("; {} had only {asked} rounds (!)", row.who()),
                _ => format!("; {} failed in {failed} of {asked} rounds (!)", row.who()),
            };
            if !self.text.contains(&note) {
                self.text += &note;
            }
        }
        Ok(())
    }

    /// Compares with several contenders, each with its bound.
    pub(super) fn compare_with(
        &mut self,
        rows: &[Row],
        ours: &str,
        theirs: &[(&str, Bound)],
    ) -> Result<()> {
        let mut all = theirs.iter();
        all.try_for_each(|(theirs, bound)| self.compare(rows, ours, theirs, *bound))
    }

    /// Reports several contenders, none of which is judged.
    fn report<'a>(
        &mut self,
        rows: &[Row],
        ours: &str,
        theirs: impl IntoIterator<Item = &'a str>,
    ) -> Result<()> {
        let mut all = theirs.into_iter();
        all.try_for_each(|theirs| self.compare(rows, ours, theirs, Bound::Any))
    }

    /// Compares Suci with payload CRC, which is judged, then without it, which is reported.
    fn compare_both(
        &mut self,
        rows: &[Row],
        [with, without]: [&str; 2],
        theirs: &[(&str, Bound)],
    ) -> Result<()> {
        self.compare_with(rows, with, theirs)?;
        self.report(rows, without, theirs.iter().map(|(theirs, _)| *theirs))
    }

    /// Compares round trips, and their 99th percentiles.
    fn compare_trips(
        &mut self,
        rows: &[Row],
        ours: &str,
        theirs: &str,
        bound: Bound,
    ) -> Result<()> {
        self.compare(rows, ours, theirs, bound)?;
        let p99 = |who| bench::of(rows, who)?.figure("p99");
        let (own, other) = (p99(ours)?, p99(theirs)?);
        let ratio = ratio(rows, "p99_values", ours, theirs)?;
        self.hold(&format!("p99 {own:.1} us / {other:.1} us"), ratio, bound);
        Ok(())
    }

    /// Adds a remark that is not judged.
    pub(super) fn note(&mut self, what: &str) {
        self.text = format!("{}; {what}", self.text);
    }

    pub(super) fn figure(self) -> Result<Figure> {
        Ok(Figure::new(self.holds, self.text))
    }
}

/// The median over rounds of the figure of `ours` divided by that of `theirs` in the same round.
pub(super) fn ratio(rows: &[Row], what: &str, ours: &str, theirs: &str) -> Result<f64> {
    let (own, other) = (bench::of(rows, ours)?, bench::of(rows, theirs)?);
    let asked = turns(own)?.min(turns(other)?);
    let (own, other) = (own.rounds(what), other.rounds(what));
    let ratio = |(round, own): (&&str, &f64)| Some(own / other.get(round)?);
    let ratios: Vec<f64> = own.iter().filter_map(ratio).collect();
    enough(&format!("{ours} and {theirs}"), ratios.len() as f64, asked)?;
    Ok(median(ratios))
}

/// The rounds in which the contender had a turn, finished or not.
fn turns(row: &Row) -> Result<f64> {
    Ok(row.figure("rounds")? + row.figure("failures")?)
}

/// Refuses figures of a few lucky rounds: a contender that fails in most of them was not measured.
fn enough(who: &str, finished: f64, asked: f64) -> Result<()> {
    if finished * 2.0 >= asked {
        return Ok(());
    }
    let few = format!("{who} finished {finished} of {asked} rounds, fewer than half");
    Err(Failure::new(few))
}

/// Returns the rows of one task with the contenders named, and a judge that begins with the figure
/// of one of them.
pub(super) fn measured(task: &str, versus: &str, ours: &str) -> Result<(Vec<Row>, Judge)> {
    let rows = bench::rows(&["--only", task, "--vs", versus])?;
    let judge = begun(bench::of(&rows, ours)?)?;
    Ok((rows, judge))
}

/// Begins with a figure and where it comes from.
fn begun(row: &Row) -> Result<Judge> {
    let (who, median, origin) = (row.who(), shown(row.figure("median")?), row.origin());
    Ok(Judge::new(format!("{who} {median} ({origin})")))
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
    judge.compare_trips(&rows, "suci spin", "udp spin", Bound::AtMost(1.15))?;
    for other in [
        "mpich spin",
        "ucx spin",
        "fabric-tcp spin",
        "fabric-udp spin",
    ] {
        judge.compare_trips(&rows, "suci spin", other, Bound::AtMost(1.0))?;
    }
    judge.report(&rows, "suci-no-crc spin", ["udp spin"])?;
    judge.figure()
}

fn round_trip_blocking(_: &Ctx) -> Result<Figure> {
    let (rows, mut judge) = measured("rtt-64@", "tcp-cubic", "suci adaptive")?;
    for ours in ["suci adaptive", "suci block"] {
        judge.compare_trips(&rows, ours, "tcp-cubic block", Bound::AtMost(1.0))?;
    }
    judge.report(&rows, "suci-no-crc adaptive", ["tcp-cubic block"])?;
    judge.figure()
}

fn large(task: &str) -> Result<Figure> {
    let (rows, mut judge) = measured(task, "tcp,gso,quinn,zeromq", "suci adaptive")?;
    let like_tcp = Bound::AtLeast(1.0);
    judge.compare_both(
        &rows,
        ["suci adaptive", "suci-no-crc adaptive"],
        &[
            ("tcp-cubic block", like_tcp),
            ("tcp-bbr block", like_tcp),
            ("quinn block", Bound::AtLeast(4.0)),
            ("zeromq block", Bound::AtLeast(1.5)),
        ],
    )?;
    for (ours, bound) in [
        ("suci adaptive", Bound::AtMost(0.95)),
        ("suci-no-crc adaptive", Bound::Any),
    ] {
        let cpu = ratio(&rows, "cpu_values", ours, "tcp-cubic block")?;
        judge.hold(&format!("CPU per GB {ours} / tcp-cubic's"), cpu, bound);
    }
    let near = Bound::AtLeast(0.85);
    judge.compare(&rows, "suci-no-crc adaptive", "gso block", near)?;
    judge.compare(&rows, "suci-no-crc spin", "gso spin", near)?;
    judge.report(&rows, "suci adaptive", ["gso block"])?;
    judge.report(&rows, "suci spin", ["gso spin", "tcp-cubic spin"])?;
    judge.figure()
}

/// Suci with small messages collected, with payload CRC and without.
const BATCHES: [&str; 2] = ["suci-batch adaptive", "suci-batch-no-crc adaptive"];

fn packets(_: &Ctx) -> Result<Figure> {
    let versus = "tcp-cubic,gso,zeromq";
    let (rows, mut judge) = measured("stream-1472@", versus, "suci-batch adaptive")?;
    let near = Bound::AtLeast(0.7);
    judge.compare(&rows, "suci-batch-no-crc adaptive", "gso block", near)?;
    judge.report(&rows, "suci-batch adaptive", ["gso block"])?;
    judge.compare_both(
        &rows,
        BATCHES,
        &[
            ("tcp-cubic block", Bound::AtLeast(8.0)),
            ("zeromq block", Bound::AtLeast(3.0)),
            // Like with like.
            ("tcp-cubic-batch block", Bound::Any),
        ],
    )?;
    let one_by_one = ["tcp-cubic block", "zeromq block", "gso block"];
    judge.report(&rows, "suci adaptive", one_by_one)?;
    judge.figure()
}

fn rate(task: &str) -> Result<Figure> {
    let versus = "tcp-cubic-batch,zeromq,quinn-batch,mpich";
    let (rows, mut judge) = measured(task, versus, "suci-batch adaptive")?;
    judge.compare_both(
        &rows,
        BATCHES,
        &[
            ("zeromq block", Bound::AtLeast(3.0)),
            ("quinn-batch block", Bound::AtLeast(1.5)),
            ("mpich spin", Bound::AtLeast(50.0)),
            // The goal.
            ("tcp-cubic-batch block", Bound::Any),
        ],
    )?;
    // A call for each message, as those two have it.
    judge.report(&rows, "suci adaptive", ["zeromq block", "mpich spin"])?;
    judge.figure()
}

/// Contenders that the line of loss must contain; Aeron, ENet and KCP where they are
/// installed.
const RIVALS: [&str; 8] = [
    "tcp-cubic block",
    "tcp-bbr block",
    "zeromq block",
    "quinn block",
    "mpich spin",
    "ucx spin",
    "fabric-tcp spin",
    "fabric-udp spin",
];

fn loss(_: &Ctx) -> Result<Figure> {
    let without = bench::rows(&["--net", "veth-plain", "--vs", "suci"])?;
    let rows = bench::rows(&["--net", "veth-loss"])?;
    let own = bench::of(&rows, "suci adaptive")?;
    let lossless = bench::of(&without, "suci adaptive")?.figure("median")?;
    let mut judge = begun(own)?;
    let share = own.figure("median")? / lossless;
    judge.finished(bench::of(&without, "suci adaptive")?, Bound::AtLeast(0.7))?;
    let what = format!("of its own {} without loss", shown(lossless));
    judge.hold(&what, share, Bound::AtLeast(0.7));
    judge.report(&rows, "suci-no-crc adaptive", ["suci adaptive"])?;
    for who in RIVALS {
        judge.compare(&rows, "suci adaptive", who, Bound::AtLeast(1.0))?;
    }
    for row in &rows {
        let who = row.who();
        if who.starts_with("suci") || RIVALS.contains(&who.as_str()) {
            continue;
        }
        if row.figure("rounds")? == 0.0 {
            judge.text += &format!("; {who} finished no round");
        } else {
            judge.compare(&rows, "suci adaptive", &who, Bound::AtLeast(1.0))?;
        }
    }
    judge.figure()
}

fn broadcast(_: &Ctx) -> Result<Figure> {
    let (rows, mut judge) = measured("broadcast-65536@", "tcp-cubic", "suci adaptive")?;
    judge.compare_both(
        &rows,
        ["suci adaptive", "suci-no-crc adaptive"],
        &[("tcp-cubic block", Bound::AtLeast(1.0))],
    )?;
    judge.figure()
}

/// Judges a program that sends each message at once, on both sides.
fn mix(_: &Ctx) -> Result<Figure> {
    let (rows, mut judge) = measured("mix@", "tcp-cubic", "suci adaptive")?;
    let demanded = Bound::AtLeast(5.0);
    judge.compare(&rows, "suci adaptive", "tcp-cubic block", demanded)?;
    let others = ["tcp-cubic-batch block", "tcp-cubic block"];
    judge.report(&rows, "suci-batch adaptive", others)?;
    judge.report(&rows, "suci-no-crc adaptive", ["tcp-cubic block"])?;
    judge.figure()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |contender: &str, values: [f64; 3]| {
            let [a, b, c] = values;
            let each = |[a, b, c]: [f64; 3]| {
                let of = |at: u32| format!(r#""{at}":{a},"1{at}":{b},"2{at}":{c}"#);
                [3, 5, 8].map(of).join(",")
            };
            let (values, p99) = (each(values), each([c, c, a]));
            let text = format!(
                r#"{{"commit":"0123","contender":"{contender}","wait":"block","median":{b},
                "p99":{c},"earlier":2,"rounds":9,"failures":0,"values":{{{values}}},
                "p99_values":{{{p99}}}}}"#
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
    fn rounds_that_one_of_two_did_not_finish_do_not_count() {
        let mut rows = rows();
        let partial = r#"{"contender":"udp","wait":"block","rounds":3,"failures":1,"values":{"3":1.0,"28":2.0,"99":1.0}}"#;
        rows.push(Row::parse(partial).unwrap());
        let mut judge = Judge::new("x".to_owned());
        let both = judge.compare(&rows, "suci block", "udp block", Bound::AtLeast(4.0));
        both.unwrap();
        // Halfway between 2 and 4, which is not enough.
        assert_eq!(judge.text, "x; suci block / udp block 3.00 (!)");
    }

    #[test]
    fn a_figure_says_where_it_comes_from_and_p99_is_judged_too() {
        let rows = rows();
        let mut judge = begun(&rows[0]).unwrap();
        let p99 = judge.compare_trips(&rows, "suci block", "tcp-cubic block", Bound::AtMost(7.0));
        p99.unwrap();
        let begin = "suci block 4.00 (9 rounds of 0123, 2 measured before)";
        let ratios = "suci block / tcp-cubic block 2.00; p99 8.0 us / 1.0 us 8.00 (!)";
        assert_eq!(judge.text, format!("{begin}; {ratios}"));
        assert!(!judge.holds);
    }

    #[test]
    fn a_ratio_of_fewer_than_half_of_the_rounds_fails_the_line() {
        let told = |rounds: usize, failures: usize| {
            let row = |who: &str, rounds: usize, failures: usize| {
                let values: Vec<String> = (0..rounds).map(|at| format!(r#""{at}":2.0"#)).collect();
                let values = values.join(",");
                let text = format!(
                    r#"{{"contender":"{who}","wait":"spin","rounds":{rounds},
                    "failures":{failures},"values":{{{values}}}}}"#
                );
                Row::parse(&text).unwrap()
            };
            // Suci was measured beside others, too.
            let rows = [row("suci", 18, 0), row("fabric-udp", rounds, failures)];
            ratio(&rows, "values", "suci spin", "fabric-udp spin").map_err(|why| why.to_string())
        };
        assert_eq!(told(9, 0), Ok(1.0));
        assert_eq!(told(5, 4), Ok(1.0));
        assert_eq!(told(2, 2), Ok(1.0));
        let few = "suci spin and fabric-udp spin finished 4 of 9 rounds, fewer than half";
        assert_eq!(told(4, 5), Err(few.to_owned()));
    }

    #[test]
    fn suci_must_finish_each_of_nine_rounds() {
        let told = |rounds: u32, failures: u32, bound| {
            let text = format!(
                r#"{{"contender":"suci","wait":"spin","rounds":{rounds},"failures":{failures}}}"#
            );
            let mut judge = Judge::new("x".to_owned());
            let row = Row::parse(&text).unwrap();
            // Said once, however much is demanded of it.
            judge.finished(&row, bound).unwrap();
            judge.finished(&row, bound).unwrap();
            (judge.holds, judge.text)
        };
        let demanded = Bound::AtLeast(1.0);
        assert_eq!(told(9, 0, demanded), (true, "x".to_owned()));
        assert_eq!(told(8, 1, Bound::Any), (true, "x".to_owned()));
        let failed = "x; suci spin failed in 1 of 9 rounds (!)";
        assert_eq!(told(8, 1, demanded), (false, failed.to_owned()));
        let few = "x; suci spin had only 8 rounds (!)";
        assert_eq!(told(8, 0, demanded), (false, few.to_owned()));
    }

    #[test]
    fn reported_beside_what_is_judged_is_suci_without_payload_crc() {
        let mut judge = Judge::new("x".to_owned());
        let both = judge.compare_both(
            &rows(),
            ["suci block", "tcp-cubic block"],
            &[("tcp-cubic block", Bound::AtLeast(2.0))],
        );
        both.unwrap();
        let ratios = "suci block / tcp-cubic block 2.00; tcp-cubic block / tcp-cubic block 1.00";
        assert_eq!(judge.text, format!("x; {ratios}"));
        assert!(judge.holds);
    }

    #[test]
    fn a_contender_that_did_not_finish_fails_the_line() {
        let mut judge = Judge::new(String::new());
        let mut rows = rows();
        let fruitless = r#"{"contender":"kcp","wait":"block","rounds":0,"failures":9}"#;
        rows.push(Row::parse(fruitless).unwrap());
        for who in ["zeromq block", "kcp block"] {
            let missing = judge.compare(&rows, "suci block", who, Bound::Any);
            assert_eq!(
                missing.unwrap_err().to_string(),
                format!("{who} did not finish")
            );
        }
    }

    #[test]
    fn nothing_holds_for_what_is_not_a_number() {
        let mut judge = Judge::new(String::new());
        judge.hold("nothing", f64::NAN, Bound::AtLeast(0.0));
        assert!(!judge.holds);
    }
}
