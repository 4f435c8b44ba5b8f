//! A word in memory by which the kernel says that a process has ended.

use super::segment::{FIXED_LENGTH, has_fixed_length};
use crate::huge_pages::Mapping;
use crate::sys::local;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Bytes of the file, which has the word at its beginning.
const BYTES: usize = 4_096;

/// The file with the word of another process, or of this one.
#[derive(Debug)]
pub(super) struct EndMark(Mapping);

impl EndMark {
    /// Maps the file of another process.
    pub(super) fn open(file: &OwnedFd) -> io::Result<Self> {
        if !has_fixed_length(file, BYTES)? {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Self::map(file, false)
    }

    fn map(file: &OwnedFd, writable: bool) -> io::Result<Self> {
        // SAFETY: both callers know that the file has this size, and is sealed against another.
        unsafe { Mapping::of_file(file.as_fd(), BYTES, writable, None) }.map(Self)
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the mapping begins with this word, at a multiple of its size. It is used
        // atomically alone, and stays mapped as long as this value.
        unsafe { self.0.first().cast::<AtomicU32>().as_ref() }
    }

    /// Whether the process has ended, or shares memory no more. That is so before its parent, or
    /// anybody else, can know it.
    pub(super) fn is_set(&self) -> bool {
        self.word().load(Ordering::Acquire) & libc::FUTEX_OWNER_DIED != 0
    }
}

/// The mark of this process: that of one of its threads, which runs as long as others may use the
/// process's memory.
///
/// For the kernel the word is a robust futex: a lock whose owner is a thread. When the thread ends,
/// however that comes, the kernel sets a bit in the word
/// (Documentation/locking/robust-futex-ABI.rst).
#[derive(Debug)]
pub(super) struct OwnEndMark {
    mark: EndMark,
    pub(super) file: OwnedFd,
    /// The kernel's `robust_list_head` (the first entry, the distance from an entry to its word, an
    /// entry that is being added), and the only entry: the address of the head.
    list: Box<[AtomicUsize; 4]>,
}

/// Bytes of the kernel's `robust_list_head`.
const HEAD: usize = 3 * size_of::<usize>();

impl OwnEndMark {
    pub(super) fn new() -> io::Result<Self> {
        let file = local::memory_file(BYTES as u64)?;
        local::seal(&file, FIXED_LENGTH)?;
        let mark = EndMark::map(&file, true)?;
        // Others only read the word.
        local::seal(&file, libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL)?;
        let list: Box<[AtomicUsize; 4]> = Box::default();
        let [first, distance, _, entry] = &*list;
        let address = |at: &AtomicUsize| std::ptr::from_ref(at).expose_provenance();
        first.store(address(entry), Ordering::Relaxed);
        entry.store(address(first), Ordering::Relaxed);
        let word = std::ptr::from_ref(mark.word()).expose_provenance();
        distance.store(word.wrapping_sub(address(entry)), Ordering::Relaxed);
        Ok(Self { mark, file, list })
    }

    /// Makes the mark that of the calling thread, which must use no robust mutexes of the C
    /// library.
    ///
    /// # Safety
    /// This value exists until the thread has ended.
    pub(super) unsafe fn begin(&self) -> io::Result<()> {
        // SAFETY: the kernel reads the list, and changes the word, when the thread ends: the caller
        // keeps both until then. The list that the C library registered is empty: the caller's
        // promise.
        let done = unsafe { libc::syscall(libc::SYS_set_robust_list, self.list.as_ptr(), HEAD) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: asks for a number, and cannot fail.
        let thread = unsafe { libc::gettid() };
        self.mark
            .word()
            .store(thread.cast_unsigned(), Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn the_kernel_marks_the_end_of_the_thread() {
        let own = OwnEndMark::new().unwrap();
        let other = EndMark::open(&own.file).unwrap();
        assert!(!other.is_set());
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: `own` outlives the scope, which waits for the thread.
                unsafe { own.begin() }.unwrap();
                assert!(!other.is_set());
            });
            thread.join().unwrap();
            assert!(other.is_set());
        });
    }
}
