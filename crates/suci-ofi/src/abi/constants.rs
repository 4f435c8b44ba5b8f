//! Flags, classes and numbers.

/// `FI_MSG` and others: what an endpoint can do, and what a completion tells.
pub(crate) const MSG: u64 = 1 << 1;
pub(crate) const TAGGED: u64 = 1 << 3;
pub(crate) const READ: u64 = 1 << 8;
pub(crate) const WRITE: u64 = 1 << 9;
pub(crate) const RECV: u64 = 1 << 10;
pub(crate) const SEND: u64 = 1 << 11;
pub(crate) const MULTI_RECV: u64 = 1 << 16;
pub(crate) const REMOTE_CQ_DATA: u64 = 1 << 17;
pub(crate) const MORE: u64 = 1 << 18;
pub(crate) const PEEK: u64 = 1 << 19;
pub(crate) const COMPLETION: u64 = 1 << 24;
pub(crate) const INJECT: u64 = 1 << 25;
pub(crate) const INJECT_COMPLETE: u64 = 1 << 26;
pub(crate) const TRANSMIT_COMPLETE: u64 = 1 << 27;
pub(crate) const DELIVERY_COMPLETE: u64 = 1 << 28;
pub(crate) const LOCAL_COMM: u64 = 1 << 51;
pub(crate) const REMOTE_COMM: u64 = 1 << 52;
pub(crate) const SOURCE: u64 = 1 << 57;
pub(crate) const DIRECTED_RECV: u64 = 1 << 59;
/// Of receives.
pub(crate) const CLAIM: u64 = 1 << 59;
pub(crate) const DISCARD: u64 = 1 << 58;
/// Of the binding of a completion queue.
pub(crate) const SELECTIVE_COMPLETION: u64 = 1 << 59;
/// Of `fi_av_insert`.
pub(crate) const SYNC_ERR: u64 = 1 << 58;

/// `FI_ADDR_UNSPEC`.
pub(crate) const ADDR_UNSPEC: u64 = u64::MAX;

/// `FI_ORDER_SAS`: sends are matched in their order.
pub(crate) const ORDER_SAS: u64 = 1 << 8;

/// `FI_EP_RDM`.
pub(crate) const EP_RDM: u32 = 3;

/// `FI_PROGRESS_MANUAL`.
pub(crate) const PROGRESS_MANUAL: u32 = 2;
/// `FI_PROGRESS_AUTO`.
pub(crate) const PROGRESS_AUTO: u32 = 1;
/// `FI_THREAD_SAFE`.
pub(crate) const THREAD_SAFE: u32 = 1;
/// `FI_RM_ENABLED`.
pub(crate) const RM_ENABLED: u32 = 2;
/// `FI_AV_TABLE`.
pub(crate) const AV_TABLE: u32 = 2;

/// `FI_ENABLE` and others: commands of `fi_control`.
pub(crate) mod command {
    use core::ffi::c_int;

    pub(crate) const GETOPSFLAG: c_int = 2;
    pub(crate) const SETOPSFLAG: c_int = 3;
    pub(crate) const ENABLE: c_int = 6;
}

/// `FI_CLASS_FABRIC` and others.
pub(crate) mod class {
    pub(crate) const UNSPEC: usize = 0;
    pub(crate) const FABRIC: usize = 1;
    pub(crate) const DOMAIN: usize = 2;
    pub(crate) const EP: usize = 3;
    pub(crate) const AV: usize = 11;
    pub(crate) const EQ: usize = 13;
    pub(crate) const CQ: usize = 14;
    pub(crate) const CNTR: usize = 15;
}

/// `FI_OPT_ENDPOINT`, and options.
pub(crate) mod option {
    use core::ffi::c_int;

    pub(crate) const ENDPOINT: c_int = 0;
    pub(crate) const MIN_MULTI_RECV: c_int = 0;
    pub(crate) const CM_DATA_SIZE: c_int = 1;
}

/// `FI_WAIT_NONE` and others.
pub(crate) mod wait {
    pub(crate) const NONE: u32 = 0;
    pub(crate) const UNSPEC: u32 = 1;
    pub(crate) const YIELD: u32 = 5;
}

/// `FI_CQ_FORMAT_CONTEXT` and others.
pub(crate) mod format {
    pub(crate) const UNSPEC: u32 = 0;
    pub(crate) const CONTEXT: u32 = 1;
    pub(crate) const MSG: u32 = 2;
    pub(crate) const DATA: u32 = 3;
    pub(crate) const TAGGED: u32 = 4;
}
