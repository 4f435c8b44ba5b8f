//! Regions of other processes of this machine, as memory of this one.

use crate::shared_memory::Mapped;
use std::sync::Arc;
use suci_layers::remote::Memory;

/// A region of another process of this machine that this process has mapped:
/// [`Remote::map`](super::Remote::map).
///
/// The memory stays mapped as long as this value exists, also when the other process has ended or
/// withdrew the region; what is there means nothing then.
#[derive(Clone, Debug)]
pub struct MappedRegion(pub(super) Arc<Mapped>);

impl MappedRegion {
    /// The address of the first byte. Others may change the bytes at any time: use them by atomic
    /// operations, or ordered with the operations of others by signals, messages or barriers. If
    /// the region lets others only read, writing ends the process.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.segment.first().as_ptr()
    }

    /// Bytes of the region.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.segment.len()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.segment.is_empty()
    }
}
