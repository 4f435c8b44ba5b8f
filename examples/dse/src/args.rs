//! The arguments of the command.

use clap::builder::RangedI64ValueParser;
use clap::{Args, Parser, Subcommand};

use crate::dct::Dct;
use crate::knights::Knights;
use crate::matrix::Matrix;
use crate::othello::Othello;
use crate::process::Choice;
use crate::sor::Sor;
use crate::traffic::{Burst, PingPong};

const EXAMPLES: &str = "\
Examples:
  dse knights 6 6                                   # one process
  suci run -n 4 -- dse knights 6 6 --check
  suci run -n 4 -- dse sor --transport tcp-ring";

/// Parallel programs over Suci, and over TCP in five topologies
#[derive(Parser)]
#[command(name = "dse", version, after_help = EXAMPLES)]
pub(crate) struct Command {
    #[command(subcommand)]
    pub(crate) program: Chosen,

    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args)]
pub(crate) struct Common {
    /// The carrier of the messages. TCP connects the processes in a topology, and those between two
    /// that are not connected forward
    #[arg(long, global = true, default_value = "suci", value_name = "NAME")]
    pub(crate) transport: Choice,

    /// Compare the result with that of one process
    #[arg(long, global = true)]
    pub(crate) check: bool,

    /// Print one JSON object: the result, seconds, network sockets of a process, and the messages
    /// of up to 16, 32, 128, 1024 and more bytes
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum Chosen {
    Knights(Knights),
    Othello(Othello),
    Matrix(Matrix),
    Sor(Sor),
    Dct(Dct),
    Burst(Burst),
    #[command(name = "pingpong")]
    PingPong(PingPong),
}

/// A whole number within these bounds.
pub(crate) fn whole(least: i64, most: i64) -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(least..=most)
}
