//! Threads of the program that are cancelled within a call of this library.
//!
//! The call that waits is woken, and goes on in the kernel, where the C library ends the thread.
//! Signals are not held back until the sleep: two more system calls for each wait cost 7 % of a
//! round trip.

use crate::process;
use libc::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `PTHREAD_CANCEL_DISABLE`
const DISABLE: c_int = 1;

/// How often the program cancelled a thread.
static CANCELS: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C-unwind" {
    fn pthread_testcancel();
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// While this lives, its thread is not cancelled: nobody would give back the locks that it holds.
#[derive(Debug)]
pub(crate) struct Uncancelled {
    before: c_int,
    cancels: usize,
}

impl Uncancelled {
    /// Begins a call that ends a cancelled thread. Nothing is locked yet.
    pub(crate) fn begin() -> Self {
        // Read first: a later cancellation is noticed while the call waits.
        let cancels = CANCELS.load(Ordering::SeqCst);
        // SAFETY: it ends the thread or does nothing.
        unsafe { pthread_testcancel() };
        Self::after(cancels)
    }

    fn after(cancels: usize) -> Self {
        let mut before = 0;
        // SAFETY: it writes a number.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Self { before, cancels }
    }

    /// Returns true if the program cancelled a thread since, which may be this one. Only a call of
    /// the C library ends it.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.cancels != CANCELS.load(Ordering::SeqCst)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the thread's own state; it may end the thread, which has no lock any more.
        unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
    }
}

/// Does something within which the thread is not cancelled.
pub(crate) fn uncancelled<T>(work: impl FnOnce() -> T) -> T {
    let _uncancelled = Uncancelled::after(0);
    work()
}

/// The program cancelled a thread. If it waits in a call of this library, it looks.
pub(crate) fn cancelled() {
    CANCELS.fetch_add(1, Ordering::SeqCst);
    uncancelled(process::rouse_waiting);
}
