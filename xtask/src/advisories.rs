//! Known weaknesses of dependencies: `cargo deny check advisories` with a database that is at hand.
//! No step of `make test`, which uses no network beyond cargo, rustup and apt, and whose result
//! changes with the tree alone.

use std::path::Path;
use std::process::Command;

use crate::error::{Context, Failure, Result};
use crate::exec;

/// The workspaces, each with a lock file of its own.
const WORKSPACES: [&str; 3] = [
    "Cargo.toml",
    "fuzz/Cargo.toml",
    "bench/contenders/Cargo.toml",
];

/// The directory in which cargo-deny looks for that database: the end is a hash of its address.
const DATABASE: &str = "advisory-db-3157b0e258782691";

/// Checks the lock files against `database`, a clone of github.com/RustSec/advisory-db. Uses no
/// network beyond cargo's. Prints how old the database is.
///
/// # Errors
/// There is no database, a dependency has a known weakness, or `git` or `cargo-deny` is missing.
pub fn check(database: Option<&Path>) -> Result<()> {
    let Some(database) = database else {
        return Err(Failure::new(
            "advisories cannot be checked without their database: clone \
             https://github.com/RustSec/advisory-db, and name the clone: \
             `make advisories ADVISORY_DB=CLONE`",
        ));
    };
    let dir = exec::target_dir().join("advisories");
    let copy = dir.join(DATABASE);
    if copy.exists() {
        std::fs::remove_dir_all(&copy)?;
    }
    std::fs::create_dir_all(&dir)?;
    let mut clone = Command::new("git");
    exec::run(clone.args(["clone", "-q"]).arg(database).arg(&copy))?;
    let mut newest = Command::new("git");
    newest
        .args(["log", "-1", "--format=%cs"])
        .current_dir(&copy);
    println!(
        "   the database is of {}",
        exec::capture(&mut newest)?.trim()
    );
    let rules = std::fs::read_to_string(exec::root().join("deny.toml"))?;
    let config = format!("{rules}\n[advisories]\ndb-path = {dir:?}\n");
    let path = dir.join("deny.toml");
    std::fs::write(&path, config)?;
    for workspace in WORKSPACES {
        // The check is offline, and reads the packages of all systems.
        exec::run(&mut exec::cargo([
            "fetch",
            "-q",
            "--locked",
            "--manifest-path",
            workspace,
        ]))?;
        let mut deny = exec::cargo([
            "deny",
            "--offline",
            "--manifest-path",
            workspace,
            "--config",
        ]);
        deny.arg(&path).args(["check", "advisories"]);
        println!("   {}", exec::shown(&deny));
        exec::run(&mut deny).context(workspace)?;
    }
    Ok(())
}
