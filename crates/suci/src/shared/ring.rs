//! A bounded queue that any number of threads fill and empty without locks.
//!
//! Vyukov's bounded MPMC queue: every slot carries the sequence at which it may be used next, so
//! that a thread claims a position by one compare-and-swap and hands its slot over by one store.
//! Ours and small, because the crates that offer it cannot be checked by loom; `tests/loom_ring.rs`
//! does.

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{UnsafeCell, hint};
use std::mem::MaybeUninit;

/// Puts values that different threads write on different cache lines (pairs of 64 B are fetched
/// together).
#[repr(align(128))]
#[derive(Debug)]
struct CachePadded<T>(T);

#[derive(Debug)]
struct RingSlot<T> {
    /// Place `p` may be filled when this is `p`, and emptied when it is `p + 1`.
    sequence: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    slots: Box<[RingSlot<T>]>,
    mask: usize,
    /// The next position to fill.
    head: CachePadded<AtomicUsize>,
    /// The next position to empty.
    tail: CachePadded<AtomicUsize>,
}

// SAFETY: a slot's value is touched only by the thread that moved `head` (to fill) or `tail` (to
// empty) past it, which one thread does for each position; the sequence is stored with Release
// after and loaded with Acquire before, so the value goes from thread to thread as if sent, for
// which `T: Send` suffices.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: the queue owns its values.
unsafe impl<T: Send> Send for Ring<T> {}

/// Whether a count that wraps is `end` or beyond it.
pub(crate) fn has_reached(count: usize, end: usize) -> bool {
    count.wrapping_sub(end).cast_signed() >= 0
}

/// In the count of those taken: [`Ring::pop`] takes nothing any more.
const CLOSED: usize = 1 << (usize::BITS - 1);

impl<T> Ring<T> {
    /// A queue for at least `capacity` values (2 at least; rounded up to a power of two).
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(2).next_power_of_two();
        let slot = |position| RingSlot {
            sequence: AtomicUsize::new(position),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        };
        Self {
            slots: (0..capacity).map(slot).collect(),
            mask: capacity - 1,
            head: CachePadded(AtomicUsize::new(0)),
            tail: CachePadded(AtomicUsize::new(0)),
        }
    }

    fn slot(&self, position: usize) -> &RingSlot<T> {
        // The mask is one less than the number of slots.
        &self.slots[position & self.mask]
    }

    /// Claims the next position of `counter`, if its slot's sequence has come and it is not at
    /// `end` or behind it: `offset` is 0 to fill, 1 to empty.
    #[inline]
    fn claim(&self, counter: &AtomicUsize, offset: usize, end: Option<usize>) -> Option<usize> {
        let mut position = counter.load(Ordering::Relaxed);
        loop {
            if end.is_some_and(|end| has_reached(position, end)) {
                return None;
            }
            let sequence = self.slot(position).sequence.load(Ordering::Acquire);
            let ahead = sequence
                .wrapping_sub(position.wrapping_add(offset))
                .cast_signed();
            if ahead < 0 {
                return None;
            }
            if ahead > 0 {
                if position & CLOSED != 0 {
                    return None;
                }
                // Another thread was faster.
                hint::spin_loop();
                position = counter.load(Ordering::Relaxed);
                continue;
            }
            let next = position.wrapping_add(1);
            match counter.compare_exchange(position, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(position),
                Err(now) => position = now,
            }
        }
    }

    /// Appends a value; gives it back if the queue is full.
    pub(crate) fn push(&self, value: T) -> Result<(), T> {
        let Some(position) = self.claim(&self.head.0, 0, None) else {
            return Err(value);
        };
        let slot = self.slot(position);
        // SAFETY: `claim` gave this position to this thread alone, and the slot is empty: its
        // sequence was `position`, which is its first value or was stored by the thread that
        // emptied it.
        slot.value.with_mut(|cell| unsafe { (*cell).write(value) });
        slot.sequence
            .store(position.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Whether the next [`Ring::push`] finds room, if no other thread pushes.
    pub(crate) fn has_room(&self) -> bool {
        let position = self.head.0.load(Ordering::Relaxed);
        self.slot(position).sequence.load(Ordering::Acquire) == position
    }

    /// Takes the oldest value. One whose thread is still filling its slot is not there yet.
    pub(crate) fn pop(&self) -> Option<T> {
        self.pop_before(None)
    }

    /// The same, but no value that was put in when [`Ring::filled`] was `end` or later.
    #[inline]
    pub(crate) fn pop_before(&self, end: Option<usize>) -> Option<T> {
        let position = self.claim(&self.tail.0, 1, end)?;
        Some(self.empty(position))
    }

    /// Takes the value at `position` out, which this thread has claimed.
    #[inline]
    fn empty(&self, position: usize) -> T {
        let slot = self.slot(position);
        // SAFETY: this thread alone moved `tail` past `position`, and the slot is full: its
        // sequence was `position + 1`, which was stored by the thread that filled it, after it did.
        // Reading moves the value out; the slot counts as empty from the next store on.
        let value = slot
            .value
            .with(|cell| unsafe { (*cell).assume_init_read() });
        slot.sequence
            .store(position.wrapping_add(self.slots.len()), Ordering::Release);
        value
    }

    /// Lets only [`Ring::pop_closed`] take values from now on. All values that other calls took, or
    /// are taking now, are older than those left: their next claim fails, because a count with this
    /// bit is never the sequence of a slot.
    pub(crate) fn close(&self) {
        if !self.is_closed() {
            self.tail.0.fetch_or(CLOSED, Ordering::Relaxed);
        }
    }

    /// Whether [`Ring::close`] was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.tail.0.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Takes the oldest value of a closed ring, and tells its position: values have positions in
    /// the order of their pushes.
    pub(crate) fn pop_closed(&self) -> Option<(usize, T)> {
        loop {
            let tail = self.tail.0.load(Ordering::Relaxed);
            let position = tail & !CLOSED;
            let sequence = self.slot(position).sequence.load(Ordering::Acquire);
            if tail == position || sequence != position.wrapping_add(1) {
                return None;
            }
            let next = position.wrapping_add(1) | CLOSED;
            let claimed =
                (self.tail.0).compare_exchange(tail, next, Ordering::Relaxed, Ordering::Relaxed);
            if claimed.is_ok() {
                return Some((position, self.empty(position)));
            }
        }
    }

    /// How many values were put in; wraps.
    pub(crate) fn filled(&self) -> usize {
        self.head.0.load(Ordering::Relaxed)
    }

    /// How many values were taken, or are being taken; wraps.
    pub(crate) fn emptied(&self) -> usize {
        self.tail.0.load(Ordering::Relaxed) & !CLOSED
    }

    /// The same, unless [`Ring::close`] was called.
    pub(crate) fn emptied_open(&self) -> Option<usize> {
        let tail = self.tail.0.load(Ordering::Relaxed);
        (tail & CLOSED == 0).then_some(tail)
    }

    /// Whether nothing was there at some moment of the call.
    pub(crate) fn is_empty(&self) -> bool {
        let position = self.emptied();
        self.slot(position).sequence.load(Ordering::Acquire) != position.wrapping_add(1)
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
        while self.pop_closed().is_some() {}
    }
}
