//! What makes one descriptor stand for everything that may wait for the program.
//!
//! It is lit by being woken like anybody else who sleeps, hence once for all that comes until it is
//! put out; and it is put out by whoever looked for something and found nothing. Who puts it out
//! enters it among the sleepers again and then looks once more, so that it is lit whenever
//! something waits. It may be lit a little longer than that, never dark.
//!
//! A program that asks epoll for edges hears of each time that it is rung, not of its being lit.
//! One that was rung for, took what there was and found nothing more before the event descriptor
//! counted as signalled cannot clear it, but is entered all the same: what comes then rings anew.

use crate::sync::atomic::{AtomicU8, Ordering};

/// A reader that finds nothing puts it out.
const LIT: u8 = 0;
/// It is among the sleepers.
const DARK: u8 = 1;
/// It is being rung.
const LIGHTING: u8 = 2;

/// Whether the descriptor is readable.
#[derive(Debug)]
pub(crate) struct EventFd {
    state: AtomicU8,
}

impl EventFd {
    /// Lit, so that the first who finds nothing enters it among the sleepers.
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU8::new(LIT),
        }
    }

    /// Something waits.
    pub(crate) fn light(&self, ring: impl FnOnce()) {
        // Swaps, since loom concludes nothing about the order of a store and another thread's swap.
        self.state.swap(LIGHTING, Ordering::AcqRel);
        ring();
        // Not before it rang: who puts it out in between would hush what rings after.
        self.state.swap(LIT, Ordering::AcqRel);
    }

    /// Nothing was found. `hush` makes the descriptor unreadable, `enter` has it woken by what
    /// comes next.
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
            // It will be lit in a moment, and put out by whoever finds nothing then.
            Ok(_) => {}
            Err(_) => return,
        }
        enter();
        if waits() {
            self.light(ring);
        }
    }
}
