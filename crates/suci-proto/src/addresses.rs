//! The addresses at which a peer may be.

use std::net::SocketAddr;

/// Maximum number of addresses that are kept of one peer. A name has several if its host is in
/// several networks or has both families of IP.
pub const MAX_ADDRESSES: usize = 8;

/// Addresses of one peer, in the order in which they are tried: all different, at most
/// [`MAX_ADDRESSES`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses(Vec<SocketAddr>);

impl Addresses {
    /// Returns the addresses, the first to be tried first.
    #[must_use]
    pub fn as_slice(&self) -> &[SocketAddr] {
        &self.0
    }

    /// Returns the address that is tried first.
    #[must_use]
    pub fn first(&self) -> Option<SocketAddr> {
        self.0.first().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, address: SocketAddr) -> bool {
        self.0.contains(&address)
    }

    /// Adds an address, unless it is there or the maximum is reached.
    pub(crate) fn add(&mut self, address: SocketAddr) {
        if self.0.len() < MAX_ADDRESSES && !self.0.contains(&address) {
            self.0.push(address);
        }
    }
}

impl From<SocketAddr> for Addresses {
    fn from(address: SocketAddr) -> Self {
        Self(vec![address])
    }
}

/// Addresses beyond [`MAX_ADDRESSES`] are omitted.
impl FromIterator<SocketAddr> for Addresses {
    fn from_iter<I: IntoIterator<Item = SocketAddr>>(all: I) -> Self {
        let mut addresses = Self::default();
        all.into_iter().for_each(|address| addresses.add(address));
        addresses
    }
}
