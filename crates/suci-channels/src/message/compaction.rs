//! Compacts the slab of channels once most of its indices are unused.

use super::cold::WARM;
use crate::scheduler::Scheduler;
use slab::Slab;
use std::collections::BTreeMap;
use suci_link::types::ChannelId;

/// Slabs of at least so many indices are compacted once at most a quarter of the indices is used.
const SPACIOUS: usize = 8 * WARM;

/// The new index of each channel by its old index.
pub(super) struct Moved(BTreeMap<usize, usize>);

impl Moved {
    /// Returns the new indices of channels.
    pub(super) fn all<List: FromIterator<usize>>(
        &self,
        indices: impl IntoIterator<Item = usize>,
    ) -> List {
        let now = |from| self.0.get(&from).copied();
        indices.into_iter().filter_map(now).collect()
    }
}

/// Moves the channels to the first indices if most indices are unused. Listed channels keep their
/// order in the scheduler.
pub(super) fn compact<Channel>(
    channels: &mut Slab<Channel>,
    by_id: &mut BTreeMap<ChannelId, usize>,
    scheduler: &mut Scheduler,
    id_of: impl Fn(&Channel) -> ChannelId,
) -> Option<Moved> {
    let indices = channels.capacity();
    if indices < SPACIOUS || channels.len() > indices / 4 {
        return None;
    }
    let old = core::mem::take(channels);
    let mut old_scheduler = core::mem::take(scheduler);
    let mut moved = BTreeMap::new();
    by_id.clear();
    for (from, channel) in old {
        let id = id_of(&channel);
        let to = channels.insert(channel);
        by_id.insert(id, to);
        scheduler.set_priority(to, old_scheduler.priority(from));
        moved.insert(from, to);
    }
    while let Some(from) = old_scheduler.front() {
        old_scheduler.drop_front();
        moved.get(&from).iter().for_each(|to| {
            scheduler.add(**to);
        });
    }
    Some(Moved(moved))
}
