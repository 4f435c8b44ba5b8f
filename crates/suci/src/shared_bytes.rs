//! Bytes at an address that several threads, or other programs' messages, read and change at the
//! same time.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use suci_layers::remote::{AtomicOp, Width};

/// Bytes of a word.
const WORD: usize = 8;

/// Bytes at an address, which are only read and changed by atomic accesses.
///
/// Each byte has one *unit* with which it is accessed: the aligned word of 8 bytes around it, if
/// all of that is here; else the aligned 4 bytes; else the byte alone. So no byte is accessed by
/// atomic operations of different sizes, and nothing outside is touched. Integers have the byte
/// order of the machine.
#[derive(Debug)]
pub(crate) struct SharedBytes {
    first: NonNull<u8>,
    length: usize,
}

// SAFETY: the bytes may be used from any thread (`SharedBytes::new`), and all accesses are atomic.
unsafe impl Send for SharedBytes {}
// SAFETY: as above.
unsafe impl Sync for SharedBytes {}

/// The part of the bytes that one atomic operation accesses.
enum Unit<'a> {
    Eight(&'a AtomicU64),
    Four(&'a AtomicU32),
    One(&'a AtomicU8),
}

impl Unit<'_> {
    const fn len(&self) -> usize {
        match self {
            Self::Eight(_) => 8,
            Self::Four(_) => 4,
            Self::One(_) => 1,
        }
    }

    fn load(&self) -> u64 {
        match self {
            Self::Eight(word) => word.load(Ordering::Acquire),
            Self::Four(half) => half.load(Ordering::Acquire).into(),
            Self::One(byte) => byte.load(Ordering::Acquire).into(),
        }
    }

    /// Replaces the unit's value by that of `change`. Returns the value before.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "values have the unit's width"
    )]
    fn update(&self, change: impl Fn(u64) -> u64) -> u64 {
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        // Each attempt has a value, so that the result is the one before in any case.
        match self {
            Self::Eight(word) => word
                .fetch_update(set, fetch, |old| Some(change(old)))
                .unwrap_or_else(|old| old),
            Self::Four(half) => half
                .fetch_update(set, fetch, |old| Some(change(old.into()) as u32))
                .unwrap_or_else(|old| old)
                .into(),
            Self::One(byte) => byte
                .fetch_update(set, fetch, |old| Some(change(old.into()) as u8))
                .unwrap_or_else(|old| old)
                .into(),
        }
    }

    /// Returns how far the value of `count` of the unit's bytes, from byte `skip` on, is to be
    /// shifted to its place in the unit.
    const fn shift(&self, skip: usize, count: usize) -> usize {
        match cfg!(target_endian = "little") {
            true => 8 * skip,
            false => 8 * (self.len() - skip - count),
        }
    }

    /// Changes the unit's bytes from `skip` on, and leaves the others.
    fn write(&self, skip: usize, bytes: &[u8]) {
        let shift = self.shift(skip, bytes.len());
        let mask = mask(bytes.len()) << shift;
        let value = value_of(bytes) << shift;
        self.update(|old| old & !mask | value);
    }

    /// Copies the unit's bytes from `skip` on.
    fn read(&self, skip: usize, into: &mut [u8]) {
        let value = self.load() >> self.shift(skip, into.len());
        let (low, high) = (value.to_le_bytes(), value.to_be_bytes());
        let bytes = match cfg!(target_endian = "little") {
            true => low.get(..into.len()),
            false => high.get(WORD - into.len()..),
        };
        into.copy_from_slice(bytes.unwrap_or_default());
    }
}

/// The highest value of `count` bytes.
const fn mask(count: usize) -> u64 {
    match count {
        WORD.. => u64::MAX,
        count => (1 << (8 * count)) - 1,
    }
}

/// The value that up to 8 bytes have in the byte order of the machine.
fn value_of(bytes: &[u8]) -> u64 {
    let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    match cfg!(target_endian = "little") {
        true => bytes.iter().rev().fold(0, add),
        false => bytes.iter().fold(0, add),
    }
}

impl SharedBytes {
    /// The `length` bytes from `first` on.
    ///
    /// # Safety
    /// As long as the value exists, they are allocated and initialised, may be written, and are
    /// used by others in atomic operations only, or at times that are ordered with the accesses
    /// through this value.
    pub(crate) const unsafe fn new(first: NonNull<u8>, length: usize) -> Self {
        Self { first, length }
    }

    pub(crate) const fn first(&self) -> NonNull<u8> {
        self.first
    }

    pub(crate) const fn len(&self) -> usize {
        self.length
    }

    /// Returns the byte at `at`, if `length` bytes are there.
    pub(crate) fn at(&mut self, at: u64, length: usize) -> Option<NonNull<u8>> {
        let at = self.offset(at, length)?;
        // SAFETY: the offset is within the bytes, or at their end.
        Some(unsafe { self.first.add(at) })
    }

    /// Returns the offset as a number of this machine, if `length` bytes are there.
    fn offset(&self, at: u64, length: usize) -> Option<usize> {
        let at = usize::try_from(at).ok()?;
        let end = at.checked_add(length)?;
        (end <= self.length).then_some(at)
    }

    /// Returns the aligned `size` bytes around the byte at offset `at`, unless some of them lie
    /// outside.
    fn aligned(&self, at: usize, size: usize) -> Option<NonNull<u8>> {
        let skip = self.skip(at, size);
        let begin = at.checked_sub(skip)?;
        let fits = begin
            .checked_add(size)
            .is_some_and(|end| end <= self.length);
        // SAFETY: the offset is within the bytes.
        fits.then(|| unsafe { self.first.add(begin) })
    }

    /// Returns the number of bytes between the multiple of `size` before it and the byte at `at`.
    fn skip(&self, at: usize, size: usize) -> usize {
        self.first.addr().get().wrapping_add(at) & (size - 1)
    }

    /// Returns the unit of the byte at `at`, and the byte's place in it; nothing if `at` is no
    /// offset of a byte.
    fn unit(&self, at: usize) -> Option<(Unit<'_>, usize)> {
        if let Some(word) = self.aligned(at, 8) {
            // SAFETY: the 8 bytes are here, aligned, and only used atomically (`SharedBytes::new`),
            // here by operations of this size alone.
            let word = unsafe { word.cast::<AtomicU64>().as_ref() };
            return Some((Unit::Eight(word), self.skip(at, 8)));
        }
        if let Some(half) = self.aligned(at, 4) {
            // SAFETY: as above, of 4 bytes.
            let half = unsafe { half.cast::<AtomicU32>().as_ref() };
            return Some((Unit::Four(half), self.skip(at, 4)));
        }
        // SAFETY: as above, of one byte.
        let byte = unsafe { self.aligned(at, 1)?.cast::<AtomicU8>().as_ref() };
        Some((Unit::One(byte), 0))
    }

    /// Returns the words from `at` on, if a word begins there, `count` at most.
    fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
        let there = self.length.saturating_sub(at) / WORD;
        if self.skip(at, WORD) != 0 || there == 0 {
            return &[];
        }
        // SAFETY: so many words are within the bytes, and aligned; they are only used atomically.
        unsafe {
            let first = self.first.add(at).cast();
            std::slice::from_raw_parts(first.as_ptr(), count.min(there))
        }
    }

    /// Copies the bytes from `at` on to `into`. Returns false, and copies nothing, if they lie
    /// beyond the end.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let Some(mut at) = self.offset(at, into.len()) else {
            return false;
        };
        let mut left = into;
        while !left.is_empty() {
            let words = self.words(at, left.len() / WORD);
            let (whole, rest) = left.split_at_mut(words.len() * WORD);
            let (whole, _) = whole.as_chunks_mut::<WORD>();
            for (to, word) in whole.iter_mut().zip(words) {
                *to = word.load(Ordering::Acquire).to_ne_bytes();
            }
            at += words.len() * WORD;
            left = rest;
            if let Some((unit, skip)) = self.unit(at).filter(|_| !left.is_empty()) {
                let (part, rest) = left.split_at_mut((unit.len() - skip).min(left.len()));
                unit.read(skip, part);
                at += part.len();
                left = rest;
            }
        }
        true
    }

    /// Copies `bytes` to `at`. Returns false, and copies nothing, if they lie beyond the end.
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> bool {
        let Some(mut at) = self.offset(at, bytes.len()) else {
            return false;
        };
        let mut left = bytes;
        while !left.is_empty() {
            let words = self.words(at, left.len() / WORD);
            let (whole, rest) = left.split_at(words.len() * WORD);
            let (whole, _) = whole.as_chunks::<WORD>();
            for (from, word) in whole.iter().zip(words) {
                word.store(u64::from_ne_bytes(*from), Ordering::Release);
            }
            at += words.len() * WORD;
            left = rest;
            if let Some((unit, skip)) = self.unit(at).filter(|_| !left.is_empty()) {
                let (part, rest) = left.split_at((unit.len() - skip).min(left.len()));
                unit.write(skip, part);
                at += part.len();
                left = rest;
            }
        }
        true
    }

    /// Applies an atomic operation to the integer at `at`. Returns the integer before; nothing, and
    /// changes nothing, if it lies beyond the end or its address is no multiple of its width.
    pub(crate) fn atomic(&self, at: u64, width: Width, op: AtomicOp) -> Option<u64> {
        let size = match width {
            Width::Bits32 => 4,
            Width::Bits64 => 8,
        };
        let at = self.offset(at, size)?;
        if self.skip(at, size) != 0 {
            return None;
        }
        let (unit, skip) = self.unit(at)?;
        let shift = unit.shift(skip, size);
        let integer = |whole: u64| whole >> shift & width.max();
        let before = match op {
            AtomicOp::Fetch => unit.load(),
            op => unit.update(|whole| {
                let rest = whole & !(width.max() << shift);
                rest | op.apply(integer(whole), width) << shift
            }),
        };
        Some(integer(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `test` with memory of every alignment and some lengths, which has other bytes around
    /// it; those must stay.
    fn in_the_middle(test: impl Fn(&SharedBytes)) {
        for begin in 8..16 {
            for length in 0..40 {
                let mut all = [0_u64; 9].map(|_| 0x55_5555_5555_5555_u64);
                let bytes = NonNull::from(&mut all).cast::<u8>();
                // SAFETY: `begin + length` is at most 55 of 72 bytes, which are only used through
                // the value until that is gone.
                let shared = unsafe { SharedBytes::new(bytes.add(begin), length) };
                test(&shared);
                let after: Vec<u8> = all.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let before: Vec<u8> = [0x55_5555_5555_5555_u64; 9]
                    .iter()
                    .flat_map(|word| word.to_ne_bytes())
                    .collect();
                assert_eq!(after[..begin], before[..begin]);
                assert_eq!(after[begin + length..], before[begin + length..]);
            }
        }
    }

    #[test]
    fn bytes_keep_their_place_at_every_offset() {
        in_the_middle(|memory| {
            for offset in 0..memory.len() {
                for length in 0..=memory.len() - offset {
                    assert!(memory.write(0, &vec![0xff; memory.len()]));
                    let bytes: Vec<u8> = (1..=length as u8).collect();
                    assert!(memory.write(offset as u64, &bytes));
                    let mut all = vec![0; memory.len()];
                    assert!(memory.read(0, &mut all));
                    assert_eq!(&all[offset..offset + length], bytes);
                    let others = all[..offset].iter().chain(&all[offset + length..]);
                    assert!(others.into_iter().all(|byte| *byte == 0xff));
                    let mut some = vec![0; length];
                    assert!(memory.read(offset as u64, &mut some));
                    assert_eq!(some, bytes);
                }
            }
        });
    }

    #[test]
    fn nothing_beyond_the_end_is_touched() {
        in_the_middle(|memory| {
            let end = memory.len() as u64;
            for (at, length) in [(end, 1), (end.saturating_sub(3), 8), (u64::MAX, 2)] {
                assert!(!memory.write(at, &vec![1; length]), "{at} {length}");
                assert!(!memory.read(at, &mut vec![1; length]), "{at} {length}");
            }
            for (at, width) in [(end, Width::Bits32), (end.saturating_sub(7), Width::Bits64)] {
                assert_eq!(memory.atomic(at, width, AtomicOp::Set(1)), None);
            }
            assert!(memory.write(end, &[]) && memory.read(end, &mut []));
        });
    }

    #[test]
    fn atomics_change_their_integer_alone() {
        in_the_middle(|memory| {
            for (width, size) in [(Width::Bits32, 4), (Width::Bits64, 8)] {
                for at in 0..memory.len() {
                    memory.write(0, &vec![1; memory.len()]);
                    let aligned = (memory.first().addr().get() + at) % size == 0;
                    let fits = at + size <= memory.len();
                    let before = memory.atomic(at as u64, width, AtomicOp::Add(u64::MAX));
                    let ones = 0x0101_0101_0101_0101 & width.max();
                    assert_eq!(before, (aligned && fits).then_some(ones));
                    if before.is_none() {
                        continue;
                    }
                    let fetched = memory.atomic(at as u64, width, AtomicOp::Fetch);
                    assert_eq!(fetched, Some(ones - 1));
                    let swap = AtomicOp::CompareSwap {
                        expected: ones - 1,
                        new: ones,
                    };
                    assert_eq!(memory.atomic(at as u64, width, swap), Some(ones - 1));
                    let mut all = vec![0; memory.len()];
                    memory.read(0, &mut all);
                    assert!(all.iter().all(|byte| *byte == 1));
                }
            }
        });
    }
}
