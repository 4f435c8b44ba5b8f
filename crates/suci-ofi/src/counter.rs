//! Counters of completions.

use crate::abi::{CntrAttr, FiOps, Fid, FidCntr, FidDomain, OpsCntr, class, wait};
use crate::code::{Code, Outcome, not_there, status};
use crate::domain::Domain;
use crate::handle::{self, header};
use crate::progress::Deadline;
use core::ffi::{c_int, c_void};
use std::sync::Arc;

/// Completions of one kind, and failures.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) done: u64,
    pub(crate) failed: u64,
}

header!(FidCntr, class::CNTR, (Arc<Domain>, usize));

static OPS: FiOps = FiOps {
    size: size_of::<FiOps>(),
    close,
    bind: handle::no_bind,
    control: handle::no_control,
    ops_open: not_there,
    tostr: not_there,
    ops_set: not_there,
};

static CNTR_OPS: OpsCntr = OpsCntr {
    size: size_of::<OpsCntr>(),
    read,
    readerr,
    add,
    set,
    wait: await_threshold,
    adderr,
    seterr,
};

/// `fi_cntr_open`.
pub(crate) unsafe extern "C" fn open(
    domain: *const FidDomain,
    attr: *const CntrAttr,
    cntr: *mut *mut FidCntr,
    context: *mut c_void,
) -> c_int {
    let open = || -> Outcome<()> {
        // SAFETY: C passes an object of this provider, or null.
        let domain = unsafe { handle::place(domain) }?;
        if cntr.is_null() {
            return Err(Code::INVAL);
        }
        // SAFETY: C passes attributes, or null.
        if let Some(attr) = unsafe { attr.as_ref() } {
            let waits = matches!(attr.wait_obj, wait::NONE | wait::UNSPEC | wait::YIELD);
            // Bytes are not counted.
            if attr.events != 0 || !waits || attr.flags != 0 {
                return Err(Code::NOSYS);
            }
        }
        let index = domain.enter(|core| Ok(core.counters.insert(Counter::default())))?;
        let header = FidCntr {
            fid: handle::fid(class::CNTR, context, &OPS),
            ops: &CNTR_OPS,
        };
        // SAFETY: it is not null, and the caller has room for a pointer there.
        unsafe { cntr.write(handle::open(header, (domain, index))) };
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
                .is_some_and(|it| it.counts_in(*index))
            {
                return Err(Code::BUSY);
            }
            core.counters.try_remove(*index);
            Ok(())
        })
    };
    // SAFETY: C passes an object of this provider, or null.
    status(unsafe { handle::close::<FidCntr>(fid, end) })
}

/// Calls `work` with a counter, after progress if that is wanted.
///
/// # Safety
/// `cntr` is null or an object of this provider.
unsafe fn with<T>(
    cntr: *const FidCntr,
    progress: bool,
    work: impl FnOnce(&mut Counter) -> T,
) -> Outcome<T> {
    // SAFETY: as the caller promises.
    let (domain, index) = unsafe { handle::place(cntr) }?;
    domain.enter(|core| {
        if progress {
            core.progress();
        }
        core.counters.get_mut(index).map(work).ok_or(Code::BADF)
    })
}

unsafe extern "C" fn read(cntr: *const FidCntr) -> u64 {
    // SAFETY: C passes an object of this provider, or null.
    unsafe { with(cntr, true, |counter| counter.done) }.unwrap_or(0)
}

unsafe extern "C" fn readerr(cntr: *const FidCntr) -> u64 {
    // SAFETY: C passes an object of this provider, or null.
    unsafe { with(cntr, true, |counter| counter.failed) }.unwrap_or(0)
}

unsafe extern "C" fn add(cntr: *const FidCntr, value: u64) -> c_int {
    let add = |counter: &mut Counter| counter.done = counter.done.wrapping_add(value);
    // SAFETY: C passes an object of this provider, or null.
    status(unsafe { with(cntr, false, add) })
}

unsafe extern "C" fn set(cntr: *const FidCntr, value: u64) -> c_int {
    // SAFETY: C passes an object of this provider, or null.
    status(unsafe { with(cntr, false, |counter| counter.done = value) })
}

unsafe extern "C" fn adderr(cntr: *const FidCntr, value: u64) -> c_int {
    let add = |counter: &mut Counter| counter.failed = counter.failed.wrapping_add(value);
    // SAFETY: C passes an object of this provider, or null.
    status(unsafe { with(cntr, false, add) })
}

unsafe extern "C" fn seterr(cntr: *const FidCntr, value: u64) -> c_int {
    // SAFETY: C passes an object of this provider, or null.
    status(unsafe { with(cntr, false, |counter| counter.failed = value) })
}

unsafe extern "C" fn await_threshold(
    cntr: *const FidCntr,
    threshold: u64,
    timeout: c_int,
) -> c_int {
    let wait = || -> Outcome<()> {
        // SAFETY: C passes an object of this provider, or null.
        let (domain, index) = unsafe { handle::place(cntr) }?;
        let failed_before = domain.enter(|core| {
            let counter = core.counters.get(index).ok_or(Code::BADF)?;
            Ok(counter.failed)
        })?;
        let deadline = Deadline::new(timeout);
        loop {
            let over = domain.enter(|core| {
                core.progress();
                let counter = core.counters.get(index).ok_or(Code::BADF)?;
                match counter.failed > failed_before {
                    true => Err(Code::AVAIL),
                    false => Ok(counter.done >= threshold),
                }
            })?;
            if over {
                return Ok(());
            }
            if deadline.is_over() {
                return Err(Code::TIMEDOUT);
            }
            domain.enter(|core| core.sleep(&deadline))?;
        }
    };
    status(wait())
}
