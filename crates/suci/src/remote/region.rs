//! Memory of a node that others read and change.

use super::memory::SharedWords;
use super::{AtomicOp, RemoteRegion, Rights, Width};
use crate::builder::Fixed;
use crate::error::Error;
use crate::fork::OriginalProcess;
use crate::sys;
use std::sync::Arc;
use suci_layers::remote::{Memory, Regions, TooManyRegions};

/// Memory of this node that others read and change. The library allocates it; it begins with zeros.
///
/// Others name it by its [handle](Region::handle), which the program sends them. Their operations
/// need no call of this program: they are applied by each call that uses the node and, if the
/// program makes none for 100 ms, by the helper thread; at a [`SharedNode`], by the thread that
/// serves the peer, at once. Dropping the region withdraws it: no operation touches the memory any
/// more.
///
/// ```
/// # use suci::{AddressBook, Node, NodeId};
/// use suci::remote::Rights;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut node = Node::builder().id(NodeId(0)).book(AddressBook::new()).open()?;
/// let counters = node.allocate_region(64, Rights::READ | Rights::WRITE | Rights::ATOMIC)?;
/// // Usually another node's program does this, which was sent the handle.
/// let handle = counters.handle();
/// let remote = node.remote();
/// remote.put(&handle, 8, &b"eight by"[..])?;
/// assert_eq!(remote.fetch_add(&handle, 0, 5)?, 0);
/// remote.quiet()?;
/// let mut bytes = [0; 8];
/// counters.read(8, &mut bytes)?;
/// assert_eq!(&bytes, b"eight by");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Region {
    pub(super) memory: Arc<SharedWords>,
    regions: Regions,
    handle: RemoteRegion,
    process: OriginalProcess,
}

impl Region {
    pub(crate) fn allocate(
        fixed: &Fixed,
        bytes: usize,
        rights: Rights,
    ) -> Result<Self, RegionError> {
        let Fixed {
            id: node,
            regions,
            process,
            ..
        } = fixed;
        let key = sys::random().map_err(Error::io("asking the system for random bytes"))?;
        let key = u64::from_le_bytes(key);
        let memory = SharedWords::new(bytes).ok_or(RegionError::TooLarge { bytes })?;
        let memory = Arc::new(memory);
        let region = regions.register(Arc::clone(&memory) as Arc<dyn Memory>, rights, key)?;
        Ok(Self {
            memory,
            regions: regions.clone(),
            handle: RemoteRegion {
                node: *node,
                region,
                key,
            },
            process: *process,
        })
    }

    /// Names the region to other nodes. Whoever has it can use the region, within its rights.
    #[must_use]
    pub fn handle(&self) -> RemoteRegion {
        self.handle
    }

    /// Bytes of the region.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.memory.len()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// Copies the bytes from `offset` on to `into`. Words of 8 bytes at multiples of 8 are read
    /// whole; others may change them between one word and the next.
    ///
    /// # Errors
    /// [`OutOfRegion`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), OutOfRegion> {
        let length = into.len() as u64;
        self.check(self.memory.read(offset, into), offset, length)
    }

    /// Copies `bytes` to `offset`. Words of 8 bytes at multiples of 8 are written whole.
    ///
    /// # Errors
    /// [`OutOfRegion`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), OutOfRegion> {
        self.check(self.memory.write(offset, bytes), offset, bytes.len() as u64)
    }

    /// Applies an atomic operation to the integer at `offset`, a multiple of its width. Returns the
    /// integer before. It is atomic beside those of other nodes.
    ///
    /// # Errors
    /// [`OutOfRegion`].
    pub fn atomic(&self, offset: u64, width: Width, op: AtomicOp) -> Result<u64, OutOfRegion> {
        let before = self.memory.atomic(offset, width, op);
        self.check(before.is_some(), offset, width.bytes())?;
        Ok(before.unwrap_or(0))
    }

    fn check(&self, done: bool, offset: u64, length: u64) -> Result<(), OutOfRegion> {
        match done {
            true => Ok(()),
            false => Err(OutOfRegion {
                offset,
                length,
                region: self.len(),
            }),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // In the child of a fork a thread may hold a lock for ever that does not exist there.
        if !self.process.is_forked() {
            self.regions.withdraw(self.handle.region);
        }
    }
}

/// Why there is no region.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The node's own call failed.
    #[error(transparent)]
    Node(#[from] Error),
    /// There is no memory for it.
    #[error("no memory for a region of {bytes} bytes: allocate less")]
    TooLarge {
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// The node has as many regions as it may.
    #[error(transparent)]
    TooMany(#[from] TooManyRegions),
}

/// The bytes are not in the region, or the integer is not aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{length} bytes at offset {offset} of a region of {region} bytes: stay within it; integers begin at multiples of their width"
)]
pub struct OutOfRegion {
    /// The offset.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
    /// Bytes of the region.
    pub region: u64,
}
