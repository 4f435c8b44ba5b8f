//! Memory of regions, and of the results of gets.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    /// Returns `length` zero bytes; nothing if there is no memory for them.
    pub(super) fn new(length: usize) -> Option<Self> {
        let count = length.div_ceil(WORD as usize);
        let mut words = Vec::new();
        words.try_reserve_exact(count).ok()?;
        words.resize_with(count, AtomicU64::default);
        Some(Self {
            words: words.into(),
            length: length as u64,
        })
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

/// The buffer of a call that waits for the result of a get.
#[derive(Debug)]
pub(super) struct CallMemory {
    length: usize,
    /// Its first byte, until the call withdraws it.
    first: Mutex<Option<FirstByte>>,
}

#[derive(Clone, Copy, Debug)]
struct FirstByte(NonNull<u8>);

// SAFETY: whoever has it may be another thread, but uses it only under the lock of `CallMemory`,
// and the call that lends the bytes does not use them until it has withdrawn them under that lock.
unsafe impl Send for FirstByte {}

/// Lends a buffer as memory of a get, until it is dropped.
pub(super) struct LentSlice<'a> {
    memory: Arc<CallMemory>,
    buffer: PhantomData<&'a mut [u8]>,
}

impl<'a> LentSlice<'a> {
    pub(super) fn new(buffer: &'a mut [u8]) -> Self {
        let length = buffer.len();
        let first = Mutex::new(Some(FirstByte(NonNull::from(buffer).cast())));
        Self {
            memory: Arc::new(CallMemory { length, first }),
            buffer: PhantomData,
        }
    }

    pub(super) fn memory(&self) -> Arc<dyn Memory> {
        Arc::clone(&self.memory) as Arc<dyn Memory>
    }
}

impl Drop for LentSlice<'_> {
    fn drop(&mut self) {
        *self.memory.lock() = None;
    }
}

impl CallMemory {
    fn lock(&self) -> MutexGuard<'_, Option<FirstByte>> {
        // No code between lock and unlock leaves it half changed.
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `access` with the byte at `at`, which `length` bytes begin with, if the buffer has
    /// them and is lent.
    fn with(&self, at: u64, length: usize, access: impl FnOnce(NonNull<u8>)) -> bool {
        let at = usize::try_from(at).ok();
        let at = at.filter(|at| at.checked_add(length).is_some_and(|end| end <= self.length));
        let first = self.lock();
        let (Some(FirstByte(byte)), Some(at)) = (*first, at) else {
            return false;
        };
        // SAFETY: the offset is within the buffer, or at its end.
        access(unsafe { byte.add(at) });
        true
    }
}

impl Memory for CallMemory {
    fn len(&self) -> u64 {
        self.length as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let length = into.len();
        let into = NonNull::from(into).cast();
        // SAFETY: `from` has `length` initialised bytes, which nobody else uses while the lock is
        // held, since the call that lends them withdraws them first; `into` is another exclusive
        // borrow of as many.
        let copy = |from: NonNull<u8>| unsafe { from.copy_to_nonoverlapping(into, length) };
        self.with(at, length, copy)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> bool {
        let from = NonNull::from(bytes).cast();
        // SAFETY: as in `read`, with the copy in the other direction.
        let copy = |to: NonNull<u8>| unsafe { to.copy_from_nonoverlapping(from, bytes.len()) };
        self.with(at, bytes.len(), copy)
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
                let memory = SharedWords::new(40).unwrap();
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
        let memory = SharedWords::new(13).unwrap();
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
    fn a_buffer_that_is_lent_no_more_is_not_touched() {
        let mut bytes = [0; 4];
        let lent = LentSlice::new(&mut bytes);
        let memory = lent.memory();
        assert!(memory.write(1, &[5, 6]));
        let mut read = [0; 3];
        assert!(memory.read(0, &mut read) && !memory.read(2, &mut read));
        assert_eq!(read, [0, 5, 6]);
        assert!(!memory.write(3, &[7, 8]) && !memory.write(u64::MAX, &[7]));
        drop(lent);
        assert!(!memory.write(0, &[9]) && !memory.read(0, &mut read));
        assert_eq!(bytes, [0, 5, 6, 0]);
    }

    #[test]
    fn atomics_change_their_integer_alone() {
        let memory = SharedWords::new(16).unwrap();
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
