//! The rings that an AF_XDP socket shares with the kernel (`Documentation/networking/af_xdp.rst`):
//! one side puts entries in, the other takes them out.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Memory of this process that is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; who uses it sees to the order.
unsafe impl Send for Mapping {}

impl Mapping {
    /// New memory of zeros, shared with a child after a fork, so that the pages that the kernel
    /// holds stay those of this process.
    pub(super) fn memory(length: usize) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        Self::new(length, flags, -1, 0)
    }

    fn of_socket(fd: BorrowedFd<'_>, length: usize, offset: libc::off_t) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Self::new(length, flags, fd.as_raw_fd(), offset)
    }

    fn new(length: usize, flags: libc::c_int, fd: i32, offset: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place, so nothing that exists is touched.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, fd, offset) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// A pointer to `count` values of `T` that begin `offset` bytes behind the start. `None` if
    /// they do not lie inside, or not aligned.
    pub(super) fn at<T>(&self, offset: usize, count: usize) -> Option<NonNull<T>> {
        let end = offset.checked_add(count.checked_mul(size_of::<T>())?)?;
        // The start is aligned as a page is.
        if end > self.length || !offset.is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: the place lies inside the mapping, as was just checked.
        Some(unsafe { self.start.add(offset) }.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this mapping was made by mmap with this length, and nobody refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// One ring. Which side this process has decides whether it calls [`put`](Self::put) or
/// [`take`](Self::take).
#[derive(Debug)]
pub(super) struct Ring<T> {
    _mapping: Mapping,
    put: NonNull<AtomicU32>,
    taken: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    /// A power of two.
    size: u32,
    /// How many this side has put in or taken out.
    own: u32,
}

// SAFETY: as `Mapping`, to which all pointers lead.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps a ring of `size` entries, a power of two, that the socket has at the page offset `page`
    /// and whose parts lie as `places` says.
    pub(super) fn new(
        fd: BorrowedFd<'_>,
        page: libc::off_t,
        places: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        let count = size as usize;
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let length = place(places.desc).saturating_add(count * size_of::<T>());
        let mapping = Mapping::of_socket(fd, length, page)?;
        let word = |at: u64| mapping.at::<AtomicU32>(place(at), 1);
        let parts = (
            word(places.producer),
            word(places.consumer),
            word(places.flags),
            mapping.at::<T>(place(places.desc), count),
        );
        let (Some(put), Some(taken), Some(flags), Some(entries)) = parts else {
            return Err(io::Error::other(
                "the kernel's rings lie outside its mapping",
            ));
        };
        Ok(Self {
            _mapping: mapping,
            put,
            taken,
            flags,
            entries,
            size,
            own: 0,
        })
    }

    fn word(&self, at: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: the pointers to words lead into the mapping, which lives as long as this, and
        // the kernel changes them by atomic accesses only.
        unsafe { at.as_ref() }
    }

    fn entry(&self, number: u32) -> NonNull<T> {
        // SAFETY: the index is less than the size, and there are so many entries.
        unsafe { self.entries.add((number & (self.size - 1)) as usize) }
    }

    /// Puts an entry in, if there is room; the kernel sees it after [`publish`](Self::publish).
    pub(super) fn put(&mut self, entry: T) -> bool {
        // Acquire: the kernel has read the place that is written now.
        let taken = self.word(self.taken).load(Ordering::Acquire);
        if self.own.wrapping_sub(taken) >= self.size {
            return false;
        }
        // SAFETY: the place lies inside, and the kernel does not read it before `publish`.
        unsafe { self.entry(self.own).write(entry) };
        self.own = self.own.wrapping_add(1);
        true
    }

    /// Hands over what was put in.
    pub(super) fn publish(&mut self) {
        // Release: the kernel sees the entries before their number.
        self.word(self.put).store(self.own, Ordering::Release);
    }

    /// Whether the kernel has not taken all that was handed over.
    pub(super) fn is_pending(&self) -> bool {
        self.word(self.taken).load(Ordering::Acquire) != self.own
    }

    /// Whether the kernel waits for a call before it looks at the ring.
    pub(super) fn wants_call(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Takes an entry out; its place is the kernel's again.
    pub(super) fn take(&mut self) -> Option<T> {
        // Acquire: the kernel has written the entry before its number.
        if self.word(self.put).load(Ordering::Acquire) == self.own {
            return None;
        }
        // SAFETY: the place lies inside, and the kernel has filled it and does not write there
        // before it is given back.
        let entry = unsafe { self.entry(self.own).read() };
        self.own = self.own.wrapping_add(1);
        // Release: the entry was read before its place is given back.
        self.word(self.taken).store(self.own, Ordering::Release);
        Some(entry)
    }
}
