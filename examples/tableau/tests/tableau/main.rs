//! The whole program, from outside.
#![expect(clippy::unwrap_used)] // A test may panic.

mod command;
mod oracle;
mod processes;
mod simulated;
mod verdicts;
