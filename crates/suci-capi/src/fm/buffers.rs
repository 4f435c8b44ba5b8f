//! Buffers in memory of the library, by the address of their first byte.

use crate::error::Failure;
use crate::memory::{Memory, is_shared, payload};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use suci::Bytes;

static BUFFERS: Mutex<BTreeMap<usize, Arc<Memory>>> = Mutex::new(BTreeMap::new());

/// Returns the buffers. No call holds the lock for longer than it takes to look one up.
fn buffers() -> MutexGuard<'static, BTreeMap<usize, Arc<Memory>>> {
    BUFFERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_buffer(buf: *const c_void) -> Failure {
    let text = format!("buf is {buf:p}, which is no buffer: pass what FM_alloc() returned");
    Failure::argument(text)
}

/// Makes a buffer of `size` zeros.
pub(super) fn new(size: usize) -> Result<*mut c_void, Failure> {
    let memory = Arc::new(Memory::zeroed(size)?);
    let start = memory.start();
    buffers().insert(start.addr(), memory);
    Ok(start)
}

/// Returns the first `size` bytes of a buffer as a payload.
pub(super) fn part(buf: *const c_void, size: usize) -> Result<Bytes, Failure> {
    let memory = buffers().get(&buf.addr()).map(Arc::clone);
    let memory = memory.ok_or_else(|| no_buffer(buf))?;
    let room = memory.bytes().len();
    if size > room {
        let text = format!("size is {size}, but the buffer has {room} bytes: lower it");
        return Err(Failure::argument(text));
    }
    Ok(payload(memory, size))
}

/// Returns true while a message that was not acknowledged refers to a buffer.
pub(super) fn is_busy(buf: *const c_void) -> Result<bool, Failure> {
    let busy = buffers().get(&buf.addr()).map(is_shared);
    busy.ok_or_else(|| no_buffer(buf))
}

/// Gives a buffer back. Its memory stays until no message refers to it.
pub(super) fn free(buf: *const c_void) -> Result<(), Failure> {
    let memory = buffers().remove(&buf.addr());
    memory.map(drop).ok_or_else(|| no_buffer(buf))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_share_the_memory_and_keep_it() {
        let buf = new(1_000).unwrap();
        let sent = part(buf, 900).unwrap();
        assert_eq!((sent.as_ptr().addr(), sent.len()), (buf.addr(), 900));
        assert!(is_busy(buf).unwrap());
        drop(sent);
        assert!(!is_busy(buf).unwrap());
        let sent = part(buf, 1_000).unwrap();
        free(buf).unwrap();
        assert_eq!(sent.iter().max(), Some(&0), "the message keeps the memory");
    }

    #[test]
    fn what_is_no_buffer_and_what_is_too_long_is_refused() {
        let buf = new(300).unwrap();
        assert!(part(buf, 301).is_err());
        let inside = buf.wrapping_byte_add(1);
        assert!(part(inside, 1).is_err() && is_busy(inside).is_err() && free(inside).is_err());
        free(buf).unwrap();
        assert!(free(buf).is_err() && is_busy(buf).is_err() && part(buf, 1).is_err());
        assert!(new(usize::MAX).is_err());
    }
}
