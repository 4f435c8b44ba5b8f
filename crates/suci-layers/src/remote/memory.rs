//! Memory that a program lends to operations, and takes back at any time.

use super::layout::Layout;
use core::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// Bytes that operations may read and change. Its length never changes.
///
/// Offsets were checked before each call. An implementation checks them again: it may rest on
/// unsafe code, which must not depend on a check elsewhere.
pub trait Memory: Send + Sync {
    /// Returns the number of bytes.
    fn len(&self) -> u64;

    /// Returns true if there is no byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from offset `at` on to `into`. Returns false, and copies nothing, if they
    /// lie beyond the end.
    fn read(&self, at: u64, into: &mut [u8]) -> bool;

    /// Copies `bytes` to offset `at`. Returns false, and copies nothing, if they lie beyond the
    /// end.
    fn write(&self, at: u64, bytes: &[u8]) -> bool;

    /// Applies an atomic operation to the integer at offset `at`, in the byte order of the
    /// machine. It is atomic with respect to other calls of this method, with acquire and release
    /// order. Returns the integer before, or `None`, and changes nothing, if the integer lies
    /// beyond the end or its address is no multiple of its width.
    fn atomic(&self, at: u64, width: Width, op: AtomicOp) -> Option<u64>;
}

/// The size of the integer of an atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32 bits
    Bits32,
    /// 64 bits
    Bits64,
}

impl Width {
    /// Returns the number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Bits32 => 4,
            Self::Bits64 => 8,
        }
    }

    /// Returns the highest integer.
    #[must_use]
    pub const fn max(self) -> u64 {
        match self {
            Self::Bits32 => u32::MAX as u64,
            Self::Bits64 => u64::MAX,
        }
    }
}

/// An atomic operation with its operands. Of those, a 32-bit operation uses the lower half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Reads the integer.
    Fetch,
    /// Writes the operand.
    Set(u64),
    /// Adds the operand. The sum wraps around.
    Add(u64),
    /// Bitwise and.
    And(u64),
    /// Bitwise or.
    Or(u64),
    /// Bitwise exclusive or.
    Xor(u64),
    /// Writes the operand, as [`Set`](Self::Set); for callers that want the previous integer.
    Swap(u64),
    /// Writes `new` if the integer equals `expected`.
    CompareSwap {
        /// The integer that must be there.
        expected: u64,
        /// The integer to write.
        new: u64,
    },
}

impl AtomicOp {
    /// Returns the integer that the operation leaves where `before` was.
    #[must_use]
    pub const fn apply(self, before: u64, width: Width) -> u64 {
        let after = match self {
            Self::Fetch => before,
            Self::Set(operand) | Self::Swap(operand) => operand,
            Self::Add(operand) => before.wrapping_add(operand),
            Self::And(operand) => before & operand,
            Self::Or(operand) => before | operand,
            Self::Xor(operand) => before ^ operand,
            Self::CompareSwap { expected, new } => {
                if before == expected & width.max() {
                    new
                } else {
                    before
                }
            }
        };
        after & width.max()
    }
}

/// Memory that its owner lent to operations, until it withdraws it.
pub struct Lent {
    length: u64,
    memory: RwLock<Option<Arc<dyn Memory>>>,
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent")
            .field("length", &self.length)
            .field("withdrawn", &self.is_withdrawn())
            .finish()
    }
}

impl Lent {
    /// Lends `memory`.
    #[must_use]
    pub fn new(memory: Arc<dyn Memory>) -> Arc<Self> {
        Arc::new(Self {
            length: memory.len(),
            memory: RwLock::new(Some(memory)),
        })
    }

    /// Returns a loan of `length` bytes that ended: what is written there vanishes.
    fn withdrawn(length: u64) -> Arc<Self> {
        let memory = RwLock::new(None);
        Arc::new(Self { length, memory })
    }

    /// Returns the number of bytes.
    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    /// Ends the loan. When this returns, nothing touches the memory any more; an access that is
    /// going on in another thread ends first.
    pub fn withdraw(&self) {
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        *memory = None;
    }

    /// Returns true if the loan ended.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.with(|_| ()).is_none()
    }

    /// Calls `access` with the memory, unless it was withdrawn. Withdrawal waits until the call
    /// ends.
    pub(super) fn with<T>(&self, access: impl FnOnce(&dyn Memory) -> T) -> Option<T> {
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        memory.as_deref().map(access)
    }
}

/// The place in lent memory where the bytes of a message belong.
#[derive(Clone, Debug)]
pub struct Placement {
    lent: Arc<Lent>,
    layout: Layout,
    /// The position in the layout of the message's first byte.
    base: u64,
    length: u64,
}

impl Placement {
    /// Returns the place of `length` bytes that begin at position `base` of `layout`.
    pub(super) const fn new(lent: Arc<Lent>, layout: Layout, base: u64, length: u64) -> Self {
        Self {
            lent,
            layout,
            base,
            length,
        }
    }

    /// Returns a place for the bytes of a message that is not applied: they vanish.
    pub(super) fn nowhere(layout: Layout, length: u64) -> Self {
        Self::new(Lent::withdrawn(length), layout, 0, length)
    }

    /// Returns the number of bytes, which is the length of the message.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.length
    }

    /// Returns true if there is no byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Writes bytes of the message that begin at its position `at`, in any order and any number of
    /// times. Returns false if the memory was withdrawn, or if the message has no such bytes.
    pub fn write(&self, at: u64, bytes: &[u8]) -> bool {
        let fits = at
            .checked_add(bytes.len() as u64)
            .is_some_and(|end| end <= self.length);
        let Some(position) = self.base.checked_add(at).filter(|_| fits) else {
            return false;
        };
        let write = |memory: &dyn Memory| scatter(memory, &self.layout, position, bytes);
        self.lent.with(write) == Some(true)
    }
}

/// Writes `bytes` to the places that `layout` has from `position` on. Returns false if it has
/// fewer, or if one lies beyond the end of the memory.
pub(super) fn scatter(memory: &dyn Memory, layout: &Layout, position: u64, bytes: &[u8]) -> bool {
    let mut left = bytes;
    for extent in layout.walk(position, bytes.len() as u64) {
        let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
        let Some((now, later)) = left.split_at_checked(length) else {
            return false;
        };
        if !memory.write(extent.offset, now) {
            return false;
        }
        left = later;
    }
    left.is_empty()
}

/// Copies the bytes at the places of `layout` to `into`. Returns false if it has fewer, or if one
/// lies beyond the end of the memory.
pub(super) fn gather(memory: &dyn Memory, layout: &Layout, into: &mut [u8]) -> bool {
    let mut left = into;
    for extent in layout.walk(0, layout.total()) {
        let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
        let Some((now, later)) = left.split_at_mut_checked(length) else {
            return false;
        };
        if !memory.read(extent.offset, now) {
            return false;
        }
        left = later;
    }
    left.is_empty()
}
