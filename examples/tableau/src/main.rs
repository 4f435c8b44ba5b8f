//! The `tableau` command.

mod args;
mod cluster;
mod input;
mod interrupt;
mod progress;
mod report;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use tableau::{Decision, Formulas, Id, SyntaxError, decide, parse};

use crate::args::Args;
use crate::cluster::{Coordinator, Role};
use crate::input::{Asked, Input};
use crate::interrupt::Interrupts;
use crate::progress::Progress;
use crate::report::{Answer, Question};

/// Every answer was yes.
const YES: u8 = 0;
/// Some answer was no.
const NO: u8 = 1;
/// Something could not be asked or answered.
const ERROR: u8 = 2;

/// Reason why the command ends before its work is done.
enum Failure {
    /// For this reason, which concerns this process alone.
    Problem(String),
    /// For this reason, which ends the others, too.
    Run(String),
    /// By this signal.
    Signal(u8),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Problem(why)
    }
}

fn main() -> ExitCode {
    let role = match Role::from_env() {
        Ok(role) => role,
        Err(problem) => return end(&Role::Alone, Err(problem.into())),
    };
    let args = match (Args::try_parse(), &role) {
        (Ok(args), _) => args,
        // Process 0 was started in the same way, and says it.
        (Err(error), Role::Worker { .. }) => {
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(ERROR));
        }
        (Err(error), _) => error.exit(),
    };
    let interrupts = match Interrupts::catch(matches!(role, Role::Alone)) {
        Ok(interrupts) => interrupts,
        Err(error) => return end(&role, Err(format!("catching signals: {error}").into())),
    };
    let done = match role {
        Role::Alone if args.stats.is_some() => {
            let why = "--stats is for several processes (suci run -n 5 -- tableau ...)";
            Err(Failure::Problem(why.to_owned()))
        }
        Role::Alone => run(&args, &mut Engine::Alone),
        Role::Hub { workers } => cluster::coordinate(&args, workers, interrupts, |hub| {
            run(&args, &mut Engine::Cluster(hub))
        }),
        Role::Worker { workers, .. } => cluster::work(&args, workers, &interrupts).map(|()| YES),
    };
    end(&role, done)
}

fn end(role: &Role, done: Result<u8, Failure>) -> ExitCode {
    ExitCode::from(match done {
        Ok(status) => status,
        Err(Failure::Problem(problem)) => {
            tell(&format!("{}: {problem}\n", role.name()));
            ERROR
        }
        Err(Failure::Run(problem)) => {
            // Parts of it may be another process's, and it goes to a terminal.
            let problem: String = problem.chars().filter(|c| !c.is_control()).collect();
            tell(&format!("{}: {problem}\n", role.name()));
            ERROR
        }
        // Process 0 says it.
        Err(Failure::Signal(signal)) if matches!(role, Role::Worker { .. }) => 128 + signal,
        Err(Failure::Signal(signal)) => {
            tell(&format!("{}: interrupted\n", role.name()));
            128 + signal
        }
    })
}

/// The way to build the tableau.
enum Engine<'a> {
    Alone,
    Cluster(&'a mut Coordinator),
}

impl Engine<'_> {
    fn next(&mut self, input: &mut Input) -> Result<Option<Asked>, Failure> {
        let next = match self {
            Self::Alone => input.next(),
            Self::Cluster(hub) => loop {
                if let Some(next) = input.next_within(cluster::TICK) {
                    break next;
                }
                hub.attend()?;
            },
        };
        Ok(next.transpose()?)
    }

    fn decide(&mut self, formulas: &Formulas, root: Id) -> Result<Decision, Failure> {
        let mut progress = Progress::new();
        let decision = match self {
            Self::Alone => Ok(decide(formulas, root, |extent| progress.look(extent))),
            Self::Cluster(hub) => hub.decide(formulas, root, |extent| progress.look(extent)),
        };
        progress.finish();
        decision
    }
}

/// Answers for one formula after the other. One that is none does not keep the others from being
/// answered.
fn run(args: &Args, engine: &mut Engine<'_>) -> Result<u8, Failure> {
    let question = Question::new(args)?;
    let mut status = YES;
    let mut input = Input::of(args);
    while let Some(asked) = engine.next(&mut input)? {
        let begun = Instant::now();
        match read(&question, &asked) {
            Ok((formulas, root)) => {
                let decision = engine.decide(&formulas, root)?;
                let answer = Answer::new(&question, &formulas, &decision, begun.elapsed());
                print(&answer.shown(&asked, args.json))?;
                status = status.max(if answer.yes { YES } else { NO });
            }
            Err(error) => {
                tell(&complaint(&asked, &error));
                if args.json {
                    print(&report::mistake(&asked, &error))?;
                }
                status = ERROR;
            }
        }
    }
    Ok(status)
}

fn read(question: &Question, asked: &Asked) -> Result<(Formulas, Id), SyntaxError> {
    let tree = parse(&asked.text)?;
    let mut formulas = Formulas::default();
    let root = question.root(&mut formulas, &tree);
    Ok((formulas, root))
}

/// `FILE:LINE:COLUMN: why`, the line, and a caret below the place.
fn complaint(asked: &Asked, error: &SyntaxError) -> String {
    let (column, why, caret) = (error.column, &error.message, error.caret());
    match &asked.place {
        Some((file, line)) => format!("{file}:{line}:{column}: {why}\n{caret}\n"),
        None => format!("tableau: {}:{column}: {why}\n{caret}\n", error.line),
    }
}

fn print(line: &str) -> Result<(), String> {
    let mut out = std::io::stdout();
    let done = writeln!(out, "{line}").and_then(|()| out.flush());
    done.map_err(|error| format!("standard output: {error}"))
}

/// Says something to the person at the terminal. That it has gone must not end the work.
fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
