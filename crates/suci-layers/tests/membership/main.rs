//! Members of a simulated network.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod clusters;
mod hostile;
mod network;
mod vectors;
