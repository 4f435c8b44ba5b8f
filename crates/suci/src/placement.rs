//! Memory that a node names for messages as they begin: the buffer of a call that receives into it,
//! and that of one-sided and collective operations.

use crate::group::Waiting;
use crate::lent::{LentBytes, LentPlace, Loan};
use crate::matching::MatchingState;
use crate::shared::Sleepers;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use suci_layers::group::GroupPlaces;
use suci_layers::matching::MatchingService;
use suci_layers::remote::{Layer, Memory, OperationId, Regions, SharedLayer};
use suci_proto::message::IncomingInfo;
use suci_proto::types::{NodeId, Source};
use suci_proto::{Place, Placement, ReceiveBuffer};

/// The memory that a node may name.
#[derive(Debug)]
pub(crate) struct Places {
    /// A call lends its buffer, so that it is worth taking the lock.
    lends: AtomicBool,
    buffer: Mutex<CallBuffer>,
    pub(crate) remote: SharedLayer,
    pub(crate) groups: Arc<GroupPlaces<Waiting>>,
    pub(crate) matching: MatchingService,
    /// The receives of the node, and those who wait for them.
    pub(crate) matched: Arc<MatchingState>,
    /// Threads that wait for one-sided operations of a shared node.
    pub(crate) remote_waiters: Sleepers<AwaitedOfLayer>,
}

/// The thing that a thread waits for at the layer of one-sided operations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AwaitedOfLayer {
    /// Room for a request.
    Room,
    Result(OperationId),
    /// A change of a region by another node.
    Change,
}

/// The buffer of the call that receives now, if one does.
#[derive(Debug, Default)]
struct CallBuffer {
    bytes: Option<Arc<LentBytes>>,
    /// The sender of the message that comes into it.
    taken_by: Option<NodeId>,
}

impl Places {
    /// The memory of a shard of a node with these regions and receives.
    pub(crate) fn new(regions: Regions, matched: Arc<MatchingState>) -> Self {
        Self {
            lends: AtomicBool::new(false),
            buffer: Mutex::default(),
            remote: SharedLayer::new(regions),
            groups: Arc::default(),
            matching: MatchingService::new(Arc::clone(&matched.table)),
            matched,
            remote_waiters: Sleepers::new(),
        }
    }

    /// One-sided operations. The engine locks them too, when a message begins.
    pub(crate) fn remote(&self) -> MutexGuard<'_, Layer> {
        self.remote.lock()
    }

    /// Wakes the threads that wait for one-sided operations and may go on. Call it after the layer
    /// was served.
    pub(crate) fn wake_waiters(&self) {
        self.remote_waiters.wake_those(|awaited| match awaited {
            AwaitedOfLayer::Room | AwaitedOfLayer::Change => true,
            AwaitedOfLayer::Result(operation) => !self.remote().is_open(operation),
        });
    }

    fn lock(&self) -> MutexGuard<'_, CallBuffer> {
        // No code between lock and unlock leaves it half changed.
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares to lend `buffer` to messages until the result is dropped. Of all calls only one may
    /// do so at a time.
    pub(crate) fn lend<'a>(&'a self, buffer: &'a mut [u8]) -> LentBuffer<'a> {
        LentBuffer {
            places: self,
            loan: Loan::new(buffer),
        }
    }
}

impl Placement for Places {
    fn place(&self, from: Source, message: &IncomingInfo) -> Place {
        if message.channel.is_user() {
            let memory = self.buffer_of_call(from.node, message);
            memory.map_or(Place::Own, Place::Named)
        } else if message.channel.is_of_group() {
            self.groups.place(from, message)
        } else if message.channel.carries_matched() {
            self.matching.place(from, message)
        } else {
            self.remote.place(from, message)
        }
    }
}

impl Places {
    fn buffer_of_call(&self, from: NodeId, message: &IncomingInfo) -> Option<ReceiveBuffer> {
        if !self.lends.load(Ordering::Relaxed) {
            return None;
        }
        let mut buffer = self.lock();
        let bytes = Arc::clone(buffer.bytes.as_ref()?);
        if message.total > bytes.len() || buffer.taken_by.is_some() {
            return None;
        }
        buffer.taken_by = Some(from);
        Some(ReceiveBuffer::lent(LentPlace(bytes)))
    }
}

/// A buffer that a call lends to the next message. It is withdrawn when this is dropped.
pub(crate) struct LentBuffer<'a> {
    places: &'a Places,
    loan: Loan<'a>,
}

impl LentBuffer<'_> {
    /// Bytes of the buffer.
    pub(crate) fn len(&self) -> usize {
        self.loan.len()
    }

    /// Lends the buffer to the next message that begins and is longer than a packet, if it fits.
    pub(crate) fn begin(&mut self) {
        self.places.lock().bytes = Some(self.loan.lend());
        self.places.lends.store(true, Ordering::Relaxed);
    }

    /// The sender of the message that uses the buffer, if one does.
    pub(crate) fn taken_by(&self) -> Option<NodeId> {
        self.places.lock().taken_by
    }

    /// Withdraws the buffer and returns it. A message that uses it loses its bytes there, unless
    /// [`Engine::take_back`](suci_proto::Engine::take_back) moved them.
    pub(crate) fn withdraw(&mut self) -> &mut [u8] {
        self.places.lends.store(false, Ordering::Relaxed);
        *self.places.lock() = CallBuffer::default();
        self.loan.take_back()
    }
}

impl Drop for LentBuffer<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

#[cfg(test)]
impl Default for Places {
    fn default() -> Self {
        let process = crate::fork::OriginalProcess::new().unwrap();
        Self::new(Regions::new(), Arc::new(MatchingState::new(process)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suci_proto::types::{ChannelId, Kind, SessionNumber};

    fn message(channel: ChannelId, total: u64) -> IncomingInfo {
        IncomingInfo {
            channel,
            number: 0,
            total,
            tag: 0,
            kind: Kind::USER,
            user_header: Default::default(),
        }
    }

    fn named(places: &Places, total: u64, channel: ChannelId) -> Option<ReceiveBuffer> {
        let (node, session) = (NodeId(1), SessionNumber(0));
        match places.place(Source { node, session }, &message(channel, total)) {
            Place::Named(memory) => Some(memory),
            Place::Own | Place::Later => None,
        }
    }

    #[test]
    fn one_message_that_fits_gets_the_buffer_of_the_call() {
        let (places, user) = (Places::default(), ChannelId(0));
        let mut bytes = [0; 100];
        let mut buffer = places.lend(&mut bytes);
        assert!(named(&places, 100, user).is_none(), "not lent");
        buffer.begin();
        assert!(named(&places, 101, user).is_none(), "too long");
        let other = ChannelId::of_remote(0);
        assert!(named(&places, 100, other).is_none(), "no one's");
        let memory = named(&places, 100, user).unwrap();
        assert_eq!((memory.len(), buffer.taken_by()), (100, Some(NodeId(1))));
        assert!(named(&places, 100, user).is_none(), "in use");
    }
}
