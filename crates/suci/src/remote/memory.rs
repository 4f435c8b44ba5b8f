//! Memory that the library allocates for regions.

use crate::huge_pages::Mapping;
use crate::shared_bytes::SharedBytes;
use std::alloc::{self, Layout};
use std::ptr::NonNull;
use suci_layers::remote::{AtomicOp, Memory, Width};

/// The address of allocated memory is a multiple of this: integers of all widths are aligned.
const ALIGNMENT: usize = 16;

/// Zero bytes, which are freed when this is dropped.
#[derive(Debug)]
pub(super) struct Allocated {
    bytes: SharedBytes,
    /// The mapping that has them; if there is none, they are from the allocator.
    mapping: Option<Mapping>,
}

impl Allocated {
    /// Returns `length` zero bytes; nothing if there is no memory for them.
    pub(super) fn new(length: usize) -> Option<Self> {
        let first = match layout(length)? {
            empty if empty.size() == 0 => NonNull::<u128>::dangling().cast(),
            // SAFETY: the size is not 0.
            layout => NonNull::new(unsafe { alloc::alloc_zeroed(layout) })?,
        };
        // SAFETY: so many bytes were allocated and are zero. They are freed when this is dropped,
        // and others use them only as documented at `Region::as_ptr`.
        let bytes = unsafe { SharedBytes::new(first, length) };
        let mapping = None;
        Some(Self { bytes, mapping })
    }

    /// Returns `length` zero bytes, on huge pages if the system has some; nothing if there is no
    /// memory for them.
    pub(super) fn on_huge_pages(length: usize) -> Option<Self> {
        let mapping = Mapping::on_huge_pages(length).ok()?;
        // SAFETY: the mapping has so many bytes, which are zero; else as in `new`.
        let bytes = unsafe { SharedBytes::new(mapping.first(), length) };
        let mapping = Some(mapping);
        Some(Self { bytes, mapping })
    }

    /// The first byte.
    pub(super) const fn first(&self) -> NonNull<u8> {
        self.bytes.first()
    }
}

fn layout(length: usize) -> Option<Layout> {
    Layout::from_size_align(length, ALIGNMENT).ok()
}

impl Drop for Allocated {
    fn drop(&mut self) {
        let layout = layout(self.bytes.len()).filter(|layout| layout.size() > 0);
        if let (None, Some(layout)) = (&self.mapping, layout) {
            // SAFETY: `new` allocated the bytes with this layout; nobody uses them any more.
            unsafe { alloc::dealloc(self.first().as_ptr(), layout) };
        }
    }
}

impl Memory for Allocated {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        self.bytes.read(at, into)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> bool {
        self.bytes.write(at, bytes)
    }

    fn atomic(&self, at: u64, width: Width, op: AtomicOp) -> Option<u64> {
        self.bytes.atomic(at, width, op)
    }
}
