//! The place that `suci run` or another launcher gives to a process.

use crate::error::{Failure, NOT_FOUND};
use crate::guard::guard;
use crate::pointer;
use std::ffi::c_int;
use suci::env;

pub(crate) fn unset(name: &str) -> Failure {
    let text = format!(
        "the variable {name} is not set: start the program by suci run or another launcher"
    );
    Failure::new(NOT_FOUND, text)
}

/// Gives the process's node ID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_env_id(id: *mut u32) -> c_int {
    guard(|| {
        let own = env::id()?.ok_or_else(|| unset(env::ID))?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::give(id, own.0, "id") }
    })
}

/// Gives the number of processes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_env_size(count: *mut u32) -> c_int {
    guard(|| {
        let size = env::size()?.ok_or_else(|| unset(env::SIZE))?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::give(count, size, "count") }
    })
}
