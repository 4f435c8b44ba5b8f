//! Settings of the program for one peer.

use crate::config::Config;
use suci_channels::scheduler::Priority;
use suci_link::congestion::ControllerChoice;
use suci_link::time::Duration;
use suci_link::wire::Mode;

/// Settings of one peer. They hold for all its sessions and connections until they are changed or
/// the peer is removed from the book. A peer begins with the node's settings ([`Config`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerOptions {
    /// Mode of the traffic to the peer: many bytes, or early answers. The peer is told and adapts.
    /// Default [`Mode::Adaptive`]: derived from the traffic.
    pub mode: Mode,
    /// The rank among peers: packets to a higher one go first, and the program receives its
    /// messages first. Default [`Priority::DEFAULT`].
    pub priority: Priority,
    /// Congestion controller of its connections. A changed one learns the path anew. Default
    /// [`ControllerChoice::Auto`]: by the round trip.
    pub controller: ControllerChoice,
    /// Maximum rate in bytes of UDP payload per second for messages to the peer, including
    /// retransmissions, but at least a packet each second. Acknowledgements and signs of life go on
    /// in any case. Default `None`: only network and receiver are the limit.
    pub rate_cap: Option<u64>,
    /// How long the peer may be silent, while something waits for it or with `keep_alive`, before
    /// it counts as lost: at least 100 ms. Default 10 s.
    pub silence_timeout: Duration,
    /// How long the peer may be silent before its session ends: at least `silence_timeout`. Default
    /// 5 min.
    pub give_up_after: Duration,
    /// Detects the peer's silence also while nothing waits for it: asks it for a sign of life three
    /// times per `silence_timeout`. Needs a connection. Default false.
    pub keep_alive: bool,
    /// Lost messages are sent again only when the program asks for it (`retransmit`), as in classic
    /// user-level protocols. Probes for signs of life go on. When this is switched off, everything
    /// that is not acknowledged is sent again. Default false.
    pub manual_retransmission: bool,
}

impl PeerOptions {
    /// Returns the initial settings of a peer.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            mode: config.mode,
            priority: Priority::DEFAULT,
            controller: config.controller,
            rate_cap: config.rate_cap,
            silence_timeout: config.silence_timeout,
            give_up_after: config.give_up_after,
            keep_alive: config.keep_alive,
            manual_retransmission: false,
        }
    }
}
