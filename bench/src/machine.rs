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

/// Properties of the machine, without those that cannot be found out.
fn facts() -> Vec<(&'static str, String)> {
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let setting = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
        text.trim().to_owned()
    };
    let count = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let model = field(&processors, "model name").unwrap_or("unknown");
    let gib =
        field(&memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let facts = [
        ("Processors", format!("{count} x {model}")),
        ("Virtual", virtualisation(&processors).to_owned()),
        (
            "Memory",
            gib.map_or_else(String::new, |kib| format!("{} GiB", kib.div_ceil(1 << 20))),
        ),
        ("Kernel", format!("Linux {}", setting("kernel/osrelease"))),
        (
            "Socket buffers",
            format!(
                "rmem_max {} B, wmem_max {} B",
                setting("net/core/rmem_max"),
                setting("net/core/wmem_max")
            ),
        ),
        (
            "TCP buffers",
            format!(
                "tcp_rmem {}, tcp_wmem {}",
                setting("net/ipv4/tcp_rmem"),
                setting("net/ipv4/tcp_wmem")
            ),
        ),
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
    facts
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .collect()
}

/// `name : value` of /proc.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then_some(value.trim())
    })
}

fn virtualisation(processors: &str) -> &'static str {
    let flags = field(processors, "flags").unwrap_or_default();
    let is_guest = flags.split_whitespace().any(|flag| flag == "hypervisor");
    if is_guest {
        "yes: a guest of a hypervisor"
    } else {
        "no"
    }
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
    fn fields_of_proc_are_found_by_their_names() {
        let text = "processor\t: 0\nmodel name\t: Some CPU\nflags\t: fpu hypervisor\n";
        assert_eq!(field(text, "model name"), Some("Some CPU"));
        assert_eq!(field(text, "model"), None);
        assert!(virtualisation(text).starts_with("yes"));
        assert_eq!(virtualisation("flags : fpu\n"), "no");
    }

    #[test]
    fn versions_come_from_the_lockfile() {
        let lock = "[[package]]\nname = \"quinn-proto\"\nversion = \"9\"\n\n[[package]]\nname = \"quinn\"\nversion = \"0.11.12\"\n";
        assert_eq!(locked(lock, "quinn"), Some("0.11.12"));
        assert_eq!(locked(lock, "kcp"), None);
    }
}
