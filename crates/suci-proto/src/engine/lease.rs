//! Messages that are accepted outside: a program that sends many that are alike is lent the room
//! for them, and looks neither peer nor channel up for each.

use super::Engine;
use crate::message;
use crate::message::{Held, SmallOutgoing};
use crate::time::Instant;
use crate::types::{ChannelId, MessageNumber, NodeId};
use crate::wire::Mode;

/// Room for messages to one peer that are like the last one, for who accepts them without the
/// engine.
#[must_use = "dropped, it takes messages along that the engine has accepted"]
#[derive(Debug)]
pub struct Lease {
    node: NodeId,
    room: message::ChannelLease,
}

impl Lease {
    /// For whom it was lent.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Accepts a message and returns its number. None, and nothing done, if it is not like the
    /// others, or there is no room for more.
    #[inline(always)]
    pub fn push(&mut self, message: &SmallOutgoing<'_>) -> Option<MessageNumber> {
        self.room.push(message)
    }

    /// Messages that were accepted, and their bytes.
    #[must_use]
    pub fn accepted(&self) -> Held {
        self.room.accepted()
    }
}

impl Engine {
    /// Lends room for messages like the last one that was accepted for `node` on this channel, if
    /// that was a small one without a header like the one before it, and none of them is to leave
    /// at once ([`Mode::Response`]). The lease accepts what [`Engine::send_small`] would. Before
    /// anything else is asked of the engine it is to be given [back](Self::give_back): only then it
    /// knows of them.
    pub fn lend(&mut self, node: NodeId, channel: ChannelId) -> Option<Lease> {
        let peer = self.willing(node).ok()?.peer;
        if peer.options.mode == Mode::Response {
            return None;
        }
        let room = peer.session.outbox.lend(channel)?;
        Some(Lease { node, room })
    }

    /// Takes back what was lent, with what it accepted. The time matters as it does to
    /// [`Engine::send`].
    pub fn give_back(&mut self, now: Instant, Lease { node, room }: Lease) {
        let accepted = room.accepted();
        let Ok(willing) = self.willing(node) else {
            debug_assert!(
                false,
                "whom it was lent for takes messages until it is back"
            );
            return;
        };
        willing.peer.session.outbox.give_back(room);
        if accepted != Held::default() {
            willing.on_queued(now, accepted);
        }
    }
}
