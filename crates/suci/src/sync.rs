//! The primitives of lock-free parts: std's atomics. `tests/loom_ring.rs` puts loom's in their
//! place and explores every interleaving.

pub(crate) use std::hint;
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
pub(crate) use std::thread::yield_now;

/// std's cell with loom's access methods.
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
