//! Messages that are accepted outside of the engine: a program that sends many similar messages
//! borrows room for them, and looks up neither peer nor channel for each.

use super::Engine;
use crate::lease::Lease;
use suci_channels::message::Held;
use suci_link::time::Instant;
use suci_link::types::{ChannelId, NodeId};
use suci_link::wire::Mode;

impl Engine {
    /// Lends room for messages like the last one that was accepted for `node` on this channel.
    /// Returns `None` unless that was a small message without a header, like the one before it.
    /// Returns `None` also if messages must leave at once ([`Mode::Response`]). The lease accepts
    /// the messages that [`Engine::send_small`] would. Give it [back](Self::give_back) before any
    /// other call of the engine, which only then knows of these messages.
    pub fn lend(&mut self, node: NodeId, channel: ChannelId) -> Option<Lease> {
        let peer = self.sending_peer(node).ok()?.peer;
        if peer.options.mode == Mode::Response {
            return None;
        }
        let room = peer.session.outbox.lend(channel)?;
        Some(Lease { node, room })
    }

    /// Takes a lease back with the messages that it accepted. `now` serves as for [`Engine::send`].
    pub fn give_back(&mut self, now: Instant, Lease { node, room }: Lease) {
        let accepted = room.accepted();
        let Ok(sending) = self.sending_peer(node) else {
            debug_assert!(false, "the peer takes messages while its lease is out");
            return;
        };
        sending.peer.session.outbox.give_back(room);
        if accepted != Held::default() {
            sending.on_queued(now, accepted);
        }
    }
}
