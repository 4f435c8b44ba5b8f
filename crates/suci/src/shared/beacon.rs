//! What makes one descriptor stand for everything that may wait for the program.
//!
//! It is lit by being woken like anybody else who sleeps, hence once for all that comes until it is put out; and it is put
//! out by whoever looked for something and found nothing. Who puts it out enters it among the sleepers again and then
//! looks once more, so that it is lit whenever something waits. It may be lit a little longer than that, never dark.

use crate::sync::atomic::{AtomicBool, Ordering};

/// Whether the descriptor is readable.
#[derive(Debug)]
pub(crate) struct Beacon {
    lit: AtomicBool,
}

impl Beacon {
    /// Lit, so that the first who finds nothing enters it among the sleepers.
    pub(crate) fn new() -> Self {
        Self {
            lit: AtomicBool::new(true),
        }
    }

    /// Something waits.
    pub(crate) fn light(&self, ring: impl FnOnce()) {
        // Not before it rang: who puts it out in between would hush what rings after.
        ring();
        // A swap, since loom concludes nothing about the order of a store and another thread's swap.
        self.lit.swap(true, Ordering::AcqRel);
    }

    /// Nothing was found. `hush` makes the descriptor unreadable, `enter` has it woken by what comes next.
    pub(crate) fn put_out(
        &self,
        hush: impl FnOnce(),
        enter: impl FnOnce(),
        waits: impl FnOnce() -> bool,
        ring: impl FnOnce(),
    ) {
        if !self.lit.swap(false, Ordering::AcqRel) {
            return;
        }
        hush();
        enter();
        if waits() {
            self.light(ring);
        }
    }
}
