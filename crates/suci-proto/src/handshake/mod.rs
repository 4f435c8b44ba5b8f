//! Opening a connection: HELLO, COOKIE, INIT, ACCEPT, in the manner of SCTP (RFC 9260 section 5.1).
//!
//! The responder keeps no peer until the cookie came back: a spoofed address costs it a count or,
//! if there is no room, one of a bounded number of HELLOs that wait (F01). The parts here know
//! bytes and time, not peers.

mod backlog;
mod cookie;
mod opening;
pub(crate) mod packets;
mod pending_inits;
mod renewal;
mod sources;
mod work;

pub(crate) use backlog::{Backlog, Wait};
pub(crate) use cookie::{Claim, CookieKey};
pub(crate) use opening::{AttemptPhase, CALLER_TIMEOUT, FIRST_WAIT, LONGEST_WAIT, Opening};
pub(crate) use packets::{ArrivedPacket, finish_handshake};
pub(crate) use pending_inits::{InitRoom, PendingInits, Trust};
pub use renewal::Renewal;
pub(crate) use sources::SourcePrefix;
pub(crate) use work::HandshakeWork;
