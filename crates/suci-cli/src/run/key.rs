//! The key of a launch whose processes listen beyond loopback, in [`memory`].

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::process::Command;

use super::memory;
use crate::error::{Context, Result};

/// The variables that name keys.
const NAMES: [&str; 3] = [
    suci::env::KEY_FILE,
    suci::env::NODE_KEY_FILE,
    suci::env::PUBLIC_KEYS_FILE,
];

/// Lets a process use no key of the environment.
pub(super) fn hide(command: &mut Command) {
    for variable in NAMES {
        command.env_remove(variable);
    }
}

/// Returns the key that processes at `address` need and the environment does not name.
pub(super) fn for_processes(address: IpAddr) -> Result<Option<OwnedFd>> {
    let named = NAMES.iter().any(|name| std::env::var_os(name).is_some());
    if address.is_loopback() || named {
        return Ok(None);
    }
    const WHAT: &str = "a key for the processes";
    let key = suci::security::ClusterKey::generate().context(WHAT)?;
    let text = key.to_secret_text();
    memory::file(c"suci-key", text.as_bytes(), WHAT).map(Some)
}
