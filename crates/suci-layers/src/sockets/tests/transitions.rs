//! Each transition of the automaton.

use super::super::{
    AcceptError, Address, ConnectionFailure, LOST_TIMEOUT, MAX_CLOSING, MEMORY, OPEN_TIMEOUT,
    Packet, Readiness, Received, RefusedCode, SendRefused, SocketId, SocketKind, Sockets,
    Withdrawn, channel,
};
use super::pair::{CLIENT, NOW, PORT, Pair, SERVER, arrived, node, server, source};
use bytes::Bytes;
use suci_proto::time::{Instant, nanos};
use suci_proto::types::{NodeId, SessionNumber};
use suci_proto::{Data, EndReason, LostCause, Message, PortInput, RefusedReason, Unreachable};

const STREAM: SocketKind = SocketKind::Stream;

#[test]
fn the_server_keeps_a_placeholder_until_the_client_confirms() {
    let (mut pair, listener) = Pair::listening(STREAM, 8);
    let client = pair.connect(STREAM);
    assert_eq!(pair.tables[CLIENT].status(client), None);
    pair.carry(CLIENT);
    let accepted = pair.tables[SERVER].accept(listener);
    assert_eq!(accepted, Err(AcceptError::Pending));
    pair.carry(SERVER);
    assert_eq!(pair.tables[CLIENT].status(client), Some(Ok(())));
    assert_eq!(
        pair.tables[SERVER].accept(listener),
        Err(AcceptError::Pending)
    );
    pair.carry(CLIENT);
    let (_, peer) = pair.tables[SERVER].accept(listener).unwrap();
    assert_eq!((peer.node, peer.port), (node(CLIENT), 40_000));
}

#[test]
fn an_open_that_nobody_waits_for_is_taken_back() {
    let (mut pair, _) = Pair::listening(STREAM, 8);
    let client = pair.connect(STREAM);
    pair.tables[CLIENT].close(client);
    assert!(!pair.tables[CLIENT].has_output(), "not handed over yet");
    for by_end in [false, true] {
        let client = pair.connect(STREAM);
        let open = pair.sent_by(CLIENT).remove(0);
        let table = &mut pair.tables[CLIENT];
        match by_end {
            true => table.end(),
            false => table.close(client),
        }
        assert!(table.has_output());
        let withdrawn = Withdrawn {
            node: node(SERVER),
            channel: open.channel,
            token: open.token,
        };
        assert_eq!(table.poll_withdrawn(), Some(withdrawn));
        assert_ne!(open.token, 0, "the token of other messages");
    }
}

fn refused(code: RefusedCode, mut pair: Pair, kind: SocketKind) {
    let client = pair.connect(kind);
    pair.settle();
    let failure = ConnectionFailure::Refused(code);
    assert_eq!(pair.tables[CLIENT].status(client), Some(Err(failure)));
    assert_eq!(pair.tables[CLIENT].take(client), Err(failure));
    let sent = pair.tables[CLIENT].send(client, b"x", true);
    assert_eq!(sent, Err(SendRefused::Failed(failure)));
}

#[test]
fn a_port_without_listener_refuses() {
    refused(RefusedCode::NoListener, Pair::default(), STREAM);
}

#[test]
fn a_listener_of_the_other_kind_refuses() {
    let (pair, _) = Pair::listening(SocketKind::Messages, 8);
    refused(RefusedCode::OtherKind, pair, STREAM);
}

#[test]
fn a_full_backlog_is_answered_at_once() {
    let (mut pair, listener) = Pair::listening(STREAM, 1);
    pair.connect(STREAM);
    pair.carry(CLIENT);
    // A placeholder takes the place.
    let second = pair.connect(STREAM);
    pair.settle();
    let full = ConnectionFailure::Refused(RefusedCode::BacklogFull);
    assert_eq!(pair.tables[CLIENT].status(second), Some(Err(full)));
    pair.tables[SERVER].accept(listener).unwrap();
    let third = pair.connect(STREAM);
    pair.settle();
    assert_eq!(pair.tables[CLIENT].status(third), Some(Ok(())));
}

/// Returns an OPEN of a node that never confirms.
fn open_of(from: NodeId, number: u64) -> PortInput {
    let open = Packet::Open {
        from: SocketId(number),
        source: 1 + (number % 60_000) as u16,
        target: PORT,
        kind: STREAM,
        window: 1 << 16,
    };
    let (kind, tag, user_header) = open.write();
    let message = Message {
        channel: channel(SocketId(number)),
        number: 0,
        tag,
        kind,
        user_header,
        payload: Data::from(Bytes::new()),
    };
    PortInput::Message(source(from), message)
}

/// A peer sends 100,000 OPENs and confirms none. The server keeps a bounded number of placeholders,
/// and another node is served all the same.
#[test]
fn f04_opens_that_are_never_confirmed_leave_room_for_others() {
    const FLOODER: NodeId = NodeId(66);
    let (mut pair, listener) = Pair::listening(STREAM, 16);
    for number in 0..100_000 {
        let server = &mut pair.tables[SERVER];
        server.on_input(NOW, open_of(FLOODER, number));
        assert!(server.count() <= 1 + 16, "{} sockets", server.count());
        // Its engine takes the answers to both nodes.
        if number % 1_000 == 0 {
            let client = pair.connect(STREAM);
            pair.carry(CLIENT);
            for answer in pair.sent_by(SERVER) {
                if answer.tag == client.0 {
                    let input = PortInput::Message(source(node(SERVER)), arrived(answer));
                    pair.tables[CLIENT].on_input(NOW, input);
                }
            }
            pair.carry(CLIENT);
            let (accepted, peer) = pair.tables[SERVER].accept(listener).unwrap();
            assert_eq!(peer.node, node(CLIENT));
            pair.tables[SERVER].close(accepted);
            pair.settle();
            pair.tables[CLIENT].close(client);
        }
    }
    let ended = PortInput::Ended(FLOODER, SessionNumber(0), EndReason::PeerEnded);
    pair.tables[SERVER].on_input(NOW, ended);
    assert_eq!(
        (pair.tables[SERVER].count(), pair.tables[SERVER].promised()),
        (1, 0)
    );
}

/// A peer sends more OPENs than there is memory for, to a listener whose backlog takes them all.
/// Another node, at another listener, and the server's own program still connect.
#[test]
fn f04_opens_that_are_never_confirmed_leave_memory_to_others() {
    const FLOODER: NodeId = NodeId(66);
    let (mut pair, _) = Pair::listening(STREAM, 1 << 16);
    let port = PORT + 1;
    let listener = pair.tables[SERVER].listen(port, STREAM, 8).unwrap();
    let flood = |pair: &mut Pair| {
        for number in 1..30_000 {
            let server = &mut pair.tables[SERVER];
            server.on_input(NOW, open_of(FLOODER, number));
        }
        pair.sent_by(SERVER);
    };
    let other_node_connects = |pair: &mut Pair| {
        let address = Address {
            node: node(SERVER),
            port,
        };
        let client = pair.tables[CLIENT].connect(NOW, 40_000, address, STREAM);
        pair.settle();
        assert_eq!(pair.tables[CLIENT].status(client.unwrap()), Some(Ok(())));
        pair.tables[SERVER].accept(listener).unwrap();
    };
    flood(&mut pair);
    other_node_connects(&mut pair);
    let own = |pair: &mut Pair| {
        let socket = pair.tables[SERVER].connect(NOW, 1, server(), STREAM);
        socket.is_ok()
    };
    for _ in 0..10 {
        assert!(own(&mut pair));
        flood(&mut pair);
    }
    assert!(pair.tables[SERVER].promised() <= MEMORY);
    other_node_connects(&mut pair);
}

/// The node that has the most placeholders loses its oldest to one that has two fewer, and to no
/// other.
#[test]
fn placeholders_are_shared_between_nodes() {
    let (mut pair, _) = Pair::listening(STREAM, 3);
    let server = &mut pair.tables[SERVER];
    let answers = |server: &mut Sockets| {
        let mut answers = Vec::new();
        server.transmit(|to, message| {
            answers.push((
                to.0,
                message.tag,
                Packet::read(message.kind, message.tag, &message.user_header),
            ));
            true
        });
        answers
    };
    for number in 0..3 {
        server.on_input(NOW, open_of(NodeId(5), number));
    }
    answers(server);
    server.on_input(NOW, open_of(NodeId(6), 0));
    let reset = Packet::Reset { to: SocketId(0) };
    let sent = answers(server);
    assert_eq!(sent[0], (5, 0, Ok(reset)));
    assert!(matches!(sent[1], (6, 0, Ok(Packet::Opened { .. }))));
    for node in [5, 6, 5] {
        server.on_input(NOW, open_of(NodeId(node), 9));
        let sent = answers(server);
        let full = RefusedCode::BacklogFull;
        let refused = Packet::Refused {
            to: SocketId(9),
            code: full,
        };
        assert_eq!(sent, [(node, 9, Ok(refused))]);
    }
}

/// A peer takes the only place and never confirms: it loses the place after a while, and another is
/// served.
#[test]
fn f04_a_placeholder_that_is_never_confirmed_gives_way_in_time() {
    const SILENT: NodeId = NodeId(66);
    let (mut pair, listener) = Pair::listening(STREAM, 1);
    let server = &mut pair.tables[SERVER];
    server.on_input(NOW, open_of(SILENT, 3));
    let due = Instant::from_nanos(NOW.as_nanos() + nanos(OPEN_TIMEOUT));
    assert_eq!(server.next_timeout(), Some(due));
    server.on_timeout(Instant::from_nanos(due.as_nanos() - 1));
    assert_eq!(server.count(), 2);
    let _opened = pair.sent_by(SERVER);
    pair.tables[SERVER].on_timeout(due);
    assert_eq!(pair.tables[SERVER].count(), 1);
    assert_eq!(pair.tables[SERVER].promised(), 0);
    assert_eq!(pair.tables[SERVER].next_timeout(), None);
    let (kind, tag, header) = Packet::Reset { to: SocketId(3) }.write();
    let [reset] = &pair.sent_by(SERVER)[..] else {
        panic!("one answer");
    };
    assert_eq!(
        (reset.kind, reset.tag, &reset.user_header),
        (kind, tag, &header)
    );
    pair.connect(STREAM);
    pair.settle();
    assert!(pair.tables[SERVER].accept(listener).is_ok());
    // A connection has no time limit.
    assert_eq!(pair.tables[SERVER].next_timeout(), None);
}

#[test]
fn a_zombie_keeps_what_its_program_has_not_read() {
    let (mut pair, client, server) = Pair::connected(STREAM);
    assert_eq!(pair.tables[CLIENT].send(client, b"unread", false), Ok(6));
    pair.tables[CLIENT].close(client);
    pair.settle();
    assert_eq!(pair.tables[CLIENT].count(), 0);
    assert_eq!(pair.tables[CLIENT].promised(), 0);
    let broken = SendRefused::Failed(ConnectionFailure::BrokenPipe);
    assert_eq!(pair.tables[SERVER].send(server, b"x", false), Err(broken));
    assert_eq!(
        pair.read(SERVER, server),
        (b"unread".to_vec(), Ok(Received::End))
    );
    assert_eq!(pair.tables[SERVER].count(), 2, "with the listener");
    pair.tables[SERVER].close(server);
    assert_eq!(pair.tables[SERVER].count(), 1);
    assert_eq!(pair.sent_by(SERVER), [], "the peer is gone");
}

#[test]
fn crossing_closes_end_both_ends() {
    let (mut pair, client, server) = Pair::connected(STREAM);
    pair.tables[CLIENT].close(client);
    pair.tables[SERVER].close(server);
    assert_eq!((pair.carry(CLIENT), pair.carry(SERVER)), (1, 1));
    assert_eq!((pair.carry(CLIENT), pair.carry(SERVER)), (0, 0));
    assert_eq!(
        (pair.tables[CLIENT].count(), pair.tables[SERVER].count()),
        (0, 1)
    );
}

/// F04: a peer that never answers CLOSE. The server forgets what it waits for in vain, and the peer
/// still gets what was sent before.
#[test]
fn closes_that_are_never_answered_are_forgotten() {
    let (mut pair, listener) = Pair::listening(STREAM, 8);
    for _ in 0..2 * MAX_CLOSING {
        let client = pair.connect(STREAM);
        pair.settle();
        let (server, _) = pair.tables[SERVER].accept(listener).unwrap();
        assert_eq!(pair.tables[SERVER].send(server, b"bye", false), Ok(3));
        pair.tables[SERVER].close(server);
        pair.carry(SERVER);
        // The answer is lost with a peer that gives none.
        pair.sent_by(CLIENT);
        let (bytes, end) = pair.read(CLIENT, client);
        assert_eq!((bytes.as_slice(), end), (&b"bye"[..], Ok(Received::End)));
        pair.tables[CLIENT].close(client);
        assert!(pair.tables[SERVER].count() <= 1 + MAX_CLOSING);
    }
    assert_eq!(pair.tables[SERVER].count(), 1 + MAX_CLOSING);
    let ended = PortInput::Ended(node(CLIENT), SessionNumber(0), EndReason::PeerEnded);
    pair.tables[SERVER].on_input(NOW, ended);
    assert_eq!(pair.tables[SERVER].count(), 1);
}

/// F04: a peer that never reads long messages, whose senders closed their sockets.
#[test]
fn rests_of_messages_that_are_never_read_are_given_up() {
    const MESSAGES: SocketKind = SocketKind::Messages;
    let (mut pair, listener) = Pair::listening(MESSAGES, 8);
    let mut clients = Vec::new();
    for _ in 0..=MAX_CLOSING {
        clients.push(pair.connect(MESSAGES));
        pair.settle();
        let (server, _) = pair.tables[SERVER].accept(listener).unwrap();
        let sent = pair.tables[SERVER].send(server, &[7; 70_000], true);
        assert_eq!(sent, Ok(70_000));
        pair.tables[SERVER].close(server);
        pair.settle();
    }
    assert_eq!(pair.tables[SERVER].count(), 1 + MAX_CLOSING);
    let (bytes, end) = pair.read(CLIENT, clients[0]);
    assert!(bytes.len() < 70_000);
    assert_eq!(end, Err(ConnectionFailure::Reset));
    let (mut length, last) = (0, clients[MAX_CLOSING]);
    loop {
        let (bytes, end) = pair.read(CLIENT, last);
        length += bytes.len();
        if end != Ok(Received::Pending) {
            break;
        }
        pair.settle();
    }
    assert_eq!(length, 70_000);
}

#[test]
fn what_comes_after_the_close_is_dropped() {
    let (mut pair, client, server) = Pair::connected(STREAM);
    pair.tables[SERVER].send(server, b"late", false).unwrap();
    pair.tables[CLIENT].close(client);
    pair.settle();
    assert_eq!(pair.read(SERVER, server), (Vec::new(), Ok(Received::End)));
}

#[test]
fn one_direction_ends_and_the_other_goes_on() {
    let (mut pair, client, server) = Pair::connected(STREAM);
    pair.tables[CLIENT]
        .send(client, b"question", false)
        .unwrap();
    pair.tables[CLIENT].shutdown(client).unwrap();
    pair.tables[CLIENT].shutdown(client).unwrap();
    let broken = SendRefused::Failed(ConnectionFailure::BrokenPipe);
    assert_eq!(
        pair.tables[CLIENT].send(client, b"more", false),
        Err(broken)
    );
    pair.settle();
    assert_eq!(
        pair.read(SERVER, server),
        (b"question".to_vec(), Ok(Received::End))
    );
    pair.tables[SERVER].send(server, b"answer", false).unwrap();
    pair.settle();
    assert_eq!(
        pair.read(CLIENT, client),
        (b"answer".to_vec(), Ok(Received::Pending))
    );
    pair.tables[SERVER].close(server);
    pair.settle();
    assert_eq!(pair.read(CLIENT, client), (Vec::new(), Ok(Received::End)));
}

#[test]
fn a_client_that_gave_up_leaves_nothing() {
    let (mut pair, listener) = Pair::listening(STREAM, 1);
    let client = pair.connect(STREAM);
    pair.carry(CLIENT);
    pair.tables[CLIENT].close(client);
    pair.settle();
    assert_eq!(
        pair.tables[SERVER].accept(listener),
        Err(AcceptError::Pending)
    );
    assert_eq!(
        (pair.tables[CLIENT].count(), pair.tables[SERVER].count()),
        (0, 1)
    );
    // An OPEN that was not sent is taken back.
    let client = pair.connect(STREAM);
    pair.tables[CLIENT].close(client);
    assert_eq!(pair.carry(CLIENT), 0);
}

#[test]
fn an_open_without_answer_times_out() {
    let (mut pair, listener) = Pair::listening(STREAM, 1);
    let client = pair.connect(STREAM);
    pair.carry(CLIENT);
    let due = Instant::from_nanos(NOW.as_nanos() + nanos(OPEN_TIMEOUT));
    assert_eq!(pair.tables[CLIENT].next_timeout(), Some(due));
    pair.tables[CLIENT].on_timeout(due);
    assert_eq!(
        pair.tables[CLIENT].status(client),
        Some(Err(ConnectionFailure::TimedOut))
    );
    // The answer comes too late.
    pair.settle();
    assert_eq!(
        pair.tables[SERVER].accept(listener),
        Err(AcceptError::Pending)
    );
    assert_eq!(pair.tables[SERVER].count(), 1);
    assert_eq!(pair.tables[CLIENT].next_timeout(), None);
}

#[test]
fn a_closed_listener_resets_what_waits() {
    let (mut pair, listener) = Pair::listening(STREAM, 8);
    let confirmed = pair.connect(STREAM);
    pair.settle();
    let placeholder = pair.connect(STREAM);
    pair.carry(CLIENT);
    pair.tables[SERVER].close(listener);
    pair.settle();
    for client in [confirmed, placeholder] {
        let status = pair.tables[CLIENT].status(client);
        assert_eq!(status, Some(Err(ConnectionFailure::Reset)));
    }
    assert_eq!(pair.tables[SERVER].count(), 0);
    assert_eq!(pair.tables[SERVER].promised(), 0);
    let accepted = pair.tables[SERVER].accept(listener);
    assert_eq!(accepted, Err(AcceptError::NotListening));
}

#[test]
fn the_end_of_a_session_resets_what_is_open() {
    let (mut pair, client, server) = Pair::connected(STREAM);
    pair.tables[SERVER].send(server, b"before", false).unwrap();
    pair.carry(SERVER);
    pair.tables[CLIENT].send(client, b"lost", false).unwrap();
    for side in [CLIENT, SERVER] {
        let ended = PortInput::Ended(node(1 - side), SessionNumber(0), EndReason::Restarted);
        pair.tables[side].on_input(NOW, ended);
    }
    assert_eq!(
        pair.carry(CLIENT),
        0,
        "what waited belongs to the old session"
    );
    assert_eq!(
        pair.read(CLIENT, client),
        (b"before".to_vec(), Err(ConnectionFailure::Reset))
    );
    assert_eq!(
        pair.read(SERVER, server),
        (Vec::new(), Err(ConnectionFailure::Reset))
    );
}

#[test]
fn an_open_goes_into_the_next_session() {
    let (mut pair, _) = Pair::listening(STREAM, 8);
    let sent = pair.connect(STREAM);
    pair.sent_by(CLIENT);
    let waits = pair.connect(STREAM);
    let ended = |reason| PortInput::Ended(node(SERVER), SessionNumber(0), reason);
    pair.tables[CLIENT].on_input(NOW, ended(EndReason::Restarted));
    assert_eq!(pair.sent_by(CLIENT).len(), 2);
    assert_eq!(pair.tables[CLIENT].status(sent), None);
    assert_eq!(pair.tables[CLIENT].status(waits), None);
    pair.tables[CLIENT].on_input(NOW, ended(EndReason::ProcessDied));
    let status = pair.tables[CLIENT].status(sent);
    assert_eq!(status, Some(Err(ConnectionFailure::NoProcess)));
}

#[test]
fn a_peer_that_does_not_answer_fails_its_sockets() {
    let (mut pair, client, server) = Pair::connected(STREAM);
    let opening = pair.connect(STREAM);
    let lost = |cause| PortInput::Lost(node(SERVER), cause);
    let port = LostCause::Unreachable(Unreachable::Port);
    pair.tables[CLIENT].on_input(NOW, lost(port));
    let status = |pair: &Pair, id| pair.tables[CLIENT].status(id);
    assert_eq!(
        status(&pair, opening),
        Some(Err(ConnectionFailure::NoProcess))
    );
    assert_eq!(
        status(&pair, client),
        Some(Err(ConnectionFailure::TimedOut))
    );
    // It answers again, and is told.
    pair.settle();
    assert_eq!(
        pair.read(SERVER, server),
        (Vec::new(), Err(ConnectionFailure::Reset))
    );
}

/// F25: each connection to a node that stays silent fails for the same reason, and none later than
/// the first.
#[test]
fn f25_each_connection_to_a_lost_node_fails_for_the_same_reason() {
    for (why, failure) in [
        (Unreachable::Host, ConnectionFailure::Unreachable),
        (Unreachable::Port, ConnectionFailure::NoProcess),
    ] {
        let (mut pair, _) = Pair::listening(STREAM, 8);
        let lost = PortInput::Lost(node(SERVER), LostCause::Unreachable(why));
        pair.connect(STREAM);
        pair.tables[CLIENT].on_input(NOW, lost);
        let again = pair.connect(STREAM);
        let due = Instant::from_nanos(NOW.as_nanos() + nanos(LOST_TIMEOUT));
        assert_eq!(pair.tables[CLIENT].next_timeout(), Some(due));
        pair.tables[CLIENT].on_timeout(due);
        assert_eq!(pair.tables[CLIENT].status(again), Some(Err(failure)));
        // It answers again: from then on its silence is no longer known.
        let heard = pair.connect(STREAM);
        pair.tables[CLIENT].on_input(NOW, PortInput::Up(node(SERVER)));
        pair.settle();
        assert_eq!(pair.tables[CLIENT].status(heard), Some(Ok(())));
        pair.connect(STREAM);
        let due = Instant::from_nanos(NOW.as_nanos() + nanos(OPEN_TIMEOUT));
        assert_eq!(pair.tables[CLIENT].next_timeout(), Some(due));
    }
}

/// F25: a node that was lost is heard again while a connection to it is opened, which waits as long
/// as any other then.
#[test]
fn f25_a_connection_to_a_lost_node_waits_longer_once_the_node_is_heard() {
    let (mut pair, _) = Pair::listening(STREAM, 8);
    let lost = PortInput::Lost(node(SERVER), LostCause::NoAnswer);
    pair.tables[CLIENT].on_input(NOW, lost);
    let client = pair.connect(STREAM);
    pair.tables[CLIENT].on_input(NOW, PortInput::Up(node(SERVER)));
    let due = Instant::from_nanos(NOW.as_nanos() + nanos(OPEN_TIMEOUT));
    assert_eq!(pair.tables[CLIENT].next_timeout(), Some(due));
    pair.settle();
    assert_eq!(pair.tables[CLIENT].status(client), Some(Ok(())));
    assert_eq!(pair.tables[CLIENT].next_timeout(), None);
}

/// No way leads to a node: connections that wait for its answer fail, others go on.
#[test]
fn f25_sockets_fail_where_no_way_leads_to_the_node() {
    let (mut pair, client, _) = Pair::connected(STREAM);
    let opening = pair.connect(STREAM);
    pair.tables[CLIENT].on_input(NOW, PortInput::NoWay(node(SERVER)));
    let status = |id| pair.tables[CLIENT].status(id);
    assert_eq!(status(opening), Some(Err(ConnectionFailure::Unreachable)));
    assert_eq!(status(client), Some(Ok(())));
}

#[test]
fn messages_that_no_sender_could_send_reset_the_connection() {
    let (mut pair, client, server) = Pair::connected(STREAM);
    pair.tables[CLIENT].shutdown(client).unwrap();
    pair.settle();
    // Data behind SHUTDOWN.
    let mut other = Pair::connected(STREAM);
    other.0.tables[CLIENT].send(other.1, b"x", false).unwrap();
    for message in other.0.sent_by(CLIENT) {
        let message = super::pair::arrived(message);
        pair.tables[SERVER].on_input(NOW, PortInput::Message(source(node(CLIENT)), message));
    }
    assert_eq!(pair.read(SERVER, server).1, Err(ConnectionFailure::Reset));
    pair.settle();
    assert_eq!(pair.read(CLIENT, client).1, Err(ConnectionFailure::Reset));
}

#[test]
fn the_end_of_the_node_ends_every_wait() {
    let (mut pair, client, _) = Pair::connected(STREAM);
    while pair.tables[CLIENT].poll_changed().is_some() {}
    let opening = pair.connect(STREAM);
    pair.tables[CLIENT].end();
    let changed: Vec<_> = std::iter::from_fn(|| pair.tables[CLIENT].poll_changed()).collect();
    assert_eq!(changed, [client, opening]);
    let closed = Some(Err(ConnectionFailure::Closed));
    assert_eq!(pair.tables[CLIENT].status(opening), closed);
    let ready = Readiness {
        readable: true,
        writable: true,
    };
    assert_eq!(pair.tables[CLIENT].readiness(client), ready);
}

#[test]
fn a_node_that_refuses_this_one_says_why() {
    for reason in [RefusedReason::TooManyPeers, RefusedReason::Version] {
        let (mut pair, _) = Pair::listening(STREAM, 8);
        let client = pair.connect(STREAM);
        let lost = PortInput::Lost(node(SERVER), LostCause::Refused(reason));
        pair.tables[CLIENT].on_input(NOW, lost);
        let failure = ConnectionFailure::Rejected(reason);
        assert_eq!(pair.tables[CLIENT].status(client), Some(Err(failure)));
    }
}
