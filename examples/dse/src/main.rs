//! The applications of the DSE paper: knight's tours, Othello, a matrix product, successive
//! over-relaxation, and the DCT of an image. They run over Suci, and over TCP in five topologies.

mod args;
mod dct;
mod farm;
mod knights;
mod matrix;
mod othello;
mod over_suci;
mod process;
mod program;
mod progress;
mod sor;
mod tcp;
mod topology;
mod traffic;
mod transport;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Chosen, Command};
use crate::program::run;

/// Exit status after an error.
const ERROR: u8 = 1;

fn main() -> ExitCode {
    let is_first = matches!(suci::env::id(), Ok(None | Some(suci::NodeId(0))));
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(error) if is_first => error.exit(),
        // Process 0 was started in the same way, and says it.
        Err(error) => return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(ERROR)),
    };
    let common = &command.common;
    let done = match &command.program {
        Chosen::Knights(program) => run(program, common),
        Chosen::Othello(program) => run(program, common),
        Chosen::Matrix(program) => run(program, common),
        Chosen::Sor(program) => run(program, common),
        Chosen::Dct(program) => run(program, common),
        Chosen::Burst(program) => run(program, common),
        Chosen::PingPong(program) => run(program, common),
    };
    let Err(failure) = done else {
        return ExitCode::SUCCESS;
    };
    // In one piece: all processes write to the same pipe.
    let line = format!("dse: {failure}\n");
    eprint!("{line}");
    ExitCode::from(ERROR)
}
