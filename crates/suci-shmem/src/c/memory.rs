//! The symmetric heap.

use super::export;
use crate::heap::ALIGNMENT;
use crate::runtime::runtime;
use std::ffi::{c_long, c_void};
use std::ptr::null_mut;

export!(safe ["malloc"] (size: usize) -> *mut c_void { allocate(size, ALIGNMENT) });
export!(safe ["malloc_with_hints"] (size: usize, _hints: c_long) -> *mut c_void {
    allocate(size, ALIGNMENT)
});
export!(safe ["calloc"] (count: usize, size: usize) -> *mut c_void { zeroed(count, size) });
export!(safe ["align"] (alignment: usize, size: usize) -> *mut c_void { aligned(alignment, size) });
export!(safe ["realloc"] (ptr: *mut c_void, size: usize) -> *mut c_void { reallocate(ptr, size) });
export!(safe ["free"] (ptr: *mut c_void) { free(ptr) });

fn allocate(size: usize, alignment: usize) -> *mut c_void {
    match size {
        0 => null_mut(),
        size => runtime().allocate(size, alignment).cast(),
    }
}

fn zeroed(count: usize, size: usize) -> *mut c_void {
    let size = count.saturating_mul(size);
    let block = allocate(size, ALIGNMENT);
    if !block.is_null() {
        // SAFETY: the block has this size, and nobody else uses it before the barrier below.
        unsafe { block.cast::<u8>().write_bytes(0, size) };
        runtime().barrier_all();
    }
    block
}

fn aligned(alignment: usize, size: usize) -> *mut c_void {
    match alignment.is_power_of_two() {
        true => allocate(size, alignment),
        false => null_mut(),
    }
}

/// Allocates anew and copies; the old block is freed last, as all do in the same order.
fn reallocate(old: *mut c_void, size: usize) -> *mut c_void {
    if old.is_null() {
        return allocate(size, ALIGNMENT);
    }
    if size == 0 {
        free(old);
        return null_mut();
    }
    let before = runtime().length(old.cast());
    if size <= before && size > before / 2 {
        runtime().barrier_all();
        return old;
    }
    let new = allocate(size, ALIGNMENT);
    if !new.is_null() {
        // SAFETY: both blocks are in use, do not overlap, and have this length.
        unsafe { old.copy_to_nonoverlapping(new, before.min(size)) };
        free(old);
    }
    new
}

fn free(block: *mut c_void) {
    if !block.is_null() {
        runtime().free(block.cast());
    }
}

#[unsafe(no_mangle)]
extern "C" fn shmalloc(size: usize) -> *mut c_void {
    allocate(size, ALIGNMENT)
}

#[unsafe(no_mangle)]
extern "C" fn shfree(ptr: *mut c_void) {
    free(ptr);
}

#[unsafe(no_mangle)]
extern "C" fn shrealloc(ptr: *mut c_void, size: usize) -> *mut c_void {
    reallocate(ptr, size)
}

#[unsafe(no_mangle)]
extern "C" fn shmemalign(alignment: usize, size: usize) -> *mut c_void {
    aligned(alignment, size)
}

// Caches are coherent.
export!(safe ["set_cache_inv"] () {});
export!(safe ["set_cache_line_inv"] (_dest: *mut c_void) {});
export!(safe ["clear_cache_inv"] () {});
export!(safe ["clear_cache_line_inv"] (_dest: *mut c_void) {});
export!(safe ["udcflush"] () {});
export!(safe ["udcflush_line"] (_dest: *mut c_void) {});
