//! The size of the code and of its documents, the way of a message through the protocol, and the
//! exchange that most parallel programs do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Ctx, Figure, Line};
use crate::error::{Context, Failure, Result};
use crate::layers::PROTOCOL;
use crate::{bench, exec, guards, prose, source};

pub(super) const LINES: &[Line] = &[
    Line {
        name: "code-suci",
        must: "suci has at most 8,300 lines of code outside tests",
        run: |_| {
            let lines = code("crates/suci/src")?;
            Ok(Figure::new(lines <= 8_300, format!("{lines} lines")))
        },
    },
    Line {
        name: "way",
        must: WAY,
        run: |_| way(),
    },
    Line {
        name: "documents",
        must: "README at most 8 KB, ARCHITECTURE 32 KB, CONTRIBUTING 8 KB, about 25 decisions",
        run: |_| documents(),
    },
    Line {
        name: "guards",
        must: "the figures of docs/costs.md hold",
        run: |_| guards::check(false).map(|()| Figure::new(true, "as docs/costs.md has them")),
    },
    Line {
        name: "halo",
        must: "4 processes: at most TCP's time and 1.1 of its processor time at edges of 1, 8 and 32 KiB",
        run: halo,
    },
];

/// The wanted length of a message's way.
pub(super) const WAY: &str = "64 B from send to the socket pass at most 70 functions in 28 files, from there to recv 40 in 22";

/// Messages in a profile.
const ROUNDS: u64 = 100;

/// Returns the lines of code of the protocol's crates together, and a text with each.
pub(super) fn size_of_protocol() -> Result<(usize, String)> {
    let mut said = Vec::new();
    let mut all = 0;
    for name in PROTOCOL {
        let lines = code(&format!("crates/{name}/src"))?;
        all += lines;
        said.push(format!("{name} {lines} lines"));
    }
    said.push(format!("together {all}"));
    Ok((all, said.join(", ")))
}

/// Lines of code: neither blank nor comments, without tests and planted faults.
pub(super) fn code(dir: &str) -> Result<usize> {
    let root = exec::root().join(dir);
    let files = source::rust_files(&root)?;
    let texts: Result<Vec<(PathBuf, String)>> = files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).context(path.display())?;
            Ok((path, source::blanked(&text)))
        })
        .collect();
    let texts = texts?;
    let tests: BTreeSet<PathBuf> = (texts.iter())
        .flat_map(|(path, text)| {
            let dir = folder_of(path);
            (source::test_modules(text).into_iter()).map(move |name| dir.join(name))
        })
        .collect();
    let is_test = |path: &Path| {
        let module = path.with_extension("");
        let mut ancestors = module.ancestors();
        ancestors.any(|part| tests.contains(part)) || module.ends_with("plant")
    };
    Ok((texts.iter())
        .filter(|(path, _)| !is_test(path))
        .map(|(_, text)| {
            let code = text.lines().take(source::lines_before_tests(text));
            code.filter(|line| !line.trim().is_empty()).count()
        })
        .sum())
}

/// The directory in which the modules of the file `path` lie.
fn folder_of(path: &Path) -> PathBuf {
    let root = ["lib.rs", "main.rs", "mod.rs"];
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if root.contains(&name) => path.with_file_name(""),
        _ => path.with_extension(""),
    }
}

fn documents() -> Result<Figure> {
    let mut said = Vec::new();
    let mut holds = true;
    for (name, most) in prose::DOCUMENTS {
        let bytes = prose::size(name)?;
        holds &= bytes <= most << 10;
        said.push(format!("{name} {bytes} B"));
    }
    let pages = std::fs::read_dir(exec::root().join("docs/decisions"))?;
    let count = pages.count().saturating_sub(1);
    said.push(format!("{count} decisions"));
    Ok(Figure::new(holds && count <= 30, said.join(", ")))
}

/// Functions of the library, as far as the compiler leaves them functions, that run for each
/// message of 64 B between two nodes, and the files that define them. On the way out what the
/// sender does with input does not count, on the way in what the receiver sends.
pub(super) fn way() -> Result<Figure> {
    let guarded = guards::build()?;
    let mut said = Vec::new();
    let mut holds = true;
    for (side, name, apart, most_functions, most_files) in [
        (
            "guarded::first",
            "to the socket",
            "suci/src/driver/input.rs",
            70,
            28,
        ),
        (
            "guarded::second",
            "from the socket",
            "suci/src/driver/output.rs",
            40,
            22,
        ),
    ] {
        let [once, twice] = [ROUNDS, 2 * ROUNDS].map(|rounds| calls(&guarded, rounds));
        let (once, twice) = (once?, twice?);
        let each_time = |call: &(Function, Function)| {
            let before = once.get(call).copied().unwrap_or(0);
            twice
                .get(call)
                .is_some_and(|calls| *calls >= before + ROUNDS)
        };
        let passed = reached(twice.keys().filter(|call| each_time(call)), side, apart);
        let files: BTreeSet<&str> = passed.iter().map(|(file, _)| file.as_str()).collect();
        holds &= passed.len() <= most_functions && files.len() <= most_files;
        said.push(format!(
            "{name} {} functions in {} files",
            passed.len(),
            files.len()
        ));
    }
    Ok(Figure::new(holds, said.join(", ")))
}

/// A function, by its file and name.
type Function = (String, String);

/// Returns the functions of the library that `calls` reach from the function named `root`, without
/// those of the file `apart` and what only they call.
fn reached<'a>(
    calls: impl Iterator<Item = &'a (Function, Function)>,
    root: &str,
    apart: &str,
) -> BTreeSet<&'a Function> {
    let mut callees: BTreeMap<&str, Vec<&Function>> = BTreeMap::new();
    for (caller, callee) in calls {
        callees.entry(&caller.1).or_default().push(callee);
    }
    let mut seen = BTreeSet::new();
    let mut open = vec![root];
    while let Some(name) = open.pop() {
        for callee in callees.get(name).into_iter().flatten() {
            if !callee.0.ends_with(apart) && seen.insert(*callee) {
                open.push(&callee.1);
            }
        }
    }
    let of_library = |(file, _): &&Function| {
        let crates = PROTOCOL.iter().chain(&["suci", "suci-net"]);
        crates
            .into_iter()
            .any(|name| file.contains(&format!("crates/{name}/src/")))
    };
    seen.into_iter().filter(of_library).collect()
}

/// How often each function called each other one while so many messages went one way.
fn calls(guarded: &Path, rounds: u64) -> Result<BTreeMap<(Function, Function), u64>> {
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("out");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--compress-strings=no"]);
    command.arg(format!("--callgrind-out-file={}", out.display()));
    command
        .arg(guarded)
        .args(["node-one-way", &rounds.to_string()]);
    exec::capture(&mut command)?;
    let profile = std::fs::read_to_string(&out).context(out.display())?;
    let calls = calls_in(&profile);
    match calls.is_empty() {
        true => Err(Failure::new("callgrind saw no calls")),
        false => Ok(calls),
    }
}

/// Reads what callgrind wrote: `fl=` and `fn=` name a file and a function; `cfi=` (unless it is
/// that of the present line, which `fi=` and `fe=` change) and `cfn=` those of a callee, and
/// `calls=` how often it was called.
fn calls_in(profile: &str) -> BTreeMap<(Function, Function), u64> {
    let mut calls = BTreeMap::new();
    let (mut caller, mut callee) = (Function::default(), Function::default());
    // The file of the present line: another one than the function's in code that was inlined.
    let mut file = "";
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("fl=") {
            file = name;
            file.clone_into(&mut caller.0);
        } else if let Some(name) = line.strip_prefix("fi=").or(line.strip_prefix("fe=")) {
            file = name;
        } else if let Some(name) = line.strip_prefix("fn=") {
            name.clone_into(&mut caller.1);
        } else if let Some(name) = line.strip_prefix("cfi=").or(line.strip_prefix("cfl=")) {
            name.clone_into(&mut callee.0);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            name.clone_into(&mut callee.1);
        } else if let Some(counts) = line.strip_prefix("calls=") {
            let count = counts
                .split(' ')
                .next()
                .and_then(|count| count.parse::<u64>().ok());
            if callee.0.is_empty() {
                file.clone_into(&mut callee.0);
            }
            let call = (caller.clone(), std::mem::take(&mut callee));
            *calls.entry(call).or_default() += count.unwrap_or(0);
        }
    }
    calls
}

fn halo(_: &Ctx) -> Result<Figure> {
    let rows = bench::halo(&["--processes", "4"])?;
    let mut said = Vec::new();
    let mut holds = true;
    for row in rows.iter().filter(|row| row["contender"] == "suci") {
        let number = |name: &str| row[name].as_f64().context(format!("the bench's {name}"));
        let (edge, time, cpu) = (number("edge")?, number("of_tcp")?, number("of_tcp_cpu")?);
        holds &= time <= 1.0 && cpu <= 1.1;
        said.push(format!(
            "{edge} B: {time:.2} of TCP's time, {cpu:.2} of its processor time"
        ));
    }
    holds &= !said.is_empty();
    Ok(Figure::new(holds, said.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_ends_where_another_begins() {
        let profile = "fl=/x/main.rs\nfn=guarded::first\n0 5\n\
                       cfi=/x/crates/suci/src/node.rs\ncfn=send\ncalls=2 1\n* 100\n\
                       fl=/x/crates/suci/src/node.rs\nfn=send\n1 9\n\
                       cfn=enter\ncalls=2 7\n* 3\n\
                       cfi=/x/crates/suci/src/driver/input.rs\ncfn=take\ncalls=2 7\n* 50\n\
                       fl=/x/crates/suci/src/driver/input.rs\nfn=take\n1 1\n\
                       cfi=/x/crates/suci-link/src/ack.rs\ncfn=on_ack\ncalls=2 7\n* 30\n";
        let calls = calls_in(profile);
        let passed = reached(calls.keys(), "guarded::first", "suci/src/driver/input.rs");
        let names: Vec<&str> = passed.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["enter", "send"]);
        assert!(calls.values().all(|count| *count == 2));
    }
}
