//! Whether the one descriptor is readable that stands for everything that may wait for the program.
//! The descriptor itself is an [`EventFd`](crate::sys::EventFd).
//!
//! The descriptor is one of the sleepers: waking it signals it, once for everything that comes
//! until it is cleared. A reader that found nothing clears it: it registers the descriptor among
//! the sleepers again, and then checks once more. So the descriptor is signalled whenever something
//! waits. It may stay signalled a little longer, and is never cleared too early.
//!
//! An edge-triggered epoll reports each write to the eventfd, not the state. Between that write and
//! the state `SIGNALLED`, the program may take everything and find nothing more. It cannot clear
//! the descriptor then, but registers it all the same, so that the next arrival writes again.

use crate::sync::atomic::{AtomicU8, Ordering};

/// The descriptor is signalled. A reader that finds nothing clears it.
const SIGNALLED: u8 = 0;
/// The descriptor is cleared and registered among the sleepers.
const CLEARED: u8 = 1;
/// The descriptor is being signalled.
const SIGNALLING: u8 = 2;

/// Whether the descriptor is readable. It holds no descriptor: callers pass functions that use it.
#[derive(Debug)]
pub(crate) struct Readiness {
    state: AtomicU8,
}

impl Readiness {
    /// Begins signalled, so that the first reader that finds nothing registers it among the
    /// sleepers.
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU8::new(SIGNALLED),
        }
    }

    /// Signals the descriptor: something waits.
    pub(crate) fn signal(&self, write: impl FnOnce()) {
        // Swaps, since loom concludes nothing about the order of a store and another thread's swap.
        self.state.swap(SIGNALLING, Ordering::AcqRel);
        write();
        // Not before the write: a reader that cleared the state in between would read the eventfd
        // before it is written.
        self.state.swap(SIGNALLED, Ordering::AcqRel);
    }

    /// Clears the descriptor after a reader found nothing. `read` makes it unreadable, and `enter`
    /// registers it to be woken by the next arrival. If something `waits` by then, it is signalled
    /// again.
    pub(crate) fn clear(
        &self,
        read: impl FnOnce(),
        enter: impl FnOnce(),
        waits: impl FnOnce() -> bool,
        write: impl FnOnce(),
    ) {
        let cleared = |state| (state != CLEARED).then_some(CLEARED);
        let (done, refused) = (Ordering::AcqRel, Ordering::Acquire);
        match self.state.fetch_update(done, refused, cleared) {
            Ok(SIGNALLED) => read(),
            // Another thread is about to write. The next reader that finds nothing clears it again.
            Ok(_) => {}
            Err(_) => return,
        }
        enter();
        if waits() {
            self.signal(write);
        }
    }
}
