//! Tests under sanitizers, and under Miri: they find what the unsafe parts would do wrong. Each
//! needs something that a fresh clone does not have, and says so where it cannot run.

use std::path::PathBuf;
use std::process::Command;

use clap::ValueEnum;

use crate::error::{Failure, Result};
use crate::exec;

/// Naming the target keeps the flags away from build scripts and macros.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Tests of real sockets and threads, by package and further arguments.
const INTEGRATION: [&[&str]; 4] = [
    &["-p", "suci-net"],
    &["-p", "suci", "--test", "it"],
    &["-p", "suci-sockets"],
    &["-p", "red-team"],
];

/// Unit tests of the library's unsafe code that calls no system, by their names: Miri can run them.
/// Loom explores the same ring, and the lock (`tests/loom_ring.rs`).
const UNSAFE_PARTS: [&str; 5] = [
    "shared_bytes::",
    "a_ring_gives_each_value_once",
    "ownership_lock::",
    "driver::takes::",
    "lent::",
];

/// A tool that watches the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tool {
    /// AddressSanitizer: use of memory out of bounds or after it was freed
    Address,
    /// ThreadSanitizer: accesses of threads without order between them
    Thread,
    /// Miri: undefined behaviour of the unsafe parts that call no system
    Miri,
}

/// Runs the tests that suit `tool`. Takes minutes.
///
/// # Errors
/// The tool cannot run here (what is missing), or a test fails under it.
pub fn run(tool: Tool) -> Result<()> {
    match tool {
        Tool::Address => sanitize("address", &[]),
        // The standard library has to be instrumented, too: else its locks are not seen.
        Tool::Thread => {
            if !sources()?.is_dir() {
                return Err(Failure::new(
                    "ThreadSanitizer cannot run: the sources of the standard library are missing; \
                     `rustup component add rust-src` installs them",
                ));
            }
            sanitize("thread", &["-Zbuild-std"])
        }
        Tool::Miri => miri(),
    }
}

/// The sources of the pinned toolchain's standard library, if they are installed.
fn sources() -> Result<PathBuf> {
    let root = exec::capture(Command::new("rustc").args(["--print", "sysroot"]))?;
    Ok(PathBuf::from(root.trim()).join("lib/rustlib/src/rust/library"))
}

fn sanitize(name: &str, build: &[&str]) -> Result<()> {
    for tests in INTEGRATION {
        let mut test = exec::cargo(["test", "-q", "--locked", "--target", TARGET]);
        test.args(build).args(tests);
        // The pinned compiler has the pass; only its flag is not stable.
        test.env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", format!("-Zsanitizer={name}"))
            .env("CARGO_TARGET_DIR", exec::target_dir().join(name))
            // Threads of a forked child, and of nodes that tests leave behind, are no leaks.
            .env("ASAN_OPTIONS", "detect_leaks=0");
        exec::run(&mut test)?;
    }
    Ok(())
}

fn miri() -> Result<()> {
    let mut version = Command::new("cargo");
    version.args(["+nightly", "miri", "--version"]);
    if exec::capture(&mut version).is_err() {
        return Err(Failure::new(
            "Miri cannot run: `rustup toolchain install nightly --component miri,rust-src` \
             installs it",
        ));
    }
    for part in UNSAFE_PARTS {
        let mut test = Command::new("cargo");
        test.args(["+nightly", "miri", "test", "-q", "--locked"]);
        test.args(["-p", "suci", "--lib", part]);
        test.env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .env("CARGO_TARGET_DIR", exec::target_dir().join("miri"));
        exec::run(&mut test)?;
    }
    Ok(())
}
