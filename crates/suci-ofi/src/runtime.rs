//! Functions of the libfabric that loaded the provider.
//!
//! Several versions of a function have one name. `dlsym` finds the newest, and the linker would
//! take the oldest, whose structures are shorter.

use crate::abi::Info;
use core::ffi::{CStr, c_char, c_void};

/// Returns `fi_version()`.
pub(crate) fn version() -> Option<u32> {
    let function = symbol(c"fi_version")?;
    // SAFETY: `uint32_t fi_version(void)`.
    let version: extern "C" fn() -> u32 = unsafe { std::mem::transmute(function) };
    Some(version())
}

/// Allocates an information with all its attributes, of this libfabric's sizes.
pub(crate) fn new_info() -> Option<*mut Info> {
    let function = symbol(c"fi_dupinfo")?;
    // SAFETY: `struct fi_info *fi_dupinfo(const struct fi_info *)`, which allocates for null.
    let duplicate: unsafe extern "C" fn(*const Info) -> *mut Info =
        unsafe { std::mem::transmute(function) };
    // SAFETY: null is allowed.
    let info = unsafe { duplicate(std::ptr::null()) };
    (!info.is_null()).then_some(info)
}

/// Frees a list of information.
pub(crate) fn free_info(info: *mut Info) {
    if let Some(function) = symbol(c"fi_freeinfo") {
        // SAFETY: `void fi_freeinfo(struct fi_info *)`.
        let free: unsafe extern "C" fn(*mut Info) = unsafe { std::mem::transmute(function) };
        // SAFETY: the list is from `new_info`, and nobody else has it.
        unsafe { free(info) };
    }
}

/// Returns a copy of a string that libfabric frees.
pub(crate) fn string(text: &str) -> *mut c_char {
    let text: Vec<u8> = text.bytes().filter(|byte| *byte != 0).chain([0]).collect();
    // SAFETY: it ends with a zero.
    unsafe { libc::strdup(text.as_ptr().cast()) }
}

/// Returns a copy of bytes that libfabric frees; null without memory.
pub(crate) fn bytes(bytes: &[u8]) -> *mut c_void {
    // SAFETY: any length may be asked for.
    let memory = unsafe { libc::malloc(bytes.len()) };
    if !memory.is_null() {
        // SAFETY: the memory is new and has as many bytes.
        unsafe {
            memory
                .cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
    }
    memory
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
