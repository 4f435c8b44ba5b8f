//! The whole program, from outside.
#![expect(clippy::unwrap_used)] // A test may panic.

mod command;
mod oracle;
mod simulated;
mod verdicts;
