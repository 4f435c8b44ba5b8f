//! Memory on huge pages: fewer entries of the processor's translation buffer cover it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// Bytes of a huge page on most machines. Where they are larger, the kernel uses none of those.
const HUGE_PAGE: usize = 2 << 20;

/// Names in the kernel's list of mappings for huge pages of one process, and of several.
const HUGE: [&str; 2] = ["AnonHugePages:", "ShmemPmdMapped:"];

/// Memory of its own mapping.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// The whole mapping, and its bytes.
    whole: NonNull<u8>,
    size: usize,
    /// The first byte that is used: a multiple of [`HUGE_PAGE`].
    first: NonNull<u8>,
}

// SAFETY: the mapping belongs to this value alone, and may be used and removed by any thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives addresses only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `length` zero bytes and touches all of them, on huge pages if the system gives
    /// some.
    pub(crate) fn on_huge_pages(length: usize) -> io::Result<Self> {
        let used = length.max(1).checked_next_multiple_of(HUGE_PAGE);
        let used = used.ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Self::reserve(used, None, libc::PROT_READ | libc::PROT_WRITE)?;
        mapping.take_huge_pages(used);
        Ok(mapping)
    }

    /// Maps the first `length` bytes of a file, which all mappings of the file have in common: at
    /// the address `at`, if nothing is there.
    ///
    /// # Safety
    /// The file is that long, and is never made shorter.
    pub(crate) unsafe fn of_file(
        file: BorrowedFd<'_>,
        length: usize,
        writable: bool,
        at: Option<usize>,
    ) -> io::Result<Self> {
        let mapping = Self::reserve(length, at, libc::PROT_NONE)?;
        let rights = match writable {
            true => libc::PROT_READ | libc::PROT_WRITE,
            false => libc::PROT_READ,
        };
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let first = mapping.first.as_ptr().cast();
        // SAFETY: the mapping that is replaced has these bytes, and nobody else has it.
        let mapped = unsafe { libc::mmap(first, length, rights, flags, file.as_raw_fd(), 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(mapping)
    }

    /// Maps `length` bytes that begin at a multiple of [`HUGE_PAGE`]; at this address, if there is
    /// one and nothing is there.
    fn reserve(length: usize, at: Option<usize>, rights: libc::c_int) -> io::Result<Self> {
        let size = length.checked_add(HUGE_PAGE);
        let size = size.ok_or(io::ErrorKind::OutOfMemory)?;
        let map = |address, more| {
            let address = std::ptr::without_provenance_mut(address);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | more;
            // SAFETY: a fresh anonymous mapping; no existing memory is touched.
            let whole = unsafe { libc::mmap(address, size, rights, flags, -1, 0) };
            let whole = NonNull::new(whole.cast::<u8>());
            whole.filter(|whole| whole.as_ptr().cast() != libc::MAP_FAILED)
        };
        let whole = at.and_then(|address| map(address, libc::MAP_FIXED_NOREPLACE));
        let Some(whole) = whole.or_else(|| map(0, 0)) else {
            return Err(io::Error::last_os_error());
        };
        let skip = whole.addr().get().wrapping_neg() % HUGE_PAGE;
        // SAFETY: the mapping has one huge page more than the bytes that are used.
        let first = unsafe { whole.add(skip) };
        Ok(Self { whole, size, first })
    }

    /// Touches the first `length` bytes, which this process may write, and puts them on huge pages
    /// if the system gives some.
    pub(crate) fn take_huge_pages(&self, length: usize) {
        let first = self.first.as_ptr().cast();
        // No call changes what the bytes are. A kernel that knows one of them not, or that has no
        // huge page left, uses small pages. Memory that processes have in common gets huge pages
        // by the last one alone, on most systems.
        let (huge, all) = (libc::MADV_HUGEPAGE, libc::MADV_POPULATE_WRITE);
        for advice in [huge, all, libc::MADV_COLLAPSE] {
            // SAFETY: the bytes are in the mapping, which nobody else has.
            unsafe { libc::madvise(first, length, advice) };
        }
    }

    pub(crate) const fn first(&self) -> NonNull<u8> {
        self.first
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value made the mapping, and nobody uses it any more.
        unsafe { libc::munmap(self.whole.as_ptr().cast(), self.size) };
    }
}

/// Returns how many of the `length` bytes from `first` on lie on huge pages; 0 if the system does
/// not tell.
pub(crate) fn bytes_on_huge_pages(first: NonNull<u8>, length: u64) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let first = first.addr().get() as u64;
    huge_bytes_in(&maps, first, first.saturating_add(length)).min(length)
}

/// Sums what the kernel's list of mappings says of huge pages in those that have bytes between
/// `first` and `end`.
fn huge_bytes_in(maps: &str, first: u64, end: u64) -> u64 {
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    let (mut within, mut sum) = (false, 0_u64);
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (name, value) = (words.next().unwrap_or_default(), words.next());
        if let Some((from, to)) = name.split_once('-')
            && let (Some(from), Some(to)) = (hex(from), hex(to))
        {
            within = from < end && first < to;
        } else if within && HUGE.contains(&name) {
            let kib = value.and_then(|value| value.parse::<u64>().ok());
            sum = sum.saturating_add(kib.unwrap_or(0).saturating_mul(1024));
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_of_other_mappings_do_not_count() {
        let maps = "7f0000200000-7f0000600000 rw-p 00000000 00:00 0 \n\
                    Size:               4096 kB\n\
                    AnonHugePages:      2048 kB\n\
                    VmFlags: rd wr mr mw me ac sd hg\n\
                    7f0000600000-7f0000a00000 rw-s 00000000 00:01 9 /memfd:suci (deleted)\n\
                    AnonHugePages:         0 kB\n\
                    ShmemPmdMapped:     4096 kB\n";
        let sum = |first, end| huge_bytes_in(maps, first, end);
        assert_eq!(sum(0x7f00_0020_0000, 0x7f00_0060_0000), 2 << 20);
        assert_eq!(sum(0x7f00_0050_0000, 0x7f00_0070_0000), 6 << 20);
        assert_eq!(sum(0x7f00_00a0_0000, 0x7f00_00b0_0000), 0);
    }
}
