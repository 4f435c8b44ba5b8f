//! The `tableau` command.

mod args;
mod input;
mod progress;
mod report;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use tableau::{Formulas, Id, SyntaxError, decide, parse};

use crate::args::Args;
use crate::input::Asked;
use crate::progress::Progress;
use crate::report::{Answer, Question};

/// Every answer was yes.
const YES: u8 = 0;
/// Some answer was no.
const NO: u8 = 1;
/// Something could not be asked or answered.
const ERROR: u8 = 2;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(status) => ExitCode::from(status),
        Err(problem) => {
            tell(&format!("tableau: {problem}\n"));
            ExitCode::from(ERROR)
        }
    }
}

/// Answers for one formula after the other. One that is none does not keep the others from being answered.
fn run(args: &Args) -> Result<u8, String> {
    let question = Question::new(args)?;
    let mut status = YES;
    for asked in input::formulas(args)? {
        let asked = asked?;
        match answer(&question, &asked) {
            Ok(answer) => {
                print(&answer.shown(&asked, args.json))?;
                status = status.max(if answer.yes { YES } else { NO });
            }
            Err(error) => {
                tell(&complaint(&asked, &error));
                status = ERROR;
            }
        }
    }
    Ok(status)
}

fn answer(question: &Question, asked: &Asked) -> Result<Answer, SyntaxError> {
    let begun = Instant::now();
    let tree = parse(&asked.text)?;
    let mut formulas = Formulas::default();
    let root: Id = question.root(&mut formulas, &tree);
    let mut progress = Progress::new();
    let decision = decide(&formulas, root, |graph| progress.look(graph));
    progress.finish();
    Ok(Answer::new(question, &formulas, &decision, begun.elapsed()))
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
