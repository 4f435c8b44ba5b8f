//! The `suci` command.

mod args;
mod cat;
mod closed;
mod demo;
mod error;
mod node;
mod output;
mod perf;
mod ping;
mod run;
mod sight;
mod signals;
mod stat;
mod stats;
mod top;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::error::tell;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (name, done) = match &cli.command {
        Command::Run(args) => ("run", run::run(args)),
        Command::Ping(args) => ("ping", ping::run(args)),
        Command::Cat(args) => ("cat", cat::run(args)),
        Command::Perf(args) => ("perf", perf::run(args)),
        Command::Demo(args) => ("demo", demo::run(args)),
        Command::Stat(args) => ("stat", stat::run(args)),
        Command::Top(args) => ("top", top::run(args)),
    };
    match done {
        Ok(status) => status,
        Err(failure) => {
            tell(format_args!("suci {name}: {failure}"));
            ExitCode::FAILURE
        }
    }
}
