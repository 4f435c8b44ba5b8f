//! The halo exchange: processes of one machine that exchange edges with their neighbours and add up
//! a number, over and over. All ranks of a turn start anew; contenders take turns within a round.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use xtask::error::Result;
use xtask::{exec, figures};

use crate::compile;
use crate::contenders::Library;
use crate::mpi;
use crate::processes::{self, Taken};

const MPICH: Library = Library {
    source: "halo",
    compiler: "mpicc.mpich",
    link: &[],
    bundle: None,
    packages: "mpich libmpich-dev",
};

/// The choice of exchanges, and the length of a measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HaloArgs {
    /// Processes, powers of two
    #[arg(long, default_values_t = [2, 4, 8], value_delimiter = ',',
        value_parser = powers_of_two)]
    processes: Vec<usize>,
    /// Bytes for the neighbour in the first dimension; those in the others get a quarter
    #[arg(long, default_values_t = [1_024, 8_192, 32_768], value_delimiter = ',',
        value_parser = crate::size)]
    edges: Vec<usize>,
    /// Iterations in a turn
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(10..))]
    iterations: u32,
    /// How often each contender has its turn
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// One JSON object per line instead of a table
    #[arg(long)]
    json: bool,
}

/// Parses a number of processes: each has a neighbour in every dimension of a hypercube.
fn powers_of_two(text: &str) -> Result<usize, String> {
    let count = text.parse().ok();
    count
        .filter(|count: &usize| count.is_power_of_two() && (2..=256).contains(count))
        .ok_or_else(|| "write a power of two from 2 to 256".to_owned())
}

const CONTENDERS: [&str; 3] = ["suci", "tcp", "mpich"];

/// Measures and prints.
pub(crate) fn run(args: &HaloArgs) -> Result<()> {
    let own = exec::target_dir().join("release/halo-rank");
    let mpich = compile::binary(&MPICH)?;
    if !args.json {
        println!(
            "processes   edge  contender  us/iteration       min       max   cpu us  x tcp  x its cpu"
        );
    }
    for &processes in &args.processes {
        for &edge in &args.edges {
            let mut turns = CONTENDERS.map(|_| Vec::new());
            for round in 0..args.rounds {
                eprintln!(
                    "{processes} processes, {edge} B: round {} of {}",
                    round + 1,
                    args.rounds
                );
                for at in 0..CONTENDERS.len() {
                    let at = if round % 2 == 0 {
                        at
                    } else {
                        CONTENDERS.len() - 1 - at
                    };
                    let taken = match CONTENDERS[at] {
                        "mpich" => {
                            let mut command = mpi::mpich(processes);
                            command.arg(&mpich);
                            command.args([edge.to_string(), args.iterations.to_string()]);
                            processes::started("mpich", command)?
                        }
                        transport => {
                            let rest = [edge, args.iterations as usize];
                            processes::ranks(
                                transport,
                                commands(&own, transport, processes, rest)?,
                            )?
                        }
                    };
                    turns[at].push(taken);
                }
            }
            report(args, processes, edge, &turns);
        }
    }
    Ok(())
}

/// `halo-rank TRANSPORT PROCESSES RANK PORT` and the `rest`, for each rank.
fn commands(
    program: &Path,
    transport: &str,
    processes: usize,
    rest: [usize; 2],
) -> Result<Vec<Command>> {
    let port = usize::from(processes::free_ports(processes)?);
    let command = |rank: usize| {
        let mut command = Command::new(program);
        let numbers = [processes, rank, port].into_iter().chain(rest);
        command
            .arg(transport)
            .args(numbers.map(|number| number.to_string()));
        command
    };
    Ok((0..processes).map(command).collect())
}

fn report(args: &HaloArgs, processes: usize, edge: usize, turns: &[Vec<Taken>; 3]) {
    let each = |taken: f64| taken * 1e6 / f64::from(args.iterations);
    let median = |of: &dyn Fn(&Taken) -> f64, turns: &[Taken]| {
        figures::median(turns.iter().map(|turn| each(of(turn))).collect()).unwrap_or(0.0)
    };
    let tcp = &turns[1];
    for (contender, turns) in CONTENDERS.iter().zip(turns) {
        let (time, cpu) = (
            median(&|turn| turn.seconds, turns),
            median(&|turn| turn.cpu_seconds, turns),
        );
        let all = || turns.iter().map(|turn| each(turn.seconds));
        let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
        let of_tcp = time / median(&|turn| turn.seconds, tcp);
        let of_its_cpu = cpu / median(&|turn| turn.cpu_seconds, tcp);
        if args.json {
            let row = json!({
                "processes": processes, "edge": edge, "contender": contender, "micros": time,
                "min": least, "max": most, "cpu_micros": cpu, "of_tcp": of_tcp,
                "of_tcp_cpu": of_its_cpu,
            });
            println!("{row}");
        } else {
            println!(
                "{processes:9} {edge:6}  {contender:9} {time:13.1} {least:9.1} {most:9.1} {cpu:8.1} \
                 {of_tcp:6.2} {of_its_cpu:10.2}"
            );
        }
    }
}
