//! One-sided and collective operations beside those of MPICH. All processes of a turn start anew;
//! contenders take turns within a round.

use serde_json::json;
use xtask::error::Result;
use xtask::{exec, figures};

use crate::compile;
use crate::contenders::Library;
use crate::processes::{self, Taken};

const MPICH: Library = Library {
    source: "layers",
    compiler: "mpicc.mpich",
    link: &[],
    bundle: None,
    packages: "mpich libmpich-dev",
};

/// The choice of operations, and the length of a measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LayersArgs {
    /// Operations: put, get, add, barrier, allreduce
    #[arg(long, value_delimiter = ',', value_parser = ["put", "get", "add", "barrier", "allreduce"],
        default_values = ["put", "get", "add", "barrier", "allreduce"])]
    only: Vec<String>,
    /// Processes; one-sided operations are between the first two
    #[arg(long, default_values_t = [2, 4, 8], value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(2..=64))]
    processes: Vec<u16>,
    /// Iterations of a turn with small messages; with longer ones there are fewer
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(10..))]
    iterations: u32,
    /// How often each contender has its turn
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// One JSON object per line instead of a table
    #[arg(long)]
    json: bool,
}

/// `mpich-tcp` uses TCP, as between machines; `mpich` what it uses on one machine: shared memory.
const CONTENDERS: [&str; 3] = ["suci", "mpich-tcp", "mpich"];

/// Measures and prints.
pub(crate) fn run(args: &LayersArgs) -> Result<()> {
    let own = exec::target_dir().join("release/layers-rank");
    let mpich = compile::binary(&MPICH)?;
    if !args.json {
        println!(
            "operation  processes    bytes  contender  us/operation       min       max   cpu us  \
             suci's time"
        );
    }
    for what in &args.only {
        let one_sided = matches!(what.as_str(), "put" | "get" | "add");
        for &processes in args
            .processes
            .iter()
            .take(if one_sided { 1 } else { usize::MAX })
        {
            for &bytes in sizes(what) {
                let iterations = (args.iterations * 8_192 / (8_192 + bytes)).max(10);
                let mut turns = CONTENDERS.map(|_| Vec::new());
                for round in 0..args.rounds {
                    let (number, rounds) = (round + 1, args.rounds);
                    eprintln!(
                        "{what}, {processes} processes, {bytes} B: round {number} of {rounds}"
                    );
                    for at in 0..CONTENDERS.len() {
                        let at = match round % 2 {
                            0 => at,
                            _ => CONTENDERS.len() - 1 - at,
                        };
                        let numbers = [bytes.to_string(), iterations.to_string()];
                        let count = usize::from(processes);
                        let taken = match CONTENDERS[at] {
                            "suci" => processes::ranks(&own, what, count, &numbers)?,
                            other => {
                                let [bytes, iterations] = numbers;
                                let transport = match other {
                                    "mpich-tcp" => "tcp",
                                    _ => "default",
                                };
                                let what = what.clone();
                                let all = [what, bytes, iterations, transport.to_owned()];
                                processes::under_mpiexec(&mpich, count, &all)?
                            }
                        };
                        turns[at].push(taken);
                    }
                }
                let label = (what.as_str(), processes, bytes);
                report(args.json, label, iterations, &turns);
            }
        }
    }
    Ok(())
}

/// The sizes at which an operation is measured.
fn sizes(what: &str) -> &'static [u32] {
    match what {
        "put" | "get" => &[8, 4_096, 65_536, 1 << 20],
        "allreduce" => &[8, 1 << 20],
        _ => &[8],
    }
}

fn report(json: bool, label: (&str, u16, u32), iterations: u32, turns: &[Vec<Taken>; 3]) {
    let (what, processes, bytes) = label;
    let each = |taken: f64| taken * 1e6 / f64::from(iterations);
    let median = |of: &dyn Fn(&Taken) -> f64, turns: &[Taken]| {
        figures::median(turns.iter().map(|turn| each(of(turn))).collect()).unwrap_or(0.0)
    };
    let own = median(&|turn| turn.seconds, &turns[0]);
    for (contender, turns) in CONTENDERS.iter().zip(turns) {
        let time = median(&|turn| turn.seconds, turns);
        let cpu = median(&|turn| turn.cpu_seconds, turns);
        let all = || turns.iter().map(|turn| each(turn.seconds));
        let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
        let ratio = own / time;
        if json {
            let row = json!({
                "operation": what, "processes": processes, "bytes": bytes, "contender": contender,
                "micros": time, "min": least, "max": most, "cpu_micros": cpu, "suci_of_it": ratio,
            });
            println!("{row}");
        } else {
            println!(
                "{what:9} {processes:10} {bytes:8}  {contender:9} {time:13.1} {least:9.1} \
                 {most:9.1} {cpu:8.1} {ratio:12.2}"
            );
        }
    }
}
