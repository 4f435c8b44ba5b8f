//! Planted faults: a simulator that cannot fail proves nothing, so ten known mistakes are built
//! in behind `--cfg suci_plant`, and each must be found.

use std::path::PathBuf;

use crate::error::{Context, Failure, Result};
use crate::exec;

/// The mistakes, by the name that `suci-sim --plant` takes.
pub const NAMES: [&str; 10] = [
    "dedup-off",
    "ack-off-by-one",
    "credit-not-moved-after-loss",
    "memory-credit-double",
    "window-never-reopened",
    "stale-incarnation",
    "overlap-overwrites",
    "retransmit-wrong-range",
    "pto-not-rearmed",
    "delivered-unacknowledged",
];

/// Seeds within which each must be found.
const SEEDS: &str = "0..1000";

/// Builds the simulator once with the mistakes inside and runs it once per mistake.
///
/// # Errors
/// The build fails, or a mistake is not found.
pub fn check() -> Result<()> {
    let simulator = build()?;
    let mut missed = Vec::new();
    for name in NAMES {
        let mut run = std::process::Command::new(&simulator);
        run.args(["--seeds", SEEDS, "--plant", name, "--expect-failure"]);
        match exec::capture(&mut run) {
            Ok(said) => println!("   {name}: {}", said.lines().last().unwrap_or("found")),
            Err(failure) => missed.push(format!("{name}: {failure}")),
        }
    }
    if missed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "not found within seeds {SEEDS}:\n{}",
        missed.join("\n")
    )))
}

/// One build for all ten, apart from the others because the flag changes every crate.
fn build() -> Result<PathBuf> {
    let dir = exec::target_dir().join("planted");
    let mut build = exec::cargo(["build", "--locked", "--release", "-p", "suci-sim"]);
    build
        .env("RUSTFLAGS", "--cfg suci_plant")
        .env("CARGO_TARGET_DIR", &dir);
    println!("   {} (with --cfg suci_plant)", exec::shown(&build));
    exec::run(&mut build).context("the simulator with planted faults")?;
    Ok(dir.join("release/suci-sim"))
}
