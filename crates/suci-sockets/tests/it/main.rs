//! Sockets between real nodes on loopback.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod descriptors;
mod ends;
mod many;
mod messages;
mod nodes;
mod streams;
