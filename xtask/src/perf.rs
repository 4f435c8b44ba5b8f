//! `suci perf` between two namespaces, for the lines that judge its rows.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::error::{Context, Result};
use crate::exec::{self, Process};
use crate::netns::Pair;

/// The port of both contenders; the namespaces have no other programs.
const PORT: u16 = 7000;

/// The rows of `suci perf --json` with further `args`.
///
/// # Errors
/// An end fails, or prints a line that is not a row.
pub(crate) fn rows(suci: &Path, pair: &Pair, args: &[&str]) -> Result<Vec<Value>> {
    let (mut client, _server) = ends(suci, pair)?;
    let said = exec::capture(client.arg("--json").args(args))?;
    said.lines()
        .map(|line| serde_json::from_str(line).context(line))
        .collect()
}

/// The server, running in `b` until dropped, and the client's command in `a`.
fn ends(suci: &Path, pair: &Pair) -> Result<(Command, Process)> {
    let at = SocketAddr::from((pair.b_addr(), PORT)).to_string();
    let mut server = pair.b.command(suci);
    server.args(["perf", "--plain", "--listen", &at]);
    let server = Process::spawn(server.stdin(Stdio::null()).stdout(Stdio::null()))?;
    let mut client = pair.a.command(suci);
    client.args(["perf", "--plain", &at]);
    Ok((client, server))
}

/// The median of one contender in one workload.
///
/// # Errors
/// There is no such row.
pub(crate) fn median(rows: &[Value], workload: &str, contender: &str, size: u64) -> Result<f64> {
    let wanted = |row: &&Value| {
        row["workload"] == workload && row["contender"] == contender && row["size"] == size
    };
    let row = rows.iter().find(wanted);
    row.and_then(|row| row["median"].as_f64()).context(format!(
        "suci perf printed no {workload} of {size} B by {contender}"
    ))
}
