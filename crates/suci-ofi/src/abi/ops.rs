//! Tables of functions.
//!
//! A slot of the type [`Refused`] is one that the provider does not fill with a function of its
//! own. Its function takes no argument, whatever the caller passes: in the calling conventions of
//! C on Linux the caller owns the place of the arguments, and the result is in one register for
//! `int` and `ssize_t` alike.

use super::{AvAttr, CntrAttr, CqAttr, EqAttr, FiAddr, Fid, FidCntr, FidCq, FidEq, Info, Msg};
use super::{MsgTagged, OpsMr};
use core::ffi::{c_char, c_int, c_void};

/// A slot whose function returns an error.
pub(crate) type Refused = extern "C" fn() -> isize;

/// `struct fi_ops`.
#[repr(C)]
pub(crate) struct FiOps {
    pub(crate) size: usize,
    pub(crate) close: unsafe extern "C" fn(*const Fid) -> c_int,
    pub(crate) bind: unsafe extern "C" fn(*const Fid, *const Fid, u64) -> c_int,
    pub(crate) control: unsafe extern "C" fn(*const Fid, c_int, *mut c_void) -> c_int,
    pub(crate) ops_open: Refused,
    pub(crate) tostr: Refused,
    pub(crate) ops_set: Refused,
}

/// `struct fid_fabric`.
#[repr(C)]
pub(crate) struct FidFabric {
    pub(crate) fid: Fid,
    pub(crate) ops: *const OpsFabric,
    pub(crate) api_version: u32,
}

/// `struct fi_ops_fabric`.
#[repr(C)]
pub(crate) struct OpsFabric {
    pub(crate) size: usize,
    pub(crate) domain: unsafe extern "C" fn(
        *const FidFabric,
        *const Info,
        *mut *mut FidDomain,
        *mut c_void,
    ) -> c_int,
    pub(crate) passive_ep: Refused,
    pub(crate) eq_open: unsafe extern "C" fn(
        *const FidFabric,
        *const EqAttr,
        *mut *mut FidEq,
        *mut c_void,
    ) -> c_int,
    pub(crate) wait_open: Refused,
    pub(crate) trywait: Refused,
    pub(crate) domain2: unsafe extern "C" fn(
        *const FidFabric,
        *const Info,
        *mut *mut FidDomain,
        u64,
        *mut c_void,
    ) -> c_int,
}

/// `struct fid_domain`.
#[repr(C)]
pub(crate) struct FidDomain {
    pub(crate) fid: Fid,
    pub(crate) ops: *const OpsDomain,
    pub(crate) mr: *const OpsMr,
}

/// `struct fi_ops_domain`.
#[repr(C)]
pub(crate) struct OpsDomain {
    pub(crate) size: usize,
    pub(crate) av_open: unsafe extern "C" fn(
        *const FidDomain,
        *const AvAttr,
        *mut *mut FidAv,
        *mut c_void,
    ) -> c_int,
    pub(crate) cq_open: unsafe extern "C" fn(
        *const FidDomain,
        *const CqAttr,
        *mut *mut FidCq,
        *mut c_void,
    ) -> c_int,
    pub(crate) endpoint:
        unsafe extern "C" fn(*const FidDomain, *const Info, *mut *mut FidEp, *mut c_void) -> c_int,
    pub(crate) scalable_ep: Refused,
    pub(crate) cntr_open: unsafe extern "C" fn(
        *const FidDomain,
        *const CntrAttr,
        *mut *mut FidCntr,
        *mut c_void,
    ) -> c_int,
    pub(crate) poll_open: Refused,
    pub(crate) stx_ctx: Refused,
    pub(crate) srx_ctx: Refused,
    pub(crate) query_atomic: Refused,
    pub(crate) query_collective: Refused,
    pub(crate) endpoint2: unsafe extern "C" fn(
        *const FidDomain,
        *const Info,
        *mut *mut FidEp,
        u64,
        *mut c_void,
    ) -> c_int,
    pub(crate) xpu_ctx: Refused,
}

/// `struct fid_av`.
#[repr(C)]
pub(crate) struct FidAv {
    pub(crate) fid: Fid,
    pub(crate) ops: *const OpsAv,
}

/// `struct fi_ops_av`.
#[repr(C)]
pub(crate) struct OpsAv {
    pub(crate) size: usize,
    pub(crate) insert: unsafe extern "C" fn(
        *const FidAv,
        *const c_void,
        usize,
        *mut FiAddr,
        u64,
        *mut c_void,
    ) -> c_int,
    pub(crate) insertsvc: unsafe extern "C" fn(
        *const FidAv,
        *const c_char,
        *const c_char,
        *mut FiAddr,
        u64,
        *mut c_void,
    ) -> c_int,
    pub(crate) insertsym: Refused,
    pub(crate) remove: unsafe extern "C" fn(*const FidAv, *const FiAddr, usize, u64) -> c_int,
    pub(crate) lookup: unsafe extern "C" fn(*const FidAv, FiAddr, *mut c_void, *mut usize) -> c_int,
    pub(crate) straddr:
        unsafe extern "C" fn(*const FidAv, *const c_void, *mut c_char, *mut usize) -> *const c_char,
    pub(crate) av_set: Refused,
    pub(crate) insert_auth_key: Refused,
    pub(crate) lookup_auth_key: Refused,
    pub(crate) set_user_id: Refused,
    pub(crate) lookup2: Refused,
}

/// `struct fid_ep`.
#[repr(C)]
pub(crate) struct FidEp {
    pub(crate) fid: Fid,
    pub(crate) ops: *const OpsEp,
    pub(crate) cm: *const OpsCm,
    pub(crate) msg: *const OpsMsg,
    pub(crate) rma: *const RefusedOps<9>,
    pub(crate) tagged: *const OpsTagged,
    pub(crate) atomic: *const RefusedOps<13>,
    pub(crate) collective: *const RefusedOps<11>,
}

/// `struct fi_ops_ep`.
#[repr(C)]
pub(crate) struct OpsEp {
    pub(crate) size: usize,
    pub(crate) cancel: unsafe extern "C" fn(*const Fid, *mut c_void) -> isize,
    pub(crate) getopt:
        unsafe extern "C" fn(*const Fid, c_int, c_int, *mut c_void, *mut usize) -> c_int,
    pub(crate) setopt:
        unsafe extern "C" fn(*const Fid, c_int, c_int, *const c_void, usize) -> c_int,
    pub(crate) tx_ctx: Refused,
    pub(crate) rx_ctx: Refused,
    pub(crate) rx_size_left: Refused,
    pub(crate) tx_size_left: Refused,
    pub(crate) export_xpu: Refused,
}

/// `struct fi_ops_cm`.
#[repr(C)]
pub(crate) struct OpsCm {
    pub(crate) size: usize,
    pub(crate) setname: Refused,
    pub(crate) getname: unsafe extern "C" fn(*const Fid, *mut c_void, *mut usize) -> c_int,
    pub(crate) getpeer: Refused,
    pub(crate) connect: Refused,
    pub(crate) listen: Refused,
    pub(crate) accept: Refused,
    pub(crate) reject: Refused,
    pub(crate) shutdown: Refused,
    pub(crate) join: Refused,
}

/// A table of functions that are all refused: those of an interface that the provider does not
/// have.
#[repr(C)]
pub(crate) struct RefusedOps<const COUNT: usize> {
    pub(crate) size: usize,
    pub(crate) slots: [Refused; COUNT],
}

/// `struct fi_ops_msg`.
#[repr(C)]
pub(crate) struct OpsMsg {
    pub(crate) size: usize,
    pub(crate) recv: unsafe extern "C" fn(
        *const FidEp,
        *mut c_void,
        usize,
        *mut c_void,
        FiAddr,
        *mut c_void,
    ) -> isize,
    pub(crate) recvv: unsafe extern "C" fn(
        *const FidEp,
        *const libc::iovec,
        *mut *mut c_void,
        usize,
        FiAddr,
        *mut c_void,
    ) -> isize,
    pub(crate) recvmsg: unsafe extern "C" fn(*const FidEp, *const Msg, u64) -> isize,
    pub(crate) send: unsafe extern "C" fn(
        *const FidEp,
        *const c_void,
        usize,
        *mut c_void,
        FiAddr,
        *mut c_void,
    ) -> isize,
    pub(crate) sendv: unsafe extern "C" fn(
        *const FidEp,
        *const libc::iovec,
        *mut *mut c_void,
        usize,
        FiAddr,
        *mut c_void,
    ) -> isize,
    pub(crate) sendmsg: unsafe extern "C" fn(*const FidEp, *const Msg, u64) -> isize,
    pub(crate) inject: unsafe extern "C" fn(*const FidEp, *const c_void, usize, FiAddr) -> isize,
    pub(crate) senddata: unsafe extern "C" fn(
        *const FidEp,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        FiAddr,
        *mut c_void,
    ) -> isize,
    pub(crate) injectdata:
        unsafe extern "C" fn(*const FidEp, *const c_void, usize, u64, FiAddr) -> isize,
}

/// `struct fi_ops_tagged`.
#[repr(C)]
pub(crate) struct OpsTagged {
    pub(crate) size: usize,
    pub(crate) recv: unsafe extern "C" fn(
        *const FidEp,
        *mut c_void,
        usize,
        *mut c_void,
        FiAddr,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) recvv: unsafe extern "C" fn(
        *const FidEp,
        *const libc::iovec,
        *mut *mut c_void,
        usize,
        FiAddr,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) recvmsg: unsafe extern "C" fn(*const FidEp, *const MsgTagged, u64) -> isize,
    pub(crate) send: unsafe extern "C" fn(
        *const FidEp,
        *const c_void,
        usize,
        *mut c_void,
        FiAddr,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) sendv: unsafe extern "C" fn(
        *const FidEp,
        *const libc::iovec,
        *mut *mut c_void,
        usize,
        FiAddr,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) sendmsg: unsafe extern "C" fn(*const FidEp, *const MsgTagged, u64) -> isize,
    pub(crate) inject:
        unsafe extern "C" fn(*const FidEp, *const c_void, usize, FiAddr, u64) -> isize,
    pub(crate) senddata: unsafe extern "C" fn(
        *const FidEp,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        FiAddr,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) injectdata:
        unsafe extern "C" fn(*const FidEp, *const c_void, usize, u64, FiAddr, u64) -> isize,
}
