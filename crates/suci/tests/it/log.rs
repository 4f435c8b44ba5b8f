//! The log of `RUST_LOG=suci=debug` says why a connection does not come up.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, await_event, builder, introduce, take};
use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};
use suci::{AcceptPolicy, Event, Node, NodeId};
use tracing_subscriber::EnvFilter;

/// The log of this process.
static TEXT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Writer;

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = TEXT.lock().unwrap_or_else(PoisonError::into_inner);
        text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes this process log the events of `RUST_LOG=suci=debug` from now on. A helper thread may log
/// events of a program's call, so the subscriber is the process's.
fn log() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new("suci=debug"))
            .with_ansi(false)
            .without_time()
            .with_writer(|| Writer)
            .init();
    });
    // Another test may have met an event for the first time between two steps of `init`: then
    // `tracing` keeps it off (tokio-rs/tracing 2874) until it is asked to look again.
    tracing::callsite::rebuild_interest_cache();
}

/// The lines of node `id`. No other test may use it.
fn lines(id: u32) -> Vec<String> {
    let text = TEXT.lock().unwrap_or_else(PoisonError::into_inner);
    let text = String::from_utf8_lossy(&text);
    let named = format!(" node={id} ");
    let ours = text.lines().filter(|line| line.contains(&named));
    ours.map(str::to_owned).collect()
}

/// Whether a line of node `id` has all of `parts`.
fn says(id: u32, parts: &[&str]) -> bool {
    let has_all = |line: &String| parts.iter().all(|part| line.contains(part));
    lines(id).iter().any(has_all)
}

/// Drives `nodes` until node `id` logs a line with all of `parts`.
fn await_line(nodes: &mut [&mut Node], id: u32, parts: &[&str]) {
    let end = Instant::now() + LONG;
    while !says(id, parts) {
        assert!(Instant::now() < end, "{parts:?}: {:#?}", lines(id));
        for node in &mut *nodes {
            node.poll(Duration::from_millis(1)).unwrap();
        }
    }
}

fn open(id: u32) -> Node {
    log();
    builder(id).accept(AcceptPolicy::Anyone).open().unwrap()
}

/// Client `id` sends a message to `address`, where it expects node `to`.
fn call(id: u32, to: u32, address: SocketAddr) -> Node {
    let mut client = open(id);
    client.add_peer(NodeId(to), address).unwrap();
    client.send(NodeId(to), "hello").unwrap();
    client
}

#[test]
fn a_connection_that_comes_up_is_told_from_its_first_packet_to_its_end() {
    let (mut a, mut b) = (open(7_000), open(7_001));
    introduce(&mut a, &mut b);
    a.send(b.id(), "hello").unwrap();
    take(&mut b);
    for (id, peer) in [(7_000, "peer=7001"), (7_001, "peer=7000")] {
        await_line(&mut [&mut a, &mut b], id, &[peer, "connected", "epoch=0"]);
        await_line(
            &mut [&mut a, &mut b],
            id,
            &[peer, "peer is up", "session=0"],
        );
        await_line(&mut [], id, &["node opened", "recv_buffer=", "peer_limit="]);
    }
    for (sender, receiver, packet) in [
        (7_000, 7_001, "packet=HELLO"),
        (7_001, 7_000, "packet=COOKIE"),
        (7_000, 7_001, "packet=INIT"),
        (7_001, 7_000, "packet=ACCEPT"),
    ] {
        assert!(says(sender, &["packet sent", packet]), "{packet}");
        assert!(says(receiver, &["packet received", packet]), "{packet}");
    }
    a.close(LONG).unwrap();
    await_line(&mut [&mut b], 7_001, &["session ended", "reason=Closed"]);
    assert!(says(7_000, &["session ended", "reason=ClosedHere"]));
}

#[test]
fn a_wrong_address_is_told() {
    log();
    let nobody = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut client = builder(7_010)
        .silence_timeout(Duration::from_secs(1))
        .open()
        .unwrap();
    client.add_peer(NodeId(7_011), nobody).unwrap();
    client.send(NodeId(7_011), "hello").unwrap();
    let address = format!("address={nobody}");
    for parts in [
        ["packet=HELLO", "tries=2", &address],
        ["not delivered", "reason=Port", &address],
        ["peer is lost", "cause=Unreachable(Port)", &address],
    ] {
        await_line(&mut [&mut client], 7_010, &parts);
    }
}

#[test]
fn an_address_where_another_node_answers_is_told_on_both_sides() {
    let mut server = open(7_020);
    let mut client = call(7_021, 7_029, server.local_addr());
    let nodes = &mut [&mut server, &mut client];
    await_line(nodes, 7_020, &["refuses", "peer=7021", "reason=WrongNode"]);
    let refused = [
        "connection refused",
        "peer=7029",
        "reason=WrongNode",
        "remedy=",
    ];
    await_line(nodes, 7_021, &refused);
}

#[test]
fn a_node_that_is_not_in_the_book_is_told() {
    log();
    let mut server = builder(7_030).open().unwrap();
    let mut client = call(7_031, 7_030, server.local_addr());
    let nodes = &mut [&mut server, &mut client];
    await_line(nodes, 7_030, &["refuses", "peer=7031", "reason=NotAllowed"]);
    await_line(nodes, 7_031, &["connection refused", "reason=NotAllowed"]);
}

#[test]
fn a_full_server_is_told() {
    log();
    let server = builder(7_040).accept(AcceptPolicy::Anyone).max_peers(1);
    let mut server = server.open().unwrap();
    let mut first = call(7_041, 7_040, server.local_addr());
    await_line(&mut [&mut server, &mut first], 7_041, &["peer is up"]);
    let mut second = call(7_042, 7_040, server.local_addr());
    let nodes = &mut [&mut server, &mut second];
    await_line(
        nodes,
        7_040,
        &["refuses", "peer=7042", "reason=TooManyPeers"],
    );
    await_line(
        nodes,
        7_042,
        &["connection refused", "TooManyPeers", "max_peers"],
    );
}

#[test]
fn a_duplicate_node_id_is_told() {
    let mut server = open(7_050);
    let mut first = call(7_051, 7_050, server.local_addr());
    await_line(&mut [&mut server, &mut first], 7_051, &["peer is up"]);
    let mut second = call(7_051, 7_050, server.local_addr());
    let nodes = &mut [&mut server, &mut first, &mut second];
    await_line(nodes, 7_050, &["refuses", "peer=7051", "DuplicateNode"]);
    await_line(
        nodes,
        7_051,
        &["connection refused", "reason=DuplicateNode"],
    );
}

/// The first ACCEPT is lost.
#[test]
fn a_lost_answer_is_told() {
    let mut server = open(7_060);
    let relay = UdpSocket::bind("127.0.0.1:0").unwrap();
    relay.set_read_timeout(Some(LONG)).unwrap();
    let (at, to) = (relay.local_addr().unwrap(), server.local_addr());
    let carries = std::thread::spawn(move || {
        let (mut packet, mut client, mut accepts) = ([0; 65_536], None, 0);
        while accepts < 2 {
            let (len, from) = relay.recv_from(&mut packet).unwrap();
            let accept = packet[0] & 15 == 4;
            accepts += u32::from(accept);
            if from != to {
                client = Some(from);
            }
            let to = if from == to { client.unwrap() } else { to };
            if !(accept && accepts == 1) {
                relay.send_to(&packet[..len], to).unwrap();
            }
        }
    });
    let mut client = call(7_061, 7_060, at);
    let nodes = &mut [&mut server, &mut client];
    await_line(nodes, 7_061, &["packet=INIT", "tries=2"]);
    await_line(nodes, 7_060, &["packet sent", "packet=ACCEPT", "tries=2"]);
    await_line(nodes, 7_061, &["connected"]);
    carries.join().unwrap();
}

#[test]
fn f04_noise_does_not_flood_the_log() {
    let mut server = open(7_080);
    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    let began = Instant::now();
    for _ in 0..200 {
        for _ in 0..50 {
            noise
                .send_to(b"no packet at all", server.local_addr())
                .unwrap();
        }
        server.poll(Duration::ZERO).unwrap();
    }
    await_line(&mut [&mut server], 7_080, &["too many events", "records="]);
    let seconds = began.elapsed().as_secs() as usize + 1;
    let dropped = lines(7_080);
    let dropped = dropped
        .iter()
        .filter(|line| line.contains("packet dropped"));
    let count = dropped.count();
    assert!((100..=100 * (seconds + 1)).contains(&count), "{count}");
    assert!(says(
        7_080,
        &["packet dropped", "reason=shorter than a header"]
    ));
}

/// Threads that serve a node log, too.
#[test]
fn a_node_that_threads_serve_logs_its_peers() {
    log();
    let server = builder(7_090).accept(AcceptPolicy::Anyone);
    let server = server.open_threads(2).unwrap();
    let mut client = call(7_091, 7_090, server.local_addr());
    await_event(&mut client, |event| matches!(event, Event::Up { .. }));
    await_line(&mut [&mut client], 7_090, &["peer is up", "peer=7091"]);
}
