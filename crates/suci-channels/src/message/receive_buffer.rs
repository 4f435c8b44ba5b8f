//! Memory of the program into which an announced message is put.

use super::Brief;
use core::fmt;

/// The program's memory for an announced message: a `Vec<u8>`, or any other that it owns, as a
/// mapped file or memory shared with a device.
///
/// The message's payload is this memory, not a copy. It is dropped when the program has dropped the
/// payload, or when the session ends before the message is complete.
///
/// ```
/// use suci_channels::message::ReceiveBuffer;
/// let heap = ReceiveBuffer::from(vec![0; 8]);
/// let other = ReceiveBuffer::from_owner([0_u8; 8]);
/// assert_eq!(heap.len(), other.len());
/// ```
pub struct ReceiveBuffer(Holder);

enum Holder {
    Heap(Vec<u8>),
    Owned(Box<dyn Owner>),
    Lent(Box<dyn LentMemory>),
}

/// Memory that stays its owner's while a message is put there. Others may read and change it
/// meanwhile, and its owner may withdraw it.
pub trait LentMemory: Send + Sync {
    /// Its length in bytes.
    fn length(&self) -> usize;

    /// Copies `bytes` to `at`. Does nothing once the memory is withdrawn. The caller keeps within
    /// [`length`](Self::length).
    fn write(&mut self, at: usize, bytes: &[u8]);

    /// Copies the bytes from `at` on to `bytes`. Does nothing once the memory is withdrawn.
    fn read(&self, at: usize, bytes: &mut [u8]);
}

/// An owner of writable bytes.
trait Owner: AsRef<[u8]> + AsMut<[u8]> + Send + Sync {}

impl<T: AsRef<[u8]> + AsMut<[u8]> + Send + Sync> Owner for T {}

impl ReceiveBuffer {
    /// The memory of `owner`, which must give the same bytes each time. Where it gives fewer later,
    /// the bytes that find no room are lost, and the message is zero there.
    #[must_use]
    pub fn from_owner(owner: impl AsRef<[u8]> + AsMut<[u8]> + Send + Sync + 'static) -> Self {
        Self(Holder::Owned(Box::new(owner)))
    }

    /// Memory that its owner only lends. The message's payload is
    /// [placed](crate::message::Data::placed) there: it has no bytes of its own. The memory is
    /// dropped once the message is complete, or its session ends.
    #[must_use]
    pub fn lent(memory: impl LentMemory + 'static) -> Self {
        Self(Holder::Lent(Box::new(memory)))
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Holder::Lent(memory) => memory.length(),
            Holder::Heap(_) | Holder::Owned(_) => self.as_ref().len(),
        }
    }

    /// Returns true if it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if its owner only lends it.
    pub(super) fn is_lent(&self) -> bool {
        matches!(self.0, Holder::Lent(_))
    }

    /// Copies `bytes` to `at`. Returns false if it has no room for them.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) -> bool {
        let end = at.checked_add(bytes.len());
        match &mut self.0 {
            Holder::Lent(memory) => {
                let fits = end.is_some_and(|end| end <= memory.length());
                if fits {
                    memory.write(at, bytes);
                }
                fits
            }
            Holder::Heap(_) | Holder::Owned(_) => {
                let target = end.and_then(|end| self.as_mut().get_mut(at..end));
                target.map(|target| target.copy_from_slice(bytes)).is_some()
            }
        }
    }

    /// Copies the bytes from `at` on to `bytes`, as far as it has them.
    pub(super) fn read(&self, at: usize, bytes: &mut [u8]) {
        match &self.0 {
            Holder::Lent(memory) => memory.read(at, bytes),
            Holder::Heap(_) | Holder::Owned(_) => {
                let end = at.saturating_add(bytes.len());
                if let Some(from) = self.as_ref().get(at..end) {
                    bytes.copy_from_slice(from);
                }
            }
        }
    }

    /// Returns the vector, if it was made from one.
    pub(super) fn into_vec(self) -> Result<Vec<u8>, Self> {
        match self.0 {
            Holder::Heap(data) => Ok(data),
            other => Err(Self(other)),
        }
    }
}

impl From<Vec<u8>> for ReceiveBuffer {
    fn from(data: Vec<u8>) -> Self {
        Self(Holder::Heap(data))
    }
}

/// Lent memory shows no bytes.
impl AsRef<[u8]> for ReceiveBuffer {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Holder::Heap(data) => data,
            Holder::Owned(owner) => (**owner).as_ref(),
            Holder::Lent(_) => &[],
        }
    }
}

/// Lent memory shows no bytes.
impl AsMut<[u8]> for ReceiveBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Holder::Heap(data) => data,
            Holder::Owned(owner) => (**owner).as_mut(),
            Holder::Lent(_) => &mut [],
        }
    }
}

impl PartialEq for ReceiveBuffer {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl Eq for ReceiveBuffer {}

impl fmt::Debug for ReceiveBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Brief(self.as_ref()).fmt(f)
    }
}
