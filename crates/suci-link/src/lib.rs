//! One connection of Suci, as a pure state machine: no sockets, clocks, threads. [`link`] composes
//! its parts:
//!
//! | part | question it answers |
//! |---|---|
//! | [`wire`] | what do these bytes say? |
//! | [`recovery`] | what arrived, what is lost, when to probe? |
//! | [`congestion`], [`pacer`], [`rate_cap`] | how much may be in flight, how fast may it go? |
//! | [`ack`] | what did we receive, and when do we say so? |
//! | [`pmtu`] | how large may a packet be? |
//! | [`credit`] | what has the peer's socket room for? |
//! | [`security`] | under which key is a packet sealed? |
//! | [`train`] | which packets are under construction? |
//!
//! Each takes values and `now` and returns decisions. None knows of other peers.
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as suci_link;

/// A crate of its own cannot be used here: it would know another compilation of this one.
#[cfg(test)]
#[expect(dead_code, unreachable_pub, reason = "made for other crates, too")]
#[path = "../../../tests/toy-cipher/src/lib.rs"]
mod toy_cipher;

pub mod ack;
pub mod arrival;
pub mod congestion;
pub mod credit;
pub mod limits;
pub mod link;
pub mod pacer;
#[cfg(suci_plant)]
pub mod plant;
pub mod pmtu;
pub mod ranges;
pub mod rate_cap;
pub mod recent_max;
pub mod recovery;
pub mod security;
pub mod time;
pub mod train;
pub mod types;
pub mod wire;

/// Returns true if this fault is planted.
#[inline(always)]
#[must_use]
pub fn planted(_name: &str) -> bool {
    #[cfg(suci_plant)]
    return crate::plant::active(_name);
    #[cfg(not(suci_plant))]
    false
}
