//! Event queues. The provider reports nothing there; programs may write events and read them.

use crate::abi::{EqAttr, FiOps, Fid, FidEq, FidFabric, OpsEq, class, wait};
use crate::code::{Code, Outcome, count, not_there, status};
use crate::fabric::Member;
use crate::handle::{self, header, lock};
use core::ffi::{c_char, c_int, c_void};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Events that a queue holds at most.
const MOST: usize = 4096;

/// Bytes of an event at most.
const LONGEST: usize = 4096;

/// `FI_PEEK`.
const PEEK: u64 = crate::abi::PEEK;

#[derive(Debug)]
pub(crate) struct EventQueue {
    events: Mutex<VecDeque<(u32, Vec<u8>)>>,
    _fabric: Member,
}

header!(FidEq, class::EQ, Arc<EventQueue>);

static OPS: FiOps = FiOps {
    size: size_of::<FiOps>(),
    close,
    bind: handle::no_bind,
    control: handle::no_control,
    ops_open: not_there,
    tostr: not_there,
    ops_set: not_there,
};

static EQ_OPS: OpsEq = OpsEq {
    size: size_of::<OpsEq>(),
    read,
    readerr,
    write,
    sread,
    strerror,
};

/// `fi_eq_open`.
pub(crate) unsafe extern "C" fn open(
    fabric: *const FidFabric,
    attr: *const EqAttr,
    eq: *mut *mut FidEq,
    context: *mut c_void,
) -> c_int {
    let open = || -> Outcome<()> {
        // SAFETY: C passes an object of this provider, or null.
        let fabric = unsafe { handle::place(fabric) }?;
        // SAFETY: C passes attributes, or null.
        let wait = unsafe { attr.as_ref() }.map_or(wait::NONE, |attr| attr.wait_obj);
        if eq.is_null() {
            return Err(Code::INVAL);
        }
        if !matches!(wait, wait::NONE | wait::UNSPEC | wait::YIELD) {
            return Err(Code::NOSYS);
        }
        let header = FidEq {
            fid: handle::fid(class::EQ, context, &OPS),
            ops: &EQ_OPS,
        };
        let queue = Arc::new(EventQueue {
            events: Mutex::default(),
            _fabric: fabric.enter(),
        });
        // SAFETY: it is not null, and the caller has room for a pointer there.
        unsafe { eq.write(handle::open(header, queue)) };
        Ok(())
    };
    status(open())
}

unsafe extern "C" fn close(fid: *const Fid) -> c_int {
    // SAFETY: C passes an object of this provider, or null.
    status(unsafe { handle::close::<FidEq>(fid, |_| Ok(())) })
}

/// # Safety
/// `event` is null or has room for a number, `buffer` is null or has `length` bytes.
unsafe fn take(
    eq: *const FidEq,
    event: *mut u32,
    (buffer, length): (*mut c_void, usize),
    flags: u64,
) -> Outcome<usize> {
    // SAFETY: C passes an object of this provider, or null.
    let queue = unsafe { handle::place(eq) }?;
    if event.is_null() || (buffer.is_null() && length > 0) {
        return Err(Code::INVAL);
    }
    let mut events = lock(&queue.events);
    let (number, bytes) = events.front().ok_or(Code::AGAIN)?;
    if length < bytes.len() {
        return Err(Code::TOOSMALL);
    }
    // SAFETY: there is room, as the caller promises and as was checked.
    unsafe {
        event.write(*number);
        buffer.cast::<u8>().copy_from(bytes.as_ptr(), bytes.len());
    }
    let taken = bytes.len();
    if flags & PEEK == 0 {
        events.pop_front();
    }
    Ok(taken)
}

unsafe extern "C" fn read(
    eq: *const FidEq,
    event: *mut u32,
    buffer: *mut c_void,
    length: usize,
    flags: u64,
) -> isize {
    // SAFETY: as libfabric asks of the program.
    count(unsafe { take(eq, event, (buffer, length), flags) })
}

unsafe extern "C" fn readerr(eq: *const FidEq, _: *mut c_void, _: u64) -> isize {
    // SAFETY: C passes an object of this provider, or null.
    match unsafe { handle::place(eq) } {
        // No operation fails later.
        Ok(_) => count(Err(Code::AGAIN)),
        Err(code) => count(Err(code)),
    }
}

unsafe extern "C" fn write(
    eq: *const FidEq,
    event: u32,
    buffer: *const c_void,
    length: usize,
    flags: u64,
) -> isize {
    let write = || -> Outcome<usize> {
        // SAFETY: C passes an object of this provider, or null.
        let queue = unsafe { handle::place(eq) }?;
        if flags != 0 {
            return Err(Code::BADFLAGS);
        }
        if (buffer.is_null() && length > 0) || length > LONGEST {
            return Err(Code::INVAL);
        }
        let bytes = match length {
            0 => Vec::new(),
            // SAFETY: it is not null, and has as many bytes.
            _ => unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), length) }.to_vec(),
        };
        let mut events = lock(&queue.events);
        if events.len() >= MOST {
            return Err(Code::AGAIN);
        }
        events.push_back((event, bytes));
        Ok(length)
    };
    count(write())
}

unsafe extern "C" fn sread(
    eq: *const FidEq,
    event: *mut u32,
    buffer: *mut c_void,
    length: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    let begun = Instant::now();
    loop {
        // SAFETY: as libfabric asks of the program.
        let taken = unsafe { take(eq, event, (buffer, length), flags) };
        let is_over = u128::try_from(timeout).is_ok_and(|ms| begun.elapsed().as_millis() >= ms);
        if taken != Err(Code::AGAIN) || is_over {
            return count(taken);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

unsafe extern "C" fn strerror(
    _: *const FidEq,
    error: c_int,
    _: *const c_void,
    _: *mut c_char,
    _: usize,
) -> *const c_char {
    // SAFETY: any number may be asked about; the text is not freed.
    unsafe { libc::strerror(error) }
}
