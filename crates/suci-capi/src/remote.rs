//! One-sided operations.

use crate::entry::on_host;
use crate::error::{
    ARGUMENT, BUSY, ENDED, ERRNO_BIT, Failure, INTERNAL, NO_REGION, NO_RIGHT, NOT_PERMITTED,
    OUT_OF_REGION, QUEUE_FULL, REFUSED, SUSPENDED, TIMED_OUT,
};
use crate::guard::guard;
use crate::handle::{Handle, REGION};
use crate::limit::{Limit, woken};
use crate::pointer;
use crate::table::{AtFork, Table};
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use suci::remote::{
    AtomicOp, BeginError, Cause, OperationError, Region, RegionError, RegionId, RemoteErrorKind,
    RemoteFailure, RemoteRegion, Rights, Signal, SignalUpdate, Width,
};
use suci::{Error, NodeId};

static REGIONS: Table<Arc<Region>> = Table::new(REGION, AtFork::Leave);

/// `SUCI_REGION_HUGE_PAGES`.
const HUGE_PAGES: u32 = 8;

/// `suci_remote_region`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawRemoteRegion {
    pub(crate) key: u64,
    pub(crate) node: u32,
    pub(crate) region: u32,
}

/// `suci_signal`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawSignal {
    pub(crate) offset: u64,
    pub(crate) value: u64,
    pub(crate) update: u32,
    pub(crate) reserved: u32,
}

impl RawRemoteRegion {
    pub(crate) const fn named(self) -> RemoteRegion {
        RemoteRegion {
            node: NodeId(self.node),
            region: RegionId(self.region),
            key: self.key,
        }
    }
}

impl RawSignal {
    pub(crate) fn checked(self) -> Result<Signal, Failure> {
        let update = match (self.update, self.reserved) {
            (0, 0) => SignalUpdate::Set(self.value),
            (1, 0) => SignalUpdate::Add(self.value),
            _ => {
                let text = "the signal's update is none of SUCI_SIGNAL_, or reserved is not 0";
                return Err(Failure::argument(text));
            }
        };
        Ok(Signal {
            offset: self.offset,
            update,
        })
    }
}

impl From<RegionError> for Failure {
    fn from(error: RegionError) -> Self {
        let text = error.to_string();
        match error {
            RegionError::Node(error) => error.into(),
            RegionError::TooLarge { .. } => Self::new(ERRNO_BIT | libc::ENOMEM, text),
            RegionError::TooMany(_) => Self::new(BUSY, text),
            _ => Self::new(INTERNAL, text),
        }
    }
}

impl From<RemoteFailure> for Failure {
    fn from(failure: RemoteFailure) -> Self {
        let text = failure.to_string();
        match failure {
            RemoteFailure::Node(error) => error.into(),
            RemoteFailure::NotBegun(BeginError::QueueFull | BeginError::TooManyOperations) => {
                Self::new(QUEUE_FULL, text)
            }
            RemoteFailure::NotBegun(_) | RemoteFailure::Taken => Self::new(ARGUMENT, text),
            RemoteFailure::TooManyContexts(_) => Self::new(BUSY, text),
            RemoteFailure::Suspended(node) => Self::new(SUSPENDED, text).at(node),
            RemoteFailure::Operation(error) => Self::new(code_of(&error), text).at(error.node),
            _ => Self::new(INTERNAL, text),
        }
    }
}

fn code_of(error: &OperationError) -> c_int {
    match error.cause {
        Cause::Remote(error) => match error.kind {
            RemoteErrorKind::NoRegion | RemoteErrorKind::Withdrawn => NO_REGION,
            RemoteErrorKind::WrongKey | RemoteErrorKind::NoRight => NO_RIGHT,
            RemoteErrorKind::OutOfBounds | RemoteErrorKind::Unaligned => OUT_OF_REGION,
            RemoteErrorKind::TooLong | RemoteErrorKind::Malformed => ARGUMENT,
        },
        Cause::Ended => ENDED,
        Cause::Refused | Cause::InvalidReply => REFUSED,
        Cause::NotPermitted => NOT_PERMITTED,
        Cause::Cancelled => TIMED_OUT,
    }
}

/// Returns the rights among the flags.
fn rights(flags: u32) -> Result<Rights, Failure> {
    let all = [Rights::READ, Rights::WRITE, Rights::ATOMIC];
    let named = (0..).zip(all).filter(|(bit, _)| flags & 1 << bit != 0);
    let named = named.map(|(_, right)| right).reduce(|one, more| one | more);
    match named {
        Some(rights) if flags < 8 => Ok(rights),
        _ => Err(Failure::argument(format!(
            "flags is {flags:#x}: pass at least one of the SUCI_REGION_ rights, and no other bits"
        ))),
    }
}

pub(crate) fn width(width: u32) -> Result<Width, Failure> {
    match width {
        4 => Ok(Width::Bits32),
        8 => Ok(Width::Bits64),
        _ => Err(Failure::argument(format!(
            "width is {width}: integers have 4 or 8 bytes"
        ))),
    }
}

/// Returns the operation with a number of `enum suci_atomic_op`.
pub(crate) fn operation(op: u32, operand: u64, expected: Option<u64>) -> Result<AtomicOp, Failure> {
    Ok(match (op, expected) {
        (0, _) => AtomicOp::Fetch,
        (1, _) => AtomicOp::Set(operand),
        (2, _) => AtomicOp::Add(operand),
        (3, _) => AtomicOp::And(operand),
        (4, _) => AtomicOp::Or(operand),
        (5, _) => AtomicOp::Xor(operand),
        (6, _) => AtomicOp::Swap(operand),
        (7, Some(expected)) => AtomicOp::CompareSwap {
            expected,
            new: operand,
        },
        (7, None) => {
            let text = "suci_atomic does not compare: call suci_fetch_atomic";
            return Err(Failure::argument(text));
        }
        _ => {
            let text = format!("op is {op}: pass a value of enum suci_atomic_op");
            return Err(Failure::argument(text));
        }
    })
}

/// Makes a call of the one-sided operations of the node, which waits for at most `timeout`.
macro_rules! on_remote {
    ($node:expr, $timeout:expr, $remote:ident => $call:expr) => {{
        let mut entered = $node.enter()?;
        let limit = $crate::limit::Limit::new($timeout).duration();
        let result = $crate::entry::on_host!(entered.host(), node => {
            let $remote = node.remote().limit(limit);
            $call
        });
        if matches!(result, Err(RemoteFailure::Node(Error::Woken))) {
            entered.entry().take_woken();
        }
        result
    }};
}
pub(crate) use on_remote;

/// Returns the result of a call that only waits for room.
pub(crate) fn begun<T>(result: Result<T, RemoteFailure>) -> Result<T, Failure> {
    let timed_out = matches!(result, Err(RemoteFailure::Node(Error::TimedOut { .. })));
    result.map_err(|failure| match (timed_out, Failure::from(failure)) {
        (true, failure) => failure.with_code(QUEUE_FULL),
        (false, failure) => failure,
    })
}

// ---- regions

/// Allocates a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_region_allocate(
    node: Handle,
    length: usize,
    flags: u32,
    region: *mut Handle,
) -> c_int {
    guard(|| {
        pointer::output(region, "region")?;
        let rights = rights(flags & !HUGE_PAGES)?;
        let mut node = node.enter()?;
        let allocated = on_host!(node.host(), node => match flags & HUGE_PAGES {
            0 => node.allocate_region(length, rights),
            _ => node.allocate_region_on_huge_pages(length, rights),
        });
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(region, REGIONS.insert(Arc::new(allocated?))?) };
        Ok(())
    })
}

/// Opens memory of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_region_lend(
    node: Handle,
    memory: *mut c_void,
    length: usize,
    flags: u32,
    region: *mut Handle,
) -> c_int {
    guard(|| {
        pointer::output(region, "region")?;
        pointer::output(memory, "memory")?;
        pointer::check_length::<u8>(length, "memory")?;
        let first = NonNull::new(memory.cast()).unwrap_or(NonNull::dangling());
        let rights = rights(flags)?;
        let mut node = node.enter()?;
        // SAFETY: as suci.h asks: the memory stays until the region is freed, and the program uses
        // it meanwhile only as others may use it beside.
        let lent = on_host!(node.host(), node => unsafe {
            node.lend_region(first, length, rights)
        });
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(region, REGIONS.insert(Arc::new(lent?))?) };
        Ok(())
    })
}

/// Gives the name of a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_region_name(region: Handle, name: *mut RawRemoteRegion) -> c_int {
    guard(|| {
        let handle = REGIONS.with(region, |region| Ok(region.handle()))?;
        let named = RawRemoteRegion {
            key: handle.key,
            node: handle.node.0,
            region: handle.region.0,
        };
        // SAFETY: as suci.h asks.
        unsafe { pointer::give(name, named, "name") }
    })
}

/// Returns the memory of a region.
#[unsafe(no_mangle)]
pub extern "C" fn suci_region_memory(region: Handle) -> *mut c_void {
    let mut memory = ptr::null_mut();
    guard(|| {
        memory = REGIONS.with(region, |region| Ok(region.as_ptr().cast()))?;
        Ok(())
    });
    memory
}

/// Tells how much of a region lies on huge pages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_region_huge_bytes(region: Handle, bytes: *mut u64) -> c_int {
    guard(|| {
        let huge = REGIONS.with(region, |region| Ok(region.bytes_on_huge_pages()))?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::give(bytes, huge, "bytes") }
    })
}

/// Withdraws a region.
#[unsafe(no_mangle)]
pub extern "C" fn suci_region_free(region: Handle) -> c_int {
    guard(|| REGIONS.remove(region, unused).map(drop))
}

/// Fails while a call uses the region: it must be withdrawn when the program has it back.
fn unused(region: &Arc<Region>) -> Result<(), Failure> {
    match Arc::strong_count(region) {
        1 => Ok(()),
        _ => {
            let text = "another call uses the region: free it when that has returned";
            Err(Failure::new(BUSY, text))
        }
    }
}

/// Returns a region for the time of a call.
pub(crate) fn region_of(handle: Handle) -> Result<Arc<Region>, Failure> {
    REGIONS.with(handle, |region| Ok(Arc::clone(region)))
}

/// Waits until an integer of a region compares as the program wants.
#[unsafe(no_mangle)]
pub extern "C" fn suci_region_wait(
    node: Handle,
    region: Handle,
    offset: u64,
    width: u32,
    comparison: u32,
    value: u64,
    timeout: i64,
) -> c_int {
    guard(|| {
        let (width, holds) = (self::width(width)?, compares(comparison)?);
        let region = region_of(region)?;
        let mut node = node.enter()?;
        if on_host!(node.host(), node => node.id()) != region.handle().node {
            let text = "the region is of another node: pass the node that opened it";
            return Err(Failure::argument(text));
        }
        let limit = Limit::new(timeout).duration();
        let ready = || match region.atomic(offset, width, AtomicOp::Fetch) {
            Ok(now) => holds(&now, &value).then_some(Ok(())),
            Err(error) => Some(Err(Failure::new(OUT_OF_REGION, error.to_string()))),
        };
        match on_host!(node.host(), node => node.wait_until(limit, ready)) {
            Ok(Some(found)) => found,
            Ok(None) => Err(Failure::timed_out()),
            Err(Error::Woken) => {
                node.entry().take_woken();
                Err(woken())
            }
            Err(error) => Err(error.into()),
        }
    })
}

/// Returns the comparison with a number of `enum suci_comparison`.
fn compares(comparison: u32) -> Result<fn(&u64, &u64) -> bool, Failure> {
    Ok(match comparison {
        0 => u64::eq,
        1 => u64::ne,
        2 => u64::gt,
        3 => u64::ge,
        4 => u64::lt,
        5 => u64::le,
        _ => {
            let text = format!("comparison is {comparison}: pass one of enum suci_comparison");
            return Err(Failure::argument(text));
        }
    })
}

// ---- operations

/// Writes to a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_put(
    node: Handle,
    to: *const RawRemoteRegion,
    offset: u64,
    data: *const c_void,
    length: usize,
    timeout: i64,
) -> c_int {
    guard(|| {
        // SAFETY: as suci.h asks.
        let to = unsafe { pointer::input(to, "to") }?.named();
        // SAFETY: as suci.h asks.
        let bytes = unsafe { pointer::bytes(data, length, "data") }?;
        begun(on_remote!(node, timeout, remote => remote.put_slice(&to, offset, bytes, None)))
    })
}

/// Writes to a region, then updates an integer there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_put_signal(
    node: Handle,
    to: *const RawRemoteRegion,
    offset: u64,
    data: *const c_void,
    length: usize,
    signal: *const RawSignal,
    timeout: i64,
) -> c_int {
    guard(|| {
        // SAFETY: as suci.h asks.
        let to = unsafe { pointer::input(to, "to") }?.named();
        // SAFETY: as suci.h asks.
        let signal = unsafe { pointer::input(signal, "signal") }?.checked()?;
        // SAFETY: as suci.h asks.
        let bytes = unsafe { pointer::bytes(data, length, "data") }?;
        begun(on_remote!(node, timeout, remote => {
            remote.put_slice(&to, offset, bytes, Some(signal))
        }))
    })
}

/// Reads from a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_get(
    node: Handle,
    from: *const RawRemoteRegion,
    offset: u64,
    data: *mut c_void,
    length: usize,
    timeout: i64,
) -> c_int {
    guard(|| {
        // SAFETY: as suci.h asks.
        let from = unsafe { pointer::input(from, "from") }?.named();
        // SAFETY: as suci.h asks.
        let into = unsafe { pointer::bytes_mut(data, length, "data") }?;
        Ok(on_remote!(node, timeout, remote => remote.get(&from, offset, into))?)
    })
}

/// Applies an atomic operation without a result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_atomic(
    node: Handle,
    at: *const RawRemoteRegion,
    offset: u64,
    width: u32,
    op: u32,
    operand: u64,
    timeout: i64,
) -> c_int {
    guard(|| {
        // SAFETY: as suci.h asks.
        let at = unsafe { pointer::input(at, "at") }?.named();
        let (width, op) = (self::width(width)?, operation(op, operand, None)?);
        begun(on_remote!(node, timeout, remote => remote.atomic(&at, offset, width, op)))
    })
}

/// Applies an atomic operation, and gives the integer before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_fetch_atomic(
    node: Handle,
    at: *const RawRemoteRegion,
    offset: u64,
    width: u32,
    op: u32,
    operand: u64,
    expected: u64,
    before: *mut u64,
    timeout: i64,
) -> c_int {
    guard(|| {
        pointer::output(before, "before")?;
        // SAFETY: as suci.h asks.
        let at = unsafe { pointer::input(at, "at") }?.named();
        let (width, op) = (self::width(width)?, operation(op, operand, Some(expected))?);
        let value = on_remote!(node, timeout, remote => {
            remote.fetch_atomic(&at, offset, width, op)
        })?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(before, value) };
        Ok(())
    })
}

/// Orders operations at a target.
#[unsafe(no_mangle)]
pub extern "C" fn suci_fence(node: Handle, target: u32) -> c_int {
    guard(|| Ok(on_remote!(node, 0, remote => remote.fence(NodeId(target)))?))
}

/// Waits until all operations were applied.
#[unsafe(no_mangle)]
pub extern "C" fn suci_quiet(node: Handle, timeout: i64) -> c_int {
    guard(|| Ok(on_remote!(node, timeout, remote => remote.quiet())?))
}
