//! Results of the headers whose functions set errno: `datagram.h`, `fm.h` and `cdp.h`.

use crate::error::{self, Failure};
use crate::guard::guard;
use crate::limit::Limit;
use std::ffi::c_int;

/// Returns the errno for the code of a failure.
fn errno_of(code: c_int) -> c_int {
    match code {
        error::HANDLE | error::FORKED | error::CLOSED => libc::EBADF,
        error::BUSY => libc::EBUSY,
        error::INTERNAL => libc::EIO,
        error::QUEUE_FULL | error::TIMED_OUT => libc::EAGAIN,
        error::SUSPENDED => libc::ENOTCONN,
        error::UNKNOWN_PEER | error::NOT_FOUND => libc::ENOENT,
        error::TOO_LONG | error::BUFFER_TOO_SHORT => libc::EMSGSIZE,
        error::ENDED => libc::ECONNRESET,
        error::NOT_FLUSHED => libc::ETIMEDOUT,
        error::ADDRESS_IN_USE => libc::EADDRINUSE,
        error::UNREACHABLE => libc::EADDRNOTAVAIL,
        error::INSECURE => libc::EACCES,
        code if code & error::ERRNO_BIT != 0 => code & 0xffff,
        _ => libc::EINVAL,
    }
}

fn set_errno(value: c_int) {
    #[cfg(any(target_os = "linux", target_os = "emscripten"))]
    // SAFETY: the call returns the address of this thread's errno.
    let address = unsafe { libc::__errno_location() };
    #[cfg(not(any(target_os = "linux", target_os = "emscripten")))]
    // SAFETY: as above.
    let address = unsafe { libc::__error() };
    // SAFETY: as above.
    unsafe { *address = value };
}

/// Runs the body of a function. On failure keeps it for `suci_last_error_message`, sets errno and
/// returns `failed`.
pub(crate) fn answer<T>(failed: T, body: impl FnOnce() -> Result<T, Failure>) -> T {
    let mut result = None;
    let code = guard(|| {
        result = Some(body()?);
        Ok(())
    });
    match result {
        Some(result) if code == error::OK => result,
        _ => {
            set_errno(errno_of(code));
            failed
        }
    }
}

/// As [`answer`], for functions that return 0 or -1.
pub(crate) fn done(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    answer(-1, || body().map(|()| 0))
}

/// Returns the time limit of a call that waits: without end if `sec` is negative.
pub(crate) fn limit(sec: c_int, msec: c_int) -> Result<Limit, Failure> {
    if msec < 0 {
        let text = format!("msec is {msec}: pass 0 or more milliseconds");
        return Err(Failure::argument(text));
    }
    // No two of these numbers overflow: 2^31 s are 2.1e18 ns.
    let nanos = i64::from(sec) * 1_000_000_000 + i64::from(msec) * 1_000_000;
    Ok(Limit::new(if sec < 0 { -1 } else { nanos }))
}
