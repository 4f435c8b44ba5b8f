//! The side-by-side bench: builds it, and runs it for people and for the lines that judge its rows.
//! Its contenders are a workspace of their own: only the bench needs their libraries.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::error::{Context, Failure, Result};
use crate::exec;

/// The manifest of the contenders' workspace.
const MANIFEST: [&str; 2] = ["--manifest-path", "bench/contenders/Cargo.toml"];

/// Builds `suci`, the bench and the contenders, and runs the bench with `args`.
///
/// # Errors
/// A build fails, or the bench does.
pub fn run(args: &[String]) -> Result<()> {
    exec::run(Command::new(build()?).args(args))
}

/// The bench's rows with further `args`, measured now or earlier of this tree.
///
/// # Errors
/// A build or a measurement fails.
pub(crate) fn rows(args: &[&str]) -> Result<Vec<Row>> {
    let mut bench = Command::new(build()?);
    // Its progress goes to the terminal.
    bench.args(["run", "--json"]).args(args);
    let output = bench
        .stderr(Stdio::inherit())
        .output()
        .context("the bench")?;
    if !output.status.success() {
        return Err(Failure::new(format!(
            "the bench ended with {}",
            output.status
        )));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines().map(Row::parse).collect()
}

/// The rows of its halo exchange with further `args`, measured now.
///
/// # Errors
/// A build or a measurement fails.
pub(crate) fn halo(args: &[&str]) -> Result<Vec<Value>> {
    let mut bench = Command::new(build()?);
    bench.args(["halo", "--json"]).args(args);
    let said = exec::capture(&mut bench)?;
    let row = |line: &str| serde_json::from_str(line).context(format!("{line:?}"));
    said.lines().map(row).collect()
}

/// The rows of one-sided and collective operations with further `args`, measured now.
///
/// # Errors
/// A build or a measurement fails.
pub(crate) fn layers(args: &[&str]) -> Result<Vec<Value>> {
    // None of the other contenders is needed.
    let mut bench = Command::new(build_own(&["suci-bench", "layers-rank"])?);
    bench.args(["layers", "--json"]).args(args);
    let said = exec::capture(&mut bench)?;
    let row = |line: &str| serde_json::from_str(line).context(format!("{line:?}"));
    said.lines().map(row).collect()
}

/// The rows of the C library beside the Rust library, measured now.
///
/// # Errors
/// A build or a measurement fails.
pub(crate) fn languages() -> Result<Vec<Value>> {
    // None of the other contenders is needed.
    let mut bench = Command::new(build_own(&["suci-bench", "c-over-rust"])?);
    bench.args(["languages", "--json"]);
    let said = exec::capture(&mut bench)?;
    let row = |line: &str| serde_json::from_str(line).context(format!("{line:?}"));
    said.lines().map(row).collect()
}

/// The predictions of the model of cores, with costs that were recorded.
///
/// # Errors
/// A build or the model fails.
pub(crate) fn cores() -> Result<Value> {
    let mut bench = Command::new(build_own(&["suci-bench"])?);
    bench.args(["cores", "--recorded", "--json"]);
    let said = exec::capture(&mut bench)?;
    serde_json::from_str(&said).context(format!("{said:?}"))
}

/// Builds programs of this workspace. Returns the bench's binary.
fn build_own(bins: &[&str]) -> Result<PathBuf> {
    let bins = bins.iter().flat_map(|bin| ["--bin", *bin]);
    exec::run(exec::cargo(["build", "--locked", "--release"]).args(bins))?;
    Ok(exec::target_dir().join("release/suci-bench"))
}

/// Builds the bench and all the programs that it starts. Returns the bench's binary.
fn build() -> Result<PathBuf> {
    let bench = build_own(&[
        "suci",
        "suci-bench",
        "halo-rank",
        "layers-rank",
        "c-over-rust",
    ])?;
    let mut contenders = exec::cargo(["build", "--locked", "--release"]);
    contenders.args(MANIFEST).arg("--target-dir").arg(dir());
    exec::run(&mut contenders)?;
    Ok(bench)
}

fn dir() -> PathBuf {
    exec::target_dir().join("bench")
}

/// Returns the directory in which the contenders are built.
#[must_use]
pub fn contenders() -> PathBuf {
    dir().join("release")
}

/// The row of one contender in one task.
#[derive(Debug)]
pub(crate) struct Row(Value);

impl Row {
    /// Reads a row from a line of the bench's output.
    ///
    /// # Errors
    /// The line is not JSON.
    pub(crate) fn parse(line: &str) -> Result<Self> {
        Ok(Self(serde_json::from_str(line).context(line)?))
    }

    /// A figure of it.
    ///
    /// # Errors
    /// The row has no figure of that name.
    pub(crate) fn figure(&self, name: &str) -> Result<f64> {
        self.0[name]
            .as_f64()
            .context(format!("no {name} in {}", self.0))
    }

    /// The results of each round, by its number: `values`, or those called `name`.
    pub(crate) fn rounds(&self, name: &str) -> BTreeMap<&str, f64> {
        let values = self.0[name].as_object().into_iter().flatten();
        values
            .filter_map(|(round, value)| Some((round.as_str(), value.as_f64()?)))
            .collect()
    }

    /// Describes the figures: the number of rounds, their tree, and how many of them are older than
    /// this run.
    pub(crate) fn origin(&self) -> String {
        let commit = self.0["commit"].as_str().unwrap_or("?");
        let (rounds, earlier) = (self.rounds("values").len(), &self.0["earlier"]);
        match earlier.as_u64() {
            None | Some(0) => format!("{rounds} rounds of {commit}"),
            Some(_) => format!("{rounds} rounds of {commit}, {earlier} measured before"),
        }
    }

    /// A contender's name, and how it waits.
    pub(crate) fn who(&self) -> String {
        let text = |name: &str| self.0[name].as_str().unwrap_or("?").to_owned();
        format!("{} {}", text("contender"), text("wait"))
    }
}

/// Returns the row of `who`, a contender's name and how it waits.
///
/// # Errors
/// There is none: it is not installed, or it failed in each round.
pub(crate) fn of<'a>(rows: &'a [Row], who: &str) -> Result<&'a Row> {
    let finished = |row: &&Row| row.who() == who && !row.rounds("values").is_empty();
    let found = rows.iter().find(finished);
    found.context(format!("{who} did not finish"))
}
