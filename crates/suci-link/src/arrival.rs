//! The facts about a received datagram beside its bytes.

use crate::time::Instant;
use crate::train::Destination;
use crate::types::Ecn;
use std::net::{IpAddr, SocketAddr};

/// Addresses, congestion mark and time of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its source address.
    pub from: SocketAddr,
    /// The address of this host that it was sent to; `None` if the driver cannot tell, or if the
    /// socket has a single address. Answers leave from it.
    pub to: Option<IpAddr>,
    /// Its congestion mark.
    pub ecn: Ecn,
    /// When the kernel received it; not later than the `now` with which it is handed over.
    pub at: Instant,
}

impl Arrival {
    /// Returns the destination of an answer.
    #[must_use]
    pub fn origin(&self) -> Destination {
        Destination {
            to: self.from,
            source: self.to,
        }
    }
}
