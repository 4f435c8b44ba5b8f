//! The `suci-ladder` command.

use std::process::ExitCode;
use std::thread;

use clap::Parser;
use suci_proto::ControllerChoice;
use suci_proto::time::Duration;
use suci_sim::ladder::{Rung, Spread};
use suci_sim::scheduler::Scheduler;

/// Goodput over ladders of simulated links: loss by round trip, for each controller.
///
/// Prints Mbit/s in virtual time as slowest/median/quickest of the seeds.
#[derive(Debug, Parser)]
struct LadderArgs {
    /// Loss in each direction, in tenths of a percent
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0,5,10,15,20,25,30,35,40,45,50"
    )]
    loss: Vec<u32>,
    /// Round trips in microseconds
    #[arg(long, value_delimiter = ',', default_value = "100,1000,20000")]
    round_trip: Vec<u64>,
    /// Seeds of each rung
    #[arg(long, default_value_t = 8)]
    seeds: u64,
    /// Controllers: auto, cubic, wan, lan
    #[arg(long, value_delimiter = ',', default_value = "auto,cubic,wan")]
    controllers: Vec<String>,
    /// Virtual time of each run, in milliseconds
    #[arg(long, default_value_t = 3_000)]
    time: u64,
    /// Rate of the link, in Mbit/s
    #[arg(long, default_value_t = 1_000)]
    rate: u64,
    /// Longest queue of the link, in bytes
    #[arg(long, default_value_t = 500_000)]
    queue: u64,
    /// Receive buffer, in bytes as the kernel charges
    #[arg(long, default_value_t = 8 << 20)]
    recv_buffer: u64,
    /// Busy hosts: time for which each process runs in a period, in microseconds
    #[arg(long, value_name = "MICROSECONDS")]
    runs: Option<u64>,
    /// Time in which all programs of a busy host have their turns, in microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 10_000)]
    period: u64,
    /// Chance in a million that a host stops its process for 5 to 100 ms, at each point of a cycle
    #[arg(long, value_name = "PPM", default_value_t = 0)]
    stops: u32,
}

fn main() -> ExitCode {
    let args = LadderArgs::parse();
    for name in &args.controllers {
        let Some(controller) = controller(name) else {
            eprintln!("suci-ladder: no controller {name:?}; there are auto, cubic, wan, lan");
            return ExitCode::from(2);
        };
        for round_trip in &args.round_trip {
            for loss in &args.loss {
                let rung = rung(&args, controller, *round_trip, *loss);
                let Spread {
                    least,
                    median,
                    most,
                } = climb(&args, rung);
                println!(
                    "{name:5} {:6.1} ms {:4.1} %  {:6.1} {:6.1} {:6.1} Mbit/s",
                    *round_trip as f64 / 1e3,
                    f64::from(*loss) / 10.0,
                    least as f64 / 1e6,
                    median as f64 / 1e6,
                    most as f64 / 1e6
                );
            }
        }
    }
    ExitCode::SUCCESS
}

fn controller(name: &str) -> Option<ControllerChoice> {
    Some(match name {
        "auto" => ControllerChoice::Auto,
        "cubic" => ControllerChoice::Cubic,
        "wan" => ControllerChoice::Wan,
        "lan" => ControllerChoice::Lan,
        _ => return None,
    })
}

fn rung(args: &LadderArgs, controller: ControllerChoice, round_trip: u64, loss: u32) -> Rung {
    let rate = args.rate * 125_000;
    Rung {
        loss: loss * 1_000,
        round_trip: Duration::from_micros(round_trip),
        rate,
        queue: Duration::from_secs_f64(args.queue as f64 / rate as f64),
        recv_buffer: args.recv_buffer,
        scheduler: scheduler(args),
        controller,
    }
}

/// Returns how busy the hosts are, if they are.
fn scheduler(args: &LadderArgs) -> Option<Scheduler> {
    let busy = args.runs.is_some() || args.stops > 0;
    busy.then(|| Scheduler {
        runs: Duration::from_micros(args.runs.unwrap_or(args.period)),
        period: Duration::from_micros(args.period),
        stops: args.stops,
    })
}

/// Runs all seeds of a rung, half of them at a time. A run that breaks a promise counts as 0.
fn climb(args: &LadderArgs, rung: Rung) -> Spread {
    let time = Duration::from_millis(args.time);
    let run = |seed: u64| match rung.goodput(seed, time) {
        Ok(figure) => figure,
        Err(failure) => {
            eprintln!("seed {seed} of {rung:?}: {failure}");
            0
        }
    };
    let figures = thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|odd| {
                let seeds = (1..=args.seeds).filter(move |seed| seed % 2 == odd);
                scope.spawn(move || seeds.map(run).collect::<Vec<_>>())
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_default())
            .collect()
    });
    Spread::of(figures)
}
