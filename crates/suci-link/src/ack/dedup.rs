//! The packet numbers received already (RFC 4303 appendix A2 calls it the replay window).

use crate::limits::DEDUP_WINDOW;
use crate::types::PacketNumber;

const WORDS: usize = (DEDUP_WINDOW / 64) as usize;

const _: () = assert!(DEDUP_WINDOW.is_multiple_of(64) && DEDUP_WINDOW.is_power_of_two());

/// One bit for each of the [`DEDUP_WINDOW`] numbers up to the highest received, in a ring. As long
/// as no number is missing no bitmap is needed, so a connection without loss never allocates it.
#[derive(Debug)]
pub(super) struct Dedup {
    /// Numbers below were never valid.
    first: PacketNumber,
    highest: Option<PacketNumber>,
    bits: Option<Box<[u64; WORDS]>>,
}

impl Dedup {
    pub(super) const fn new(first: PacketNumber) -> Self {
        Self {
            first,
            highest: None,
            bits: None,
        }
    }

    pub(super) const fn highest(&self) -> Option<PacketNumber> {
        self.highest
    }

    /// Returns the number that comes next if none is missing; `None` after the highest possible
    /// one.
    pub(super) fn expected(&self) -> Option<PacketNumber> {
        self.highest
            .map_or(Some(self.first), |highest| highest.checked_add(1))
    }

    /// Returns true if `number` is neither known nor too old to know.
    pub(super) fn is_fresh(&self, number: PacketNumber) -> bool {
        let Some(highest) = self.highest else {
            return number >= self.first;
        };
        if number > highest {
            return true;
        }
        if number < self.first || highest - number >= DEDUP_WINDOW {
            return false;
        }
        self.bits
            .as_ref()
            .is_some_and(|bits| bits[word(number)] & bit(number) == 0)
    }

    /// Remembers the fresh numbers `first..=last`.
    #[inline]
    pub(super) fn insert(&mut self, first: PacketNumber, last: PacketNumber) {
        if let Some(next) = self.expected()
            && first > next
        {
            self.open_gap(next, first);
        }
        self.highest = self.highest.max(Some(last));
        if let Some(bits) = &mut self.bits {
            (first..=last).for_each(|number| bits[word(number)] |= bit(number));
        }
    }

    /// Gives the bitmap back: numbers that are still missing count as received from now on.
    pub(super) fn shrink(&mut self) {
        self.bits = None;
    }

    /// Returns true if the bitmap was needed.
    #[cfg(test)]
    pub(super) const fn allocated(&self) -> bool {
        self.bits.is_some()
    }

    /// Notes that `from..to` were not received.
    #[cold]
    fn open_gap(&mut self, from: PacketNumber, to: PacketNumber) {
        // All before were received, since there was no bitmap.
        let bits = self.bits.get_or_insert_with(|| Box::new([u64::MAX; WORDS]));
        if to - from >= DEDUP_WINDOW {
            bits.fill(0);
            return;
        }
        let mut number = from;
        while number < to {
            // The part of one word that lies before `to`.
            let length = (64 - number % 64).min(to - number);
            let mask = u64::MAX >> (64 - length);
            bits[word(number)] &= !(mask << (number % 64));
            number += length;
        }
    }
}

const fn word(number: PacketNumber) -> usize {
    (number % DEDUP_WINDOW / 64) as usize
}

const fn bit(number: PacketNumber) -> u64 {
    1 << (number % 64)
}
