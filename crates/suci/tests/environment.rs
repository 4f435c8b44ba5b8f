//! The environment that `suci run` gives its processes: an ID, a book and a socket reserved before
//! they started.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{LONG, builder, take};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::time::Instant;
use suci::{Error, Node, NodeId};

/// Tells `the_child` which part it plays.
const ROLE: &str = "SUCI_TEST_ROLE";

/// Runs this test binary's `the_child` with the variables; `socket` is inherited.
fn child(role: &str, variables: &[(&str, &str)], socket: Option<&UdpSocket>) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "the_child", "--nocapture"])
        .env(ROLE, role);
    command.envs(variables.iter().copied());
    if let Some(fd) = socket.map(AsRawFd::as_raw_fd) {
        // SAFETY: fcntl may be called between fork and exec.
        unsafe {
            command.pre_exec(move || {
                libc::fcntl(fd, libc::F_SETFD, 0);
                Ok(())
            })
        };
        command.env("SUCI_FD", fd.to_string());
    }
    command
}

fn succeeded(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}{said}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn the_child() {
    match std::env::var(ROLE).as_deref() {
        Ok("greet") => greet(),
        Ok("call") => call(),
        Ok("refuse") => {
            let error = Node::from_env().unwrap_err();
            let expected = std::env::var("EXPECTED").unwrap();
            assert!(error.to_string().contains(&expected), "{error}");
        }
        // Started as an ordinary test: nothing to do.
        _ => {}
    }
}

/// The environment's book is of others, which is no mistake in a node that has its ID from the
/// program.
fn call() {
    let id = NodeId(1 << 31);
    let node = Node::builder().id(id).open().unwrap();
    let peers: Vec<_> = node.peers().unwrap().iter().map(|p| p.node).collect();
    assert_eq!(peers, [NodeId(0), NodeId(1)]);
    // Nor in one that has its book from there, and says where it listens.
    let builder = Node::builder().book(suci::AddressBook::new());
    let node = builder.listen(([127, 0, 0, 1], 0).into()).open();
    assert_eq!(node.unwrap().id(), NodeId(5));
}

fn greet() {
    let fd: i32 = std::env::var("SUCI_FD").unwrap().parse().unwrap();
    let mut node = Node::from_env().unwrap();
    assert_eq!(node.id(), NodeId(1));
    // SAFETY: asks for the flags of an open descriptor.
    assert_eq!(unsafe { libc::fcntl(fd, libc::F_GETFD) }, libc::FD_CLOEXEC);
    // A second node of the same name finds the socket taken, by the first.
    assert!(matches!(Node::from_env(), Err(Error::AddressInUse { .. })));
    assert_eq!(suci::env::size().unwrap(), Some(2));
    node.send(NodeId(0), "from the child").unwrap();
    assert_eq!(&take(&mut node).payload[..], b"seen");
    node.close(LONG).unwrap();
    let address = node.local_addr();
    drop(node);
    // The first one took the socket with it; the address is free. A process that another test has
    // just forked still holds a copy, until it runs its program.
    let end = Instant::now() + LONG;
    let second = loop {
        match Node::from_env() {
            Err(Error::AddressInUse { .. }) if Instant::now() < end => std::thread::yield_now(),
            other => break other.unwrap(),
        }
    };
    assert_eq!(second.local_addr(), address);
}

#[test]
fn a_child_finds_its_id_book_and_socket() {
    let reserved = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = reserved.local_addr().unwrap();
    let mut parent = builder(0).open().unwrap();
    parent.add_peer(NodeId(1), address).unwrap();
    let path = std::env::temp_dir().join(format!("suci-env-{}", std::process::id()));
    std::fs::write(&path, format!("0 {}\n1 {address}\n", parent.local_addr())).unwrap();
    let variables = [
        ("SUCI_ID", "1"),
        ("SUCI_SIZE", "2"),
        ("SUCI_BOOK", path.to_str().unwrap()),
    ];
    let mut child = child("greet", &variables, Some(&reserved));
    let running = std::thread::spawn(move || child.output().unwrap());
    // Arrives although the child had not begun when its address was known.
    let message = take(&mut parent);
    assert_eq!(
        (message.from, &message.payload[..]),
        (NodeId(1), &b"from the child"[..])
    );
    drop(reserved);
    parent.send(NodeId(1), "seen").unwrap();
    parent.flush(LONG).unwrap();
    succeeded(&running.join().unwrap());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_node_that_the_book_does_not_have_is_refused_if_the_environment_tells_both() {
    let path = std::env::temp_dir().join(format!("suci-two-{}", std::process::id()));
    std::fs::write(&path, "0 127.0.0.1:4000\n1 127.0.0.1:4001\n").unwrap();
    let book = path.to_str().unwrap();
    let expected = format!("SUCI_ID=5: not in the book SUCI_BOOK={book}: let suci run set both");
    let variables = [
        ("SUCI_ID", "5"),
        ("SUCI_SIZE", "9"),
        ("SUCI_BOOK", book),
        ("EXPECTED", &expected),
    ];
    for role in ["refuse", "call"] {
        succeeded(&child(role, &variables, None).output().unwrap());
    }
    let expected = format!("SUCI_SIZE=3: the book SUCI_BOOK={book} has 2: let suci run set both");
    let variables = [
        ("SUCI_ID", "1"),
        ("SUCI_SIZE", "3"),
        ("SUCI_BOOK", book),
        ("EXPECTED", &expected),
    ];
    succeeded(&child("refuse", &variables, None).output().unwrap());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn wrong_variables_are_named() {
    for (name, value, expected) in [
        ("SUCI_ID", "seven", "SUCI_ID=seven: "),
        ("SUCI_ID", "+1", "SUCI_ID=+1: "),
        ("SUCI_ID", "\u{1b}[2J", "SUCI_ID=\\u{1b}[2J: "),
        ("SUCI_SIZE", "+2", "SUCI_SIZE=+2: "),
        (
            "SUCI_BOOK",
            "/nonexistent/book",
            "SUCI_BOOK=/nonexistent/book: ",
        ),
        ("SUCI_BOOK", "", "SUCI_BOOK=: it names no file"),
        ("SUCI_KEY_FILE", "", "SUCI_KEY_FILE=: it names no file"),
        (
            "SUCI_NODE_KEY_FILE",
            "",
            "SUCI_NODE_KEY_FILE=: it names no file",
        ),
        (
            "SUCI_PUBLIC_KEYS_FILE",
            "",
            "SUCI_PUBLIC_KEYS_FILE=: it names no file",
        ),
        ("SUCI_BOOK", " ", "SUCI_BOOK= : it names no file"),
        (
            "SUCI_KEY_FILE",
            " \t",
            "SUCI_KEY_FILE= \\t: it names no file",
        ),
        (
            "SUCI_NODE_KEY_FILE",
            "\n",
            "SUCI_NODE_KEY_FILE=\\n: it names no file",
        ),
        (
            "SUCI_FD",
            "1000",
            "SUCI_FD=1000: no UDP socket is open there",
        ),
        (
            "SUCI_RMEM_MAX",
            "4M",
            "SUCI_RMEM_MAX=4M: not a number from 0 to 4294967295: correct it, or unset",
        ),
        ("SUCI_FD", "0", "SUCI_FD=0: "),
        ("SUCI_SIZE", "0", "SUCI_SIZE=0: "),
        ("SUCI_SIZE", "1", "SUCI_ID=1: not below SUCI_SIZE=1"),
    ] {
        let mut command = child(
            "refuse",
            &[("SUCI_ID", "1"), (name, value), ("EXPECTED", expected)],
            None,
        );
        succeeded(&command.output().unwrap());
    }
    let mut command = child("refuse", &[("EXPECTED", "the node ID is missing")], None);
    succeeded(&command.env_remove("SUCI_ID").output().unwrap());
}
