//! The standard descriptors that were closed when the process began (`<&-`, `>&-`).
//!
//! Rust's start-up puts /dev/null in their place, where output vanishes and input is at its end,
//! both without an error. So this check comes before: the C library calls the functions in
//! `.init_array` ahead of `main`. A later look for /dev/null would not tell: the user may want it.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Failure, Result};

static INPUT: AtomicBool = AtomicBool::new(false);
static OUTPUT: AtomicBool = AtomicBool::new(false);

#[used]
// SAFETY: the section holds pointers to functions that take nothing they need; `look` uses nothing
// of std that has to be started.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    INPUT.store(is_closed(libc::STDIN_FILENO), Ordering::Relaxed);
    OUTPUT.store(is_closed(libc::STDOUT_FILENO), Ordering::Relaxed);
}

fn is_closed(fd: RawFd) -> bool {
    // SAFETY: asks for the flags of a descriptor, open or not.
    unsafe { libc::fcntl(fd, libc::F_GETFD) < 0 }
}

/// Fails if there is nothing to read from.
pub(crate) fn need_input() -> Result<()> {
    need(
        &INPUT,
        "standard input is closed: read from a file or /dev/null",
    )
}

/// Fails if there is nothing to write to.
pub(crate) fn need_output() -> Result<()> {
    need(
        &OUTPUT,
        "standard output is closed: write to a file or /dev/null",
    )
}

fn need(closed: &AtomicBool, remedy: &str) -> Result<()> {
    match closed.load(Ordering::Relaxed) {
        true => Err(Failure::new(remedy)),
        false => Ok(()),
    }
}
