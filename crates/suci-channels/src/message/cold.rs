//! The cold channels of one direction.

use std::collections::BTreeMap;
use suci_link::types::ChannelId;

/// Channels of one direction that keep their full state although they are idle. Other idle channels
/// are *cold*: only a few numbers of them are kept. Traffic on so few channels never pays for
/// freezing and restoring. Those of both directions take 45 KiB of a session.
pub(super) const WARM: usize = if cfg!(test) { 2 } else { 64 };

/// The numbers kept of cold channels. Those of one channel lie here: most sessions have one
/// channel, and the smallest node of a B-tree has room for eleven.
#[derive(Debug)]
pub(super) struct ColdChannels<T> {
    one: Option<(ChannelId, T)>,
    others: BTreeMap<ChannelId, T>,
}

impl<T> Default for ColdChannels<T> {
    fn default() -> Self {
        Self {
            one: None,
            others: BTreeMap::new(),
        }
    }
}

impl<T> ColdChannels<T> {
    pub(super) fn get(&self, id: ChannelId) -> Option<&T> {
        match &self.one {
            Some((one, cold)) if *one == id => Some(cold),
            _ => self.others.get(&id),
        }
    }

    pub(super) fn get_mut(&mut self, id: ChannelId) -> Option<&mut T> {
        match &mut self.one {
            Some((one, cold)) if *one == id => Some(cold),
            _ => self.others.get_mut(&id),
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ChannelId, &mut T)> {
        let one = self.one.iter_mut().map(|(id, cold)| (*id, cold));
        one.chain(self.others.iter_mut().map(|(id, cold)| (*id, cold)))
    }

    /// Adds a channel, which is not there yet.
    pub(super) fn insert(&mut self, id: ChannelId, cold: T) {
        if self.one.is_none() {
            self.one = Some((id, cold));
        } else {
            self.others.insert(id, cold);
        }
    }

    pub(super) fn remove(&mut self, id: ChannelId) -> Option<T> {
        match self.one.take_if(|(one, _)| *one == id) {
            Some((_, cold)) => Some(cold),
            None => self.others.remove(&id),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.others.len() + usize::from(self.one.is_some())
    }
}
