//! The choice of the process that has the node, among a process and its forked children.
//!
//! A program may listen, fork, and end while its child goes on, as many daemons do. The kernel
//! keeps the listeners then, so a child that has one takes the node over. The processes share a
//! file in memory, and the one with the node holds a lock of it (`fcntl(2)`), which the kernel
//! frees at its end, however it ends. A thread of the child waits for that. It waits for the end of
//! its own parent first: so the master of a server takes over, and not one of its workers, which
//! may lack the right to read a key.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, getppid, pidfd_open};
use std::ffi::c_int;
use std::fmt;
use std::sync::OnceLock;

/// The file. A child of a fork has it under the same number.
static FILE: OnceLock<OwnedFd> = OnceLock::new();

/// Another process has the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder(Option<Pid>);

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(f, "process {} has it", pid.as_raw_nonzero()),
            None => f.write_str("a process in another PID namespace has it"),
        }
    }
}

/// The process that forked this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parent(Pid);

impl Parent {
    /// Returns this process, which is about to fork.
    pub(crate) fn current() -> Self {
        Self(getpid())
    }

    /// In a child: waits until the parent has ended. Its descriptors are closed then.
    fn await_end(self) {
        // A process whose parent has ended has another one.
        let lives = || getppid() == Some(self.0);
        if lives()
            && let Ok(process) = pidfd_open(self.0, PidfdFlags::empty())
            && lives()
        {
            await_end(&process);
        }
    }
}

/// Waits until a process has ended.
fn await_end(process: &OwnedFd) {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    while poll(&mut polled, None) == Err(Errno::INTR) {}
}

/// A request about the lock: of this process for `kind`. Returns what the kernel wrote.
fn request(file: BorrowedFd<'_>, command: c_int, kind: c_int) -> Result<libc::flock, Errno> {
    // SAFETY: a `flock` is numbers, for which all bits may be 0.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    // Small numbers. The place is the first byte, counted from 0, the start of the file.
    lock.l_type = kind as i16;
    lock.l_len = 1;
    // SAFETY: the commands of this module read and write a `flock`, which lives.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    let error = || std::io::Error::last_os_error().raw_os_error();
    match done {
        -1 => Err(Errno::from_raw_os_error(error().unwrap_or(libc::EINVAL))),
        _ => Ok(lock),
    }
}

/// Takes the lock, if it is free.
fn try_take(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    match request(file, libc::F_SETLK, libc::F_WRLCK) {
        Ok(_) => Ok(true),
        Err(Errno::ACCESS | Errno::AGAIN) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the process that holds the lock, if one does.
fn holder(file: BorrowedFd<'_>) -> Result<Option<Holder>, Errno> {
    let found = request(file, libc::F_GETLK, libc::F_WRLCK)?;
    let is_free = c_int::from(found.l_type) == libc::F_UNLCK;
    Ok((!is_free).then(|| Holder(Pid::from_raw(found.l_pid.max(0)))))
}

/// Takes the node for this process. The first process makes the file.
///
/// # Errors
/// Another process has the node. Without the file, as with too many descriptors, nobody knows.
pub(crate) fn take() -> Result<(), Holder> {
    let made = || memfd_create("suci-preload", MemfdFlags::CLOEXEC).ok();
    let Some(file) = FILE
        .get()
        .or_else(|| made().map(|file| FILE.get_or_init(|| file)))
    else {
        return Ok(());
    };
    while try_take(file.as_fd()) == Ok(false) {
        if let Ok(Some(holder)) = holder(file.as_fd()) {
            return Err(holder);
        }
    }
    Ok(())
}

/// Returns true if a process from which this one was forked, or this one, had the node.
pub(crate) fn is_known() -> bool {
    FILE.get().is_some()
}

/// Lets another process take the node, which this one does not use.
pub(crate) fn release() {
    if let Some(file) = FILE.get() {
        // It fails if the program closed the file, which frees the lock, too.
        let _ = request(file.as_fd(), libc::F_SETLK, libc::F_UNLCK);
    }
}

/// In a child: waits until the parent has ended, and no other process has the node, and takes it.
///
/// # Errors
/// The program closed the file.
pub(crate) fn inherit(parent: Parent) -> Result<(), Errno> {
    let file = FILE.get().ok_or(Errno::BADF)?.as_fd();
    parent.await_end();
    while !try_take(file)? {
        await_holder(file)?;
    }
    Ok(())
}

/// Waits until the process that holds the lock has ended.
fn await_holder(file: BorrowedFd<'_>) -> Result<(), Errno> {
    let Some(Holder(pid)) = holder(file)? else {
        return Ok(());
    };
    let Some(Ok(process)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        // Linux before 5.3, or a process of another PID namespace: its sockets may live a moment
        // longer than its lock.
        return request(file, libc::F_SETLKW, libc::F_WRLCK).map(drop);
    };
    // It holds the lock still, so its number was not given to another process before.
    if holder(file)?.is_some_and(|Holder(now)| now == pid) {
        await_end(&process);
    }
    Ok(())
}
