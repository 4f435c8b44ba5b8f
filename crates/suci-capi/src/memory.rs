//! Memory of the library in which a program writes what it sends, without a copy.

use crate::error::{ERRNO_BIT, Failure};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use suci::{Bytes, Data};

/// Payloads of up to this many bytes are copied when they are sent: the engine copies them in any
/// case, and a copy is cheaper than counting references.
pub(crate) const COPIED: usize = 256;

/// The bytes of a packet or buffer.
pub(crate) enum Memory {
    /// The program's, until it sends them: `length` bytes from `calloc`.
    Own { start: NonNull<u8>, length: usize },
    /// Those of a received message.
    Received(Data),
}

// SAFETY: memory from `calloc` belongs to no thread. While more than one reference exists it is
// only read: the program must not change the bytes that it sent.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn zeroed(length: usize) -> Result<Self, Failure> {
        if isize::try_from(length).is_err() {
            let text = format!(
                "memory of {length} bytes: at most {} are possible",
                isize::MAX
            );
            return Err(Failure::argument(text));
        }
        // SAFETY: the call takes any sizes. One byte at least, so that null always is a failure.
        let start = unsafe { libc::calloc(length.max(1), 1) };
        let Some(start) = NonNull::new(start.cast()) else {
            let text = format!("there is no memory for {length} bytes: free others");
            return Err(Failure::new(ERRNO_BIT | libc::ENOMEM, text));
        };
        Ok(Self::Own { start, length })
    }

    pub(crate) fn start(&self) -> *mut c_void {
        match self {
            Self::Own { start, .. } => start.as_ptr().cast(),
            Self::Received(data) => data.as_ptr().cast_mut().cast(),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: `calloc` gave `length` bytes, which `drop` alone frees, and which the program
            // does not change while the library reads them.
            Self::Own { start, length } => unsafe {
                std::slice::from_raw_parts(start.as_ptr(), *length)
            },
            Self::Received(data) => data,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Self::Own { start, .. } = self {
            // SAFETY: it comes from `calloc`, and nothing refers to it any more.
            unsafe { libc::free(start.as_ptr().cast()) };
        }
    }
}

/// A part of memory that a queued message refers to.
struct Shared(Arc<Memory>, usize);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes().get(..self.1).unwrap_or_default()
    }
}

/// Returns the first `length` bytes of `memory` as a payload.
pub(crate) fn payload(memory: Arc<Memory>, length: usize) -> Bytes {
    match length {
        0..=COPIED => Bytes::copy_from_slice(memory.bytes().get(..length).unwrap_or_default()),
        _ => Bytes::from_owner(Shared(memory, length)),
    }
}

/// Returns true while a queued message refers to the memory. Afterwards the program may write to
/// it.
pub(crate) fn is_shared(memory: &Arc<Memory>) -> bool {
    let shared = Arc::strong_count(memory) > 1;
    // Another thread that released the memory read it before.
    fence(Ordering::Acquire);
    shared
}
