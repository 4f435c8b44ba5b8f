//! Real processes, in namespaces that each test makes for itself.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod commands;
mod crowd;
mod hostile;
mod incast;
mod kill;
mod launch;
mod links;
mod members;
mod modes;
mod network;
mod paths;
mod pause;
mod routes;
mod sealed;
mod snippets;
mod starts;
mod truths;
