//! Which messages ask before they are sent.

use super::Outbox;
use crate::message::outgoing::Terms;
use crate::time::Duration;

/// Bytes that a fast network carries in a nanosecond: 8 Gbit/s.
const FAST: u64 = 1;

/// However long the path, longer messages ask: the memory of a message that asks is given when
/// there is some, and its program may supply it.
const MOST_UNASKED: u64 = 4 << 20;

impl Outbox {
    /// The handshake told how long a message may be that the peer takes without asking its program.
    pub fn set_peer_max_message(&mut self, bytes: u64) {
        self.peer_max_message = bytes;
    }

    /// An answer takes so long. A channel asks for one message ahead, no more, so over a long path
    /// large ones would go one in a round trip. Those that a fast network carries in the meantime
    /// go without asking, as far as half of the channel's window and the peer's limit allow.
    pub fn set_round_trip(&mut self, least: Duration) {
        let nanos = u64::try_from(least.as_nanos()).unwrap_or(u64::MAX);
        self.unasked = nanos.saturating_mul(FAST).min(MOST_UNASKED);
    }

    pub(super) fn terms(&self) -> Terms {
        let unreserved = self.session_limit.saturating_sub(self.limits.reply_reserve);
        // A message that may ride on INIT needs no reserve: the peer cannot owe a reply yet.
        let unreserved = unreserved.max(self.limits.ride);
        Terms {
            rts_threshold: self
                .limits
                .rts_threshold
                .max(self.unasked)
                .min(self.peer_max_message),
            window: self.window,
            session_room: unreserved.saturating_sub(self.session_used),
            reply_room: self.session_limit.saturating_sub(self.session_used),
        }
    }
}
