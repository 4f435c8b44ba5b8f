//! The way of every call from C into the library and back.

use crate::error::{self, Failure};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a function. Returns 0, or the code of its failure, which is kept for
/// `suci_last_error_message`. A panic becomes `SUCI_E_INTERNAL`.
#[inline]
pub(crate) fn guard(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    // After a panic the node is usable or poisoned as in Rust, whose own types see to that.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => error::OK,
        Ok(Err(failure)) => error::keep(failure),
        Err(payload) => {
            // Dropping a payload may panic again.
            std::mem::forget(payload);
            error::keep(Failure::internal())
        }
    }
}

/// Runs the body of a function that tells of the last failure, and so leaves it.
pub(crate) fn quietly(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => error::OK,
        Ok(Err(failure)) => failure.code(),
        Err(payload) => {
            std::mem::forget(payload);
            error::INTERNAL
        }
    }
}

/// Runs the body of a function that cannot fail. A panic leaves the rest of it out.
pub(crate) fn contain(body: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        std::mem::forget(payload);
    }
}
