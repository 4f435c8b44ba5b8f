//! A value that two threads use alternately: taking it is one compare-and-swap.
//!
//! A mutex would do, but its word does not tell whether the value was taken lately, which the
//! sleeping helper must know. Here the word counts uses.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::sync::{UnsafeCell, hint, yield_now};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Tries before the waiting thread lets others run.
const SPINS: u32 = 100;

/// A value, and a word: odd while it is taken, higher after every use.
#[derive(Debug)]
pub(crate) struct OwnershipLock<T> {
    word: AtomicU64,
    /// A thread sleeps until the word changes.
    watcher_sleeps: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through an `OwnershipGuard`, and `take_at` makes one only by
// moving the word from even to odd, which no second thread can do until the first `OwnershipGuard`
// moved it on. So the value goes from thread to thread as if sent, for which `T: Send` suffices. An
// `OwnershipGuard` is shared and sent as a `&mut T` is: sharing one needs `T: Sync`.
unsafe impl<T: Send> Sync for OwnershipLock<T> {}

impl<T> OwnershipLock<T> {
    pub(crate) fn new(value: T) -> Self {
        let (word, watcher_sleeps) = (AtomicU64::new(0), AtomicBool::new(false));
        Self {
            word,
            watcher_sleeps,
            value: UnsafeCell::new(value),
        }
    }

    /// Returns the word. It changes with every use, and is odd while the value is in use.
    pub(crate) fn word(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    /// Calls `sleep` if the word is still `word`, also while the value is in use (an odd word).
    /// [`OwnershipGuard::show_life`] ends the sleep: `sleep_while` sets a mark and then reads the
    /// word, `show_life` changes the word and then reads the mark. Full fences lie between, so one
    /// of them sees the other.
    pub(crate) fn sleep_while(&self, word: u64, sleep: impl FnOnce()) {
        self.watcher_sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.word() == word {
            sleep();
        }
        self.watcher_sleeps.store(false, Ordering::Relaxed);
    }

    /// Takes the value if the word is still `word` and the value is free.
    pub(crate) fn take_at(&self, word: u64) -> Option<OwnershipGuard<'_, T>> {
        if word & 1 == 1 {
            return None;
        }
        self.word
            .compare_exchange(
                word,
                word.wrapping_add(1),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .ok()?;
        Some(OwnershipGuard {
            lock: self,
            value: PhantomData,
        })
    }

    /// Takes the value as soon as it is free. Users hold it for a bounded time.
    pub(crate) fn take(&self) -> OwnershipGuard<'_, T> {
        let mut spins = 0;
        loop {
            if let Some(taken) = self.take_at(self.word()) {
                return taken;
            }
            if spins < SPINS {
                spins += 1;
                hint::spin_loop();
            } else {
                yield_now();
            }
        }
    }
}

/// The exclusive right to use the value.
#[derive(Debug)]
pub(crate) struct OwnershipGuard<'a, T> {
    lock: &'a OwnershipLock<T>,
    /// Makes the borrow checker and `Send` treat this right as a `&mut T`.
    value: PhantomData<&'a mut T>,
}

impl<T> OwnershipGuard<'_, T> {
    /// Shows a thread that watches the word that the value is still in use. If that thread sleeps,
    /// `wake` wakes it.
    pub(crate) fn show_life(&self, wake: impl FnOnce()) {
        self.lock.word.fetch_add(2, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.lock.watcher_sleeps.load(Ordering::Relaxed) {
            wake();
        }
    }
}

impl<T> Deref for OwnershipGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: while this `OwnershipGuard` exists the word is odd and no other one exists, so
        // there is no mutable reference; the borrow of `self` keeps `deref_mut` from making one.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for OwnershipGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`; the exclusive borrow of `self` keeps this reference the only one.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for OwnershipGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.word.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles only if one implementation applies, hence only if `T` is not `Sync`.
    trait UnlessSync<A> {
        fn holds() {}
    }

    struct IsSync;

    impl<T> UnlessSync<()> for T {}
    impl<T: Sync> UnlessSync<IsSync> for T {}

    #[test]
    fn a_taken_value_is_shared_only_if_it_is_sync() {
        const fn assert_sync<T: Sync>() {}
        assert_sync::<OwnershipGuard<'_, u8>>();
        <OwnershipGuard<'_, std::cell::Cell<u8>> as UnlessSync<_>>::holds();
    }
}
