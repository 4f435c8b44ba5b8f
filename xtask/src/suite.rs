//! The test programs of the workspace, several at a time.
//!
//! `cargo test` runs one program after the other, and most programs wait for timers and other
//! processes most of their time. `cargo nextest` gives each test a process of its own: tests that
//! take turns by a lock of their program would lose it, and the tool takes minutes to build.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::error::{Context, Failure, Result};
use crate::exec::{self, Process};
use crate::soak;

/// Programs that run at once: these keep two cores busy. With more cores each runs more tests.
const PROGRAMS_AT_ONCE: usize = 4;

/// Tests of one program that run at once, on each core. Most tests wait for a timer or for another
/// process most of their time.
const TESTS_PER_CORE: usize = 3;

/// A program that takes longer hangs. The longest takes 2 minutes, and 4 on a busy machine.
const LIMIT: Duration = Duration::from_secs(900);

/// The time that a program has to remove its namespaces, once it is told to end.
const FAREWELL: Duration = Duration::from_secs(10);

/// Tells tests that the libraries and programs that they start have been built.
const BUILT: &str = "SUCI_TEST_BUILT";

/// The time between two looks at a program.
const POLL: Duration = Duration::from_millis(50);

/// The name of the documentation tests.
const DOCUMENTATION: &str = "documentation";

/// When a program runs, if not in the order in which cargo built it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// After all others, with no other beside it.
    Alone,
    /// Before the others: one that begins last and takes long is waited for.
    First,
}

/// Has tests try every compiler, function and link that they know, and snippets several times.
/// Without it tests have a selection: what one member finds, nearly always all find.
const EVERYTHING: [(&str, &str); 2] = [("SUCI_TEST_FULL", "1"), (soak::ROUNDS, "5")];

/// As [`LIMIT`], with [`EVERYTHING`].
const LIMIT_OF_EVERYTHING: Duration = Duration::from_secs(3_600);

/// Programs by their names, and why they have a place of their own. An entry that fits no program
/// fails the step.
const PLACES: &[(&str, When, &str)] = &[
    (
        "suci-tests --test processes",
        When::Alone,
        "some of its tests need both cores, or compare rates and delays of whole networks",
    ),
    (
        "suci --test counted",
        When::Alone,
        "counts packets, of which a busy host sends more",
    ),
    (
        "red-team --test attacks",
        When::First,
        "makes one attack at a time, and waits nearly always",
    ),
    (
        "suci-sim --test it",
        When::First,
        "computes for a minute, on as many cores as are idle",
    ),
    (
        "suci-shmem --test it",
        When::First,
        "waits for processes that are late or stopped",
    ),
    (
        "suci-capi --test it",
        When::First,
        "compiles many programs in C, and waits for sockets that end",
    ),
    (
        "xtask --test emulator",
        When::Alone,
        "judges delays of milliseconds, and packets that no socket has room for",
    ),
    (
        "xtask --test netns",
        When::Alone,
        "any program that makes a namespace removes those of the process that a test kills",
    ),
];

/// A program of tests.
#[derive(Debug)]
struct Program {
    /// The arguments of `cargo test` that select it.
    name: String,
    /// The executable, or none for the documentation tests, which rustdoc builds.
    executable: Option<PathBuf>,
    /// The folder in which it runs: that of its package.
    folder: PathBuf,
}

/// How programs run.
#[derive(Clone, Copy)]
struct Settings<'a> {
    /// Tests of one program that run at once.
    threads: usize,
    /// The folder for the output of each program.
    outputs: &'a Path,
    limit: Duration,
    variables: &'a [(&'a str, &'a str)],
}

/// Builds all test programs, then runs each, and the documentation tests. Prints the output of
/// those that fail.
///
/// # Errors
/// The build fails, a program fails or takes too long, or [`PLACES`] names a program that there is
/// not.
pub(crate) fn check() -> Result<()> {
    run(LIMIT, &[])
}

/// Runs the tests with everything of which `make test` has a selection.
///
/// # Errors
/// The build fails, or a program fails or takes too long.
pub fn nightly() -> Result<()> {
    run(LIMIT_OF_EVERYTHING, &EVERYTHING)
}

fn run(limit: Duration, variables: &[(&str, &str)]) -> Result<()> {
    let mut programs = build()?;
    programs.push(Program::documentation());
    let (alone, together) = placed(programs, PLACES)?;
    let cores = thread::available_parallelism()?.get();
    let outputs = tempfile::tempdir()?;
    let settings = Settings {
        threads: TESTS_PER_CORE * cores,
        outputs: outputs.path(),
        limit,
        variables,
    };
    let work = |program: &Program| Ok(program.run(settings));
    let mut ends = exec::at_once(PROGRAMS_AT_ONCE, &together, work)?;
    ends.extend(exec::at_once(1, &alone, work)?);
    summary(&ends)
}

/// Prints how many tests passed.
///
/// # Errors
/// A program failed, or none of the programs ran a test.
fn summary(ends: &[End]) -> Result<()> {
    let failed: Vec<&str> = ends
        .iter()
        .filter(|end| end.has_failed)
        .map(|end| end.name.as_str())
        .collect();
    let passed: u64 = ends.iter().map(|end| end.counts.passed).sum();
    println!("   {passed} tests passed, in {} programs", ends.len());
    match failed[..] {
        [] if passed == 0 => Err(Failure::new("no test was run")),
        [] => Ok(()),
        _ => Err(Failure::new(format!(
            "failed: {}; `cargo test -p NAME` runs one again",
            failed.join(", ")
        ))),
    }
}

/// Puts programs in order: those that run alone, and the others.
///
/// # Errors
/// An entry of `places` fits no program.
fn placed(
    programs: Vec<Program>,
    places: &[(&str, When, &str)],
) -> Result<(Vec<Program>, Vec<Program>)> {
    for (name, _, _) in places {
        if !programs.iter().any(|program| program.name == *name) {
            return Err(Failure::new(format!("no test program is `{name}`")));
        }
    }
    let place = |program: &Program| places.iter().position(|(name, ..)| program.name == *name);
    let is_alone = |program: &Program| place(program).is_some_and(|at| places[at].1 == When::Alone);
    let (alone, mut together): (Vec<_>, Vec<_>) = programs.into_iter().partition(is_alone);
    together.sort_by_key(|program| place(program).unwrap_or(usize::MAX));
    Ok((alone, together))
}

/// The command that builds `targets` of all packages. With a test or an example among them, crates
/// have the features with which [`build`] compiles them, and are compiled once. Another selection
/// of packages would give them others.
pub(crate) fn building(targets: &[&str]) -> Command {
    let mut build = exec::cargo(["build", "--locked", "--workspace"]);
    build.args(targets);
    build
}

/// Builds everything in one call, libraries and programs that tests start included.
fn build() -> Result<Vec<Program>> {
    let mut build = building(&["--lib", "--bins", "--tests", "--examples"]);
    build.arg("--message-format=json-render-diagnostics");
    println!("   {}", exec::shown(&build));
    let output = build.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(Failure::new("the tests cannot be built"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter(|line| line.starts_with('{'));
    let programs = messages.map(|line| Program::from_message(&serde_json::from_str(line)?));
    let programs: Vec<Option<Program>> = programs.collect::<Result<_>>()?;
    Ok(programs.into_iter().flatten().collect())
}

impl Program {
    /// The program that a message of cargo is about, if it has one of tests.
    fn from_message(message: &Value) -> Result<Option<Self>> {
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return Ok(None);
        }
        let Some(executable) = message["executable"].as_str() else {
            return Ok(None);
        };
        let text = |value: &Value| Ok::<_, Failure>(value.as_str().context(message)?.to_owned());
        let id = text(&message["package_id"])?;
        let manifest = PathBuf::from(text(&message["manifest_path"])?);
        let folder = manifest.parent().context(message)?;
        let kind = text(&message["target"]["kind"][0])?;
        let target = text(&message["target"]["name"])?;
        let package = package(&id);
        let name = match kind.as_str() {
            "bin" | "test" | "example" => format!("{package} --{kind} {target}"),
            _ => format!("{package} --lib"),
        };
        Ok(Some(Self {
            name,
            executable: Some(executable.into()),
            folder: folder.to_owned(),
        }))
    }

    /// The tests in documentation comments.
    fn documentation() -> Self {
        Self {
            name: DOCUMENTATION.to_owned(),
            executable: None,
            folder: exec::root(),
        }
    }

    fn command(&self) -> Command {
        let Some(executable) = &self.executable else {
            return exec::cargo(["test", "--locked", "--workspace", "--doc"]);
        };
        let mut command = Command::new(executable);
        command.current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// Runs it to its end.
    fn run(&self, settings: Settings) -> End {
        let output = settings.outputs.join(&self.name);
        let (begun, mut processor) = (Instant::now(), Duration::ZERO);
        let ended = self.watch(settings, &output, &mut processor);
        let said = fs::read(&output).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).into_owned();
        let counts = Counts::of(&said);
        let failure = match ended {
            Ok(()) if counts.ignored == 0 => None,
            Ok(()) => Some(format!("{} tests are ignored", counts.ignored)),
            Err(failure) => Some(failure.to_string()),
        };
        let (took, processor) = (begun.elapsed().as_secs_f64(), processor.as_secs_f64());
        let (name, passed) = (self.name.clone(), counts.passed);
        // One call, so that programs that end at once do not mix their lines.
        match &failure {
            None => {
                println!("   {took:6.1} s, processor {processor:6.1} s, {passed:4} passed: {name}")
            }
            Some(failure) => println!("{said}\n   {took:6.1} s, FAILED: {name}: {failure}"),
        }
        End {
            name,
            counts,
            has_failed: failure.is_some(),
        }
    }

    /// Waits for a successful end, and keeps `processor` up to date.
    fn watch(&self, settings: Settings, output: &Path, processor: &mut Duration) -> Result<()> {
        let file = File::create(output)?;
        let mut command = self.command();
        command
            .env(BUILT, "1")
            .envs(settings.variables.iter().copied())
            .env("RUST_TEST_THREADS", settings.threads.to_string())
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let mut process = Process::spawn_as(&self.name, &mut command)?;
        let begun = Instant::now();
        while begun.elapsed() < settings.limit {
            *processor = processor_time(process.pid()).unwrap_or(*processor);
            if let Some(status) = process.child().try_wait()? {
                return match status.success() {
                    true => Ok(()),
                    false => Err(Failure::new(status.to_string())),
                };
            }
            thread::sleep(POLL);
        }
        process.ask_to_end(FAREWELL);
        let limit = settings.limit.as_secs();
        Err(Failure::new(format!(
            "it did not end within {limit} s; its output names tests that run for over 60 seconds"
        )))
    }
}

/// Processor time of a process that was not waited for yet, and of its children that it waited
/// for. None when it is gone.
fn processor_time(pid: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain spaces. Behind it, fields are from the third on.
    let (_, fields) = text.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(4);
    let ticks: u64 = ticks.map_while(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 10))
}

/// The name of the package in cargo's identifier: `path+file:///FOLDER#NAME@VERSION`, or
/// `path+file:///NAME#VERSION`.
fn package(id: &str) -> &str {
    let (path, version) = id.split_once('#').unwrap_or((id, ""));
    match version.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next().unwrap_or(path),
    }
}

/// The results that the test harness counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    ignored: u64,
}

impl Counts {
    /// The sums over all lines `test result: ok. 12 passed; 0 failed; 0 ignored; ...`.
    fn of(output: &str) -> Self {
        let mut counts = Self::default();
        let results = output
            .lines()
            .filter(|line| line.starts_with("test result: "));
        for part in results.flat_map(|line| line.split([';', '.'])) {
            let mut words = part.split_whitespace();
            let count = words.next().and_then(|word| word.parse::<u64>().ok());
            match (count, words.next()) {
                (Some(count), Some("passed")) => counts.passed += count,
                (Some(count), Some("ignored")) => counts.ignored += count,
                _ => {}
            }
        }
        counts
    }
}

/// The end of a program.
struct End {
    name: String,
    counts: Counts,
    has_failed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str, executable: &str) -> Program {
        Program {
            name: name.to_owned(),
            executable: Some(executable.into()),
            folder: "/".into(),
        }
    }

    fn run(script: &str, limit: Duration) -> (End, String) {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let program = program("made --lib", file.to_str().unwrap());
        let end = program.run(Settings {
            threads: 1,
            outputs: dir.path(),
            limit,
            variables: &[],
        });
        let said = fs::read_to_string(dir.path().join("made --lib")).unwrap();
        (end, said)
    }

    const LONG: Duration = Duration::from_secs(60);
    const PASSED: &str = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured'";

    #[test]
    fn a_program_fails_by_its_status_by_ignored_tests_and_by_its_time() {
        let (end, _) = run(PASSED, LONG);
        assert!(!end.has_failed);
        assert_eq!(end.counts.passed, 3);
        assert!(run(&format!("{PASSED}; exit 1"), LONG).0.has_failed);
        assert!(
            run(&PASSED.replace("0 ignored", "1 ignored"), LONG)
                .0
                .has_failed
        );
        // The script has time to remove what it made.
        let hangs = "trap 'echo removed; exit 0' TERM; echo begun; while :; do sleep 0.05; done";
        let (end, said) = run(hangs, Duration::from_secs(1));
        assert!(end.has_failed);
        assert_eq!(said, "begun\nremoved\n");
    }

    #[test]
    fn a_summary_names_what_failed_and_needs_a_test() {
        let end = |name: &str, passed, has_failed| End {
            name: name.to_owned(),
            counts: Counts { passed, ignored: 0 },
            has_failed,
        };
        assert!(summary(&[end("a --lib", 1, false)]).is_ok());
        assert!(summary(&[end("a --lib", 0, false)]).is_err());
        let failure = summary(&[end("a --lib", 1, false), end("b --lib", 1, true)]);
        let failure = failure.unwrap_err().to_string();
        assert!(
            failure.contains("b --lib") && !failure.contains("a --lib"),
            "{failure}"
        );
    }

    #[test]
    fn places_order_programs_and_each_fits_one() {
        let programs = || ["a", "b", "c", "d"].map(|name| program(name, name)).into();
        let places = [("d", When::First, ""), ("b", When::Alone, "")];
        let (alone, together) = placed(programs(), &places).unwrap();
        let names = |programs: &[Program]| -> Vec<String> {
            programs
                .iter()
                .map(|program| program.name.clone())
                .collect()
        };
        assert_eq!(names(&alone), ["b"]);
        assert_eq!(names(&together), ["d", "a", "c"]);
        let failure = placed(programs(), &[("e", When::Alone, "")]).unwrap_err();
        assert!(failure.to_string().contains("`e`"), "{failure}");
    }

    #[test]
    fn messages_of_cargo_name_the_programs_that_have_tests() {
        let message = |kind: &str, test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "package_id": "path+file:///tree/tests#suci-tests@0.1.0",
                "manifest_path": "/tree/tests/Cargo.toml",
                "target": {"kind": [kind], "name": "processes"},
                "profile": {"test": test},
                "executable": "/tree/target/debug/deps/processes-1",
            })
        };
        let program = Program::from_message(&message("test", true))
            .unwrap()
            .unwrap();
        assert_eq!(program.name, "suci-tests --test processes");
        assert_eq!(program.folder, Path::new("/tree/tests"));
        let program = Program::from_message(&message("rlib", true))
            .unwrap()
            .unwrap();
        assert_eq!(program.name, "suci-tests --lib");
        assert!(
            Program::from_message(&message("bin", false))
                .unwrap()
                .is_none()
        );
        assert_eq!(package("path+file:///tree/crates/suci#0.1.0"), "suci");
    }

    #[test]
    fn the_processor_time_of_this_process_counts() {
        let begun = Instant::now();
        let mut sum = 0_u64;
        while begun.elapsed() < Duration::from_millis(100) {
            sum = std::hint::black_box(sum + 1);
        }
        let time = processor_time(std::process::id()).unwrap();
        assert!(
            time > Duration::ZERO && time < Duration::from_secs(3600),
            "{time:?}"
        );
        assert!(processor_time(u32::MAX).is_none());
    }
}
