//! The built command, as one program, since each takes seconds to link.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod cat;
mod completions;
mod doctor;
mod key;
mod man;
mod run;
mod stat;
mod support;
mod top;
mod usage;
