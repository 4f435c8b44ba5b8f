//! Peer slots, the handshake and newcomers.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::super::tools::{free_port, tests_of};
use super::super::{Ctx, Figure, Line};
use crate::error::{Context, Result};

/// The most bytes that a socket may ask for by the stock limit of Linux: 64 slots.
const STOCK: (&str, &str) = ("SUCI_RMEM_MAX", "212992");

/// Clients at once, and runs of each number.
const CLIENTS: [usize; 3] = [70, 64, 200];
const RUNS: usize = 10;

/// The longest wait of a client's program for an answer.
const LONGEST: Duration = Duration::from_secs(1);

pub(super) const LINES: &[Line] = &[
    Line {
        name: "slots",
        must: "70, 64 and 200 suci ping clients of a server with 64 places, 30 runs, two questions each, a second apart: the worst takes 1 s",
        run: visits,
    },
    Line {
        name: "slots-simulated",
        must: "the same with 64, 70 and 200 clients, at once and in turn (virtual time): each question within half a second",
        run: |_| tests_of("suci-sim", "f34_clients_that_share", &[]),
    },
    Line {
        name: "slots-stopped",
        must: "300 strangers that stop within the handshake, then 500 others: all served within 1 s, none told Full",
        run: |_| tests_of("suci-sim", "f34_strangers_that_stop", &[]),
    },
    Line {
        name: "slots-closed",
        must: "100 places, 240 visits from one address, each closed in order: none is refused",
        run: |_| tests_of("suci-proto", "f34_strangers_that_closed", &[]),
    },
];

fn visits(ctx: &Ctx) -> Result<Figure> {
    let suci = ctx.suci()?;
    let mut worst = Duration::ZERO;
    let mut failed = 0;
    for run in 0..RUNS {
        for clients in CLIENTS {
            // In turn in every other run.
            let pause = Duration::from_millis(run as u64 % 2 * 5);
            let answers = visit(suci, clients, pause)?;
            failed += answers.iter().filter(|answer| answer.is_none()).count();
            worst = answers.into_iter().flatten().fold(worst, Duration::max);
        }
    }
    let runs = RUNS * CLIENTS.len();
    let text = format!("{runs} runs, worst question {worst:.2?}, {failed} clients without answers");
    Ok(Figure::new(failed == 0 && worst <= LONGEST, text))
}

/// The longest round trip of each client; `None` if it had no answer.
fn visit(suci: &Path, clients: usize, pause: Duration) -> Result<Vec<Option<Duration>>> {
    let at = SocketAddr::from(([127, 0, 0, 1], free_port()?));
    let mut command = Command::new(suci);
    command
        .args(["ping", "--plain", "--listen"])
        .arg(at.to_string());
    let mut server = command
        .env(STOCK.0, STOCK.1)
        .stderr(Stdio::piped())
        .spawn()?;
    let said = server.stderr.take().context("a server without a stderr")?;
    let mut first = String::new();
    BufReader::new(said).read_line(&mut first)?;
    let answers = thread::scope(|scope| {
        let client = || ping(suci, at);
        let started: Vec<_> = (0..clients)
            .map(|_| {
                thread::sleep(pause);
                scope.spawn(client)
            })
            .collect();
        let ends = started
            .into_iter()
            .map(|client| client.join().ok().flatten());
        ends.collect()
    });
    server.kill()?;
    server.wait()?;
    Ok(answers)
}

/// Asks twice, a second apart. Returns the longer of the two round trips.
fn ping(suci: &Path, at: SocketAddr) -> Option<Duration> {
    let mut command = Command::new(suci);
    command.args([
        "ping",
        "--plain",
        "--json",
        "--count",
        "2",
        "--interval",
        "1",
    ]);
    let said = command.arg(at.to_string()).output().ok()?;
    let object: serde_json::Value = serde_json::from_slice(&said.stdout).ok()?;
    let longest = object
        .get("max")?
        .as_f64()
        .filter(|_| said.status.success())?;
    Some(Duration::from_secs_f64(longest / 1e6))
}
