//! What the driver knows of a datagram beside its bytes.

use crate::time::Instant;
use crate::types::Ecn;
use std::net::SocketAddr;

/// Where, when and how marked a datagram arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its source address.
    pub from: SocketAddr,
    /// Its congestion mark.
    pub ecn: Ecn,
    /// When the kernel received it; at most the `now` it is handed over with.
    pub at: Instant,
}
