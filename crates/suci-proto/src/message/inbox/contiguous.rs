//! What packets bring that follow one another and carry messages only.

use super::Inbox;
use crate::types::ProtocolError;
use crate::wire::{ContiguousPackets, Messages, PacketPart};

impl Inbox {
    /// Takes what the packets of `run` carry, as [`on_run`](Self::on_run) and
    /// [`on_frag`](Self::on_frag) would take one part after the other.
    ///
    /// # Errors
    /// As `on_frag`, for the newest packet.
    pub(crate) fn on_contiguous<'a>(
        &mut self,
        run: &mut ContiguousPackets<'a>,
    ) -> Result<(), ProtocolError> {
        let mut messages = Messages::default();
        loop {
            if let Some((channel, message)) = run.message()
                && let Some(channel) = self.find(channel).and_then(|p| self.channels.get_mut(p))
            {
                channel.on_contiguous(message, run);
            }
            if !run.next_messages(&mut messages) {
                return Ok(());
            }
            for part in messages.parts() {
                match part {
                    PacketPart::Run(run) => self.on_run(run)?,
                    PacketPart::Frag(frag) => self.on_frag(frag)?,
                }
            }
        }
    }
}
