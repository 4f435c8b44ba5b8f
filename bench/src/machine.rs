//! The machine, and the software installed on it.

use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::contenders::{CONTENDERS, Program};

/// Crates of contenders whose versions matter.
const CRATES: [&str; 3] = ["quinn", "kcp", "libaeron-sys"];

/// Facts in the order in which they are told: figures of machines that differ in one are not mixed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine(pub(crate) Vec<(String, String)>);

impl Machine {
    /// The one that we are on, as it is now.
    pub(crate) fn this() -> Self {
        let named = |(name, text): (&str, String)| (name.to_owned(), text);
        Self(facts().into_iter().map(named).collect())
    }
}

/// Properties of the machine and its software, without those that cannot be found out.
fn facts() -> Vec<(&'static str, String)> {
    let software = [
        (
            "Compilers",
            format!(
                "{}; gcc {}",
                said("rustc", &["--version"]),
                said("gcc", &["-dumpfullversion"])
            ),
        ),
        ("Libraries", libraries()),
    ];
    let known = software.into_iter().filter(|(_, text)| !text.is_empty());
    xtask::machine::facts().into_iter().chain(known).collect()
}

/// Versions of the contenders' libraries.
fn libraries() -> String {
    let mut packages: Vec<&str> = Vec::new();
    for contender in CONTENDERS {
        if let Program::C(library) | Program::Mpi(library) = contender.program {
            packages.extend(library.packages.split(' '));
        }
    }
    packages.sort_unstable();
    packages.dedup();
    let mut query = vec!["-W", "-f=${Package} ${Version}\\n"];
    query.extend(packages);
    let debian = said("dpkg-query", &query);
    let crates = CRATES.into_iter().filter_map(|name| {
        Some(format!(
            "{name} {}",
            locked(include_str!("../contenders/Cargo.lock"), name)?
        ))
    });
    debian
        .lines()
        .map(str::to_owned)
        .chain(crates)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The version of a crate in a lockfile.
fn locked<'a>(lockfile: &'a str, name: &str) -> Option<&'a str> {
    let after = lockfile
        .split(&format!("name = \"{name}\"\nversion = \""))
        .nth(1)?;
    after.split('"').next()
}

/// Returns the output of a program, nothing if it is not there.
fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lockfile() {
        let lock = "[[package]]\nname = \"quinn-proto\"\nversion = \"9\"\n\n[[package]]\nname = \"quinn\"\nversion = \"0.11.12\"\n";
        assert_eq!(locked(lock, "quinn"), Some("0.11.12"));
        assert_eq!(locked(lock, "kcp"), None);
    }
}
