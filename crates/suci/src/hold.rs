//! What a call leaves behind that waits for the next one, and the helper that looks whether that
//! came.
//!
//! A call tells of it, then looks whether the helper will ask; the helper says whether it will ask
//! soon, then asks. With a full fence between the two steps on both sides one of them sees the
//! other.

use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

/// The last thing that waited when a call ended: a hold, by its number.
#[derive(Debug)]
pub(crate) struct Holds {
    last: AtomicU32,
    /// The helper will ask soon.
    watched: AtomicBool,
}

impl Holds {
    pub(crate) fn new() -> Self {
        Self {
            last: AtomicU32::new(0),
            watched: AtomicBool::new(false),
        }
    }

    /// A call ends, and something waits for the next one, since that `hold` began: `ring` wakes the
    /// helper if it did not say that it will ask soon. Only one call ends at a time.
    pub(crate) fn note(&self, hold: u32, ring: impl FnOnce()) {
        if self.last.load(Ordering::Relaxed) == hold {
            return;
        }
        self.last.store(hold, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !self.watched.load(Ordering::Relaxed) {
            ring();
        }
    }

    /// The last hold of which a call told; it may be over. The helper says whether it will ask
    /// again `soon`, else it is rung.
    pub(crate) fn last(&self, soon: bool) -> u32 {
        self.watched.store(soon, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.last.load(Ordering::Relaxed)
    }
}
