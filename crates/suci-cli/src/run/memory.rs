//! Texts for the processes, in memory that has no name in any directory.
//!
//! The processes inherit a descriptor, and a variable names it as a path of `/proc`. So a launch
//! needs no directory that it may write, and what it gave its processes is gone with the last of
//! them, however the launcher ends.

use std::ffi::CStr;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, memfd_create};

use crate::error::{Context, Result};

/// Makes a file in memory for this user alone that holds `text`, which nobody can change. `name` is
/// for people who look at the descriptors of a process. `what` is named if that fails.
pub(super) fn file(name: &CStr, text: &[u8], what: &str) -> Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = memfd_create(name, flags).context(what)?;
    fchmod(&memory, Mode::RUSR | Mode::WUSR).context(what)?;
    let mut file = std::fs::File::from(memory);
    file.write_all(text).context(what)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&file, seals).context(what)?;
    Ok(file.into())
}

/// The path by which a process opens a descriptor that it inherited.
pub(super) fn path(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}
