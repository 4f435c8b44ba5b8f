//! Channels of the outbox without messages: few numbers are left of each.
//!
//! Some stay as they are, so that what goes to and fro on a few channels pays for nothing here.

use super::Outbox;
use crate::message::WARM;
use crate::message::outgoing::OutgoingChannel;
use crate::message::places;
use crate::types::ChannelId;

impl Outbox {
    /// Takes up a channel that is cold.
    #[inline(never)]
    pub(super) fn thaw(&mut self, id: ChannelId) -> Option<usize> {
        let cold = self.cold.remove(&id)?;
        Some(self.place(OutgoingChannel::thawed(id, cold)))
    }

    /// Gives a channel its place.
    pub(super) fn place(&mut self, channel: OutgoingChannel) -> usize {
        let id = channel.id();
        let place = self.channels.insert(channel);
        self.by_id.insert(id, place);
        self.turns.set_priority(place, self.priority(id));
        self.remember(id, place);
        place
    }

    /// The channel may have nothing to do any more: beyond [`WARM`] it is cold then.
    #[inline]
    pub(super) fn cool(&mut self, place: usize) {
        if self.channels.len() > WARM {
            self.freeze(place);
        }
    }

    /// Makes a channel cold. False if it has something to do.
    pub(super) fn freeze(&mut self, place: usize) -> bool {
        let idle = !self.turns.is_listed(place)
            && self
                .channels
                .get(place)
                .is_some_and(OutgoingChannel::is_idle);
        if let Some(channel) = idle.then(|| self.vacate(place)).flatten() {
            self.cold.insert(channel.id(), channel.frozen());
        }
        idle
    }

    /// Gives back places that were needed once. Places change: not while anybody holds one.
    pub(super) fn tidy(&mut self) {
        let (channels, by_id) = (&mut self.channels, &mut self.by_id);
        let Some(moved) = places::give_back(channels, by_id, &mut self.turns, OutgoingChannel::id)
        else {
            return;
        };
        self.session_parked = moved.all(self.session_parked.drain(..));
        self.to_report = moved.all(self.to_report.drain(..));
        self.recent = None;
    }
}
