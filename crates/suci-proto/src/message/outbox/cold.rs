//! Channels of the outbox without messages: few numbers are left of each.
//!
//! Some stay as they are, so that what goes to and fro on a few channels pays for nothing here.

use super::Outbox;
use crate::message::WARM;
use crate::message::outgoing::Channel;
use crate::types::ChannelId;
use std::collections::BTreeMap;

/// Places for channels are given back once they are so many times [`WARM`], and a quarter of them
/// is used.
const SPACIOUS: usize = 8 * WARM;

impl Outbox {
    /// Takes up a channel that is cold.
    #[inline(never)]
    pub(super) fn thaw(&mut self, id: ChannelId) -> Option<usize> {
        let cold = self.cold.remove(&id)?;
        Some(self.place(Channel::thawed(id, cold)))
    }

    /// Gives a channel its place.
    pub(super) fn place(&mut self, channel: Channel) -> usize {
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
        let idle =
            !self.turns.is_listed(place) && self.channels.get(place).is_some_and(Channel::is_idle);
        if let Some(channel) = idle.then(|| self.vacate(place)).flatten() {
            self.cold.insert(channel.id(), channel.frozen());
        }
        idle
    }

    /// Gives back places that were needed once. Places change: not while anybody holds one.
    pub(super) fn tidy(&mut self) {
        let places = self.channels.capacity();
        if places < SPACIOUS || self.channels.len() > places / 4 {
            return;
        }
        let old = core::mem::take(&mut self.channels);
        let mut turns = core::mem::take(&mut self.turns);
        let mut moved = BTreeMap::new();
        self.by_id.clear();
        for (from, channel) in old {
            let id = channel.id();
            let to = self.channels.insert(channel);
            self.by_id.insert(id, to);
            self.turns.set_priority(to, turns.priority(from));
            moved.insert(from, to);
        }
        while let Some(from) = turns.front() {
            turns.drop_front();
            moved.get(&from).iter().for_each(|to| {
                self.turns.add(**to);
            });
        }
        let parked = self.session_parked.iter();
        self.session_parked = parked.filter_map(|from| moved.get(from).copied()).collect();
        let to_report = self.to_report.iter();
        self.to_report = to_report
            .filter_map(|from| moved.get(from).copied())
            .collect();
        self.recent = None;
    }
}
