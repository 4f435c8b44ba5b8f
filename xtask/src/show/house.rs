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
        must: "a small message and its answer pass at most 80 functions in 30 files of the protocol",
        run: |_| way(),
    },
    Line {
        name: "documents",
        must: "README at most 12 KB, ARCHITECTURE 32 KB, CONTRIBUTING 8 KB, about 25 decisions",
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

/// Functions of the protocol that run for each round trip of 64 B between two engines, as far as
/// the compiler leaves them functions, and the files that define them.
fn way() -> Result<Figure> {
    let guarded = guards::build()?;
    let [once, twice] = [100, 200].map(|rounds| self_costs(&guarded, rounds));
    let (once, twice) = (once?, twice?);
    let runs = |(function, cost): &(&(String, String), &u64)| {
        **cost > once.get(*function).copied().unwrap_or(0)
    };
    let passed: Vec<_> = twice
        .iter()
        .filter(runs)
        .map(|(function, _)| function)
        .collect();
    let files: BTreeSet<&String> = passed.iter().map(|(file, _)| file).collect();
    let functions: BTreeSet<&(String, String)> = passed.iter().copied().collect();
    let text = format!("{} functions in {} files", functions.len(), files.len());
    Ok(Figure::new(
        functions.len() <= 80 && files.len() <= 30,
        text,
    ))
}

/// The instructions of each function of the protocol, by its file and name, in so many round trips.
fn self_costs(guarded: &Path, rounds: u32) -> Result<BTreeMap<(String, String), u64>> {
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("out");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--compress-strings=no"]);
    command.arg(format!("--callgrind-out-file={}", out.display()));
    command
        .arg(guarded)
        .args(["engine-round-trip", &rounds.to_string()]);
    exec::capture(&mut command)?;
    let profile = std::fs::read_to_string(&out).context(out.display())?;
    let costs = costs_of(&profile);
    match costs.is_empty() {
        true => Err(Failure::new("callgrind saw nothing of the protocol")),
        false => Ok(costs),
    }
}

/// Reads what callgrind wrote: `fl=` and `fn=` name a file and a function, and lines of two numbers
/// that follow are a line of it and its cost; the line behind `calls=` is the cost of a callee.
fn costs_of(profile: &str) -> BTreeMap<(String, String), u64> {
    let mut costs = BTreeMap::new();
    let (mut file, mut function) = ("", String::new());
    let mut lines = profile.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("fl=") {
            file = name;
        } else if let Some(name) = line.strip_prefix("fn=") {
            let end = name.find("::{{closure}}").unwrap_or(name.len());
            function = name[..end].to_owned();
        } else if line.starts_with("calls=") {
            lines.next();
        } else if let Some((_, path)) = file.split_once("crates/")
            && PROTOCOL
                .iter()
                .any(|name| path.starts_with(&format!("{name}/src/")))
            && let Some(cost) = cost_in(line)
        {
            *costs
                .entry((path.to_owned(), function.clone()))
                .or_default() += cost;
        }
    }
    costs
}

fn cost_in(line: &str) -> Option<u64> {
    let (at, cost) = line.split_once(' ')?;
    let is_line = at.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first));
    cost.parse().ok().filter(|_| is_line)
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
    fn the_costs_of_callees_count_for_them_alone() {
        let profile = "fl=/x/crates/suci-proto/src/a.rs\nfn=a::f\n12 5\n+3 2\ncalls=1 0\n* 100\n\
                       fn=a::f::{{closure}}\n7 1\nfl=/x/core.rs\nfn=g\n1 9\n";
        let costs = costs_of(profile);
        let key = ("suci-proto/src/a.rs".to_owned(), "a::f".to_owned());
        assert_eq!(costs.into_iter().collect::<Vec<_>>(), [(key, 8)]);
    }
}
