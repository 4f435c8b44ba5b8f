//! F24: the child of a fork gets an error, the parent is unharmed, descriptors are close-on-exec.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/pairs.rs"]
mod pairs;

use common::{LONG, builder, take};
use pairs::{introduce, pair};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;
use suci::security::ClusterKey;
use suci::{Error, Mode, Node, NodeId, PeerOptions};

/// The result of a child, as its exit status.
const FINE: i32 = 0;

/// Forks, runs `child` there, and returns its exit status. `child` must not allocate much, nor
/// panic: other threads of this process do not exist in it.
fn in_child(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls `child`, which keeps the promises of its callers, and `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            let status = child();
            // SAFETY: ends the child without running anything that belongs to the parent.
            unsafe { libc::_exit(status) }
        }
        pid => {
            assert!(pid > 0, "fork failed");
            exit_status(pid)
        }
    }
}

fn exit_status(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: `status` outlives the call; `child` is our own.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child was killed: {status}");
    libc::WEXITSTATUS(status)
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

/// The receiver of messages that are alike.
const ALIKE: NodeId = NodeId(8);

/// A node that forks while it fills a batch, with a peer whose queue is full and one that wants
/// everything at once. Returns the exit statuses of the children.
fn in_children_of_a_batch() -> [i32; 2] {
    let mut node = builder(5).send_queue(1 << 16).open().unwrap();
    let mut quick = builder(6).open().unwrap();
    introduce(&mut node, &mut quick);
    let peer = node.peer(quick.id());
    let (mode, options) = (Mode::Response, peer.options().unwrap());
    peer.set_options(PeerOptions { mode, ..options }).unwrap();
    node.send(quick.id(), "before").unwrap();
    take(&mut quick);
    let (full, nobody) = (NodeId(7), UdpSocket::bind("127.0.0.1:0").unwrap());
    node.add_peer(full, nobody.local_addr().unwrap()).unwrap();
    node.add_peer(ALIKE, nobody.local_addr().unwrap()).unwrap();
    // From now on calls keep the descriptor right.
    node.as_raw_fd();
    [full, quick.id()].map(|to| {
        node.poll(Duration::ZERO).unwrap();
        node.events().unwrap();
        quick.send(node.id(), "news").unwrap();
        let status = in_child_of_a_batch(&mut node, full, to);
        assert_eq!(&take(&mut node).payload[..], b"news");
        status
    })
}

/// The child sends to `to` in the parent's batch, and returns from it.
fn in_child_of_a_batch(node: &mut Node, full: NodeId, to: NodeId) -> i32 {
    let (mut child, mut status, mut fresh) = (0, FINE, [0; 32]);
    let result = node.batch(|batch| {
        // The last one looks at the socket, where news wait.
        while batch.send(full, vec![0; 1 << 10]).is_ok() {}
        // Room for more such messages is lent to the batch now.
        for _ in 0..4 {
            batch.send_copy(ALIKE, b"alike").unwrap();
        }
        // Its numbers are to be published again by now, into memory that the child does not have.
        std::thread::sleep(Duration::from_millis(150));
        // SAFETY: the child keeps to what `in_child` asks for.
        child = unsafe { libc::fork() };
        if child == 0 {
            let alike = batch.send_copy(ALIKE, b"alike");
            if ![alike, batch.send(to, "x")]
                .iter()
                .all(|sent| matches!(sent, Err(Error::Forked)))
            {
                status = 1;
            }
            // SAFETY: makes descriptors, under numbers that the node's had; no pointers are
            // involved.
            fresh = [(); 32].map(|()| unsafe { libc::eventfd(0, libc::EFD_NONBLOCK) });
        }
    });
    if child == 0 {
        if !matches!(result, Err(Error::Forked)) {
            status = 2;
        }
        let mut value = 0_u64;
        // SAFETY: reads 8 bytes, the size of `value`.
        let mut read = |fd| unsafe { libc::read(fd, (&raw mut value).cast(), 8) };
        if fresh.into_iter().any(|fd| read(fd) >= 0) {
            status = 3;
        }
        // SAFETY: ends the child without running anything that belongs to the parent.
        unsafe { libc::_exit(status) }
    }
    assert!(child > 0, "fork failed");
    result.unwrap();
    exit_status(child)
}

/// A child that lives on after it dropped its handles: the parent's port is free once the parent
/// has closed the node, and none of the node's descriptors is left in the child. Returns the number
/// of those.
fn a_child_that_dropped_its_handles_keeps_nothing(before: &[RawFd]) -> usize {
    let (mut alone, shared) = (
        builder(20).open().unwrap(),
        builder(21).open_threads(2).unwrap(),
    );
    let other = shared.clone();
    // Descriptors that the program may hold, until it drops the node.
    let held = [alone.as_raw_fd(), shared.as_raw_fd()];
    let (_waker, _too) = (alone.waker().unwrap(), shared.waker().unwrap());
    let nodes: Vec<RawFd> = ours()
        .into_iter()
        .filter(|fd| !before.contains(fd))
        .collect();
    assert!(held.iter().all(|fd| nodes.contains(fd)));
    let addresses = [alone.local_addr(), shared.local_addr()];
    let [(reader, writer), (end, wait)] = [std::io::pipe().unwrap(), std::io::pipe().unwrap()];
    let (told, tells, waits) = (reader.as_raw_fd(), writer.as_raw_fd(), end.as_raw_fd());
    let mut byte = [0_u8];
    // SAFETY: the child makes system calls and drops its copies of the handles, each once; the
    // parent keeps the originals. It ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above; `byte` outlives the calls.
        unsafe {
            drop(std::ptr::read(&raw const alone));
            drop(std::ptr::read(&raw const shared));
            // Another handle may be used until it is dropped, too.
            let [_, held] = held;
            let kept = is_open(held);
            drop(std::ptr::read(&raw const other));
            byte[0] = u8::from(kept && !nodes.iter().any(|fd| is_open(*fd)));
            libc::write(tells, byte.as_ptr().cast(), 1);
            libc::read(waits, byte.as_mut_ptr().cast(), 1);
            libc::_exit(0)
        }
    }
    assert!(child > 0, "fork failed");
    // SAFETY: `byte` outlives the call.
    assert_eq!(unsafe { libc::read(told, byte.as_mut_ptr().cast(), 1) }, 1);
    assert_eq!(byte, [1], "the child has descriptors of its parent's nodes");
    alone.close(LONG).unwrap();
    shared.close(LONG).unwrap();
    drop((alone, shared, other));
    for address in addresses {
        UdpSocket::bind(address).unwrap();
    }
    drop((wait, end));
    // SAFETY: ends our own child.
    unsafe { libc::kill(child, libc::SIGKILL) };
    let mut status = 0;
    // SAFETY: `status` outlives the call; `child` is our own.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    nodes.len()
}

/// F24 and F37. One test for all, since forking and counting descriptors concern the whole process.
/// Two of the nodes are sealed.
#[test]
fn f24_a_fork_leaves_the_parent_alone() {
    let before = ours();
    let (mut a, mut b) = pair();
    a.send(b.id(), "before").unwrap();
    take(&mut b);
    let sealed = |id| builder(id).cluster_key(ClusterKey::from_bytes(&[7; 32]));
    let [c, d] = [0, 1].map(|id| sealed(id).open_threads(1).unwrap());
    c.add_peer(d.id(), d.local_addr()).unwrap();
    d.add_peer(c.id(), c.local_addr()).unwrap();
    c.send(d.id(), "before").unwrap();
    d.recv().unwrap();
    let metrics = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let e = builder(4).metrics(metrics).open_threads(1).unwrap();
    let f = builder(5).open_threads(3).unwrap();
    let nodes: Vec<RawFd> = ours()
        .into_iter()
        .filter(|fd| !before.contains(fd))
        .collect();
    // Socket, epoll, timer and two eventfds; socket and eventfd of each thread, and one for the
    // program to wait on; and the descriptors of the Prometheus responder, with its file.
    assert_eq!(nodes.len(), 2 * 5 + 2 * (2 + 1) + 2 + 1 + 3 + 3 * 2 + 1);
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
        // Descriptors that the program may hold stay valid, here too.
        let held = [
            a.as_raw_fd(),
            b.as_raw_fd(),
            c.as_raw_fd(),
            d.as_raw_fd(),
            e.as_raw_fd(),
            f.as_raw_fd(),
        ];
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
        if !matches!(f.send(other, "x"), Err(Error::Forked)) {
            return 13;
        }
        if nodes.iter().any(|fd| is_open(*fd) != held.contains(fd)) {
            return 8;
        }
        if has_statistics() {
            return 12;
        }
        if !held.iter().all(|fd| nodes.contains(fd)) {
            return 14;
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
    let statuses = in_children_of_a_batch();
    assert_eq!(statuses, [FINE; 2], "the children's steps amid a batch");
    a.send(b.id(), "after").unwrap();
    assert_eq!(&take(&mut b).payload[..], b"after");
    c.send(d.id(), "after").unwrap();
    assert_eq!(&d.recv().unwrap().payload[..], b"after");
    // A child that closed all it had inherited, as daemons do, keeps what it opened since.
    let status = in_child(|| {
        for &fd in &nodes {
            // SAFETY: the numbers of open descriptors that this process does not use.
            unsafe { libc::close(fd) };
        }
        // SAFETY: makes descriptors from a name that ends with a zero byte.
        let fresh = [(); 32].map(|()| unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) });
        let refused = [
            matches!(a.send(to, "x"), Err(Error::Forked)),
            matches!(c.send(other, "x"), Err(Error::Forked)),
            matches!(f.send(other, "x"), Err(Error::Forked)),
        ];
        if refused != [true; 3] {
            return 1;
        }
        if fresh.into_iter().all(is_open) {
            FINE
        } else {
            2
        }
    });
    assert_eq!(status, FINE, "the step of the child that closed everything");
    // A child may have nodes of its own.
    let status = in_child(|| match builder(9).unattended().open() {
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
    drop((a, b, c, d, e, f));
    let count = a_child_that_dropped_its_handles_keeps_nothing(&ours());
    println!(
        "figure: {count} descriptors of 2 nodes, a child that dropped them keeps none, nor the ports"
    );
}
