//! Opening a connection: HELLO, COOKIE, INIT, ACCEPT, in the manner of SCTP (RFC 9260 section 5.1).
//!
//! The responder keeps no state until the cookie came back, so that a spoofed address costs it
//! nothing but a count (F01). The parts here know bytes and time, not peers.

mod backlog;
mod cookie;
mod expected;
mod opening;

pub(crate) use backlog::Backlog;
pub(crate) use cookie::{Claim, CookieJar};
pub(crate) use expected::{Expected, Room, Standing};
pub(crate) use opening::{FIRST_WAIT, LONGEST_WAIT, Opening, Phase};
