//! Planted faults: a simulator that cannot fail proves nothing, so known mistakes are built
//! in behind `--cfg suci_plant`, and each must be found. The same holds for the red team: an attack
//! must succeed once the defence against it is gone.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Context, Failure, Result};
use crate::exec;

/// Seeds within which each must be found.
const SEEDS: &str = "0..1000";

/// The profiles of the simulator that find mistakes: `default` those of the engine, `remote` those
/// of one-sided operations, `sealed` those of sealed mode; `groups`, `sockets` and `routes` those
/// of their layers.
const PROFILES: [&str; 6] = ["default", "remote", "sealed", "groups", "sockets", "routes"];

/// Attacks made at once: the programs mostly wait for the other end's timers.
const ATTACKS_AT_ONCE: usize = 8;

/// Builds the simulator once with the mistakes inside and runs it once per mistake. Returns how
/// many there are, all of them found.
///
/// # Errors
/// The build fails, or a mistake is not found.
pub fn find_all() -> Result<usize> {
    let simulator = build()?;
    let (mut found, mut missed) = (0, Vec::new());
    for profile in PROFILES {
        let mut list = Command::new(&simulator);
        let listed = exec::capture(list.args(["--list-plants", "--profile", profile]))?;
        if listed.is_empty() {
            return Err(Failure::new("the simulator knows no fault to plant"));
        }
        for name in listed.lines() {
            match find_in(&simulator, name, profile) {
                Ok(said) => println!("   {name}: {said}"),
                Err(failure) => missed.push(format!("{name}: {failure}")),
            }
            found += 1;
        }
    }
    if missed.is_empty() {
        return Ok(found);
    }
    Err(Failure::new(format!(
        "not found within seeds {SEEDS}:\n{}",
        missed.join("\n")
    )))
}

/// Makes each attack of the red team against nodes whose defence is gone. Returns how many there
/// are, all of which succeed.
///
/// # Errors
/// The build fails, or an attack fails although nothing stops it.
pub fn break_in() -> Result<usize> {
    build()?;
    let program = dir().join("release/red-team");
    let listed = exec::capture(Command::new(&program).arg("--list"))?;
    // The last line counts them.
    let attack = |line: &str| {
        let words: Vec<String> = line.split([' ', ':']).map(str::to_owned).collect();
        let known = |mode: &String| ["plain", "sealed"].contains(&mode.as_str());
        words.get(1).is_some_and(known).then_some(words)
    };
    let attacks: Vec<Vec<String>> = listed.lines().filter_map(attack).collect();
    let made = exec::at_once(ATTACKS_AT_ONCE, &attacks, |attack| {
        let [name, mode, plant, ..] = attack.as_slice() else {
            return Err(Failure::new(format!("{attack:?} is no attack")));
        };
        let mut run = Command::new(&program);
        run.args(["--attack", name, "--mode", mode, "--without-defence"]);
        exec::capture(&mut run).context(format!("{name}, {mode}, without {plant}"))?;
        println!("   {name}, {mode}: succeeds with {plant}");
        Ok(())
    })?;
    match made.len() {
        0 => Err(Failure::new("the red team lists no attack")),
        made => Ok(made),
    }
}

/// Builds the simulator with the mistakes inside and finds the one called `name`. Returns the
/// simulator's summary.
///
/// # Errors
/// The build fails, or the mistake is not found.
pub(crate) fn find(name: &str) -> Result<String> {
    find_in(&build()?, name, "default")
}

/// Runs `seeds` of the simulator that has the mistakes inside, with none of them active: a failure
/// with one active is its effect. Ordinary tests use this build too, so that a fresh clone makes
/// one simulator.
///
/// # Errors
/// The build fails, or a seed does.
pub(crate) fn run_without(seeds: &str) -> Result<()> {
    let simulator = build()?;
    for profile in PROFILES {
        let mut run = Command::new(&simulator);
        exec::run(run.args(["--quiet", "--seeds", seeds, "--profile", profile]))?;
    }
    Ok(())
}

fn find_in(simulator: &Path, name: &str, profile: &str) -> Result<String> {
    let mut run = Command::new(simulator);
    run.args(["--quiet", "--seeds", SEEDS, "--profile", profile]);
    run.args(["--plant", name, "--expect-failure"]);
    let said = exec::capture(&mut run)?;
    Ok(said.lines().last().unwrap_or("found").to_owned())
}

/// [`find_all`] and [`break_in`], for callers that do not need the numbers.
///
/// # Errors
/// As for these.
pub fn check() -> Result<()> {
    find_all()?;
    break_in().map(drop)
}

/// Apart from other builds, because the flag changes every crate.
pub(crate) fn dir() -> PathBuf {
    exec::target_dir().join("planted")
}

/// The command that builds it, for all mistakes.
pub(crate) fn building() -> Command {
    let mut build = exec::cargo(["build", "--locked", "--release"]);
    build.args(["-p", "suci-sim", "-p", "red-team"]);
    build.envs(SETTINGS).env("CARGO_TARGET_DIR", dir());
    build
}

/// The environment of builds with planted faults: it matters that they are found, not how fast.
pub(crate) const SETTINGS: [(&str, &str); 4] = [
    ("RUSTFLAGS", "--cfg suci_plant"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
];

fn build() -> Result<PathBuf> {
    let mut build = building();
    println!("   {} (with --cfg suci_plant)", exec::shown(&build));
    exec::run(&mut build).context("the simulator with planted faults")?;
    Ok(dir().join("release/suci-sim"))
}
