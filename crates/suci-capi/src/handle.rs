//! Handles, and the table of nodes behind them.
//!
//! A handle names a slot of the table and the slot's generation, which changes when the node is
//! freed. One word of the slot holds the generation, the kind of node and the number of calls
//! inside; so entering a node is one compare-and-swap, without a lock for all nodes. Slots are
//! never freed, so a stale handle finds a word to compare in any case.

use crate::entry::{Entry, Host};
use crate::error::{BUSY, FORKED, Failure, HANDLE};
use std::cell::UnsafeCell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::hint::spin_loop;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// `suci_node`, `suci_book`, `suci_region` and `suci_context`: the generation above, a mark of the
/// kind of handle and the slot's index below.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Handle {
    pub(crate) id: u64,
}

/// Nodes of one process at the same time.
const SLOTS: usize = 4_096;

/// The mark of a node's handle, above the index.
const NODE: u32 = 0x4e00_0000;

/// The mark of a book's handle.
pub(crate) const BOOK: u32 = 0x4200_0000;

/// The mark of a region's handle.
pub(crate) const REGION: u32 = 0x5200_0000;

/// The mark of a context's handle.
pub(crate) const CONTEXT: u32 = 0x4300_0000;

/// The mark of a group's handle.
pub(crate) const GROUP: u32 = 0x4700_0000;

/// The mark of the handle of a group's operation.
pub(crate) const PENDING: u32 = 0x5000_0000;

/// The slot has a node.
const OPEN: u64 = 1 << 31;
/// One call at a time may be inside.
const ALONE: u64 = 1 << 30;
/// A thread fills or empties the slot.
const CHANGING: u64 = 1 << 29;
/// The number of calls inside.
const CALLS: u64 = CHANGING - 1;
/// The lower half of a word, without the generation.
const STATE: u64 = u32::MAX as u64;

/// One slot of the table, on a cache line of its own.
#[repr(align(128))]
struct Slot {
    word: AtomicU64,
    /// Calls of `suci_wake` that look at the entry now.
    wakes: AtomicU32,
    /// The number of forks between the first node and this one.
    forks: AtomicU32,
    entry: UnsafeCell<Option<Box<Entry>>>,
}

// SAFETY: the entry is reached only by calls that are counted in `word` or `wakes`, and it is
// changed only by the thread that set `CHANGING`, which waits until none of them is left.
unsafe impl Sync for Slot {}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        word: AtomicU64::new(0),
        wakes: AtomicU32::new(0),
        forks: AtomicU32::new(0),
        entry: UnsafeCell::new(None),
    }
}; SLOTS];

/// How many forks lie between this process and the one that opened the first node.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Counts forks from now on. Returns the number of those before.
///
/// `suci` detects children, too, also of forks without handlers. But what this crate keeps beside
/// its nodes must not be used in a child either.
pub(crate) fn forks() -> u32 {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only adds to a number. If there is no memory for the handler, `suci`
        // still detects the child.
        unsafe { libc::pthread_atfork(None, None, Some(on_fork)) };
    });
    FORKS.load(Ordering::Relaxed)
}

pub(crate) fn forked() -> Failure {
    let text = "this process was forked from the one that made the handle: make one of its own";
    Failure::new(FORKED, text)
}

pub(crate) fn no_handle(id: u64) -> Failure {
    let text = match id {
        0 => "the handle is null: open a node first".into(),
        _ => format!(
            "the handle {id:#x} is none of this process, or was freed: use one that is open"
        ),
    };
    Failure::new(HANDLE, text)
}

#[cold]
fn busy() -> Failure {
    let text = "another call is inside the node: wait until it returns, end it by suci_wake, or open the node with threads";
    Failure::new(BUSY, text)
}

/// Returns a generation to begin with, which a handle of another process hardly has.
pub(crate) fn first_generation() -> u32 {
    (RandomState::new().build_hasher().finish() as u32) | 1
}

/// Returns the generation after `before`; 0 is none, so that the null handle is never right.
pub(crate) const fn next_generation(before: u32) -> u32 {
    match before.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}

const fn generation(word: u64) -> u32 {
    (word >> 32) as u32
}

const fn word_of(generation: u32, state: u64) -> u64 {
    (generation as u64) << 32 | state
}

impl Handle {
    pub(crate) const fn new(generation: u32, mark: u32, index: u32) -> Self {
        Self {
            id: word_of(generation, (mark | index) as u64),
        }
    }

    /// Returns the generation, and the index if the mark is right.
    pub(crate) fn parts(self, mark: u32) -> Option<(u32, usize)> {
        let below = (self.id & STATE) as u32;
        let index = (below & 0xff00_0000 == mark).then_some(below & 0x00ff_ffff)?;
        Some((generation(self.id), index as usize))
    }

    fn slot(self) -> Option<(u32, &'static Slot)> {
        let (generation, index) = self.parts(NODE)?;
        Some((generation, TABLE.get(index)?))
    }

    /// Enters the node for one call.
    #[inline]
    pub(crate) fn enter(self) -> Result<Entered, Failure> {
        let Some((wanted, slot)) = self.slot() else {
            return Err(no_handle(self.id));
        };
        let mut word = slot.word.load(Ordering::Relaxed);
        loop {
            if generation(word) != wanted || word & OPEN == 0 {
                return Err(no_handle(self.id));
            }
            if slot.forks.load(Ordering::Relaxed) != FORKS.load(Ordering::Relaxed) {
                return Err(forked());
            }
            if word & ALONE != 0 && word & CALLS != 0 {
                return Err(busy());
            }
            let entered = slot.word.compare_exchange_weak(
                word,
                word + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match entered {
                Ok(_) => return Ok(Entered { slot, word }),
                Err(now) => word = now,
            }
        }
    }

    /// Puts `entry` into a free slot.
    pub(crate) fn insert(entry: Entry) -> Result<Self, Failure> {
        let alone = if entry.is_shared() { 0 } else { ALONE };
        for (index, slot) in (0..).zip(&TABLE) {
            let word = slot.word.load(Ordering::Relaxed);
            let taken = word_of(generation(word), CHANGING);
            if word & STATE != 0
                || slot
                    .word
                    .compare_exchange(word, taken, Ordering::Acquire, Ordering::Relaxed)
                    .is_err()
            {
                continue;
            }
            let generation = match generation(word) {
                0 => first_generation(),
                before => next_generation(before),
            };
            // SAFETY: the slot is free, and `CHANGING` keeps other threads away.
            unsafe { *slot.entry.get() = Some(Box::new(entry)) };
            slot.forks.store(forks(), Ordering::Relaxed);
            let word = word_of(generation, OPEN | alone);
            slot.word.store(word, Ordering::SeqCst);
            return Ok(Self::new(generation, NODE, index));
        }
        let text = format!("this process has {SLOTS} nodes: free one");
        Err(Failure::new(BUSY, text))
    }

    /// Takes the entry out of its slot, if no call is inside. The handle is invalid from then on.
    pub(crate) fn remove(self) -> Result<Removed, Failure> {
        let Some((wanted, slot)) = self.slot() else {
            return Err(no_handle(self.id));
        };
        let mut word = slot.word.load(Ordering::Relaxed);
        let forked = loop {
            if generation(word) != wanted || word & OPEN == 0 {
                return Err(no_handle(self.id));
            }
            let forked = slot.forks.load(Ordering::Relaxed) != FORKS.load(Ordering::Relaxed);
            // The threads whose calls were inside do not exist in the child.
            if word & CALLS != 0 && !forked {
                return Err(busy());
            }
            let taken = word_of(wanted, CHANGING);
            match slot
                .word
                .compare_exchange(word, taken, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => break forked,
                Err(now) => word = now,
            }
        };
        while slot.wakes.load(Ordering::SeqCst) > 0 && !forked {
            spin_loop();
        }
        // SAFETY: no call is inside, none can enter, and none of `suci_wake` looks any more.
        let entry = unsafe { (*slot.entry.get()).take() };
        // The next node in this slot has another generation.
        slot.word.store(word_of(wanted, 0), Ordering::Release);
        match (entry, forked) {
            (Some(entry), false) => Ok(Removed::Ours(entry)),
            (Some(entry), true) => {
                // A thread of the parent may have been using it: only its descriptors are closed,
                // so that the port is free once the parent closes its own.
                entry.abandon();
                std::mem::forget(entry);
                Ok(Removed::Parents)
            }
            (None, _) => Err(no_handle(self.id)),
        }
    }

    /// Wakes the node. Async-signal-safe: takes no lock, allocates nothing. Returns a code.
    pub(crate) fn wake(self) -> std::ffi::c_int {
        let Some((wanted, slot)) = self.slot() else {
            return HANDLE;
        };
        slot.wakes.fetch_add(1, Ordering::SeqCst);
        let word = slot.word.load(Ordering::SeqCst);
        let code = if generation(word) != wanted || word & OPEN == 0 {
            HANDLE
        } else if slot.forks.load(Ordering::Relaxed) != FORKS.load(Ordering::Relaxed) {
            FORKED
        } else {
            // SAFETY: the slot was open after this call was counted in `wakes`, and `remove` waits
            // for that count before it changes the entry. What is read of the entry never changes.
            if let Some(entry) = unsafe { &*slot.entry.get() } {
                entry.wake();
            }
            crate::error::OK
        };
        slot.wakes.fetch_sub(1, Ordering::SeqCst);
        code
    }
}

/// An entry that was taken out of the table.
pub(crate) enum Removed {
    Ours(Box<Entry>),
    /// It belongs to the process that this one was forked from.
    Parents,
}

/// The right to use a node for one call.
pub(crate) struct Entered {
    slot: &'static Slot,
    /// The word before this call entered.
    word: u64,
}

impl Entered {
    /// Returns the node's entry.
    #[inline]
    pub(crate) fn entry(&self) -> &Entry {
        // SAFETY: the slot is open and this call is counted in its word, so that `remove` leaves
        // the entry alone. Only `host` gives access to more than shared state.
        let entry = unsafe { &*self.slot.entry.get() };
        match entry {
            Some(entry) => entry,
            None => unreachable!("an open slot has an entry"),
        }
    }

    /// Returns the node.
    #[inline]
    pub(crate) fn host(&mut self) -> Host<'_> {
        // SAFETY: if the node is for one call at a time, `enter` let only this one in. The
        // exclusive borrow of `self` keeps this reference to it the only one.
        unsafe { self.entry().host() }
    }
}

impl Entered {
    /// Returns the node, and what this crate keeps beside it.
    #[inline]
    pub(crate) fn parts(&mut self) -> (Host<'_>, &Entry) {
        let entry = self.entry();
        // SAFETY: as in `host`; a shared entry gives no other way to the node.
        (unsafe { entry.host() }, entry)
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        if self.word & ALONE != 0 {
            // No other thread writes the word while this call is inside.
            self.slot.word.store(self.word, Ordering::Release);
        } else {
            self.slot.word.fetch_sub(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_another_kind_slot_or_generation_are_told_apart() {
        let node = Handle::new(7, NODE, 5);
        assert_eq!(node.parts(NODE), Some((7, 5)));
        assert_eq!(node.parts(BOOK), None);
        assert!(Handle::default().parts(NODE).is_none());
        assert!(Handle::new(7, NODE, SLOTS as u32).slot().is_none());
        assert_eq!(next_generation(u32::MAX), 1);
    }

    #[test]
    fn handles_that_were_never_given_are_refused() {
        for id in [0, 1, u64::MAX, Handle::new(9, NODE, 4_000).id] {
            let handle = Handle { id };
            let refused = handle.enter().err().map(|failure| failure.code());
            assert_eq!(refused, Some(HANDLE), "{id:#x}");
            assert_eq!(handle.wake(), HANDLE);
            assert!(handle.remove().is_err());
        }
    }
}
