//! Detects that the process is the child of a fork (F24).
//!
//! A child shares the parent's sockets: two processes answering for one node would ruin the sessions of
//! both. One page of memory that the kernel wipes in the child (`MADV_WIPEONFORK`, Linux 4.14) tells
//! them apart for the price of one load; asking for the process ID would be a system call, and
//! `pthread_atfork` handlers do not run for every way to fork.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

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

/// The page's word, which is not 0: in a child that opens nodes of its own it begins a new generation.
fn word() -> io::Result<&'static AtomicU32> {
    static PAGE: OnceLock<Page> = OnceLock::new();
    /// Ordinary memory, which a child inherits: no ancestor had a number above it. A process ID would not do, since in a
    /// new namespace it is 1 again.
    static GENERATIONS: AtomicU32 = AtomicU32::new(0);
    let word = match PAGE.get() {
        Some(page) => page.0,
        None => {
            let page = map()?;
            PAGE.get_or_init(|| page).0
        }
    };
    if word.load(Ordering::Relaxed) == 0 {
        let next = GENERATIONS.fetch_add(1, Ordering::Relaxed) + 1;
        let _ = word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
    }
    Ok(word)
}

/// Tells whether this is still the process that made it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Birth {
    word: &'static AtomicU32,
    value: u32,
}

impl Birth {
    pub(crate) fn new() -> io::Result<Self> {
        let word = word()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `child` in a child that is the first process of a namespace, and returns whether it found things right.
    /// `child` must not allocate, nor panic: other threads of this process do not exist in it.
    fn in_new_namespace(child: impl FnOnce() -> bool) -> bool {
        // SAFETY: changes for whom this thread's children are numbered; the child calls `child`, which keeps to what is
        // said above, and `_exit`; `status` outlives the call that writes it.
        unsafe {
            if libc::unshare(libc::CLONE_NEWPID) != 0 {
                return false;
            }
            match libc::fork() {
                0 => libc::_exit(i32::from(!(libc::getpid() == 1 && child()))),
                pid => {
                    let mut status = 1;
                    libc::waitpid(pid, &raw mut status, 0) == pid && status == 0
                }
            }
        }
    }

    /// In containers a child may have its parent's process ID.
    #[test]
    fn f24_a_child_with_its_parents_process_id_is_another() {
        let there = std::thread::spawn(|| {
            in_new_namespace(|| {
                let Ok(parent) = Birth::new() else {
                    return false;
                };
                in_new_namespace(|| {
                    let Ok(child) = Birth::new() else {
                        return false;
                    };
                    parent.is_forked() && !child.is_forked()
                })
            })
        });
        assert!(there.join().unwrap(), "as root, which the checks are");
    }
}
