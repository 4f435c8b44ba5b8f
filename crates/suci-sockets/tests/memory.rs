//! The memory of many sockets, measured in a process without other tests.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "it/nodes.rs"]
mod nodes;

use nodes::{at, pair};
use std::io::{Read, Write};
use std::thread;
use suci_sockets::{SuciListener, SuciStream};

#[test]
fn memory_stays_flat() {
    a_thousand_connections_come_and_go();
    ten_thousand_sockets_are_open_at_once();
}

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
