//! Commands that wait for callers: the socket that they get from outside, and the callers that they
//! refuse.

use std::io::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use suci::{Event, Node, NodeId, OutgoingMessage};

use crate::support::{
    PATIENCE, Running, errors, free_address, output, path, pings, printed, program, suci,
};

/// The command with a socket as systemd passes it: descriptor 3, behind the variables. With
/// `other`, they name another process.
fn activated(socket: &UdpSocket, listen: &str, other: bool) -> Command {
    let fd = socket.as_raw_fd();
    let pid = if other { "1" } else { "$$" };
    let script = format!(
        "LISTEN_PID={pid} LISTEN_FDS=1 exec {} ping --listen {listen}",
        path()
    );
    let mut command = program("sh");
    command.args(["-c", &script]);
    // SAFETY: between fork and exec only async-signal-safe work is allowed: these are system calls.
    unsafe {
        command.pre_exec(move || match libc::dup2(fd, 3) {
            // It may have been 3 before.
            3 if libc::fcntl(3, libc::F_SETFD, 0) == 0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    command
}

/// systemd keeps the socket, too: nobody else could bind the address.
#[test]
fn a_socket_of_systemd_is_taken() {
    let own = free_address().to_string();
    // For all addresses systemd opens one socket of IPv6.
    for (bound, all) in [(own.as_str(), false), ("[::]:0", true)] {
        let socket = UdpSocket::bind(bound).unwrap();
        socket.set_nonblocking(true).unwrap();
        let port = socket.local_addr().unwrap().port();
        let (listen, at) = match all {
            true => (
                format!("0.0.0.0:{port} --plain"),
                format!("127.0.0.1:{port}"),
            ),
            false => (own.clone(), own.clone()),
        };
        let mut running = Running::start(&mut activated(&socket, &listen, false));
        let said = running.first_error_line();
        assert!(said.contains("answering at "), "{said}");
        let done = output(&mut pings(&at, "3"));
        assert!(
            printed(&done).contains("3 round trips"),
            "{}",
            errors(&done)
        );
    }
    let socket = UdpSocket::bind(free_address()).unwrap();
    let at = socket.local_addr().unwrap().to_string();
    let refused = output(&mut activated(&socket, &at, true));
    let said = errors(&refused);
    assert!(
        !refused.status.success() && said.contains("in use"),
        "{said}"
    );
    println!("figure: 6 round trips by sockets of systemd");
}

/// The caller hears why it is refused, and so does the person at the other end, once.
#[test]
fn a_listening_command_says_whom_it_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let key = |name: &str| {
        let file = dir.path().join(name).display().to_string();
        assert!(output(&mut suci(&["keygen", &file])).status.success());
        file
    };
    let (ours, theirs) = (key("ours"), key("theirs"));
    for command in ["ping", "cat"] {
        let at = free_address().to_string();
        let listen = ["--listen", &at, "--key-file", &ours];
        let mut running = Running::start(suci(&[command]).args(listen));
        if command == "ping" {
            running.first_error_line();
        }
        for (option, reason) in [
            (None, "one side is plain and the other sealed"),
            (Some(&theirs), "it has another cluster key"),
        ] {
            let limit = if command == "ping" {
                "--timeout"
            } else {
                "--connect-timeout"
            };
            let mut caller = suci(&[command, &at, limit, "4"]);
            caller.args(option.iter().flat_map(|key| ["--key-file", key.as_str()]));
            assert!(!output(&mut caller).status.success());
            let said = running.first_error_line();
            let start = format!("suci {command}: refused 127.");
            assert!(said.starts_with(&start) && said.contains(reason), "{said}");
        }
        running.0.kill().unwrap();
        let said = errors(&running.finish());
        assert!(said.lines().count() <= 2, "each is told once: {said}");
    }
}

/// `--count` ends the answering side, too, after the last answer has arrived. Options about
/// questions have no meaning there.
#[test]
fn a_listening_ping_ends_after_its_count() {
    for count in ["1", "3"] {
        let at = free_address().to_string();
        let mut running = Running::start(&mut suci(&["ping", "--listen", &at, "--count", count]));
        assert!(running.first_error_line().contains("answering at "));
        let done = output(&mut pings(&at, count));
        let said = format!("{count} round trips");
        assert!(printed(&done).contains(&said), "{}", errors(&done));
        let answered = running.finish();
        assert!(answered.status.success(), "{}", errors(&answered));
    }
    for option in [
        &["--json"] as &[&str],
        &["--size", "9"],
        &["--interval", "0"],
        &["--timeout", "1"],
    ] {
        let refused = output(suci(&["ping", "--listen", "127.0.0.1:0"]).args(option));
        let said = errors(&refused);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("cannot be used with"), "{said}");
    }
}

/// Time for which the caller itself is stopped is no silence of the other node.
#[test]
fn a_ping_that_was_stopped_before_its_answer_goes_on() {
    const LIMIT: Duration = Duration::from_secs(5);
    // It takes what the caller sends, and answers nothing.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = silent.local_addr().unwrap().to_string();
    let limit = LIMIT.as_secs().to_string();
    let words = ["ping", &at, "--count", "1", "--timeout", &limit];
    let mut caller = Running::start(&mut suci(&words));
    silent.recv(&mut [0; 2048]).unwrap();
    let pid = Pid::from_child(&caller.0);
    kill_process(pid, Signal::STOP).unwrap();
    let stopped = Instant::now();
    drop(silent);
    let mut listener = Running::start(&mut suci(&["ping", "--listen", &at]));
    assert!(listener.first_error_line().contains("answering"));
    std::thread::sleep((LIMIT + Duration::from_secs(1)).saturating_sub(stopped.elapsed()));
    kill_process(pid, Signal::CONT).unwrap();
    assert!(caller.wait().success(), "{}", errors(&caller.finish()));
}

/// Sends a message that no node takes unasked to the listener at `at`. Waits until it was refused.
fn announce_too_much(at: SocketAddr, listener: NodeId) {
    let builder = Node::builder().id(NodeId(77)).send_queue(256 << 20);
    let mut node = builder.open().unwrap();
    node.add_peer(listener, at).unwrap();
    let message = OutgoingMessage::new(vec![0; (64 << 20) + 1]).notify(7);
    node.send(listener, message).unwrap();
    let end = Instant::now() + PATIENCE;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match node.event_timeout(left).unwrap() {
            Some(Event::NotDelivered { .. } | Event::Ended { .. }) => return,
            Some(_) => {}
            None => panic!("the message was not refused within {PATIENCE:?}"),
        }
    }
}

/// Any caller can announce a message of any length to a listener: that must end nothing.
#[test]
fn a_listening_command_refuses_what_is_too_long_and_goes_on() {
    let at = free_address();
    let mut ping = Running::start(&mut suci(&["ping", "--listen", &at.to_string()]));
    assert!(ping.first_error_line().contains("answering"));
    announce_too_much(at, NodeId(2));
    let done = output(&mut pings(&at.to_string(), "1"));
    assert!(done.status.success(), "{}", errors(&done));

    let at = free_address().to_string();
    let receiver = Running::start(&mut suci(&["cat", "--listen", &at]));
    let mut sender = Running::start(&mut suci(&["cat", &at]));
    let mut input = sender.0.stdin.take().unwrap();
    input.write_all(b"one ").unwrap();
    announce_too_much(at.parse().unwrap(), NodeId(1));
    input.write_all(b"two").unwrap();
    drop(input);
    let sent = sender.finish();
    assert!(sent.status.success(), "{}", errors(&sent));
    assert_eq!(printed(&receiver.finish()), "one two");
}
