//! Memory that a node names for messages as they begin: the buffer of a call that receives into it,
//! and that of one-sided operations.

use crate::shared::Sleepers;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use suci_layers::remote::{Layer, OperationId, Regions, SharedLayer};
use suci_proto::message::IncomingInfo;
use suci_proto::types::{NodeId, Source};
use suci_proto::{LentMemory, Place, Placement, ReceiveBuffer};

/// The memory that a node may name.
#[derive(Debug)]
pub(crate) struct Places {
    /// A call lends its buffer, so that it is worth taking the lock.
    lends: AtomicBool,
    buffer: Arc<Mutex<CallBuffer>>,
    pub(crate) remote: SharedLayer,
    /// Threads that wait for one-sided operations of a shared node.
    pub(crate) remote_waiters: Sleepers<AwaitedOfLayer>,
}

/// The thing that a thread waits for at the layer of one-sided operations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AwaitedOfLayer {
    /// Room for a request.
    Room,
    Result(OperationId),
}

/// The buffer of the call that receives now, if one does.
#[derive(Debug, Default)]
struct CallBuffer {
    memory: Option<Memory>,
    /// The sender of the message that comes into it.
    taken_by: Option<NodeId>,
}

/// Bytes that a call lends.
#[derive(Clone, Copy, Debug)]
struct Memory {
    first: NonNull<u8>,
    length: usize,
}

// SAFETY: whoever has it may be another thread (the helper), but uses it only while it holds the
// lock of the `CallBuffer`, and the call that lends the bytes does not use them until it has
// withdrawn them under that lock.
unsafe impl Send for Memory {}

impl Default for Places {
    fn default() -> Self {
        Self::new(Regions::new())
    }
}

impl Places {
    /// The memory of a shard of a node with these regions.
    pub(crate) fn new(regions: Regions) -> Self {
        Self {
            lends: AtomicBool::new(false),
            buffer: Arc::default(),
            remote: SharedLayer::new(regions),
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
            AwaitedOfLayer::Room => true,
            AwaitedOfLayer::Result(operation) => self.remote().is_complete(operation),
        });
    }

    fn lock(&self) -> MutexGuard<'_, CallBuffer> {
        lock(&self.buffer)
    }

    /// Prepares to lend `buffer` to messages until the result is dropped. Of all calls only one may
    /// do so at a time.
    pub(crate) fn lend<'a>(&'a self, buffer: &'a mut [u8]) -> LentBuffer<'a> {
        LentBuffer {
            places: self,
            memory: Memory {
                length: buffer.len(),
                first: NonNull::from(buffer).cast(),
            },
            buffer: PhantomData,
        }
    }
}

fn lock(buffer: &Mutex<CallBuffer>) -> MutexGuard<'_, CallBuffer> {
    // No code between lock and unlock leaves it half changed.
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Placement for Places {
    fn place(&self, from: Source, message: &IncomingInfo) -> Place {
        if message.channel.is_user() {
            let memory = self.buffer_of_call(from.node, message);
            memory.map_or(Place::Own, Place::Named)
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
        let length = buffer.memory?.length;
        let fits = usize::try_from(message.total).is_ok_and(|total| total <= length);
        if !fits || buffer.taken_by.is_some() {
            return None;
        }
        buffer.taken_by = Some(from);
        let buffer = Arc::clone(&self.buffer);
        Some(ReceiveBuffer::lent(LentPart { buffer, length }))
    }
}

/// The call's buffer, as the message sees it that comes into it.
struct LentPart {
    buffer: Arc<Mutex<CallBuffer>>,
    length: usize,
}

impl LentMemory for LentPart {
    fn length(&self) -> usize {
        self.length
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let buffer = lock(&self.buffer);
        if let Some(memory) = buffer.memory
            && at
                .checked_add(bytes.len())
                .is_some_and(|end| end <= memory.length)
        {
            // SAFETY: the bytes from `at` on are within the memory, which its call lends, since it
            // did not withdraw it and cannot while the lock is held; nobody else reads or writes
            // it (`Memory`). `bytes` is borrowed from elsewhere, so they do not overlap.
            unsafe {
                let to = memory.first.add(at);
                to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            }
        }
    }

    fn read(&self, at: usize, bytes: &mut [u8]) {
        let buffer = lock(&self.buffer);
        if let Some(memory) = buffer.memory
            && at
                .checked_add(bytes.len())
                .is_some_and(|end| end <= memory.length)
        {
            // SAFETY: as in `write`, with the copy in the other direction. The bytes are
            // initialised, as those of each slice are.
            unsafe {
                let from = memory.first.add(at);
                from.copy_to_nonoverlapping(NonNull::from(&mut *bytes).cast(), bytes.len());
            }
        }
    }
}

/// A buffer that a call lends to the next message. It is withdrawn when this is dropped.
pub(crate) struct LentBuffer<'a> {
    places: &'a Places,
    memory: Memory,
    buffer: PhantomData<&'a mut [u8]>,
}

impl LentBuffer<'_> {
    /// Bytes of the buffer.
    pub(crate) fn len(&self) -> usize {
        self.memory.length
    }

    /// Lends the buffer to the next message that begins and is longer than a packet, if it fits.
    pub(crate) fn begin(&mut self) {
        self.places.lock().memory = Some(self.memory);
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
        // SAFETY: this value was made from an exclusive borrow of these bytes, which lasts as long
        // as its lifetime; and since they were withdrawn under the lock, nobody else uses them
        // until `begin`, which needs this value again.
        unsafe { std::slice::from_raw_parts_mut(self.memory.first.as_ptr(), self.memory.length) }
    }
}

impl Drop for LentBuffer<'_> {
    fn drop(&mut self) {
        self.withdraw();
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
        let (places, user) = (Places::new(Regions::new()), ChannelId(0));
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

    #[test]
    fn a_withdrawn_buffer_gets_no_byte_more() {
        let places = Places::default();
        let mut bytes = [0; 4];
        let mut buffer = places.lend(&mut bytes);
        buffer.begin();
        let (buffer_of_call, length) = (Arc::clone(&places.buffer), 4);
        let mut part = LentPart {
            buffer: buffer_of_call,
            length,
        };
        part.write(1, &[7, 7]);
        part.write(3, &[9, 9]);
        let mut read = [0; 3];
        part.read(0, &mut read);
        assert_eq!(read, [0, 7, 7]);
        assert_eq!(buffer.withdraw(), [0, 7, 7, 0], "nothing beyond its end");
        part.write(0, &[1]);
        drop(buffer);
        assert_eq!(bytes, [0, 7, 7, 0]);
    }
}
