//! The directories of statistics files: one for each user, which no other user can enter.

use crate::sys::user;
use std::ffi::CString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Returns the directories in which a process of this user puts its files; it takes the first that
/// is possible. They are in memory only. Write-back to a disk would hold the process up now and
/// then. A file system that copies on write (btrfs) needs new blocks also for stores into allocated
/// ones: once the disk is full, such a store ends the process by SIGBUS.
pub(super) fn own() -> Vec<PathBuf> {
    let name = format!("suci-{}", user());
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // Under `sudo -E` or `su` this is the directory of another user, who would find a foreign
    // directory in it.
    let is_ours = |dir: &Path| std::fs::metadata(dir).is_ok_and(|meta| meta.uid() == user());
    let runtime = runtime.filter(|dir| dir.is_absolute() && is_ours(dir));
    let shared = ["/dev/shm", "/tmp"].map(Path::new);
    let shared = shared.into_iter().filter(|dir| is_in_memory(dir));
    runtime
        .filter(|dir| is_in_memory(dir))
        .map(|dir| dir.join("suci"))
        .into_iter()
        .chain(shared.map(|dir| dir.join(&name)))
        .collect()
}

/// Whether `dir` belongs to a file system without a disk.
pub(super) fn is_in_memory(dir: &Path) -> bool {
    let Ok(name) = CString::new(dir.as_os_str().as_bytes()) else {
        return false;
    };
    let mut about = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the name ends with a zero byte; `about` has the type that the kernel fills, and is
    // read only if it did.
    let kind = unsafe {
        if libc::statfs(name.as_ptr(), about.as_mut_ptr()) != 0 {
            return false;
        }
        about.assume_init().f_type
    };
    kind == libc::TMPFS_MAGIC || kind == RAMFS_MAGIC
}

/// From linux/magic.h, as `libc::TMPFS_MAGIC`.
const RAMFS_MAGIC: libc::c_long = 0x8584_58f6;

/// Returns the directories that may hold statistics files, of every user whose directories can be
/// read: for most users, their own.
pub(super) fn all() -> Vec<PathBuf> {
    let mut found = own();
    for (parent, wanted) in [
        ("/run/user", None),
        ("/dev/shm", Some("suci-")),
        ("/tmp", Some("suci-")),
    ] {
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let dir = match wanted {
                None => entry.path().join("suci"),
                Some(start) if name.to_string_lossy().starts_with(start) => entry.path(),
                Some(_) => continue,
            };
            if !found.contains(&dir) {
                found.push(dir);
            }
        }
    }
    found
}

/// Opens a directory if it is a user's own: not a link, and closed to all others. Returns the user.
pub(super) fn enter(path: &Path) -> io::Result<(File, u32)> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let dir = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let meta = dir.metadata()?;
    let known = meta.uid() == user() || user() == 0;
    if known && meta.mode() & 0o077 == 0 {
        Ok((dir, meta.uid()))
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Makes a file for this user alone, in a directory made if need be. One of that name is not
/// touched.
pub(super) fn create(dir: &Path, name: &str) -> io::Result<File> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let (opened, owner) = enter(dir)?;
    if owner != user() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let name = CString::new(name)?;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let mode: libc::mode_t = 0o600;
    // SAFETY: the name ends with a zero byte and outlives the call; the kernel checks the
    // descriptor.
    let fd = unsafe { libc::openat(opened.as_raw_fd(), name.as_ptr(), flags, mode) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor; nothing else knows it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Memory that looks like a file, for a program that wants its numbers served but no file.
pub(super) fn anonymous() -> io::Result<File> {
    // SAFETY: the name ends with a zero byte.
    let fd = unsafe { libc::memfd_create(c"suci-stat".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor; nothing else knows it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// The identity of a process: a process ID is used again, but not with the same start in the same
/// namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// In the kernel's ticks since it booted.
    pub(super) started: u64,
    /// 0 if unknown, which no namespace has.
    pub(super) namespace: u64,
}

impl Process {
    pub(super) fn own() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            started: started(pid).unwrap_or(0),
            namespace: namespace().unwrap_or(0),
        }
    }

    /// Whether it runs, as far as can be seen from the namespace `here`: of another, or where
    /// either is unknown for want of /proc, it may.
    pub(super) fn may_live(self, here: Option<u64>) -> bool {
        let comparable = here.is_some_and(|here| here == self.namespace);
        !comparable || started(self.pid) == Some(self.started)
    }
}

/// The namespace of this process's ID.
pub(super) fn namespace() -> Option<u64> {
    let meta = std::fs::metadata("/proc/self/ns/pid").ok()?;
    Some(meta.ino())
}

fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}
