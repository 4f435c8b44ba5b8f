//! A node's numbers as others see them: the statistics file, and Prometheus.
#![expect(clippy::unwrap_used, clippy::expect_used)] // A test may panic.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use suci::statistics::{self, Snapshot};
use suci::{AcceptPolicy, LinkState, Node, NodeBuilder, NodeId};

const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the content of the file of this process's node `node`, as soon as it is `enough`.
fn read_until(node: NodeId, enough: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = statistics::find().into_iter();
        let mut ours = found.filter(|f| f.pid == std::process::id() && f.node == node);
        let read = ours.next().and_then(|f| f.open().ok()?.read().ok());
        match read {
            Some(read) if enough(&read) => return read,
            read => assert!(Instant::now() < end, "not in the file: {read:?}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn has_file(node: NodeId) -> bool {
    let mut found = statistics::find().into_iter();
    found.any(|f| f.pid == std::process::id() && f.node == node)
}

/// An address on loopback whose port was free a moment ago. Each is of another host than all others
/// here, so that no other test takes it meanwhile.
fn free() -> SocketAddr {
    static HOSTS: AtomicU8 = AtomicU8::new(1);
    let host = Ipv4Addr::new(127, 0, 26, HOSTS.fetch_add(1, Ordering::Relaxed));
    let listener = TcpListener::bind((host, 0)).unwrap();
    listener.local_addr().unwrap()
}

/// Nodes of this process with IDs of their own: tests run side by side.
fn pair(first: u32, change: impl Fn(NodeBuilder) -> NodeBuilder) -> (Node, Node) {
    let (a, b) = (NodeId(first), NodeId(first + 1));
    let open = |id| {
        change(Node::builder().id(id).accept(AcceptPolicy::Anyone))
            .open()
            .unwrap()
    };
    let (mut here, there) = (open(a), open(b));
    here.add_peer(b, there.local_addr()).unwrap();
    (here, there)
}

fn exchange(here: &mut Node, there: &mut Node, messages: u64) {
    for _ in 0..messages {
        here.send_copy(there.id(), &[7; 1_000]).unwrap();
        there.recv_timeout(PATIENCE).unwrap().expect("the message");
    }
    here.flush(PATIENCE).unwrap();
}

#[test]
fn the_file_follows_the_node_while_its_program_does_something_else() {
    let (mut here, mut there) = pair(1_000, |b| b);
    exchange(&mut here, &mut there, 50);
    // Neither program calls its node from here on: the helper publishes the rest.
    let seen = |read: &Snapshot| read.counters.messages_sent == 50 && read.peers.len() == 1;
    let read = read_until(here.id(), seen);
    assert_eq!(read.address, Some(here.local_addr()));
    let peer = read.peers[0];
    assert_eq!((peer.node, peer.link), (there.id(), LinkState::Up));
    assert_eq!(peer.address, Some(there.local_addr()));
    assert_eq!(peer.traffic.message_bytes_sent, 50_000);
    let got = |read: &Snapshot| {
        let traffic = read.peers.first().map(|stats| stats.traffic);
        traffic.is_some_and(|traffic| traffic.message_bytes_received == 50_000)
    };
    read_until(there.id(), got);
    // The program's numbers are those published. If a packet came in between, both are read again.
    let end = Instant::now() + PATIENCE;
    loop {
        let own = here.peer(there.id()).stats().unwrap().unwrap();
        // Longer than the helper waits before it serves a node that is not called.
        std::thread::sleep(Duration::from_millis(300));
        let read = read_until(here.id(), |_| true);
        if read.peers[0].traffic == own.traffic {
            break;
        }
        assert!(Instant::now() < end, "{own:?}, and in the file: {read:?}");
    }
}

#[test]
fn the_file_goes_with_the_node() {
    let (mut here, mut there) = pair(1_010, |b| b);
    exchange(&mut here, &mut there, 1);
    assert!(has_file(here.id()) && has_file(there.id()));
    here.close(PATIENCE).unwrap();
    assert!(!has_file(here.id()), "closed");
    drop(there);
    assert!(!has_file(NodeId(1_011)), "dropped");
}

#[test]
fn a_threads_node_has_a_file_too() {
    let id = NodeId(1_020);
    let node = Node::builder().id(id).open_threads(1).unwrap();
    assert_eq!(read_until(id, |_| true).address, Some(node.local_addr()));
    node.close(PATIENCE).unwrap();
    assert!(!has_file(id));
}

#[test]
fn without_statistics_there_is_no_file() {
    let (mut here, mut there) = pair(1_030, |b| b.statistics(false));
    exchange(&mut here, &mut there, 1);
    assert!(!has_file(here.id()) && !has_file(there.id()));
}

/// One request, and the answer's head and body.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an empty line");
    (head.to_owned(), body.to_owned())
}

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";

fn scrape_until(address: SocketAddr, line: &str) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let (head, body) = ask(address, GET);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        if body.lines().any(|other| other == line) {
            return body;
        }
        assert!(Instant::now() < end, "no {line} in:\n{body}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The text follows format 0.0.4: every sample has a name with HELP and TYPE before it, once, and a
/// number.
fn assert_exposition(text: &str) {
    let mut typed = std::collections::BTreeSet::new();
    let mut samples = std::collections::BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(matches!(kind, "counter" | "gauge"), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(typed.insert(name.to_owned()), "twice: {line}");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap();
            assert!(typed.contains(name), "no type: {line}");
            assert!(
                labels.starts_with("node=\"") && labels.ends_with("\"}"),
                "{line}"
            );
            assert!(value.parse::<f64>().unwrap() >= 0.0, "{line}");
            assert!(samples.insert(series.to_owned()), "twice: {line}");
        }
    }
    assert!(text.ends_with('\n') && samples.len() > 60);
}

#[test]
fn prometheus_reads_the_counters() {
    let address = free();
    let (here, there) = (NodeId(1_040), NodeId(1_041));
    let mut here = Node::builder().id(here).metrics(address).open().unwrap();
    let mut there = Node::builder()
        .id(there)
        .accept(AcceptPolicy::Anyone)
        .open()
        .unwrap();
    here.add_peer(there.id(), there.local_addr()).unwrap();
    exchange(&mut here, &mut there, 20);
    let text = scrape_until(
        address,
        "suci_peer_messages_sent_total{node=\"1040\",peer=\"1041\"} 20",
    );
    assert_exposition(&text);
    for line in [
        "suci_node_messages_sent_total{node=\"1040\"} 20",
        "suci_peer_up{node=\"1040\",peer=\"1041\"} 1",
        "suci_peer_waits_total{node=\"1040\",peer=\"1041\",reason=\"link\"} 1",
        "# TYPE suci_peer_rtt_seconds gauge",
    ] {
        assert!(
            text.lines().any(|other| other == line),
            "no {line} in:\n{text}"
        );
    }
    drop(here);
    assert!(TcpStream::connect(address).is_err(), "it still listens");
}

/// A program that wants no file may want Prometheus.
#[test]
fn metrics_need_no_file() {
    let (id, address) = (NodeId(1_050), free());
    let node = Node::builder().id(id).statistics(false).metrics(address);
    let node = node.open_threads(1).unwrap();
    scrape_until(address, "suci_node_peers{node=\"1050\"} 0");
    assert!(!has_file(id));
    drop(node);
}

#[test]
fn other_requests_are_answered_as_such() {
    let address = free();
    let _node = Node::builder()
        .id(NodeId(1_060))
        .metrics(address)
        .open()
        .unwrap();
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("GET /metrics?name=x HTTP/1.0\r\n\r\n", "200"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "400"),
        ("nonsense\r\n\r\n", "400"),
        ("\r\n\r\n", "400"),
    ] {
        let (head, _) = ask(address, request);
        let expected = format!("HTTP/1.1 {status} ");
        assert!(head.starts_with(&expected), "{request:?}: {head}");
    }
}

/// Requests without end are cut off, by their length or by time. The next client is answered.
#[test]
fn a_scraper_that_never_ends_its_request_does_not_last() {
    let address = free();
    let node = Node::builder()
        .id(NodeId(1_070))
        .metrics(address)
        .open()
        .unwrap();
    let mut endless = TcpStream::connect(address).unwrap();
    let junk = [b'x'; 1024];
    let cut = (0..10_000).any(|_| endless.write_all(&junk).is_err());
    assert!(cut, "ten megabytes of request were read");

    let silent = TcpStream::connect(address).unwrap();
    let begun = Instant::now();
    scrape_until(address, "suci_node_peers{node=\"1070\"} 0");
    assert!(begun.elapsed() < PATIENCE);
    drop(silent);

    // A node does not wait for a scraper when it closes.
    let _silent = TcpStream::connect(address).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let begun = Instant::now();
    drop(node);
    assert!(begun.elapsed() < Duration::from_secs(4));
}

/// However many there are.
#[test]
fn silent_connections_hold_up_no_scraper() {
    let address = free();
    let _node = Node::builder()
        .id(NodeId(1_090))
        .metrics(address)
        .open()
        .unwrap();
    for count in [3, 15, 40] {
        let silent: Vec<_> = (0..count)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let begun = Instant::now();
        for _ in 0..3 {
            let (head, _) = ask(address, GET);
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        }
        let taken = begun.elapsed();
        assert!(taken < Duration::from_secs(3), "{count}: {taken:?}");
        drop(silent);
    }
    // A scraper whose request comes later than many connections, since it is far away.
    let mut far = TcpStream::connect(address).unwrap();
    let open = || TcpStream::connect(address).unwrap();
    let _silent: Vec<_> = std::iter::repeat_with(open).take(40).collect();
    let _brief: Vec<_> = std::iter::repeat_with(open)
        .take(40)
        .inspect(|mut client| client.write_all(b"G").unwrap())
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    far.write_all(GET.as_bytes()).unwrap();
    let mut answer = String::new();
    far.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    // A request in pieces is still one.
    let mut slow = TcpStream::connect(address).unwrap();
    for piece in [&GET[..9], &GET[9..20], &GET[20..]] {
        slow.write_all(piece.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(
        answer.contains("suci_node_peers{node=\"1090\"} 0\n"),
        "{answer}"
    );
}

/// Clients that send what no scraper sends, that never read their answer, or that go in the middle
/// of it. None is told its own bytes, a scraper is answered after each, and the node goes on.
#[test]
fn hostile_clients_hold_up_neither_scrapers_nor_the_node() {
    let address = free();
    let (here, there) = (NodeId(1_100), NodeId(1_101));
    let mut here = Node::builder().id(here).metrics(address).open().unwrap();
    let there = Node::builder().id(there).accept(AcceptPolicy::Anyone);
    let mut there = there.open().unwrap();
    here.add_peer(there.id(), there.local_addr()).unwrap();
    let long_path = format!("GET /{} HTTP/1.1\r\n\r\n", "mark".repeat(1_500));
    let requests: [&[u8]; 9] = [
        b"GET /mark HTTP/1.1\r\n\r\n",
        b"GET /../mark HTTP/1.1\r\nHost: mark\r\n\r\n",
        b"GET /metrics/mark\0 HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM mark\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01 mark \r\n\r\n",
        b"GET /mark\r\nHost: mark\r\n\r\n",
        b"\xff\xfe mark \xff\r\n\r\n",
        b"GET  /mark  HTTP/1.1\r\n\r\n",
        long_path.as_bytes(),
    ];
    let mut unread = Vec::new();
    for (count, request) in (1..).zip(requests) {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(request).unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
        assert!(!answer.contains("mark"), "{answer}");
        // This one is left alone with its answer, the next goes before it has one.
        let mut deaf = TcpStream::connect(address).unwrap();
        deaf.write_all(GET.as_bytes()).unwrap();
        unread.push(deaf);
        let mut brief = TcpStream::connect(address).unwrap();
        brief.write_all(GET.repeat(100).as_bytes()).unwrap();
        drop(brief);
        let (head, _) = ask(address, GET);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        exchange(&mut here, &mut there, count);
    }
}

#[test]
fn a_port_in_use_is_an_error_that_names_it() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let error = Node::builder()
        .id(NodeId(1_080))
        .metrics(address)
        .open()
        .unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
