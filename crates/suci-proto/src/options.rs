//! What a program decides about one peer.

use crate::config::Config;
use crate::congestion::ControllerChoice;
use crate::time::Duration;
use crate::turns::Priority;
use crate::wire::Mode;

/// Settings of one peer. They hold for all its sessions and connections until they are changed or
/// the peer is removed from the book. A peer begins with the node's ([`Config`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerOptions {
    /// How traffic to the peer flows: many bytes, or early answers. The peer is told and does its
    /// part. Default [`Mode::Adaptive`]: as the traffic shows.
    pub mode: Mode,
    /// The rank among peers: packets to a higher one go first, and the program receives its
    /// messages first. Default [`Priority::DEFAULT`].
    pub priority: Priority,
    /// Which congestion controller its connections use. A changed one learns the path anew.
    /// Default [`ControllerChoice::Auto`]: by the round trip.
    pub controller: ControllerChoice,
    /// Bytes of UDP payload per second that messages to the peer take at most, what is sent again
    /// included, but at least a packet each second. Acknowledgements and signs of life go on in any
    /// case. Default `None`: whatever network and receiver take.
    pub rate_cap: Option<u64>,
    /// How long the peer may be silent, while something waits for it or with `keep_alive`, before
    /// it counts as lost: at least 100 ms. Default 10 s.
    pub silence_timeout: Duration,
    /// How long the peer may be silent before its session ends: at least `silence_timeout`. Default
    /// 5 min.
    pub give_up_after: Duration,
    /// Notices the peer's silence when nothing waits for it, too: asks it for a sign of life three
    /// times per `silence_timeout`. Needs a connection. Default false.
    pub keep_alive: bool,
    /// Lost messages are sent again only when the program says so (`retransmit`): the classic of
    /// user-level protocols. Probes for signs of life go on. When this is switched off, everything
    /// that is not acknowledged is sent again. Default false.
    pub manual_retransmission: bool,
}

impl PeerOptions {
    /// What a peer begins with.
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
