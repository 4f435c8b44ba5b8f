//! Detects that the process is the child of a fork (F24).
//!
//! A child shares the parent's sockets: two processes answering for one node would ruin the sessions of
//! both. One page of memory that the kernel wipes in the child (`MADV_WIPEONFORK`, Linux 4.14) tells
//! them apart for the price of one load; asking for the process ID would be a system call, and
//! `pthread_atfork` handlers do not run for every way to fork.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the page holds in the process that wrote it.
const ORIGINAL: u32 = 0x5C_C1_00_01;

struct Page(&'static AtomicU32);

fn map() -> io::Result<Page> {
    // SAFETY: asks for a system constant.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let size = usize::try_from(size).map_err(|_| io::Error::last_os_error())?;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh anonymous mapping; no existing memory is touched.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), size, rights, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `page` is the mapping made above, of `size` bytes, and holds nothing yet.
    if unsafe { libc::madvise(page, size, libc::MADV_WIPEONFORK) } != 0 {
        let error = io::Error::last_os_error();
        // SAFETY: nobody knows of the mapping yet.
        unsafe { libc::munmap(page, size) };
        return Err(error);
    }
    // SAFETY: the mapping is page-aligned, zeroed (a valid `AtomicU32`), never unmapped, and only ever used
    // through this shared reference. The kernel wipes it only in a child, before that runs.
    let word = unsafe { &*page.cast::<AtomicU32>() };
    Ok(Page(word))
}

fn word(renew: bool) -> io::Result<&'static AtomicU32> {
    static PAGE: OnceLock<Page> = OnceLock::new();
    let word = match PAGE.get() {
        Some(page) => page.0,
        None => {
            let page = map()?;
            PAGE.get_or_init(|| page).0
        }
    };
    if renew {
        // A child that opens nodes of its own begins a new generation; its parent's nodes hold another.
        let _ = word.compare_exchange(0, next(), Ordering::Relaxed, Ordering::Relaxed);
    }
    Ok(word)
}

/// A value that no ancestor used.
fn next() -> u32 {
    ORIGINAL ^ std::process::id().rotate_left(8)
}

/// Tells whether this is still the process that made it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Birth {
    word: &'static AtomicU32,
    value: u32,
}

impl Birth {
    pub(crate) fn new() -> io::Result<Self> {
        let word = word(true)?;
        Ok(Self {
            word,
            value: word.load(Ordering::Relaxed),
        })
    }

    /// Whether a fork lies between then and now.
    pub(crate) fn is_forked(self) -> bool {
        self.word.load(Ordering::Relaxed) != self.value
    }
}
