//! The size of a node's socket buffers, and the number of peers that follows from it.

use crate::error::Error;
use crate::node::Node;
use std::fmt;
use suci_net::Backend;
use suci_net::udp::UdpOptions;
use suci_proto::{Engine, ShareStats};

/// Below this many bytes of receive buffer a node is warned: it serves 315 peers with 455 packets
/// between them, which is already little for a busy link.
const SENSIBLE: usize = 2 << 20;

/// The receive buffer as asked for and as granted, in bytes, and the peers that it serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    asked: usize,
    granted: usize,
    pub(crate) peer_limit: u64,
}

impl Budget {
    pub(crate) fn new(options: &UdpOptions, backend: &dyn Backend, engine: &Engine) -> Self {
        Self {
            asked: options.recv_buffer,
            granted: backend.capabilities().recv_buffer,
            peer_limit: engine.peer_limit(),
        }
    }

    /// The budget of a node with another socket beside.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            asked: self.asked,
            granted: self.granted.min(other.granted),
            peer_limit: self.peer_limit + other.peer_limit,
        }
    }

    /// The warning, unless the program itself asked for a small buffer.
    pub(crate) fn warning(self) -> Option<Warning> {
        (self.granted < SENSIBLE && self.granted < self.asked).then_some(Warning::SmallBuffer {
            granted: self.granted,
            asked: self.asked,
            peer_limit: self.peer_limit,
        })
    }
}

/// A property of the system with which a node works, but not well. Its text names the consequence
/// and the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The system grants a receive buffer so small that few peers share few packets.
    SmallBuffer {
        /// Bytes granted, as the kernel charges them.
        granted: usize,
        /// Bytes asked for.
        asked: usize,
        /// Peers that it serves.
        peer_limit: u64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SmallBuffer {
                granted,
                asked,
                peer_limit,
            } => write!(
                f,
                "the socket's receive buffer has only {granted} bytes, which serve {peer_limit} peers and slow \
                 each of them down; as root, before the next start: sysctl -w net.core.rmem_max={}",
                // The kernel doubles the size that it is asked for.
                asked.div_ceil(2)
            ),
        }
    }
}

impl Node {
    /// How many peers the socket's receive buffer serves (1,260 with 8 MiB).
    #[must_use]
    pub fn peer_limit(&self) -> u64 {
        self.fixed.budget.peer_limit
    }

    /// How the receive buffer of each socket is shared out now, and how evenly: a `Node` has one
    /// socket. Looks at every peer.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn share_stats(&self) -> Result<Vec<ShareStats>, Error> {
        Ok(vec![self.enter()?.engine.share_stats()])
    }

    /// Returns the system's setting that keeps the node from working well, and the remedy.
    #[must_use]
    pub fn warning(&self) -> Option<Warning> {
        self.fixed.budget.warning()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(asked: usize, granted: usize) -> Budget {
        Budget {
            asked,
            granted,
            peer_limit: 64,
        }
    }

    #[test]
    fn a_small_buffer_is_warned_of_with_figures_and_remedy() {
        // The size that an untuned Linux grants.
        let warning = budget(8 << 20, 425_984).warning();
        let text = warning.map(|w| w.to_string()).unwrap_or_default();
        for part in [
            "425984 bytes",
            "64 peers",
            "sysctl -w net.core.rmem_max=4194304",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn what_was_asked_for_or_suffices_is_no_cause_for_warning() {
        assert_eq!(budget(100_000, 200_000).warning(), None);
        assert_eq!(budget(8 << 20, 2 << 20).warning(), None);
        assert_eq!(budget(8 << 20, 8 << 20).warning(), None);
    }
}
