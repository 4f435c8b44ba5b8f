//! What the program decides of its traffic: modes, priorities, and what it can ask, suspension, silence.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod modes;
#[path = "../faults/net.rs"]
mod net;
mod priorities;
mod suspension;
