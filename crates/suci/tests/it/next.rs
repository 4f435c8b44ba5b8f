//! The next message or event in one call: exact order, and a blocked call wakes for either.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, builder, pair, shared_pair};
use std::net::SocketAddr;
use std::time::Duration;
use suci::{AcceptPolicy, EndReason, Error, Event, Next, Node, NodeId, SessionNumber, SharedNode};

const SERVER: NodeId = NodeId(0);
const CLIENT: NodeId = NodeId(1);

/// Sessions of the client with the server, one after the other.
const SESSIONS: u32 = 3;

/// Messages in each session.
const MESSAGES: u32 = 5;

/// Both kinds of node.
trait Receiver {
    fn next(&mut self) -> Next;
    fn next_timeout(&mut self, limit: Duration) -> Option<Next>;
    fn try_next(&mut self) -> Result<Option<Next>, Error>;
}

impl Receiver for Node {
    fn next(&mut self) -> Next {
        Self::next(self).unwrap()
    }

    fn next_timeout(&mut self, limit: Duration) -> Option<Next> {
        Self::next_timeout(self, limit).unwrap()
    }

    fn try_next(&mut self) -> Result<Option<Next>, Error> {
        Self::try_next(self)
    }
}

impl Receiver for SharedNode {
    fn next(&mut self) -> Next {
        Self::next(self).unwrap()
    }

    fn next_timeout(&mut self, limit: Duration) -> Option<Next> {
        Self::next_timeout(self, limit).unwrap()
    }

    fn try_next(&mut self) -> Result<Option<Next>, Error> {
        Self::try_next(self)
    }
}

/// A client that starts, sends and closes, again and again.
fn visit(server: SocketAddr) {
    for session in 0..SESSIONS {
        let mut client = builder(CLIENT.0).open().unwrap();
        client.add_peer(SERVER, server).unwrap();
        for message in 0..MESSAGES {
            client.send(SERVER, format!("{session} {message}")).unwrap();
        }
        client.close(LONG).unwrap();
    }
}

/// The messages and events that the server gets in all, in order.
fn expected() -> Vec<String> {
    let session = |session: u32| {
        let messages = (0..MESSAGES).map(move |message| format!("{session} {message} {session}"));
        let first = std::iter::once(format!("up {session}"));
        first.chain(messages).chain([format!("ended {session}")])
    };
    (0..SESSIONS).flat_map(session).collect()
}

/// Describes one message or event.
fn describe(next: Next) -> String {
    match next {
        Next::Message(message) => {
            assert_eq!(message.from, CLIENT);
            let text = String::from_utf8_lossy(&message.payload).into_owned();
            format!("{text} {}", message.session)
        }
        Next::Event(Event::Up { session, .. }) => format!("up {session}"),
        Next::Event(Event::Ended {
            session,
            reason: EndReason::Closed,
            ..
        }) => format!("ended {session}"),
        Next::Event(event) => panic!("{event:?}"),
    }
}

#[test]
fn ends_stand_between_the_messages_of_sessions_that_wait() {
    let mut server = builder(SERVER.0)
        .accept(AcceptPolicy::Anyone)
        .open()
        .unwrap();
    let address = server.local_addr();
    let client = std::thread::spawn(move || visit(address));
    while !client.is_finished() {
        // Serves the node and takes nothing.
        server.poll(Duration::from_millis(1)).unwrap();
        server.counters().unwrap();
    }
    client.join().unwrap();
    let got: Vec<_> = std::iter::from_fn(|| server.try_next().unwrap()).collect();
    let got: Vec<_> = got.into_iter().map(describe).collect();
    assert_eq!(got, expected());
}

#[test]
fn ends_stand_between_the_messages_of_sessions_at_a_shared_node() {
    let server = builder(SERVER.0).accept(AcceptPolicy::Anyone);
    let server = server.open_threads(1).unwrap();
    visit(server.local_addr());
    let waiting = expected();
    let got = waiting.iter().map(|_| describe(server.next().unwrap()));
    assert_eq!(got.collect::<Vec<_>>(), waiting);
    assert_eq!(server.try_next().unwrap(), None);
}

#[test]
fn ends_stand_between_the_messages_of_sessions_when_a_shared_node_is_closed() {
    let server = builder(SERVER.0).accept(AcceptPolicy::Anyone);
    let server = server.open_threads(1).unwrap();
    visit(server.local_addr());
    server.close(LONG).unwrap();
    let got: Vec<_> = std::iter::from_fn(|| server.try_next().ok().flatten()).collect();
    let got: Vec<_> = got.into_iter().map(describe).collect();
    assert_eq!(got, expected());
    assert!(matches!(server.next(), Err(Error::Closed)));
}

/// More messages than fit between thread and program come in the same order.
#[test]
fn ends_stand_between_more_messages_than_are_handed_over_at_once() {
    const EACH: u32 = 3_000;
    let server = builder(SERVER.0).accept(AcceptPolicy::Anyone);
    let server = server.open_threads(1).unwrap();
    for session in 0..SESSIONS {
        let client = builder(CLIENT.0).open_threads(1).unwrap();
        client.add_peer(SERVER, server.local_addr()).unwrap();
        for message in 0..EACH {
            let draft = format!("{session} {message}");
            client.send_timeout(SERVER, draft, LONG).unwrap();
        }
        client.close(LONG).unwrap();
    }
    for session in 0..SESSIONS {
        assert_eq!(describe(server.next().unwrap()), format!("up {session}"));
        for message in 0..EACH {
            let expected = format!("{session} {message} {session}");
            assert_eq!(describe(server.next().unwrap()), expected);
        }
        assert_eq!(describe(server.next().unwrap()), format!("ended {session}"));
    }
}

/// A call that blocks wakes for a message, and for an event.
fn wakes_for_either(mut node: impl Receiver + Send + 'static, peer: SharedNode) {
    let id = NodeId(0);
    let taker = std::thread::spawn(move || {
        let got: Vec<_> = (0..3).map(|_| node.next()).collect();
        assert_eq!(node.next_timeout(Duration::from_millis(1)), None);
        (got, node)
    });
    peer.send(id, "hello").unwrap();
    // The message alone was waited for, and the end alone.
    peer.flush(LONG).unwrap();
    peer.close(LONG).unwrap();
    let (got, mut node) = taker.join().unwrap();
    let [Next::Event(up), Next::Message(message), Next::Event(ended)] = &got[..] else {
        panic!("{got:?}");
    };
    let (node_id, session) = (NodeId(1), SessionNumber(0));
    let expected = Event::Up {
        node: node_id,
        session,
    };
    assert_eq!(*up, expected);
    assert_eq!((message.from, message.session), (node_id, session));
    assert!(matches!(ended, Event::Ended { session, .. } if *session == message.session));
    assert_eq!(node.try_next().unwrap(), None);
}

#[test]
fn a_blocked_call_wakes_for_messages_and_for_events() {
    let a = builder(0).accept(AcceptPolicy::Anyone).open().unwrap();
    let b = builder(1).open_threads(1).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    wakes_for_either(a, b);
    let (a, b) = shared_pair();
    wakes_for_either(a, b);
}

#[test]
fn a_future_is_ready_for_messages_and_for_events() {
    let (a, b) = shared_pair();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        b.send_async(a.id(), "hello").await.unwrap();
        let up = a.next_async().await.unwrap();
        assert!(matches!(up, Next::Event(Event::Up { .. })), "{up:?}");
        let message = a.next_async().await.unwrap().into_message().unwrap();
        assert_eq!(&message.payload[..], b"hello");
        let closing = async { b.close_async(LONG).await.unwrap() };
        let (ended, ()) = tokio::join!(a.next_async(), closing);
        assert!(matches!(ended, Ok(Next::Event(Event::Ended { .. }))));
    });
}

/// A message that [`Node::recv_into`] had no room for comes before the end of its session, and
/// after the ends of those before.
#[test]
fn a_message_that_did_not_fit_keeps_its_place() {
    let mut server = builder(SERVER.0)
        .accept(AcceptPolicy::Anyone)
        .open()
        .unwrap();
    let address = server.local_addr();
    let client = std::thread::spawn(move || visit(address));
    while !client.is_finished() {
        server.poll(Duration::from_millis(1)).unwrap();
        server.counters().unwrap();
    }
    client.join().unwrap();
    // All of the first session is taken, and one message of the second does not fit.
    let mut buffer = [0; 3];
    for _ in 0..MESSAGES {
        assert_eq!(server.recv_into(&mut buffer, LONG).unwrap().unwrap().0, 3);
    }
    let short = server.recv_into(&mut buffer[..2], LONG);
    assert!(matches!(short, Err(Error::BufferTooShort { .. })));
    let got: Vec<_> = std::iter::from_fn(|| server.try_next().unwrap()).collect();
    let got: Vec<_> = got.into_iter().map(describe).collect();
    let mut left = expected();
    left.retain(|what| !(what.starts_with("0 ")));
    assert_eq!(got, left);
}

#[test]
fn a_closed_node_gives_what_had_come_and_then_says_so() {
    let (mut a, mut b) = pair();
    a.send(b.id(), "x").unwrap();
    let thread = std::thread::spawn(move || a.close(LONG));
    assert!(matches!(
        Receiver::next(&mut b),
        Next::Event(Event::Up { .. })
    ));
    b.close(LONG).unwrap();
    thread.join().unwrap().unwrap();
    assert!(matches!(Receiver::next(&mut b), Next::Message(_)));
    assert!(matches!(
        Receiver::next(&mut b),
        Next::Event(Event::Ended { .. })
    ));
    assert!(matches!(Receiver::try_next(&mut b), Err(Error::Closed)));
}

/// The server only receives and sends, and takes no events: it serves a client that starts again
/// and again.
fn serves_for_ever(server: SocketAddr, answer: impl FnOnce(usize) + Send + 'static) {
    // More than a node remembers incarnations of a peer.
    const STARTS: usize = 20;
    let thread = std::thread::spawn(move || answer(STARTS));
    for start in 0..STARTS {
        let mut client = builder(CLIENT.0).open().unwrap();
        client.add_peer(SERVER, server).unwrap();
        client.send(SERVER, "question").unwrap();
        let answer = client.recv_timeout(LONG).unwrap();
        assert!(answer.is_some(), "start {start}");
        client.close(LONG).unwrap();
    }
    thread.join().unwrap();
}

#[test]
fn a_program_that_only_receives_and_sends_serves_a_client_that_starts_again() {
    let mut server = builder(SERVER.0)
        .accept(AcceptPolicy::Anyone)
        .open()
        .unwrap();
    serves_for_ever(server.local_addr(), move |starts| {
        for _ in 0..starts {
            let question = server.recv().unwrap();
            server.send(question.from, "answer").unwrap();
        }
        server.flush(LONG).unwrap();
        server.close(LONG).unwrap();
    });
    let server = builder(SERVER.0).accept(AcceptPolicy::Anyone);
    let server = server.open_threads(1).unwrap();
    serves_for_ever(server.local_addr(), move |starts| {
        for _ in 0..starts {
            let question = server.recv().unwrap();
            server.send(question.from, "answer").unwrap();
        }
        server.close(LONG).unwrap();
    });
}
