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
/// use suci_proto::ReceiveBuffer;
/// let heap = ReceiveBuffer::from(vec![0; 8]);
/// let other = ReceiveBuffer::from_owner([0_u8; 8]);
/// assert_eq!(heap.len(), other.len());
/// ```
pub struct ReceiveBuffer(Holder);

enum Holder {
    Heap(Vec<u8>),
    Owned(Box<dyn Owner>),
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

    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_ref().len()
    }

    /// Returns true if it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_ref().is_empty()
    }

    /// Returns the vector, if it was made from one.
    pub(super) fn into_vec(self) -> Result<Vec<u8>, Self> {
        match self.0 {
            Holder::Heap(data) => Ok(data),
            owned @ Holder::Owned(_) => Err(Self(owned)),
        }
    }
}

impl From<Vec<u8>> for ReceiveBuffer {
    fn from(data: Vec<u8>) -> Self {
        Self(Holder::Heap(data))
    }
}

impl AsRef<[u8]> for ReceiveBuffer {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Holder::Heap(data) => data,
            Holder::Owned(owner) => (**owner).as_ref(),
        }
    }
}

impl AsMut<[u8]> for ReceiveBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Holder::Heap(data) => data,
            Holder::Owned(owner) => (**owner).as_mut(),
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
