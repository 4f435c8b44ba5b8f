//! Several processes, as `suci run` starts them.

use std::fmt::Write as _;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::oracle::lasso::{Word, holds};
use super::oracle::random::{Random, formula, spelled};
use super::oracle::{Ltl, gpvw};
use serde_json::Value;

/// Formulas in [`parallel_verdicts`]; `cargo xtask show tableau` asks for more.
const FORMULAS: &str = "TABLEAU_TEST_FORMULAS";

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// Takes minutes: 5 promises of 2 to 6 moments each are kept side by side.
fn endless() -> String {
    let promises = (0..5).map(|i| format!("G(p{i} -> {}q{i})", "X ".repeat(i + 2)));
    let promises: Vec<String> = promises.collect();
    format!("{} & G F z & F G !z", promises.join(" & "))
}

/// `suci`, from the build that this test is from.
fn suci() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_tableau")).with_file_name("suci");
    assert!(
        path.is_file(),
        "cargo build -p suci-cli comes before this test"
    );
    path
}

fn run(processes: u32, args: &[&str]) -> Command {
    let mut command = Command::new(suci());
    command.args(["run", "-n", &processes.to_string(), "--"]);
    command.arg(env!("CARGO_BIN_EXE_tableau")).args(args);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A run that ends by itself or by what is done to it; killed when dropped.
struct Run(Child);

impl Run {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// Process `id`, when it is at work.
    fn process(&self, id: u32) -> u32 {
        let wanted = format!("SUCI_ID={id}");
        let begun = Instant::now();
        loop {
            let children = format!("/proc/{0}/task/{0}/children", self.0.id());
            let children = std::fs::read_to_string(children).unwrap();
            let is_it = |pid: &&str| {
                let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environment
                    .split(|&byte| byte == 0)
                    .any(|entry| entry == wanted.as_bytes())
            };
            if let Some(pid) = children.split_whitespace().find(is_it) {
                // It was just started: what is to be tested is a process at work.
                std::thread::sleep(Duration::from_millis(700));
                return pid.parse().unwrap();
            }
            assert!(begun.elapsed() < LONG, "process {id} was not started");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Exit status and standard error.
    fn end(mut self) -> (i32, String) {
        let begun = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < LONG, "it goes on and on");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut said = String::new();
        self.0
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        (self.0.wait().unwrap().code().unwrap(), said)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn signal(signal: &str, pid: u32) {
    let done = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(done.unwrap().success());
}

/// The word of a JSON model: once with everything free false, once true.
fn words(model: &Value) -> [Word; 2] {
    [false, true].map(|free| {
        let moment = |moment: &Value| {
            let mut values = vec![free; 8];
            for (name, value) in moment.as_object().unwrap() {
                let number: usize = name.trim_start_matches('p').parse().unwrap();
                values[number] = value.as_bool().unwrap();
            }
            values
        };
        let part = |name: &str| model[name].as_array().unwrap().iter().map(moment);
        Word {
            moments: part("stem").chain(part("cycle")).collect(),
            back: part("stem").count(),
        }
    })
}

/// Sends `formulas` through one run, and judges each verdict and model by the oracle.
fn judge(processes: u32, formulas: &[Ltl], args: &[&str]) -> usize {
    let mut lines = String::new();
    for (seed, formula) in (0..).zip(formulas) {
        writeln!(lines, "{}", spelled(formula, &mut Random(seed))).unwrap();
    }
    let file = std::env::temp_dir().join(format!("tableau-{}-{processes}", std::process::id()));
    std::fs::write(&file, lines).unwrap();
    let args = [&["--json", "--file", file.to_str().unwrap()], args].concat();
    let done = run(processes, &args).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    let error = String::from_utf8_lossy(&done.stderr).into_owned();
    let out = String::from_utf8(done.stdout).unwrap();
    let answers: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), formulas.len(), "{error}");
    let mut models = 0;
    for (formula, answer) in formulas.iter().zip(&answers) {
        assert_eq!(answer["answer"], gpvw::satisfiable(formula), "{formula}");
        if answer["answer"] == true {
            models += 1;
            for word in words(&answer["model"]) {
                assert!(holds(formula, &word), "{formula}: {}", answer["model"]);
            }
        }
    }
    models
}

#[test]
fn parallel_verdicts() {
    let wanted = std::env::var(FORMULAS).ok();
    let count = wanted.map_or(300, |wanted| wanted.parse().unwrap());
    let formulas: Vec<Ltl> = (0..count).map(formula).collect();
    let models = judge(4, &formulas, &[]);
    println!("figure: {count} formulas through 3 workers, {models} models checked");
    assert!(models * 5 > formulas.len() && models * 5 < 4 * formulas.len());
}

#[test]
fn sixteen_workers_over_loss() {
    let formulas: Vec<Ltl> = (0..25).map(formula).collect();
    let models = judge(
        17,
        &formulas,
        &["--faults", "loss=0.05,seed=3", "--patience", "60"],
    );
    println!("figure: 25 formulas through 16 workers over 5 % loss, {models} models checked");
}

#[test]
fn a_worker_that_is_killed_ends_the_run_and_all_say_so() {
    let run = Run::start(&mut run(4, &["--patience", "2", &endless()]));
    signal("-KILL", run.process(2));
    let (status, said) = run.end();
    for survivor in [0, 1, 3] {
        let begin = format!("tableau: process {survivor}: ");
        // It noticed itself, or was told by the one that noticed first.
        let end = "process 2 has not answered for 2 s";
        let names = |line: &str| line.starts_with(&begin) && line.ends_with(end);
        assert!(said.lines().any(names), "{said}");
    }
    // The first failure is the killed one's.
    assert_eq!(status, 137, "{said}");
}

#[test]
fn a_hub_that_is_killed_ends_the_run_and_all_say_so() {
    let run = Run::start(&mut run(3, &["--patience", "2", &endless()]));
    signal("-KILL", run.process(0));
    let (_, said) = run.end();
    for survivor in [1, 2] {
        let line = format!("tableau: process {survivor}: process 0 has not answered for 2 s\n");
        assert!(said.contains(&line), "{said}");
    }
}

#[test]
fn an_interrupt_ends_all_and_one_says_so() {
    let run = Run::start(&mut run(4, &[&endless()]));
    run.process(3);
    signal("-INT", run.0.id());
    let begun = Instant::now();
    let (status, said) = run.end();
    assert_eq!(status, 130, "{said}");
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("tableau"))
        .collect();
    assert_eq!(lines, ["tableau: process 0: interrupted"], "{said}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn an_interrupt_ends_a_single_process() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tableau"));
    let run = Run::start(command.arg(endless()).stderr(Stdio::piped()));
    std::thread::sleep(Duration::from_millis(500));
    signal("-INT", run.0.id());
    assert_eq!(run.end(), (130, "tableau: interrupted\n".to_owned()));
}

#[test]
fn mistakes_are_told_once() {
    for (args, status, part) in [
        (&["--nonsense"][..], 2, "unexpected argument '--nonsense'"),
        (
            &["--file", "/nowhere"],
            2,
            "tableau: process 0: /nowhere: No such file",
        ),
        (&["p &"], 2, "tableau: 1:4: expected"),
    ] {
        let (got, said) = Run::start(&mut run(3, args)).end();
        assert_eq!((got, said.matches(part).count()), (status, 1), "{said}");
    }
}
