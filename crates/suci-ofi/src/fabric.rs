//! Fabrics.

use crate::abi::{FabricAttr, FiOps, Fid, FidDomain, FidFabric, Info, OpsFabric, class};
use crate::code::{Code, Outcome, not_there, status};
use crate::handle::{self, header};
use crate::{domain, events};
use core::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The name of the only fabric.
pub(crate) const NAME: &str = "suci";

/// How many objects of a fabric are open.
#[derive(Debug, Default)]
pub(crate) struct Fabric {
    open: AtomicUsize,
}

header!(FidFabric, class::FABRIC, Arc<Fabric>);

impl Fabric {
    /// Notes that an object of the fabric was opened.
    pub(crate) fn enter(self: &Arc<Self>) -> Member {
        self.open.fetch_add(1, Ordering::AcqRel);
        Member(Arc::clone(self))
    }
}

/// An object of a fabric.
#[derive(Debug)]
pub(crate) struct Member(Arc<Fabric>);

impl Drop for Member {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
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

static FABRIC_OPS: OpsFabric = OpsFabric {
    size: size_of::<OpsFabric>(),
    domain: open_domain,
    passive_ep: not_there,
    eq_open: events::open,
    wait_open: not_there,
    trywait: not_there,
    domain2: open_domain2,
};

/// `fi_fabric`.
pub(crate) unsafe extern "C" fn open(
    attr: *mut FabricAttr,
    fabric: *mut *mut FidFabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: libfabric passes attributes, or null.
    let attr = unsafe { attr.as_ref() };
    let Some(attr) = attr.filter(|_| !fabric.is_null()) else {
        return status(Err(Code::INVAL));
    };
    // SAFETY: the name is a string or null.
    let is_ours = unsafe { crate::name::text(attr.name) } == Ok(Some(NAME));
    if !is_ours {
        return status(Err(Code::NODATA));
    }
    let header = FidFabric {
        fid: handle::fid(class::FABRIC, context, &OPS),
        ops: &FABRIC_OPS,
        api_version: attr.api_version,
    };
    // SAFETY: it is not null, and the caller has room for a pointer there.
    unsafe { fabric.write(handle::open(header, Arc::default())) };
    0
}

unsafe extern "C" fn close(fid: *const Fid) -> c_int {
    let end = |fabric: &Arc<Fabric>| match fabric.open.load(Ordering::Acquire) {
        0 => Ok(()),
        _ => Err(Code::BUSY),
    };
    // SAFETY: C passes an object of this provider, or null.
    status(unsafe { handle::close::<FidFabric>(fid, end) })
}

unsafe extern "C" fn open_domain(
    fabric: *const FidFabric,
    info: *const Info,
    domain: *mut *mut FidDomain,
    context: *mut c_void,
) -> c_int {
    let open = || -> Outcome<()> {
        // SAFETY: C passes an object of this provider, or null.
        let place = unsafe { handle::place(fabric) }?;
        // SAFETY: C passes an information, or null.
        unsafe { domain::open(&place, info, domain, context) }
    };
    status(open())
}

unsafe extern "C" fn open_domain2(
    fabric: *const FidFabric,
    info: *const Info,
    domain: *mut *mut FidDomain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    match flags {
        // SAFETY: as for the shorter form.
        0 => unsafe { open_domain(fabric, info, domain, context) },
        _ => status(Err(Code::BADFLAGS)),
    }
}
