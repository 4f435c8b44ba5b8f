//! The cost of the C library over the Rust library: two programs with the same steps take
//! turns within a round. Each turn is a server and a client of its own, one on each of two
//! processors, on loopback.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use xtask::distance::Placement;
use xtask::error::{Context, Result};
use xtask::{evaluate, exec, figures};

use crate::launch::CPUS;
use crate::output::Talker;
use crate::{compile, idle};

/// The longest time of a turn beyond its measurement.
const PATIENCE: Duration = Duration::from_secs(20);

/// Workloads of both programs, for people.
const WORKLOADS: [(&str, &str); 4] = [
    ("ping", "round trip of 64 B"),
    ("large", "one way, messages of 64 KiB"),
    ("many", "messages of 32 B, sent together"),
    ("single", "messages of 32 B, a send each"),
];

/// The length of a measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LanguagesArgs {
    /// How often each program has its turn
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How long each turn is measured
    #[arg(long, default_value_t = 0.3, value_parser = crate::seconds)]
    seconds: f64,
    /// Measure although others use the machine: to try things out, not for figures
    #[arg(long)]
    busy: bool,
    /// One JSON object per line instead of a table
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
pub(crate) fn run(args: &LanguagesArgs) -> Result<()> {
    let programs = [
        ("c", c_program()?),
        ("rust", exec::target_dir().join("release/c-over-rust")),
    ];
    let placement = if args.busy {
        None
    } else {
        Some(Placement::usual()?)
    };
    if !args.json {
        println!("program   ns/message        min        max  x rust  workload");
    }
    for (workload, title) in WORKLOADS {
        let mut rounds = Vec::new();
        for round in 0..args.rounds {
            eprintln!("{title}: round {} of {}", round + 1, args.rounds);
            rounds.push(one_round(&programs, workload, round, placement, args)?);
        }
        report(&programs, workload, title, &rounds, args.json);
    }
    Ok(())
}

/// Compiles the program in C against a release build of the library.
fn c_program() -> Result<PathBuf> {
    let program = exec::target_dir().join("release/c_over_rust");
    evaluate::build_library()?;
    evaluate::compile(&compile::sources().join("c_over_rust.c"), &program)?;
    Ok(program)
}

/// A turn of each program. Returns the nanoseconds of a message of each. The order alternates: the
/// last of one round is the first of the next.
fn one_round(
    programs: &[(&str, PathBuf); 2],
    workload: &str,
    round: u32,
    placement: Option<Placement>,
    args: &LanguagesArgs,
) -> Result<[f64; 2]> {
    if !args.busy {
        idle::wait(|busy| eprintln!("waits: {:.0} % of the machine is in use", 100.0 * busy))?;
    }
    let mut nanos = [0.0; 2];
    let first = usize::from(round % 2 == 1);
    for at in [first, 1 - first] {
        let (name, program) = &programs[at];
        let measure = || turn(name, program, workload, args.seconds);
        let measured = match placement {
            Some(placement) => placement.steady(measure)?,
            None => Some(measure()),
        };
        let moved = "the hypervisor keeps moving the processors: run this again later";
        nanos[at] = measured.context(moved)??;
    }
    Ok(nanos)
}

/// The nanoseconds of a message in one turn.
fn turn(name: &str, program: &Path, workload: &str, seconds: f64) -> Result<f64> {
    let start = |role: &str, cpu: &str, args: &[&str]| {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", cpu]).arg(program).args(args);
        Talker::start(&format!("{name}, {role}"), command)
    };
    let [client, server] = CPUS;
    let deadline = Instant::now() + PATIENCE + Duration::from_secs_f64(2.0 * seconds);
    let mut server = start("server", server, &["server"])?;
    let address = server.next_line(PATIENCE)?;
    let seconds = seconds.to_string();
    let args = ["client", &address, workload, &seconds];
    let said = start("client", client, &args)?.finish_by(deadline)?;
    server.finish_by(deadline)?;
    let line = said.last().context("the client printed nothing")?;
    line.parse().context(line)
}

fn report(
    programs: &[(&str, PathBuf); 2],
    workload: &str,
    title: &str,
    rounds: &[[f64; 2]],
    is_json: bool,
) {
    let median = |of: &dyn Fn(&[f64; 2]) -> f64| {
        figures::median(rounds.iter().map(of).collect()).unwrap_or(f64::NAN)
    };
    for (at, (name, _)) in programs.iter().enumerate() {
        let (nanos, of_rust) = (
            median(&|round| round[at]),
            median(&|round| round[at] / round[1]),
        );
        let all = || rounds.iter().map(|round| round[at]);
        let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
        if is_json {
            let row = json!({
                "workload": workload, "contender": name, "nanos": nanos, "min": least, "max": most,
                "of_rust": of_rust,
            });
            println!("{row}");
        } else {
            println!("{name:7} {nanos:12.1} {least:10.1} {most:10.1} {of_rust:7.3}  {title}");
        }
    }
}
