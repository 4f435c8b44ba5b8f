//! Planted faults: a simulator that cannot fail proves nothing, so known mistakes are built
//! in behind `--cfg suci_plant`, and each must be found. The same holds for the red team: an attack
//! must succeed once the defence against it is gone.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Context, Failure, Result};
use crate::exec;
use crate::promises::{self, Finder, Weakness};

/// Seeds within which each must be found.
const SEEDS: &str = "0..1000";

/// The profiles that find planted mistakes: `default` those of the engine,
/// `remote` those of one-sided operations, `sealed` those of sealed mode; `groups`, `sockets`,
/// `routes` and `members` those of their layers.
const PLANTED: [&str; 7] = [
    "default", "remote", "sealed", "groups", "sockets", "routes", "members",
];

/// The profiles whose seeds must pass: those, receives, busy hosts, and more peers than slots.
pub(crate) const PROFILES: [&str; 10] = [
    "default", "remote", "sealed", "groups", "sockets", "matching", "routes", "members", "busy",
    "visits",
];

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
    for profile in PLANTED {
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

/// An attack of the red team in one mode, and the fault that removes the defence.
struct Attack {
    name: String,
    mode: String,
    fault: String,
}

/// Builds the red team with the mistakes inside. Returns all attacks in each mode.
///
/// # Errors
/// The build fails.
fn attacks() -> Result<Vec<Attack>> {
    build()?;
    let listed = exec::capture(Command::new(red_team()).arg("--list"))?;
    // The last line counts them.
    let attack = |line: &str| {
        let mut words = line.split([' ', ':']).map(str::to_owned);
        let (name, mode, fault) = (words.next()?, words.next()?, words.next()?);
        let known = ["plain", "sealed"].contains(&mode.as_str());
        known.then_some(Attack { name, mode, fault })
    };
    Ok(listed.lines().filter_map(attack).collect())
}

fn red_team() -> PathBuf {
    dir().join("release/red-team")
}

/// Makes an attack against nodes whose defence is gone.
///
/// # Errors
/// It fails although nothing stops it.
fn beat(attack: &Attack) -> Result<()> {
    let Attack { name, mode, fault } = attack;
    let mut run = Command::new(red_team());
    run.args(["--attack", name, "--mode", mode, "--without-defence"]);
    exec::capture(&mut run).context(format!("{name}, {mode}, without {fault}"))?;
    println!("   {name}, {mode}: succeeds with {fault}");
    Ok(())
}

/// Makes each attack of the red team against nodes whose defence is gone. Returns how many there
/// are, all of which succeed.
///
/// # Errors
/// The build fails, or an attack fails although nothing stops it.
pub fn break_in() -> Result<usize> {
    match exec::at_once(ATTACKS_AT_ONCE, &attacks()?, beat)?.len() {
        0 => Err(Failure::new("the red team lists no attack")),
        made => Ok(made),
    }
}

/// Finds each weakness of others that docs/security.md names. Returns how many there are.
///
/// # Errors
/// The build fails, or one is not found.
pub(crate) fn find_weaknesses() -> Result<usize> {
    let (weaknesses, attacks) = (promises::weaknesses()?, attacks()?);
    for Weakness { fault, finder } in &weaknesses {
        match finder {
            Finder::Profile(profile) => {
                let said = find_in(&dir().join("release/suci-sim"), fault, profile)?;
                println!("   {fault}: {said}");
            }
            Finder::Attack(name) => {
                let of_fault = |attack: &&Attack| attack.name == *name && attack.fault == *fault;
                let made = attacks.iter().filter(of_fault).map(beat);
                if made.collect::<Result<Vec<()>>>()?.is_empty() {
                    let text = format!("no attack `{name}` beats `{fault}`");
                    return Err(Failure::new(text));
                }
            }
        }
    }
    Ok(weaknesses.len())
}

/// Builds the simulator with the mistakes inside and finds the one called `name` by `profile`.
/// Returns the simulator's summary.
///
/// # Errors
/// The build fails, or the mistake is not found.
pub(crate) fn find(name: &str, profile: &str) -> Result<String> {
    find_in(&build()?, name, profile)
}

/// Runs the seeds from 0 up to `count` of each profile, and `drawn` ones that are drawn anew. The
/// simulator has the mistakes inside and none of them active: a failure with one active is its
/// effect. Ordinary tests use this build too, so that a fresh clone makes one simulator. It prints
/// which seeds it draws, and how to replay one that fails.
///
/// # Errors
/// The build fails, or a seed does.
pub(crate) fn run_without(count: u64, drawn: u64) -> Result<()> {
    let simulator = build()?;
    let (fixed, drawn) = (format!("0..{count}"), drawn.to_string());
    for profile in PROFILES {
        for seeds in [["--seeds", &fixed], ["--random", &drawn]] {
            let mut run = Command::new(&simulator);
            exec::run(run.args(["--quiet", "--profile", profile]).args(seeds))?;
        }
    }
    Ok(())
}

/// Runs `count` seeds of each profile, drawn anew, in the ordinary release build. The simulator
/// prints which, and how to replay one that fails.
///
/// # Errors
/// The build fails, or a seed does.
pub fn run_drawn(count: u64) -> Result<()> {
    let count = count.to_string();
    for profile in PROFILES {
        let build = ["run", "--release", "--locked", "--bin", "suci-sim", "--"];
        let seeds = ["--quiet", "--random", &count, "--profile", profile];
        exec::run(exec::cargo(build).args(seeds))?;
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
    // To optimise the C of the cipher takes longer than the runs gain by it.
    build.args(["--config", "profile.release.package.aws-lc-sys.opt-level=0"]);
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
