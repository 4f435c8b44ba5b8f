//! One-sided operations that are strided, gathered, begun and awaited later, or of a context.

use crate::entry::on_host;
use crate::error::Failure;
use crate::guard::guard;
use crate::handle::{CONTEXT, Handle};
use crate::pointer;
use crate::remote::{RawRemoteRegion, RawSignal, begun, on_remote, operation, region_of, width};
use crate::table::{AtFork, Table};
use std::ffi::{c_int, c_void};
use suci::remote::{
    Extent, Layout, OpenContext, PendingOperation, Remote, RemoteFailure, RemoteNode,
};
use suci::{Bytes, Error, NodeId};

static CONTEXTS: Table<Context> = Table::new(CONTEXT, AtFork::Leave);

/// A context, and the node that opened it.
#[derive(Clone)]
struct Context {
    node: Handle,
    open: OpenContext,
}

/// `suci_extent`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawExtent {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// `suci_layout`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawLayout {
    pub(crate) offset: u64,
    pub(crate) element: u64,
    pub(crate) stride: u64,
    pub(crate) extents: *const RawExtent,
    pub(crate) count: u32,
    pub(crate) reserved: u32,
}

/// `suci_operation`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawOperation {
    pub(crate) id: u64,
    pub(crate) layer: u32,
    pub(crate) reserved: u32,
}

/// Returns the layout that C describes.
///
/// # Safety
/// If `raw` is not null, it points to a layout; if its extents are not null, there are `count`.
unsafe fn layout(raw: *const RawLayout, name: &str) -> Result<Layout, Failure> {
    // SAFETY: the caller's promise.
    let raw = unsafe { pointer::input(raw, name) }?;
    if raw.reserved != 0 {
        let text = format!("{name}->reserved is {}: set it to 0", raw.reserved);
        return Err(Failure::argument(text));
    }
    let layout = if raw.extents.is_null() {
        Layout::strided(raw.offset, raw.element, raw.stride, raw.count)
    } else {
        // SAFETY: the caller's promise.
        let extents = unsafe { pointer::items(raw.extents, raw.count as usize, "extents") }?;
        let extent = |raw: &RawExtent| Extent {
            offset: raw.offset,
            length: raw.length,
        };
        Layout::extents(&extents.iter().map(extent).collect::<Vec<_>>())
    };
    layout.map_err(|error| Failure::argument(format!("{name}: {error}")))
}

/// Returns the context behind a handle; none for the null handle, the node's own.
fn context_of(handle: Handle, node: Handle) -> Result<Option<OpenContext>, Failure> {
    if handle.id == 0 {
        return Ok(None);
    }
    let context = CONTEXTS.with(handle, |context| Ok(context.clone()))?;
    match context.node.id == node.id {
        true => Ok(Some(context.open)),
        false => Err(Failure::argument(
            "the context is of another node: pass the node that opened it",
        )),
    }
}

/// Returns the operations of a context.
fn within<'a, N: RemoteNode>(
    remote: Remote<'a, N>,
    context: Option<&OpenContext>,
) -> Remote<'a, N> {
    match context {
        Some(context) => remote.within(context),
        None => remote,
    }
}

// ---- contexts

/// Opens a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_context_open(node: Handle, context: *mut Handle) -> c_int {
    guard(|| {
        pointer::output(context, "context")?;
        let open = on_remote!(node, 0, remote => remote.open_context())?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(context, CONTEXTS.insert(Context { node, open })?) };
        Ok(())
    })
}

/// Closes a context.
#[unsafe(no_mangle)]
pub extern "C" fn suci_context_free(context: Handle) -> c_int {
    guard(|| {
        let Context { node, open } = CONTEXTS.remove(context, |_| Ok(()))?;
        // The contexts of a node that was freed are closed.
        if let Ok(mut node) = node.enter() {
            on_host!(node.host(), node => node.remote().close_context(&open));
        }
        Ok(())
    })
}

/// Orders the operations of a context at a target.
#[unsafe(no_mangle)]
pub extern "C" fn suci_context_fence(node: Handle, context: Handle, target: u32) -> c_int {
    guard(|| {
        let context = context_of(context, node)?;
        Ok(on_remote!(node, 0, remote => {
            within(remote, context.as_ref()).fence(NodeId(target))
        })?)
    })
}

/// Waits until all operations of a context were applied.
#[unsafe(no_mangle)]
pub extern "C" fn suci_context_quiet(node: Handle, context: Handle, timeout: i64) -> c_int {
    guard(|| {
        let context = context_of(context, node)?;
        Ok(on_remote!(node, timeout, remote => {
            within(remote, context.as_ref()).quiet()
        })?)
    })
}

// ---- operations

/// Writes to places of a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_put_layout(
    node: Handle,
    context: Handle,
    to: *const RawRemoteRegion,
    places: *const RawLayout,
    data: *const c_void,
    length: usize,
    signal: *const RawSignal,
    timeout: i64,
) -> c_int {
    guard(|| {
        let context = context_of(context, node)?;
        // SAFETY: as suci.h asks, here and below.
        let to = unsafe { pointer::input(to, "to") }?.named();
        // SAFETY: as above.
        let places = unsafe { layout(places, "places") }?;
        // SAFETY: as above.
        let signal = unsafe { signal.as_ref() };
        let signal = signal.map(|signal| signal.checked()).transpose()?;
        // SAFETY: as above.
        let bytes = Bytes::copy_from_slice(unsafe { pointer::bytes(data, length, "data") }?);
        begun(on_remote!(node, timeout, remote => {
            within(remote, context.as_ref()).put_layout(&to, places, bytes, signal)
        }))
    })
}

/// Reads from places of a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_get_layout(
    node: Handle,
    context: Handle,
    from: *const RawRemoteRegion,
    places: *const RawLayout,
    data: *mut c_void,
    length: usize,
    timeout: i64,
) -> c_int {
    guard(|| {
        let context = context_of(context, node)?;
        // SAFETY: as suci.h asks, here and below.
        let from = unsafe { pointer::input(from, "from") }?.named();
        // SAFETY: as above.
        let places = unsafe { layout(places, "places") }?;
        // SAFETY: as above.
        let into = unsafe { pointer::bytes_mut(data, length, "data") }?;
        Ok(on_remote!(node, timeout, remote => {
            within(remote, context.as_ref()).get_layout(&from, places, into)
        })?)
    })
}

/// Begins to read from places of a region into places of another one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_begin_get(
    node: Handle,
    context: Handle,
    from: *const RawRemoteRegion,
    places: *const RawLayout,
    into: Handle,
    at: *const RawLayout,
    operation: *mut RawOperation,
    timeout: i64,
) -> c_int {
    guard(|| {
        pointer::output(operation, "operation")?;
        let (context, into) = (context_of(context, node)?, region_of(into)?);
        // SAFETY: as suci.h asks, here and below.
        let from = unsafe { pointer::input(from, "from") }?.named();
        // SAFETY: as above.
        let (places, at) = unsafe { (layout(places, "places")?, layout(at, "at")?) };
        let begun = begun(on_remote!(node, timeout, remote => {
            within(remote, context.as_ref()).begin_get(&from, places, &into, at)
        }))?;
        // SAFETY: as above.
        unsafe { pointer::put(operation, raw(begun)) };
        Ok(())
    })
}

/// Begins an atomic operation, with or without a result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_begin_atomic(
    node: Handle,
    context: Handle,
    at: *const RawRemoteRegion,
    offset: u64,
    width: u32,
    op: u32,
    operand: u64,
    expected: u64,
    operation: *mut RawOperation,
    timeout: i64,
) -> c_int {
    guard(|| {
        let context = context_of(context, node)?;
        // SAFETY: as suci.h asks.
        let at = unsafe { pointer::input(at, "at") }?.named();
        let width = self::width(width)?;
        if operation.is_null() {
            let op = self::operation(op, operand, None)?;
            return begun(on_remote!(node, timeout, remote => {
                within(remote, context.as_ref()).atomic(&at, offset, width, op)
            }));
        }
        let op = self::operation(op, operand, Some(expected))?;
        let begun = begun(on_remote!(node, timeout, remote => {
            within(remote, context.as_ref()).begin_fetch_atomic(&at, offset, width, op)
        }))?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(operation, raw(begun)) };
        Ok(())
    })
}

const fn raw(operation: PendingOperation) -> RawOperation {
    let (id, layer) = operation.to_raw();
    RawOperation {
        id,
        layer,
        reserved: 0,
    }
}

/// Waits for the end of an operation that was begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_operation_wait(
    node: Handle,
    operation: *const RawOperation,
    value: *mut u64,
    timeout: i64,
) -> c_int {
    guard(|| {
        // SAFETY: as suci.h asks.
        let operation = *unsafe { pointer::input(operation, "operation") }?;
        let begun = PendingOperation::from_raw((operation.id, operation.layer));
        let result = on_remote!(node, timeout, remote => remote.wait(begun))?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(value, result.unwrap_or(0)) };
        Ok(())
    })
}
