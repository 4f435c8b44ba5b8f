//! F24: the child of a fork gets an error, the parent is unharmed, descriptors are close-on-exec.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{LONG, pair, shared_pair, take};
use std::os::fd::{AsRawFd, RawFd};
use suci::Error;

/// What a child found, as its exit status.
const FINE: i32 = 0;

/// Forks, runs `child` there, and returns its exit status. `child` must not allocate much, nor panic: other
/// threads of this process do not exist in it.
fn in_child(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls `child`, which keeps to what its callers promise, and `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            let status = child();
            // SAFETY: ends the child without running anything that belongs to the parent.
            unsafe { libc::_exit(status) }
        }
        pid => {
            assert!(pid > 0, "fork failed");
            let mut status = 0;
            // SAFETY: `status` outlives the call; `pid` is our child.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            assert!(libc::WIFEXITED(status), "the child was killed: {status}");
            libc::WEXITSTATUS(status)
        }
    }
}

fn is_open(fd: RawFd) -> bool {
    // SAFETY: asks for the flags of a descriptor, open or not.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// Descriptors of sockets, epolls, timers, events and statistics that this process has open.
fn ours() -> Vec<RawFd> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let entry = entry.unwrap();
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        let name = target.to_string_lossy().into_owned();
        let kinds = ["socket:", "anon_inode:"];
        if kinds.iter().any(|kind| name.starts_with(kind)) || name.ends_with(".stat") {
            found.push(entry.file_name().to_string_lossy().parse().unwrap());
        }
    }
    found
}

/// Whether a node's numbers are mapped here, to be stored by it.
fn has_statistics() -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| line.ends_with(".stat"))
}

/// One test for all, since forking and counting descriptors concern the whole process.
#[test]
fn f24_a_fork_leaves_the_parent_alone() {
    let before = ours();
    let (mut a, mut b) = pair();
    a.send(b.id(), "before").unwrap();
    take(&mut b);
    let (c, d) = shared_pair();
    c.send(d.id(), "before").unwrap();
    d.recv().unwrap();
    let metrics = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let e = common::builder(4).metrics(metrics).open_threads(1).unwrap();
    let nodes: Vec<RawFd> = ours()
        .into_iter()
        .filter(|fd| !before.contains(fd))
        .collect();
    // Socket, epoll, timer and two bells; socket and bell; and what answers Prometheus, from its file.
    assert_eq!(nodes.len(), 2 * 5 + 2 * 2 + 2 + 3);
    assert!(has_statistics());
    for &fd in &nodes {
        // SAFETY: asks for the flags of an open descriptor.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
        assert_ne!(
            flags & libc::FD_CLOEXEC,
            0,
            "descriptor {fd} would survive exec"
        );
    }
    let (to, other) = (b.id(), d.id());
    let status = in_child(|| {
        let fd = a.as_raw_fd();
        if !matches!(a.send(to, "x"), Err(Error::Forked)) {
            return 1;
        }
        if !matches!(a.recv(), Err(Error::Forked)) {
            return 2;
        }
        if !matches!(a.close(LONG), Err(Error::Forked)) {
            return 3;
        }
        if !matches!(b.counters(), Err(Error::Forked)) {
            return 4;
        }
        if !matches!(c.send(other, "x"), Err(Error::Forked)) {
            return 5;
        }
        if !matches!(c.recv(), Err(Error::Forked)) {
            return 6;
        }
        if !matches!(d.flush(LONG), Err(Error::Forked)) {
            return 7;
        }
        if !matches!(e.send(other, "x"), Err(Error::Forked)) {
            return 11;
        }
        if nodes.iter().any(|&fd| is_open(fd)) || is_open(fd) {
            return 8;
        }
        if has_statistics() {
            return 12;
        }
        // A descriptor number is used anew: dropping the handles must not close it.
        // SAFETY: makes a descriptor; no pointers are involved.
        let fresh = unsafe { libc::eventfd(0, 0) };
        if !nodes.contains(&fresh) {
            return 9;
        }
        // SAFETY: the parent keeps the originals; these are the child's copies, dropped once.
        unsafe {
            drop(std::ptr::read(&raw const a));
            drop(std::ptr::read(&raw const c));
        }
        if is_open(fresh) { FINE } else { 10 }
    });
    assert_eq!(status, FINE, "the child's step");
    a.send(b.id(), "after").unwrap();
    assert_eq!(&take(&mut b).payload[..], b"after");
    c.send(d.id(), "after").unwrap();
    assert_eq!(&d.recv().unwrap().payload[..], b"after");
    // A child may have nodes of its own.
    let status = in_child(|| match common::builder(9).unattended().open() {
        Ok(mut node) => {
            if node.try_recv().is_ok() {
                FINE
            } else {
                1
            }
        }
        Err(_) => 2,
    });
    assert_eq!(status, FINE, "the child's own node");
}
