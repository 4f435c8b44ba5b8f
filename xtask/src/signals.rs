//! Cleaning up when the user presses Ctrl-C: namespaces outlive their process, so Drop alone is
//! not enough.
//!
//! The handler only writes one byte to a pipe; a thread reads it, removes the namespaces and
//! ends the process. Blocking the signals and waiting for them would be simpler, but children
//! inherit a blocked mask and would then ignore Ctrl-C themselves.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::error::{Failure, Result};
use crate::netns;

/// Network namespaces that must not outlive the process.
static NAMESPACES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The write end of the pipe; -1 before there is one.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// Signals by which a person or a shell ends a program.
const ENDINGS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

pub(crate) fn remember_namespace(name: &str) -> Result<()> {
    watch()?;
    NAMESPACES
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(name.to_owned());
    Ok(())
}

pub(crate) fn forget_namespace(name: &str) {
    NAMESPACES
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .retain(|known| known != name);
}

/// Installs the handler and starts the thread, once.
fn watch() -> Result<()> {
    static OUTCOME: OnceLock<Result<(), String>> = OnceLock::new();
    OUTCOME.get_or_init(install).clone().map_err(Failure::new)
}

fn install() -> Result<(), String> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors that pipe2 writes.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(format!("pipe: {}", std::io::Error::last_os_error()));
    }
    let [read, write] = ends;
    WAKE.store(write, Ordering::SeqCst);
    std::thread::Builder::new()
        .name("cleanup".into())
        .spawn(move || clean_up_when_woken(read))
        .map_err(|error| error.to_string())?;
    for signal in ENDINGS {
        // SAFETY: `wake` only loads an atomic and calls write(2), both async-signal-safe.
        unsafe { libc::signal(signal, wake as *const () as libc::sighandler_t) };
    }
    Ok(())
}

extern "C" fn wake(signal: libc::c_int) {
    let byte = u8::try_from(signal).unwrap_or(0);
    // SAFETY: the buffer is one byte that outlives the call; a bad descriptor is an error only.
    unsafe { libc::write(WAKE.load(Ordering::SeqCst), (&raw const byte).cast(), 1) };
}

fn clean_up_when_woken(read: libc::c_int) {
    let mut byte = 0u8;
    loop {
        // SAFETY: the buffer is one byte that outlives the call.
        let got = unsafe { libc::read(read, (&raw mut byte).cast(), 1) };
        if got == 1 {
            break;
        }
    }
    // The lock is kept: no thread makes another namespace from here on.
    let names = NAMESPACES.lock().unwrap_or_else(PoisonError::into_inner);
    for name in names.iter() {
        netns::remove(name);
    }
    std::process::exit(128 + i32::from(byte));
}
