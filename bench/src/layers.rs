//! One-sided and collective operations beside those of MPICH and Open MPI: between two network
//! namespaces beside their TCP, and on one machine, over shared memory, beside theirs. All
//! processes of a turn start anew; contenders take turns within a round.

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;
use xtask::error::{Context, Failure, Result};
use xtask::netns::Pair;
use xtask::{exec, figures};

use crate::contenders::Library;
use crate::processes::{self, Taken};
use crate::{compile, mpi};

const MPICH: Library = Library {
    source: "layers",
    compiler: "mpicc.mpich",
    link: &[],
    bundle: None,
    packages: "mpich libmpich-dev",
};

const OPEN_MPI: Library = Library {
    source: "layers",
    compiler: "mpicc.openmpi",
    link: &[],
    bundle: None,
    packages: "openmpi-bin libopenmpi-dev",
};

/// The operations that process 0 does at process 1.
const ONE_SIDED: [&str; 4] = ["put", "get", "add", "atomics"];

/// The port of the first process in a namespace, which has no other programs.
const PORT: u16 = 7_000;

/// The choice of operations, and the length of a measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LayersArgs {
    /// Operations: put, get, add (fetch and add), atomics (adds without a result, 64 under way),
    /// barrier, allreduce
    #[arg(long, value_delimiter = ',',
        value_parser = ["put", "get", "add", "atomics", "barrier", "allreduce"],
        default_values = ["put", "get", "add", "atomics", "barrier", "allreduce"])]
    only: Vec<String>,
    /// Processes; one-sided operations are between the first two
    #[arg(long, default_values_t = [2, 4, 8], value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(2..=64))]
    processes: Vec<u16>,
    /// Iterations of a turn with small messages; a tenth if processes are more than processors, and
    /// fewer with longer messages
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(10..))]
    iterations: u32,
    /// How often each contender has its turn
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// One JSON object per line instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Half of the processes in each of two, joined by a veth cable. They use the network alone.
    Namespaces,
    /// This machine. Processes share memory.
    Machine,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Machine => "machine",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Suci,
    Mpich,
    OpenMpi,
}

struct Contender {
    name: &'static str,
    place: Place,
    program: Program,
}

const fn contender(name: &'static str, place: Place, program: Program) -> Contender {
    Contender {
        name,
        place,
        program,
    }
}

/// Each is compared with Suci in the same place.
const CONTENDERS: [Contender; 6] = [
    contender("suci", Place::Namespaces, Program::Suci),
    contender("mpich-tcp", Place::Namespaces, Program::Mpich),
    contender("openmpi-tcp", Place::Namespaces, Program::OpenMpi),
    contender("suci-shm", Place::Machine, Program::Suci),
    contender("mpich-shm", Place::Machine, Program::Mpich),
    contender("openmpi-shm", Place::Machine, Program::OpenMpi),
];

/// One operation among so many processes.
struct Point<'a> {
    what: &'a str,
    processes: usize,
    bytes: u32,
    iterations: u32,
    /// More processes than processors.
    is_oversubscribed: bool,
}

impl LayersArgs {
    fn points(&self) -> Vec<Point<'_>> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut points = Vec::new();
        for what in &self.only {
            let is_one_sided = ONE_SIDED.contains(&what.as_str());
            let counts = if is_one_sided {
                &[2]
            } else {
                &self.processes[..]
            };
            for processes in counts.iter().map(|count| usize::from(*count)) {
                let is_oversubscribed = processes > cores;
                let most = self.iterations / if is_oversubscribed { 10 } else { 1 };
                points.extend(sizes(what).iter().map(|&bytes| Point {
                    what,
                    processes,
                    bytes,
                    iterations: (most * 8_192 / (8_192 + bytes)).max(10),
                    is_oversubscribed,
                }));
            }
        }
        points
    }
}

/// The programs, and where they run.
struct Bench {
    suci: PathBuf,
    mpich: PathBuf,
    /// Its program, or why there is none.
    open_mpi: Result<PathBuf>,
    pair: Pair,
    book: tempfile::NamedTempFile,
}

/// Measures and prints.
pub(crate) fn run(args: &LayersArgs) -> Result<()> {
    let bench = Bench::new()?;
    let mut present: Vec<&Contender> = CONTENDERS.iter().collect();
    if let Err(why) = &bench.open_mpi {
        present.retain(|contender| contender.program != Program::OpenMpi);
        match args.json {
            true => println!(
                "{}",
                json!({"contender": "openmpi", "absent": why.to_string()})
            ),
            false => println!("openmpi is absent: {why}"),
        }
    }
    if !args.json {
        println!(
            "operation  processes    bytes  contender    us/operation       min       max   cpu us \
             \x20operations/s  suci's time"
        );
    }
    for point in args.points() {
        let (what, processes, bytes) = (point.what, point.processes, point.bytes);
        let mut turns: Vec<_> = present.iter().map(|_| Vec::new()).collect();
        for round in 1..=args.rounds {
            let rounds = args.rounds;
            eprintln!("{what}, {processes} processes, {bytes} B: round {round} of {rounds}");
            for at in 0..present.len() {
                let at = match round % 2 {
                    0 => at,
                    _ => present.len() - 1 - at,
                };
                turns[at].push(bench.patient_turn(present[at], &point)?);
            }
        }
        report(args.json, &point, &present, &turns);
    }
    Ok(())
}

impl Bench {
    fn new() -> Result<Self> {
        let mut bench = Self {
            suci: exec::target_dir().join("release/layers-rank"),
            mpich: compile::binary(&MPICH)?,
            open_mpi: compile::binary(&OPEN_MPI),
            pair: Pair::new()?,
            book: tempfile::NamedTempFile::new()?,
        };
        // Its starter may refuse.
        let trial = Point {
            what: "barrier",
            processes: 2,
            bytes: 8,
            iterations: 10,
            is_oversubscribed: false,
        };
        let all = CONTENDERS.iter();
        let of_open_mpi = all.filter(|contender| contender.program == Program::OpenMpi);
        let tried = of_open_mpi.map(|contender| bench.turn(contender, &trial));
        if let Err(why) = tried.collect::<Result<Vec<Taken>>>() {
            bench.open_mpi = Err(why);
        }
        Ok(bench)
    }

    fn turn(&self, contender: &Contender, point: &Point<'_>) -> Result<Taken> {
        let (name, place) = (contender.name, contender.place);
        let across = (place == Place::Namespaces).then_some(&self.pair);
        let (processes, is_oversubscribed) = (point.processes, point.is_oversubscribed);
        let mut starter = match (contender.program, across) {
            (Program::Suci, _) => return processes::ranks(name, self.suci(place, point)?),
            (Program::Mpich, None) => mpi::mpich(processes),
            (Program::Mpich, Some(pair)) => mpi::mpich_across(pair, processes),
            (Program::OpenMpi, pair) => mpi::open_mpi(pair, processes, is_oversubscribed),
        };
        starter.arg(match contender.program {
            Program::OpenMpi => match &self.open_mpi {
                Ok(program) => program,
                Err(why) => return Err(Failure::new(why.to_string())),
            },
            _ => &self.mpich,
        });
        starter.args(arguments(point));
        starter.arg(match place {
            Place::Namespaces => "tcp",
            Place::Machine => "default",
        });
        processes::started(name, starter)
    }

    /// Runs a turn. If a starter of MPI fails, the turn begins anew, twice at most: the processes
    /// of MPI sometimes do not find one another.
    fn patient_turn(&self, contender: &Contender, point: &Point<'_>) -> Result<Taken> {
        let retries = match contender.program {
            Program::Suci => 0,
            Program::Mpich | Program::OpenMpi => 2,
        };
        for _ in 0..retries {
            match self.turn(contender, point) {
                Err(why) => eprintln!("{why}: its turn begins anew"),
                taken => return taken,
            }
        }
        self.turn(contender, point)
    }

    /// The processes of Suci, after writing their book.
    fn suci(&self, place: Place, point: &Point<'_>) -> Result<Vec<Command>> {
        let (pair, count) = (&self.pair, point.processes);
        let [in_a, _] = mpi::halves(count);
        let first = match place {
            Place::Namespaces => PORT,
            Place::Machine => processes::free_ports(count)?,
        };
        let (mut book, mut commands) = (String::new(), Vec::new());
        for (rank, port) in (0..count).zip(first..) {
            let (mut command, address) = match place {
                Place::Machine => (Command::new(&self.suci), "127.0.0.1".to_owned()),
                Place::Namespaces if rank < in_a => {
                    (pair.a.command(&self.suci), pair.a_addr().to_string())
                }
                Place::Namespaces => (pair.b.command(&self.suci), pair.b_addr().to_string()),
            };
            book += &format!("{rank} {address}:{port}\n");
            command.args(arguments(point));
            command.env("SUCI_ID", rank.to_string());
            command.env("SUCI_SIZE", count.to_string());
            command.env("SUCI_BOOK", self.book.path());
            let shares_memory = u8::from(place == Place::Machine);
            command.env("SUCI_SHARED_MEMORY", shares_memory.to_string());
            commands.push(command);
        }
        let path = self.book.path();
        std::fs::write(path, book).context(path.display())?;
        Ok(commands)
    }
}

fn arguments(point: &Point<'_>) -> [String; 3] {
    let (bytes, iterations) = (point.bytes.to_string(), point.iterations.to_string());
    [point.what.to_owned(), bytes, iterations]
}

/// The sizes at which an operation is measured.
fn sizes(what: &str) -> &'static [u32] {
    match what {
        "put" | "get" => &[8, 4_096, 65_536, 1 << 20],
        "allreduce" => &[8, 1 << 20],
        _ => &[8],
    }
}

fn report(json: bool, point: &Point<'_>, contenders: &[&Contender], turns: &[Vec<Taken>]) {
    let each = |taken: f64| taken * 1e6 / f64::from(point.iterations);
    let median = |of: fn(&Taken) -> f64, turns: &[Taken]| {
        figures::median(turns.iter().map(|turn| each(of(turn))).collect()).unwrap_or(f64::NAN)
    };
    let seconds = |turn: &Taken| turn.seconds;
    let own = |place: Place| {
        let mut all = contenders.iter().zip(turns);
        let own = all.find(|(it, _)| (it.place, it.program) == (place, Program::Suci));
        own.map_or(f64::NAN, |(_, turns)| median(seconds, turns))
    };
    let (what, processes, bytes) = (point.what, point.processes, point.bytes);
    for (contender, turns) in contenders.iter().zip(turns) {
        let (name, place) = (contender.name, contender.place);
        let (time, cpu) = (median(seconds, turns), median(|it| it.cpu_seconds, turns));
        let all = || turns.iter().map(|turn| each(turn.seconds));
        let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
        let (rate, ratio) = (1e6 / time, own(place) / time);
        if json {
            let row = json!({
                "operation": what, "processes": processes, "bytes": bytes, "contender": name,
                "place": place.name(), "is_suci": contender.program == Program::Suci,
                "micros": time, "min": least, "max": most, "cpu_micros": cpu, "per_second": rate,
                "suci_of_it": ratio, "oversubscribed": point.is_oversubscribed,
            });
            println!("{row}");
        } else {
            let mark = if point.is_oversubscribed {
                "oversubscribed"
            } else {
                ""
            };
            println!(
                "{what:9} {processes:10} {bytes:8}  {name:11} {time:13.1} {least:9.1} {most:9.1} \
                 {cpu:8.1} {rate:13.0} {ratio:12.2}  {mark}"
            );
        }
    }
}
