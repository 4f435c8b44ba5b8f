//! The ports of a node: which are taken, and by whom.

use super::Address;
use std::collections::{BTreeMap, BTreeSet};

/// The first port that is assigned to a socket whose program names none (as Linux has it).
const FIRST_EPHEMERAL: u16 = 32_768;

/// A port cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortError {
    /// Another socket is bound to it, or a connection joins the same two addresses.
    InUse,
    /// No port is free.
    NoneFree,
}

/// The ports in use.
///
/// A port is bound by at most one socket. Connections that were accepted have their listener's port
/// and do not hold it: a new listener may take it as soon as the old one is closed. A connection
/// without a bound port gets one that no socket is bound to; two connections share it only if their
/// peers differ. A port is free again as soon as its program closed the socket. There is no time to
/// wait (TIME_WAIT of TCP): packets of an earlier connection cannot reach a later one, since the
/// numbers of sockets are not reused.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    bound: BTreeSet<u16>,
    /// The connections that this node opened, and their number by port.
    joined: BTreeSet<(u16, Address)>,
    in_use: BTreeMap<u16, u32>,
    /// The ephemeral port that was assigned last, as its distance from the first.
    last: u16,
}

impl Ports {
    /// Binds a socket to `port`, or to a free one if it is 0. Returns the port.
    ///
    /// # Errors
    /// Another socket is bound to it, or no port is free.
    pub fn bind(&mut self, port: u16) -> Result<u16, PortError> {
        let port = match port {
            0 => self.ephemeral(|ports, port| !ports.in_use.contains_key(&port))?,
            _ => port,
        };
        match self.bound.insert(port) {
            true => Ok(port),
            false => Err(PortError::InUse),
        }
    }

    /// Frees a bound port.
    pub fn unbind(&mut self, port: u16) {
        self.bound.remove(&port);
    }

    /// Notes a connection to `peer` from the bound port, or from one that is chosen if that is 0.
    /// Returns the port.
    ///
    /// # Errors
    /// A connection joins the same two addresses, or no port is free.
    pub fn join(&mut self, port: u16, peer: Address) -> Result<u16, PortError> {
        let port = match port {
            0 => self.ephemeral(|ports, port| !ports.joined.contains(&(port, peer)))?,
            _ => port,
        };
        if !self.joined.insert((port, peer)) {
            return Err(PortError::InUse);
        }
        *self.in_use.entry(port).or_default() += 1;
        Ok(port)
    }

    /// Forgets a connection from `port` to `peer`.
    pub fn part(&mut self, port: u16, peer: Address) {
        if self.joined.remove(&(port, peer))
            && let Some(count) = self.in_use.get_mut(&port)
        {
            *count -= 1;
            if *count == 0 {
                self.in_use.remove(&port);
            }
        }
    }

    fn ephemeral(&mut self, fits: impl Fn(&Self, u16) -> bool) -> Result<u16, PortError> {
        let count = u16::MAX - FIRST_EPHEMERAL;
        for distance in 1..=count {
            let at = self.last.wrapping_add(distance) % count;
            let port = FIRST_EPHEMERAL + at;
            if !self.bound.contains(&port) && fits(self, port) {
                self.last = at;
                return Ok(port);
            }
        }
        Err(PortError::NoneFree)
    }
}
