//! Every snippet of README.md, of docs/guide.md, of docs/commands.md and of the examples' READMEs
//! runs with the receive buffer that Linux ships with. `make nightly` runs each 5 times in a row,
//! `make soak` 200 times.
//!
//! A snippet runs in a namespace of its own, so that its ports are free, line by line: a line with
//! `--listen` beside those that follow it, any other line to its successful end. Long measurements
//! are cut short.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use suci_tests::{LONG, count, light};
use tempfile::TempDir;
use xtask::exec::{self, Process};
use xtask::netns::Netns;
use xtask::source;

/// How often each snippet runs in a row; once without it.
const ROUNDS: &str = "SUCI_TEST_ROUNDS";

/// `net.core.rmem_max` of an untuned Linux.
const STOCK: &str = "212992";

/// Snippets that do not run here, by the beginning of their line or snippet, and why. An entry that
/// fits nothing fails the test.
const NOT_RUN: &[(&str, &str)] = &[
    ("make demo", "`cargo xtask show foundation` runs it"),
    ("make test", "this test is part of it"),
    ("flowchart", "a picture"),
    ("[dependencies]", "part of a manifest"),
    (
        "suci top",
        "interactive; the tests of suci-cli run it on a terminal",
    ),
    (
        "suci stat 4711",
        "goes on until interrupted; the tests of suci-cli run it",
    ),
    (
        "suci run --host",
        "needs other hosts; the tests of suci-cli have a command in the place of ssh",
    ),
    ("sysctl -w", "changes the machine"),
    (
        "# Kubernetes",
        "the tests of suci-cli have such a container",
    ),
    ("[Socket]", "part of a manifest of systemd"),
    (
        "suci ping --book book",
        "needs a book with a route; `commands.rs` beside this file has one",
    ),
    ("cargo build", "what this test runs has been built"),
    ("satisfiable:", "output"),
];

/// Commands that must run beside a line that begins like this.
const BESIDE: &[(&str, &str)] = &[
    (
        "tar c dir | suci cat",
        "suci cat --plain --listen 192.0.2.7:7000 > /dev/null",
    ),
    (
        "suci cat --faults",
        "suci cat --listen 127.0.0.1:7000 > copy",
    ),
];

/// Stands in for `suci` in a snippet: measurements are few, short and of short messages, pings
/// follow one another at once.
const SHORT: &str = r#"#!/bin/sh
verb=$1; shift
case "$verb $*" in
perf*--listen*|ping*--listen*) exec "$SUCI" $verb "$@";;
perf*--size*) set -- $(echo "$*" | sed 's/1MiB/1KiB/; s/1048576/4096/');;
perf*--workload*) set -- "$@" --size 4096;;
perf*) set -- "$@" --workload ping-pong,broadcast,all-to-all --size 4096;;
ping*) exec "$SUCI" ping --interval 0 "$@";;
*) exec "$SUCI" $verb "$@";;
esac
exec "$SUCI" perf --rounds 1 --seconds 0.01 "$@"
"#;

/// Formulas for `examples/tableau`.
const FORMULAS: &str = "G F p\n(a U b) & X !a\n";

/// A fenced block of a document.
struct Snippet {
    document: PathBuf,
    /// The number of its first line, from 1.
    line: usize,
    language: String,
    text: String,
}

impl Snippet {
    fn all(document: &Path) -> Vec<Self> {
        let text = fs::read_to_string(exec::root().join(document)).unwrap();
        let mut snippets: Vec<Self> = Vec::new();
        let mut inside = false;
        for (number, line) in text.lines().enumerate() {
            if let Some(language) = line.trim_start().strip_prefix("```") {
                inside = !inside;
                if inside {
                    snippets.push(Self {
                        document: document.to_path_buf(),
                        line: number + 2,
                        language: language.to_owned(),
                        text: String::new(),
                    });
                }
            } else if let Some(snippet) = snippets.last_mut().filter(|_| inside) {
                snippet.text.push_str(line);
                snippet.text.push('\n');
            }
        }
        assert!(!inside, "{}: a fence is open", document.display());
        snippets
    }

    /// Its lines that run, as commands of a shell.
    fn commands(&self) -> Vec<String> {
        let lines: Vec<String> = match self.language.as_str() {
            "rust" => self.program().into_iter().collect(),
            "" | "sh" => self
                .text
                .lines()
                .map(|line| line.trim().to_owned())
                .collect(),
            other => {
                let listed = self
                    .text
                    .lines()
                    .next()
                    .is_some_and(|line| reason(line).is_some());
                assert!(
                    listed,
                    "{self} is {other}, which neither runs nor is listed"
                );
                return Vec::new();
            }
        };
        lines
            .into_iter()
            .filter(|line| !line.is_empty() && reason(line).is_none())
            .collect()
    }

    /// The command that runs a program. A program in the project's own documents is the end of a
    /// file of the library's examples, which cargo builds. An example's README has parts of its
    /// program, which runs by another snippet.
    fn program(&self) -> Option<String> {
        let is_whole = !self.document.starts_with("examples");
        let folder = match is_whole {
            true => PathBuf::from("crates/suci/examples"),
            false => self.document.with_file_name("src"),
        };
        let files = source::rust_files(&exec::root().join(&folder)).unwrap();
        let has = |path: &&PathBuf| {
            let text = fs::read_to_string(path).unwrap();
            match is_whole {
                true => text.ends_with(&self.text),
                false => without_indents(&text).contains(&without_indents(&self.text)),
            }
        };
        let found = files.iter().find(has);
        let file = found.unwrap_or_else(|| panic!("{self} is not in {}", folder.display()));
        let name = file.file_stem().unwrap().to_str().unwrap();
        match self.text.contains("from_env") {
            _ if !is_whole => None,
            true => Some(format!("suci run -n 3 target/debug/{name}")),
            false => Some(format!("target/debug/{name}")),
        }
    }
}

/// The lines of a text, each without its indent.
fn without_indents(text: &str) -> String {
    text.lines()
        .map(|line| line.trim_start().to_owned() + "\n")
        .collect()
}

impl std::fmt::Display for Snippet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.document.display(), self.line)
    }
}

/// Returns the reason why a line does not run, if it does not.
fn reason(line: &str) -> Option<&'static str> {
    let entry = NOT_RUN.iter().find(|(begin, _)| line.starts_with(begin));
    entry.map(|(_, why)| *why)
}

/// A folder with everything that the snippets name: programs, files, a home.
fn scene() -> TempDir {
    let dir = TempDir::with_prefix("suci-snippets-").unwrap();
    let at = |name: &str| dir.path().join(name);
    for folder in ["bin", "dir", "target/debug", "target/release"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    let bytes: Vec<u8> = (0_u32..1 << 18)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    fs::write(at("original"), &bytes).unwrap();
    fs::write(at("dir/file"), &bytes).unwrap();
    fs::write(at("formulas.txt"), FORMULAS).unwrap();
    let script = |name: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt;
        fs::write(at(name), text).unwrap();
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("bin/suci", SHORT);
    script("bin/jq", "#!/bin/sh\nexec cat\n");
    script("bin/generate", &format!("#!/bin/sh\nprintf '{FORMULAS}'\n"));
    symlink(example("ring"), at("my-program")).unwrap();
    for profile in ["target/debug", "target/release"] {
        symlink("../../bin/suci", at(profile).join("suci")).unwrap();
        for name in stems("crates/suci/examples") {
            symlink(example(&name), at(profile).join(name)).unwrap();
        }
        for name in programs() {
            symlink(exec::built(&name).unwrap(), at(profile).join(name)).unwrap();
        }
    }
    dir
}

/// An example of the library, from the build that this test is from.
fn example(name: &str) -> PathBuf {
    let path = exec::built("suci")
        .unwrap()
        .with_file_name("examples")
        .join(name);
    assert!(
        path.is_file(),
        "cargo build -p suci --examples comes before this test"
    );
    path
}

/// The names in a folder of the tree, without their endings.
fn stems(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(exec::root().join(folder)).unwrap();
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    entries.map(|entry| stem(entry.unwrap().path())).collect()
}

/// The examples that are Rust programs of their own.
fn programs() -> Vec<String> {
    let is_program = |name: &String| {
        let folder = exec::root().join("examples").join(name);
        folder.join("Cargo.toml").is_file()
    };
    stems("examples").into_iter().filter(is_program).collect()
}

/// A line that runs; killed when dropped, with all that it started.
struct Running {
    line: String,
    process: Process,
    log: PathBuf,
}

impl Running {
    fn start(netns: &Netns, dir: &Path, line: &str) -> Self {
        let log = dir.join(format!("log-{}", fs::read_dir(dir).unwrap().count()));
        let output = File::create(&log).unwrap();
        let mut command = netns.command("env");
        // A command that a shell runs in the background ignores interrupts, and so do its children.
        command.args([
            "--default-signal=INT",
            "bash",
            "-o",
            "pipefail",
            "-uc",
            line,
        ]);
        let path = std::env::var("PATH").unwrap();
        command
            .current_dir(dir)
            .env("PATH", format!("{}:{path}", dir.join("bin").display()))
            .env("SUCI", exec::built("suci").unwrap())
            .env("HOME", dir)
            .env("SUCI_RMEM_MAX", STOCK)
            .stdin(File::open("/dev/null").unwrap())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        let process = Process::spawn_as(line, exec::in_group(&mut command)).unwrap();
        let line = line.to_owned();
        Self { line, process, log }
    }

    /// Waits for its successful end.
    fn finish(&mut self) {
        if let Err(failure) = self.process.finish_by(Instant::now() + LONG) {
            let said = fs::read_to_string(&self.log).unwrap();
            panic!("{failure}\n{said}");
        }
    }

    /// The end of a line that goes on beside the others: a receiver of `suci cat` ends by itself, a
    /// server when it is interrupted.
    fn end(mut self) {
        if !self.line.starts_with("suci cat") {
            let group = i32::try_from(self.process.pid()).unwrap();
            // SAFETY: kill takes any numbers; the group is that of our child, which was not reaped.
            assert_eq!(unsafe { libc::kill(-group, libc::SIGINT) }, 0);
            let child = self.process.child();
            let begun = Instant::now();
            while child.try_wait().unwrap().is_none() {
                assert!(
                    begun.elapsed() < LONG,
                    "`{}` ignores an interrupt",
                    self.line
                );
                std::thread::sleep(Duration::from_millis(5));
            }
            return;
        }
        self.finish();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.process.kill_group();
    }
}

/// Runs one snippet once.
fn run(snippet: &Snippet, commands: &[String]) {
    let (netns, dir) = (Netns::new().unwrap(), scene());
    // The address of another machine that the README names.
    netns
        .run(&["ip", "addr", "add", "192.0.2.7/32", "dev", "lo"])
        .unwrap();
    let mut beside = Vec::new();
    for line in commands {
        let server = BESIDE.iter().find(|(begin, _)| line.starts_with(begin));
        if let Some((_, server)) = server {
            let mut server = Running::start(&netns, dir.path(), server);
            Running::start(&netns, dir.path(), line).finish();
            server.finish();
        } else if line.contains("--listen") {
            beside.push(Running::start(&netns, dir.path(), line));
        } else {
            Running::start(&netns, dir.path(), line).finish();
        }
    }
    for server in beside {
        server.end();
    }
    let (original, copy) = (dir.path().join("original"), dir.path().join("copy"));
    if copy.exists() {
        assert_eq!(
            fs::read(original).unwrap(),
            fs::read(copy).unwrap(),
            "{snippet}"
        );
    }
}

/// Runs every snippet of `documents` as often in a row as the environment says. Snippets run side
/// by side: most of their time they wait.
fn run_all(documents: &[PathBuf]) {
    let rounds = count(ROUNDS, 1);
    let snippets: Vec<_> = documents
        .iter()
        .flat_map(|document| Snippet::all(document))
        .map(|snippet| (snippet.commands(), snippet))
        .filter(|(commands, _)| !commands.is_empty())
        .collect();
    let count = snippets.len();
    let (begun, done) = (Instant::now(), AtomicU32::new(0));
    let all = rounds * u32::try_from(count).unwrap();
    let run_rounds = |(commands, snippet): &(Vec<String>, Snippet)| {
        for round in 1..=rounds {
            let round_begun = Instant::now();
            run(snippet, commands);
            let took = round_begun.elapsed().as_secs_f64();
            let done = 1 + done.fetch_add(1, Ordering::Relaxed);
            let left = (begun.elapsed() / done * (all - done)).as_secs();
            println!(
                "round {round} of {rounds}: {snippet}, {took:.1} s; {} min {} s left",
                left / 60,
                left % 60
            );
        }
        Ok(())
    };
    exec::side_by_side(&snippets, run_rounds).unwrap();
    let lines: usize = snippets.iter().map(|(commands, _)| commands.len()).sum();
    println!("figure: {count} snippets of {lines} lines, {rounds} times in a row");
}

/// The documents of the project itself that have snippets.
fn own() -> Vec<PathBuf> {
    let names = ["README.md", "docs/guide.md", "docs/commands.md"];
    names.map(PathBuf::from).into()
}

/// The READMEs of the examples.
fn of_examples() -> Vec<PathBuf> {
    let mut documents: Vec<PathBuf> = programs()
        .iter()
        .map(|name| Path::new("examples").join(name).join("README.md"))
        .collect();
    documents.sort();
    documents
}

#[test]
fn snippets_of_the_readme_run_again_and_again() {
    let _together = light();
    run_all(&own());
}

#[test]
fn snippets_of_the_examples_run_again_and_again() {
    let _together = light();
    run_all(&of_examples());
}

/// Nothing is skipped without a listed reason, and every listed reason still applies.
#[test]
fn snippets_that_do_not_run_are_listed() {
    let documents = [own(), of_examples()].concat();
    let snippets: Vec<Snippet> = documents
        .iter()
        .flat_map(|path| Snippet::all(path))
        .collect();
    let mut listed = 0;
    for (begin, why) in NOT_RUN {
        let lines = snippets
            .iter()
            .flat_map(|snippet| snippet.text.lines().map(move |line| (snippet, line)));
        let found: Vec<_> = lines
            .filter(|(_, line)| line.trim().starts_with(begin))
            .collect();
        assert!(!found.is_empty(), "no line begins with `{begin}`");
        for (snippet, line) in found {
            println!("not run: {snippet}: {line} ({why})");
            listed += 1;
        }
    }
    println!("figure: {listed} lines do not run");
}
