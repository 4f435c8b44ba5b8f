//! Mutation tests of the parts whose mistakes lose messages quietly.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::error::{Context, Failure, Result};
use crate::layers::PROTOCOL;
use crate::{exec, source};

/// Recovery, credit and reassembly, by path. Reassembly is everything between a fragment and a
/// message: one message's bytes (`assembly`), a channel's order (`incoming`, `slot`), all channels
/// (`inbox`), and the set of ranges below them.
const FILES: &[&str] = &[
    "crates/suci-link/src/recovery/**",
    "crates/suci-proto/src/credit/**",
    "crates/suci-channels/src/message/assembly.rs",
    "crates/suci-channels/src/message/incoming.rs",
    "crates/suci-channels/src/message/incoming/**",
    "crates/suci-channels/src/message/inbox.rs",
    "crates/suci-channels/src/message/inbox/**",
    "crates/suci-channels/src/message/packed_queue.rs",
    "crates/suci-channels/src/message/slot.rs",
    "crates/suci-link/src/ranges.rs",
];

/// Seconds that the tests of a mutant may take: many times the time they need, so that a mutant
/// counts as hanging only if it hangs, even where other work slows the machine down.
const PATIENCE: &str = "20";

/// The tests that judge a mutant: unit tests, random ones with fewer cases, at first without those
/// of [`SLOW`]. Those then judge the mutants that the others missed. Tests beyond the crate may
/// still find the rest: the score is a lower bound.
const JUDGES: &[&str] = &["--cargo-arg=--lib", "--", "--"];
const CASES: &str = "12";

/// Tests that take seconds each where nothing is optimised: they simulate long transfers, thousands
/// of peers, or every packet twice.
const SLOW: &[&str] = &[
    "congestion::",
    "engine::tests::hostile::",
    "engine::tests::large::",
    "engine::tests::need::",
    "engine::tests::peer_slots::",
    "engine::tests::provoked::",
    "engine::tests::runs::",
    "engine::tests::strangers::",
    "engine::tests::trains::",
    "message::tests::footprint::",
];

/// Share of viable mutants, in percent, that tests must catch.
pub const BOUND: f64 = 85.0;

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    /// Mutants that a test caught, those that hung included.
    pub caught: u64,
    /// Mutants that hung; `caught` includes them.
    pub hung: u64,
    /// Mutants that every test passed.
    pub missed: u64,
}

impl Score {
    /// Percent of viable mutants that were caught; 0 when there were none.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "mutants number thousands at most"
    )]
    pub fn percent(self) -> f64 {
        let viable = self.caught.saturating_add(self.missed);
        if viable == 0 {
            0.0
        } else {
            100.0 * self.caught as f64 / viable as f64
        }
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            caught,
            hung,
            missed,
        } = self;
        let percent = self.percent();
        write!(
            f,
            "{caught} caught ({hung} of them hung), {missed} missed: {percent:.1} %"
        )
    }
}

/// Runs cargo-mutants (two and a half hours on two idle cores), of one `shard` of the mutants if
/// given, and reads its verdicts.
///
/// # Errors
/// cargo-mutants is missing, refuses the shard, or cannot run the tests of the unchanged tree.
pub fn measure(shard: Option<&str>) -> Result<Score> {
    let out = exec::target_dir().join("mutants");
    let mut first = mutants()?;
    if let Some(shard) = shard {
        // The parts take mutants in turn, so that each part has some of every file.
        first.args(["--shard", shard, "--sharding", "round-robin"]);
    }
    first.args(JUDGES);
    for tests in SLOW {
        first.args(["--skip", tests]);
    }
    // Building a mutant costs more than judging it, unless nothing is optimised: 1.6 s and 2 s
    // instead of 6 s and 0.4 s.
    first.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    let (score, missed) = verdicts(first, &out)?;
    println!("at first {score}");
    if missed.is_empty() {
        return Ok(score);
    }
    let mut second = mutants()?;
    second.args(["--re", &one_of(&missed)]).args(JUDGES);
    let (rest, _) = verdicts(second, &out.join("second"))?;
    Ok(Score {
        caught: score.caught.saturating_add(rest.caught),
        hung: score.hung.saturating_add(rest.hung),
        missed: rest.missed,
    })
}

/// The command of cargo-mutants, without the tests that judge.
fn mutants() -> Result<Command> {
    let mut mutants = exec::cargo(["mutants", "--jobs", "2"]);
    for name in PROTOCOL {
        mutants.args(["--package", name, "--test-package", name]);
    }
    mutants.args(["--minimum-test-timeout", PATIENCE]);
    for file in FILES {
        mutants.args(["--file", file]);
    }
    for pattern in planted(&exec::root())? {
        mutants.args(["--exclude-re", &pattern]);
    }
    mutants.env("PROPTEST_CASES", CASES);
    // Tests only need to fail.
    mutants.env("PROPTEST_MAX_SHRINK_ITERS", "0");
    mutants.env("CARGO_PROFILE_DEV_DEBUG", "0");
    // In one directory each build would wait for the other's.
    mutants.env_remove("CARGO_TARGET_DIR");
    Ok(mutants)
}

/// Runs it and reads its results in `out`, with the names of missed mutants.
fn verdicts(mut mutants: Command, out: &Path) -> Result<(Score, Vec<String>)> {
    std::fs::create_dir_all(out)?;
    mutants.env("CARGO_MUTANTS_OUTPUT", out);
    let status = mutants.status().context(exec::shown(&mutants))?;
    // 2: some were missed, 3: some hung; both are counted below.
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        return Err(Failure::new(format!(
            "`{}` ended with {status}",
            exec::shown(&mutants)
        )));
    }
    let read = |name: &str| {
        let path = out.join("mutants.out").join(name);
        std::fs::read_to_string(&path).context(path.display())
    };
    let missed = read("missed.txt")?.lines().map(str::to_owned).collect();
    Ok((
        score(&serde_json::from_str(&read("outcomes.json")?)?)?,
        missed,
    ))
}

/// A pattern of exactly these names.
fn one_of(names: &[String]) -> String {
    let mut pattern = String::new();
    for name in names {
        pattern.push_str(if pattern.is_empty() { "^(" } else { "|" });
        for letter in name.chars() {
            if "\\.+*?()|[]{}^$".contains(letter) {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
    }
    pattern + ")$"
}

/// For each file with planted faults the pattern of mutants on their lines. These are not run, so
/// no test could catch one.
fn planted(root: &Path) -> Result<Vec<String>> {
    let mut patterns = Vec::new();
    for path in protocol_files(root)? {
        let text = std::fs::read_to_string(&path).context(path.display())?;
        let lines = planted_lines(&source::blanked(&text));
        if lines.is_empty() {
            continue;
        }
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
        let name = name.replace('.', "\\.");
        patterns.push(format!("^{name}:({}):", lines.join("|")));
    }
    Ok(patterns)
}

fn protocol_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for name in PROTOCOL {
        files.extend(source::rust_files(
            &root.join("crates").join(name).join("src"),
        )?);
    }
    Ok(files)
}

/// The lines, from 1, of statements and items under `#[cfg(suci_plant)]`, and of statements that
/// first ask if a fault is planted.
fn planted_lines(blanked: &str) -> Vec<usize> {
    let asks = |line: &str| line.contains("if planted(") || line.contains("match planted(");
    let mut found = Vec::new();
    let mut lines = (1..).zip(blanked.lines()).peekable();
    while let Some((_, line)) = lines.peek().copied() {
        if !asks(line) {
            lines.next();
            if line.trim() != "#[cfg(suci_plant)]" {
                continue;
            }
        }
        let mut depth = 0_usize;
        for (number, line) in lines.by_ref() {
            found.push(number);
            depth += line.matches(['(', '[', '{']).count();
            depth = depth.saturating_sub(line.matches([')', ']', '}']).count());
            if depth == 0 && line.trim_end().ends_with([';', '}']) {
                break;
            }
        }
    }
    found
}

fn score(verdicts: &Value) -> Result<Score> {
    let count = |name: &str| {
        verdicts[name]
            .as_u64()
            .context(format!("outcomes.json: no {name}"))
    };
    let hung = count("timeout")?;
    Ok(Score {
        caught: count("caught")?.saturating_add(hung),
        hung,
        missed: count("missed")?,
    })
}

/// [`measure`], judged by [`BOUND`].
///
/// # Errors
/// As [`measure`], or too few mutants were caught.
pub fn check(shard: Option<&str>) -> Result<()> {
    let score = measure(shard)?;
    let text = score.to_string();
    println!("{text}");
    if score.percent() >= BOUND {
        return Ok(());
    }
    Err(Failure::new(format!("{text}, at least {BOUND} % required")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_planted_faults_are_left_out() {
        let text = "fn f() -> u8 {\n    #[cfg(suci_plant)]\n    if a(1) && b {\n        return 0;\n    }\n    c\n}\n\
                    #[cfg(not(suci_plant))]\nfn g() {}\n\
                    #[cfg(suci_plant)]\nfn g() {\n    h(\n        1,\n    );\n}\nfn k() {\n    \
                    if planted(\"     \") && l(\n        2,\n    ) {\n        m();\n    }\n    n();\n}\n";
        assert_eq!(
            planted_lines(text),
            [3, 4, 5, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21]
        );
    }

    #[test]
    fn missed_ones_are_asked_for_by_name() {
        let names = [
            "a.rs:1:2: replace || with && in A<'_>::b",
            "c.rs:3:4: delete !",
        ];
        let names = names.map(str::to_owned);
        assert_eq!(
            one_of(&names),
            "^(a\\.rs:1:2: replace \\|\\| with && in A<'_>::b|c\\.rs:3:4: delete !)$"
        );
    }

    #[test]
    fn every_file_named_is_there() -> Result<()> {
        let root = exec::root();
        for name in FILES {
            let path = root.join(name.trim_end_matches("/**"));
            assert!(path.exists(), "{name}");
        }
        assert!(!planted(&root)?.is_empty());
        Ok(())
    }
}
