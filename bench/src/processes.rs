//! Processes of one machine that measure something together.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Deserialize;
use xtask::error::{Context, Result};

use crate::output::Talker;

/// The longest time of a turn.
const LIMIT: Duration = Duration::from_secs(120);

/// Seconds and processor seconds of one rank. Those of a turn are the time of its slowest rank and
/// the processor time of all ranks.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Taken {
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
}

/// Starts the ranks of a program together, each by its command. Returns the longest time and the
/// sum of their processors' times.
pub(crate) fn ranks(name: &str, commands: Vec<Command>) -> Result<Taken> {
    let start = |(rank, command)| Talker::start(&format!("{name}, rank {rank}"), command);
    let started: Result<Vec<Talker>> = commands.into_iter().enumerate().map(start).collect();
    let end = Instant::now() + LIMIT;
    let mut said = Vec::new();
    for mut rank in started? {
        said.extend(rank.finish_by(end)?);
    }
    together(&said)
}

/// Starts all ranks by one command, a starter of ranks.
pub(crate) fn started(name: &str, command: Command) -> Result<Taken> {
    together(&Talker::start(name, command)?.finish_by(Instant::now() + LIMIT)?)
}

/// The time of the slowest rank, and the processor time of all.
fn together(said: &[String]) -> Result<Taken> {
    let mut all = Taken {
        seconds: 0.0,
        cpu_seconds: 0.0,
    };
    for line in said {
        let rank: Taken = serde_json::from_str(line).context(format!("{line:?}"))?;
        all.seconds = all.seconds.max(rank.seconds);
        all.cpu_seconds += rank.cpu_seconds;
    }
    Ok(all)
}

/// Returns the first of `count` ports in a row at which no process listens on loopback.
pub(crate) fn free_ports(count: usize) -> Result<u16> {
    let count = u16::try_from(count).context("processes")?;
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    // Below the ports that the kernel gives to clients.
    let mut blocks = (20_000..32_000).step_by(usize::from(count));
    let free = blocks.find(|first| (*first..first + count).all(is_free));
    free.context("no free ports on loopback")
}
