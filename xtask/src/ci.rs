//! Everything that a change must pass, in the order that fails soonest.
//!
//! Build configurations are few on purpose, since a fresh clone has fifteen minutes on two
//! cores: checks share one, tests one (debug), then release, planted faults and
//! fuzzing one small one each.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::{Failure, Result};
use crate::{bench, exec, faults, fuzz, guards, layers, planted};

/// Seeds that every change runs; `make sim` runs 10,000.
const SEEDS: &str = "0..300";

/// Time given to each fuzz target; `make fuzz` gives a minute.
const FUZZ_TIME: Duration = Duration::from_secs(10);

/// One step: a name to report and to select by, and what it does.
struct Step {
    name: &'static str,
    run: fn() -> Result<()>,
}

const STEPS: &[Step] = &[
    Step {
        name: "format",
        run: format,
    },
    Step {
        name: "layers",
        run: layers::check,
    },
    Step {
        name: "faults",
        run: || faults::check(false),
    },
    Step {
        name: "deny",
        run: || cargo(&["deny", "check", "licenses", "bans", "sources"]),
    },
    Step {
        name: "clippy",
        run: clippy,
    },
    Step {
        name: "wasm32",
        run: || check("suci-proto", "wasm32-unknown-unknown"),
    },
    Step {
        name: "windows",
        run: || check("suci-net", "x86_64-pc-windows-gnu"),
    },
    Step {
        name: "macos",
        run: || check("suci-net", "x86_64-apple-darwin"),
    },
    Step {
        name: "doc",
        run: doc,
    },
    Step {
        name: "tests",
        run: tests,
    },
    Step {
        name: "bench",
        run: bench_tests,
    },
    Step {
        name: "simulator",
        run: simulator,
    },
    Step {
        name: "guards",
        run: || guards::check(false),
    },
    Step {
        name: "planted",
        run: planted::check,
    },
    Step {
        name: "fuzz",
        run: || fuzz::check(FUZZ_TIME, None),
    },
];

/// Runs the steps whose names contain `only` (all of them without it) and stops at the first
/// that fails. The last line is `N passed, N failed`.
///
/// # Errors
/// A step failed, or none has such a name.
pub fn run(only: Option<&str>) -> Result<()> {
    let begun = Instant::now();
    let mut passed = 0u32;
    let mut failed = None;
    for step in STEPS
        .iter()
        .filter(|step| only.is_none_or(|part| step.name.contains(part)))
    {
        println!("== {}", step.name);
        let step_begun = Instant::now();
        let outcome = (step.run)();
        let seconds = step_begun.elapsed().as_secs_f64();
        if let Err(failure) = outcome {
            println!("{failure}");
            println!("== {} FAILED after {seconds:.1} s", step.name);
            failed = Some(step.name);
            break;
        }
        passed += 1;
        println!("== {} ok, {seconds:.1} s", step.name);
    }
    println!("total {:.1} s", begun.elapsed().as_secs_f64());
    println!("{passed} passed, {} failed", u32::from(failed.is_some()));
    match failed {
        None if passed == 0 => Err(Failure::new("no step has such a name")),
        None => Ok(()),
        Some(name) => Err(Failure::new(format!("step `{name}` failed"))),
    }
}

fn cargo(args: &[&str]) -> Result<()> {
    command(&mut exec::cargo(args))
}

fn command(command: &mut Command) -> Result<()> {
    println!("   {}", exec::shown(command));
    exec::run(command)
}

fn format() -> Result<()> {
    cargo(&["fmt", "--all", "--", "--check"])?;
    for apart in ["fuzz/Cargo.toml", "bench/Cargo.toml"] {
        cargo(&["fmt", "--all", "--manifest-path", apart, "--", "--check"])?;
    }
    Ok(())
}

fn clippy() -> Result<()> {
    cargo(&[
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])
}

fn check(package: &str, target: &str) -> Result<()> {
    cargo(&["check", "--locked", "-p", package, "--target", target])
}

fn doc() -> Result<()> {
    let mut doc = exec::cargo(["doc", "--locked", "--workspace", "--no-deps"]);
    command(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Everything in one call, real processes and namespaces that tests make included, so that every crate is built once: other
/// selections of packages have other features. A test that cannot run here fails.
fn tests() -> Result<()> {
    cargo(&["test", "--locked", "--workspace"])
}

/// How the bench plans, counts and reports. Its contenders, which are other people's libraries, are not built.
fn bench_tests() -> Result<()> {
    let mut test = exec::cargo(["test", "--locked", "-p", "suci-bench"]);
    command(
        test.args(bench::MANIFEST)
            .arg("--target-dir")
            .arg(bench::dir()),
    )
}

fn simulator() -> Result<()> {
    cargo(&[
        "run",
        "--locked",
        "--release",
        "-p",
        "suci-sim",
        "--",
        "--seeds",
        SEEDS,
    ])
}
