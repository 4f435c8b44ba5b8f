//! The `suci` command.

mod args;
mod cat;
mod closed;
mod completions;
mod demo;
mod doctor;
mod environment;
mod error;
mod key;
mod log;
mod man;
mod node;
mod output;
mod perf;
mod ping;
mod run;
mod signals;
mod stat;
mod stats;
mod stats_reader;
mod top;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::{Cli, Command};
use crate::error::{Context, Result, tell, tell_in_one_piece};

fn main() -> ExitCode {
    let (name, done) = match Cli::try_parse() {
        Ok(cli) => {
            log::begin(&cli.command);
            (cli.command.name(), run(&cli.command))
        }
        Err(error) => ("suci", explain(&error)),
    };
    match done {
        Ok(status) => status,
        Err(failure) => {
            tell(format_args!("{name}: {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<ExitCode> {
    if command.prints() {
        closed::need_output()?;
    }
    match command {
        Command::Run(args) => run::run(args),
        Command::Ping(args) => ping::run(args),
        Command::Cat(args) => cat::run(args),
        Command::Perf(args) => perf::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Stat(args) => stat::run(args),
        Command::Top(args) => top::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Env(args) => environment::run(args),
        Command::Keygen(args) => key::keygen(args),
        Command::Key(args) => key::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    }
}

/// Prints clap's text: help to standard output, complaints to standard error.
fn explain(error: &clap::Error) -> Result<ExitCode> {
    let mut text = error.render().to_string();
    if error.use_stderr() {
        let words = std::env::args_os().filter_map(|word| word.into_string().ok());
        if error.kind() == ErrorKind::MissingRequiredArgument
            && let Some(remedy) = run::remedy_for(words)
        {
            text = format!("{text}\n{remedy}\n");
        }
        tell_in_one_piece(&text);
    } else {
        closed::need_output()?;
        let mut out = std::io::stdout();
        let done = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        done.context("standard output")?;
    }
    Ok(u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from))
}
