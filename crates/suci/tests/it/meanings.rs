//! The table of [`suci::Next`]: what the calls that take messages and events mean. Each row is
//! tested on both kinds of node.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, builder};
use std::time::Duration;
use suci::{
    AcceptPolicy, ChannelId, Error, Event, Message, Next, Node, NodeId, OutgoingMessage, SharedNode,
};

const CLIENT: NodeId = NodeId(1);
const SOON: Duration = Duration::from_millis(20);
const ONE: ChannelId = ChannelId(1);
const TWO: ChannelId = ChannelId(2);

/// A node of either kind, which admits anyone and is asked before it takes more than 64 KiB.
enum Server {
    Alone(Node),
    Shared(SharedNode),
}

macro_rules! each {
    ($server:expr, $node:ident => $call:expr) => {
        match $server {
            Server::Alone($node) => $call,
            Server::Shared($node) => $call,
        }
    };
}

impl Server {
    fn both() -> [Self; 2] {
        let open = || {
            let open = builder(0).accept(AcceptPolicy::Anyone);
            open.memory(4 << 20).max_message(64 << 10)
        };
        let shared = open().open_threads(1).unwrap();
        [Self::Alone(open().open().unwrap()), Self::Shared(shared)]
    }

    /// Runs `visit` with a client that knows the node, which takes nothing meanwhile.
    fn visit<T: Send>(&mut self, visit: impl FnOnce(&SharedNode) -> T + Send) -> T {
        let address = each!(self, node => node.local_addr());
        std::thread::scope(|scope| {
            let client = scope.spawn(move || {
                let client = builder(CLIENT.0).open_threads(1).unwrap();
                client.add_peer(NodeId(0), address).unwrap();
                visit(&client)
            });
            while !client.is_finished() {
                self.serve();
            }
            (0..5).for_each(|_| self.serve());
            client.join().unwrap()
        })
    }

    /// A client that sends these messages on channel 0 and closes.
    fn session(&mut self, messages: &[&'static str]) {
        self.visit(|client| {
            for message in messages {
                client.send(NodeId(0), *message).unwrap();
            }
            client.close(LONG).unwrap();
        });
    }

    /// A client that sends these messages and stays.
    fn guest(&mut self, messages: &[(ChannelId, &'static str)]) -> SharedNode {
        self.visit(|client| {
            for (channel, message) in messages {
                let message = OutgoingMessage::new(*message).channel(*channel);
                client.send(NodeId(0), message).unwrap();
            }
            client.flush(LONG).unwrap();
            client.clone()
        })
    }

    /// Lets the node work, and takes nothing.
    fn serve(&mut self) {
        if let Self::Alone(node) = self {
            node.poll(Duration::ZERO).unwrap();
        }
        each!(self, node => drop(node.counters()));
        std::thread::sleep(Duration::from_millis(2));
    }

    fn try_next(&mut self) -> Result<Option<Next>, Error> {
        each!(self, node => node.try_next())
    }

    fn recv(&mut self, limit: Duration) -> Result<Option<Message>, Error> {
        each!(self, node => node.recv_timeout(limit))
    }

    fn recv_from(
        &mut self,
        from: impl Into<suci::Filter>,
        limit: Duration,
    ) -> Result<Option<Message>, Error> {
        each!(self, node => node.recv_from_timeout(from, limit))
    }

    /// The next event, if there is one soon.
    fn event(&mut self) -> Result<Option<Event>, Error> {
        each!(self, node => node.event_timeout(SOON))
    }

    /// Takes messages and events by `next` until there is nothing more.
    fn all(&mut self) -> Vec<String> {
        let next = || self.try_next().ok().flatten();
        std::iter::from_fn(next)
            .map(|next| describe(&next))
            .collect()
    }

    /// The events that `events` gives.
    fn events(&mut self) -> Vec<String> {
        let events = each!(self, node => node.events()).unwrap();
        let described = events
            .into_iter()
            .map(|event| describe(&Next::Event(event)));
        described.collect()
    }

    /// The message that `recv` gives now.
    fn message(&mut self) -> String {
        let message = each!(self, node => node.try_recv()).unwrap();
        describe(&Next::Message(message.unwrap()))
    }

    fn close(&mut self) {
        each!(self, node => node.close(LONG)).unwrap();
    }
}

/// Describes a message with its session, or an event.
fn describe(next: &Next) -> String {
    match next {
        Next::Message(message) => {
            let text = match message.payload.len() {
                0..100 => String::from_utf8_lossy(&message.payload).into_owned(),
                length => length.to_string(),
            };
            format!("{text} in {}", message.session)
        }
        Next::Event(Event::Up { session, .. }) => format!("up {session}"),
        Next::Event(Event::Ended {
            session, sessions, ..
        }) => format!("ended {session}, {sessions} in all"),
        Next::Event(Event::ChannelFinished { channel, .. }) => format!("finished {}", channel.0),
        Next::Event(Event::Delivered { token, .. }) => format!("delivered {token}"),
        Next::Event(Event::Incoming { total, .. }) => format!("incoming {total}"),
        Next::Event(event) => format!("{event:?}"),
    }
}

fn nothing(server: &mut Server) {
    assert_eq!(server.all(), [""; 0]);
    assert_eq!(server.events(), [""; 0]);
    assert_eq!(server.recv(SOON).unwrap(), None);
    assert_eq!(server.recv_from(CLIENT, SOON).unwrap(), None);
    assert_eq!(server.event().unwrap(), None);
}

fn a_message_alone(server: &mut Server) {
    let _client = server.guest(&[(ONE, "a")]);
    assert_eq!(server.events(), ["up 0"]);
    assert_eq!(server.event().unwrap(), None);
    assert_eq!(server.recv_from(TWO, SOON).unwrap(), None);
    assert_eq!(server.all(), ["a in 0"]);
}

fn an_event_alone(server: &mut Server) {
    let _client = server.guest(&[(ONE, "a")]);
    assert_eq!(server.message(), "a in 0");
    assert_eq!(server.recv(SOON).unwrap(), None);
    assert_eq!(server.recv_from(CLIENT, SOON).unwrap(), None);
    assert_eq!(server.all(), ["up 0"]);
}

fn both(server: &mut Server) {
    let _client = server.guest(&[(ONE, "a"), (TWO, "b")]);
    assert_eq!(server.message(), "a in 0");
    assert_eq!(server.all(), ["up 0", "b in 0"]);
}

fn a_session_over_next(server: &mut Server) {
    server.session(&["a", "b"]);
    let all = ["up 0", "a in 0", "b in 0", "ended 0, 1 in all"];
    assert_eq!(server.all(), all);
}

fn a_session_over_event(server: &mut Server) {
    server.session(&["a", "b"]);
    assert_eq!(server.events(), ["up 0"]);
    assert_eq!(server.message(), "a in 0");
    assert_eq!(server.event().unwrap(), None);
    assert_eq!(server.message(), "b in 0");
    assert_eq!(server.events(), ["ended 0, 1 in all"]);
}

fn a_session_over_recv_from(server: &mut Server) {
    server.session(&["a"]);
    let message = server.recv_from(CLIENT, LONG).unwrap().unwrap();
    assert_eq!(message.payload, "a");
    let ended = server.recv_from(CLIENT, LONG);
    assert!(matches!(ended, Err(Error::Ended { .. })), "{ended:?}");
    assert_eq!(server.recv_from(CLIENT, SOON).unwrap(), None, "told once");
    assert_eq!(server.all(), ["up 0", "ended 0, 1 in all"]);
}

fn two_sessions_next(server: &mut Server) {
    server.session(&["old"]);
    server.session(&["new"]);
    let all = [
        "up 0",
        "old in 0",
        "ended 0, 1 in all",
        "up 1",
        "new in 1",
        "ended 1, 1 in all",
    ];
    assert_eq!(server.all(), all);
}

fn two_sessions_event(server: &mut Server) {
    server.session(&["old"]);
    server.session(&["new"]);
    assert_eq!(server.events(), ["up 0"]);
    assert_eq!(server.message(), "old in 0");
    assert_eq!(server.events(), ["ended 0, 1 in all", "up 1"]);
    assert_eq!(server.message(), "new in 1");
    assert_eq!(server.events(), ["ended 1, 1 in all"]);
}

fn two_sessions_recv(server: &mut Server) {
    server.session(&["old"]);
    server.session(&["new"]);
    assert_eq!(server.message(), "old in 0");
    assert_eq!(server.message(), "new in 1");
    assert_eq!(server.events(), ["up 0", "ended 1, 2 in all"]);
}

fn a_finished_channel(server: &mut Server) {
    let _client = server.visit(|client| {
        let to = NodeId(0);
        for (channel, text) in [(ONE, "a"), (TWO, "b")] {
            let message = OutgoingMessage::new(text).channel(channel);
            client.send(to, message).unwrap();
        }
        client.flush(LONG).unwrap();
        client.peer(to).finish_channel(ONE).unwrap();
        std::thread::sleep(10 * SOON);
        client.clone()
    });
    assert_eq!(server.events(), ["up 0"]);
    assert!(server.recv_from(TWO, LONG).unwrap().is_some());
    assert_eq!(server.event().unwrap(), None, "its messages come before");
    assert!(server.recv_from(ONE, LONG).unwrap().is_some());
    assert_eq!(server.all(), ["finished 1"]);
}

/// A client that sends a message too long to be taken without consent.
fn announce(server: &mut Server) -> SharedNode {
    server.visit(|client| {
        client.send(NodeId(0), vec![7; 100_000]).unwrap();
        std::thread::sleep(10 * SOON);
        client.clone()
    })
}

fn an_announced_message(server: &mut Server) {
    let client = announce(server);
    let error = server.recv(LONG).unwrap_err();
    let said = error.to_string();
    let Error::NeedsAnswer {
        channel, number, ..
    } = error
    else {
        panic!("{said}");
    };
    assert!(said.contains("accept_into"), "{said}");
    assert_eq!(server.recv(SOON).unwrap(), None, "told once");
    // Answered, it is announced no more.
    let buffer = vec![0; 100_000];
    each!(&mut *server, node => node.accept_into(CLIENT, channel, number, buffer)).unwrap();
    assert_eq!(server.events(), ["up 0"]);
    let message = server.recv(LONG).unwrap().unwrap();
    assert_eq!(message.payload.len(), 100_000);
    drop(client);
}

fn an_announced_message_as_event(server: &mut Server) {
    let _client = announce(server);
    assert_eq!(server.all(), ["up 0", "incoming 100000"]);
    assert_eq!(server.recv(SOON).unwrap(), None, "the event told it");
}

fn outcomes_wait_for_no_message(server: &mut Server) {
    let _client = server.guest(&[(ONE, "a")]);
    let send = || OutgoingMessage::new("back").notify(9);
    each!(&mut *server, node => node.send(CLIENT, send()).map(drop)).unwrap();
    each!(&mut *server, node => node.flush(LONG)).unwrap();
    (0..5).for_each(|_| server.serve());
    assert_eq!(server.events(), ["up 0", "delivered 9"]);
    assert_eq!(server.message(), "a in 0");
}

fn a_closed_node_next(server: &mut Server) {
    server.session(&["a", "b"]);
    server.close();
    let all = ["up 0", "a in 0", "b in 0", "ended 0, 1 in all"];
    assert_eq!(server.all(), all);
    assert!(matches!(server.try_next(), Err(Error::Closed)));
    assert!(matches!(server.recv(LONG), Err(Error::Closed)));
    assert!(matches!(server.event(), Err(Error::Closed)));
}

fn a_closed_node_apart(server: &mut Server) {
    server.session(&["a"]);
    server.close();
    assert_eq!(server.events(), ["up 0"]);
    assert!(matches!(server.event(), Err(Error::Closed)));
    assert_eq!(server.message(), "a in 0");
    assert!(matches!(server.recv(LONG), Err(Error::Closed)));
    assert_eq!(server.events(), ["ended 0, 1 in all"]);
}

type Row = (&'static str, fn(&mut Server));

const ROWS: &[Row] = &[
    ("nothing", nothing),
    ("a message", a_message_alone),
    ("an event", an_event_alone),
    ("both", both),
    ("a session over: next", a_session_over_next),
    ("a session over: next_event", a_session_over_event),
    ("a session over: recv_from", a_session_over_recv_from),
    ("two sessions: next", two_sessions_next),
    ("two sessions: next_event", two_sessions_event),
    ("two sessions: recv", two_sessions_recv),
    ("a finished channel", a_finished_channel),
    ("an announced message: recv", an_announced_message),
    ("an announced message: next", an_announced_message_as_event),
    ("an outcome", outcomes_wait_for_no_message),
    ("closed: next", a_closed_node_next),
    ("closed: the others", a_closed_node_apart),
];

#[test]
fn each_row_of_the_table_holds_on_both_kinds_of_node() {
    for (name, row) in ROWS {
        for mut server in Server::both() {
            let kind = each!(&server, node => format!("{node:?}"));
            println!("{name}: {}", kind.split(' ').next().unwrap_or_default());
            row(&mut server);
        }
    }
    println!("figure: {} rows on 2 kinds of node", ROWS.len());
}

/// Messages that a shared node accepted on more channels than the peer permits, before and after
/// it knows how many: each arrives, or is told as not delivered, once. A flush counts the latter.
#[test]
fn each_message_that_a_shared_node_accepted_has_one_outcome() {
    const ALL: u32 = 6_000;
    for known in [false, true] {
        let receiver = builder(0).accept(AcceptPolicy::Anyone).memory(1 << 20);
        let receiver = receiver.max_message(64 << 10).open_threads(1).unwrap();
        let sender = builder(1).open_threads(1).unwrap();
        sender.add_peer(NodeId(0), receiver.local_addr()).unwrap();
        let mut outcomes = vec![0; ALL as usize];
        if known {
            sender.send(NodeId(0), "up").unwrap();
            receiver.recv_timeout(LONG).unwrap().unwrap();
        }
        for channel in 0..ALL {
            let message = OutgoingMessage::new("x");
            let message = message.channel(ChannelId(channel)).token(channel.into());
            sender.send_timeout(NodeId(0), message, LONG).unwrap();
        }
        let mut arrived = 0;
        while let Some(message) = receiver.recv_timeout(10 * SOON).unwrap() {
            outcomes[message.channel.0 as usize] += 1;
            arrived += 1;
        }
        let Err(Error::NotFlushed { peers }) = sender.flush(LONG) else {
            panic!("some are not delivered");
        };
        let mut told = 0;
        while let Some(event) = sender.event_timeout(SOON).unwrap() {
            if let Event::NotDelivered { token, reason, .. } = event {
                assert_eq!(reason, suci::TOO_MANY_CHANNELS);
                outcomes[token as usize] += 1;
                told += 1;
            }
        }
        println!("figure: {arrived} of {ALL} arrived, {told} told, {peers:?} by flush");
        assert!(outcomes.iter().all(|count| *count == 1));
        assert_eq!(peers, [(NodeId(0), told)]);
        sender.flush(LONG).unwrap();
    }
}

/// A program that has the answer to a large message finds room for the next one, however full the
/// queue was.
#[test]
fn an_answer_comes_after_the_room_of_its_question() {
    const ROUNDS: usize = 200;
    let sender = builder(0).send_queue(64 << 10).open_threads(1).unwrap();
    let answerers: Vec<_> = (1..=3)
        .map(|id| {
            let node = builder(id).open_threads(1).unwrap();
            node.add_peer(NodeId(0), sender.local_addr()).unwrap();
            sender.add_peer(node.id(), node.local_addr()).unwrap();
            std::thread::spawn(move || {
                for _ in 0..ROUNDS {
                    let question = node.recv_timeout(LONG).unwrap().unwrap();
                    node.send(question.from, "answer").unwrap();
                }
                node.flush(LONG).unwrap();
            })
        })
        .collect();
    let to: Vec<_> = (1..=3).map(NodeId).collect();
    let payload = suci::Bytes::from(vec![7; 1 << 20]);
    let mut refused = 0;
    for _ in 0..ROUNDS {
        let accepted = sender.broadcast(&to, payload.clone()).unwrap();
        for (node, accepted) in accepted {
            if accepted.is_err() {
                refused += 1;
                sender.send_timeout(node, payload.clone(), LONG).unwrap();
            }
        }
        for _ in &to {
            sender.recv_timeout(LONG).unwrap().unwrap();
        }
    }
    println!("figure: {refused} of {} refused", ROUNDS * to.len());
    assert_eq!(refused, 0);
    answerers
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

/// One setting is changed by one call, which leaves the others.
#[test]
fn one_setting_of_a_peer_is_one_call() {
    for mut server in Server::both() {
        let _client = server.guest(&[(ONE, "a")]);
        each!(&server, node => {
            let peer = node.peer(CLIENT);
            let before = peer.options().unwrap();
            peer.configure(|options| options.rate_cap = Some(9_000_000)).unwrap();
            peer.configure(|options| options.keep_alive = true).unwrap();
            let expected = suci::PeerOptions {
                rate_cap: Some(9_000_000),
                keep_alive: true,
                ..before
            };
            assert_eq!(peer.options().unwrap(), expected);
            let wrong = peer.configure(|options| options.silence_timeout = Duration::ZERO);
            assert!(matches!(wrong, Err(Error::Config(_))), "{wrong:?}");
            assert_eq!(peer.options().unwrap(), expected, "nothing changed");
            let unknown = node.peer(NodeId(9)).configure(|_| ());
            assert!(matches!(unknown, Err(Error::UnknownPeer(_))), "{unknown:?}");
        });
    }
}
