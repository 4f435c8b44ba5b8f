//! Each verb of a [`Node`], between two of them over loopback.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, await_event, builder, introduce, pair, take, take_many};
use std::time::{Duration, Instant};
use suci::{
    AcceptPolicy, AddressBook, Bytes, ChannelId, EndReason, Event, Kind, LinkState, Node, NodeId,
    OutgoingMessage, SessionNumber,
};

#[test]
fn a_message_keeps_everything_it_was_sent_with() {
    let (mut a, mut b) = pair();
    let draft = OutgoingMessage::new("payload")
        .channel(ChannelId(3))
        .tag(9)
        .kind(Kind(200))
        .user_header("head");
    assert_eq!(a.send(b.id(), draft).unwrap(), 0);
    let message = take(&mut b);
    assert_eq!(
        (message.from, message.channel, message.number),
        (NodeId(0), ChannelId(3), 0)
    );
    assert_eq!((message.tag, message.kind), (9, Kind(200)));
    assert_eq!(
        (&message.user_header[..], &message.payload[..]),
        (&b"head"[..], &b"payload"[..])
    );
    b.send_copy(message.from, b"answer").unwrap();
    assert_eq!(&take(&mut a).payload[..], b"answer");
}

#[test]
fn messages_of_a_channel_keep_their_order() {
    let (mut a, mut b) = pair();
    for number in 0_u32..1_000 {
        a.send_copy(b.id(), &number.to_le_bytes()).unwrap();
    }
    for number in 0_u32..1_000 {
        let message = take(&mut b);
        assert_eq!(&message.payload[..], number.to_le_bytes());
        assert_eq!(message.number, u64::from(number));
    }
}

#[test]
fn many_messages_are_taken_at_once_and_no_more_than_asked_for() {
    let (mut a, mut b) = pair();
    let fill = |batch: &mut suci::Batch<'_>| {
        for number in 0_u32..1_000 {
            batch.send_copy(NodeId(1), &number.to_le_bytes()).unwrap();
        }
    };
    a.batch(fill).unwrap();
    let mut messages = take_many(a.id(), 1_000, |messages, most, timeout| {
        b.recv_many(messages, most, timeout)
    });
    // A message that was put back is the first, and counts.
    a.send_copy(b.id(), b"long one").unwrap();
    a.send_copy(b.id(), b"short").unwrap();
    assert!(b.recv_into(&mut [0; 4], LONG).is_err());
    messages.clear();
    assert_eq!(b.recv_many(&mut messages, 1, LONG).unwrap(), 1);
    assert_eq!(&messages[0].payload[..], b"long one");
    assert_eq!(&take(&mut b).payload[..], b"short");
}

#[test]
fn empty_messages_arrive() {
    let (mut a, mut b) = pair();
    a.send(b.id(), Bytes::new()).unwrap();
    assert!(take(&mut b).payload.is_empty());
}

#[test]
fn ipv6_works_alike() {
    let listen = "[::1]:0".parse().unwrap();
    let mut a = builder(0).listen(listen).open().unwrap();
    let mut b = builder(1).listen(listen).open().unwrap();
    introduce(&mut a, &mut b);
    a.send(b.id(), "over six").unwrap();
    assert_eq!(&take(&mut b).payload[..], b"over six");
}

#[test]
fn try_recv_returns_at_once() {
    let (mut a, mut b) = pair();
    assert!(b.try_recv().unwrap().is_none());
    a.send(b.id(), "x").unwrap();
    while b.try_recv().unwrap().is_none() {
        a.poll(Duration::ZERO).unwrap();
    }
}

#[test]
fn recv_timeout_gives_up() {
    let (mut a, _b) = pair();
    assert!(a.recv_timeout(Duration::from_millis(1)).unwrap().is_none());
}

#[test]
fn poll_tells_of_messages_and_events() {
    let (mut a, mut b) = pair();
    assert!(!b.poll(Duration::ZERO).unwrap());
    a.send(b.id(), "x").unwrap();
    assert!(b.poll(LONG).unwrap());
    assert_eq!(
        await_event(&mut b, |e| matches!(e, Event::Up { .. })),
        Event::Up {
            node: a.id(),
            session: SessionNumber(0)
        }
    );
    assert!(b.poll(LONG).unwrap(), "the message is there still");
    take(&mut b);
    assert!(!b.poll(Duration::ZERO).unwrap(), "nothing is left");
}

#[test]
fn recv_into_copies_and_keeps_what_does_not_fit() {
    let (mut a, mut b) = pair();
    a.send(b.id(), OutgoingMessage::new("12345678").tag(5))
        .unwrap();
    let mut buffer = [0; 16];
    let short = b.recv_into(&mut buffer[..4], LONG).unwrap_err().to_string();
    assert!(
        short.contains("8 bytes") && short.contains("4 bytes"),
        "{short}"
    );
    let (length, message) = b.recv_into(&mut buffer, LONG).unwrap().unwrap();
    assert_eq!((&buffer[..length], message.tag), (&b"12345678"[..], 5));
    let late = b.recv_into(&mut buffer, Duration::from_millis(1));
    assert!(matches!(late, Ok(None)), "{late:?}");
}

/// Two senders, messages of many sizes, and calls that give up while a message is under way: the
/// bytes of each are right, wherever they came.
#[test]
fn recv_into_never_mixes_messages() {
    const ROUNDS: u8 = 60;
    let (mut a, mut b) = pair();
    let mut c = builder(2).open().unwrap();
    introduce(&mut b, &mut c);
    let to = b.id();
    let size =
        |round: u8| [10, 3_000, 70_000, 400_000][usize::from(round % 4)] + usize::from(round);
    let send = move |node: &mut suci::Node| {
        for round in 0..ROUNDS {
            let message = OutgoingMessage::new(vec![round; size(round)]).tag(round.into());
            node.send_timeout(to, message, LONG).unwrap();
            node.poll(Duration::from_micros(u64::from(round % 3) * 300))
                .unwrap();
        }
        node.close(LONG).unwrap();
    };
    let senders = [
        std::thread::spawn(move || send(&mut a)),
        std::thread::spawn(move || send(&mut c)),
    ];
    let mut buffer = vec![0; 500_000];
    let mut next = std::collections::BTreeMap::new();
    let mut received = 0;
    while received < 2 * u32::from(ROUNDS) {
        let limit = Duration::from_micros(200);
        let Some((length, message)) = b.recv_into(&mut buffer, limit).unwrap() else {
            // The bytes of a message that is under way are not here any more.
            buffer.fill(0xff);
            continue;
        };
        let round = next.entry(message.from).or_insert(0);
        assert_eq!((message.tag, length), (u64::from(*round), size(*round)));
        assert!(message.payload.is_empty());
        let right = buffer[..length].iter().all(|byte| byte == round);
        assert!(right, "round {round} of node {}", message.from);
        *round += 1;
        received += 1;
    }
    for sender in senders {
        sender.join().unwrap();
    }
}

#[test]
fn an_end_does_not_overtake_a_message_that_did_not_fit() {
    let (mut a, mut b) = pair();
    a.send_copy(b.id(), &[1; 100]).unwrap();
    let closing = std::thread::spawn(move || a.close(LONG).unwrap());
    let is_end = |event: &Event| matches!(event, Event::Ended { .. });
    let mut buffer = [0; 100];
    let mut early = Vec::new();
    // Each call also does input and output.
    while !closing.is_finished() {
        let short = b.recv_into(&mut buffer[..10], LONG).unwrap_err();
        assert!(
            matches!(short, suci::Error::BufferTooShort { .. }),
            "{short}"
        );
        early.extend(b.events().unwrap());
    }
    closing.join().unwrap();
    assert!(!early.iter().any(is_end), "{early:?}");
    assert_eq!(b.recv_into(&mut buffer, LONG).unwrap().unwrap().0, 100);
    await_event(&mut b, is_end);
}

#[test]
fn broadcast_reaches_all_and_reports_for_each() {
    let mut center = builder(9).open().unwrap();
    let mut rim: Vec<_> = (0..3).map(|id| builder(id).open().unwrap()).collect();
    for node in &mut rim {
        introduce(&mut center, node);
    }
    let everyone: Vec<_> = center.peers().unwrap().iter().map(|p| p.node).collect();
    assert_eq!(everyone, [NodeId(0), NodeId(1), NodeId(2)]);
    let payload = Bytes::from(vec![7; 300_000]);
    let to: Vec<_> = everyone.into_iter().chain([NodeId(77)]).collect();
    let report = center.broadcast(&to, payload.clone()).unwrap();
    assert!(report[..3].iter().all(|(_, result)| result.is_ok()));
    assert!(matches!(
        report[3],
        (NodeId(77), Err(suci::Error::UnknownPeer(NodeId(77))))
    ));
    let receivers = rim.into_iter().map(|mut node| {
        std::thread::spawn(move || {
            node.recv_timeout(LONG)
                .unwrap()
                .expect("the broadcast")
                .payload
        })
    });
    let receivers: Vec<_> = receivers.collect();
    center.flush(LONG).unwrap();
    for receiver in receivers {
        assert_eq!(receiver.join().unwrap(), payload);
    }
    assert_eq!(center.counters().unwrap().payload_copied, 0);
}

#[test]
fn flush_waits_for_all_and_queue_len_tells() {
    let mut a = builder(0).open().unwrap();
    // Only the receiver itself answers, however long this thread is held up.
    let mut b = builder(1).unattended().open().unwrap();
    introduce(&mut a, &mut b);
    for _ in 0..10 {
        a.send_copy(b.id(), &[1; 100]).unwrap();
    }
    assert_eq!(a.peer(b.id()).queue_len().unwrap(), (10, 1_000));
    let receiver = std::thread::spawn(move || {
        (0..10).for_each(|_| drop(take(&mut b)));
        // The last acknowledgement rides on nothing: it goes with the next cycle.
        b.poll(Duration::ZERO).unwrap();
        b
    });
    a.flush(LONG).unwrap();
    let b = receiver.join().unwrap();
    assert_eq!(a.peer(b.id()).queue_len().unwrap(), (0, 0));
    assert_eq!(a.peer(b.id()).delivered(ChannelId(0)).unwrap(), 10);
}

/// A program that only asks is the only one that can send for a node without a helper.
#[test]
fn an_unattended_node_sends_while_its_program_only_asks() {
    let mut a = builder(0).unattended().open().unwrap();
    let mut b = builder(1).open().unwrap();
    introduce(&mut a, &mut b);
    a.send(b.id(), "x").unwrap();
    let deadline = Instant::now() + LONG;
    while a.peer(b.id()).queue_len().unwrap().0 > 0 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(take(&mut b).payload, "x");
}

#[test]
fn delivery_is_told_to_those_who_ask() {
    let (mut a, mut b) = pair();
    a.send(b.id(), OutgoingMessage::new("quiet")).unwrap();
    a.send(b.id(), OutgoingMessage::new("told").notify(42))
        .unwrap();
    let receiver = std::thread::spawn(move || (take(&mut b), take(&mut b), b));
    let told = await_event(&mut a, |e| matches!(e, Event::Delivered { .. }));
    let (_, _, b) = receiver.join().unwrap();
    let expected = Event::Delivered {
        node: b.id(),
        channel: ChannelId(0),
        number: 1,
        token: 42,
    };
    assert_eq!(told, expected);
}

#[test]
fn anyone_may_come_where_that_is_the_policy() {
    let mut server = builder(0).accept(AcceptPolicy::Anyone).open().unwrap();
    let mut client = builder(5).open().unwrap();
    client.add_peer(server.id(), server.local_addr()).unwrap();
    client.send(server.id(), "hello").unwrap();
    let message = take(&mut server);
    server.send(message.from, "welcome").unwrap();
    assert_eq!(&take(&mut client).payload[..], b"welcome");
    assert_eq!(
        server.peer(NodeId(5)).stats().unwrap().unwrap().link,
        LinkState::Up
    );
}

#[test]
fn strangers_are_refused_where_the_book_decides() {
    let mut server = builder(0).open().unwrap();
    let mut client = builder(5).open().unwrap();
    client.add_peer(server.id(), server.local_addr()).unwrap();
    client.send(server.id(), "hello").unwrap();
    let refused = await_event_between(&mut client, &mut server, |e| {
        matches!(e, Event::Refused { .. })
    });
    let reason = suci::RefusedReason::NotAllowed;
    assert_eq!(
        refused,
        Event::Refused {
            node: server.id(),
            reason
        }
    );
}

/// Polls both until the first has such an event.
fn await_event_between(
    a: &mut suci::Node,
    b: &mut suci::Node,
    wanted: impl Fn(&Event) -> bool,
) -> Event {
    let end = Instant::now() + LONG;
    while Instant::now() < end {
        a.poll(Duration::from_millis(1)).unwrap();
        b.poll(Duration::from_millis(1)).unwrap();
        if let Some(event) = a.events().unwrap().into_iter().find(&wanted) {
            return event;
        }
    }
    panic!("no such event");
}

#[test]
fn a_closed_session_ends_once_with_its_reason() {
    let (mut a, mut b) = pair();
    a.send(b.id(), "last words").unwrap();
    let closer = std::thread::spawn(move || a.close(LONG).map(|()| a));
    assert_eq!(&take(&mut b).payload[..], b"last words");
    let ended = await_event(&mut b, |e| matches!(e, Event::Ended { .. }));
    let reason = EndReason::Closed;
    assert_eq!(
        ended,
        Event::Ended {
            node: NodeId(0),
            session: SessionNumber(0),
            sessions: 1,
            reason,
            outcomes: vec![]
        }
    );
    let mut a = closer.join().unwrap().unwrap();
    assert!(matches!(a.send(b.id(), "x"), Err(suci::Error::Closed)));
    assert!(matches!(a.recv(), Err(suci::Error::Closed)));
    assert!(matches!(a.poll(LONG), Err(suci::Error::Closed)));
    assert!(matches!(a.close(LONG), Err(suci::Error::Closed)));
}

#[test]
fn spinning_nodes_talk_alike() {
    let mut a = builder(0).wait(suci::WaitPolicy::SPIN).open().unwrap();
    let mut b = builder(1).wait(suci::WaitPolicy::SPIN).open().unwrap();
    introduce(&mut a, &mut b);
    let id = b.id();
    let echo = std::thread::spawn(move || {
        for _ in 0..100 {
            let message = take(&mut b);
            b.send(message.from, message.payload).unwrap();
        }
        // Stays until the other has everything.
        b.flush(LONG).unwrap();
    });
    for round in 0_u32..100 {
        a.send_copy(id, &round.to_le_bytes()).unwrap();
        assert_eq!(&take(&mut a).payload[..], round.to_le_bytes());
    }
    // The echo's last acknowledgement rides on nothing: it goes with the next cycle.
    a.poll(Duration::ZERO).unwrap();
    echo.join().unwrap();
}

#[test]
fn abandoning_a_peer_tells_what_became_of_its_messages() {
    let mut a = builder(0).open().unwrap();
    let b = builder(1).unattended().open().unwrap();
    a.add_peer(b.id(), b.local_addr()).unwrap();
    // Nothing calls or serves b, and it has no session yet: the message was never sent.
    a.send(b.id(), OutgoingMessage::new("never").token(3))
        .unwrap();
    a.peer(b.id()).reset().unwrap();
    let ended = await_event(&mut a, |e| matches!(e, Event::Ended { .. }));
    let Event::Ended {
        reason: EndReason::Reset,
        outcomes,
        ..
    } = ended
    else {
        panic!("{ended:?}");
    };
    let [outcome] = outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!(
        (outcome.token, outcome.outcome),
        (3, suci::Outcome::NotDelivered)
    );
}

#[test]
fn the_peer_limit_follows_the_receive_buffer() {
    let open = |bytes| {
        builder(0)
            .udp(|udp| udp.recv_buffer = bytes)
            .open()
            .unwrap()
    };
    let small = open(100_000);
    // The kernel doubles the requested size; 6,656 bytes make a peer.
    assert_eq!(small.peer_limit(), 30);
    assert_eq!(small.warning(), None, "it was asked for");
    let shared = builder(1).udp(|udp| udp.recv_buffer = 100_000);
    assert_eq!(shared.open_threads(1).unwrap().peer_limit(), 30);
}

/// A name that has addresses of both families finds the node at whichever it is.
#[test]
fn a_name_finds_a_node_at_any_of_its_addresses() {
    let any = "[::]:0".parse().unwrap();
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let mut b = builder(1).listen(at.parse().unwrap()).open().unwrap();
        let port = b.local_addr().port();
        let book = AddressBook::parse(&format!("1 localhost:{port}"), "book").unwrap();
        if !book.addresses(NodeId(1)).contains(&b.local_addr()) {
            // This machine's localhost has one family only.
            continue;
        }
        let a = Node::builder().id(NodeId(0)).book(book).listen(any);
        let mut a = a.allow_insecure_network().open().unwrap();
        let back = std::net::SocketAddr::new(b.local_addr().ip(), a.local_addr().port());
        b.add_peer(NodeId(0), back).unwrap();
        a.send(NodeId(1), "found").unwrap();
        let begun = Instant::now();
        while b.try_recv().unwrap().is_none() {
            a.poll(Duration::from_millis(1)).unwrap();
            assert!(begun.elapsed() < LONG, "{at}");
        }
    }
}

#[test]
fn a_book_without_this_node_is_refused_unless_an_address_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("members");
    std::fs::write(
        &path,
        "0 127.0.0.1:4000
",
    )
    .unwrap();
    let unknown = || Node::builder().id(NodeId(7)).book_file(&path);
    let said = unknown().open().unwrap_err().to_string();
    for part in ["node 7", "members", "listen"] {
        assert!(said.contains(part), "{said}");
    }
    let open = unknown().listen("127.0.0.1:0".parse().unwrap()).open();
    assert_eq!(open.unwrap().peers().unwrap().len(), 1);
}

#[test]
fn a_peer_that_is_removed_is_gone_for_both_kinds_of_nodes() {
    let (mut a, mut b) = (builder(0).open().unwrap(), builder(1).open().unwrap());
    introduce(&mut a, &mut b);
    a.send(NodeId(1), "hello").unwrap();
    take(&mut b);
    // The message rode on INIT, and ACCEPT may still be on its way.
    await_event(&mut a, |event| matches!(event, Event::Up { .. }));
    let peer = a.peers().unwrap()[0];
    assert_eq!(
        (peer.node, peer.link, peer.known),
        (NodeId(1), LinkState::Up, true)
    );
    assert_eq!(peer.address, Some(b.local_addr()));
    assert!(a.remove_peer(NodeId(1)).unwrap());
    await_event(&mut a, |event| matches!(event, Event::Ended { .. }));
    let again = a.send(NodeId(1), "more");
    assert!(
        matches!(again, Err(suci::Error::UnknownPeer(_))),
        "{again:?}"
    );
    assert!(a.peers().unwrap().is_empty());

    let shared = builder(2).open_threads(2).unwrap();
    shared.add_peer(NodeId(1), b.local_addr()).unwrap();
    assert_eq!(shared.peers().unwrap()[0].link, LinkState::Idle);
    assert!(
        !shared.remove_peer(NodeId(1)).unwrap(),
        "there was no session"
    );
    assert!(shared.peers().unwrap().is_empty());
}

/// As on a `SharedNode`.
#[test]
fn a_wait_for_an_event_ends_with_it_and_no_message_ends_it() {
    let (mut a, mut b) = pair();
    let short = Duration::from_millis(20);
    assert_eq!(b.event_timeout(short).unwrap(), None);
    a.send(b.id(), "x").unwrap();
    let up = Event::Up {
        node: a.id(),
        session: SessionNumber(0),
    };
    assert_eq!(b.event_timeout(LONG).unwrap(), Some(up));
    assert_eq!(b.event_timeout(short).unwrap(), None, "a message is there");
    let closing = std::thread::spawn(move || a.close(LONG));
    assert_eq!(take(&mut b).payload, b"x");
    let ended = b.event_timeout(LONG).unwrap();
    assert!(matches!(ended, Some(Event::Ended { .. })), "{ended:?}");
    closing.join().unwrap().unwrap();
    b.close(LONG).unwrap();
    for closed in [b.next_event(), b.event_timeout(LONG)] {
        assert!(matches!(closed, Err(suci::Error::Closed)));
    }
    assert!(b.events().unwrap().is_empty());
}
