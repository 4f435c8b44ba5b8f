//! Memory that is lent to messages and operations, and withdrawn at any time.

use crate::shared_bytes::SharedBytes;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError, RwLock};
use suci_layers::remote::{AtomicOp, Memory, Width};
use suci_proto::LentMemory;

/// Bytes that belong to somebody else: a region that the program lends, or the buffer of a call.
#[derive(Debug)]
pub(crate) struct LentBytes {
    length: usize,
    /// The lender uses them in no way until it withdraws them. Then one thread at a time has them,
    /// and copies them as plain memory. Otherwise threads share them by atomic accesses.
    exclusive: bool,
    /// Nothing once they were withdrawn.
    bytes: RwLock<Option<SharedBytes>>,
}

impl LentBytes {
    /// Lends bytes that the lender, too, may use meanwhile.
    pub(crate) fn shared(bytes: SharedBytes) -> Arc<Self> {
        Self::new(bytes, false)
    }

    /// Lends bytes that the lender does not use until it withdraws them.
    pub(crate) fn exclusive(bytes: SharedBytes) -> Arc<Self> {
        Self::new(bytes, true)
    }

    fn new(bytes: SharedBytes, exclusive: bool) -> Arc<Self> {
        Arc::new(Self {
            length: bytes.len(),
            exclusive,
            bytes: RwLock::new(Some(bytes)),
        })
    }

    /// Ends the loan. When this returns, nothing touches the bytes any more.
    pub(crate) fn withdraw(&self) {
        // No code between lock and unlock leaves it half changed.
        *self.bytes.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The first byte; nothing once they were withdrawn.
    pub(crate) fn first(&self) -> Option<NonNull<u8>> {
        self.with_shared(SharedBytes::first)
    }

    fn with_shared<T>(&self, access: impl FnOnce(&SharedBytes) -> T) -> Option<T> {
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        bytes.as_ref().map(access)
    }

    /// Calls `access` with the byte at `at`, which `length` bytes begin with, if they are there and
    /// lent. No other thread uses them meanwhile, if the loan is exclusive.
    fn with_exclusive(&self, at: u64, length: usize, access: impl FnOnce(NonNull<u8>)) -> bool {
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        let first = bytes.as_mut().and_then(|bytes| bytes.at(at, length));
        first.map(access).is_some()
    }
}

impl Memory for LentBytes {
    fn len(&self) -> u64 {
        self.length as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        if !self.exclusive {
            return self.with_shared(|bytes| bytes.read(at, into)) == Some(true);
        }
        let length = into.len();
        let into = NonNull::from(into).cast();
        // SAFETY: `from` has `length` initialised bytes, which nobody else uses while the lock is
        // held: the lender withdraws them first. `into` is an exclusive borrow of as many.
        let copy = |from: NonNull<u8>| unsafe { from.copy_to_nonoverlapping(into, length) };
        self.with_exclusive(at, length, copy)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> bool {
        if !self.exclusive {
            return self.with_shared(|memory| memory.write(at, bytes)) == Some(true);
        }
        let from = NonNull::from(bytes).cast();
        // SAFETY: as in `read`, with the copy in the other direction.
        let copy = |to: NonNull<u8>| unsafe { to.copy_from_nonoverlapping(from, bytes.len()) };
        self.with_exclusive(at, bytes.len(), copy)
    }

    fn atomic(&self, at: u64, width: Width, op: AtomicOp) -> Option<u64> {
        self.with_shared(|bytes| bytes.atomic(at, width, op))?
    }
}

/// The place of a message in lent bytes, which have room for it.
pub(crate) struct LentPlace(pub(crate) Arc<LentBytes>);

impl LentMemory for LentPlace {
    fn length(&self) -> usize {
        self.0.length
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        Memory::write(&*self.0, at as u64, bytes);
    }

    fn read(&self, at: usize, bytes: &mut [u8]) {
        Memory::read(&*self.0, at as u64, bytes);
    }
}

/// The buffer of a call, which is lent until this is dropped.
pub(crate) struct Loan<'a> {
    first: NonNull<u8>,
    length: usize,
    /// The loan that goes on.
    lent: Option<Arc<LentBytes>>,
    buffer: PhantomData<&'a mut [u8]>,
}

impl<'a> Loan<'a> {
    /// Prepares to lend `buffer`.
    pub(crate) fn new(buffer: &'a mut [u8]) -> Self {
        Self {
            length: buffer.len(),
            first: NonNull::from(buffer).cast(),
            lent: None,
            buffer: PhantomData,
        }
    }

    /// Bytes of the buffer.
    pub(crate) const fn len(&self) -> usize {
        self.length
    }

    /// Lends the buffer, unless it is lent.
    pub(crate) fn lend(&mut self) -> Arc<LentBytes> {
        let lent = self.lent.get_or_insert_with(|| {
            // SAFETY: the bytes are those of an exclusive borrow that lasts longer than this value,
            // whose end withdraws them; and the call does not use them meanwhile.
            LentBytes::exclusive(unsafe { SharedBytes::new(self.first, self.length) })
        });
        Arc::clone(lent)
    }

    /// Withdraws the buffer for ever, and returns it.
    pub(crate) fn end(mut self) -> &'a mut [u8] {
        self.take_back();
        let this = ManuallyDrop::new(self);
        // SAFETY: as in `take_back`. This value, which could lend the bytes again, is not used or
        // dropped after this, so that nothing else refers to them.
        unsafe { std::slice::from_raw_parts_mut(this.first.as_ptr(), this.length) }
    }

    /// Withdraws the buffer and returns it.
    pub(crate) fn take_back(&mut self) -> &mut [u8] {
        if let Some(lent) = self.lent.take() {
            lent.withdraw();
        }
        // SAFETY: this value was made from an exclusive borrow of these bytes, which lasts as long
        // as its lifetime; and since they were withdrawn, nobody else uses them until `lend`, which
        // needs this value again.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.length) }
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.take_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_is_lent_no_more_is_not_touched() {
        let mut bytes = [0; 4];
        let mut loan = Loan::new(&mut bytes);
        let memory = loan.lend();
        assert!(memory.write(1, &[5, 6]));
        let mut read = [0; 3];
        assert!(memory.read(0, &mut read) && !memory.read(2, &mut read));
        assert_eq!(read, [0, 5, 6]);
        assert!(!memory.write(3, &[7, 8]) && !memory.write(u64::MAX, &[7]));
        assert_eq!(loan.take_back(), [0, 5, 6, 0]);
        assert!(!memory.write(0, &[9]) && !memory.read(0, &mut read));
        let again = loan.lend();
        assert!(again.write(3, &[8]) && !memory.write(0, &[9]));
        drop(loan);
        assert!(!again.write(0, &[9]));
        assert_eq!(bytes, [0, 5, 6, 8]);
    }

    /// The end of a loan waits until an access that is going on has ended.
    #[test]
    fn a_loan_ends_while_others_use_the_memory() {
        let mut bytes = vec![0; 1 << 16];
        let ones = vec![1; bytes.len()];
        for _ in 0..50 {
            let mut loan = Loan::new(&mut bytes);
            let memory = loan.lend();
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| while memory.write(0, &ones) {});
                std::thread::yield_now();
                loan.take_back().fill(2);
                writer.join().unwrap();
            });
            drop(loan);
            assert!(bytes.iter().all(|byte| *byte == 2));
        }
    }
}
