//! Many sockets: at once, one after the other, and never accepted.

use crate::nodes::{at, node, pair};
use std::io::{ErrorKind, Read, Write};
use std::thread;
use suci::NodeId;
use suci_sockets::{SuciListener, SuciStream};

/// Returns the resident memory of the process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// Serves each connection until its peer closes, all in this thread.
fn echo(listener: &SuciListener, count: usize) {
    for _ in 0..count {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
    }
}

#[test]
fn ten_thousand_sockets_are_open_at_once() {
    const COUNT: usize = 10_000;
    let (server, client) = pair();
    let listener = SuciListener::with_backlog(&server, 80, 1024).unwrap();
    let before = resident();
    let accepting = thread::spawn(move || -> Vec<SuciStream> {
        (0..COUNT).map(|_| listener.accept().unwrap().0).collect()
    });
    let mut clients: Vec<_> = (0..COUNT)
        .map(|_| SuciStream::connect(&client, at(80)).unwrap())
        .collect();
    let mut accepted = accepting.join().unwrap();
    let each = resident().saturating_sub(before) / (2 * COUNT as u64);
    println!("{each} bytes for each socket");
    assert!(each < 2_000, "{each} bytes for each socket");
    // All of them work, and memory stays.
    let full = resident();
    for round in 0..3u8 {
        for client in &mut clients {
            client.write_all(&[round; 100]).unwrap();
        }
        for accepted in &mut accepted {
            let mut bytes = [0; 100];
            accepted.read_exact(&mut bytes).unwrap();
            assert_eq!(bytes, [round; 100]);
        }
    }
    let grown = resident().saturating_sub(full);
    assert!(grown < 16 << 20, "{grown} bytes more");
}

#[test]
fn a_thousand_connections_come_and_go() {
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    let run = |count: usize| {
        thread::scope(|scope| {
            scope.spawn(|| echo(&listener, count));
            for index in 0..count as u32 {
                let mut stream = SuciStream::connect(&client, at(80)).unwrap();
                stream.write_all(&index.to_le_bytes()).unwrap();
                let mut bytes = [0; 4];
                stream.read_exact(&mut bytes).unwrap();
                assert_eq!(u32::from_le_bytes(bytes), index);
            }
        });
    };
    run(1000);
    let before = resident();
    run(1000);
    let grown = resident().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes more");
}

#[test]
fn a_listener_keeps_serving_under_opens_that_are_never_accepted() {
    let (server, client) = pair();
    let flooder = node(2, 1);
    flooder.add_peer(NodeId(0), server.local_addr()).unwrap();
    let flooded = SuciListener::with_backlog(&server, 81, 64).unwrap();
    let served = SuciListener::bind(&server, 80).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut open = Vec::new();
            let mut refused = 0;
            for _ in 0..2000 {
                match SuciStream::connect(&flooder, at(81)) {
                    Ok(stream) => open.push(stream),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
                        refused += 1;
                    }
                }
            }
            assert_eq!((open.len(), refused), (64, 1936));
        });
        scope.spawn(|| echo(&served, 100));
        for _ in 0..100 {
            let mut stream = SuciStream::connect(&client, at(80)).unwrap();
            stream.write_all(b"ping").unwrap();
            let mut bytes = [0; 4];
            stream.read_exact(&mut bytes).unwrap();
        }
    });
    drop(flooded);
}

#[test]
fn many_sockets_echo_at_once() {
    const COUNT: usize = 50;
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let accepted: Vec<_> = (0..COUNT).map(|_| listener.accept().unwrap().0).collect();
            for stream in accepted {
                scope.spawn(move || std::io::copy(&mut &stream, &mut &stream).unwrap());
            }
        });
        for index in 0..COUNT {
            let client = &client;
            scope.spawn(move || {
                let stream = SuciStream::connect(client, at(80)).unwrap();
                let sent = vec![index as u8; 100_000];
                let reader = stream.clone();
                let reading = scope.spawn(move || {
                    let mut all = vec![0; 100_000];
                    (&reader).read_exact(&mut all).unwrap();
                    all
                });
                (&stream).write_all(&sent).unwrap();
                assert!(reading.join().unwrap() == sent);
            });
        }
    });
}
