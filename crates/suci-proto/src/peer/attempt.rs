//! An attempt to open a connection, and the answer to the peer's.

use super::absence::Absence;
use super::connection::{Beginning, End};
use crate::handshake::{AttemptPhase, Opening};
use crate::shared::Promise;
use core::fmt;
use std::net::SocketAddr;
use suci_link::security::Initiator;
use suci_link::time::Instant;
use suci_link::train::Destination;
use suci_link::types::{Epoch, Incarnation, Layers};
use suci_link::wire;

/// An attempt of ours to open a connection.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) opening: Opening,
    /// Where it goes.
    pub(crate) to: SocketAddr,
    /// The index of the present address: the number of changes to another address.
    pub(super) address_index: usize,
    /// The cookie, from COOKIE to INIT, and when it came.
    pub(super) cookie: Option<(wire::Cookie, Instant)>,
    /// The offer of our INIT, once INIT is made.
    pub(super) offer: Option<Offer>,
    /// Number of handshakes in a row that the peer refused because its key is another one.
    pub(super) keys_refused: u32,
    /// ACCEPTs that seemed to answer our INIT and were not authentic.
    pub(super) forged_accepts: u32,
    /// Reports that nobody is where it goes.
    pub(super) absence: Absence,
    /// The INIT carries no messages: one that did got no answer.
    pub(super) small: bool,
}

/// The content of our INIT.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) local: End,
    pub(super) beginning: Beginning,
    /// The incarnation to which the INIT is addressed.
    pub(super) incarnation: Incarnation,
    pub(super) epoch: Epoch,
    /// The layers that the peer may use, as the INIT says.
    pub(super) layers: Layers,
    /// Memory promised to the session that begins if the peer accepts; none if the present one goes
    /// on.
    pub(super) promise: Option<Promise>,
    pub(super) sent_at: Instant,
    /// The INIT carries messages.
    pub(super) rode: bool,
    pub(super) handshake: Handshake,
}

/// The state of a handshake after message 1; `None` in plain mode.
pub(super) struct Handshake(pub(super) Option<Box<dyn Initiator>>);

/// Leaves the keys out.
impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handshake")
    }
}

/// An accepted INIT of the peer: the answer to it and to its repetitions.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) token: u64,
    /// Where the INIT came from. Its cookie proved that address.
    pub(crate) to: Destination,
    pub(crate) bytes: Vec<u8>,
    /// ACCEPT must be sent (again).
    pub(crate) due: bool,
    /// How often it was sent.
    pub(crate) tries: u32,
}

impl Attempt {
    pub(super) fn new(opening: Opening, to: SocketAddr) -> Self {
        Self {
            opening,
            to,
            address_index: 0,
            cookie: None,
            offer: None,
            keys_refused: 0,
            forged_accepts: 0,
            absence: Absence::default(),
            small: false,
        }
    }

    /// Returns true if the attempt waits for a cookie.
    pub(crate) fn is_asking(&self) -> bool {
        *self.opening.phase() == AttemptPhase::Hello
    }
}
