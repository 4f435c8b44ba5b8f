//! Messages that are accepted outside: a program that sends many that are alike is lent the room for them, and looks neither
//! peer nor channel up for each.

use super::Engine;
use crate::message::{Held, Lease};
use crate::time::Instant;
use crate::types::{ChannelId, NodeId};
use crate::wire::Mode;

impl Engine {
    /// Lends room for messages like the last one that was accepted for `node` on this channel, if that was a small one without
    /// a header like the one before it, and none of them is to leave at once ([`Mode::Response`]). The lease accepts what
    /// [`Engine::send_small`] would. Before anything else is asked of the engine it is to be given
    /// [back](Self::give_back): only then it knows of them.
    pub fn lend(&mut self, node: NodeId, channel: ChannelId) -> Option<Lease> {
        let peer = self.willing(node).ok()?.peer;
        if peer.wish == Mode::Response {
            return None;
        }
        peer.session.outbox.lend(channel)
    }

    /// Takes back what was lent for `node`, with what it accepted. The time matters as it does to [`Engine::send`].
    pub fn give_back(&mut self, now: Instant, node: NodeId, lease: Lease) {
        let accepted = lease.accepted();
        let Ok(willing) = self.willing(node) else {
            debug_assert!(
                false,
                "whom it was lent for takes messages until it is back"
            );
            return;
        };
        willing.peer.session.outbox.give_back(lease);
        if accepted != Held::default() {
            willing.on_queued(now, accepted);
        }
    }
}
