//! The built command, as one program, since each takes seconds to link.

mod cat;
mod completions;
mod man;
mod run;
mod stat;
mod support;
mod top;
mod usage;
