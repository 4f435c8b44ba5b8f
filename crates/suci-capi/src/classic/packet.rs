//! Packets: messages in memory of the library, handed to C without a copy.
//!
//! C sees a `datagram_packet`, the public part of a [`PacketSlot`]. Slots are never deallocated: a
//! freed one waits in a pool for its next use. So the state of a packet that was freed can be read,
//! and a second free is an error instead of undefined behaviour.

use crate::error::Failure;
use crate::memory::{Memory, is_shared, payload};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use suci::{Bytes, Message, NodeId};

/// Packets that one list may have. A list that is a ring has more.
pub(super) const MOST_IN_LIST: usize = 1 << 20;

/// `datagram_packet`.
#[repr(C)]
#[derive(Debug)]
pub struct Packet {
    data: *mut c_void,
    length: usize,
    next: *mut Packet,
    id: u32,
    reserved: u32,
}

/// The states of a slot: two words that other memory hardly has.
const LIVE: u32 = 0x5ca1_ab1e;
const FREE: u32 = 0xdead_10cc;

/// A packet, and what belongs to the library. The public part comes first.
#[repr(C)]
struct PacketSlot {
    public: UnsafeCell<Packet>,
    state: AtomicU32,
    memory: UnsafeCell<Option<Arc<Memory>>>,
}

/// Slots that wait for their next use.
static POOL: Mutex<Vec<FreeSlot>> = Mutex::new(Vec::new());

struct FreeSlot(NonNull<PacketSlot>);

// SAFETY: a free slot belongs to no thread.
unsafe impl Send for FreeSlot {}

/// Returns the pool. In the child of a fork the lock may never be released; then there is none, and
/// slots are made anew.
fn pool() -> Option<MutexGuard<'static, Vec<FreeSlot>>> {
    for _ in 0..10_000 {
        match POOL.try_lock() {
            Ok(pool) => return Some(pool),
            Err(TryLockError::Poisoned(poisoned)) => {
                return Some(PoisonError::into_inner(poisoned));
            }
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}

/// Makes a packet of `memory`, whose first `length` bytes are its message.
fn make(memory: Memory, length: usize, id: NodeId) -> *mut Packet {
    // A short message lies in the memory itself: its address counts from here on.
    let memory = Arc::new(memory);
    let public = Packet {
        data: memory.start(),
        length,
        next: ptr::null_mut(),
        id: id.0,
        reserved: 0,
    };
    let memory = Some(memory);
    let free = pool().and_then(|mut pool| pool.pop());
    let slot = match free {
        Some(FreeSlot(slot)) => {
            // SAFETY: slots are never deallocated. This one was free and in the pool, so that
            // nothing else uses it.
            unsafe {
                *slot.as_ref().public.get() = public;
                *slot.as_ref().memory.get() = memory;
                slot.as_ref().state.store(LIVE, Ordering::Release);
            }
            slot
        }
        None => NonNull::from(Box::leak(Box::new(PacketSlot {
            public: UnsafeCell::new(public),
            state: AtomicU32::new(LIVE),
            memory: UnsafeCell::new(memory),
        }))),
    };
    slot.as_ptr().cast()
}

/// Makes a packet of `size` zeros.
pub(super) fn new(size: usize, id: NodeId) -> Result<*mut Packet, Failure> {
    Ok(make(Memory::zeroed(size)?, size, id))
}

/// Makes a packet of a received message.
pub(super) fn from_message(message: Message) -> *mut Packet {
    let (from, length) = (message.from, message.payload.len());
    make(Memory::Received(message.payload), length, from)
}

/// A packet that is live.
#[derive(Clone, Copy)]
struct Live(NonNull<PacketSlot>);

impl Live {
    /// Checks a pointer from C.
    ///
    /// # Safety
    /// It is null or came from `datagram_new_packet` or `datagram_packet_get`, and its packet is
    /// used by this thread alone.
    unsafe fn new(packet: *const Packet) -> Result<Self, Failure> {
        let slot = NonNull::new(packet.cast_mut().cast::<PacketSlot>());
        let slot = slot.ok_or_else(|| Failure::argument("the packet is null: pass one"))?;
        // SAFETY: slots are never deallocated.
        match unsafe { slot.as_ref() }.state.load(Ordering::Acquire) {
            LIVE => Ok(Self(slot)),
            _ => Err(Failure::argument(
                "the packet was freed before: make a new one, and free each one once",
            )),
        }
    }

    fn slot(&self) -> &PacketSlot {
        // SAFETY: slots are never deallocated.
        unsafe { self.0.as_ref() }
    }

    fn next(self) -> *mut Packet {
        // SAFETY: the packet belongs to this thread, which is in here.
        unsafe { (*self.slot().public.get()).next }
    }

    /// Returns the length that the program wants, and the memory.
    fn content(self) -> Result<(usize, Arc<Memory>), Failure> {
        // SAFETY: as in `next`.
        let (length, memory) = unsafe {
            let memory: &Option<Arc<Memory>> = &*self.slot().memory.get();
            ((*self.slot().public.get()).length, memory.clone())
        };
        let memory = memory.ok_or_else(Failure::internal)?;
        let size = memory.bytes().len();
        if length > size {
            let text =
                format!("the packet has room for {size} bytes, not for {length}: lower `length`");
            return Err(Failure::argument(text));
        }
        Ok((length, memory))
    }

    /// Gives the packet back.
    fn free(self) {
        let slot = self.slot();
        if slot.state.swap(FREE, Ordering::AcqRel) != LIVE {
            return;
        }
        // SAFETY: the swap made this call the one that frees; the packet belongs to this thread.
        let memory = unsafe { (*slot.memory.get()).take() };
        drop(memory);
        if let Some(mut pool) = pool() {
            pool.push(FreeSlot(self.0));
        }
    }
}

/// Returns the messages of a list, in its order.
///
/// # Safety
/// As [`Live::new`], for each packet of the list.
pub(super) unsafe fn messages(list: *const Packet) -> Result<Vec<Bytes>, Failure> {
    let mut messages = Vec::new();
    let mut at = list;
    loop {
        // SAFETY: the caller's promise.
        let packet = unsafe { Live::new(at) }?;
        let (length, memory) = packet.content()?;
        messages.push(payload(memory, length));
        at = packet.next();
        if at.is_null() {
            return Ok(messages);
        }
        if messages.len() == MOST_IN_LIST {
            let text =
                format!("the list has more than {MOST_IN_LIST} packets: end it by a null `next`");
            return Err(Failure::argument(text));
        }
    }
}

/// Returns true while a queued message refers to the packet's memory.
///
/// # Safety
/// As [`Live::new`].
pub(super) unsafe fn is_busy(packet: *const Packet) -> Result<bool, Failure> {
    // SAFETY: the caller's promise.
    let packet = unsafe { Live::new(packet) }?;
    // SAFETY: the packet belongs to this thread, which is in here.
    let memory: &Option<Arc<Memory>> = unsafe { &*packet.slot().memory.get() };
    Ok(memory.as_ref().is_some_and(is_shared))
}

/// Gives the packets of a list back.
///
/// # Safety
/// As [`messages`]; null is allowed.
pub(super) unsafe fn free(list: *mut Packet) -> Result<(), Failure> {
    let mut at = list;
    while !at.is_null() {
        // SAFETY: the caller's promise. A ring ends at its first packet, which is free then.
        let packet = unsafe { Live::new(at) }?;
        at = packet.next();
        packet.free();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/classic/packets.c` asserts the same of C.
    #[test]
    fn the_packet_is_laid_out_as_in_c() {
        use std::mem::offset_of;
        let fields = [
            offset_of!(Packet, data),
            offset_of!(Packet, length),
            offset_of!(Packet, next),
            offset_of!(Packet, id),
            size_of::<Packet>(),
        ];
        assert_eq!(fields, [0, 8, 16, 24, 32]);
    }

    #[test]
    fn puts_share_the_memory_and_keep_it() {
        let packet = new(1000, NodeId(1)).unwrap();
        // SAFETY: as above; the data has 1,000 bytes and nothing reads them yet.
        unsafe {
            (*packet).data.cast::<u8>().write(7);
            (*packet).length = 900;
            let first = messages(packet).unwrap();
            let second = messages(packet).unwrap();
            assert_eq!(first[0].as_ptr(), second[0].as_ptr(), "no copy");
            assert_eq!((first[0].len(), first[0][0]), (900, 7));
            assert!(is_busy(packet).unwrap());
            drop(first);
            assert!(is_busy(packet).unwrap());
            free(packet).unwrap();
            assert_eq!(second[0][0], 7, "the queued message keeps the memory");
        }
    }

    #[test]
    fn the_memory_is_the_programs_again_when_no_message_refers_to_it() {
        let packet = new(1000, NodeId(1)).unwrap();
        // SAFETY: as above.
        unsafe {
            drop(messages(packet).unwrap());
            assert!(!is_busy(packet).unwrap());
            free(packet).unwrap();
        }
    }

    #[test]
    fn lists_that_are_rings_or_too_long_packets_are_refused() {
        let packet = new(10, NodeId(1)).unwrap();
        // SAFETY: as above.
        unsafe {
            (*packet).length = 11;
            assert!(messages(packet).is_err());
            (*packet).length = 0;
            (*packet).next = packet;
            assert!(messages(packet).is_err());
            (*packet).next = ptr::null_mut();
            free(packet).unwrap();
        }
        assert!(new(usize::MAX, NodeId(1)).is_err());
    }
}
