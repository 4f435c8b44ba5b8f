//! The promises of each capability: one line per promise, each measured anew and printed with its
//! figures and its bound.

mod classic;
mod control;
mod cores;
mod engine_shape;
mod faults;
mod flow;
mod foundation;
mod host_time;
mod house;
mod layers;
mod networks;
mod preload;
mod python;
mod security;
mod silent_cut;
mod sockets;
mod speed;
mod tableau;
mod tools;
mod users;

pub(crate) use tools::median;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::error::{Context, Failure, Result};
use crate::exec;

/// One promise, and how it is measured.
struct Line {
    /// A name to select by.
    name: &'static str,
    /// The promise, for the reader of the output.
    must: &'static str,
    /// Measures it. An error is a failed line too: something that cannot run does not hold.
    run: fn(&Ctx) -> Result<Figure>,
}

/// A measured figure, and whether it suffices.
struct Figure {
    holds: bool,
    text: String,
}

impl Figure {
    fn new(holds: bool, text: impl Into<String>) -> Self {
        Self {
            holds,
            text: text.into(),
        }
    }
}

/// The parts that the lines share: release binaries, built at first use, and a scratch directory.
struct Ctx {
    suci: OnceCell<PathBuf>,
    simulator: OnceCell<PathBuf>,
    scratch: tempfile::TempDir,
}

impl Ctx {
    fn new() -> Result<Self> {
        // On the disk of the build, not in /tmp: some lines move gigabytes, and /tmp may be memory.
        let dir = exec::target_dir();
        std::fs::create_dir_all(&dir)?;
        let scratch = tempfile::Builder::new().prefix("show-").tempdir_in(dir)?;
        Ok(Self {
            suci: OnceCell::new(),
            simulator: OnceCell::new(),
            scratch,
        })
    }

    /// The release build of `suci`.
    fn suci(&self) -> Result<&Path> {
        built(&self.suci, "suci-cli", "suci")
    }

    /// The release build of `suci-sim`.
    fn simulator(&self) -> Result<&Path> {
        built(&self.simulator, "suci-sim", "suci-sim")
    }

    /// A path in the scratch directory, which goes away at the end.
    fn scratch(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

fn built<'a>(cell: &'a OnceCell<PathBuf>, package: &str, binary: &str) -> Result<&'a Path> {
    if cell.get().is_none() {
        exec::run(&mut exec::cargo([
            "build",
            "--locked",
            "--release",
            "-p",
            package,
        ]))?;
        // A second set is impossible: the lines run one after the other.
        let _ = cell.set(exec::target_dir().join("release").join(binary));
    }
    cell.get()
        .map(PathBuf::as_path)
        .context("unreachable: just set")
}

/// The capabilities, in the order in which they were added.
const CAPABILITIES: &[(&str, &[&[Line]])] = &[
    ("foundation", &[foundation::LINES]),
    ("flow", &[flow::LINES]),
    ("speed", speed::SUBJECTS),
    ("tableau", &[tableau::LINES]),
    ("users", &[users::LINES]),
    ("networks", &[networks::LINES]),
    ("house", &[house::LINES]),
    ("engine-shape", &[engine_shape::LINES]),
    ("classic", &[classic::LINES]),
    ("layers", &[layers::LINES]),
    ("security", &[security::LINES]),
    ("sockets", &[sockets::LINES, preload::LINES]),
    ("faults", faults::SUBJECTS),
    ("host-time", &[host_time::LINES]),
    ("python", &[python::LINES]),
];

/// Runs the lines of `capability` whose names contain `only`, or just prints them when `list`. With
/// `json` each result is a line of JSON.
///
/// # Errors
/// There is no such capability or line, or a line does not hold.
pub fn run(capability: &str, only: Option<&str>, list: bool, json: bool) -> Result<()> {
    let Some((_, lines)) = CAPABILITIES.iter().find(|(name, _)| *name == capability) else {
        let names: Vec<&str> = CAPABILITIES.iter().map(|(name, _)| *name).collect();
        return Err(Failure::new(format!(
            "no `{capability}`; there is {}",
            names.join(", ")
        )));
    };
    let chosen: Vec<&Line> = lines
        .iter()
        .copied()
        .flatten()
        .filter(|line| only.is_none_or(|part| line.name.contains(part)))
        .collect();
    if chosen.is_empty() {
        return Err(Failure::new("no line has such a name"));
    }
    if list {
        for line in chosen {
            println!("{}: {}", line.name, line.must);
        }
        return Ok(());
    }
    let ctx = Ctx::new()?;
    let mut failed = 0u32;
    let mut passed = 0u32;
    for line in chosen {
        let figure = (line.run)(&ctx).unwrap_or_else(|why| Figure::new(false, why.to_string()));
        if json {
            let (name, must, text) = (line.name, line.must, &figure.text);
            let holds = figure.holds;
            let said = json!({ "name": name, "holds": holds, "figure": text, "must": must });
            println!("{said}");
        } else {
            let verdict = if figure.holds { "ok" } else { "FAIL" };
            println!("{verdict} {}: {} ({})", line.name, figure.text, line.must);
        }
        if figure.holds {
            passed += 1;
        } else {
            failed += 1;
        }
    }
    if !json {
        println!("{passed} passed, {failed} failed");
    }
    if failed == 0 {
        Ok(())
    } else {
        Err(Failure::new("not everything holds"))
    }
}
