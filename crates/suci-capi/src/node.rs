//! A node from its opening to its end, and waiting for it beside other things.

use crate::entry::{Entry, Host, on_host};
use crate::error::{Failure, NODE_KIND};
use crate::guard::guard;
use crate::handle::{self, Handle, Removed};
use crate::limit::{self, Limit};
use crate::options::NodeOptions;
use crate::{pointer, text};
use std::ffi::{c_char, c_int};
use std::os::fd::AsRawFd;
use std::time::Duration;
use suci::Error;

/// The patience that stands for none: a peer that does not answer is given up by then.
const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) fn patience(nanos: i64) -> Duration {
    u64::try_from(nanos).map_or(HOUR, Duration::from_nanos)
}

/// Opens a node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_node_open(options: *const NodeOptions, node: *mut Handle) -> c_int {
    guard(|| {
        pointer::output(node, "node")?;
        // From now on forks are counted.
        handle::forks();
        // SAFETY: as suci.h asks.
        let options = unsafe { pointer::read(options, NodeOptions::default()) }?;
        // SAFETY: as suci.h asks.
        let builder = unsafe { options.builder() }?;
        let entry = match usize::try_from(options.threads) {
            Ok(0) => Entry::alone(builder.open()?)?,
            threads => Entry::shared(builder.open_threads(threads.unwrap_or(usize::MAX))?)?,
        };
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(node, Handle::insert(entry)?) };
        Ok(())
    })
}

/// Closes a node.
#[unsafe(no_mangle)]
pub extern "C" fn suci_node_close(node: Handle, patience: i64) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let patience = self::patience(patience);
        Ok(on_host!(node.host(), node => node.close(patience))?)
    })
}

/// Frees a handle.
#[unsafe(no_mangle)]
pub extern "C" fn suci_node_free(node: Handle) -> c_int {
    guard(|| match node.remove()? {
        Removed::Ours(entry) => {
            drop(entry);
            Ok(())
        }
        Removed::Parents => Err(handle::forked()),
    })
}

/// Gives the node's ID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_node_id(node: Handle, id: *mut u32) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let own = on_host!(node.host(), node => node.id());
        // SAFETY: as suci.h asks.
        unsafe { pointer::give(id, own.0, "id") }
    })
}

/// Gives the local address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_node_address(node: Handle, address: *mut c_char) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let local = on_host!(node.host(), node => node.local_addr());
        // SAFETY: as suci.h asks.
        unsafe { text::give_address(local, address) }
    })
}

/// Gives the number of I/O threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_node_threads(node: Handle, threads: *mut u32) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let count = match node.host() {
            Host::Alone(_) => 0,
            // At most 256.
            Host::Shared(node) => node.threads() as u32,
        };
        // SAFETY: as suci.h asks.
        unsafe { pointer::give(threads, count, "threads") }
    })
}

/// Gives the peer limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_node_peer_limit(node: Handle, peers: *mut u64) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let limit = on_host!(node.host(), node => node.peer_limit());
        // SAFETY: as suci.h asks.
        unsafe { pointer::give(peers, limit, "peers") }
    })
}

/// Gives the warning about the system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_node_warning(
    node: Handle,
    text: *mut c_char,
    size: usize,
    length: *mut usize,
) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let warning = on_host!(node.host(), node => node.warning());
        let shown = warning.map(|warning| warning.to_string());
        // SAFETY: as suci.h asks.
        unsafe { text::give(&shown.unwrap_or_default(), text, size, length) }
    })
}

/// Gives the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_node_fd(node: Handle, fd: *mut c_int) -> c_int {
    guard(|| {
        pointer::output(fd, "fd")?;
        let mut node = node.enter()?;
        let own = on_host!(node.host(), node => node.as_raw_fd());
        let both = node.entry().descriptor(own).map_err(|source| Error::Io {
            doing: "making a descriptor for the program to wait on",
            source,
        })?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(fd, both) };
        Ok(())
    })
}

/// Waits until something is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_poll(node: Handle, ready: *mut bool, timeout: i64) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let Host::Alone(own) = node.host() else {
            let text = "suci_poll needs a caller-driven node: the threads of this one need no turns; wait on its descriptor";
            return Err(Failure::new(NODE_KIND, text));
        };
        let result = own.poll(Limit::new(timeout).duration());
        let is_woken = match result {
            Ok(true) => false,
            Ok(false) => node.entry().take_woken(),
            Err(Error::Woken) => {
                node.entry().take_woken();
                true
            }
            Err(error) => return Err(error.into()),
        };
        if is_woken {
            return Err(limit::woken());
        }
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(ready, matches!(result, Ok(true))) };
        Ok(())
    })
}

/// Ends a wait. Async-signal-safe: nothing here allocates, locks, or can panic.
#[unsafe(no_mangle)]
pub extern "C" fn suci_wake(node: Handle) -> c_int {
    node.wake()
}
