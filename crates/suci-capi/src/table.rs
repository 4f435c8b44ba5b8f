//! Objects behind handles that are used seldom: one lock for all of a kind suffices.

use crate::error::{BUSY, Failure};
use crate::handle::{self, Handle};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// The most objects of a kind at a time: half as many as an index can tell apart.
const MOST: usize = 1 << 23;

/// The objects of one kind.
pub(crate) struct Table<T> {
    /// The mark of their handles.
    mark: u32,
    kept: LazyLock<Mutex<Kept<T>>>,
    /// The number of forks before the process that had the lock last.
    user: AtomicU32,
    at_fork: AtFork,
}

/// The fate of a table's objects in the child of a fork.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtFork {
    /// They are plain data, and stay usable.
    Keep,
    /// They belong to the parent's nodes: their handles give [`FORKED`](crate::error::FORKED).
    Leave,
}

struct Kept<T> {
    /// Objects by index, each with its generation.
    objects: HashMap<u32, (u32, T)>,
    /// Generations of the objects that were left to the parent, by index.
    parents: HashMap<u32, u32>,
    generation: u32,
    last: u32,
    forks: u32,
}

impl<T> Kept<T> {
    fn new() -> Mutex<Self> {
        Mutex::new(Self {
            objects: HashMap::new(),
            parents: HashMap::new(),
            generation: handle::first_generation(),
            last: 0,
            forks: handle::forks(),
        })
    }
}

impl<T> Table<T> {
    pub(crate) const fn new(mark: u32, at_fork: AtFork) -> Self {
        let kept = LazyLock::new(Kept::new as fn() -> _);
        let user = AtomicU32::new(0);
        Self {
            mark,
            kept,
            user,
            at_fork,
        }
    }

    /// Runs `work` on all objects.
    fn with_all<R>(
        &self,
        work: impl FnOnce(&mut Kept<T>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let forks = handle::forks();
        let mut kept = self.lock(forks)?;
        self.user.store(forks, Ordering::Relaxed);
        if kept.forks != forks {
            if self.at_fork == AtFork::Leave {
                // Dropping them could wait for locks that threads of the parent held.
                for (index, (generation, object)) in std::mem::take(&mut kept.objects) {
                    std::mem::forget(object);
                    kept.parents.insert(index, generation);
                }
            }
            kept.forks = forks;
        }
        work(&mut kept)
    }

    /// A thread of the parent may have held the lock at the fork: a child in which nobody takes it
    /// is told, and does not wait for ever.
    fn lock(&self, forks: u32) -> Result<MutexGuard<'_, Kept<T>>, Failure> {
        /// Far longer than a thread of this process has the lock.
        const PATIENCE: Duration = Duration::from_millis(100);
        let begun = Instant::now();
        loop {
            match self.kept.try_lock() {
                Ok(kept) => return Ok(kept),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
            if self.user.load(Ordering::Relaxed) == forks {
                return Ok(self.kept.lock().unwrap_or_else(PoisonError::into_inner));
            }
            if begun.elapsed() > PATIENCE {
                return Err(handle::forked());
            }
            thread::yield_now();
        }
    }

    /// Returns the index of an object.
    fn index(&self, kept: &Kept<T>, handle: Handle) -> Result<u32, Failure> {
        let Some((generation, index)) = handle.parts(self.mark) else {
            return Err(handle::no_handle(handle.id));
        };
        let index = index as u32;
        let object = kept.objects.get(&index);
        if object.is_some_and(|(known, _)| *known == generation) {
            Ok(index)
        } else if kept.parents.get(&index) == Some(&generation) {
            Err(handle::forked())
        } else {
            Err(handle::no_handle(handle.id))
        }
    }

    /// Runs `work` on an object.
    pub(crate) fn with<R>(
        &self,
        handle: Handle,
        work: impl FnOnce(&mut T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.with_all(|kept| {
            let index = self.index(kept, handle)?;
            match kept.objects.get_mut(&index) {
                Some((_, object)) => work(object),
                None => Err(handle::no_handle(handle.id)),
            }
        })
    }

    /// Keeps an object. Returns its handle.
    pub(crate) fn insert(&self, object: T) -> Result<Handle, Failure> {
        self.with_all(|kept| {
            if kept.objects.len() >= MOST {
                let text = "this process has 8388608 objects of this kind: free one";
                return Err(Failure::new(BUSY, text));
            }
            while kept.objects.contains_key(&kept.last) {
                kept.last = (kept.last + 1) % (2 * MOST) as u32;
            }
            kept.generation = handle::next_generation(kept.generation);
            let (generation, index) = (kept.generation, kept.last);
            kept.objects.insert(index, (generation, object));
            Ok(Handle::new(generation, self.mark, index))
        })
    }

    /// Takes an object out, unless `check` fails.
    pub(crate) fn remove(
        &self,
        handle: Handle,
        check: impl FnOnce(&T) -> Result<(), Failure>,
    ) -> Result<T, Failure> {
        self.with_all(|kept| {
            let index = self.index(kept, handle)?;
            if let Some((_, object)) = kept.objects.get(&index) {
                check(object)?;
            }
            let removed = kept.objects.remove(&index);
            removed.map_or_else(
                || Err(handle::no_handle(handle.id)),
                |(_, object)| Ok(object),
            )
        })
    }
}
