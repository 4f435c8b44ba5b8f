//! `suci cat`: bytes, ends, faults and a relay.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, Running, errors, free_address, noise, output, suci};
use rustix::process::{Pid, Signal, kill_process};

/// Starts both ends with further arguments.
fn ends(at: SocketAddr, via: SocketAddr, receiver: &[&str], sender: &[&str]) -> (Running, Running) {
    let (at, via) = (at.to_string(), via.to_string());
    let receive = Running::start(&mut suci(&[&["cat", "--listen", &at], receiver].concat()));
    let send = Running::start(&mut suci(&[&["cat", &via], sender].concat()));
    (receive, send)
}

/// Carries `content` and compares.
fn carries(content: &[u8], receiver: &[&str], sender: &[&str]) {
    let at = free_address();
    let (receive, mut send) = ends(at, at, receiver, sender);
    send.feed(content.to_vec());
    let received = std::thread::spawn(move || receive.finish());
    let sent = send.finish();
    let received = received.join().unwrap();
    assert!(sent.status.success(), "{}", errors(&sent));
    assert!(received.status.success(), "{}", errors(&received));
    assert!(received.stdout == content, "what arrived differs");
}

/// Types `text` and sees it arrive. The input stays open.
fn types(send: &mut Running, text: &[u8], receive: &mut Running) -> ChildStdin {
    let mut input = send.0.stdin.take().unwrap();
    input.write_all(text).unwrap();
    let mut arrived = vec![0; text.len()];
    let output = receive.0.stdout.as_mut().unwrap();
    output.read_exact(&mut arrived).unwrap();
    assert_eq!(arrived, text);
    input
}

#[test]
fn nothing_is_carried_as_nothing() {
    carries(b"", &[], &[]);
}

#[test]
fn one_byte_is_carried() {
    carries(b"\n", &[], &[]);
}

#[test]
fn any_bytes_are_carried() {
    carries(&noise(20_000_001), &[], &[]);
}

#[test]
fn f31_faults_both_ways_change_nothing() {
    let faults = |seed| format!("loss=0.05,dup=0.05,reorder=0.1,corrupt=0.01,seed={seed}");
    let (one, two) = (faults(1), faults(2));
    carries(&noise(2_000_000), &["--faults", &one], &["--faults", &two]);
}

#[test]
fn ipv6_works_too() {
    let at: SocketAddr = format!("[::1]:{}", free_address().port()).parse().unwrap();
    let (receive, mut send) = ends(at, at, &[], &[]);
    send.feed(b"six".to_vec());
    let (received, sent) = (receive.finish(), send.finish());
    assert!(sent.status.success(), "{}", errors(&sent));
    assert_eq!(received.stdout, b"six");
}

#[test]
fn typed_lines_arrive_before_the_input_ends() {
    let at = free_address();
    let (mut receive, mut send) = ends(at, at, &[], &[]);
    let input = types(&mut send, b"now\n", &mut receive);
    drop(input);
    assert!(send.finish().status.success() && receive.finish().status.success());
}

/// A relay: packets of the client leave from another socket than the one it knows, and halfway that
/// socket is replaced by one with another port.
struct Relay {
    address: SocketAddr,
    moved: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Relay {
    fn start(to: SocketAddr, change_after: u64, longest: usize) -> Self {
        let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = front.local_addr().unwrap();
        let (moved, stop) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let relay = Self {
            address,
            moved: Arc::clone(&moved),
            stop: Arc::clone(&stop),
        };
        std::thread::spawn(move || {
            relay_packets(&front, to, change_after, longest, &moved, &stop);
        });
        relay
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn back_socket(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(to).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

fn relay_packets(
    front: &UdpSocket,
    to: SocketAddr,
    change_after: u64,
    longest: usize,
    moved: &AtomicU64,
    stop: &AtomicBool,
) {
    front.set_nonblocking(true).unwrap();
    let mut back = back_socket(to);
    let mut client = None;
    let mut bytes = vec![0; longest];
    let mut there = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut idle = true;
        if let Ok((length, from)) = front.recv_from(&mut bytes) {
            idle = false;
            client = Some(from);
            there += 1;
            if there == change_after {
                back = back_socket(to);
                moved.fetch_add(1, Ordering::Relaxed);
            }
            // A full buffer or a listener not there yet: lost, as in any network.
            let _ = back.send(&bytes[..length]);
        }
        if let (Ok(length), Some(client)) = (back.recv(&mut bytes), client) {
            idle = false;
            let _ = front.send_to(&bytes[..length], client);
        }
        if idle {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// The listener is `at`; the sender knows the relay only.
fn arrive_through(relay: &Relay, at: SocketAddr, content: Vec<u8>) {
    let (receive, mut send) = ends(at, relay.address, &[], &[]);
    send.feed(content.clone());
    let received = std::thread::spawn(move || receive.finish());
    let sent = send.finish();
    let received = received.join().unwrap();
    assert!(sent.status.success(), "{}", errors(&sent));
    assert!(received.status.success(), "{}", errors(&received));
    assert!(received.stdout == content, "what arrived differs");
}

#[test]
fn f13_a_relay_that_changes_its_port_midway_changes_nothing() {
    let at = free_address();
    let relay = Relay::start(at, 500, 8_192);
    arrive_through(&relay, at, noise(8_000_000));
    assert_eq!(
        relay.moved.load(Ordering::Relaxed),
        1,
        "too few packets to have changed the port"
    );
}

/// The path carries more than the program in the middle reads at a time: the rest of long packets
/// is cut off.
#[test]
fn f27_a_relay_that_cuts_long_packets_off_is_survived() {
    let at = free_address();
    let relay = Relay::start(at, u64::MAX, 2_048);
    arrive_through(&relay, at, noise(2_000_000));
}

#[test]
fn f23_the_sender_may_come_first() {
    let at = free_address();
    let to = at.to_string();
    let mut send = Running::start(&mut suci(&["cat", &to]));
    send.feed(b"early".to_vec());
    std::thread::sleep(Duration::from_millis(300));
    let receive = Running::start(&mut suci(&["cat", "--listen", &to]));
    assert_eq!(receive.finish().stdout, b"early");
    assert!(send.finish().status.success());
}

#[test]
fn an_absent_receiver_is_reported_as_an_error() {
    let to = free_address().to_string();
    let output = output(&mut suci(&["cat", "--connect-timeout", "0.5", &to]));
    assert_eq!(output.status.code(), Some(1));
    let said = errors(&output);
    assert!(
        said.contains(&format!("nobody answered at {to}")) && said.contains("--listen"),
        "{said}"
    );
}

#[test]
fn another_command_at_the_address_is_reported_as_an_error() {
    let at = free_address().to_string();
    let mut ping = Running::start(&mut suci(&["ping", "--listen", &at]));
    assert!(ping.first_error_line().contains("answering"));
    let output = output(&mut suci(&["cat", "--connect-timeout", "5", &at]));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors(&output).contains("another node answers there"),
        "{}",
        errors(&output)
    );
}

#[test]
fn a_reader_that_went_away_fails_both_ends() {
    let at = free_address();
    let (mut receive, mut send) = ends(at, at, &[], &[]);
    drop(receive.0.stdout.take());
    send.feed(noise(1_000_000));
    let (sent, received) = (send.finish(), receive.finish());
    let said = (errors(&sent), errors(&received));
    assert_eq!(sent.status.code(), Some(1), "{said:?}");
    assert!(said.0.contains("could not write"), "{said:?}");
    assert_eq!(received.status.code(), Some(1), "{said:?}");
    assert!(said.1.contains("standard output"), "{said:?}");
}

#[test]
fn a_sender_that_died_fails_the_receiver() {
    let at = free_address();
    let patience = ["--give-up-after", "1"];
    let (mut receive, mut send) = ends(at, at, &patience, &[]);
    let _input = types(&mut send, b"begin", &mut receive);
    send.0.kill().unwrap();
    let begun = Instant::now();
    let received = receive.finish();
    assert!(begun.elapsed() < PATIENCE);
    assert_eq!(received.status.code(), Some(1));
    let said = errors(&received);
    assert!(
        said.contains("after 5 bytes") && said.contains("incomplete"),
        "{said}"
    );
}

#[test]
fn a_receiver_that_died_fails_the_sender_even_while_it_waits_for_input() {
    let at = free_address();
    let (mut receive, mut send) = ends(at, at, &[], &["--give-up-after", "1"]);
    let input = types(&mut send, b"begin", &mut receive);
    receive.0.kill().unwrap();
    let status = send.wait();
    assert_eq!(status.code(), Some(1));
    let said = errors(&send.finish());
    assert!(said.contains("has gone before it had everything"), "{said}");
    drop(input);
}

/// F17, F25: the receiver is killed amid a transfer, or while the input pauses. This machine's
/// kernel answers each packet, so that the sender does not wait for `--give-up-after`.
#[test]
fn f17_f25_a_receiver_of_this_machine_that_was_killed_is_given_up_at_once() {
    for is_amid in [true, false] {
        let at = free_address();
        let (mut receive, mut send) = ends(at, at, &[], &[]);
        let mut input = types(&mut send, b"begin", &mut receive);
        receive.0.kill().unwrap();
        receive.wait();
        let begun = Instant::now();
        if is_amid {
            let _ = input.write_all(b"more");
        }
        assert_eq!(send.wait().code(), Some(1));
        let took = begun.elapsed();
        println!("figure: given up after {took:?}, amid a transfer: {is_amid}");
        // A sender without input asks after a third of the silence timeout.
        let most = if is_amid { 2 } else { 8 };
        assert!(took < Duration::from_secs(most), "{took:?}");
        let said = errors(&send.finish());
        assert!(said.contains("its process has ended"), "{said}");
    }
}

/// A command in a namespace of its own, where `hosts` says which addresses names have.
fn with_hosts(words: &[&str], hosts: &std::path::Path) -> Command {
    let line = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", line]).arg(hosts);
    let inner = suci(words);
    command.arg(inner.get_program()).args(inner.get_args());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// A name has addresses of both families, and the peer listens at either: each command finds it.
#[test]
fn f25_all_addresses_of_a_name_are_tried() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts");
    std::fs::write(&hosts, "::1 both\n127.0.0.1 both\n").unwrap();
    for ip in ["127.0.0.1", "[::1]"] {
        let port = free_address().port();
        let (at, to) = (format!("{ip}:{port}"), format!("both:{port}"));
        let begun = Instant::now();
        let receive = Running::start(&mut suci(&["cat", "--listen", &at]));
        let mut command = with_hosts(&["cat", &to], &hosts);
        let mut send = Running::start(&mut command);
        send.feed(b"found".to_vec());
        let sent = send.finish();
        assert!(sent.status.success(), "{}", errors(&sent));
        assert_eq!(receive.finish().stdout, b"found", "{at}");
        let mut ping = Running::start(&mut suci(&["ping", "--listen", &at]));
        assert!(ping.first_error_line().contains("answering"));
        let words = ["ping", &to, "--count", "2", "--interval", "0"];
        let pinged = output(&mut with_hosts(&words, &hosts));
        assert!(pinged.status.success(), "{}", errors(&pinged));
        println!(
            "figure: {at} found as both, twice within {:?}",
            begun.elapsed()
        );
    }
}

/// A name has two addresses, of which this machine has one: commands listen at that.
#[test]
fn f25_a_command_listens_at_the_address_of_a_name_that_this_machine_has() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts");
    let at = free_address();
    std::fs::write(&hosts, format!("192.0.2.1 both\n{} both\n", at.ip())).unwrap();
    let named = format!("both:{}", at.port());
    let mut listen = with_hosts(&["ping", "--listen", &named], &hosts);
    let mut listen = Running::start(&mut listen);
    assert!(listen.first_error_line().contains("answering"));
    let pinged = output(&mut suci(&["ping", &at.to_string(), "--count", "1"]));
    assert!(pinged.status.success(), "{}", errors(&pinged));
    let program = env!("CARGO_BIN_EXE_suci");
    let words = [
        "run",
        "-n",
        "2",
        "--address",
        "both",
        program,
        "ping",
        "--count",
        "1",
    ];
    let ran = output(&mut with_hosts(&words, &hosts));
    assert!(ran.status.success(), "{}", errors(&ran));
}

#[test]
fn a_second_sender_is_told_that_the_receiver_is_busy() {
    let at = free_address();
    let (mut receive, mut first) = ends(at, at, &[], &[]);
    let input = types(&mut first, b"first", &mut receive);
    let mut second = Running::start(&mut suci(&["cat", &at.to_string()]));
    second.feed(b"second".to_vec());
    let second = second.finish();
    assert_eq!(second.status.code(), Some(1));
    assert!(
        errors(&second).contains("serves another sender"),
        "{}",
        errors(&second)
    );
    drop(input);
    assert!(first.finish().status.success());
    let received = receive.finish();
    assert!(received.status.success() && received.stdout.is_empty());
}

#[test]
fn an_address_in_use_is_named() {
    let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let output = output(suci(&["cat", "--listen", &at]).stdin(Stdio::null()));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors(&output).contains(&format!("address {at} is in use")),
        "{}",
        errors(&output)
    );
}

#[test]
fn an_address_that_names_no_interface_is_told_how_to() {
    for args in [&["--listen", "[fe80::1]:7000"][..], &["[fe80::1]:7000"]] {
        let args = [&["cat", "--plain"], args].concat();
        let output = output(suci(&args).stdin(Stdio::null()));
        assert_eq!(output.status.code(), Some(1));
        let said = errors(&output);
        assert!(said.contains("as in [fe80::1%eth0]:7000"), "{said}");
    }
}

#[test]
fn an_address_that_nothing_can_reach_is_named() {
    for (at, part) in [
        ("127.0.0.1:0", "port 0"),
        ("[::ffff:127.0.0.1]:0", "port 0"),
        ("0.0.0.0:9", "not the address of one host"),
    ] {
        let output = output(suci(&["cat", "--plain", at]).stdin(Stdio::null()));
        assert_eq!(output.status.code(), Some(1));
        let said = errors(&output);
        assert!(
            said.contains("cannot be reached") && said.contains(part),
            "{said}"
        );
    }
}

#[test]
fn a_process_that_a_signal_ends_closes_its_node() {
    // The other side has the patience of a minute, and does not need it.
    for sender_ends in [true, false] {
        let at = free_address();
        let (mut receive, mut send) = ends(at, at, &[], &[]);
        let input = types(&mut send, b"begin", &mut receive);
        let (mut ended, mut left) = if sender_ends {
            (send, receive)
        } else {
            (receive, send)
        };
        let begun = Instant::now();
        kill_process(Pid::from_child(&ended.0), Signal::TERM).unwrap();
        assert_eq!(
            ended.wait().signal(),
            Some(15),
            "{}",
            errors(&ended.finish())
        );
        assert_eq!(left.wait().code(), Some(1));
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            begun.elapsed()
        );
        let said = errors(&left.finish());
        assert!(said.contains("it closed the connection"), "{said}");
        drop(input);
    }
}

#[test]
fn a_sender_says_soon_that_its_receiver_has_gone() {
    let at = free_address();
    let (mut receive, mut send) = ends(at, at, &[], &[]);
    // The receiver's output is not read: most data is still in flight.
    send.feed(noise(20_000_000));
    let mut first = [0];
    let output = receive.0.stdout.as_mut().unwrap();
    output.read_exact(&mut first).unwrap();
    kill_process(Pid::from_child(&receive.0), Signal::TERM).unwrap();
    assert_eq!(receive.wait().signal(), Some(15));
    let begun = Instant::now();
    assert_eq!(send.wait().code(), Some(1));
    // The time that the parting of a sender that has sent everything may take.
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    let said = errors(&send.finish());
    assert!(said.contains("it closed the connection"), "{said}");
}

#[test]
fn a_port_that_the_system_chose_is_told() {
    let mut receive = Running::start(&mut suci(&["cat", "--listen", "127.0.0.1:0"]));
    let said = receive.first_error_line();
    let at = said.strip_prefix("suci cat: receiving at ").unwrap();
    let mut send = Running::start(&mut suci(&["cat", at]));
    send.feed(b"found".to_vec());
    assert!(send.finish().status.success());
    assert_eq!(receive.finish().stdout, b"found");
}

/// Rust's start-up puts /dev/null where a standard descriptor is closed: the data would be gone,
/// and all would seem well.
#[test]
fn a_closed_end_is_no_success() {
    let at = free_address().to_string();
    let shell = |line: &str| {
        let mut sh = Command::new("sh");
        sh.args(["-c", line, "sh", crate::support::path(), &at]);
        sh
    };
    let received = output(&mut shell("exec \"$1\" cat --listen \"$2\" >&-"));
    assert_eq!(received.status.code(), Some(1));
    assert!(errors(&received).contains("standard output is closed"));
    let sent = output(&mut shell("exec \"$1\" cat \"$2\" <&-"));
    assert_eq!(sent.status.code(), Some(1));
    assert!(errors(&sent).contains("standard input is closed"));

    // If the shell throws the output away on purpose, that is no error.
    let mut receive = Running::start(&mut shell("exec \"$1\" cat --listen \"$2\" >/dev/null"));
    let sent = output(&mut shell("exec \"$1\" cat \"$2\" </dev/null"));
    assert!(sent.status.success(), "{}", errors(&sent));
    assert!(receive.wait().success());
}
