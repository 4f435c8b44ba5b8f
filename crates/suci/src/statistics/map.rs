//! The words of a file, in memory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// How often a signal may interrupt the allocation.
const TRIES: usize = 1_000;

/// Repeats a call that signals interrupt, each time from its beginning, since a tmpfs takes back
/// the memory that it had allocated (`shmem_fallocate`). If signals come faster than the call can
/// be done, trying would never end.
fn undisturbed(mut call: impl FnMut() -> libc::c_int) -> io::Result<()> {
    for _ in 0..TRIES {
        match call() {
            0 => return Ok(()),
            libc::EINTR => {}
            failed => return Err(io::Error::from_raw_os_error(failed)),
        }
    }
    let text = format!("allocating the file was interrupted by a signal {TRIES} times");
    Err(io::Error::new(io::ErrorKind::Interrupted, text))
}

/// A shared mapping of a file of this process: storing into it is all that publishing takes.
#[derive(Debug)]
pub(super) struct Map {
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: nothing else owns the mapping. It is reached through atomics only, and unmapped by `drop`
// alone, which no thread is tied to.
unsafe impl Send for Map {}

impl Map {
    /// Maps `file`, after making sure that it has `words` words of memory: with a hole in it,
    /// storing would end the process by SIGBUS on the day that the file system is full.
    pub(super) fn new(file: &File, words: usize) -> io::Result<Self> {
        let fd = file.as_raw_fd();
        let bytes = words * 8;
        let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: no pointers are involved.
        undisturbed(|| unsafe { libc::posix_fallocate(fd, 0, length) })?;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice; no existing memory is
        // touched.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let map = Self { base, words };
        // SAFETY: the mapping made above, of that length. The child of a fork will not have it: no
        // handle uses it there (F24), and its numbers are the parent's.
        if unsafe { libc::madvise(map.base.as_ptr().cast(), bytes, libc::MADV_DONTFORK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(map)
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `base` is page-aligned and begins a mapping of `words` words, which lives until
        // `self` is dropped; any bytes are valid words, and others who write them meet atomics
        // here.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }

    /// Stores a word; does nothing if it is beyond the end.
    pub(super) fn put(&self, index: usize, value: u64) {
        if let Some(word) = self.words().get(index) {
            word.store(value.to_le(), Ordering::Relaxed);
        }
    }

    /// Stores a word after everything before it.
    pub(super) fn put_last(&self, index: usize, value: u64) {
        if let Some(word) = self.words().get(index) {
            word.store(value.to_le(), Ordering::Release);
        }
    }

    /// Reads a word, and everything that its writer stored before it.
    pub(super) fn get(&self, index: usize) -> u64 {
        let word = self.words().get(index);
        word.map_or(0, |word| u64::from_le(word.load(Ordering::Acquire)))
    }

    /// Changes a record, whose generation is odd meanwhile and higher afterwards (a sequence lock:
    /// Boehm, "Can seqlocks get along with programming language memory models?", 2012, figure 6).
    pub(super) fn change(&self, generation: usize, change: impl FnOnce(&Self)) {
        let before = self.get(generation);
        self.put(generation, before.wrapping_add(1));
        fence(Ordering::Release);
        change(self);
        self.put_last(generation, before.wrapping_add(2));
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `new`, of that length; no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.words * 8) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocating_bears_some_signals_and_does_not_try_for_ever() {
        let mut left = 3;
        let twice = || {
            left -= 1;
            if left > 0 { libc::EINTR } else { 0 }
        };
        undisturbed(twice).unwrap();
        assert_eq!(left, 0);
        let mut calls = 0;
        let always = || {
            calls += 1;
            assert!(calls <= TRIES);
            libc::EINTR
        };
        let error = undisturbed(always).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        assert_eq!(calls, TRIES);
        let full = undisturbed(|| libc::ENOSPC).unwrap_err();
        assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
    }
}
