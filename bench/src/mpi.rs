//! Two ranks under mpiexec, each in its own namespace.

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

/// Nobody is called there: ranks find one another through mpiexec.
const NOWHERE: &str = "0:0";

const MPIEXEC: &str = "mpiexec.mpich";

/// One turn of a program that is started once for both ends.
pub(crate) fn ranks(
    site: &Site,
    program: &Path,
    task: &Task,
    entrant: Entrant,
    seconds: f64,
    limit: Duration,
) -> Result<Turn> {
    let mut command = launcher(site);
    for (at, (end, cpu)) in ["--call", "--serve"].into_iter().zip(CPUS).enumerate() {
        if at > 0 {
            command.arg(":");
        }
        command.args(["-n", "1"]).arg(program);
        launch::options(&mut command, task, entrant, seconds, cpu);
        command.args([end, NOWHERE]);
    }
    let name = entrant.contender.name;
    let said = Talker::start(name, command)?.finish_by(Instant::now() + limit)?;
    let halves: Result<Vec<Half>> = said.chunks(1).map(launch::half).collect();
    let (servers, clients): (Vec<Half>, Vec<Half>) =
        halves?.into_iter().partition(|half| half.seconds <= 0.0);
    let both = clients.first().copied().zip(servers.first().copied());
    let (client, server) = both.context(format!("{name} did not print what both ends counted"))?;
    launch::joined(name, client, server)
}

/// Whether there is what starts ranks.
pub(crate) fn prepare() -> Result<()> {
    let version = exec::capture(Command::new(MPIEXEC).arg("--version"));
    version.map(drop).context("as root: apt-get install mpich")
}

/// mpiexec, up to the ranks. By loopback both must believe that they are on different machines, or they would
/// share memory: UCX_TLS=tcp, which the program sets, sees to that.
fn launcher(site: &Site) -> Command {
    let Site::Namespaces(pair) = site else {
        return Command::new(MPIEXEC);
    };
    let (a, b) = (pair.a_addr().to_string(), pair.b_addr().to_string());
    let mut command = pair.a.command(MPIEXEC);
    command
        .args(["-launcher", "ssh", "-launcher-exec"])
        .arg(sources().join("into-namespace.sh"));
    command.env("BENCH_NAMESPACE", pair.b.name());
    command.args([
        "-iface",
        INTERFACE,
        "-localhost",
        &a,
        "-hosts",
        &format!("{a},{b}"),
    ]);
    command
}
