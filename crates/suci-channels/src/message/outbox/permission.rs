//! The layers that the peer permits: it says in the handshake which ones this node may use.

use super::Outbox;
use crate::message::{Completion, NOT_PERMITTED, Outcome};
use suci_link::types::{ChannelId, Layer, Layers};

impl Outbox {
    /// Sets the layers that the peer permits. With the first connection of the session, messages
    /// that wait on channels of other layers are not delivered: nothing of them was sent. A later
    /// one never permits less (the session ends instead).
    pub fn set_permitted(&mut self, layers: Layers, is_first: bool) {
        self.peer_params.get_or_insert_default().permitted = layers;
        if is_first && layers != Layers::ALL {
            // A channel without messages is not cold before the first of them was sent.
            let denied = self.by_id.keys().filter(|id| !layers.permits(id.layer()));
            let denied: Vec<ChannelId> = denied.copied().collect();
            denied
                .into_iter()
                .for_each(|id| self.deny(id, NOT_PERMITTED));
            self.compact();
        }
    }

    /// Returns the layers of which messages may be sent, as far as it is known.
    pub fn permitted(&self) -> Layers {
        self.peer_params
            .map_or(Layers::ALL, |params| params.permitted)
    }

    /// Returns true if messages of this layer may be sent, as far as it is known.
    pub fn permits(&self, layer: Layer) -> bool {
        self.permitted().permits(layer)
    }

    /// Notes that the program learns that the peer does not permit this layer. Returns false if it
    /// learned it in this session before.
    pub fn note_denied(&mut self, layer: Layer) -> bool {
        let params = self.peer_params.get_or_insert_default();
        let is_new = !params.denied.permits(layer);
        params.denied = params.denied.with(layer);
        is_new
    }

    /// Removes a channel of which nothing was sent, as if it had never been opened. Its messages
    /// are not delivered, for this reason.
    pub(super) fn deny(&mut self, id: ChannelId, reason: u64) {
        let Some(index) = self.find(id) else {
            return;
        };
        let sum = self.sum_of(index, id);
        let Some(mut channel) = self.vacate(index) else {
            return;
        };
        let (held, numbers) = (channel.queue.held(), channel.queue.end_number());
        self.queued.change(sum, |all| all.minus(held));
        let void = numbers.saturating_sub(held.messages);
        self.voids = self.voids.saturating_sub(void);
        self.accepted = self.accepted.saturating_sub(held.messages);
        self.opened = self.opened.saturating_sub(1);
        self.count_class(self.priority(id), -1);
        self.deadlines.retain(|(_, channel, _)| *channel != id);
        self.fins.retain(|listed| *listed != id);
        let mut messages = Vec::new();
        channel.end_all(&mut messages);
        self.completions
            .extend(messages.into_iter().map(|message| Completion {
                outcome: Outcome::NotDelivered,
                reason: Some(reason),
                ..message
            }));
    }
}
