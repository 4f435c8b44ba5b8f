//! Completion queues, event queues and counters.

use super::{FiAddr, Fid, Refused};
use core::ffi::{c_char, c_int, c_void};

/// `struct fi_cq_attr`.
#[repr(C)]
pub(crate) struct CqAttr {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) format: u32,
    pub(crate) wait_obj: u32,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_cond: u32,
    pub(crate) wait_set: *mut c_void,
}

/// `struct fi_cq_tagged_entry`. The entries of the other formats are its beginnings.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CqTaggedEntry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
}

/// `struct fi_cq_err_entry` of libfabric 1.17, without the source.
#[repr(C)]
pub(crate) struct CqErrEntry {
    pub(crate) entry: CqTaggedEntry,
    pub(crate) olen: usize,
    pub(crate) err: c_int,
    pub(crate) prov_errno: c_int,
    pub(crate) err_data: *mut c_void,
    pub(crate) err_data_size: usize,
}

/// `struct fid_cq`.
#[repr(C)]
pub(crate) struct FidCq {
    pub(crate) fid: Fid,
    pub(crate) ops: *const OpsCq,
}

/// `struct fi_ops_cq`.
#[repr(C)]
pub(crate) struct OpsCq {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(*const FidCq, *mut c_void, usize) -> isize,
    pub(crate) readfrom:
        unsafe extern "C" fn(*const FidCq, *mut c_void, usize, *mut FiAddr) -> isize,
    pub(crate) readerr: unsafe extern "C" fn(*const FidCq, *mut CqErrEntry, u64) -> isize,
    pub(crate) sread:
        unsafe extern "C" fn(*const FidCq, *mut c_void, usize, *const c_void, c_int) -> isize,
    pub(crate) sreadfrom: unsafe extern "C" fn(
        *const FidCq,
        *mut c_void,
        usize,
        *mut FiAddr,
        *const c_void,
        c_int,
    ) -> isize,
    pub(crate) signal: unsafe extern "C" fn(*const FidCq) -> c_int,
    pub(crate) strerror: unsafe extern "C" fn(
        *const FidCq,
        c_int,
        *const c_void,
        *mut c_char,
        usize,
    ) -> *const c_char,
}

/// `struct fi_cntr_attr`.
#[repr(C)]
pub(crate) struct CntrAttr {
    pub(crate) events: u32,
    pub(crate) wait_obj: u32,
    pub(crate) wait_set: *mut c_void,
    pub(crate) flags: u64,
}

/// `struct fid_cntr`.
#[repr(C)]
pub(crate) struct FidCntr {
    pub(crate) fid: Fid,
    pub(crate) ops: *const OpsCntr,
}

/// `struct fi_ops_cntr`.
#[repr(C)]
pub(crate) struct OpsCntr {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(*const FidCntr) -> u64,
    pub(crate) readerr: unsafe extern "C" fn(*const FidCntr) -> u64,
    pub(crate) add: unsafe extern "C" fn(*const FidCntr, u64) -> c_int,
    pub(crate) set: unsafe extern "C" fn(*const FidCntr, u64) -> c_int,
    pub(crate) wait: unsafe extern "C" fn(*const FidCntr, u64, c_int) -> c_int,
    pub(crate) adderr: unsafe extern "C" fn(*const FidCntr, u64) -> c_int,
    pub(crate) seterr: unsafe extern "C" fn(*const FidCntr, u64) -> c_int,
}

/// `struct fi_eq_attr`.
#[repr(C)]
pub(crate) struct EqAttr {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) wait_obj: u32,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_set: *mut c_void,
}

/// `struct fid_eq`.
#[repr(C)]
pub(crate) struct FidEq {
    pub(crate) fid: Fid,
    pub(crate) ops: *const OpsEq,
}

/// `struct fi_ops_eq`.
#[repr(C)]
pub(crate) struct OpsEq {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(*const FidEq, *mut u32, *mut c_void, usize, u64) -> isize,
    pub(crate) readerr: unsafe extern "C" fn(*const FidEq, *mut c_void, u64) -> isize,
    pub(crate) write: unsafe extern "C" fn(*const FidEq, u32, *const c_void, usize, u64) -> isize,
    pub(crate) sread:
        unsafe extern "C" fn(*const FidEq, *mut u32, *mut c_void, usize, c_int, u64) -> isize,
    pub(crate) strerror: unsafe extern "C" fn(
        *const FidEq,
        c_int,
        *const c_void,
        *mut c_char,
        usize,
    ) -> *const c_char,
}

/// `struct fi_ops_mr`: no memory is registered.
#[repr(C)]
pub(crate) struct OpsMr {
    pub(crate) size: usize,
    pub(crate) reg: Refused,
    pub(crate) regv: Refused,
    pub(crate) regattr: Refused,
}
