//! Fuzz targets, built for libFuzzer by the pinned stable compiler: the coverage pass needs no
//! nightly, only its flags, so no further tool has to be installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::error::{Context, Failure, Result};
use crate::exec;

/// The flags that `cargo fuzz` passes too: the edge counters, tables and comparisons that libFuzzer
/// reads, and overflow checks, since an overflow on a peer's numbers is a finding.
const FLAGS: &str = "--cfg fuzzing -D warnings -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// Naming the target keeps the flags away from build scripts and macros.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds all targets and runs each, or the one named `only`, for `time`, one on each core.
///
/// # Errors
/// A build fails, there is no such target, or a target finds something.
pub fn check(time: Duration, only: Option<&str>) -> Result<()> {
    let root = exec::root();
    let names = targets(&root)?;
    let chosen: Vec<&String> = names
        .iter()
        .filter(|n| only.is_none_or(|o| o == *n))
        .collect();
    if chosen.is_empty() {
        return Err(Failure::new(format!(
            "no such fuzz target; there are {}",
            names.join(", ")
        )));
    }
    let binaries = build()?;
    exec::side_by_side(&chosen, |name| run(&root, &binaries.join(name), name, time))?;
    Ok(())
}

/// Returns how many targets there are.
///
/// # Errors
/// Cargo does not tell.
pub(crate) fn count() -> Result<u32> {
    u32::try_from(targets(&exec::root())?.len()).context("the number of fuzz targets")
}

fn targets(root: &Path) -> Result<Vec<String>> {
    let manifest = root.join("fuzz/Cargo.toml");
    let mut metadata = exec::cargo(["metadata", "--format-version", "1", "--no-deps"]);
    let text = exec::capture(metadata.arg("--manifest-path").arg(manifest))?;
    let metadata: Value = serde_json::from_str(&text)?;
    let targets = metadata["packages"][0]["targets"]
        .as_array()
        .context("fuzz has no targets")?;
    let is_bin = |target: &&Value| target["kind"][0] == "bin";
    Ok(targets
        .iter()
        .filter(is_bin)
        .filter_map(|t| Some(t["name"].as_str()?.into()))
        .collect())
}

fn dir() -> PathBuf {
    exec::target_dir().join("fuzz")
}

/// The command that builds all targets.
pub(crate) fn building() -> Command {
    let manifest = ["--manifest-path", "fuzz/Cargo.toml"];
    let mut build = exec::cargo([
        "build",
        "--locked",
        "--release",
        "--bins",
        "--target",
        TARGET,
    ]);
    build
        .args(manifest)
        .env("RUSTFLAGS", FLAGS)
        .env("CARGO_TARGET_DIR", dir());
    build
}

fn build() -> Result<PathBuf> {
    let mut build = building();
    println!("   {} (with coverage)", exec::shown(&build));
    exec::run(&mut build)?;
    Ok(dir().join(TARGET).join("release"))
}

fn run(root: &Path, binary: &Path, name: &str, time: Duration) -> Result<()> {
    let corpus = root.join("fuzz/corpus").join(name);
    let artifacts = root.join("fuzz/artifacts").join(name);
    std::fs::create_dir_all(&corpus)?;
    std::fs::create_dir_all(&artifacts)?;
    let mut fuzzer = Command::new(binary);
    fuzzer.arg(format!("-max_total_time={}", time.as_secs()));
    fuzzer.arg(format!("-artifact_prefix={}/", artifacts.display()));
    fuzzer.args([
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-verbosity=0",
    ]);
    fuzzer.arg(&corpus);
    // Inputs in the repository; the finds of a run stay in the ignored corpus.
    let seeds = root.join("fuzz/seeds").join(name);
    if seeds.is_dir() {
        fuzzer.arg(seeds);
    }
    println!("   {name}: {} s", time.as_secs());
    exec::run(&mut fuzzer).context(format!(
        "fuzz target {name}, input kept in {}",
        artifacts.display()
    ))
}
