//! Detects that the process is the child of a fork (F24).
//!
//! A child shares the parent's sockets: two processes answering for one node would ruin the
//! sessions of both. One page of memory that the kernel wipes in the child (`MADV_WIPEONFORK`,
//! Linux 4.14) tells them apart for the price of one load; asking for the process ID would be a
//! system call, and `pthread_atfork` handlers do not run for every way to fork.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

fn map() -> io::Result<&'static AtomicU32> {
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
        // SAFETY: nothing uses the mapping yet.
        unsafe { libc::munmap(page, size) };
        return Err(error);
    }
    // SAFETY: the mapping is page-aligned, zeroed (a valid `AtomicU32`), never unmapped, and only
    // ever used through this shared reference. The kernel wipes it only in a child, before that
    // runs.
    Ok(unsafe { &*page.cast::<AtomicU32>() })
}

static PAGE: OnceLock<&AtomicU32> = OnceLock::new();

/// The page's word, which is not 0: in a child that opens nodes of its own it begins a new
/// generation.
fn word() -> io::Result<&'static AtomicU32> {
    /// Ordinary memory, which a child inherits: no ancestor had a number above it. A process ID
    /// would not do, since in a new namespace it is 1 again.
    static GENERATIONS: AtomicU32 = AtomicU32::new(0);
    let word = match PAGE.get() {
        Some(word) => word,
        None => {
            let word = map()?;
            PAGE.get_or_init(|| word)
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
pub(crate) struct OriginalProcess {
    word: &'static AtomicU32,
    value: u32,
}

impl OriginalProcess {
    pub(crate) fn new() -> io::Result<Self> {
        let word = word()?;
        Ok(Self {
            word,
            value: word.load(Ordering::Relaxed),
        })
    }

    /// The same, without mapping anything: there is none before this process opened a node.
    pub(crate) fn known() -> Option<Self> {
        let word = PAGE.get()?;
        let value = word.load(Ordering::Relaxed);
        Some(Self { word, value })
    }

    /// Whether a fork lies between then and now.
    pub(crate) fn is_forked(self) -> bool {
        self.word.load(Ordering::Relaxed) != self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a child, as its exit status.
    const FINE: i32 = 0;
    const WRONG: i32 = 1;
    const REFUSED: i32 = 2;

    /// Runs `child` in a child. It must not allocate, nor panic: other threads of this process do
    /// not exist in it.
    fn in_child(child: impl FnOnce() -> i32) -> i32 {
        // SAFETY: the child calls `child`, which keeps to the rules above, and `_exit`; `status`
        // outlives the call that writes it.
        unsafe {
            match libc::fork() {
                0 => libc::_exit(child()),
                pid => {
                    let mut status = 0;
                    let ended = libc::waitpid(pid, &raw mut status, 0) == pid && pid > 0;
                    if ended && libc::WIFEXITED(status) {
                        libc::WEXITSTATUS(status)
                    } else {
                        WRONG
                    }
                }
            }
        }
    }

    /// The same in a child that is the first process of a new namespace. A process that may not
    /// make one may do so in a new user namespace, if it has one thread.
    fn in_new_namespace(child: impl FnOnce() -> i32) -> i32 {
        let unshare = |what| {
            // SAFETY: changes the namespaces of this process's children.
            unsafe { libc::unshare(what) == 0 }
        };
        if !unshare(libc::CLONE_NEWPID) && !unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) {
            return REFUSED;
        }
        in_child(|| {
            // SAFETY: asks for a number.
            if unsafe { libc::getpid() } == 1 {
                child()
            } else {
                WRONG
            }
        })
    }

    /// In containers a child may have its parent's process ID.
    #[test]
    fn f24_a_child_with_its_parents_process_id_is_another() {
        // A child that finds another thread's making of the page half done would wait for it for
        // ever.
        OriginalProcess::new().unwrap();
        let found = in_child(|| {
            in_new_namespace(|| {
                let Ok(parent) = OriginalProcess::new() else {
                    return WRONG;
                };
                in_new_namespace(|| match OriginalProcess::new() {
                    Ok(child) if parent.is_forked() && !child.is_forked() => FINE,
                    _ => WRONG,
                })
            })
        });
        let remedy =
            "run as root, or where users may make namespaces; a container needs CAP_SYS_ADMIN";
        assert_ne!(found, REFUSED, "no namespace of processes: {remedy}");
        assert_eq!(found, FINE);
    }
}
