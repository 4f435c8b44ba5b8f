//! The facts about a received datagram beside its bytes.

use std::net::{IpAddr, SocketAddr};
use suci_link::time::Instant;
use suci_link::train::Destination;
use suci_link::types::Ecn;

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
    pub(crate) fn origin(&self) -> Destination {
        Destination {
            to: self.from,
            source: self.to,
        }
    }
}
