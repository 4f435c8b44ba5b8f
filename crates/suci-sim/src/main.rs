//! The `suci-sim` command.

use std::hash::{BuildHasher, RandomState};
use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::Range;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::Parser;
use suci_sim::profiles::Profile;
use suci_sim::runner::{self, Outcome, Plan};

/// Simulated clusters: virtual time, faults from a seed, an oracle that knows the promises.
#[derive(Debug, Parser)]
#[command(after_help = "\
Examples:
  suci-sim --seeds 0..300                     what `make test` runs
  suci-sim --seeds 17..18 --trace             replay one seed, event by event
  suci-sim --random 300                       seeds that nobody ran before
  suci-sim --seeds 0..100 --profile restart   one kind of fault
  suci-sim --seeds 0..1000 --plant dedup-off --expect-failure")]
struct Args {
    /// Seeds to run, first and one past the last
    #[arg(long, value_name = "A..B", value_parser = seeds, default_value = "0..300")]
    seeds: Range<u64>,
    /// Run this many seeds that follow each other from one drawn anew, which is printed
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    random: Option<NonZeroU64>,
    /// Number of nodes (default: the seed chooses, mostly 2 to 8)
    #[arg(long)]
    nodes: Option<NonZeroUsize>,
    /// Kind of run (default: the seed chooses): swarm, lossy, partition, restart, pause, incast,
    /// big, mtu, rebind, duplicate-id, counters, huge, close, hostile, flow, suspend, crowd, churn,
    /// visits, vast, channels, remote, sealed, groups, sockets, matching, routes,
    /// members, busy
    #[arg(long, default_value = "default")]
    profile: Profile,
    /// Plant a fault in every engine (builds with --cfg suci_plant only)
    #[arg(long, value_name = "NAME")]
    plant: Option<String>,
    /// Print the names of faults that the profile finds, one per line (none in ordinary builds)
    #[arg(long)]
    list_plants: bool,
    /// Succeed as soon as one seed fails, fail if none does
    #[arg(long)]
    expect_failure: bool,
    /// Print every event
    #[arg(long)]
    trace: bool,
    /// Seeds at once (default: one per core)
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Print only the summary, as one JSON object
    #[arg(long)]
    json: bool,
    /// Leave out the numbers of every seed
    #[arg(short, long)]
    quiet: bool,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let parsed = text.split_once("..").and_then(|(from, to)| {
        let range = from.parse().ok()?..to.parse().ok()?;
        (range.start < range.end).then_some(range)
    });
    parsed.ok_or_else(|| "expected two numbers, as in 0..300".into())
}

/// Drawn seeds are below this number: large enough that they are new, and short enough to copy.
const DRAWN_BELOW: u64 = 1_000_000_000_000;

/// Returns this many seeds that follow each other, the first one drawn anew at each call.
fn draw(count: NonZeroU64) -> Range<u64> {
    // The keys of each `RandomState` come from the operating system's random numbers.
    let first = RandomState::new().hash_one(()) % DRAWN_BELOW;
    first..first.saturating_add(count.get())
}

fn main() -> ExitCode {
    let mut args = Args::parse();
    if let Some(count) = args.random {
        args.seeds = draw(count);
        let Range { start, end } = args.seeds;
        eprintln!("drawn: --seeds {start}..{end} --profile {}", args.profile);
    }
    if args.list_plants {
        plants(args.profile)
            .iter()
            .for_each(|name| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    if let Some(name) = &args.plant
        && let Err(text) = plant(name, args.profile)
    {
        eprintln!("suci-sim: {text}");
        return ExitCode::from(2);
    }
    runner::quiet_panics();
    let started = Instant::now();
    let one = NonZeroUsize::MIN;
    let cores = thread::available_parallelism().unwrap_or(one);
    let plan = Plan {
        from: args.seeds.start,
        to: args.seeds.end,
        profile: args.profile,
        nodes: args.nodes.map(NonZeroUsize::get),
        // Traces of several seeds at once would be mixed.
        jobs: if args.trace {
            one
        } else {
            args.jobs.unwrap_or(cores)
        },
        stop: args.expect_failure,
        print: args.trace,
    };
    let (tally, failed) = runner::run_plan(&plan, |outcome| tell(&args, outcome));
    let wall = started.elapsed();
    if args.json {
        println!("{}", tally.json(plan.from, failed, wall.as_millis()));
    } else {
        let seeds = tally.seeds;
        println!(
            "{seeds} seeds, {failed} failed: {tally}, {:.1} s wall",
            wall.as_secs_f64()
        );
    }
    ExitCode::from(u8::from((failed > 0) != args.expect_failure))
}

fn tell(args: &Args, outcome: &Outcome) {
    let Outcome {
        seed,
        profile,
        nodes,
        tally,
        trace,
        failure,
    } = outcome;
    if !(args.quiet || args.json) {
        println!("seed {seed} ({profile}, {nodes} nodes, trace {trace:016x}): {tally}");
    }
    if let Some(failure) = failure {
        eprintln!("seed {seed} ({profile}, {nodes} nodes) failed {failure}");
        eprintln!("  replay: {}", replay(args, *seed));
    }
}

/// Returns the command that runs one seed again and prints its trace: of this very build, which may
/// have faults planted.
fn replay(args: &Args, seed: u64) -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "suci-sim".into());
    let mut command = format!("{} --seeds {seed}..{} --trace", program.display(), seed + 1);
    if args.profile != Profile::Default {
        command += &format!(" --profile {}", args.profile);
    }
    if let Some(nodes) = args.nodes {
        command += &format!(" --nodes {nodes}");
    }
    if let Some(name) = &args.plant {
        command += &format!(" --plant {name}");
    }
    command
}

#[cfg(suci_plant)]
fn plant(name: &str, profile: Profile) -> Result<(), String> {
    if suci_proto::plant::select(name) {
        return Ok(());
    }
    Err(format!(
        "no fault {name:?} to plant; there are {}",
        plants(profile).join(", ")
    ))
}

#[cfg(suci_plant)]
fn plants(profile: Profile) -> Vec<&'static str> {
    use suci_proto::plant::{
        NAMES, OF_GROUPS, OF_LAYERS, OF_MEMBERS, OF_PLACEMENT, OF_ROUTES, OF_SEALING, OF_SOCKETS,
    };
    match profile {
        Profile::Groups => OF_GROUPS.to_vec(),
        Profile::Sockets => OF_SOCKETS.to_vec(),
        Profile::Remote => [OF_LAYERS, OF_PLACEMENT].concat(),
        Profile::Sealed => OF_SEALING.to_vec(),
        Profile::Routes => OF_ROUTES.to_vec(),
        Profile::Members => OF_MEMBERS.to_vec(),
        _ => NAMES.to_vec(),
    }
}

#[cfg(not(suci_plant))]
fn plant(name: &str, _: Profile) -> Result<(), String> {
    Err(format!(
        "--plant {name} needs a build with planted faults: RUSTFLAGS=\"--cfg suci_plant\" cargo build -p suci-sim"
    ))
}

#[cfg(not(suci_plant))]
fn plants(_: Profile) -> Vec<&'static str> {
    Vec::new()
}
