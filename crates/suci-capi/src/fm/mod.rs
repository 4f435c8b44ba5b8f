//! Illinois Fast Messages, `fm.h`, on the active messages of a node.
//!
//! The interface has no handle: a process has one node, which the variables of `suci run` describe.
//! Each function has its text in the header.
//!
//! | part | content |
//! |---|---|
//! | `program` | the node of this process, its handlers, and the handler that runs now |
//! | `buffers` | buffers in memory of the library |

mod buffers;
mod program;

use crate::errno::{answer, done, limit};
use crate::error;
use crate::pointer;
use program::{BufferHandler, WordsHandler};
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::time::Duration;
use suci::Bytes;

/// Maximum number of handlers that one call of `FM_extract` runs.
const EXTRACTED_AT_ONCE: u32 = 4_096;

/// Allows addresses beyond loopback without a key.
#[unsafe(no_mangle)]
pub extern "C" fn FM_allow_insecure_network() -> c_int {
    done(program::allow_insecure_network)
}

/// Opens the node of this process.
#[unsafe(no_mangle)]
pub extern "C" fn FM_initialize() -> c_int {
    done(program::initialize)
}

/// Closes it.
#[unsafe(no_mangle)]
pub extern "C" fn FM_finalize() -> c_int {
    done(program::finalize)
}

/// Returns the ID of this node.
#[unsafe(no_mangle)]
pub extern "C" fn FM_get_nodeid() -> c_int {
    answer(-1, || program::about().map(|(own, _)| own))
}

/// Returns the number of nodes.
#[unsafe(no_mangle)]
pub extern "C" fn FM_get_numnodes() -> c_int {
    answer(-1, || program::about().map(|(_, size)| size))
}

/// Sets a handler of messages with a buffer.
#[unsafe(no_mangle)]
pub extern "C" fn FM_set_handler(handler: c_int, function: BufferHandler) -> c_int {
    done(|| program::set_buffer_handler(handler, function))
}

/// Sets a handler of messages with four words.
#[unsafe(no_mangle)]
pub extern "C" fn FM_set_handler_4(handler: c_int, function: WordsHandler) -> c_int {
    done(|| program::set_words_handler(handler, function))
}

/// Sends four words.
#[unsafe(no_mangle)]
pub extern "C" fn FM_send_4(
    dest: c_int,
    handler: c_int,
    i0: u64,
    i1: u64,
    i2: u64,
    i3: u64,
) -> c_int {
    done(|| program::send(dest, handler, &[i0, i1, i2, i3], Bytes::new()))
}

/// Sends a copy of a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FM_send(
    dest: c_int,
    handler: c_int,
    buf: *const c_void,
    size: usize,
) -> c_int {
    done(|| {
        // SAFETY: as fm.h asks.
        let bytes = unsafe { pointer::bytes(buf, size, "buf") }?;
        program::send(dest, handler, &[], Bytes::copy_from_slice(bytes))
    })
}

/// Runs the handlers of messages that are there.
#[unsafe(no_mangle)]
pub extern "C" fn FM_extract() -> c_int {
    FM_extract_limit(EXTRACTED_AT_ONCE)
}

/// Runs the handlers of some messages that are there.
#[unsafe(no_mangle)]
pub extern "C" fn FM_extract_limit(most: u32) -> c_int {
    answer(-1, || program::extract(most, None))
}

/// Waits for a message, and runs its handler and those of others that are there.
#[unsafe(no_mangle)]
pub extern "C" fn FM_extract_wait(most: u32, sec: c_int, msec: c_int) -> c_int {
    answer(-1, || {
        let limit: Duration = limit(sec, msec)?.duration();
        program::extract(most, Some(limit))
    })
}

/// Returns the sender of the message whose handler runs.
#[unsafe(no_mangle)]
pub extern "C" fn FM_source() -> c_int {
    answer(-1, program::source)
}

/// Makes a buffer.
#[unsafe(no_mangle)]
pub extern "C" fn FM_alloc(size: usize) -> *mut c_void {
    answer(ptr::null_mut(), || buffers::new(size))
}

/// Sends a part of a buffer without a copy.
#[unsafe(no_mangle)]
pub extern "C" fn FM_send_buffer(
    dest: c_int,
    handler: c_int,
    buf: *const c_void,
    size: usize,
) -> c_int {
    done(|| program::send(dest, handler, &[], buffers::part(buf, size)?))
}

/// Tells whether the library reads a buffer.
#[unsafe(no_mangle)]
pub extern "C" fn FM_buffer_busy(buf: *const c_void) -> c_int {
    answer(-1, || buffers::is_busy(buf).map(c_int::from))
}

/// Gives a buffer back.
#[unsafe(no_mangle)]
pub extern "C" fn FM_free(buf: *mut c_void) -> c_int {
    done(|| match buf.is_null() {
        true => Ok(()),
        false => buffers::free(buf),
    })
}

/// Returns the text of this thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn FM_error() -> *const c_char {
    error::suci_last_error_message()
}
