//! `cargo xtask evaluate suci`: the evaluations of the Suci papers, on the classic C interface. The
//! one of the DSE paper, `evaluate dse`, is in `dse.rs`, those of CDP and Fast Messages,
//! `evaluate cdp`, in `cdp.rs`.
//!
//! The programs of `examples/classic` run between network namespaces whose devices are paced to 10
//! and 100 Mbit/s, as the papers' Ethernet was, and without a limit. Each evaluation gets a table,
//! a plot for each network, and a paragraph in `examples/classic/results`.

pub(crate) mod cdp;
pub(crate) mod dse;
mod findings;
pub(crate) mod hops;
mod plan;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::{Context, Failure, Result};
use crate::exec::{self, Process};
use crate::netns::Cluster;

use plan::{EVALUATIONS, Evaluation, Method};
use suci_plot::{Axis, Panel, Picture, Point, Series};

/// Hosts of a network: a sender and up to nine receivers.
pub(crate) const HOSTS: u16 = 10;

/// The port of every node.
const PORT: u16 = 7_600;

/// Longest run of one method.
const LIMIT: Duration = Duration::from_secs(90);

/// The pace of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    Mbit10,
    Mbit100,
    Unlimited,
}

impl Pace {
    pub(crate) const ALL: [Self; 3] = [Self::Mbit10, Self::Mbit100, Self::Unlimited];

    /// Its name for people.
    fn shown(self) -> &'static str {
        match self {
            Self::Mbit10 => "10 Mbit/s",
            Self::Mbit100 => "100 Mbit/s",
            Self::Unlimited => "unlimited",
        }
    }

    /// The end of a title.
    fn of_network(self) -> &'static str {
        match self {
            Self::Mbit10 => "at 10 Mbit/s",
            Self::Mbit100 => "at 100 Mbit/s",
            Self::Unlimited => "without a limit",
        }
    }

    /// Its name in file names.
    fn slug(self) -> &'static str {
        match self {
            Self::Mbit10 => "10",
            Self::Mbit100 => "100",
            Self::Unlimited => "unlimited",
        }
    }

    /// Mbit/s, and milliseconds that the device's queue holds.
    fn limit(self) -> Option<(u32, u32)> {
        match self {
            Self::Mbit10 => Some((10, 100)),
            Self::Mbit100 => Some((100, 50)),
            Self::Unlimited => None,
        }
    }
}

/// Hosts on one switch whose own devices are paced, as an Ethernet adapter paces a host.
pub(crate) fn network(pace: Pace) -> Result<Cluster> {
    let cluster = Cluster::new(HOSTS)?;
    if let Some((mbit, queue_ms)) = pace.limit() {
        for host in &cluster.hosts {
            host.limit_rate(mbit, queue_ms)?;
        }
    }
    Ok(cluster)
}

/// Makes a release build of the C library.
///
/// # Errors
/// The build fails.
pub fn build_library() -> Result<()> {
    let build = ["build", "-q", "--locked", "--release", "-p", "suci-capi"];
    exec::run(&mut exec::cargo(build))
}

/// Compiles a C program with that library in it.
///
/// # Errors
/// The compiler refuses it.
pub fn compile(source: &Path, program: &Path) -> Result<()> {
    let mut compile = Command::new("cc");
    compile
        .args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-I"])
        .arg(exec::root().join("crates/suci-capi/include"))
        .arg(source)
        .arg(exec::target_dir().join("release/libsuci_capi.a"))
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(program);
    exec::run(&mut compile)
}

/// The compiled programs.
pub(crate) struct Programs {
    dir: PathBuf,
}

impl Programs {
    /// Compiles every program of `examples/classic` against a release build of the C library.
    pub(crate) fn build() -> Result<Self> {
        build_library()?;
        let dir = exec::target_dir().join("evaluate");
        std::fs::create_dir_all(&dir)?;
        let place = exec::root().join("examples/classic");
        for entry in std::fs::read_dir(&place).context(place.display())? {
            let source = entry?.path();
            if source.extension().is_none_or(|kind| kind != "c") {
                continue;
            }
            let name = source.file_stem().context("a file without a name")?;
            compile(&source, &dir.join(name))?;
        }
        Ok(Self { dir })
    }

    /// Runs a program on the first `nodes` hosts, each with `args` behind table and ID. Returns
    /// what node 0 said.
    pub(crate) fn run(
        &self,
        cluster: &Cluster,
        program: &str,
        nodes: u16,
        args: &[&str],
    ) -> Result<String> {
        let mut table = String::new();
        for id in 0..nodes {
            let _ = writeln!(table, "{id} {}:{PORT}", cluster.addr(id));
        }
        let file = self.dir.join("nodes");
        std::fs::write(&file, table).context(file.display())?;
        let program = self.dir.join(program);
        let command = |id: u16| -> Result<Command> {
            let host = cluster.hosts.get(usize::from(id)).context("no such host")?;
            let mut command = host.command(&program);
            command.arg(&file).arg(id.to_string()).args(args);
            Ok(command)
        };
        let deadline = Instant::now() + LIMIT;
        let mut others = Vec::new();
        for id in 1..nodes {
            others.push(Process::spawn(&mut command(id)?)?);
        }
        // `timeout` ends a program that hangs.
        let mut first = Command::new("timeout");
        let inner = command(0)?;
        first
            .arg(LIMIT.as_secs().to_string())
            .arg(inner.get_program());
        let said = exec::capture(first.args(inner.get_args()))?;
        for other in &mut others {
            other.finish_by(deadline + Duration::from_secs(5))?;
        }
        Ok(said)
    }
}

/// Points of one method.
type Curve = Vec<(f64, f64)>;

/// The curves of one evaluation on one network, by the names of the methods.
type Curves = BTreeMap<&'static str, Curve>;

/// The curves of one evaluation on each network, in the order of [`Pace::ALL`].
pub(crate) struct Measured {
    curves: Vec<(Pace, Curves)>,
}

impl Measured {
    /// The value of a method at `x`.
    fn at(&self, pace: Pace, method: &str, x: f64) -> Option<f64> {
        let (_, curves) = self.curves.iter().find(|(known, _)| *known == pace)?;
        let point = curves.get(method)?.iter().find(|point| point.0 == x);
        point.map(|point| point.1)
    }

    fn curve(&self, pace: Pace, method: &str) -> &[(f64, f64)] {
        let known = self.curves.iter().find(|(known, _)| *known == pace);
        let curve = known.and_then(|(_, curves)| curves.get(method));
        curve.map_or(&[], Vec::as_slice)
    }
}

/// Parses lines of two numbers.
fn parse(said: &str) -> Result<Curve> {
    let point = |line: &str| {
        let (x, y) = line.split_once(' ')?;
        Some((x.parse().ok()?, y.parse().ok()?))
    };
    let points: Option<Curve> = said.lines().map(point).collect();
    let points = points.filter(|points| !points.is_empty());
    points.context(format!("no table: {said}"))
}

/// Measures one method of an evaluation.
pub(crate) fn measure(
    programs: &Programs,
    cluster: &Cluster,
    pace: Pace,
    evaluation: &Evaluation,
    method: &Method,
) -> Result<Curve> {
    let args = [method.argument, (evaluation.effort)(pace)];
    parse(&programs.run(cluster, evaluation.program, evaluation.nodes, &args)?)
}

/// The evaluation that this program makes.
pub(crate) fn of(program: &str) -> Result<&'static Evaluation> {
    let known = EVALUATIONS.iter().find(|known| known.program == program);
    known.context(format!("no evaluation by {program}"))
}

fn table(evaluation: &Evaluation, curves: &Curves) -> String {
    let mut text = format!("| {} |", evaluation.across);
    for method in evaluation.methods {
        let _ = write!(text, " {} |", method.name);
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(evaluation.methods.len()));
    text.push('\n');
    let mut rows: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for method in evaluation.methods {
        for (x, y) in curves.get(method.name).into_iter().flatten() {
            // Four digits: multiples of figures with fewer would be those of rounding.
            let digits = (3.0 - y.log10().floor()).clamp(0.0, 6.0) as usize;
            rows.entry(*x as u64)
                .or_default()
                .push(format!("{y:.digits$}"));
        }
    }
    for (x, row) in rows {
        let _ = writeln!(text, "| {x} | {} |", row.join(" | "));
    }
    text
}

/// The picture of one network. At a pace all methods come near to it: multiples of TCP's figure
/// tell them apart.
fn picture(title: &str, evaluation: &Evaluation, pace: Pace, curves: &Curves) -> Picture {
    let drawn = &evaluation.drawn;
    let point = |(x, y): &(f64, f64)| Point::new(*x, y * drawn.scale);
    let series = evaluation.methods.iter().filter_map(|method| {
        let curve = curves.get(method.name)?;
        Some(Series {
            name: method.name.to_owned(),
            points: curve.iter().map(point).collect(),
        })
    });
    let (name, unit) = drawn.across;
    let panel = Panel {
        title: title.to_owned(),
        better: drawn.better,
        across: match evaluation.logarithmic {
            true => Axis::logarithmic(name, unit),
            false => Axis::linear(name, unit),
        },
        up: Axis::logarithmic(drawn.up.0, drawn.up.1),
        series: series.collect(),
    };
    let panels = match pace {
        Pace::Unlimited => vec![panel],
        Pace::Mbit10 | Pace::Mbit100 => vec![panel.relative_to(drawn.base)],
    };
    Picture { panels }
}

/// Writes the part of an evaluation, and its plots. Returns the part.
fn report(dir: &Path, evaluation: &Evaluation, measured: &Measured) -> Result<String> {
    let mut text = format!("## {}\n\n{}\n\n", evaluation.title, evaluation.about);
    let _ = writeln!(text, "**Found.** {}\n", (evaluation.finding)(measured));
    for (pace, curves) in &measured.curves {
        let file = format!("{}-{}.svg", evaluation.program, pace.slug());
        let title = format!("{} {}", evaluation.title, pace.of_network());
        let picture = picture(&title, evaluation, *pace, curves);
        std::fs::write(dir.join(&file), picture.svg().context(&file)?).context(&file)?;
        let _ = writeln!(
            text,
            "{}, in {}:\n\n![{title}]({file})\n\n{}",
            pace.shown(),
            evaluation.up,
            table(evaluation, curves)
        );
    }
    Ok(text)
}

/// Measures the evaluation of a system's paper and writes the results. `quick` shows only that
/// everything works; there is such a form of `dse` and `cdp`.
///
/// # Errors
/// There is no such evaluation, a program fails, or namespaces cannot be made.
pub fn run(system: &str, quick: bool) -> Result<()> {
    match (system, quick) {
        ("cdp", _) => cdp::run(quick),
        ("dse", _) => dse::run(quick),
        ("suci", false) => suci(),
        _ => Err(Failure::new(format!(
            "no such evaluation of `{system}`; there are suci, dse, cdp, and the latter with --quick"
        ))),
    }
}

/// Measures every evaluation of the Suci papers on every network.
fn suci() -> Result<()> {
    let begun = Instant::now();
    let programs = Programs::build()?;
    let mut all: Vec<Measured> = EVALUATIONS
        .iter()
        .map(|_| Measured { curves: Vec::new() })
        .collect();
    let mut weighed = String::new();
    for pace in Pace::ALL {
        let cluster = network(pace)?;
        for (evaluation, measured) in EVALUATIONS.iter().zip(&mut all) {
            let mut curves = Curves::new();
            for method in evaluation.methods {
                let since = Instant::now();
                let curve = measure(&programs, &cluster, pace, evaluation, method)?;
                let seconds = since.elapsed().as_secs_f64();
                let (pace, title) = (pace.shown(), evaluation.title);
                println!("{pace}, {title}: {} ({seconds:.1} s)", method.name);
                curves.insert(method.name, curve);
            }
            measured.curves.push((pace, curves));
        }
        if pace == Pace::Unlimited {
            weighed = findings::processor_table(&weigh(&programs, &cluster)?);
        }
    }
    let dir = exec::root().join("examples/classic/results");
    std::fs::create_dir_all(&dir)?;
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut page = format!(
        "# The evaluations of the Suci papers, measured anew

Written by `make evaluate-suci` on a machine with {cores} cores. The papers' figures are of
other hardware: compare ratios. A paced device lets 3,200 bytes (10 Mbit/s) or 25,000 (100 Mbit/s)
pass at once after a pause, so short messages go faster than its rate. Each figure is of one run, in
which a few percent are noise. At a pace pictures show multiples of TCP's figure: the figures
themselves lie on one another. `cargo xtask pictures` draws them again from the figures in them.

"
    );
    for (evaluation, measured) in EVALUATIONS.iter().zip(&all) {
        page += &report(&dir, evaluation, measured)?;
    }
    page += &weighed;
    let file = dir.join("README.md");
    std::fs::write(&file, page.trim_end().to_owned() + "\n").context(file.display())?;
    println!("{} ({} s)", file.display(), begun.elapsed().as_secs());
    Ok(())
}

/// The cost of broadcasts of 1 MiB to nine receivers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weight {
    pub(crate) method: &'static str,
    /// Processor time of the sender, in milliseconds for each broadcast.
    pub(crate) processor_ms: f64,
    /// Time, in milliseconds for each broadcast.
    pub(crate) total_ms: f64,
    /// Payload bytes that the library copied to send.
    pub(crate) copied: f64,
}

/// Broadcasts of one round, and the rounds, in which the methods take turns. The median counts.
const BROADCASTS: u32 = 50;
const ROUNDS: usize = 9;

/// Measures the processor time of the packet interface's broadcast, of nine writes, and of nine TCP
/// streams.
pub(crate) fn weigh(programs: &Programs, cluster: &Cluster) -> Result<Vec<Weight>> {
    let methods = ["packet", "write", "tcp"];
    let mut rounds: Vec<Vec<Weight>> = vec![Vec::new(); methods.len()];
    for _ in 0..ROUNDS {
        for (method, weights) in methods.into_iter().zip(&mut rounds) {
            let count = BROADCASTS.to_string();
            let args = [method, "0", "1048576", &count];
            let said = programs.run(cluster, "broadcast", HOSTS, &args)?;
            let figure = |word: &str| -> Result<f64> {
                let (_, rest) = said
                    .split_once(word)
                    .context(format!("no {word}: {said}"))?;
                let number = rest.split_whitespace().next().unwrap_or_default();
                number.parse().context(word)
            };
            weights.push(Weight {
                method,
                processor_ms: figure("processor ")? * 1e3 / f64::from(BROADCASTS),
                total_ms: figure("seconds ")? * 1e3 / f64::from(BROADCASTS),
                copied: figure("copied ")?,
            });
        }
    }
    let median = |mut weights: Vec<Weight>| {
        weights.sort_by(|one, two| one.processor_ms.total_cmp(&two.processor_ms));
        weights.get(ROUNDS / 2).copied()
    };
    Ok(rounds.into_iter().filter_map(median).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_parsed_or_refused() {
        assert_eq!(parse("1 2.5\n10 3\n").unwrap(), [(1.0, 2.5), (10.0, 3.0)]);
        assert!(parse("").is_err());
        assert!(parse("1 2\nnonsense\n").is_err());
    }

    #[test]
    fn each_finding_is_written_from_any_figures() {
        for evaluation in EVALUATIONS {
            let curves: Curves = evaluation
                .methods
                .iter()
                .map(|method| (method.name, vec![(1.0, 2.0), (2000.0, 4.0)]))
                .collect();
            let all = Pace::ALL.map(|pace| (pace, curves.clone()));
            let measured = Measured { curves: all.into() };
            let text = (evaluation.finding)(&measured);
            assert!(text.ends_with('.'), "{text}");
        }
    }
}
