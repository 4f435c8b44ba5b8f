//! Completion queues.

use crate::abi::{
    CqAttr, CqErrEntry, CqTaggedEntry, FiAddr, FiOps, Fid, FidCq, FidDomain, OpsCq, class, format,
    wait,
};
use crate::code::{Code, Outcome, count, not_there, status};
use crate::domain::{Core, Domain};
use crate::handle::{self, header};
use crate::progress::Deadline;
use core::ffi::{c_char, c_int, c_void};
use std::collections::VecDeque;
use std::sync::Arc;

/// The end of an operation. Addresses of C are numbers here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) context: usize,
    pub(crate) flags: u64,
    pub(crate) length: usize,
    pub(crate) buffer: usize,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) source: FiAddr,
    /// Why it failed, and the bytes that did not fit.
    pub(crate) failure: Option<(Code, usize)>,
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Queue {
    format: u32,
    done: VecDeque<Done>,
    is_signalled: bool,
}

header!(FidCq, class::CQ, (Arc<Domain>, usize));

impl Queue {
    pub(crate) fn push(&mut self, done: Done) {
        self.done.push_back(done);
    }

    /// Bytes of an entry.
    const fn entry(&self) -> usize {
        match self.format {
            format::CONTEXT => 8,
            format::MSG => 24,
            format::DATA => 40,
            _ => 48,
        }
    }

    /// Takes completions up to the first failure.
    ///
    /// # Safety
    /// `buffer` has room for `count` entries; `sources` is null or has room for as many addresses.
    unsafe fn take(
        &mut self,
        buffer: *mut c_void,
        count: usize,
        sources: *mut FiAddr,
    ) -> Outcome<usize> {
        let size = self.entry();
        let mut taken = 0;
        while taken < count {
            let Some(done) = self.done.front().filter(|done| done.failure.is_none()) else {
                break;
            };
            let entry = tagged_entry(done);
            // SAFETY: there is room for it, and an entry of a shorter format is its beginning.
            unsafe {
                let place = buffer.cast::<u8>().add(taken.saturating_mul(size));
                place.copy_from((&raw const entry).cast::<u8>(), size);
                if !sources.is_null() {
                    sources.add(taken).write(done.source);
                }
            }
            self.done.pop_front();
            taken += 1;
        }
        match (taken, self.done.is_empty()) {
            (0, _) if count == 0 => Ok(0),
            (0, true) => Err(Code::AGAIN),
            (0, false) => Err(Code::AVAIL),
            _ => Ok(taken),
        }
    }
}

fn tagged_entry(done: &Done) -> CqTaggedEntry {
    CqTaggedEntry {
        op_context: done.context as *mut c_void,
        flags: done.flags,
        len: done.length,
        buf: done.buffer as *mut c_void,
        data: done.data,
        tag: done.tag,
    }
}

static OPS: FiOps = FiOps {
    size: size_of::<FiOps>(),
    close,
    bind: handle::no_bind,
    control: handle::no_control,
    ops_open: not_there,
    tostr: not_there,
    ops_set: not_there,
};

static CQ_OPS: OpsCq = OpsCq {
    size: size_of::<OpsCq>(),
    read,
    readfrom,
    readerr,
    sread,
    sreadfrom,
    signal,
    strerror,
};

/// `fi_cq_open`.
pub(crate) unsafe extern "C" fn open(
    domain: *const FidDomain,
    attr: *const CqAttr,
    cq: *mut *mut FidCq,
    context: *mut c_void,
) -> c_int {
    let open = || -> Outcome<()> {
        // SAFETY: C passes an object of this provider, or null.
        let domain = unsafe { handle::place(domain) }?;
        // SAFETY: C passes attributes, or null.
        let attr = unsafe { attr.as_ref() }.ok_or(Code::INVAL)?;
        if cq.is_null() || attr.format > format::TAGGED {
            return Err(Code::INVAL);
        }
        if !matches!(attr.wait_obj, wait::NONE | wait::UNSPEC | wait::YIELD) {
            return Err(Code::NOSYS);
        }
        let queue = Queue {
            format: match attr.format {
                format::UNSPEC => format::CONTEXT,
                format => format,
            },
            done: VecDeque::new(),
            is_signalled: false,
        };
        let index = domain.enter(|core| Ok(core.queues.insert(queue)))?;
        let header = FidCq {
            fid: handle::fid(class::CQ, context, &OPS),
            ops: &CQ_OPS,
        };
        // SAFETY: it is not null, and the caller has room for a pointer there.
        unsafe { cq.write(handle::open(header, (domain, index))) };
        Ok(())
    };
    status(open())
}

unsafe extern "C" fn close(fid: *const Fid) -> c_int {
    let end = |(domain, index): &(Arc<Domain>, usize)| {
        domain.enter(|core| {
            if core
                .endpoint
                .as_ref()
                .is_some_and(|it| it.completes_in(*index))
            {
                return Err(Code::BUSY);
            }
            core.queues.try_remove(*index);
            Ok(())
        })
    };
    // SAFETY: C passes an object of this provider, or null.
    status(unsafe { handle::close::<FidCq>(fid, end) })
}

fn queue(core: &mut Core, index: usize) -> Outcome<&mut Queue> {
    core.queues.get_mut(index).ok_or(Code::BADF)
}

/// Reads completions; makes progress first if none is there.
///
/// # Safety
/// `buffer` is null or has room for `count` entries; `sources` likewise for addresses.
unsafe fn poll(
    core: &mut Core,
    index: usize,
    (buffer, count): (*mut c_void, usize),
    sources: *mut FiAddr,
) -> Outcome<usize> {
    if buffer.is_null() && count > 0 {
        return Err(Code::INVAL);
    }
    if queue(core, index)?.done.is_empty() {
        core.progress();
    }
    // SAFETY: as the caller promises, and it is not null.
    unsafe { queue(core, index)?.take(buffer, count, sources) }
}

unsafe extern "C" fn read(cq: *const FidCq, buffer: *mut c_void, count: usize) -> isize {
    // SAFETY: as for the longer form.
    unsafe { readfrom(cq, buffer, count, std::ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(
    cq: *const FidCq,
    buffer: *mut c_void,
    length: usize,
    sources: *mut FiAddr,
) -> isize {
    // SAFETY: C passes an object of this provider, or null.
    let read = unsafe { handle::place(cq) }.and_then(|(domain, index)| {
        // SAFETY: C passes room for as many entries.
        domain.enter(|core| unsafe { poll(core, index, (buffer, length), sources) })
    });
    if read == Err(Code::AGAIN) {
        // Programs poll without end; on a busy machine others should run meanwhile.
        std::thread::yield_now();
    }
    count(read)
}

unsafe extern "C" fn readerr(cq: *const FidCq, into: *mut CqErrEntry, flags: u64) -> isize {
    let read = || -> Outcome<usize> {
        // SAFETY: C passes an object of this provider, or null.
        let (domain, index) = unsafe { handle::place(cq) }?;
        if into.is_null() {
            return Err(Code::INVAL);
        }
        let done = domain.enter(|core| {
            let queue = queue(core, index)?;
            let next = queue.done.front().filter(|done| done.failure.is_some());
            let done = *next.ok_or(Code::AGAIN)?;
            if flags & crate::abi::PEEK == 0 {
                queue.done.pop_front();
            }
            Ok(done)
        })?;
        let (code, missing) = done.failure.unwrap_or((Code::IO, 0));
        // SAFETY: C passes an entry, whose fields these are in all versions. The program's buffer
        // for more data about the error stays as it is, and nothing is put there.
        unsafe {
            (&raw mut (*into).entry).write(tagged_entry(&done));
            (&raw mut (*into).olen).write(missing);
            (&raw mut (*into).err).write(code.0);
            (&raw mut (*into).prov_errno).write(code.0);
            (&raw mut (*into).err_data_size).write(0);
        }
        Ok(1)
    };
    count(read())
}

unsafe extern "C" fn sread(
    cq: *const FidCq,
    buffer: *mut c_void,
    length: usize,
    cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: as for the longer form.
    unsafe { sreadfrom(cq, buffer, length, std::ptr::null_mut(), cond, timeout) }
}

unsafe extern "C" fn sreadfrom(
    cq: *const FidCq,
    buffer: *mut c_void,
    length: usize,
    sources: *mut FiAddr,
    _: *const c_void,
    timeout: c_int,
) -> isize {
    let read = || -> Outcome<usize> {
        // SAFETY: C passes an object of this provider, or null.
        let (domain, index) = unsafe { handle::place(cq) }?;
        let deadline = Deadline::new(timeout);
        loop {
            let read = domain.enter(|core| {
                // SAFETY: C passes room for as many entries.
                let read = unsafe { poll(core, index, (buffer, length), sources) };
                let is_signalled = std::mem::take(&mut queue(core, index)?.is_signalled);
                match read {
                    Err(Code::AGAIN) if !is_signalled && !deadline.is_over() => Ok(None),
                    other => other.map(Some),
                }
            })?;
            if let Some(taken) = read {
                return Ok(taken);
            }
            domain.enter(|core| core.sleep(&deadline))?;
        }
    };
    count(read())
}

unsafe extern "C" fn signal(cq: *const FidCq) -> c_int {
    // SAFETY: C passes an object of this provider, or null.
    let signalled = unsafe { handle::place(cq) }.and_then(|(domain, index)| {
        domain.enter(|core| {
            queue(core, index)?.is_signalled = true;
            Ok(())
        })
    });
    status(signalled)
}

unsafe extern "C" fn strerror(
    _: *const FidCq,
    error: c_int,
    _: *const c_void,
    buffer: *mut c_char,
    length: usize,
) -> *const c_char {
    // SAFETY: any number may be asked about; the text is not freed.
    let text = unsafe { libc::strerror(error.saturating_abs()) };
    if !buffer.is_null() && length > 0 {
        // SAFETY: the buffer has as many bytes, of which the last becomes zero.
        unsafe {
            libc::strncpy(buffer, text, length);
            buffer.add(length.saturating_sub(1)).write(0);
        }
        return buffer;
    }
    text
}
