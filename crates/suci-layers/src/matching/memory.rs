//! The buffers of receives.

use crate::remote::Memory;
use core::fmt;
use std::sync::Arc;
use suci_proto::LentMemory;

/// The buffer of a receive: memory in one or several parts, which are filled in order.
#[derive(Clone)]
pub struct Buffer {
    parts: Arc<[Arc<dyn Memory>]>,
    length: u64,
    /// A receive of several messages gives the buffer back when fewer bytes than these are free.
    least: Option<u64>,
}

/// Why memory is no buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BufferError {
    /// The parts together are longer than memory can be.
    #[error("the parts of the buffer have more than 2^64 bytes in all: check their lengths")]
    TooLong,
    /// A buffer for several messages is given back at once.
    #[error(
        "a buffer of {length} bytes that is given back when fewer than {least} are free takes no message: \
         let `least` be 1 or more and at most the buffer's length"
    )]
    Least {
        /// Bytes of the buffer.
        length: u64,
        /// The limit.
        least: u64,
    },
}

impl Buffer {
    /// A buffer of these parts, for one message.
    ///
    /// # Errors
    /// [`BufferError::TooLong`].
    pub fn new(parts: impl IntoIterator<Item = Arc<dyn Memory>>) -> Result<Self, BufferError> {
        let parts: Arc<[Arc<dyn Memory>]> = parts.into_iter().collect();
        let lengths = parts.iter().map(|part| part.len());
        let length = lengths
            .into_iter()
            .try_fold(0_u64, u64::checked_add)
            .ok_or(BufferError::TooLong)?;
        let least = None;
        Ok(Self {
            parts,
            length,
            least,
        })
    }

    /// Takes several messages, one behind the other, until fewer than `least` bytes are free.
    ///
    /// # Errors
    /// [`BufferError::Least`] if `least` is 0, or more than the buffer has.
    pub fn for_several(mut self, least: u64) -> Result<Self, BufferError> {
        let length = self.length;
        if least == 0 || least > length {
            return Err(BufferError::Least { length, least });
        }
        self.least = Some(least);
        Ok(self)
    }

    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    pub(super) const fn least(&self) -> Option<u64> {
        self.least
    }

    /// Calls `each` with every part that bytes from `at` on lie in, the offset there, and the range
    /// of these bytes.
    fn split(
        &self,
        mut at: u64,
        length: usize,
        mut each: impl FnMut(&dyn Memory, u64, core::ops::Range<usize>),
    ) {
        let mut done = 0_usize;
        for part in &*self.parts {
            let room = part.len().saturating_sub(at);
            let left = length.saturating_sub(done);
            let count = usize::try_from(room).unwrap_or(usize::MAX).min(left);
            if count > 0 {
                let end = done.saturating_add(count);
                each(&**part, at, done..end);
                done = end;
            }
            at = at.saturating_sub(part.len());
        }
    }

    /// Copies bytes to `at`, as far as there is room. Memory that was withdrawn gets none.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) {
        self.split(at, bytes.len(), |part, at, range| {
            if let Some(bytes) = bytes.get(range) {
                part.write(at, bytes);
            }
        });
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        self.split(at, into.len(), |part, at, range| {
            if let Some(into) = into.get_mut(range) {
                part.read(at, into);
            }
        });
    }
}

impl From<Arc<dyn Memory>> for Buffer {
    fn from(part: Arc<dyn Memory>) -> Self {
        Self {
            length: part.len(),
            parts: Arc::new([part]),
            least: None,
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("parts", &self.parts.len())
            .field("length", &self.length)
            .field("least", &self.least)
            .finish()
    }
}

/// The place of one message in a buffer. What does not fit is discarded.
#[derive(Debug)]
pub(super) struct MessagePlace {
    pub(super) buffer: Buffer,
    /// Where the message begins.
    pub(super) offset: u64,
    /// Bytes of the buffer that it may use.
    pub(super) room: u64,
    /// Bytes of the message.
    pub(super) total: usize,
}

impl MessagePlace {
    /// Returns how many of `length` bytes from `at` on fit.
    fn fitting(&self, at: usize, length: usize) -> usize {
        let room = self.room.saturating_sub(at as u64);
        usize::try_from(room).unwrap_or(usize::MAX).min(length)
    }
}

impl LentMemory for MessagePlace {
    fn length(&self) -> usize {
        self.total
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        if let Some(bytes) = bytes.get(..self.fitting(at, bytes.len())) {
            let at = self.offset.saturating_add(at as u64);
            self.buffer.write(at, bytes);
        }
    }

    fn read(&self, at: usize, bytes: &mut [u8]) {
        let fitting = self.fitting(at, bytes.len());
        if let Some(bytes) = bytes.get_mut(..fitting) {
            self.buffer
                .read(self.offset.saturating_add(at as u64), bytes);
        }
    }
}
