//! Time and chance, made the same in every run. Both take the place of the C library's functions
//! for the whole process.
//!
//! Time passes by being read, so that timers, rates and round trips are the same beside any other
//! load.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// Nanoseconds that pass with each reading. As many pass between two readings of a node that waits
/// for messages and answers them. A message that comes sooner counts as having waited in the
/// socket.
static STEP: AtomicU64 = AtomicU64::new(5_000);

/// Nanoseconds so far.
static NOW: AtomicU64 = AtomicU64::new(SECOND);

/// The readings so far.
static READINGS: AtomicU64 = AtomicU64::new(0);

const SECOND: u64 = 1_000_000_000;

/// Has `step` pass with each reading from now on.
pub(crate) fn set_step(step: Duration) {
    STEP.store(step.as_nanos() as u64, Ordering::Relaxed);
}

/// How often the time was read.
pub(crate) fn readings() -> u64 {
    READINGS.load(Ordering::Relaxed)
}

/// The time of every clock, since 1970 or since the start alike. The kernel's time stamps on
/// packets therefore lie in the future, so that they count as now.
///
/// # Safety
/// As for the C library's: `time` is valid for a write.
// SAFETY: the name is taken on purpose, and the signature is that of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(_: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    READINGS.fetch_add(1, Ordering::Relaxed);
    let nanos = NOW.fetch_add(STEP.load(Ordering::Relaxed), Ordering::Relaxed);
    let now = libc::timespec {
        tv_sec: (nanos / SECOND) as libc::time_t,
        tv_nsec: (nanos % SECOND) as libc::c_long,
    };
    // SAFETY: the caller gives memory for it.
    unsafe { time.write(now) };
    0
}

/// The seeds of engines and of hash tables: other bytes in each call, the same in each run.
///
/// # Safety
/// As for the C library's: `buffer` is valid for writes of `length` bytes.
// SAFETY: the name is taken on purpose, and the signature is that of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(
    buffer: *mut libc::c_void,
    length: libc::size_t,
    _: libc::c_uint,
) -> libc::ssize_t {
    static CALLS: AtomicU8 = AtomicU8::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the caller gives memory for this many bytes.
    unsafe { buffer.write_bytes(call, length) };
    length as libc::ssize_t
}
