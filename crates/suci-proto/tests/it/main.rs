//! Tests of whole engines in virtual time, as one program, since each program takes seconds to
//! link.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod absence;
mod calls;
mod cancel;
mod engine;
mod itself;
mod log;
mod modes;
mod net;
mod newcomers;
mod page;
mod pair;
mod placement;
mod priorities;
mod reach;
mod room;
mod select;
mod steering;
mod suspension;
mod vectors;
mod waits;
