//! Ranks of MPI under their starters, on one machine or in two namespaces.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use xtask::error::{Context, Result};
use xtask::exec;
use xtask::netns::{INTERFACE, Pair};

use crate::compile::sources;
use crate::launch::{self, CPUS, Half, Site, Turn};
use crate::output::Talker;
use crate::plan::{Entrant, Task};

/// No address is called there: ranks find one another through mpiexec.
const NOWHERE: &str = "0:0";

/// The starters of ranks of MPICH and of Open MPI.
const MPIEXEC: &str = "mpiexec.mpich";
const MPIRUN: &str = "mpirun.openmpi";

/// Ranks of MPICH may end without `MPI_Finalize`.
const UNFINALIZED: &str = "-disable-auto-cleanup";

/// Runs one turn of a program that is started once for all ends.
pub(crate) fn ranks(
    site: &Site,
    program: &Path,
    task: &Task,
    entrant: Entrant,
    seconds: f64,
    limit: Duration,
) -> Result<Turn> {
    let mut command = launcher(site, task.receivers);
    let servers = vec![NOWHERE; task.receivers].join(",");
    let ends = [
        ("--call", servers.as_str(), 1),
        ("--serve", NOWHERE, task.receivers),
    ];
    for (at, ((option, whom, count), cpu)) in ends.into_iter().zip(CPUS).enumerate() {
        if at > 0 {
            command.arg(":");
        }
        command.args(["-n", &count.to_string()]).arg(program);
        launch::options(&mut command, task, entrant, seconds, cpu);
        command.args([option, whom]);
    }
    let name = entrant.contender.name;
    let said = Talker::start(name, command)?.finish_by(Instant::now() + limit)?;
    let halves: Result<Vec<Half>> = said.chunks(1).map(launch::half).collect();
    let (servers, clients): (Vec<Half>, Vec<Half>) =
        halves?.into_iter().partition(|half| half.seconds <= 0.0);
    let client = clients.first().copied();
    let client = client.context(format!("{name}'s client did not print what it counted"))?;
    launch::joined(name, client, Half::of_all(&servers))
}

/// Checks that the starter of ranks is installed.
pub(crate) fn prepare() -> Result<()> {
    let version = exec::capture(Command::new(MPIEXEC).arg("--version"));
    version.map(drop).context("as root: apt-get install mpich")
}

/// mpiexec, up to the ranks, which end without `MPI_Finalize` (see there). By loopback they must
/// believe that they are on different machines, or they would share memory: UCX_TLS=tcp, which the
/// program sets, sees to that.
fn launcher(site: &Site, servers: usize) -> Command {
    match site {
        Site::Namespaces(pair) => across(pair, [1, servers]),
        Site::Loopback => on_this_machine(),
    }
}

fn on_this_machine() -> Command {
    let mut command = Command::new(MPIEXEC);
    command.arg(UNFINALIZED);
    command
}

/// MPICH's starter of so many ranks on this machine, up to their program.
pub(crate) fn mpich(processes: usize) -> Command {
    let mut command = on_this_machine();
    command.args(["-n", &processes.to_string()]);
    command
}

/// The same between namespaces: the first half of the ranks in the first one.
pub(crate) fn mpich_across(pair: &Pair, processes: usize) -> Command {
    let mut command = across(pair, halves(processes));
    command.args(["-n", &processes.to_string()]);
    command
}

/// Returns how many of the processes are in each namespace.
pub(crate) fn halves(processes: usize) -> [usize; 2] {
    [processes / 2, processes - processes / 2]
}

/// mpiexec with room for `counts` ranks in each namespace.
fn across(pair: &Pair, counts: [usize; 2]) -> Command {
    let (a, b) = (pair.a_addr().to_string(), pair.b_addr().to_string());
    let [of_a, of_b] = counts;
    let mut command = pair.a.command(MPIEXEC);
    command
        .args([UNFINALIZED, "-launcher", "ssh", "-launcher-exec"])
        .arg(sources().join("into-namespace.sh"));
    command.env("BENCH_NAMESPACE", pair.b.name());
    command.args([
        "-iface",
        INTERFACE,
        "-localhost",
        &a,
        "-hosts",
        &format!("{a}:{of_a},{b}:{of_b}"),
    ]);
    command
}

/// Open MPI's starter of so many ranks, up to their program: on this machine, or in both namespaces
/// of a pair. Ranks let others run while they wait if there are more of them than processors.
pub(crate) fn open_mpi(pair: Option<&Pair>, processes: usize, is_oversubscribed: bool) -> Command {
    let mut command = match pair {
        None => {
            let mut command = Command::new(MPIRUN);
            command.args(["--host", &format!("localhost:{processes}")]);
            command
        }
        Some(pair) => {
            let (a, b) = (pair.a_addr(), pair.b_addr());
            let [of_a, of_b] = halves(processes);
            let mut command = pair.a.command(MPIRUN);
            command.args(["--host", &format!("{a}:{of_a},{b}:{of_b}")]);
            command.args(["--mca", "oob_tcp_if_include", INTERFACE]);
            command.args(["--mca", "plm_rsh_agent"]);
            command.arg(sources().join("into-namespace.sh"));
            command.env("BENCH_NAMESPACE", pair.b.name());
            command
        }
    };
    // Namespaces need root.
    for consent in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
        command.env(consent, "1");
    }
    let waits = u8::from(is_oversubscribed).to_string();
    command.args(["--mca", "mpi_yield_when_idle", &waits]);
    command.args(["-n", &processes.to_string()]);
    command
}
