//! Memory of a node that others read and change.

use super::memory::Allocated;
use super::{AtomicOp, RemoteRegion, Rights, Width};
use crate::error::Error;
use crate::fork::OriginalProcess;
use crate::huge_pages::bytes_on_huge_pages;
use crate::lent::LentBytes;
use crate::opened::Fixed;
use crate::shared_bytes::SharedBytes;
use crate::shared_memory::{Offer, Offers, Segment, Use};
use crate::sys;
use std::ptr::NonNull;
use std::sync::Arc;
use suci_layers::remote::{Memory, Regions, TooManyRegions};

/// Memory of this node that others read and change. The library allocates it, and it begins with
/// zeros; or the program lends it.
///
/// Others name it by its [handle](Region::handle), which the program sends them. Their operations
/// need no call of this program: they are applied by each call that uses the node and, if the
/// program makes none for 100 ms, by the helper thread; at a [`SharedNode`](crate::SharedNode), by
/// the thread that serves the peer, at once. Dropping the region withdraws it. It waits
/// microseconds, until an access that goes on has ended; then no operation touches the memory any
/// more.
///
/// ```
/// # use suci::{Node, NodeId};
/// use suci::remote::Rights;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut node = Node::builder().id(NodeId(0)).open()?;
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
    memory: Bytes,
    regions: Regions,
    handle: RemoteRegion,
    /// The regions that others may map, if this is one of them.
    offers: Option<Arc<Offers>>,
    process: OriginalProcess,
}

/// The bytes of a region.
#[derive(Debug)]
enum Bytes {
    Allocated(Arc<Allocated>),
    /// Other processes may map them.
    Shared(Arc<Segment>),
    /// The program lends them.
    Lent(Arc<LentBytes>),
}

impl Bytes {
    fn share(&self) -> Arc<dyn Memory> {
        match self {
            Self::Allocated(memory) => Arc::clone(memory) as Arc<dyn Memory>,
            Self::Shared(memory) => Arc::clone(memory) as Arc<dyn Memory>,
            Self::Lent(memory) => Arc::clone(memory) as Arc<dyn Memory>,
        }
    }

    fn memory(&self) -> &dyn Memory {
        match self {
            Self::Allocated(memory) => &**memory,
            Self::Shared(memory) => &**memory,
            Self::Lent(memory) => &**memory,
        }
    }
}

impl Region {
    /// Allocates `length` bytes.
    pub(crate) fn allocate(
        fixed: &Fixed,
        length: usize,
        rights: Rights,
    ) -> Result<Self, RegionError> {
        if let Some(shared) = Self::allocate_shared(fixed, length, rights, false) {
            return shared;
        }
        let memory = Allocated::new(length).ok_or(RegionError::TooLarge { bytes: length })?;
        Self::register(fixed, Bytes::Allocated(Arc::new(memory)), rights)
    }

    /// Allocates `length` bytes on huge pages, as far as there are any.
    pub(crate) fn allocate_on_huge_pages(
        fixed: &Fixed,
        length: usize,
        rights: Rights,
    ) -> Result<Self, RegionError> {
        if let Some(shared) = Self::allocate_shared(fixed, length, rights, true) {
            return shared;
        }
        let memory = Allocated::on_huge_pages(length);
        let memory = memory.ok_or(RegionError::TooLarge { bytes: length })?;
        Self::register(fixed, Bytes::Allocated(Arc::new(memory)), rights)
    }

    /// Allocates bytes that other processes may map, if the node shares memory and the system has
    /// what that takes.
    fn allocate_shared(
        fixed: &Fixed,
        length: usize,
        rights: Rights,
        huge: bool,
    ) -> Option<Result<Self, RegionError>> {
        let offers = &fixed.shared_memory.as_ref()?.offers;
        if !offers.has_room() {
            return None;
        }
        let changes = rights.contains(Rights::WRITE) || rights.contains(Rights::ATOMIC);
        let others = if changes { Use::Change } else { Use::Read };
        let (segment, file) = Segment::create(length, others, huge).ok()?;
        let segment = Arc::new(segment);
        let registered = Self::register(fixed, Bytes::Shared(Arc::clone(&segment)), rights);
        Some(registered.map(|mut region| {
            let key = region.handle.key;
            let offer = Offer {
                key,
                rights,
                segment,
                file,
            };
            offers.add(region.handle.region, offer);
            region.offers = Some(Arc::clone(offers));
            region
        }))
    }

    /// Opens memory of the program.
    ///
    /// # Safety
    /// As for [`Node::lend_region`](crate::Node::lend_region).
    pub(crate) unsafe fn lend(
        fixed: &Fixed,
        first: NonNull<u8>,
        length: usize,
        rights: Rights,
    ) -> Result<Self, RegionError> {
        // SAFETY: the caller keeps the memory, and uses it only as it may beside others, until the
        // region is dropped, which withdraws it.
        let bytes = unsafe { SharedBytes::new(first, length) };
        Self::register(fixed, Bytes::Lent(LentBytes::shared(bytes)), rights)
    }

    fn register(fixed: &Fixed, memory: Bytes, rights: Rights) -> Result<Self, RegionError> {
        let Fixed {
            id: node,
            regions,
            process,
            ..
        } = fixed;
        let key = sys::random().map_err(Error::io("asking the system for random bytes"))?;
        let key = u64::from_le_bytes(key);
        let region = regions.register(memory.share(), rights, key)?;
        Ok(Self {
            memory,
            regions: regions.clone(),
            handle: RemoteRegion {
                node: *node,
                region,
                key,
            },
            offers: None,
            process: *process,
        })
    }

    /// The memory, for operations of this node.
    pub(super) fn memory(&self) -> Arc<dyn Memory> {
        self.memory.share()
    }

    /// The address of the first byte, as long as the region exists; a multiple of 16, unless the
    /// program lent the memory. Others may change the bytes at any time: use it for atomic
    /// operations, or while no operation of others on the same bytes goes on.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        let first = match &self.memory {
            Bytes::Allocated(memory) => Some(memory.first()),
            Bytes::Shared(memory) => Some(memory.first()),
            Bytes::Lent(memory) => memory.first(),
        };
        first.map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    /// Bytes that lie on huge pages now. Reads a list of the system that has all mappings of the
    /// process, which may take milliseconds. 0 if the system does not tell.
    #[must_use]
    pub fn bytes_on_huge_pages(&self) -> u64 {
        let first = NonNull::new(self.as_ptr());
        first.map_or(0, |first| bytes_on_huge_pages(first, self.len()))
    }

    /// Whether processes of this user on this machine may map the region
    /// ([`NodeBuilder::shared_memory`](crate::NodeBuilder::shared_memory)).
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.offers.is_some()
    }

    /// Names the region to other nodes. Whoever has it can use the region, within its rights.
    #[must_use]
    pub fn handle(&self) -> RemoteRegion {
        self.handle
    }

    /// Bytes of the region.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.memory.memory().len()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.memory().is_empty()
    }

    /// Copies the bytes from `offset` on to `into`. Words of 8 bytes at multiples of 8 are read
    /// whole; others may change them between one word and the next.
    ///
    /// # Errors
    /// [`OutOfRegion`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), OutOfRegion> {
        let length = into.len() as u64;
        self.check(self.memory.memory().read(offset, into), offset, length)
    }

    /// Copies `bytes` to `offset`. Words of 8 bytes at multiples of 8 are written whole.
    ///
    /// # Errors
    /// [`OutOfRegion`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), OutOfRegion> {
        self.check(
            self.memory.memory().write(offset, bytes),
            offset,
            bytes.len() as u64,
        )
    }

    /// Applies an atomic operation to the integer at `offset`, a multiple of its width. Returns the
    /// integer before. It is atomic beside those of other nodes.
    ///
    /// # Errors
    /// [`OutOfRegion`].
    pub fn atomic(&self, offset: u64, width: Width, op: AtomicOp) -> Result<u64, OutOfRegion> {
        let before = self.memory.memory().atomic(offset, width, op);
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
        if self.process.is_forked() {
            return;
        }
        if let Some(offers) = &self.offers {
            offers.withdraw(self.handle.region);
        }
        self.regions.withdraw(self.handle.region);
        // Operations that this node began may use it, too.
        if let Bytes::Lent(memory) = &self.memory {
            memory.withdraw();
        }
    }
}

/// Why there is no region.
#[derive(thiserror::Error)]
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
