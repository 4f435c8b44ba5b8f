//! Ranks under mpiexec: the first in one namespace, the others in the other.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use xtask::error::{Context, Result};
use xtask::exec;
use xtask::netns::INTERFACE;

use crate::compile::sources;
use crate::launch::{self, CPUS, Half, Site, Turn};
use crate::output::Talker;
use crate::plan::{Entrant, Task};

/// No address is called there: ranks find one another through mpiexec.
const NOWHERE: &str = "0:0";

pub(crate) const MPIEXEC: &str = "mpiexec.mpich";

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
    let unfinalized = "-disable-auto-cleanup";
    let Site::Namespaces(pair) = site else {
        let mut command = Command::new(MPIEXEC);
        command.arg(unfinalized);
        return command;
    };
    let (a, b) = (pair.a_addr().to_string(), pair.b_addr().to_string());
    let mut command = pair.a.command(MPIEXEC);
    command
        .args([unfinalized, "-launcher", "ssh", "-launcher-exec"])
        .arg(sources().join("into-namespace.sh"));
    command.env("BENCH_NAMESPACE", pair.b.name());
    command.args([
        "-iface",
        INTERFACE,
        "-localhost",
        &a,
        "-hosts",
        &format!("{a},{b}:{servers}"),
    ]);
    command
}
