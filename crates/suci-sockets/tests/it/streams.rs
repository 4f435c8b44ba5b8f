//! Streams: bytes, directions, waits, addresses.

use crate::nodes::{at, node, pair};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use suci::NodeId;
use suci_sockets::{Address, MessageSocket, SuciListener, SuciStream};

#[test]
fn bytes_arrive_in_order_and_then_the_end() {
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    let sent: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 / 3) as u8).collect();
    let expected = sent.clone();
    let reader = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(b"thanks").unwrap();
        all
    });
    let mut stream = SuciStream::connect(&client, at(80)).unwrap();
    stream.write_all(&sent).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "thanks");
    assert!(reader.join().unwrap() == expected);
    assert_eq!(
        stream.write(b"x").unwrap_err().kind(),
        ErrorKind::BrokenPipe
    );
    let both = stream.shutdown(Shutdown::Both).unwrap_err();
    assert_eq!(both.kind(), ErrorKind::Unsupported);
}

#[test]
fn addresses_are_those_of_both_ends() {
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 0).unwrap();
    let at_server = listener.local_addr();
    assert!(at_server.port >= 32_768 && at_server.node == NodeId(0));
    let stream = SuciStream::connect(&client, at_server).unwrap();
    let (accepted, peer) = listener.accept().unwrap();
    assert_eq!(
        (stream.peer_addr(), accepted.local_addr()),
        (at_server, at_server)
    );
    assert_eq!(
        (accepted.peer_addr(), peer),
        (stream.local_addr(), stream.local_addr())
    );
    assert_eq!(peer.node, NodeId(1));
    assert!(peer.port >= 32_768);
}

#[test]
fn a_port_has_one_socket_and_is_free_after_it() {
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    let kind = |port| {
        SuciListener::bind(&server, port)
            .map(drop)
            .map_err(|e| e.kind())
    };
    assert_eq!(kind(80), Err(ErrorKind::AddrInUse));
    let stream = SuciStream::connect_from(&client, 4000, at(80)).unwrap();
    assert_eq!(stream.local_addr().port, 4000);
    let again = SuciStream::connect_from(&client, 4000, at(80));
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AddrInUse);
    let (accepted, _) = listener.accept().unwrap();
    drop(listener);
    // The accepted connection does not hold the port.
    assert_eq!(kind(80), Ok(()));
    drop(stream);
    assert!(SuciStream::connect_from(&client, 4000, at(80)).is_ok());
    drop(accepted);
}

#[test]
fn calls_wait_as_long_as_they_may() {
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    listener.set_nonblocking(true);
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    let mut stream = SuciStream::connect(&client, at(80)).unwrap();
    listener.set_nonblocking(false);
    let (_accepted, _) = listener.accept().unwrap();
    let mut byte = [0];
    let limit = Duration::from_millis(50);
    stream.set_read_timeout(Some(limit)).unwrap();
    assert_eq!(stream.read_timeout(), Some(limit));
    let began = Instant::now();
    assert_eq!(
        stream.read(&mut byte).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    assert!(began.elapsed() >= limit);
    let zero = stream.set_read_timeout(Some(Duration::ZERO));
    assert_eq!(zero.unwrap_err().kind(), ErrorKind::InvalidInput);
    stream.set_nonblocking(true);
    assert_eq!(
        stream.read(&mut byte).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    // Nobody reads: the window fills.
    let full = loop {
        if let Err(error) = stream.write(&[0; 4096]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    stream.set_nonblocking(false);
    stream.set_write_timeout(Some(limit)).unwrap();
    assert_eq!(
        stream.write(&[0; 4096]).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}

#[test]
fn a_connection_opens_while_its_program_does_other_things() {
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    let stream = SuciStream::connect_from(&client, 0, at(80)).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.write_all(b"hello").unwrap();
    let mut bytes = [0; 5];
    (&stream).read_exact(&mut bytes).unwrap();
    let connected = stream.poll_connected(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(connected, Poll::Ready(Ok(()))));
}

#[test]
fn connections_are_refused_for_the_reasons_that_programs_know() {
    let (server, client) = pair();
    let refused = |port| SuciStream::connect(&client, at(port)).unwrap_err();
    let nobody = refused(9);
    assert_eq!(nobody.kind(), ErrorKind::ConnectionRefused);
    assert!(nobody.to_string().contains("port 9 of node 0"), "{nobody}");
    let _messages = suci_sockets::MessageListener::bind(&server, 10).unwrap();
    assert_eq!(refused(10).kind(), ErrorKind::ConnectionRefused);
    assert!(MessageSocket::connect(&client, at(10)).is_ok());
    let unknown = Address {
        node: NodeId(77),
        port: 80,
    };
    let unknown = SuciStream::connect(&client, unknown).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::HostUnreachable);
}

#[test]
fn a_node_without_threads_refuses() {
    let mut server = suci::Node::builder()
        .id(NodeId(0))
        .accept(suci::AcceptPolicy::Anyone)
        .open()
        .unwrap();
    let client = node(1, 1);
    client.add_peer(NodeId(0), server.local_addr()).unwrap();
    let refused = thread::spawn(move || SuciStream::connect(&client, at(80)).unwrap_err());
    while !refused.is_finished() {
        let _ = server.recv_timeout(Duration::from_millis(10));
    }
    assert_eq!(refused.join().unwrap().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_full_backlog_refuses_at_once() {
    let (server, client) = pair();
    let listener = SuciListener::with_backlog(&server, 80, 2).unwrap();
    let _waiting = [(); 2].map(|()| SuciStream::connect(&client, at(80)).unwrap());
    for _ in 0..100 {
        let refused = SuciStream::connect(&client, at(80)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert!(refused.to_string().contains("backlog"), "{refused}");
    }
    listener.accept().unwrap();
    assert!(SuciStream::connect(&client, at(80)).is_ok());
}

#[test]
fn a_node_connects_to_itself() {
    let node = node(0, 2);
    let listener = SuciListener::bind(&node, 80).unwrap();
    let mut stream = SuciStream::connect(&node, at(80)).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    stream.write_all(b"myself").unwrap();
    drop(stream);
    let mut all = String::new();
    accepted.read_to_string(&mut all).unwrap();
    assert_eq!(all, "myself");
}

#[test]
fn several_threads_use_one_stream_and_several_shards_one_listener() {
    let (server, client) = (node(0, 2), node(1, 2));
    let other = node(2, 1);
    for client in [&client, &other] {
        client.add_peer(NodeId(0), server.local_addr()).unwrap();
    }
    let listener = SuciListener::bind(&server, 80).unwrap();
    let streams = [&client, &other].map(|node| SuciStream::connect(node, at(80)).unwrap());
    let accepted = [(); 2].map(|()| listener.accept().unwrap().0);
    const EACH: usize = 200_000;
    thread::scope(|scope| {
        for stream in &streams {
            for byte in 1..=2 {
                scope.spawn(move || (&*stream).write_all(&vec![byte; EACH]).unwrap());
            }
        }
        for mut stream in &accepted {
            scope.spawn(move || {
                let mut all = vec![0; 2 * EACH];
                stream.read_exact(&mut all).unwrap();
                let ones = all.iter().filter(|byte| **byte == 1).count();
                assert_eq!(ones, EACH);
            });
        }
    });
}

#[test]
fn futures_work_without_threads() {
    let (server, client) = pair();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.build().unwrap();
    runtime.block_on(async {
        let listener = SuciListener::bind(&server, 80).unwrap();
        let stream = SuciStream::connect_async(&client, at(80)).await.unwrap();
        let (accepted, _) = listener.accept_async().await.unwrap();
        assert_eq!(stream.write_async(b"async").await.unwrap(), 5);
        let mut bytes = [0; 16];
        let read = accepted.read_async(&mut bytes).await.unwrap();
        assert_eq!(bytes.get(..read).unwrap(), b"async");
    });
}
