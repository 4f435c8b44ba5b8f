//! The decision whether a message is announced by RTS.

use super::Outbox;
use crate::message::outgoing::SendLimits;
use suci_link::time::Duration;

/// Bytes that a fast network carries in a nanosecond: 8 Gbit/s.
const FAST: u64 = 1;

/// Bound of messages without RTS, for any path: the receiver allocates memory for an announced
/// message only when it is available, and its program may supply a buffer.
const MOST_UNANNOUNCED: u64 = 4 << 20;

impl Outbox {
    /// Sets the length up to which the peer accepts messages without asking its program, from the
    /// handshake.
    pub fn set_peer_max_message(&mut self, bytes: u64) {
        self.peer_max_message = bytes;
    }

    /// Adapts the threshold to the least round trip, which an answer takes. A channel announces
    /// only one message ahead, so over a long path one large message would be sent in each round
    /// trip. Messages that a fast network carries within a round trip are therefore sent without
    /// RTS, within half of the channel's window and the peer's limit.
    pub fn set_round_trip(&mut self, least: Duration) {
        let nanos = u64::try_from(least.as_nanos()).unwrap_or(u64::MAX);
        self.unannounced = nanos.saturating_mul(FAST).min(MOST_UNANNOUNCED);
    }

    pub(super) fn send_limits(&self) -> SendLimits {
        // A message that may ride on the INIT needs no reserve, since the peer cannot owe a reply
        // yet.
        let below = |reserve: u64| {
            let limit = self.session_limit.saturating_sub(reserve);
            let limit = limit.max(self.limits.ride);
            limit.saturating_sub(self.session_used)
        };
        let reply_reserve = self.limits.reply_reserve;
        SendLimits {
            rts_threshold: self
                .limits
                .rts_threshold
                .max(self.unannounced)
                .min(self.peer_max_message),
            window: self.peer_params.map(|params| params.window),
            session_room: below(reply_reserve.saturating_add(self.limits.group_reserve)),
            group_room: below(reply_reserve),
            reply_room: self.session_limit.saturating_sub(self.session_used),
        }
    }
}
