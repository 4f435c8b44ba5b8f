//! The project's own chores: `cargo xtask CHORE`.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use xtask::netns::Pair;
use xtask::{
    Result, advisories, bench, ci, conformance, demo, evaluate, faults, fuzz, guards, ladders,
    layers, mutants, pictures, planted, prolog, prose, sanitize, show, soak, suite, tableau,
};

/// The project's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything that a change must pass, step by step (what `make test` runs)
    Ci {
        /// Only the steps whose names contain this
        #[arg(long)]
        only: Option<String>,
    },
    /// The tests of `ci` with every compiler, function and link, and snippets five times
    Nightly,
    /// Dependencies between our crates, what the engine must not touch, sizes
    Layers,
    /// The width of comments and prose, links of documents, and names that have a better one
    Prose,
    /// docs/faults.md against the tests in the tree
    Faults {
        /// Write the numbers of tests from the tree to the page first
        #[arg(long)]
        write: bool,
        /// Print the tests of this fault instead, such as F07
        #[arg(conflicts_with = "write")]
        id: Option<String>,
    },
    /// docs/costs.md against what messages cost, counted under valgrind
    Guards {
        /// Write what is counted to the page: this is what it costs from now on
        #[arg(long)]
        write: bool,
    },
    /// The planted faults must be found by the simulator, and those in defences by the red team
    Planted,
    /// Seeds of the simulator that are drawn anew, of each profile
    Seeds {
        /// Seeds of each profile
        #[arg(default_value_t = 1_000)]
        count: u64,
    },
    /// Tests under AddressSanitizer, ThreadSanitizer or Miri, where they can run
    Sanitize { tool: sanitize::Tool },
    /// Known weaknesses of dependencies
    Advisories {
        /// A clone of github.com/RustSec/advisory-db
        database: Option<std::path::PathBuf>,
    },
    /// Install, test and use library(suci) for SWI-Prolog
    Prolog,
    /// Run the fuzz targets
    Fuzz {
        /// Seconds for each target
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// One target only
        target: Option<String>,
    },
    /// Suci side by side with its alternatives: `bench run`, `bench list`, `bench report`
    Bench {
        /// Arguments of the bench; `bench help` tells
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Messages from all to all, a file to everybody, figures beside TCP (needs a release build)
    Demo,
    /// Mutation tests of recovery, credit and reassembly
    Mutants {
        /// A part only, as in 0/8: every eighth mutant
        #[arg(long, value_name = "PART/PARTS")]
        shard: Option<String>,
    },
    /// Promises of a capability, measured now
    Show {
        /// The capability
        #[arg(default_value = "foundation")]
        name: String,
        /// Only the lines whose names contain this
        #[arg(long)]
        only: Option<String>,
        /// Print the lines without measuring
        #[arg(long)]
        list: bool,
        /// Print each result as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Goodput over emulated links from step to step, beside TCP's; plots go to target/ladders
    Ladders {
        /// Only ladders whose names contain this
        #[arg(long)]
        only: Option<String>,
        /// Few rungs, once each, within 2 minutes; steps are named and fail nothing
        #[arg(long)]
        quick: bool,
        /// One JSON object for each rung and contender
        #[arg(long)]
        json: bool,
    },
    /// Every picture in the tree drawn anew from the figures that it holds
    Pictures,
    /// Every README snippet and each example many times in a row
    Soak {
        /// How often each runs
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        rounds: u32,
    },
    /// The evaluation in examples/tableau/RESULTS.md, measured anew
    Tableau {
        /// Rounds of each setting
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
        rounds: u32,
    },
    /// The evaluations of a paper, measured anew: `evaluate suci` writes examples/classic/results,
    /// `evaluate dse` examples/dse/results
    Evaluate {
        /// The system of the paper
        system: String,
        /// Very little, to see that everything works; into target/evaluate-SYSTEM
        #[arg(long)]
        quick: bool,
    },
    /// The public unit tests of OpenSHMEM, each with 2 and 4 processes
    ConformanceShmem {
        /// A clone of github.com/openshmem-org/tests-sos
        tests: std::path::PathBuf,
        /// Only tests whose names contain this
        #[arg(long)]
        only: Option<String>,
        /// Faults of the network, as `suci run --faults` takes them: loss=0.03
        #[arg(long)]
        faults: Option<String>,
        /// One JSON object for each test
        #[arg(long)]
        json: bool,
    },
    /// Two namespaces with a cable between them, to try things in, until Ctrl-C
    Pair {
        /// Share of packets to drop each way, 0 to 1
        #[arg(long, default_value_t = 0.0)]
        loss: f64,
        /// Mbit/s, behind a queue of 50 ms; unlimited without it
        #[arg(long)]
        rate: Option<u32>,
    },
}

fn run(chore: Chore) -> Result<()> {
    match chore {
        Chore::Ci { only } => ci::run(only.as_deref()),
        Chore::Nightly => suite::nightly(),
        Chore::Layers => layers::check(),
        Chore::Prose => prose::check(),
        Chore::Faults { id: Some(id), .. } => faults::list(&id),
        Chore::Faults { write, id: None } => faults::check(write),
        Chore::Guards { write } => guards::check(write),
        Chore::Planted => planted::check(),
        Chore::Seeds { count } => planted::run_drawn(count),
        Chore::Sanitize { tool } => sanitize::run(tool),
        Chore::Advisories { database } => advisories::check(database.as_deref()),
        Chore::Prolog => prolog::check(),
        Chore::Fuzz { seconds, target } => {
            fuzz::check(Duration::from_secs(seconds), target.as_deref())
        }
        Chore::Bench { args } => bench::run(&args),
        Chore::Demo => demo::run(),
        Chore::Mutants { shard } => mutants::check(shard.as_deref()),
        Chore::Show {
            name,
            only,
            list,
            json,
        } => show::run(&name, only.as_deref(), list, json),
        Chore::Ladders { only, quick, json } => ladders::run(ladders::Choice {
            only: only.as_deref(),
            quick,
            json,
        }),
        Chore::Pictures => pictures::redraw(),
        Chore::Soak { rounds } => soak::run(rounds),
        Chore::Tableau { rounds } => tableau::evaluate(rounds),
        Chore::ConformanceShmem {
            tests,
            only,
            faults,
            json,
        } => conformance::shmem(conformance::Choice {
            tests: &tests,
            only: only.as_deref(),
            faults: faults.as_deref(),
            json,
        }),
        Chore::Evaluate { system, quick } => evaluate::run(&system, quick),
        Chore::Pair { loss, rate } => pair(loss, rate),
    }
}

fn pair(loss: f64, rate: Option<u32>) -> Result<()> {
    let pair = Pair::new()?;
    if loss > 0.0 || rate.is_some() {
        pair.offloads_off()?;
        pair.drop_randomly(loss)?;
    }
    if let Some(mbit) = rate {
        pair.limit_rate(mbit, 50)?;
    }
    println!("two hosts; both go away at Ctrl-C");
    for (end, address) in [(&pair.a, pair.a_addr()), (&pair.b, pair.b_addr())] {
        println!("{address}: ip netns exec {} COMMAND", end.name());
    }
    loop {
        std::thread::park();
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
