//! One turn: starts both ends of a contender, and returns their counts.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xtask::bench;
use xtask::error::{Context, Failure, Result};
use xtask::exec;
use xtask::netns::{INTERFACE, Pair};

use crate::contenders::{Contender, Program};
use crate::output::Talker;
use crate::plan::{Entrant, Net, Task, Workload};
use crate::{compile, mpi};

/// The client's processor and the servers'.
pub(crate) const CPUS: [&str; 2] = ["0", "1"];

/// The longest time of a turn beyond its measurement: starting, warming up, parting.
const PATIENCE: Duration = Duration::from_secs(20);

/// Random drop of [`Net::VethLoss`], each way.
const LOSS: f64 = 0.01;

/// The network between the two ends.
pub(crate) enum Site {
    Loopback,
    Namespaces(Pair),
}

impl Site {
    pub(crate) fn new(net: Net) -> Result<Self> {
        if net == Net::Loopback {
            return Ok(Self::Loopback);
        }
        let pair = Pair::new()?;
        await_carrier(&pair)?;
        if net != Net::Veth {
            pair.offloads_off()?;
        }
        if net == Net::VethLoss {
            pair.drop_randomly(LOSS)?;
        }
        Ok(Self::Namespaces(pair))
    }

    /// `program` at the client's side, 0, or at the servers', 1.
    fn command(&self, side: usize, program: &Path) -> Command {
        match self {
            Self::Loopback => Command::new(program),
            Self::Namespaces(pair) if side == 0 => pair.a.command(program),
            Self::Namespaces(pair) => pair.b.command(program),
        }
    }

    /// An address there that was not used before in this run.
    fn address(&self, side: usize) -> SocketAddr {
        static PORT: AtomicU16 = AtomicU16::new(0);
        // Below the ports that the kernel gives to clients, from 32,768 on.
        let port = 20_000 + PORT.fetch_add(1, Ordering::Relaxed) % 12_000;
        let ip = match self {
            Self::Loopback => Ipv4Addr::LOCALHOST,
            Self::Namespaces(pair) if side == 0 => pair.a_addr(),
            Self::Namespaces(pair) => pair.b_addr(),
        };
        SocketAddr::new(IpAddr::V4(ip), port)
    }
}

/// Waits until both interfaces are running: UCX, and MPICH with it, passes over those that are not
/// yet.
fn await_carrier(pair: &Pair) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let state = format!("/sys/class/net/{INTERFACE}/operstate");
    for end in [&pair.a, &pair.b] {
        while end.run(&["cat", &state])?.trim() != "up" {
            if Instant::now() >= deadline {
                return Err(Failure::new(format!("{INTERFACE} does not come up")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// The counts of both ends in one turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds_client: f64,
    pub(crate) cpu_seconds_server: f64,
    /// Microseconds of round trips.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99: Option<f64>,
}

/// The output of one end of a contender.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Half {
    messages: u64,
    bytes: u64,
    /// For a server, 0.
    pub(crate) seconds: f64,
    cpu_seconds: f64,
    p50: Option<f64>,
    p99: Option<f64>,
}

impl Half {
    /// Sums the counts of all servers.
    pub(crate) fn of_all(servers: &[Self]) -> Self {
        Self {
            bytes: servers.iter().map(|one| one.bytes).sum(),
            cpu_seconds: servers.iter().map(|one| one.cpu_seconds).sum(),
            ..Self::default()
        }
    }
}

/// The row of `suci perf --json`, as far as it matters here.
#[derive(Debug, Deserialize)]
struct SuciRow {
    messages: u64,
    bytes: u64,
    seconds: f64,
    cpu_seconds_client: f64,
    cpu_seconds_server: f64,
    p50: Option<f64>,
    p99: Option<f64>,
}

/// The programs that are started.
pub(crate) struct Programs {
    suci: PathBuf,
    contender: PathBuf,
}

impl Programs {
    pub(crate) fn find(suci: &Path) -> Result<Self> {
        let programs = Self {
            suci: suci.to_owned(),
            contender: bench::contenders().join("contender"),
        };
        for program in [&programs.suci, &programs.contender] {
            if !program.is_file() {
                let why = format!("{} is missing; `make bench` builds it", program.display());
                return Err(Failure::new(why));
            }
        }
        Ok(programs)
    }

    /// Checks that `contender` can be started; otherwise names the package to install.
    pub(crate) fn prepare(&self, contender: &Contender) -> Result<()> {
        match contender.program {
            Program::Suci { .. } | Program::Rust => Ok(()),
            Program::C(library) => compile::binary(library).map(drop),
            Program::Mpi(library) => {
                compile::binary(library)?;
                mpi::prepare()
            }
        }
    }

    /// Runs one turn of `entrant`.
    pub(crate) fn turn(
        &self,
        site: &Site,
        task: &Task,
        entrant: Entrant,
        seconds: f64,
    ) -> Result<Turn> {
        let limit = PATIENCE + Duration::from_secs_f64(seconds);
        match entrant.contender.program {
            Program::Suci { .. } => self.suci(site, task, entrant, seconds, limit),
            Program::Rust => ends(site, &self.contender, task, entrant, seconds, limit),
            Program::C(library) => {
                let program = compile::binary(library)?;
                ends(site, &program, task, entrant, seconds, limit)
            }
            Program::Mpi(library) => {
                let program = compile::binary(library)?;
                mpi::ranks(site, &program, task, entrant, seconds, limit)
            }
        }
    }

    /// Returns the options of a sealed or plain `suci`. The key file is made at first use.
    fn security(&self, sealed: bool) -> Result<Vec<OsString>> {
        if !sealed {
            return Ok(vec!["--plain".into()]);
        }
        let file = bench::contenders().join("cluster.key");
        if !file.is_file() {
            exec::capture(Command::new(&self.suci).arg("keygen").arg(&file))?;
        }
        Ok(vec!["--key-file".into(), file.into()])
    }

    /// Runs one turn of `suci perf`.
    fn suci(
        &self,
        site: &Site,
        task: &Task,
        entrant: Entrant,
        seconds: f64,
        limit: Duration,
    ) -> Result<Turn> {
        let Program::Suci {
            batch,
            checksum,
            sealed,
        } = entrant.contender.program
        else {
            return Err(Failure::new("only Suci is run by suci perf"));
        };
        let security = self.security(sealed)?;
        let workload = match (task.workload, batch) {
            (Workload::PingPong, _) => "ping-pong",
            (Workload::Stream | Workload::Rate, false) => "stream",
            (Workload::Stream | Workload::Rate, true) => "stream-batch",
            (Workload::Mix, false) => "mix",
            (Workload::Mix, true) => "mix-batch",
            (Workload::Broadcast, _) => "broadcast",
            (Workload::Data, false) => "n-data",
            (Workload::Data, true) => "n-data-batch",
            (Workload::AllToAll, false) => "all-to-all",
            (Workload::AllToAll, true) => "all-to-all-batch",
        };
        let sides: Vec<usize> = (0..task.receivers)
            .map(|number| side(task, number))
            .collect();
        let pins: Vec<&str> = std::iter::once(CPUS[0])
            .chain(sides.iter().map(|side| CPUS[*side]))
            .collect();
        let mut client = site.command(0, &self.suci);
        client
            .args(["perf", "--json", "--rounds", "1"])
            .args(&security);
        client.args(["--pin", &pins.join(","), "--wait", entrant.wait.policy()]);
        client.args(["--workload", workload, "--seconds", &seconds.to_string()]);
        client.args(["--size", &task.size.max(1).to_string()]);
        client.args(["--data", &task.data.to_string()]);
        if !checksum {
            client.arg("--no-payload-checksum");
        }
        let mut servers = Vec::new();
        for side in sides {
            let at = site.address(side).to_string();
            let mut server = site.command(side, &self.suci);
            server.args(["perf", "--listen", &at]).args(&security);
            servers.push(Talker::start("suci perf --listen", server)?);
            client.arg(at);
        }
        let mut client = Talker::start("suci perf", client)?;
        let said = client.finish_by(Instant::now() + limit)?;
        let line = said.last().context("suci perf printed nothing")?;
        let row: SuciRow = serde_json::from_str(line).context(line)?;
        Ok(Turn {
            messages: row.messages,
            bytes: row.bytes,
            seconds: row.seconds,
            cpu_seconds_client: row.cpu_seconds_client,
            cpu_seconds_server: row.cpu_seconds_server,
            p50: row.p50,
            p99: row.p99,
        })
    }
}

/// The options that both ends of a contender share.
pub(crate) fn options(
    command: &mut Command,
    task: &Task,
    entrant: Entrant,
    seconds: f64,
    cpu: &str,
) {
    let workload = match task.workload {
        Workload::PingPong => "ping-pong",
        Workload::Stream | Workload::Rate => "stream",
        Workload::Mix => "mix",
        Workload::Broadcast => "broadcast",
        Workload::Data => "n-data",
        Workload::AllToAll => "all-to-all",
    };
    command.arg(entrant.contender.name);
    command.args(["--workload", workload, "--size", &task.size.to_string()]);
    command.args(["--data", &task.data.to_string()]);
    command.args(["--seconds", &seconds.to_string()]);
    command.args(["--wait", entrant.wait.name(), "--pin", cpu]);
}

/// The side of the server `number`. If all send to all, each side has as many of them, the client
/// included.
fn side(task: &Task, number: usize) -> usize {
    match task.workload {
        Workload::AllToAll => (number + 1) % 2,
        _ => 1,
    }
}

/// A contender with the common command line: servers first, then the client that calls them. Where
/// all send to all, every server is called by those that are started after it, each at an address
/// of its own.
fn ends(
    site: &Site,
    program: &Path,
    task: &Task,
    entrant: Entrant,
    seconds: f64,
    limit: Duration,
) -> Result<Turn> {
    let name = entrant.contender.name;
    let is_of_all = task.workload == Workload::AllToAll;
    let mut servers: Vec<Talker> = Vec::new();
    // For each process not yet started, in turn: the servers that it calls.
    let mut calls = vec![Vec::new(); task.receivers + 1];
    for number in 0..task.receivers {
        let side = side(task, number);
        let mut server = site.command(side, program);
        options(&mut server, task, entrant, seconds, CPUS[side]);
        if is_of_all && number > 0 {
            server.args(["--call", &calls[number].join(",")]);
        }
        let first = if is_of_all {
            number + 1
        } else {
            task.receivers
        };
        let mut serves = Vec::new();
        for caller in &mut calls[first..] {
            let at = site.address(side).to_string();
            caller.push(at.clone());
            serves.push(at);
        }
        server.args(["--serve", &serves.join(",")]);
        servers.push(Talker::start(&format!("{name}, server"), server)?);
        // A server that was called waits for the next caller.
        let waiting = if is_of_all { 0 } else { number };
        for server in &mut servers[waiting..] {
            server.wait_for("ready", PATIENCE)?;
        }
    }
    let mut client = site.command(0, program);
    options(&mut client, task, entrant, seconds, CPUS[0]);
    client.args(["--call", &calls[task.receivers].join(",")]);
    let mut client = Talker::start(&format!("{name}, client"), client)?;
    let deadline = Instant::now() + limit;
    let client = half(&client.finish_by(deadline)?)?;
    let mut halves = Vec::new();
    for mut server in servers {
        halves.push(half(&server.finish_by(deadline)?)?);
    }
    if is_of_all {
        return exchanged(name, client, &halves);
    }
    joined(name, client, Half::of_all(&halves))
}

/// Sums the messages that all ends of one turn received, in which each sent as much to all others.
/// The client measures the time.
fn exchanged(name: &str, client: Half, servers: &[Half]) -> Result<Turn> {
    if let Some(other) = servers.iter().find(|other| other.bytes != client.bytes) {
        let (one, other) = (client.bytes, other.bytes);
        return Err(Failure::new(format!(
            "{name}: one received {one} bytes, another {other}"
        )));
    }
    let all = servers.len() as u64 + 1;
    Ok(Turn {
        messages: client.messages * all,
        bytes: client.bytes * all,
        seconds: client.seconds,
        cpu_seconds_client: client.cpu_seconds,
        cpu_seconds_server: servers.iter().map(|server| server.cpu_seconds).sum(),
        p50: client.p50,
        p99: client.p99,
    })
}

pub(crate) fn half(said: &[String]) -> Result<Half> {
    let line = said.last().context("no figures were printed")?;
    serde_json::from_str(line).context(line)
}

/// Joins both ends of one turn, which must agree on the bytes carried.
pub(crate) fn joined(name: &str, client: Half, server: Half) -> Result<Turn> {
    if client.bytes != server.bytes {
        let (sent, arrived) = (client.bytes, server.bytes);
        return Err(Failure::new(format!(
            "{name}: {arrived} bytes arrived of {sent}"
        )));
    }
    Ok(Turn {
        messages: client.messages,
        bytes: client.bytes,
        seconds: client.seconds,
        cpu_seconds_client: client.cpu_seconds,
        cpu_seconds_server: server.cpu_seconds,
        p50: client.p50,
        p99: client.p99,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_must_agree() {
        let line = r#"{"messages":3,"bytes":192,"seconds":0.5,"cpu_seconds":0.25,"p50":5.0}"#;
        let client = half(&["ready".to_owned(), line.to_owned()]).unwrap();
        let turn = joined(
            "x",
            client,
            Half {
                bytes: 192,
                cpu_seconds: 0.5,
                ..Half::default()
            },
        );
        let turn = turn.unwrap();
        assert_eq!(
            (
                turn.messages,
                turn.cpu_seconds_client,
                turn.cpu_seconds_server
            ),
            (3, 0.25, 0.5)
        );
        assert_eq!((turn.p50, turn.p99), (Some(5.0), None));
        let failure = joined(
            "x",
            client,
            Half {
                bytes: 128,
                ..Half::default()
            },
        )
        .unwrap_err();
        assert_eq!(failure.to_string(), "x: 128 bytes arrived of 192");
        assert!(half(&["ready".to_owned()]).is_err());
        let turn = exchanged("x", client, &[client, client]).unwrap();
        assert_eq!((turn.messages, turn.bytes), (9, 576));
        assert_eq!(
            (turn.cpu_seconds_client, turn.cpu_seconds_server),
            (0.25, 0.5)
        );
        let less = Half {
            bytes: 191,
            ..client
        };
        let failure = exchanged("x", client, &[client, less]).unwrap_err();
        assert_eq!(
            failure.to_string(),
            "x: one received 192 bytes, another 191"
        );
    }
}
