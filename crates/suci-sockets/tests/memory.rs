//! The memory of many sockets, measured in a process without other tests.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "it/nodes.rs"]
mod nodes;

use nodes::{at, node, pair};
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};
use suci::{NodeId, SharedNode};
use suci_sockets::{SuciListener, SuciStream};

/// Set for the long form: a minute of connections, and more forged packets.
const FULL: &str = "SUCI_TEST_FULL";

/// The most that memory may grow while connections come and go.
const GROWTH: u64 = 8 << 20;

#[test]
fn memory_stays_flat() {
    a_thousand_connections_come_and_go();
    f01_a_listener_serves_while_opens_are_forged();
    if is_full() {
        a_minute_of_connections();
    }
    ten_thousand_sockets_are_open_at_once();
}

fn is_full() -> bool {
    std::env::var_os(FULL).is_some()
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

/// The word of a visit that is the last one.
const LAST: u32 = u32::MAX;

/// Serves so many connections, all in this thread.
fn echo(listener: &SuciListener, count: usize) {
    for _ in 0..count {
        echo_one(listener);
    }
}

/// Serves a connection, and returns its word.
fn echo_one(listener: &SuciListener) -> u32 {
    let (mut stream, _) = listener.accept().unwrap();
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).unwrap();
    stream.write_all(&bytes).unwrap();
    u32::from_le_bytes(bytes)
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
    println!("figure: {COUNT} connections at once, {each} B for each socket");
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

/// Connects, exchanges a word, and closes.
fn visit(client: &SharedNode, index: u32) {
    let mut stream = SuciStream::connect(client, at(80)).unwrap();
    stream.write_all(&index.to_le_bytes()).unwrap();
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(u32::from_le_bytes(bytes), index);
}

fn a_thousand_connections_come_and_go() {
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    let run = |count: u32| {
        thread::scope(|scope| {
            scope.spawn(|| echo(&listener, count as usize));
            (0..count).for_each(|index| visit(&client, index));
        });
    };
    run(1000);
    let before = resident();
    run(1000);
    let grown = resident().saturating_sub(before);
    assert!(grown < GROWTH, "{grown} bytes more");
}

/// A thousand connects and closes a second for a minute.
fn a_minute_of_connections() {
    const PACE: Duration = Duration::from_millis(1);
    const WARM: u32 = 5_000;
    const COUNT: u32 = 60_000;
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| echo(&listener, (WARM + COUNT) as usize));
        (0..WARM).for_each(|index| visit(&client, index));
        let (before, begun) = (resident(), Instant::now());
        for index in 0..COUNT {
            let due = begun + PACE * index;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            visit(&client, index);
        }
        let seconds = begun.elapsed().as_secs_f64();
        let grown = resident().saturating_sub(before);
        let rate = f64::from(COUNT) / seconds;
        println!("figure: {rate:.0} connections/s for {seconds:.0} s, {grown} B more memory");
        assert!(rate > 990.0, "{rate} connections/s");
        assert!(grown < GROWTH, "{grown} bytes more");
    });
}

/// Returns the first packet with which a node asks node 0 for a connection.
fn hello() -> Vec<u8> {
    let caught = UdpSocket::bind("127.0.0.1:0").unwrap();
    let node = node(9, 1);
    node.add_peer(NodeId(0), caught.local_addr().unwrap())
        .unwrap();
    let _stream = SuciStream::connect_from(&node, 0, at(80)).unwrap();
    let mut bytes = [0; 2048];
    let length = caught.recv(&mut bytes).unwrap();
    bytes[..length].to_vec()
}

/// Packets from addresses that never answer ask for connections. The server keeps nothing for them,
/// and others are served all the while.
fn f01_a_listener_serves_while_opens_are_forged() {
    const VISITS: u32 = 100;
    let count: u32 = if is_full() { 100_000 } else { 10_000 };
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    let hello = hello();
    let forgers: Vec<_> = (0..64)
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    let forge = |count: u32| {
        for forger in forgers.iter().cycle().take(count as usize) {
            // The server's kernel may have no room for it.
            let _ = forger.send_to(&hello, server.local_addr());
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| while echo_one(&listener) != LAST {});
        (0..VISITS).for_each(|index| visit(&client, index));
        forge(100);
        // The packet is one that is answered: by a question that no forger can read.
        forgers[0].recv(&mut [0; 2048]).unwrap();
        let before = resident();
        let forging = scope.spawn(|| forge(count));
        let seconds = visits_of_seconds(&client, || forging.is_finished());
        forging.join().unwrap();
        let grown = resident().saturating_sub(before);
        visit(&client, LAST);
        println!(
            "figure: {count} forged opens, {seconds:?} served in each second of them, {grown} B \
             more memory"
        );
        // The short form is over too soon for that, and may share the machine.
        assert!(!is_full() || !seconds.contains(&0), "{seconds:?} served");
        assert!(grown < GROWTH, "{grown} bytes more");
    });
}

/// Visits until all is over, once at least. Returns the visits of each second.
fn visits_of_seconds(client: &SharedNode, is_over: impl Fn() -> bool) -> Vec<u32> {
    let begun = Instant::now();
    let mut seconds = Vec::new();
    for index in 0.. {
        visit(client, index);
        let second = usize::try_from(begun.elapsed().as_secs()).unwrap();
        seconds.resize(seconds.len().max(second + 1), 0);
        seconds[second] += 1;
        if is_over() {
            break;
        }
    }
    seconds
}
