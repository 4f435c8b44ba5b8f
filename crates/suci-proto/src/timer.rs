//! Hierarchical timer wheel: finds the next of many deadlines.
//!
//! The wheel of Varghese and Lauck ("Hashed and Hierarchical Timing Wheels", 1987, scheme 7): eight
//! levels of 64 slots, the lowest of 65 us, the highest reaching the end of time. Two things differ
//! from the text book. A slot is a small binary heap instead of a list, so that
//! [`TimerWheel::next`] is exact at every distance and [`TimerWheel::expire`] is ordered. (The
//! usual wheel rounds times, and would wake an idle process too early or too late.) The wheel turns
//! only in `expire`, by the time that passed: an hour costs as much as a tick.
//!
//! A plain heap over all keys was rejected: re-arming is by far the commonest operation, and in a
//! wheel it touches only the few timers that share a slot.

use suci_link::time::Instant;

/// Nanoseconds of one tick, as a power of two: 65.5 us, about the precision of a sleep.
const TICK_BITS: u32 = 16;
/// Slots of one level, as a power of two: one machine word holds which are occupied.
const SLOT_BITS: u32 = 6;
/// Slots of one level.
const SLOTS: usize = 1 << SLOT_BITS;
/// Levels that together cover every tick of a 64-bit nanosecond clock.
const LEVELS: usize = ((u64::BITS - TICK_BITS) / SLOT_BITS) as usize;

const _: () = assert!(
    TICK_BITS + LEVELS as u32 * SLOT_BITS == u64::BITS,
    "no deadline is too far"
);

/// One armed timer in its slot's heap; ordered by deadline, then key.
type Armed = (Instant, usize);

/// The position at which a key is armed. It is small, since each peer has one, armed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ArmedAt {
    slot: u16,
    position: u32,
}

/// The position of a key that is not armed.
const NOWHERE: ArmedAt = ArmedAt {
    slot: u16::MAX,
    position: 0,
};

const _: () = assert!(LEVELS * SLOTS < u16::MAX as usize);

impl ArmedAt {
    /// `u32` suffices: 2^32 timers in a slot do not fit in memory.
    const fn new(slot: usize, position: usize) -> Self {
        Self {
            slot: slot as u16,
            position: position as u32,
        }
    }

    const fn is_armed(self) -> bool {
        self.slot != NOWHERE.slot
    }
}

/// Timers for which an empty slot keeps memory. Memory for more is not soon needed again.
const KEPT: usize = 256;

/// Deadlines by key, at most one per key.
///
/// Keys should be small and dense, as those of a slab: memory grows with the largest ever set (8 B
/// each). Setting and cancelling cost O(1) plus the logarithm of the timers in one slot; nothing
/// allocates once slots have grown to their usual size. All results are deterministic.
#[derive(Debug)]
pub struct TimerWheel {
    /// The tick up to which everything has been expired.
    base: u64,
    /// Per level, a bit for each slot that is not empty.
    occupied: [u64; LEVELS],
    /// `LEVELS * SLOTS` heaps.
    slots: Vec<Vec<Armed>>,
    armed_at: Vec<ArmedAt>,
    /// The earliest deadline, cached because it is read more often than it changes.
    next: Option<Instant>,
}

impl Default for TimerWheel {
    fn default() -> Self {
        Self::new()
    }
}

impl TimerWheel {
    /// Returns a wheel without timers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            base: 0,
            occupied: [0; LEVELS],
            slots: (0..LEVELS * SLOTS).map(|_| Vec::new()).collect(),
            armed_at: Vec::new(),
            next: None,
        }
    }

    /// Arms `key` for `deadline`, which replaces its former deadline. A deadline in the past is due
    /// at the next [`expire`](Self::expire).
    pub fn set(&mut self, key: usize, deadline: Instant) {
        if !self.moves_within(key, deadline) {
            self.disarm(key);
            if key >= self.armed_at.len() {
                self.armed_at.resize(key.saturating_add(1), NOWHERE);
            }
            self.insert((deadline, key));
        }
        self.next = self.earliest();
    }

    /// Changes the deadline of `key` within its slot, as most changes are small. Returns false if
    /// it belongs into another slot.
    fn moves_within(&mut self, key: usize, deadline: Instant) -> bool {
        let at = self.armed_at.get(key).copied().unwrap_or(NOWHERE);
        let slot = usize::from(at.slot);
        if self.slot_for(deadline) != slot {
            return false;
        }
        let position = at.position as usize;
        self.slots[slot][position].0 = deadline;
        if self.slots[slot].len() > 1 {
            let position = self.rise(slot, position);
            self.sink(slot, position);
        }
        true
    }

    /// Disarms `key`; does nothing if it is not armed.
    pub fn cancel(&mut self, key: usize) {
        self.disarm(key);
        self.next = self.earliest();
    }

    fn disarm(&mut self, key: usize) {
        let at = self.armed_at.get_mut(key);
        let at = at.map_or(NOWHERE, |at| core::mem::replace(at, NOWHERE));
        if at.is_armed() {
            self.remove(at);
        }
    }

    /// Returns the deadline of `key`.
    pub fn deadline(&self, key: usize) -> Option<Instant> {
        let at = *self.armed_at.get(key)?;
        self.slots
            .get(usize::from(at.slot))?
            .get(at.position as usize)
            .map(|armed| armed.0)
    }

    /// Returns the earliest deadline of all, exactly.
    #[must_use]
    pub const fn next(&self) -> Option<Instant> {
        self.next
    }

    fn earliest(&self) -> Option<Instant> {
        self.slots
            .get(self.first_slot()?)?
            .first()
            .map(|armed| armed.0)
    }

    /// Disarms every timer whose deadline is `now` or earlier and appends its key to `due`, in the
    /// order of deadlines, then of keys. Timers with a later deadline stay armed.
    pub fn expire(&mut self, now: Instant, due: &mut Vec<usize>) {
        while let Some(slot) = self.first_slot() {
            let Some(&(deadline, key)) = self.slots.get(slot).and_then(|heap| heap.first()) else {
                break;
            };
            if deadline > now {
                break;
            }
            self.disarm(key);
            due.push(key);
        }
        self.next = self.earliest();
        self.turn_to(tick(now));
    }

    /// Moves the base forward, and moves timers that came near down to finer levels. Everything
    /// before `base` is expired, so at each level only the base's own slot can hold any.
    fn turn_to(&mut self, base: u64) {
        if base <= self.base {
            return;
        }
        self.base = base;
        for level in 1..LEVELS {
            let slot = slot_of(level, base);
            if self.occupied[level] & bit(slot) == 0 {
                continue;
            }
            self.occupied[level] &= !bit(slot);
            let mut moving = core::mem::take(&mut self.slots[slot]);
            for armed in moving.drain(..) {
                self.insert(armed);
            }
            // No timer was added to the slot meanwhile: keep its memory for the next use.
            if moving.capacity() <= KEPT {
                self.slots[slot] = moving;
            }
        }
    }

    /// Returns the slot of the earliest timer: lower levels come before higher ones, and within a
    /// level all slots lie ahead of the base.
    fn first_slot(&self) -> Option<usize> {
        let (level, word) = self
            .occupied
            .iter()
            .enumerate()
            .find(|(_, word)| **word != 0)?;
        Some(level * SLOTS + word.trailing_zeros() as usize)
    }

    /// Puts a timer into the slot of the highest digit in which its tick differs from the base.
    fn insert(&mut self, armed: Armed) {
        let slot = self.slot_for(armed.0);
        self.occupied[slot / SLOTS] |= bit(slot);
        let heap = &mut self.slots[slot];
        heap.push(armed);
        let last = heap.len() - 1;
        self.rise(slot, last);
    }

    fn slot_for(&self, deadline: Instant) -> usize {
        let tick = tick(deadline).max(self.base);
        let level = ((tick ^ self.base) | 1).ilog2() / SLOT_BITS;
        slot_of(level as usize, tick)
    }

    fn remove(&mut self, at: ArmedAt) {
        let (slot, position) = (usize::from(at.slot), at.position as usize);
        let heap = &mut self.slots[slot];
        heap.swap_remove(position);
        if heap.is_empty() {
            if heap.capacity() > KEPT {
                *heap = Vec::new();
            }
            self.occupied[slot / SLOTS] &= !bit(slot);
        } else if position < heap.len() {
            let position = self.rise(slot, position);
            self.sink(slot, position);
        }
    }

    /// Moves an entry towards the root while it is earlier than its parent.
    fn rise(&mut self, slot: usize, mut position: usize) -> usize {
        let heap = &mut self.slots[slot];
        let armed = heap[position];
        while position > 0 {
            let parent = (position - 1) / 2;
            if heap[parent] <= armed {
                break;
            }
            heap[position] = heap[parent];
            self.armed_at[heap[position].1] = ArmedAt::new(slot, position);
            position = parent;
        }
        heap[position] = armed;
        self.armed_at[armed.1] = ArmedAt::new(slot, position);
        position
    }

    /// Moves an entry away from the root while a child is earlier.
    fn sink(&mut self, slot: usize, mut position: usize) {
        let heap = &mut self.slots[slot];
        let armed = heap[position];
        loop {
            let left = 2 * position + 1;
            let Some(&left_armed) = heap.get(left) else {
                break;
            };
            let (child, child_armed) = match heap.get(left + 1) {
                Some(&right_armed) if right_armed < left_armed => (left + 1, right_armed),
                _ => (left, left_armed),
            };
            if armed <= child_armed {
                break;
            }
            heap[position] = child_armed;
            self.armed_at[child_armed.1] = ArmedAt::new(slot, position);
            position = child;
        }
        heap[position] = armed;
        self.armed_at[armed.1] = ArmedAt::new(slot, position);
    }
}

const fn tick(at: Instant) -> u64 {
    at.as_nanos() >> TICK_BITS
}

/// Returns the index, among all levels' slots, of a tick's slot at `level`.
const fn slot_of(level: usize, tick: u64) -> usize {
    level * SLOTS + (tick >> (level as u32 * SLOT_BITS)) as usize % SLOTS
}

/// Returns a slot's bit in its level's word.
const fn bit(slot: usize) -> u64 {
    1 << (slot % SLOTS)
}

#[cfg(test)]
mod tests;
