//! What packets bring that follow one another and carry messages only.

use super::Inbox;
use crate::wire::{ContiguousPackets, Messages};

impl Inbox {
    /// Takes what the packets behind the first of `packets` carry, as [`on_part`](Self::on_part)
    /// would take one part after the other. One that breaks a rule is not taken: it breaks the rule
    /// again when it is received as the first, and what was taken of it counts once.
    pub(crate) fn on_contiguous(&mut self, packets: &mut ContiguousPackets<'_>) {
        let mut messages = Messages::default();
        loop {
            if let Some((channel, message)) = packets.message()
                && let Some(channel) = self.find(channel).and_then(|p| self.channels.get_mut(p))
            {
                channel.on_contiguous(message, packets);
            }
            let Some(packet) = packets.read_messages(&mut messages) else {
                return;
            };
            if messages.parts().any(|part| self.on_part(part).is_err()) {
                return;
            }
            packets.take(packet);
        }
    }
}
