//! Three looks at the same program: callgrind counts instructions and shows system calls, DHAT
//! counts allocations and, asked otherwise, copies. Counts by place are given for each of the two
//! nodes, whose work happens inside functions of their own.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Workload;
use crate::error::{Context, Failure, Result};
use crate::exec;

/// The functions in which the two nodes work, and their names on the page.
const PLACES: [(&str, &str); 2] = [
    ("guarded::first", "sender"),
    ("guarded::second", "receiver"),
];

/// The counts of one run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// How often the unit of work was done.
    pub(super) units: u64,
    /// By name, in the order of the page.
    pub(super) figures: Vec<(String, u64)>,
}

/// Runs `workload` of `guarded` for this many rounds under each tool.
///
/// # Errors
/// The run fails, or a tool's output cannot be parsed.
pub(super) fn count(guarded: &Path, workload: &Workload, rounds: u32) -> Result<Tally> {
    let dir = tempfile::tempdir()?;
    let run = |tool: &[&str], out: &str| {
        let mut command = Command::new("valgrind");
        // The environment has only the places of programs: its length would move the stack.
        command.env_clear().env("PATH", "/usr/bin:/bin");
        command
            .args(tool)
            .arg(format!("--log-file={}", dir.path().join("log").display()));
        command.arg(format!("{out}={}", dir.path().join("out").display()));
        command
            .arg(guarded)
            .args([workload.name, &rounds.to_string()]);
        let said = exec::capture(&mut command)?;
        let read = |name| std::fs::read_to_string(dir.path().join(name));
        Ok::<_, Failure>((said, read("out")?, read("log")?))
    };
    let (said, profile, log) = run(
        &["--tool=callgrind", "--trace-syscalls=yes"],
        "--callgrind-out-file",
    )?;
    let number = |name| number(&said, name);
    let mut tally = Tally {
        units: number("units")?,
        figures: Vec::new(),
    };
    let figures = &mut tally.figures;
    for (place, who) in PLACES {
        figures.push((format!("instructions, {who}"), inclusive(&profile, place)?));
    }
    figures.push(("packets".to_owned(), number("packets")?));
    figures.push(("bytes in packets".to_owned(), number("bytes")?));
    if workload.has_host {
        figures.extend(system_calls(&log));
        figures.push((
            "readings of the clock".to_owned(),
            number("clock-readings")?,
        ));
    }
    let deep = "--num-callers=200";
    let (_, heap, _) = run(&["--tool=dhat", deep], "--dhat-out-file")?;
    let (_, copies, _) = run(&["--tool=dhat", "--mode=copy", deep], "--dhat-out-file")?;
    let (heap, copies) = (Points::parse(&heap)?, Points::parse(&copies)?);
    for (what, points, field) in [
        ("allocations", &heap, "tbk"),
        ("copies", &copies, "tbk"),
        ("bytes copied", &copies, "tb"),
    ] {
        for (place, who) in PLACES {
            figures.push((format!("{what}, {who}"), points.sum(place, field)));
        }
    }
    Ok(tally)
}

/// Reads a number from the program's output: lines of a name and a number.
fn number(said: &str, name: &str) -> Result<u64> {
    let mut lines = said.lines().filter_map(|line| line.split_once(' '));
    let found = lines.find(|(key, _)| *key == name);
    let (_, value) = found.context(format!("`guarded` told no {name}"))?;
    value.parse().context(name)
}

/// Instructions of everything that functions called `name` did, themselves included, by a file of
/// callgrind's: after each line `calls=` comes a line whose last number is the cost of these calls.
fn inclusive(profile: &str, name: &str) -> Result<u64> {
    let mut known = std::collections::HashMap::new();
    let mut total = 0;
    let mut callee = "";
    let mut lines = profile.lines();
    while let Some(line) = lines.next() {
        if let Some(named) = line
            .strip_prefix("fn=")
            .or_else(|| line.strip_prefix("cfn="))
        {
            // A name is written out once, as "(7) name", and is "(7)" from then on.
            let (number, name) = named.split_once(' ').unwrap_or((named, ""));
            if !name.is_empty() {
                known.insert(number, name);
            }
            callee = known.get(number).copied().unwrap_or_default();
        } else if line.starts_with("calls=") {
            let cost = lines.next().and_then(|cost| cost.rsplit(' ').next());
            if callee.contains(name) {
                let cost = cost.context("callgrind: a call without its cost")?;
                total += cost.parse::<u64>().context("callgrind")?;
            }
        }
    }
    if total == 0 {
        return Err(Failure::new(format!("callgrind saw no call of {name}")));
    }
    Ok(total)
}

/// System calls by kind, of the log that `--trace-syscalls=yes` makes.
fn system_calls(log: &str) -> [(String, u64); 3] {
    let begun = |line: &&str| line.starts_with("SYSCALL[") && line.contains(") sys_");
    let (mut sends, mut receives, mut others) = (0, 0, 0);
    for line in log.lines().filter(begun) {
        if line.contains(") sys_sendmsg ") || line.contains(") sys_sendto ") {
            sends += 1;
        } else if line.contains(") sys_recvmsg ") {
            receives += 1;
        } else {
            others += 1;
        }
    }
    [
        ("system calls that send".to_owned(), sends),
        ("system calls that receive".to_owned(), receives),
        ("other system calls".to_owned(), others),
    ]
}

/// DHAT's account: the activity of each place of the program, with the calls that led there.
struct Points(Value);

impl Points {
    fn parse(text: &str) -> Result<Self> {
        let json: Value = serde_json::from_str(text).context("DHAT's file")?;
        let complete = json["pps"].is_array() && json["ftbl"].is_array();
        complete
            .then_some(Self(json))
            .context("DHAT's file has no points")
    }

    /// The sum of `field` over the points inside functions called `name`.
    fn sum(&self, name: &str, field: &str) -> u64 {
        let frames = self.0["ftbl"].as_array().into_iter().flatten();
        let inside: Vec<bool> = frames
            .map(|frame| frame.as_str().is_some_and(|frame| frame.contains(name)))
            .collect();
        let is_inside = |frame: &Value| {
            let at = frame.as_u64().and_then(|at| usize::try_from(at).ok());
            at.and_then(|at| inside.get(at)).copied().unwrap_or(false)
        };
        let points = self.0["pps"].as_array().into_iter().flatten();
        points
            .filter(|point| point["fs"].as_array().into_iter().flatten().any(is_inside))
            .filter_map(|point| point[field].as_u64())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_calls_cost_is_the_sum_over_all_callers() {
        let profile = "fn=(1) main\n0 5\ncfn=(2) guarded::first\ncalls=2 7\n12 300\n\
                       cfn=(3) other\ncalls=1 7\n13 1000\n\nfn=(4) guarded::engine\n\
                       cfn=(2)\ncalls=1 7\n+3 40\n";
        assert_eq!(inclusive(profile, "guarded::first").ok(), Some(340));
        assert!(inclusive(profile, "guarded::second").is_err());
    }

    #[test]
    fn a_system_call_is_counted_where_it_begins() {
        let log = "==7== callgrind\n\
                   SYSCALL[7,1](46) sys_sendmsg ( 3, 0x1, 64 ) --> [async] ... \n\
                   SYSCALL[7,1](46) ... [async] --> Success(0x5c) \n\
                   SYSCALL[7,1](44) sys_sendto ( 3, 0x1, 9, 64, 0x2, 16 ) --> [async] ... \n\
                   SYSCALL[7,1](12) sys_brk ( 0x0 ) --> [pre-success] Success(0x4) \n";
        let counts = system_calls(log).map(|(_, count)| count);
        assert_eq!(counts, [2, 0, 1]);
    }

    #[test]
    fn a_point_belongs_to_whoever_called() {
        let file = r#"{"ftbl":["[root]","0x1: malloc","0x2: guarded::second (main.rs:5)"],
                       "pps":[{"tb":64,"tbk":2,"fs":[1,2]},{"tb":9,"tbk":1,"fs":[1]}]}"#;
        let points = Points::parse(file).map(|points| points.sum("guarded::second", "tb"));
        assert_eq!(points.ok(), Some(64));
    }
}
