//! docs/costs.md against the tree: the cost of a message in packets, system calls, allocations,
//! copies and instructions, counted under valgrind, so that a regression is a diff.
//!
//! The programs counted are in `tests/guarded`. Time and chance are the same in each of their runs,
//! and so are the counts, on an idle machine and on a busy one. Times are measured elsewhere (`suci
//! perf`).

mod page;
mod valgrind;

use std::path::{Path, PathBuf};
use std::process::Command;

use self::page::{Page, Row, differences};
use crate::error::{Context, Failure, Result};
use crate::exec;

/// A program of `guarded`.
struct Workload {
    name: &'static str,
    /// The work, for the reader.
    what: &'static str,
    /// The unit of the figures.
    unit: &'static str,
    /// Rounds of the first run; the second run has twice as many.
    rounds: u32,
    /// Whether it has sockets and a clock.
    has_host: bool,
}

/// 64 B there and back, by two messages and by a call.
const ROUND_TRIP: &str = "engine-round-trip";
const CALL: &str = "engine-call";

const WORKLOADS: &[Workload] = &[
    Workload {
        name: ROUND_TRIP,
        what: "Two engines in virtual time: 64 B there and back. The sender asks, the receiver answers",
        unit: "round trip",
        rounds: 1_000,
        has_host: false,
    },
    Workload {
        name: "engine-short-train",
        what: "The same with 4 KiB, in three packets each way",
        unit: "round trip",
        rounds: 200,
        has_host: false,
    },
    Workload {
        name: CALL,
        what: "As engine-round-trip, by a request and its reply",
        unit: "round trip",
        rounds: 1_000,
        has_host: false,
    },
    Workload {
        name: "engine-batch",
        what: "Two engines in virtual time: batches of 256 messages of 32 B, one way",
        unit: "message",
        rounds: 40,
        has_host: false,
    },
    Workload {
        name: "engine-middle",
        what: "Two engines in virtual time: batches of 256 messages of 1 KiB, one way: most stand in two packets",
        unit: "message",
        rounds: 40,
        has_host: false,
    },
    Workload {
        name: "engine-large",
        what: "Two engines in virtual time: messages of 256 KiB, one way",
        unit: "full packet",
        rounds: 10,
        has_host: false,
    },
    Workload {
        name: "engine-handshake",
        what: "Two engines in virtual time that are new to each other: the handshake and a first message of 64 B",
        unit: "connection",
        rounds: 20,
        has_host: false,
    },
    Workload {
        name: "engine-sealed-round-trip",
        what: "As engine-round-trip, sealed with AES-128-GCM",
        unit: "round trip",
        rounds: 1_000,
        has_host: false,
    },
    Workload {
        name: "engine-sealed-large",
        what: "As engine-large, sealed with AES-128-GCM",
        unit: "full packet",
        rounds: 10,
        has_host: false,
    },
    Workload {
        name: "engine-sealed-handshake",
        what: "As engine-handshake, sealed under a cluster key",
        unit: "connection",
        rounds: 5,
        has_host: false,
    },
    Workload {
        name: "node-round-trip",
        what: "Two `Node`s over loopback: 64 B there and back, in calls that block",
        unit: "round trip",
        rounds: 1_000,
        has_host: true,
    },
    Workload {
        name: "node-batch",
        what: "Two `Node`s over loopback: batches of 256 messages of 32 B, one way",
        unit: "message",
        rounds: 40,
        has_host: true,
    },
    Workload {
        name: "node-large",
        what: "Two `Node`s over loopback: messages of 256 KiB, one way",
        unit: "full packet",
        rounds: 10,
        has_host: true,
    },
];

/// Workloads of `guarded-placed`, whose receivers name the memory where messages belong. The page
/// does not have them.
const PLACED: &[Workload] = &[
    Workload {
        name: "node-into",
        what: "recv_into",
        unit: "message",
        rounds: 10,
        has_host: true,
    },
    Workload {
        name: "node-put",
        what: "put",
        unit: "message",
        rounds: 10,
        has_host: true,
    },
];

/// The figure of all bytes that the receiver copies.
const COPIED_BY_RECEIVER: &str = "bytes copied, receiver";

/// Bytes of each of those messages.
const PLACED_BYTES: f64 = 65_536.0;

/// By how much instructions may differ from the page: code generation and the C library move them a
/// little.
const INSTRUCTIONS_WITHIN: f64 = 0.01;

/// Counts everything and compares with the page, or rewrites it when `write`.
///
/// # Errors
/// A figure differs, in either direction: a lower cost must not rise again unseen.
pub fn check(write: bool) -> Result<()> {
    let path = exec::root().join("docs/costs.md");
    let measured = Page {
        tools: tools()?,
        rows: measure(&build()?)?,
    };
    if write {
        return std::fs::write(&path, measured.text()).context(path.display());
    }
    let text = std::fs::read_to_string(&path).context(path.display())?;
    let expected = Page::parse(&text)?;
    let wrong = differences(&expected, &measured, INSTRUCTIONS_WITHIN);
    if wrong.is_empty() {
        println!(
            "   {} figures as docs/costs.md has them",
            measured.rows.len()
        );
        return Ok(());
    }
    let mut said = wrong;
    if expected.tools != measured.tools {
        let (then, now) = (&expected.tools, &measured.tools);
        said.push(format!(
            "(docs/costs.md was counted with {then}; this is {now})"
        ));
    }
    said.push(
        "If that is meant, accept it: run `cargo xtask guards --write`, and commit docs/costs.md \
         with what changed it, saying why."
            .to_owned(),
    );
    Err(Failure::new(said.join("\n")))
}

/// The versions, beside the tree, on which the counts depend.
fn tools() -> Result<String> {
    let valgrind = exec::capture(Command::new("valgrind").arg("--version")).map_err(|failure| {
        Failure::new(format!("{failure}; `make setup-host` installs valgrind"))
    })?;
    let rustc = exec::capture(
        Command::new("rustc")
            .arg("--version")
            .current_dir(exec::root()),
    )?;
    let rustc: Vec<&str> = rustc.split_whitespace().take(2).collect();
    let (rustc, valgrind, arch) = (rustc.join(" "), valgrind.trim(), std::env::consts::ARCH);
    Ok(format!("{rustc}, {valgrind}, {arch}"))
}

/// Checks twice, and that both counted the same. Says how much that was.
///
/// # Errors
/// [`check`]'s, or two counts differ, if only in an instruction.
pub(crate) fn twice() -> Result<String> {
    check(false)?;
    let guarded = build()?;
    let pages = [measure(&guarded)?, measure(&guarded)?].map(|rows| Page {
        tools: String::new(),
        rows,
    });
    let other = differences(&pages[0], &pages[1], 0.0);
    match other.is_empty() {
        true => Ok(format!("{} counts, the same again", pages[0].rows.len())),
        false => Err(Failure::new(other.join("\n"))),
    }
}

/// Instructions of a call, and of a round trip by two messages: of both nodes together.
///
/// # Errors
/// The build fails, or valgrind does.
pub(crate) fn call_and_round_trip() -> Result<[f64; 2]> {
    let guarded = build()?;
    let instructions = |name: &str| -> Result<f64> {
        let mut workloads = WORKLOADS.iter();
        let workload = workloads.find(|workload| workload.name == name);
        let rows = rows(&guarded, workload.context(name)?)?;
        let instructions = rows.iter().filter(|row| row.is_instructions());
        Ok(instructions.map(|row| row.value).sum())
    };
    Ok([instructions(CALL)?, instructions(ROUND_TRIP)?])
}

/// The bytes that the receiver's library copies for each byte of a message of 64 KiB, by the name
/// of the call: calls of `memcpy` and `memmove`, whatever they move.
///
/// # Errors
/// The build fails, or valgrind does.
pub(crate) fn copies_of_placed() -> Result<Vec<(&'static str, f64)>> {
    let build = ["build", "--locked", "--release", "--bin", "guarded-placed"];
    exec::run(&mut exec::cargo(build))?;
    let guarded = exec::target_dir().join("release/guarded-placed");
    let count = |workload: &Workload| {
        let rows = rows(&guarded, workload)?;
        let bytes = rows.iter().find(|row| row.figure == COPIED_BY_RECEIVER);
        let bytes = bytes.context(format!("{}: no bytes copied", workload.name))?;
        Ok((workload.what, bytes.value / PLACED_BYTES))
    };
    PLACED.iter().map(count).collect()
}

/// The command that builds `guarded`.
pub(crate) fn building() -> Command {
    exec::cargo(["build", "--locked", "--release", "--bin", "guarded"])
}

/// The release build of `guarded`.
pub(crate) fn build() -> Result<PathBuf> {
    exec::run(&mut building())?;
    Ok(exec::target_dir().join("release/guarded"))
}

/// All figures. Workloads run beside one another: nothing that is counted depends on time.
fn measure(guarded: &Path) -> Result<Vec<Row>> {
    let figures = exec::side_by_side(WORKLOADS, |workload| rows(guarded, workload))?;
    Ok(figures.into_iter().flatten().collect())
}

/// The figures of one workload: the additional cost of twice as many rounds, per additional unit.
fn rows(guarded: &Path, workload: &Workload) -> Result<Vec<Row>> {
    let once = valgrind::count(guarded, workload, workload.rounds)?;
    let twice = valgrind::count(guarded, workload, 2 * workload.rounds)?;
    let units = (twice.units - once.units) as f64;
    let pairs = once.figures.into_iter().zip(twice.figures);
    let row = |((figure, once), (_, twice)): ((String, u64), (String, u64))| Row {
        workload: workload.name.to_owned(),
        figure,
        value: (twice as f64 - once as f64) / units,
    };
    Ok(pairs.map(row).collect())
}
