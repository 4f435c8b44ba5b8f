//! The public unit tests of Sandia OpenSHMEM (github.com/openshmem-org/tests-sos) against libsma.
//!
//! The tests are not in this tree. Each program is compiled by `oshcc` and run by `oshrun` with 2
//! and with 4 processes, within a time. Those that do not apply are named with the reason.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::error::{Context, Failure, Result};
use crate::exec::{self, Process};

/// Each run ends within this time. The longest, `spam`, takes a few seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// How many processes take part.
const PROCESSES: [u32; 2] = [2, 4];

/// Folders of programs, below the tests' own.
const FOLDERS: &[&str] = &["unit", "spec-example", "apps", "shmemx", "performance"];

/// Parts of paths, and why such programs do not apply.
const NOT_APPLICABLE: &[(&str, &str)] = &[
    (".f90", "Fortran, deprecated since OpenSHMEM 1.4"),
    ("hybrid_mpi", "needs an MPI library in the same program"),
    ("unit/mt_lock.c", "a part of mt_lock_test"),
    ("shmemx/cxx_", "generic calls in C++, which only Sandia has"),
    ("shmemx/", "extensions of Sandia's (shmemx_)"),
    ("performance/", "measures and checks nothing"),
];

/// Programs with fewer rounds than usual: these move tens of gigabytes, or take minutes.
const ARGUMENTS: &[(&str, &[&str])] = &[
    ("unit/bigget.c", &["-l", "10"]),
    ("unit/bigput.c", &["-l", "10"]),
    ("unit/spam.c", &["-l", "500"]),
];

/// Programs that are compiled a second time: the new name, the source, the flag.
const VARIANTS: &[(&str, &str, &str)] = &[
    (
        "rma_coverage_pshmem",
        "unit/rma_coverage.c",
        "-DTEST_PSHMEM",
    ),
    (
        "query_thread_funneled",
        "unit/query_thread.c",
        "-DENABLE_THREADS",
    ),
];

/// The tests to run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// The folder of the tests.
    pub tests: &'a Path,
    /// Only programs whose paths contain this.
    pub only: Option<&'a str>,
    /// Faults of the network, as `suci run --faults` takes them.
    pub faults: Option<&'a str>,
    /// One JSON object for each program instead of the table.
    pub json: bool,
}

struct Program {
    name: String,
    source: PathBuf,
    flags: Vec<String>,
}

/// The result of a program.
enum Verdict {
    Passed,
    Failed(String),
    NotApplicable(&'static str),
}

impl Verdict {
    fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "failed",
            Self::NotApplicable(_) => "not applicable",
        }
    }

    fn reason(&self) -> &str {
        match self {
            Self::Passed => "",
            Self::Failed(reason) => reason,
            Self::NotApplicable(reason) => reason,
        }
    }
}

/// Runs the tests and prints the result of each.
///
/// # Errors
/// The folder has no tests, the library cannot be built, or a test failed.
pub fn shmem(choice: Choice) -> Result<()> {
    let [passed, failed, not] = count(choice)?;
    if !choice.json {
        println!("{passed} passed, {failed} failed, {not} not applicable");
    }
    match (passed, failed) {
        (0, _) => Err(Failure::new("no test was run")),
        (_, 0) => Ok(()),
        _ => Err(Failure::new(format!("{failed} tests failed"))),
    }
}

/// Runs the tests and prints the result of each. Returns how many passed, failed, do not apply.
pub(crate) fn count(choice: Choice) -> Result<[usize; 3]> {
    let tests = choice.tests.join("test");
    let tests = tests.canonicalize().context(format!(
        "{}: name a clone of github.com/openshmem-org/tests-sos",
        tests.display()
    ))?;
    let prefix = install()?;
    let mut counts = [0; 3];
    for program in programs(&tests, choice.only)? {
        let verdict = judge(&program, &tests, &prefix, choice.faults)?;
        print(&program.name, &verdict, choice.json);
        let at = match verdict {
            Verdict::Passed => 0,
            Verdict::Failed(_) => 1,
            Verdict::NotApplicable(_) => 2,
        };
        counts[at] += 1;
    }
    Ok(counts)
}

/// Builds the library and the commands, with checks of overflows, and installs them below the
/// target folder.
pub(crate) fn install() -> Result<PathBuf> {
    let packages = ["-p", "suci-shmem", "-p", "suci-cli"];
    exec::run(exec::cargo(["build", "--locked"]).args(packages))?;
    let prefix = exec::target_dir().join("conformance");
    let script = exec::root().join("crates/suci-shmem/packaging/install.sh");
    let mut install = Command::new(script);
    let built = exec::target_dir().join("debug");
    exec::run(install.arg(built).env("PREFIX", &prefix))?;
    Ok(prefix)
}

fn programs(tests: &Path, only: Option<&str>) -> Result<Vec<Program>> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        sources(&tests.join(folder), &mut found)?;
    }
    found.sort();
    let program = |source: PathBuf| {
        let name = source.strip_prefix(tests).unwrap_or(&source).display();
        Program {
            name: name.to_string(),
            source,
            flags: Vec::new(),
        }
    };
    let variant = |(name, source, flag): &(&str, &str, &str)| Program {
        name: format!("unit/{name}"),
        source: tests.join(source),
        flags: vec![(*flag).to_owned()],
    };
    let found = found.into_iter().map(program);
    let all = found.chain(VARIANTS.iter().map(variant));
    let is_wanted = |program: &Program| only.is_none_or(|only| program.name.contains(only));
    Ok(all.filter(is_wanted).collect())
}

/// Adds the sources of programs in a folder and those below.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).context(folder.display())? {
        let path = entry?.path();
        let kind = path.extension().unwrap_or_default();
        if path.is_dir() {
            sources(&path, found)?;
        } else if ["c", "cpp", "f90"].iter().any(|known| kind == *known) {
            found.push(path);
        }
    }
    Ok(())
}

fn judge(program: &Program, tests: &Path, prefix: &Path, faults: Option<&str>) -> Result<Verdict> {
    let applies = |(part, _): &&(&str, &str)| program.name.contains(part);
    if let Some((_, reason)) = NOT_APPLICABLE.iter().find(applies) {
        return Ok(Verdict::NotApplicable(reason));
    }
    let binary = prefix.join("programs").join(program.name.replace('/', "-"));
    fs::create_dir_all(prefix.join("programs"))?;
    if let Err(failure) = compile(program, tests, prefix, &binary) {
        let failure = failure.to_string();
        let error = failure.lines().find(|line| line.contains("error"));
        return Ok(Verdict::Failed(
            error.unwrap_or("it does not compile").to_owned(),
        ));
    }
    for count in PROCESSES {
        if let Err(reason) = execute(program, &binary, prefix, count, faults)? {
            return Ok(Verdict::Failed(format!("with {count} processes: {reason}")));
        }
    }
    Ok(Verdict::Passed)
}

fn compile(program: &Program, tests: &Path, prefix: &Path, binary: &Path) -> Result<()> {
    let is_cpp = program.source.extension().is_some_and(|kind| kind == "cpp");
    let (compiler, standard) = match is_cpp {
        true => ("oshc++", "-std=gnu++17"),
        false => ("oshcc", "-std=gnu11"),
    };
    let mut command = Command::new(prefix.join("bin").join(compiler));
    command
        .args([
            standard,
            "-O1",
            "-w",
            "-pthread",
            "-DENABLE_DEPRECATED_TESTS",
        ])
        .args(&program.flags)
        .arg("-I")
        .arg(tests.join("include"))
        .arg(&program.source);
    if program.name.ends_with("mt_lock_test.c") {
        command.arg(tests.join("unit/mt_lock.c"));
    }
    exec::capture(command.arg("-lm").arg("-o").arg(binary)).map(drop)
}

/// Runs a program. Returns why it failed.
fn execute(
    program: &Program,
    binary: &Path,
    prefix: &Path,
    count: u32,
    faults: Option<&str>,
) -> Result<std::result::Result<(), String>> {
    let log = binary.with_extension(format!("{count}.log"));
    let output = File::create(&log).context(log.display())?;
    let mut command = Command::new(prefix.join("bin/oshrun"));
    command.arg("-np").arg(count.to_string());
    if let Some(faults) = faults {
        command.args(["--faults", faults]);
    }
    let arguments = ARGUMENTS.iter().find(|(name, _)| *name == program.name);
    command
        .arg(binary)
        .args(arguments.map_or(&[][..], |(_, arguments)| arguments))
        .stdout(output.try_clone()?)
        .stderr(output);
    let name = binary.display().to_string();
    let mut process = Process::spawn_as(&name, exec::in_group(&mut command))?;
    let deadline = Instant::now() + LIMIT;
    // A process of the group may outlive its leader; a group's number stays taken until then.
    let ended = loop {
        match process.child().try_wait()? {
            Some(status) => break Some(status),
            None if Instant::now() >= deadline => break None,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    match ended {
        Some(status) if status.success() => return Ok(Ok(())),
        Some(_) => {}
        None => process.kill_group(),
    }
    let said = fs::read(&log).context(log.display())?;
    let said = String::from_utf8_lossy(&said);
    let mut lines = said.lines().filter(|line| !line.starts_with("suci run:"));
    let line = lines.next_back().unwrap_or("it says nothing").to_owned();
    Ok(Err(match ended {
        Some(status) => format!("{status}: {line}"),
        None => format!("it did not end within {} s: {line}", LIMIT.as_secs()),
    }))
}

fn print(name: &str, verdict: &Verdict, as_json: bool) {
    let (word, reason) = (verdict.word(), verdict.reason());
    if as_json {
        println!(
            "{}",
            json!({"test": name, "result": word, "reason": reason})
        );
    } else {
        println!("{name:50} {word:15} {reason}");
    }
}
