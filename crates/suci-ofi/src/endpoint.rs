//! Endpoints: of each domain one at a time.

use crate::abi::{
    COMPLETION, FiOps, Fid, FidAv, FidCntr, FidCq, FidDomain, FidEp, FidEq, Info, MULTI_RECV,
    OpsCm, OpsEp, READ, RECV, RefusedOps, SELECTIVE_COMPLETION, SEND, WRITE, class, command,
    option,
};
use crate::code::{Code, Outcome, count, not_there, status};
use crate::domain::{Core, Domain};
use crate::handle::{self, header};
use crate::info;
use crate::messages::{MSG_OPS, TAGGED_OPS};
use core::ffi::{c_int, c_void};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use suci::matching::MessageId;

/// The least room of a buffer for several messages, unless the program sets another.
const LEAST: u64 = 64;

/// The time that closing an endpoint waits until nothing uses the program's memory.
const PATIENCE: Duration = Duration::from_secs(5);

/// The flags that bind a queue, or a counter, to kinds of operations.
const SIDES: u64 = SEND | RECV | READ | WRITE | REMOTE_SIDES;
const REMOTE_SIDES: u64 = (1 << 12) | (1 << 13);

/// An endpoint.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) caps: u64,
    pub(crate) is_enabled: bool,
    /// The index of its address vector.
    pub(crate) vector: Option<usize>,
    pub(crate) sending: Option<Binding>,
    pub(crate) receiving: Option<Binding>,
    /// Kinds of operations, and the index of the counter for them.
    pub(crate) counters: Vec<(u64, usize)>,
    /// The flags of operations that name none.
    pub(crate) send_flags: u64,
    pub(crate) receive_flags: u64,
    /// The least room of a buffer for several messages.
    pub(crate) least: u64,
    /// Messages that were claimed, by the context of the claim.
    pub(crate) claimed: HashMap<usize, MessageId>,
}

/// A completion queue of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) queue: usize,
    /// Only operations that say so are reported.
    is_selective: bool,
}

header!(FidEp, class::EP, Arc<Domain>);

impl Endpoint {
    pub(crate) fn reports_send(&self, flags: u64) -> bool {
        reports(self.sending, flags)
    }

    pub(crate) fn reports_receive(&self, flags: u64) -> bool {
        reports(self.receiving, flags)
    }

    pub(crate) fn completes_in(&self, queue: usize) -> bool {
        let bound = [self.sending, self.receiving].into_iter().flatten();
        bound.into_iter().any(|binding| binding.queue == queue)
    }

    pub(crate) fn counts_in(&self, counter: usize) -> bool {
        self.counters.iter().any(|(_, index)| *index == counter)
    }
}

fn reports(binding: Option<Binding>, flags: u64) -> bool {
    binding.is_some_and(|binding| !binding.is_selective || flags & COMPLETION != 0)
}

static OPS: FiOps = FiOps {
    size: size_of::<FiOps>(),
    close,
    bind,
    control,
    ops_open: not_there,
    tostr: not_there,
    ops_set: not_there,
};

static EP_OPS: OpsEp = OpsEp {
    size: size_of::<OpsEp>(),
    cancel,
    getopt,
    setopt,
    tx_ctx: not_there,
    rx_ctx: not_there,
    rx_size_left: not_there,
    tx_size_left: not_there,
    export_xpu: not_there,
};

static CM_OPS: OpsCm = OpsCm {
    size: size_of::<OpsCm>(),
    setname: not_there,
    getname,
    getpeer: not_there,
    connect: not_there,
    listen: not_there,
    accept: not_there,
    reject: not_there,
    shutdown: not_there,
    join: not_there,
};

static RMA_OPS: RefusedOps<9> = refused();
static ATOMIC_OPS: RefusedOps<13> = refused();
static COLLECTIVE_OPS: RefusedOps<11> = refused();

const fn refused<const COUNT: usize>() -> RefusedOps<COUNT> {
    RefusedOps {
        size: size_of::<RefusedOps<COUNT>>(),
        slots: [not_there; COUNT],
    }
}

/// `fi_endpoint`.
pub(crate) unsafe extern "C" fn open(
    domain: *const FidDomain,
    info: *const Info,
    ep: *mut *mut FidEp,
    context: *mut c_void,
) -> c_int {
    let open = || -> Outcome<()> {
        // SAFETY: C passes an object of this provider, or null.
        let domain = unsafe { handle::place(domain) }?;
        // SAFETY: C passes an information, or null.
        let info = unsafe { info.as_ref() }.ok_or(Code::INVAL)?;
        if ep.is_null() {
            return Err(Code::INVAL);
        }
        // SAFETY: the attributes of an information are there, or null.
        let (tx, rx) = unsafe { (info.tx_attr.as_ref(), info.rx_attr.as_ref()) };
        let endpoint = Endpoint {
            // SAFETY: as above.
            caps: unsafe { info::caps_of(info) }?,
            is_enabled: false,
            vector: None,
            sending: None,
            receiving: None,
            counters: Vec::new(),
            send_flags: tx.map_or(0, |tx| tx.op_flags),
            receive_flags: rx.map_or(0, |rx| rx.op_flags & (COMPLETION | MULTI_RECV)),
            least: LEAST,
            claimed: HashMap::new(),
        };
        domain.enter(|core| match core.endpoint {
            Some(_) => Err(Code::MFILE),
            None => {
                core.node()?;
                core.endpoint = Some(endpoint);
                Ok(())
            }
        })?;
        let header = FidEp {
            fid: handle::fid(class::EP, context, &OPS),
            ops: &EP_OPS,
            cm: &CM_OPS,
            msg: &MSG_OPS,
            rma: &RMA_OPS,
            tagged: &TAGGED_OPS,
            atomic: &ATOMIC_OPS,
            collective: &COLLECTIVE_OPS,
        };
        // SAFETY: it is not null, and the caller has room for a pointer there.
        unsafe { ep.write(handle::open(header, domain)) };
        Ok(())
    };
    status(open())
}

/// `fi_endpoint2`.
pub(crate) unsafe extern "C" fn open2(
    domain: *const FidDomain,
    info: *const Info,
    ep: *mut *mut FidEp,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    match flags {
        // SAFETY: as for the shorter form.
        0 => unsafe { open(domain, info, ep, context) },
        _ => status(Err(Code::BADFLAGS)),
    }
}

unsafe extern "C" fn close(fid: *const Fid) -> c_int {
    let end = |domain: &Arc<Domain>| {
        domain.enter(|core| {
            core.end_operations(PATIENCE);
            core.endpoint = None;
            Ok(())
        })
    };
    // SAFETY: C passes an object of this provider, or null.
    status(unsafe { handle::close::<FidEp>(fid, end) })
}

unsafe extern "C" fn bind(fid: *const Fid, other: *const Fid, flags: u64) -> c_int {
    let bind = || -> Outcome<()> {
        // SAFETY: C passes an object of this provider, or null.
        let domain = unsafe { handle::place_of::<FidEp>(fid) }?;
        // SAFETY: likewise.
        let (class, change) = unsafe { binding(&domain, other, flags) }?;
        domain.enter(|core| {
            let endpoint = core.endpoint.as_mut().ok_or(Code::BADF)?;
            if endpoint.is_enabled && class != class::EQ {
                return Err(Code::OPBADSTATE);
            }
            change(endpoint)
        })
    };
    status(bind())
}

/// A change of an endpoint.
type Change = Box<dyn FnOnce(&mut Endpoint) -> Outcome<()>>;

/// The change that binding an object makes.
///
/// # Safety
/// `other` is null, or an object of this provider.
unsafe fn binding(domain: &Arc<Domain>, other: *const Fid, flags: u64) -> Outcome<(usize, Change)> {
    let same = |(of, index): (Arc<Domain>, usize)| match Arc::ptr_eq(&of, domain) {
        true => Ok(index),
        false => Err(Code::DOMAIN),
    };
    // SAFETY: as the caller promises.
    let class = unsafe { handle::class_of(other) };
    // SAFETY: as the caller promises; each arm names the type of its class.
    let change: Change = match class {
        class::AV => {
            // SAFETY: as above.
            let index = same(unsafe { handle::place_of::<FidAv>(other) }?)?;
            Box::new(move |endpoint| {
                endpoint.vector = Some(index);
                Ok(())
            })
        }
        class::CQ => {
            // SAFETY: as above.
            let index = same(unsafe { handle::place_of::<FidCq>(other) }?)?;
            Box::new(move |endpoint| bind_queue(endpoint, index, flags))
        }
        class::CNTR => {
            // SAFETY: as above.
            let index = same(unsafe { handle::place_of::<FidCntr>(other) }?)?;
            if flags & SIDES == 0 || flags & !SIDES != 0 {
                return Err(Code::BADFLAGS);
            }
            Box::new(move |endpoint| {
                endpoint.counters.push((flags, index));
                Ok(())
            })
        }
        class::EQ => {
            // SAFETY: as above.
            unsafe { handle::place_of::<FidEq>(other) }?;
            Box::new(|_| Ok(()))
        }
        _ => return Err(Code::INVAL),
    };
    Ok((class, change))
}

fn bind_queue(endpoint: &mut Endpoint, queue: usize, flags: u64) -> Outcome<()> {
    let sides = flags & (SEND | RECV);
    if sides == 0 || flags & !(SEND | RECV | SELECTIVE_COMPLETION) != 0 {
        return Err(Code::BADFLAGS);
    }
    let binding = Binding {
        queue,
        is_selective: flags & SELECTIVE_COMPLETION != 0,
    };
    if (sides & SEND != 0 && endpoint.sending.is_some())
        || (sides & RECV != 0 && endpoint.receiving.is_some())
    {
        return Err(Code::INVAL);
    }
    if sides & SEND != 0 {
        endpoint.sending = Some(binding);
    }
    if sides & RECV != 0 {
        endpoint.receiving = Some(binding);
    }
    Ok(())
}

unsafe extern "C" fn control(fid: *const Fid, number: c_int, argument: *mut c_void) -> c_int {
    let control = || -> Outcome<()> {
        // SAFETY: C passes an object of this provider, or null.
        let domain = unsafe { handle::place_of::<FidEp>(fid) }?;
        domain.enter(|core| match number {
            command::ENABLE => enable(core),
            // SAFETY: these have a number as their argument.
            command::GETOPSFLAG => unsafe { op_flags(core, argument.cast(), false) },
            // SAFETY: likewise.
            command::SETOPSFLAG => unsafe { op_flags(core, argument.cast(), true) },
            _ => Err(Code::NOSYS),
        })
    };
    status(control())
}

fn enable(core: &mut Core) -> Outcome<()> {
    core.node()?;
    let endpoint = core.endpoint.as_mut().ok_or(Code::BADF)?;
    if endpoint.vector.is_none() {
        return Err(Code::NOAV);
    }
    let lacks = |binding: Option<Binding>, side: u64| {
        let counted = endpoint.counters.iter().any(|(sides, _)| sides & side != 0);
        endpoint.caps & side != 0 && binding.is_none() && !counted
    };
    if lacks(endpoint.sending, SEND) || lacks(endpoint.receiving, RECV) {
        return Err(Code::NOCQ);
    }
    endpoint.is_enabled = true;
    Ok(())
}

/// Reads or sets the flags of operations that name none.
///
/// # Safety
/// `flags` is null or a number.
unsafe fn op_flags(core: &mut Core, flags: *mut u64, sets: bool) -> Outcome<()> {
    // SAFETY: as the caller promises.
    let flags = unsafe { flags.as_mut() }.ok_or(Code::INVAL)?;
    let endpoint = core.endpoint.as_mut().ok_or(Code::BADF)?;
    let side = *flags & (SEND | RECV);
    let own = match side {
        SEND => &mut endpoint.send_flags,
        RECV => &mut endpoint.receive_flags,
        _ => return Err(Code::INVAL),
    };
    match sets {
        true => *own = *flags & !side,
        false => *flags = *own,
    }
    Ok(())
}

unsafe extern "C" fn cancel(fid: *const Fid, context: *mut c_void) -> isize {
    // SAFETY: C passes an object of this provider, or null.
    let cancelled = unsafe { handle::place_of::<FidEp>(fid) }
        .and_then(|domain| domain.enter(|core| core.cancel(context as usize)));
    count(cancelled)
}

unsafe extern "C" fn getname(fid: *const Fid, into: *mut c_void, length: *mut usize) -> c_int {
    // SAFETY: C passes an object of this provider, or null.
    let written = unsafe { handle::place_of::<FidEp>(fid) }.and_then(|domain| {
        // SAFETY: C passes a buffer and its length, or null.
        unsafe { domain.name.write(into, length) }
    });
    status(written)
}

unsafe extern "C" fn getopt(
    fid: *const Fid,
    level: c_int,
    name: c_int,
    into: *mut c_void,
    length: *mut usize,
) -> c_int {
    let get = || -> Outcome<()> {
        // SAFETY: C passes an object of this provider, or null.
        let domain = unsafe { handle::place_of::<FidEp>(fid) }?;
        // SAFETY: C passes a number, or null.
        let length = unsafe { length.as_mut() }.ok_or(Code::INVAL)?;
        if level != option::ENDPOINT {
            return Err(Code::NOPROTOOPT);
        }
        let value = match name {
            option::MIN_MULTI_RECV => domain.enter(|core| {
                let endpoint = core.endpoint.as_ref().ok_or(Code::BADF)?;
                usize::try_from(endpoint.least).map_err(|_| Code::INVAL)
            })?,
            // There are no connections.
            option::CM_DATA_SIZE => 0,
            _ => return Err(Code::NOPROTOOPT),
        };
        if into.is_null() || *length < size_of::<usize>() {
            *length = size_of::<usize>();
            return Err(Code::TOOSMALL);
        }
        *length = size_of::<usize>();
        // SAFETY: the buffer is long enough, as C says; its alignment does not matter.
        unsafe { into.cast::<usize>().write_unaligned(value) };
        Ok(())
    };
    status(get())
}

unsafe extern "C" fn setopt(
    fid: *const Fid,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: usize,
) -> c_int {
    let set = || -> Outcome<()> {
        // SAFETY: C passes an object of this provider, or null.
        let domain = unsafe { handle::place_of::<FidEp>(fid) }?;
        if level != option::ENDPOINT || name != option::MIN_MULTI_RECV {
            return Err(Code::NOPROTOOPT);
        }
        if value.is_null() || length < size_of::<usize>() {
            return Err(Code::INVAL);
        }
        // SAFETY: the value is long enough, as C says; its alignment does not matter.
        let least = unsafe { value.cast::<usize>().read_unaligned() } as u64;
        domain.enter(|core| {
            let endpoint = core.endpoint.as_mut().ok_or(Code::BADF)?;
            endpoint.least = least;
            Ok(())
        })
    };
    status(set())
}
