//! Several processes, as `suci run` starts them.

use std::fmt::Write as _;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::oracle::lasso::{Word, holds};
use super::oracle::random::{Random, formula, spelled};
use super::oracle::{Ltl, gpvw};
use super::verdicts::{busy_counter, counter, promises};
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
    let mut command = Command::new("env");
    // A command that a shell runs in the background ignores interrupts, and so do its children.
    command.arg("--default-signal=INT").arg(suci());
    command.args(["run", "-n", &processes.to_string(), "--"]);
    command.arg(env!("CARGO_BIN_EXE_tableau")).args(args);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A run that ends by itself or by the test; killed when dropped.
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
                // The process was just started; the test is about a process at work.
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
        // The process may have ended.
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

/// A formula with the known facts about it.
struct Known {
    text: String,
    satisfiable: bool,
    /// The formula in the oracle's form, which checks models.
    formula: Option<Ltl>,
}

impl Known {
    fn random(seed: u64) -> Self {
        let formula = formula(seed);
        Self {
            text: spelled(&formula, &mut Random(seed)),
            satisfiable: gpvw::satisfiable(&formula),
            formula: Some(formula),
        }
    }

    /// Too large for the oracle's procedure.
    fn model(formula: Ltl) -> Self {
        Self {
            text: formula.to_string(),
            satisfiable: true,
            formula: Some(formula),
        }
    }

    /// 3 times 2 to the power of all delays states.
    fn promises(delays: &[usize]) -> Self {
        Self {
            text: promises(delays),
            satisfiable: false,
            formula: None,
        }
    }
}

/// Sends `formulas` through one run, and judges each verdict and model. Returns how many models
/// there were.
fn judge(processes: u32, formulas: &[Known], args: &[&str]) -> usize {
    let mut lines = String::new();
    for known in formulas {
        writeln!(lines, "{}", known.text).unwrap();
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
    for (known, answer) in formulas.iter().zip(&answers) {
        assert_eq!(answer["answer"], known.satisfiable, "{}", known.text);
        let formula = known.formula.as_ref().filter(|_| known.satisfiable);
        if let Some(formula) = formula {
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
    let mut formulas: Vec<Known> = (0..count).map(Known::random).collect();
    let large = [Known::promises(&[2, 3, 4]), Known::model(busy_counter(4))];
    formulas.extend(large);
    formulas.push(Known::model(counter(7)));
    let models = judge(4, &formulas, &[]);
    println!(
        "figure: {count} formulas and 3 large ones through 3 workers, {models} models checked"
    );
    assert!(models * 5 > formulas.len() && models * 5 < 4 * formulas.len());
}

/// Far more processes than cores, beside other tests: one may not run for seconds. These tests are
/// about loss, not about how soon a silent process is missed.
const PATIENT: [&str; 2] = ["--patience", "30"];

#[test]
fn sixteen_workers_over_loss() {
    let mut formulas: Vec<Known> = (0..25).map(Known::random).collect();
    formulas.push(Known::promises(&[2, 3, 4]));
    formulas.push(Known::model(busy_counter(3)));
    let args = [&["--faults", "loss=0.05,seed=3"], &PATIENT[..]].concat();
    let models = judge(17, &formulas, &args);
    println!(
        "figure: 25 formulas and 2 large ones through 16 workers over 5 % loss, {models} models checked"
    );
}

#[test]
fn a_worker_that_is_killed_ends_the_run_and_all_say_so() {
    let run = Run::start(&mut run(4, &["--patience", "2", &endless()]));
    signal("-KILL", run.process(2));
    let (status, said) = run.end();
    for survivor in [0, 1, 3] {
        let begin = format!("tableau: process {survivor}: ");
        // The launcher told it, or the one that heard first.
        let end = "process 2 has ended before the work was done";
        let names = |line: &str| line.starts_with(&begin) && line.ends_with(end);
        assert!(said.lines().any(names), "{said}");
    }
    // The first failure is the killed one's.
    assert_eq!(status, 137, "{said}");
}

/// A state with too many branches to finish: its worker must hear of events meanwhile.
fn one_endless_state() -> String {
    let choices: Vec<String> = (0..30).map(|i| format!("(X a{i} | X b{i})")).collect();
    choices.join(" & ")
}

#[test]
fn a_hub_that_is_killed_ends_the_run_and_all_say_so() {
    let run = Run::start(&mut run(3, &["--patience", "2", &one_endless_state()]));
    signal("-KILL", run.process(0));
    let (_, said) = run.end();
    for survivor in [1, 2] {
        let line =
            format!("tableau: process {survivor}: process 0 has ended before the work was done\n");
        assert!(said.contains(&line), "{said}");
    }
}

#[test]
fn a_hub_that_never_came_ends_its_workers() {
    let mut command = Command::new(suci());
    command.args(["run", "-n", "2", "--", "sh", "-c"]);
    let tableau = env!("CARGO_BIN_EXE_tableau");
    command.arg(format!(
        "test $SUCI_ID = 0 && exec sleep 3; {tableau} --patience 1 p"
    ));
    let (_, said) = Run::start(command.stderr(Stdio::piped())).end();
    let line = "tableau: process 1: process 0 has not answered for 1 s\n";
    assert!(said.contains(line), "{said}");
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
        (
            &["--stats", "/nowhere/to", "p"],
            2,
            "tableau: process 0: /nowhere/to: No such file",
        ),
        (&["p &"], 2, "tableau: 1:4: expected"),
        (&["--version"], 0, ""),
        (&["--help"], 0, ""),
    ] {
        let (got, said) = Run::start(&mut run(3, args)).end();
        assert_eq!(got, status, "{said}");
        let told_once = said.matches(part).count() == 1;
        assert!(told_once || part.is_empty() && said.is_empty(), "{said}");
    }
}
