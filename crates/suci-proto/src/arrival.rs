//! What the driver knows of a datagram beside its bytes.

use crate::time::Instant;
use crate::transmit::Destination;
use crate::types::Ecn;
use std::net::{IpAddr, SocketAddr};

/// Where, when and how marked a datagram arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its source address.
    pub from: SocketAddr,
    /// The address of this host that it was sent to; `None` if the driver cannot tell, or if the
    /// socket has a single address. Answers leave from it.
    pub to: Option<IpAddr>,
    /// Its congestion mark.
    pub ecn: Ecn,
    /// When the kernel received it; at most the `now` it is handed over with.
    pub at: Instant,
}

impl Arrival {
    /// Where an answer goes.
    pub(crate) fn origin(&self) -> Destination {
        Destination {
            to: self.from,
            source: self.to,
        }
    }
}
