//! The state of the one descriptor that stands for everything that may wait for the program. The
//! eventfd itself is a [`Bell`](crate::sys::Bell).
//!
//! The descriptor is one of the sleepers: waking it signals it, once for everything that comes
//! until it is cleared. A reader that looked for something and found nothing clears it: it
//! registers the descriptor among the sleepers again, and then looks once more. So the descriptor
//! is signalled whenever something waits. It may stay signalled a little longer, and is never
//! cleared too early.
//!
//! An edge-triggered epoll reports each ring, not the state. Between the ring and the state `LIT`,
//! the program may take everything and find nothing more. It cannot hush the descriptor then, but
//! registers it all the same, so that the next arrival rings anew.

use crate::sync::atomic::{AtomicU8, Ordering};

/// The descriptor is signalled. A reader that finds nothing clears it.
const LIT: u8 = 0;
/// The descriptor is cleared and registered among the sleepers.
const DARK: u8 = 1;
/// The descriptor is being rung.
const LIGHTING: u8 = 2;

/// Whether the descriptor is readable. It holds no descriptor: callers pass functions that use it.
#[derive(Debug)]
pub(crate) struct EventFd {
    state: AtomicU8,
}

impl EventFd {
    /// Begins signalled, so that the first reader that finds nothing registers it among the
    /// sleepers.
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU8::new(LIT),
        }
    }

    /// Signals the descriptor: something waits.
    pub(crate) fn light(&self, ring: impl FnOnce()) {
        // Swaps, since loom concludes nothing about the order of a store and another thread's swap.
        self.state.swap(LIGHTING, Ordering::AcqRel);
        ring();
        // Not before the ring: a reader that cleared it in between would hush a ring that comes
        // later.
        self.state.swap(LIT, Ordering::AcqRel);
    }

    /// Clears the descriptor after a reader found nothing. `hush` makes it unreadable, and `enter`
    /// registers it to be woken by the next arrival. If something `waits` by then, it is rung
    /// again.
    pub(crate) fn clear(
        &self,
        hush: impl FnOnce(),
        enter: impl FnOnce(),
        waits: impl FnOnce() -> bool,
        ring: impl FnOnce(),
    ) {
        let darker = |state| (state != DARK).then_some(DARK);
        let (done, refused) = (Ordering::AcqRel, Ordering::Acquire);
        match self.state.fetch_update(done, refused, darker) {
            Ok(LIT) => hush(),
            // Another thread is about to ring. The next reader that finds nothing clears it again.
            Ok(_) => {}
            Err(_) => return,
        }
        enter();
        if waits() {
            self.light(ring);
        }
    }
}
