//! `make bench`: Suci side by side with its alternatives. Each contender is a pair of processes,
//! one on each of two processors, started anew for every turn. Contenders take turns within a round
//! in alternating order, and medians over rounds are reported. So a short disturbance of the
//! machine disturbs all of them or is outvoted. Turns count only in one placement of the processors
//! ([`xtask::distance`]).

mod compile;
mod contenders;
mod cores;
mod halo;
mod idle;
mod languages;
mod launch;
mod layers;
mod machine;
mod mpi;
mod output;
mod plan;
mod plot;
mod processes;
mod progress;
mod report;
mod results;
mod run;
mod store;
mod table;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{Result, exec};

use plan::{Net, Wait};

/// Suci side by side with its alternatives
#[derive(Parser)]
#[command(name = "suci-bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure
    Run(RunArgs),
    /// Measure a halo exchange: Suci, TCP and MPICH between processes of this machine
    Halo(halo::HaloArgs),
    /// Measure one-sided and collective operations beside MPICH and Open MPI: between namespaces
    /// and on this machine
    Layers(layers::LayersArgs),
    /// Measure the C library beside the Rust library
    Languages(languages::LanguagesArgs),
    /// Model the receive path of CDP and of Suci on up to 256 cores
    Cores(cores::CoresArgs),
    /// Tasks that can be measured, and their contenders
    List,
    /// Tables and plots of what was measured, on the machine that measured
    Report(ReportArgs),
}

/// The source and the destination of a report.
#[derive(Clone, Debug, clap::Args)]
struct ReportArgs {
    /// Rounds that `run --out` wrote
    #[arg(long, default_value_os_t = rounds_file())]
    from: PathBuf,
    /// Tasks that were not measured of the newest tree from the last one of which they were; each
    /// says which
    #[arg(long)]
    mixed: bool,
    /// RESULTS.md goes here, and plots to plots/ in it
    #[arg(long, default_value_os_t = exec::root().join("bench"))]
    into: PathBuf,
}

/// The default file for rounds.
fn rounds_file() -> PathBuf {
    exec::target_dir().join("bench/rounds.jsonl")
}

/// The choice of tasks, and the length of a measurement.
#[derive(Clone, Debug, clap::Args)]
struct RunArgs {
    /// Only tasks whose names contain one of these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only contenders whose names begin with one of these; Suci always takes part
    #[arg(long, value_delimiter = ',')]
    vs: Vec<String>,
    /// Only those who wait so
    #[arg(long, value_enum)]
    wait: Option<Wait>,
    /// Between which ends; default: namespaces, and those without offloads for loss
    #[arg(long, value_enum, value_delimiter = ',')]
    net: Vec<Net>,
    /// Other sizes than the tasks' own, bytes
    #[arg(long, value_delimiter = ',', value_parser = size)]
    size: Vec<usize>,
    /// How often each contender has its turn
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How long each turn is measured; default: 0.3; with loss, and for what that is compared with,
    /// 5
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// Measure although others use the machine, and keep nothing: to try things out, not for
    /// figures
    #[arg(long)]
    busy: bool,
    /// One JSON object per line instead of tables
    #[arg(long)]
    json: bool,
    /// Each round is added to this file when it is over; those of the same tree that are there are
    /// not repeated
    #[arg(long, default_value_os_t = rounds_file())]
    out: PathBuf,
    /// The release build of suci
    #[arg(long, default_value_os_t = exec::target_dir().join("release/suci"))]
    suci: PathBuf,
}

/// Parses a size, with the bounds of `suci perf`.
fn size(text: &str) -> Result<usize, String> {
    let size = text.parse().ok();
    size.filter(|size| (1..=64 << 20).contains(size))
        .ok_or_else(|| "write bytes from 1 to 67108864".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok();
    seconds
        .filter(|seconds| (0.01..=3600.0).contains(seconds))
        .ok_or_else(|| "write seconds from 0.01 to 3600".to_owned())
}

fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Run(args) => run::all(&args),
        Command::Halo(args) => halo::run(&args),
        Command::Layers(args) => layers::run(&args),
        Command::Languages(args) => languages::run(&args),
        Command::Cores(args) => cores::run(&args),
        Command::List => {
            print!("{}", plan::listed());
            Ok(())
        }
        Command::Report(args) => results::write(&args.from, &args.into, args.mixed),
    }
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
