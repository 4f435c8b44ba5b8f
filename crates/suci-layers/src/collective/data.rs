//! The data of an operation. The bytes of a long message go there as its packets come.

use core::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use suci_proto::LentMemory;

/// The data, as an operation and the messages on their way share it.
#[derive(Clone, Debug)]
pub(super) struct Data(Arc<Mutex<Vec<u8>>>);

impl Data {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(bytes)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        // A function of the program may have panicked. No operation ends well after that.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a message in the data of an operation.
#[derive(Debug)]
pub struct DataPlace {
    pub(super) data: Data,
    pub(super) range: Range<usize>,
}

impl DataPlace {
    /// Returns the part of the place that `length` bytes from offset `at` on take, if they fit.
    fn part(&self, at: usize, length: usize) -> Option<Range<usize>> {
        let start = self.range.start.checked_add(at)?;
        let end = start.checked_add(length)?;
        (end <= self.range.end).then_some(start..end)
    }
}

impl LentMemory for DataPlace {
    fn length(&self) -> usize {
        self.range.len()
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let part = self.part(at, bytes.len());
        let mut data = self.data.lock();
        // Once the program has the result, the data are gone.
        if let Some(into) = part.and_then(|part| data.get_mut(part)) {
            into.copy_from_slice(bytes);
        }
    }

    fn read(&self, at: usize, bytes: &mut [u8]) {
        let part = self.part(at, bytes.len());
        let data = self.data.lock();
        if let Some(from) = part.and_then(|part| data.get(part)) {
            bytes.copy_from_slice(from);
        }
    }
}
