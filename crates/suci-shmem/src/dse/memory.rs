//! The memory module: bytes of one node that all nodes read and write.

use super::modules::MemoryModule;
use crate::arguments::check;
use crate::fabric::Place;
use crate::fatal;
use crate::heap::{ALIGNMENT, Heap};
use crate::runtime::{Runtime, runtime};
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};
use suci::remote::{AtomicOp, Width};

/// The functions of this module.
pub(super) const DEFAULT: MemoryModule = MemoryModule {
    begin: Some(begin),
    alloc: Some(alloc),
    free: Some(free),
    read: Some(read),
    write: Some(write),
    change: Some(change),
};

static MEMORY: OnceLock<GlobalMemory> = OnceLock::new();

fn memory() -> &'static GlobalMemory {
    match MEMORY.get() {
        Some(memory) => memory,
        None => fatal!("call the memory module's begin first, or dse_init()"),
    }
}

extern "C" fn begin() {
    let made = GlobalMemory::new(runtime());
    let _ = MEMORY.set(made);
}

extern "C" fn alloc(size: usize) -> u64 {
    memory().allocate(size)
}

extern "C" fn free(block: u64) {
    memory().free(block);
}

/// # Safety
/// `into` has room for `size` bytes.
unsafe extern "C" fn read(into: *mut c_void, from: u64, size: usize) {
    check(into, size, "into");
    if size > 0 {
        // SAFETY: the caller's promise.
        let into = unsafe { std::slice::from_raw_parts_mut(into.cast(), size) };
        memory().read(from, into);
    }
}

/// # Safety
/// `from` has `size` bytes.
unsafe extern "C" fn write(to: u64, from: *const c_void, size: usize) {
    check(from, size, "from");
    if size > 0 {
        // SAFETY: the caller's promise.
        let bytes: &[u8] = unsafe { std::slice::from_raw_parts(from.cast(), size) };
        memory().write(to, bytes.to_vec());
    }
}

/// `enum dse_change`
pub(super) const FETCH: c_int = 0;
pub(super) const SET: c_int = 1;
pub(super) const ADD: c_int = 2;
pub(super) const COMPARE_SWAP: c_int = 3;

extern "C" fn change(at: u64, kind: c_int, operand: u64, expected: u64) -> u64 {
    let op = match kind {
        FETCH => AtomicOp::Fetch,
        SET => AtomicOp::Set(operand),
        ADD => AtomicOp::Add(operand),
        COMPARE_SWAP => AtomicOp::CompareSwap {
            expected,
            new: operand,
        },
        _ => fatal!("the change is {kind}: pass one of enum dse_change"),
    };
    memory().change(at, op)
}

/// Bits of an address that are an offset; the bits above them are a node and 1.
const OFFSET_BITS: u32 = 40;

/// The global memory of this node and all others.
struct GlobalMemory {
    /// The first byte of each node's part, in its heap.
    part: Place,
    length: usize,
    /// The blocks of this node's part.
    blocks: Mutex<Heap>,
}

/// A byte of a node.
#[derive(Clone, Copy)]
struct Location {
    node: usize,
    offset: usize,
}

impl GlobalMemory {
    /// Takes half of the heap at each node. Blocks until all do so.
    fn new(runtime: &Runtime) -> Self {
        let length = runtime.heap_length() / 2;
        let first = runtime.allocate(length, ALIGNMENT);
        if first.is_null() {
            fatal!(
                "the heap has no room for {length} bytes of global memory: call dse_init() first"
            );
        }
        Self {
            part: runtime.fabric.place_of(first.addr(), length),
            length,
            blocks: Mutex::new(Heap::new(length)),
        }
    }

    /// Allocates zeros at this node. Returns 0 if there is no room.
    fn allocate(&self, size: usize) -> u64 {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(offset) = blocks.allocate(size, ALIGNMENT) else {
            return 0;
        };
        let length = blocks.length(offset).unwrap_or(0);
        drop(blocks);
        let fabric = &runtime().fabric;
        fabric.write(self.part, offset, &vec![0; length]);
        ((fabric.me as u64 + 1) << OFFSET_BITS) | offset as u64
    }

    /// Frees a block of this node.
    fn free(&self, address: u64) {
        let at = self.location(address, 0);
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if at.node != runtime().fabric.me || !blocks.free(at.offset) {
            fatal!("{address:#x} is no block of this node: free it where it was allocated, once");
        }
    }

    fn location(&self, address: u64, length: usize) -> Location {
        let node = usize::try_from(address >> OFFSET_BITS).ok();
        let node = node.and_then(|node| node.checked_sub(1));
        let node = node.filter(|node| *node < runtime().fabric.size);
        let offset = usize::try_from(address & ((1 << OFFSET_BITS) - 1)).ok();
        let fits = |offset: &usize| {
            let end = offset.checked_add(length);
            end.is_some_and(|end| end <= self.length)
        };
        match (node, offset.filter(fits)) {
            (Some(node), Some(offset)) => Location { node, offset },
            _ => fatal!(
                "{length} bytes at {address:#x} are not global: pass what dse_alloc() returned"
            ),
        }
    }

    fn read(&self, address: u64, into: &mut [u8]) {
        let at = self.location(address, into.len());
        let fabric = &runtime().fabric;
        match at.node == fabric.me {
            true => fabric.read(self.part, at.offset, into),
            false => fabric.get_at(at.node, self.part, at.offset, into),
        }
    }

    /// Writes, and waits until the node has the bytes.
    fn write(&self, address: u64, bytes: Vec<u8>) {
        let at = self.location(address, bytes.len());
        let fabric = &runtime().fabric;
        if at.node == fabric.me {
            fabric.write(self.part, at.offset, &bytes);
        } else {
            fabric.put_at(at.node, self.part, at.offset, bytes);
            fabric.quiet();
        }
    }

    /// Applies an atomic operation to a 64-bit integer; returns it as it was before.
    fn change(&self, address: u64, op: AtomicOp) -> u64 {
        let at = self.location(address, 8);
        let fabric = &runtime().fabric;
        fabric.fetch_atomic_at(at.node, self.part, at.offset, Width::Bits64, op)
    }
}
