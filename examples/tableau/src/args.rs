//! What the command takes.

use std::path::PathBuf;

use clap::Parser;

/// Decides whether formulas of linear temporal logic are satisfiable
///
/// Each formula gets one line. A model follows its verdict: the moments of its beginning, and then, after `cycle`,
/// those that are repeated for ever. Propositions that a moment does not name are free.
#[derive(Parser)]
#[command(name = "tableau", version, after_help = LANGUAGE)]
pub(crate) struct Args {
    /// Formulas; without any, and without --file, one from each line of standard input
    #[arg(value_name = "FORMULA")]
    pub(crate) formulas: Vec<String>,

    /// Read one formula from each line; `-` is standard input. Empty lines and those that begin with # are skipped
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
