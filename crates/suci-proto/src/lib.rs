//! The Suci protocol as pure state machines: no sockets, clocks, threads or global state.
#![forbid(unsafe_code)]

pub mod ack;
pub mod congestion;
pub mod credit;
pub mod limits;
pub mod message;
pub mod pacer;
pub mod pmtu;
pub mod ranges;
pub mod recovery;
pub mod time;
pub mod timer;
pub mod types;
pub mod wire;
