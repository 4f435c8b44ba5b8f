//! The windows of sockets, and the memory of all of them.

use super::super::{
    ConnectionFailure, MAX_DROPPED, MAX_WINDOW, MEMORY, MIN_WINDOW, OUTPUT, OpenError, Received,
    RefusedCode, SEGMENT, SEGMENT_CHARGE, SendRefused, SocketId, SocketKind, Sockets,
};
use super::pair::{CLIENT, NOW, Pair, SERVER, arrived, node, server, source};
use suci_proto::PortInput;

const STREAM: SocketKind = SocketKind::Stream;

/// Sends as much as is accepted. Returns how much.
fn fill(pair: &mut Pair, id: SocketId) -> usize {
    let mut sent = 0;
    while let Ok(length) = pair.tables[CLIENT].send(id, &[7; 100_000], false) {
        sent += length;
    }
    sent
}

#[test]
fn a_socket_that_is_not_read_holds_up_no_other() {
    let (mut pair, client, _) = Pair::connected(STREAM);
    let sent = fill(&mut pair, client);
    assert!(sent as u64 <= 16 * MIN_WINDOW);
    let refused = pair.tables[CLIENT].send(client, b"more", false);
    assert_eq!(refused, Err(SendRefused::Full));
    pair.settle();
    let other = pair.connect(STREAM);
    pair.settle();
    assert_eq!(pair.tables[CLIENT].send(other, b"free", false), Ok(4));
}

#[test]
fn a_window_grows_while_its_program_reads() {
    let (mut pair, client, server) = Pair::connected(STREAM);
    let (mut sent, mut received) = (0, 0);
    let mut most = 0;
    for _ in 0..20 {
        let round = fill(&mut pair, client);
        most = most.max(round);
        sent += round;
        pair.settle();
        received += pair.read(SERVER, server).0.len();
        pair.settle();
    }
    assert_eq!(sent, received);
    assert!(most as u64 > MAX_WINDOW - SEGMENT as u64, "{most}");
    assert!(most as u64 <= MAX_WINDOW);
    assert!(pair.tables[SERVER].promised() <= MAX_WINDOW);
}

#[test]
fn memory_bounds_what_is_promised() {
    let mut table = Sockets::new();
    let mut count = 0u64;
    while table.connect(NOW, 1, server(), STREAM).is_ok() {
        count += 1;
    }
    assert!(count > 20_000, "{count}");
    assert!(table.promised() <= MEMORY);
    assert_eq!(
        table.connect(NOW, 1, server(), STREAM),
        Err(OpenError::NoMemory)
    );
}

#[test]
fn a_server_without_memory_refuses() {
    let (mut pair, _) = Pair::listening(STREAM, 8);
    while pair.tables[SERVER]
        .connect(NOW, 1, server(), STREAM)
        .is_ok()
    {}
    pair.sent_by(SERVER);
    let client = pair.connect(STREAM);
    pair.settle();
    let refused = ConnectionFailure::Refused(RefusedCode::NoMemory);
    assert_eq!(pair.tables[CLIENT].status(client), Some(Err(refused)));
}

#[test]
fn sockets_wait_for_room_in_the_output() {
    let (mut pair, _) = Pair::listening(STREAM, 32);
    let clients: Vec<_> = (0..20).map(|_| pair.connect(STREAM)).collect();
    pair.settle();
    let mut refused = None;
    for client in clients {
        fill(&mut pair, client);
        let is_full = !pair.tables[CLIENT].has_room(node(SERVER));
        refused = is_full.then_some(client).or(refused);
    }
    let refused = refused.expect("the windows exceed the output");
    while pair.tables[CLIENT].poll_changed().is_some() {}
    assert!(!pair.tables[CLIENT].readiness(refused).writable);
    pair.sent_by(CLIENT);
    let changed: Vec<_> = std::iter::from_fn(|| pair.tables[CLIENT].poll_changed()).collect();
    assert!(changed.contains(&refused));
}

/// Each message takes memory for more than its bytes.
#[test]
fn empty_messages_wait_for_room_in_the_output() {
    let (mut pair, _) = Pair::listening(SocketKind::Messages, 32);
    let clients: Vec<_> = (0..20)
        .map(|_| pair.connect(SocketKind::Messages))
        .collect();
    pair.settle();
    for client in clients {
        while pair.tables[CLIENT].send(client, b"", true).is_ok() {}
    }
    assert_eq!(
        pair.sent_by(CLIENT).len() as u64,
        OUTPUT as u64 / SEGMENT_CHARGE
    );
}

#[test]
fn messages_keep_their_ends() {
    let (mut pair, client, server) = Pair::connected(SocketKind::Messages);
    pair.tables[CLIENT].send(client, b"", true).unwrap();
    pair.tables[CLIENT].send(client, b"one", true).unwrap();
    pair.tables[CLIENT].send(client, b"tw", false).unwrap();
    pair.tables[CLIENT].send(client, b"o", true).unwrap();
    pair.settle();
    let mut parts = Vec::new();
    while let Ok(Received::Data { bytes, last }) = pair.tables[SERVER].take(server) {
        parts.push((bytes.to_vec(), last));
    }
    let expected: [(&[u8], bool); 4] = [(b"", true), (b"one", true), (b"tw", false), (b"o", true)];
    assert!(
        parts
            .iter()
            .map(|(bytes, last)| (&bytes[..], *last))
            .eq(expected)
    );
}

/// An empty part of a stream is nothing to read. It costs the peer no credit for ever.
#[test]
fn an_empty_part_of_a_stream_makes_nothing_readable() {
    let (mut pair, client, server) = Pair::connected(STREAM);
    while pair.tables[SERVER].poll_changed().is_some() {}
    for _ in 0..2 * MAX_WINDOW / SEGMENT_CHARGE {
        assert_eq!(pair.tables[CLIENT].send(client, b"", false), Ok(0));
        pair.settle();
    }
    let table = &mut pair.tables[SERVER];
    assert!(!table.readiness(server).readable);
    assert_eq!(table.poll_changed(), None);
    assert_eq!(table.take(server), Ok(Received::Pending));
    pair.tables[CLIENT].send(client, b"x", false).unwrap();
    pair.settle();
    assert_eq!(
        pair.read(SERVER, server),
        (b"x".to_vec(), Ok(Received::Pending))
    );
}

#[test]
fn a_peer_that_exceeds_its_window_is_reset() {
    let (mut pair, client, server) = Pair::connected(STREAM);
    fill(&mut pair, client);
    let sent = pair.sent_by(CLIENT);
    for message in sent.iter().chain(&sent) {
        let input = PortInput::Message(source(node(CLIENT)), arrived(message.clone()));
        pair.tables[SERVER].on_input(NOW, input);
    }
    assert_eq!(pair.read(SERVER, server).1, Err(ConnectionFailure::Reset));
    assert_eq!(pair.tables[SERVER].malformed(), 1);
}

/// Returns the lengths of the messages that a socket received.
fn lengths(pair: &mut Pair, id: SocketId) -> Vec<usize> {
    let (mut all, mut length) = (Vec::new(), 0);
    while let Ok(Received::Data { bytes, last }) = pair.tables[SERVER].take(id) {
        length += bytes.len();
        if last {
            all.push(std::mem::take(&mut length));
        }
        pair.settle();
    }
    all
}

#[test]
fn the_rest_of_a_message_follows_by_itself() {
    let (mut pair, client, server) = Pair::connected(SocketKind::Messages);
    let table = &mut pair.tables[CLIENT];
    assert_eq!(table.send(client, &[1; 1_000_000], true), Ok(1_000_000));
    assert!(table.has_unsent() && !table.readiness(client).writable);
    assert_eq!(table.send(client, b"next", true), Err(SendRefused::Full));
    pair.settle();
    while pair.tables[CLIENT].poll_changed().is_some() {}
    assert_eq!(lengths(&mut pair, server), [1_000_000]);
    let table = &mut pair.tables[CLIENT];
    assert_eq!(table.poll_changed(), Some(client));
    assert!(!table.has_unsent() && table.readiness(client).writable);
}

#[test]
fn a_socket_that_was_closed_sends_its_last_message() {
    let (mut pair, client, server) = Pair::connected(SocketKind::Messages);
    pair.tables[CLIENT]
        .send(client, &[1; 200_000], true)
        .unwrap();
    pair.tables[CLIENT].close(client);
    pair.settle();
    assert_eq!(lengths(&mut pair, server), [200_000]);
    assert_eq!(pair.tables[SERVER].take(server), Ok(Received::End));
    assert_eq!(pair.tables[CLIENT].count(), 0);
}

/// A program that never reads and always sends hears that its peer closed.
#[test]
fn a_peer_that_sends_to_a_closed_socket_without_end_is_reset() {
    let (mut pair, client, server) = Pair::connected(SocketKind::Messages);
    let table = &mut pair.tables[CLIENT];
    table.send(client, &[1; 200_000], true).unwrap();
    table.close(client);
    let mut sent = 0;
    let failure = loop {
        match pair.tables[SERVER].send(server, &[2; SEGMENT / 2], true) {
            Ok(length) => sent += length as u64,
            Err(SendRefused::Full) => {}
            Err(SendRefused::Failed(failure)) => break failure,
        }
        pair.settle();
        assert!(sent <= MAX_DROPPED + MAX_WINDOW);
    };
    assert_eq!(failure, ConnectionFailure::Reset);
    assert!(sent > MAX_DROPPED - MAX_WINDOW);
    assert_eq!(pair.tables[CLIENT].count(), 0);
}

#[test]
fn the_end_waits_for_messages_that_were_accepted() {
    let (mut pair, client, server) = Pair::connected(SocketKind::Messages);
    pair.tables[CLIENT]
        .send(client, &[1; 200_000], true)
        .unwrap();
    pair.tables[CLIENT].end();
    pair.settle();
    assert!(pair.tables[CLIENT].has_unsent());
    assert_eq!(lengths(&mut pair, server), [200_000]);
    let table = &mut pair.tables[CLIENT];
    let closed = ConnectionFailure::Closed;
    assert_eq!(table.status(client), Some(Err(closed)));
    assert!(table.give_up().is_empty());
}

#[test]
fn messages_that_were_not_sent_at_the_end_are_counted() {
    let (mut pair, client, _) = Pair::connected(SocketKind::Messages);
    let table = &mut pair.tables[CLIENT];
    table.send(client, b"whole", true).unwrap();
    table.send(client, &[1; 200_000], true).unwrap();
    pair.settle();
    let table = &mut pair.tables[CLIENT];
    table.end();
    let closed = SendRefused::Failed(ConnectionFailure::Closed);
    assert_eq!(table.send(client, b"late", true), Err(closed));
    let late = table.connect(NOW, 1, server(), SocketKind::Messages);
    assert_eq!(late, Err(OpenError::Closed));
    assert_eq!(table.give_up(), [(node(SERVER), 1)].into());
    assert!(!table.has_unsent());
}
