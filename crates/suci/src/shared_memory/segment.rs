//! Memory that processes have in common: a file in memory, mapped by each of them.

use crate::huge_pages::Mapping;
use crate::shared_bytes::SharedBytes;
use crate::sys::local;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use suci_layers::remote::{AtomicOp, Memory, Width};

/// Bytes of a cache line, of which the mark behind the program's bytes has one of its own.
const LINE: usize = 64;

/// The address of a process's first segment, if nothing is there. So the memory of all processes
/// that allocate one, as those of OpenSHMEM, lies at the same address.
const ADDRESS: usize = 0x5000_0000_0000;

/// The file cannot become shorter, which would end the processes that use it; nor longer.
pub(super) const FIXED_LENGTH: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// The kinds of use that other processes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Change,
}

/// A mapping of a file in memory: the program's bytes, and behind them a word that is 1 once their
/// owner withdrew them.
#[derive(Debug)]
pub(crate) struct Segment {
    mapping: Mapping,
    bytes: SharedBytes,
    /// This process may change the bytes.
    writable: bool,
}

/// Returns the offset of the word, and the bytes of the file.
fn sizes(length: usize) -> Option<(usize, usize)> {
    let word = length.checked_next_multiple_of(LINE)?;
    Some((word, word.checked_add(LINE)?))
}

/// Whether a file of another process has this many bytes, for ever. Fails for one that is not in
/// memory.
pub(super) fn has_fixed_length(file: &OwnedFd, size: usize) -> io::Result<bool> {
    let is_fixed = local::seals(file)? & FIXED_LENGTH == FIXED_LENGTH;
    Ok(is_fixed && local::file_length(file)? == size as u64)
}

impl Segment {
    /// Allocates `length` zero bytes for this process and others, on huge pages if that is wanted
    /// and the system has some. Pages that are never touched take no memory, unless they are huge.
    pub(crate) fn create(length: usize, others: Use, huge: bool) -> io::Result<(Self, OwnedFd)> {
        let (_, size) = sizes(length).ok_or(io::ErrorKind::OutOfMemory)?;
        let file = local::memory_file(size as u64)?;
        local::seal(&file, FIXED_LENGTH)?;
        let segment = Self::map(file.as_fd(), length, true, Some(ADDRESS))?;
        // This process keeps the mapping that it has.
        let writes = match others {
            Use::Read => libc::F_SEAL_FUTURE_WRITE,
            Use::Change => 0,
        };
        local::seal(&file, writes | libc::F_SEAL_SEAL)?;
        if huge {
            segment.mapping.take_huge_pages(size);
        }
        Ok((segment, file))
    }

    /// Maps the `length` bytes of a segment that another process allocated.
    pub(crate) fn open(file: &OwnedFd, length: u64, wanted: Use) -> io::Result<Self> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let length = usize::try_from(length).map_err(|_| invalid())?;
        let (_, size) = sizes(length).ok_or_else(invalid)?;
        // Whatever the other process does, the mapping stays usable.
        if !has_fixed_length(file, size)? {
            return Err(invalid());
        }
        Self::map(file.as_fd(), length, wanted == Use::Change, None)
    }

    fn map(
        file: BorrowedFd<'_>,
        length: usize,
        writable: bool,
        at: Option<usize>,
    ) -> io::Result<Self> {
        let (_, size) = sizes(length).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: both callers know that the file has this size, and is sealed against another.
        let mapping = unsafe { Mapping::of_file(file, size, writable, at) }?;
        // SAFETY: the mapping has these bytes, which are initialised, until this value is dropped.
        // Others use them by atomic operations, or as documented at `Region::as_ptr`. If this
        // process must not write them, `Memory::write` and `Memory::atomic` refuse to.
        let bytes = unsafe { SharedBytes::new(mapping.first(), length) };
        Ok(Self {
            mapping,
            bytes,
            writable,
        })
    }

    /// The first byte.
    pub(crate) const fn first(&self) -> NonNull<u8> {
        self.bytes.first()
    }

    fn withdrawn(&self) -> &AtomicU64 {
        let at = sizes(self.bytes.len()).map_or(0, |(word, _)| word);
        // SAFETY: `map` mapped a line behind the bytes, at a multiple of its size, for this word,
        // which is used atomically alone. It cannot fail, since it did not in `map`.
        unsafe { self.mapping.first().add(at).cast::<AtomicU64>().as_ref() }
    }

    /// Tells the other processes that the bytes mean nothing any more.
    pub(crate) fn withdraw(&self) {
        self.withdrawn().store(1, Ordering::Release);
    }

    /// Whether the owner withdrew the bytes.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.withdrawn().load(Ordering::Acquire) != 0
    }
}

impl Memory for Segment {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        self.bytes.read(at, into)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> bool {
        self.writable && self.bytes.write(at, bytes)
    }

    fn atomic(&self, at: u64, width: Width, op: AtomicOp) -> Option<u64> {
        self.writable.then(|| self.bytes.atomic(at, width, op))?
    }
}
