//! The arguments of the command.

use std::path::PathBuf;

use clap::{Parser, ValueEnum, value_parser};
use suci::FaultSpec;

/// Decides whether formulas of linear temporal logic are satisfiable
///
/// Each formula gets one line. A model follows its verdict: the moments of its beginning, and then,
/// after `cycle`, those that are repeated for ever. Propositions that a moment does not name are
/// free.
#[derive(Parser)]
#[command(name = "tableau", version, after_help = LANGUAGE)]
pub(crate) struct Args {
    /// Formulas; without any, and without --file, one from each line of standard input
    #[arg(value_name = "FORMULA")]
    pub(crate) formulas: Vec<String>,

    /// Read one formula from each line; `-` is standard input. Empty lines and those that begin
    /// with # are skipped
    #[arg(short, long, value_name = "FILE", conflicts_with = "formulas")]
    pub(crate) file: Option<PathBuf>,

    /// Ask whether each formula holds always; if not, show where it does not
    #[arg(long)]
    pub(crate) valid: bool,

    /// Ask whether each formula means the same as this one; if not, show where they differ
    #[arg(long, value_name = "FORMULA", conflicts_with = "valid")]
    pub(crate) equivalent: Option<String>,

    /// Print one JSON object for each formula
    #[arg(long)]
    pub(crate) json: bool,

    /// Whether the processes of a parallel run tell the library what is urgent and what is bulk;
    /// off, all is sent alike
    #[arg(long, value_name = "on|off", default_value = "on", help_heading = PARALLEL)]
    pub(crate) modes: Switch,

    /// Silence after which a process counts as dead, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = value_parser!(u32).range(1..=86_400), help_heading = PARALLEL)]
    pub(crate) patience: u32,

    /// Write what the processes counted to a file, as JSON
    #[arg(long, value_name = "FILE", help_heading = PARALLEL)]
    pub(crate) stats: Option<PathBuf>,

    /// Talk outside of loopback without encryption: the network is trusted
    #[arg(long, help_heading = PARALLEL)]
    pub(crate) plain: bool,

    /// Lose, repeat, reorder, corrupt or delay what is sent, for tests: loss=0.05,dup=0.01,seed=7
    #[arg(long, value_name = "SPEC", help_heading = PARALLEL)]
    pub(crate) faults: Option<FaultSpec>,
}

const PARALLEL: &str =
    "Parallel runs (suci run -n 5 -- tableau ...: process 0 asks and answers, the other four work)";

/// On or off.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

impl Switch {
    pub(crate) fn are_on(self) -> bool {
        self == Self::On
    }
}

const LANGUAGE: &str = "\
Operators, tightest first:
  !  ~  not      X (next)  F  <> (some day)  G  [] (ever after)
  U (until)  R  V (release)  W (weak until)  M (strong release), from the right
  &  &&  /\\  and
  ^  xor
  |  ||  \\/  or
  ->  =>, from the right
  <->  <=>
Constants are true, 1, false, 0. Propositions are names (p, req.1, x') or \"quoted\". The usual Unicode signs work,
too. Letters of X, F and G may stand together: GF p.

Exit status: 0 if every answer was yes (satisfiable, valid, equivalent), 1 if one was no, 2 after an error.";
