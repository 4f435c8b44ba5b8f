//! Memory of regions, and of the results of gets.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use suci_layers::remote::{AtomicOp, Memory, Width};

/// Bytes of a word.
const WORD: u64 = 8;

/// Memory of a region that the library allocated: words that many threads may read and change at
/// the same time. Bytes lie in them in little-endian order.
#[derive(Debug)]
pub(super) struct SharedWords {
    words: Box<[AtomicU64]>,
    length: u64,
}

impl SharedWords {
    /// Returns `length` zero bytes.
    pub(super) fn new(length: usize) -> Self {
        let words = length.div_ceil(WORD as usize);
        Self {
            words: std::iter::repeat_with(AtomicU64::default)
                .take(words)
                .collect(),
            length: length as u64,
        }
    }

    /// Returns the words that hold the bytes from `at` on, and the offset of the first in them;
    /// nothing if they lie beyond the end.
    fn words(&self, at: u64, length: usize) -> Option<(&[AtomicU64], usize)> {
        let end = at
            .checked_add(length as u64)
            .filter(|end| *end <= self.length)?;
        let first = usize::try_from(at / WORD).ok()?;
        let last = usize::try_from(end.div_ceil(WORD)).ok()?;
        Some((
            self.words.get(first..last)?,
            usize::try_from(at % WORD).ok()?,
        ))
    }
}

/// Returns `word` with `bytes` from its byte `at` on.
fn with_bytes(word: u64, at: usize, bytes: &[u8]) -> u64 {
    let mut whole = word.to_le_bytes();
    for (to, from) in whole.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(whole)
}

/// Changes some bytes of a word. Others of it may change at the same time.
fn change_bytes(word: &AtomicU64, at: usize, bytes: &[u8]) {
    let changed = |old| Some(with_bytes(old, at, bytes));
    let done = word.fetch_update(Ordering::Release, Ordering::Relaxed, changed);
    debug_assert!(done.is_ok(), "each attempt has a value");
}

impl Memory for SharedWords {
    fn len(&self) -> u64 {
        self.length
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let Some((words, mut skip)) = self.words(at, into.len()) else {
            return false;
        };
        let mut left = into;
        for word in words {
            let bytes = word.load(Ordering::Acquire).to_le_bytes();
            let bytes = bytes.get(skip..).unwrap_or_default();
            let (now, later) = left.split_at_mut(bytes.len().min(left.len()));
            for (to, from) in now.iter_mut().zip(bytes) {
                *to = *from;
            }
            (left, skip) = (later, 0);
        }
        true
    }

    fn write(&self, at: u64, bytes: &[u8]) -> bool {
        let Some((words, skip)) = self.words(at, bytes.len()) else {
            return false;
        };
        let head = match skip {
            0 => 0,
            skip => (WORD as usize - skip).min(bytes.len()),
        };
        let (head, rest) = bytes.split_at(head);
        let mut words = words.iter();
        if !head.is_empty()
            && let Some(word) = words.next()
        {
            change_bytes(word, skip, head);
        }
        let (whole, tail) = rest.as_chunks();
        for (bytes, word) in whole.iter().zip(words.by_ref()) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Release);
        }
        if !tail.is_empty()
            && let Some(word) = words.next()
        {
            change_bytes(word, 0, tail);
        }
        true
    }

    fn atomic(&self, at: u64, width: Width, op: AtomicOp) -> Option<u64> {
        if !at.is_multiple_of(width.bytes()) {
            return None;
        }
        let (words, skip) = self.words(at, width.bytes() as usize)?;
        let word = words.first()?;
        let part = |whole: u64| whole >> (8 * skip) & width.max();
        let change = |whole: u64| {
            let rest = whole & !(width.max() << (8 * skip));
            Some(rest | op.apply(part(whole), width) << (8 * skip))
        };
        match op {
            AtomicOp::Fetch => Some(part(word.load(Ordering::Acquire))),
            _ => word
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
                .ok()
                .map(part),
        }
    }
}

/// The bytes of a call that waits for the result of a get.
#[derive(Debug)]
pub(super) struct CallMemory {
    first: NonNull<u8>,
    length: usize,
}

// SAFETY: the bytes are those of an exclusive borrow that ends after the memory was withdrawn
// (`CallMemory::new`), so no other thread uses them while this value does.
unsafe impl Send for CallMemory {}
// SAFETY: as above; and two threads do not use this value at the same time, since one session's
// messages are taken by one thread at a time, each byte of a get comes in one message, and all
// calls of one get concern different bytes.
unsafe impl Sync for CallMemory {}

impl CallMemory {
    /// Makes `buffer` the memory of a get.
    ///
    /// # Safety
    /// The operation that it is given to is complete, or was cancelled, before the borrow of
    /// `buffer` ends; until then nobody else uses the bytes.
    pub(super) unsafe fn new(buffer: &mut [u8]) -> Self {
        Self {
            length: buffer.len(),
            first: NonNull::from(buffer).cast(),
        }
    }

    fn at(&self, at: u64, length: usize) -> Option<NonNull<u8>> {
        let at = usize::try_from(at).ok()?;
        let fits = at.checked_add(length).is_some_and(|end| end <= self.length);
        // SAFETY: the offset is within the bytes, or at their end.
        fits.then(|| unsafe { self.first.add(at) })
    }
}

impl Memory for CallMemory {
    fn len(&self) -> u64 {
        self.length as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let Some(from) = self.at(at, into.len()) else {
            return false;
        };
        // SAFETY: `from` has as many bytes as `into`; they are initialised and not written
        // meanwhile (`CallMemory`), and `into` is another exclusive borrow.
        unsafe { from.copy_to_nonoverlapping(NonNull::from(&mut *into).cast(), into.len()) };
        true
    }

    fn write(&self, at: u64, bytes: &[u8]) -> bool {
        let Some(to) = self.at(at, bytes.len()) else {
            return false;
        };
        // SAFETY: `to` has as many bytes as `bytes`, which nobody else uses meanwhile
        // (`CallMemory`), and `bytes` is another borrow.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        true
    }

    fn atomic(&self, _: u64, _: Width, _: AtomicOp) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_their_place_at_every_offset() {
        for offset in 0..17 {
            for length in 0..20 {
                let memory = SharedWords::new(40);
                memory.write(0, &[0xff; 40]);
                let bytes: Vec<u8> = (1..=length).collect();
                assert!(memory.write(offset, &bytes));
                let mut all = [0; 40];
                assert!(memory.read(0, &mut all));
                let from = usize::try_from(offset).unwrap();
                let to = from + bytes.len();
                assert_eq!(&all[from..to], bytes);
                assert!(
                    all[..from]
                        .iter()
                        .chain(&all[to..])
                        .all(|byte| *byte == 0xff)
                );
                let mut some = vec![0; bytes.len()];
                assert!(memory.read(offset, &mut some));
                assert_eq!(some, bytes);
            }
        }
    }

    #[test]
    fn nothing_beyond_the_end_is_touched() {
        let memory = SharedWords::new(13);
        for (at, length) in [(13, 1), (6, 8), (0, 14), (u64::MAX, 2)] {
            assert!(!memory.write(at, &vec![1; length]), "{at} {length}");
            assert!(!memory.read(at, &mut vec![1; length]), "{at} {length}");
        }
        assert_eq!(memory.atomic(8, Width::Bits64, AtomicOp::Add(1)), None);
        assert_eq!(memory.atomic(12, Width::Bits32, AtomicOp::Add(1)), None);
        assert_eq!(memory.atomic(2, Width::Bits32, AtomicOp::Add(1)), None);
        assert!(memory.write(13, &[]));
    }

    #[test]
    fn atomics_change_their_integer_alone() {
        let memory = SharedWords::new(16);
        memory.write(0, &[1; 16]);
        let add = AtomicOp::Add(0xffff_ffff);
        assert_eq!(memory.atomic(4, Width::Bits32, add), Some(0x0101_0101));
        let mut all = [0; 16];
        memory.read(0, &mut all);
        assert_eq!(all[..8], [1, 1, 1, 1, 0, 1, 1, 1]);
        assert_eq!(all[8..], [1; 8]);
        let swap = AtomicOp::CompareSwap {
            expected: 0x0101_0101_0101_0101,
            new: 7,
        };
        assert_eq!(
            memory.atomic(8, Width::Bits64, swap),
            Some(0x0101_0101_0101_0101)
        );
        assert_eq!(memory.atomic(8, Width::Bits64, AtomicOp::Fetch), Some(7));
    }
}
