//! The side-by-side bench: builds it, and runs it for people and for the lines that judge its rows.
//! It is a workspace of its own (`bench/`), because what Suci is compared with is nobody else's concern.

use std::path::PathBuf;
use std::process::Command;

use crate::error::Result;
use crate::exec;

/// The manifest of the bench's workspace.
pub(crate) const MANIFEST: [&str; 2] = ["--manifest-path", "bench/Cargo.toml"];

/// Builds `suci`, the bench and the contenders, and runs the bench with `args`.
///
/// # Errors
/// A build fails, or the bench does.
pub fn run(args: &[String]) -> Result<()> {
    exec::run(Command::new(build()?).args(args))
}

/// The bench's binary, built now; the contenders lie beside it.
fn build() -> Result<PathBuf> {
    exec::run(&mut exec::cargo([
        "build",
        "--locked",
        "--release",
        "-p",
        "suci-cli",
    ]))?;
    let dir = dir();
    let mut build = exec::cargo(["build", "--locked", "--release", "--workspace"]);
    exec::run(build.args(MANIFEST).arg("--target-dir").arg(&dir))?;
    Ok(dir.join("release/suci-bench"))
}

/// Where the bench is built.
pub(crate) fn dir() -> PathBuf {
    exec::target_dir().join("bench")
}
