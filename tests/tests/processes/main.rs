//! Real processes, in namespaces that each test makes for itself.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod hostile;
mod incast;
mod kill;
mod links;
mod modes;
mod network;
mod pause;
