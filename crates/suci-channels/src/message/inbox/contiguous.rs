//! Receiving consecutive packets that carry messages only.

use super::Inbox;
use suci_link::wire::{ContiguousPackets, Messages};

impl Inbox {
    /// Handles the packets behind the first of `packets`, as [`on_part`](Self::on_part) would
    /// handle their parts one by one. A packet that breaks a rule is left: it breaks the rule again
    /// when it is handled as the first of the rest. The parts of it that were handled count once.
    pub fn on_contiguous(&mut self, packets: &mut ContiguousPackets<'_>) {
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
