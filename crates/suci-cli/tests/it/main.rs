//! The built command, as one program, since each takes seconds to link.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod cat;
mod completions;
mod container;
mod doctor;
mod environment;
mod hosts;
mod key;
mod listen;
mod man;
mod run;
mod stat;
mod support;
mod top;
mod usage;
