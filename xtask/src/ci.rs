//! Everything that a change must pass, in the order that fails soonest.
//!
//! Build configurations are few on purpose, since a fresh clone has twenty minutes on two
//! cores: checks share one, tests one (debug), then the simulator with planted faults, the guards'
//! release build and fuzzing one small one each. The builds for steps after the
//! tests begin at once, on cores that are idle (the tests sleep half of their time), and go on
//! beside the steps before their own.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::{Failure, Result};
use crate::exec::{self, Process};
use crate::{faults, fuzz, guards, layers, planted, prolog, prose, suite};

/// Seeds of each profile that every change runs, from 0. `make sim` runs 10,000.
const SEEDS: u64 = 300;

/// Seeds of each profile that are drawn anew each time, which takes a few seconds. `make sim` draws
/// more.
const DRAWN: u64 = 10;

/// Time given to each fuzz target; `make fuzz` gives a minute.
const FUZZ_TIME: Duration = Duration::from_secs(10);

/// One step: its name, to report and to select by, and its work.
struct Step {
    name: &'static str,
    run: fn() -> Result<()>,
}

/// The step that leaves cores idle: processes that sleep, and tests for which the next one waits.
const TESTS: &str = "tests";

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
        name: "prose",
        run: prose::check,
    },
    Step {
        name: "faults",
        run: || faults::check(false),
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
        name: TESTS,
        run: suite::check,
    },
    Step {
        name: "prolog",
        run: prolog::check,
    },
    Step {
        name: "simulator",
        run: || planted::run_without(SEEDS, DRAWN),
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
    Step {
        name: "deny",
        run: deny,
    },
];

/// Runs the steps whose names contain `only` (all of them without it) and stops at the first
/// that fails. The last line is `N passed, N failed`.
///
/// # Errors
/// A step failed, or none has such a name.
pub fn run(only: Option<&str>) -> Result<()> {
    let begun = Instant::now();
    let mut ahead = only.is_none().then(|| Ahead::begin(exec::when_idle));
    let mut passed = 0u32;
    let mut failed = None;
    for step in STEPS
        .iter()
        .filter(|step| only.is_none_or(|part| step.name.contains(part)))
    {
        println!("== {}", step.name);
        let step_begun = Instant::now();
        let outcome = (step.run)();
        if step.name == TESTS {
            // The steps from here on are not sensitive to load. They would wait for builds that
            // wait for all others.
            drop(ahead.take());
            ahead = only.is_none().then(|| Ahead::begin(exec::in_group));
        }
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

/// Builds the parts that steps after the tests need, until it is dropped. While the tests run, it
/// uses only cores that no other process wants (`SCHED_IDLE`), so that the tests are not disturbed.
struct Ahead {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    fn begin(class: fn(&mut Command) -> &mut Command) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let thread = Some(thread::spawn(move || build_ahead(class, &told)));
        Self { over, thread }
    }
}

impl Drop for Ahead {
    /// A build that is not ready by now is done by the next builder, or in its step.
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread only panics if something is wrong that the step finds, too.
            let _ = thread.join();
        }
    }
}

/// Builds one part after the other, each in a directory that the steps up to the tests leave alone.
/// A build that fails is repeated in its step, which says why.
fn build_ahead(class: fn(&mut Command) -> &mut Command, over: &AtomicBool) {
    let builds = [
        // Killed halfway, this alone would begin anew.
        getting_deny(),
        planted::building(),
        guards::building(),
        fuzz::building(),
    ];
    for mut build in builds {
        build.stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut build) = Process::spawn(class(&mut build)) else {
            return;
        };
        while matches!(build.child().try_wait(), Ok(None)) {
            if over.load(Ordering::Relaxed) {
                build.kill_group();
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
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
    for apart in [
        "fuzz/Cargo.toml",
        "bench/contenders/Cargo.toml",
        "bindings/python/Cargo.toml",
    ] {
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

/// Makes the pinned tool by the Makefile.
fn getting_deny() -> Command {
    let mut make = Command::new("make");
    make.arg("setup-deny").current_dir(exec::root());
    make
}

fn deny() -> Result<()> {
    command(&mut getting_deny())?;
    cargo(&["deny", "check", "licenses", "bans", "sources"])
}
