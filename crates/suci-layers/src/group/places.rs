//! Memory for messages of groups: the data of the operations that await them.

use super::state::{GroupState, Host, Purpose};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use suci_proto::message::IncomingInfo;
use suci_proto::types::Source;
use suci_proto::{Place, Placement, ReceiveBuffer};

/// The groups of a driver whose operations are under way. The engine asks it for the memory of
/// their messages.
#[derive(Debug)]
pub struct GroupPlaces<H: Host>(Mutex<Vec<Arc<GroupState<H>>>>);

impl<H: Host> Default for GroupPlaces<H> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<H: Host> GroupPlaces<H> {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<GroupState<H>>>> {
        // No code between lock and unlock leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, group: Arc<GroupState<H>>) {
        self.lock().push(group);
    }

    pub(super) fn remove(&self, group: &Arc<GroupState<H>>) {
        self.lock().retain(|one| !Arc::ptr_eq(one, group));
    }
}

impl<H: Host<Error: Send> + Send + Sync> Placement for GroupPlaces<H> {
    fn place(&self, from: Source, message: &IncomingInfo) -> Place {
        let groups = self.lock();
        let is_of = |group: &&Arc<GroupState<H>>| group.channel(Purpose::Data) == message.channel;
        let mut groups = groups.iter().filter(is_of);
        let place = groups.find_map(|group| group.place_of(from, message));
        place.map_or(Place::Own, |place| Place::Named(ReceiveBuffer::lent(place)))
    }
}
