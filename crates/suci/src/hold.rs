//! Output that a call leaves for the next call, and how the helper learns of it.
//!
//! A call stores the number of its hold, then reads whether the helper will check soon. The helper
//! stores whether it will check soon, then reads the number. A full fence lies between the two
//! steps on both sides, so one of them sees the other.

use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

/// The number of the last hold: output that waited when a call ended.
#[derive(Debug)]
pub(crate) struct Holds {
    last: AtomicU32,
    /// The helper will check again soon.
    watched: AtomicBool,
}

impl Holds {
    pub(crate) fn new() -> Self {
        Self {
            last: AtomicU32::new(0),
            watched: AtomicBool::new(false),
        }
    }

    /// Notes that a call ends and leaves output under the number `hold`. Calls `wake`, which wakes
    /// the helper, unless the helper checks again soon. Only one call ends at a time.
    pub(crate) fn note(&self, hold: u32, wake: impl FnOnce()) {
        if self.last.load(Ordering::Relaxed) == hold {
            return;
        }
        self.last.store(hold, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !self.watched.load(Ordering::Relaxed) {
            wake();
        }
    }

    /// Returns the number of the last hold, which may be over. `soon`: the helper checks again
    /// soon. Otherwise the next hold wakes it.
    pub(crate) fn last(&self, soon: bool) -> u32 {
        self.watched.store(soon, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.last.load(Ordering::Relaxed)
    }
}
