//! The table of sockets. A `datagram_socket *` is a handle of 64 bits and points to nothing.

use super::socket::Socket;
use crate::error::{BUSY, FORKED, Failure, HANDLE};
use crate::handle::{Handle, first_generation, forks, next_generation};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// `datagram_socket *`.
pub(super) type SocketPointer = *mut c_void;

// A handle has 64 bits, of which none may be lost.
const _: () = assert!(size_of::<SocketPointer>() == size_of::<Handle>());

/// Sockets of one process at the same time.
const SLOTS: usize = 4_096;

/// The mark of a socket's handle.
const SOCKET: u32 = 0x4400_0000;

struct SocketSlot {
    /// The number of forks before the socket was opened: see `handle::forks`.
    forks: AtomicU32,
    held: Mutex<Held>,
}

/// The socket of a slot. The lock is held during a call.
struct Held {
    generation: u32,
    socket: Option<Box<Socket>>,
}

static TABLE: [SocketSlot; SLOTS] = [const {
    SocketSlot {
        forks: AtomicU32::new(0),
        held: Mutex::new(Held {
            generation: 0,
            socket: None,
        }),
    }
}; SLOTS];

fn no_socket(id: u64) -> Failure {
    let text = match id {
        0 => "the socket is null: open one by datagram()".into(),
        _ => format!("the socket {id:#x} was closed, or is none of this process: open one"),
    };
    Failure::new(HANDLE, text)
}

/// Returns the slot of a socket, locked for one call.
fn lock(pointer: SocketPointer) -> Result<MutexGuard<'static, Held>, Failure> {
    let id = pointer.addr() as u64;
    let parts = Handle { id }.parts(SOCKET);
    let slot = parts.and_then(|(generation, index)| Some((generation, TABLE.get(index)?)));
    let Some((generation, slot)) = slot else {
        return Err(no_socket(id));
    };
    // First of all: in a child a thread that does not exist there may hold the lock.
    if slot.forks.load(Ordering::Relaxed) != forks() {
        if let Ok(held) = slot.held.try_lock()
            && let Some(socket) = &held.socket
        {
            socket.abandon();
        }
        let text = "this process was forked from the one that opened the socket: open one here";
        return Err(Failure::new(FORKED, text));
    }
    let held = match slot.held.try_lock() {
        Ok(held) => held,
        Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
        Err(TryLockError::WouldBlock) => {
            let text = "another call is inside the socket: one thread at a time may call";
            return Err(Failure::new(BUSY, text));
        }
    };
    match held.generation == generation && held.socket.is_some() {
        true => Ok(held),
        false => Err(no_socket(id)),
    }
}

/// Runs one call with the socket.
pub(super) fn with<T>(
    pointer: SocketPointer,
    call: impl FnOnce(&mut Socket) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut held = lock(pointer)?;
    let socket = held.socket.as_mut().ok_or_else(Failure::internal)?;
    call(socket)
}

/// Takes the socket out of the table: its handle is stale from then on.
pub(super) fn take(pointer: SocketPointer) -> Result<Box<Socket>, Failure> {
    lock(pointer)?.socket.take().ok_or_else(Failure::internal)
}

/// Puts a socket into a free slot.
pub(super) fn insert(socket: Box<Socket>) -> Result<SocketPointer, Failure> {
    for (index, slot) in (0..).zip(&TABLE) {
        let Ok(mut held) = slot.held.try_lock() else {
            continue;
        };
        if held.socket.is_some() {
            continue;
        }
        held.generation = match held.generation {
            0 => first_generation(),
            before => next_generation(before),
        };
        slot.forks.store(forks(), Ordering::Relaxed);
        held.socket = Some(socket);
        let handle = Handle::new(held.generation, SOCKET, index);
        return Ok(std::ptr::without_provenance_mut(handle.id as usize));
    }
    let text = format!("this process has {SLOTS} sockets: close one");
    Err(Failure::new(BUSY, text))
}
