//! The key of a launch whose processes listen beyond loopback.
//!
//! It lives in memory that has no name in any directory, for this user alone. The processes inherit
//! a descriptor of it, and the variable names it. It is gone with the last of them.

use std::io::Write;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, Mode, fchmod, memfd_create};

use crate::error::{Context, Result};

/// Returns the key that processes at `address` need and the environment does not name.
pub(super) fn for_processes(address: IpAddr) -> Result<Option<OwnedFd>> {
    use suci::env::{KEY_FILE, NODE_KEY_FILE, PUBLIC_KEYS_FILE};
    let named = [KEY_FILE, NODE_KEY_FILE, PUBLIC_KEYS_FILE];
    let named = named.iter().any(|name| std::env::var_os(name).is_some());
    if address.is_loopback() || named {
        return Ok(None);
    }
    const WHAT: &str = "a key for the processes";
    let key = suci::security::ClusterKey::generate().context(WHAT)?;
    let memory = memfd_create("suci-key", MemfdFlags::CLOEXEC).context(WHAT)?;
    fchmod(&memory, Mode::RUSR | Mode::WUSR).context(WHAT)?;
    let mut file = std::fs::File::from(memory);
    file.write_all(key.to_secret_text().as_bytes())
        .context(WHAT)?;
    Ok(Some(file.into()))
}
