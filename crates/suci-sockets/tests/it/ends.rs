//! Ends: closes, resets, nodes that close and start anew.

use crate::nodes::{at, node, pair};
use std::io::{ErrorKind, Read, Write};
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};
use suci::NodeId;
use suci_sockets::{SuciListener, SuciStream};

const PATIENCE: Duration = Duration::from_secs(5);

/// Far longer than anything takes that does not wait for it.
const LONG: Duration = Duration::from_secs(40);

#[test]
fn a_closed_socket_keeps_what_was_not_read() {
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    let mut stream = SuciStream::connect(&client, at(80)).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    stream.write_all(b"unread").unwrap();
    drop(stream);
    // The peer's node goes, too.
    client.close(PATIENCE).unwrap();
    let mut all = String::new();
    accepted.read_to_string(&mut all).unwrap();
    assert_eq!(all, "unread");
    let broken = accepted.write(b"x").unwrap_err();
    assert_eq!(broken.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn data_that_its_program_never_reads_is_dropped_with_the_socket() {
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    for _ in 0..50 {
        let mut stream = SuciStream::connect(&client, at(80)).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        stream.write_all(&[1; 60_000]).unwrap();
        drop(accepted);
        // The end comes, whatever was not read there.
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn a_node_that_closes_resets_its_open_sockets() {
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    let mut stream = SuciStream::connect(&client, at(80)).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    let waiting = thread::spawn(move || accepted.read(&mut [0]).unwrap_err().kind());
    let accepting = thread::spawn(move || listener.accept().unwrap_err().kind());
    thread::sleep(Duration::from_millis(20));
    server.close(PATIENCE).unwrap();
    let reset = stream.read(&mut [0]).unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    assert_eq!(waiting.join().unwrap(), ErrorKind::NotConnected);
    assert_eq!(accepting.join().unwrap(), ErrorKind::InvalidInput);
}

#[test]
fn a_node_that_starts_anew_takes_connections() {
    let (server, client) = pair();
    let address = server.local_addr();
    let listener = SuciListener::bind(&server, 80).unwrap();
    let mut stream = SuciStream::connect(&client, at(80)).unwrap();
    drop(listener);
    server.close(Duration::ZERO).ok();
    drop(server);
    let anew = suci::Node::builder()
        .id(NodeId(0))
        .listen(address)
        .accept(suci::AcceptPolicy::Anyone)
        .open_threads(1)
        .unwrap();
    let listener = SuciListener::bind(&anew, 80).unwrap();
    let mut again = SuciStream::connect(&client, at(80)).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    again.write_all(b"again").unwrap();
    let mut bytes = [0; 5];
    accepted.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"again");
    let reset = stream.read(&mut [0]).unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_client_that_gives_up_leaves_nothing_to_accept() {
    let (server, client) = pair();
    let listener = SuciListener::with_backlog(&server, 80, 1).unwrap();
    for _ in 0..200 {
        drop(SuciStream::connect_from(&client, 0, at(80)));
    }
    // Some were quick enough to connect and close; none holds up the next.
    let mut stream = loop {
        match SuciStream::connect(&client, at(80)) {
            Ok(stream) => break stream,
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionRefused),
        }
        listener.set_nonblocking(true);
        drop(listener.accept());
    };
    stream.write_all(b"x").unwrap();
}

#[test]
fn a_node_that_closes_does_not_wait_for_connections_that_never_opened() {
    for is_dropped in [false, true] {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = node(1, 1);
        let address = silent.local_addr().unwrap();
        client.add_peer(NodeId(0), address).unwrap();
        let stream = SuciStream::connect_from(&client, 0, at(80)).unwrap();
        // Its OPEN is with the engine once a HELLO was sent.
        silent.recv(&mut [0; 2048]).unwrap();
        let held = (!is_dropped).then_some(stream);
        let began = Instant::now();
        client.close(LONG).unwrap();
        assert!(began.elapsed() < LONG / 2, "dropped: {is_dropped}");
        drop(held);
    }
}

/// F25: nobody has the port, from the start or after the process ended. Connections are refused at
/// once, as by TCP, each time.
#[test]
fn f25_a_port_where_no_process_answers_refuses_at_once() {
    let mut longest = Duration::ZERO;
    for (is_met, threads) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
        let (client, server) = (node(1, threads), node(0, 1));
        client.add_peer(NodeId(0), server.local_addr()).unwrap();
        if is_met {
            let listener = SuciListener::bind(&server, 80).unwrap();
            drop(SuciStream::connect(&client, at(80)).unwrap());
            drop(listener);
        }
        server.close(PATIENCE).unwrap();
        drop(server);
        for _ in 0..5 {
            let began = Instant::now();
            let error = SuciStream::connect(&client, at(80)).unwrap_err();
            longest = longest.max(began.elapsed());
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
        }
    }
    println!("figure: refused after {longest:?} at most");
    assert!(longest < Duration::from_secs(1), "{longest:?}");
}

/// F25: a client that tries again and again connects when the server is there, and finds nothing
/// left of the earlier attempts.
#[test]
fn f25_attempts_that_were_refused_leave_nothing_to_accept() {
    let client = node(1, 1);
    let reserved = node(0, 1);
    let address = reserved.local_addr();
    reserved.close(PATIENCE).unwrap();
    drop(reserved);
    client.add_peer(NodeId(0), address).unwrap();
    for _ in 0..20 {
        let error = SuciStream::connect(&client, at(80)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    }
    let server = suci::Node::builder().id(NodeId(0)).listen(address);
    let server = server.accept(suci::AcceptPolicy::Anyone).open_threads(1);
    let listener = SuciListener::bind(&server.unwrap(), 80).unwrap();
    let mut stream = SuciStream::connect(&client, at(80)).unwrap();
    stream.write_all(b"x").unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.read_exact(&mut [0]).unwrap();
    listener.set_nonblocking(true);
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn port_0_refuses_at_once() {
    let (_server, client) = pair();
    let began = Instant::now();
    let error = SuciStream::connect(&client, at(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    assert!(began.elapsed() < PATIENCE);
}
