//! Nodes that reach each other through others.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, builder};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use suci::security::ClusterKey;
use suci::{AcceptPolicy, AddressBook, Bytes, EndReason, Error, Event, NodeId, SharedNode};

/// The addresses of `count` nodes on loopback.
fn addresses(count: usize) -> Vec<SocketAddr> {
    let sockets: Vec<_> = (0..count)
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    let address = |socket: &UdpSocket| socket.local_addr().unwrap();
    sockets.iter().map(address).collect()
}

/// How the nodes of a test differ from usual ones.
#[derive(Clone, Copy, Default)]
struct Settings {
    threads: usize,
    sealed: bool,
    /// The nodes that do not forward.
    unwilling: Option<u32>,
    quick: bool,
    /// Nodes that are not in a book may call.
    anyone: bool,
}

/// Opens node `id` with the lines of a book in which `@7` stands for the address of node 7.
fn open(id: u32, at: &[SocketAddr], lines: &str, settings: Settings) -> SharedNode {
    let mut text = lines.to_owned();
    for (node, address) in at.iter().enumerate().rev() {
        text = text.replace(&format!("@{node}"), &address.to_string());
    }
    let mut builder = builder(id)
        .book(AddressBook::parse(&text, "book").unwrap())
        .listen(at[id as usize])
        .forward(settings.unwilling != Some(id));
    if settings.sealed {
        builder = builder.cluster_key(ClusterKey::from_bytes(&[7; 32]));
    }
    if settings.anyone {
        builder = builder.accept(AcceptPolicy::Anyone);
    }
    if settings.quick {
        builder = builder.silence_timeout(Duration::from_secs(1));
    }
    builder.open_threads(settings.threads.max(1)).unwrap()
}

/// 0 - 1 - 2 - 3: each knows its neighbours' addresses only.
fn chain(settings: Settings) -> Vec<SharedNode> {
    let at = addresses(4);
    let books = [
        "1 @1\n2 via 1\n3 via 2",
        "0 @0\n2 @2\n3 via 2",
        "1 @1\n3 @3\n0 via 1",
        "2 @2\n0.. via 2\n0 via 2\n1 via 2",
    ];
    let open = |(id, lines)| open(id, &at, lines, settings);
    (0..).zip(books).map(open).collect()
}

/// Sends messages of several sizes from `a` to `b` and answers each.
fn exchange(a: &SharedNode, b: &SharedNode) {
    for length in [0, 1, 200, 1_472, 5_000, 65_536, 1_000_000] {
        let payload: Bytes = (0..length)
            .map(|at: u32| (at * 7 + at / 251) as u8)
            .collect();
        for _ in 0..3 {
            a.send(b.id(), payload.clone()).unwrap();
        }
        for _ in 0..3 {
            let message = b.recv_timeout(LONG).unwrap().unwrap();
            assert_eq!(message.from, a.id());
            assert!(message.payload == payload, "{length} B");
            b.send_copy(a.id(), b"answer").unwrap();
        }
        for _ in 0..3 {
            let answer = a.recv_timeout(LONG).unwrap().unwrap();
            assert_eq!(&answer.payload[..], b"answer");
        }
    }
}

/// Waits for an event about `node` that is `wanted`.
fn await_event(at: &SharedNode, wanted: impl Fn(&Event) -> bool) -> Event {
    let end = Instant::now() + LONG;
    while Instant::now() < end {
        match at.next_event().unwrap() {
            Some(event) if wanted(&event) => return event,
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    panic!("no such event");
}

fn is_end(event: &Event, of: u32, with: EndReason) -> bool {
    matches!(event, Event::Ended { node, reason, .. } if *node == NodeId(of) && *reason == with)
}

#[test]
fn messages_go_along_a_chain_and_back() {
    for settings in [
        Settings::default(),
        Settings {
            threads: 3,
            ..Settings::default()
        },
        Settings {
            sealed: true,
            ..Settings::default()
        },
    ] {
        let nodes = chain(settings);
        exchange(&nodes[0], &nodes[3]);
        exchange(&nodes[3], &nodes[1]);
        let counters = |node: usize| nodes[node].counters().unwrap();
        assert!(counters(1).routes.forwarded > 1_000);
        assert!(counters(2).routes.forwarded > 1_000);
        assert!(counters(0).routes.sent > 0 && counters(0).routes.received > 0);
        assert_eq!(counters(1).routes.not_allowed, 0);
        assert_eq!(
            (counters(0).routes.forwarded, counters(3).routes.forwarded),
            (0, 0)
        );
        assert!(nodes[0].flush(LONG).is_ok());
        let (first, last) = (nodes[0].clone(), nodes[3].clone());
        first.close(LONG).unwrap();
        await_event(&last, |event| is_end(event, 0, EndReason::Closed));
    }
}

#[test]
fn a_node_that_was_not_told_to_forwards_nothing() {
    let nodes = chain(Settings {
        unwilling: Some(1),
        quick: true,
        ..Settings::default()
    });
    nodes[0].send_copy(NodeId(3), b"lost").unwrap();
    let lost = |event: &Event| matches!(event, Event::Lost { node, .. } if *node == NodeId(3));
    await_event(&nodes[0], lost);
    let counters = nodes[1].counters().unwrap();
    assert!(counters.routes.not_allowed > 0);
    assert_eq!(counters.routes.forwarded, 0);
}

/// The one of two forwarders that is in use goes away: the other takes over before the end
/// of its route is lost, and nothing is lost or comes twice.
#[test]
fn another_route_takes_over_when_a_forwarder_goes() {
    let books = [
        "1 @1\n2 @2\n3 via 1, 2",
        "0 @0\n3 @3",
        "0 @0\n3 @3",
        "1 @1\n2 @2\n0 via 1, 2",
    ];
    let mut nodes = diamond(books, Settings::default());
    let send = |nodes: &[SharedNode], number: u32| {
        nodes[0]
            .send_copy(NodeId(3), &number.to_le_bytes())
            .unwrap();
    };
    (0..100).for_each(|number| send(&nodes, number));
    let (first, last) = (nodes[0].clone(), nodes.pop().unwrap());
    let take = |number: u32| {
        let message = last.recv_timeout(LONG).unwrap().unwrap();
        assert_eq!(&message.payload[..], number.to_le_bytes());
    };
    (0..100).for_each(take);
    assert!(nodes[1].counters().unwrap().routes.forwarded > 0);
    assert_eq!(nodes[2].counters().unwrap().routes.forwarded, 0);
    drop(nodes.remove(1));
    (100..200).for_each(|number: u32| {
        first.send_copy(NodeId(3), &number.to_le_bytes()).unwrap();
    });
    (100..200).for_each(take);
    assert!(nodes[1].counters().unwrap().routes.forwarded > 0);
    let mut events = std::iter::from_fn(|| first.next_event().unwrap());
    let lost = |event: &Event| matches!(event, Event::Lost { node, .. } if *node == NodeId(3));
    assert!(!events.any(|event| lost(&event)));
}

#[test]
fn what_is_behind_a_dead_forwarder_is_lost_and_comes_back_with_it() {
    let at = addresses(3);
    let settings = Settings {
        quick: true,
        ..Settings::default()
    };
    let books = ["1 @1\n2 via 1", "0 @0\n2 @2", "1 @1\n0 via 1"];
    let open_one = |id: u32| open(id, &at, books[id as usize], settings);
    let [first, forwarder, last] = [0, 1, 2].map(open_one);
    exchange(&first, &last);
    drop(forwarder);
    first.send_copy(NodeId(2), b"later").unwrap();
    await_event(&first, |event| {
        matches!(
            event,
            Event::Lost {
                node: NodeId(2),
                ..
            }
        )
    });
    let forwarder = open_one(1);
    await_event(&first, |event| {
        matches!(
            event,
            Event::Up {
                node: NodeId(2),
                ..
            }
        )
    });
    let message = last.recv_timeout(LONG).unwrap().unwrap();
    assert_eq!(&message.payload[..], b"later");
    exchange(&last, &first);
    drop(forwarder);
}

#[test]
fn a_book_whose_routes_need_this_node_must_have_the_address() {
    let book = AddressBook::parse("1 127.0.0.1:1\n2 via 1", "cluster.book").unwrap();
    let refused = builder(1).book(book).open().unwrap_err();
    assert!(matches!(refused, Error::Book(_)));
    let said = refused.to_string();
    assert!(
        said.contains("cluster.book:2: node 2 is reached through this one"),
        "{said}"
    );
}

#[test]
fn a_loop_in_a_book_of_the_program_is_named() {
    let mut book = AddressBook::new();
    book.add_route(3..=3, &[NodeId(5)]).unwrap();
    book.add_route(5..=5, &[NodeId(3)]).unwrap();
    let said = builder(1).book(book).open().unwrap_err().to_string();
    assert!(said.contains("loop: 5 via 3 via 5"), "{said}");
}

/// 0 and 3 are joined by 1 and by 2.
fn diamond(books: [&str; 4], settings: Settings) -> Vec<SharedNode> {
    let at = addresses(4);
    let open = |(id, lines)| open(id, &at, lines, settings);
    (0..).zip(books).map(open).collect()
}

fn has_event(node: &SharedNode, wanted: impl Fn(&Event) -> bool) -> bool {
    std::iter::from_fn(|| node.next_event().unwrap()).any(|event| wanted(&event))
}

/// Node 0 knows nothing of node 3, which calls through 1, and through 2 once 1 is gone. The session
/// moves after a challenge, as with a new address. With a route for the range of node 3, node 0
/// finds the other way by itself.
#[test]
fn a_stranger_behind_others_is_answered_through_another_neighbour() {
    for (book, calls) in [("1 @1\n2 @2", true), ("1 @1\n2 @2\n3.. via 2, 1", false)] {
        for threads in [1, 3] {
            let settings = Settings {
                threads,
                anyone: true,
                ..Settings::default()
            };
            let between = "0 @0\n3 @3";
            let books = [book, between, between, "1 @1\n2 @2\n0 via 1, 2"];
            let mut nodes = diamond(books, settings);
            exchange(&nodes[3], &nodes[0]);
            let forwarded = nodes[1].counters().unwrap().routes.forwarded;
            assert!(forwarded > 0, "through the first");
            drop(nodes.remove(1));
            let (first, last) = (&nodes[0], &nodes[2]);
            let (from, to) = if calls { (last, first) } else { (first, last) };
            exchange(from, to);
            exchange(to, from);
            assert!(!has_event(
                to,
                |event| matches!(event, Event::Ended { node, .. }
                if *node == from.id())
            ));
        }
    }
}

/// 1 has two neighbours on the way to 4, of which the first answers and sends nothing on. 0 has one
/// route only: the turn of its packets lets 1 take its second.
#[test]
fn a_forwarder_takes_its_second_route_if_the_first_leads_nowhere() {
    let at = addresses(5);
    let between = "1 @1\n4 @4\n0 via 1";
    let books = [
        "1 @1\n4 via 1",
        "0 @0\n2 @2\n3 @3\n4 via 2, 3",
        between,
        between,
        "2 @2\n3 @3\n1 via 3\n0 via 1",
    ];
    let settings = Settings {
        unwilling: Some(2),
        ..Settings::default()
    };
    let open = |(id, lines)| open(id, &at, lines, settings);
    let nodes: Vec<_> = (0..).zip(books).map(open).collect();
    exchange(&nodes[0], &nodes[4]);
    let counters = |node: usize| nodes[node].counters().unwrap().routes;
    assert!(counters(2).not_allowed > 0);
    assert!(counters(3).forwarded > 0);
}

/// Each thread of forwarder 1 serves other neighbours: that of node 2 notices that node 2 is gone
/// while the packets of node 0 come to another. Then none of these goes there: node 5 is not lost,
/// which it would be before node 0 tried another turn.
#[test]
fn a_forwarder_of_several_threads_notices_a_dead_neighbour() {
    let at = addresses(6);
    let between = "1 @1\n4 @4\n5 @5\n0 via 1";
    let end = "2 @2\n3 @3\n1 via 3\n0 via 1";
    let books = [
        "1 @1\n4 via 1\n5 via 1",
        "0 @0\n2 @2\n3 @3\n4 via 2, 3\n5 via 2, 3",
        between,
        between,
        end,
        end,
    ];
    let settings = Settings {
        threads: 3,
        quick: true,
        ..Settings::default()
    };
    let open = |(id, lines)| open(id, &at, lines, settings);
    let mut nodes: Vec<_> = (0..).zip(books).map(open).collect();
    exchange(&nodes[0], &nodes[4]);
    drop(nodes.remove(2));
    exchange(&nodes[0], &nodes[3]);
    exchange(&nodes[0], &nodes[4]);
    let lost = |event: &Event| matches!(event, Event::Lost { node, .. } if *node == NodeId(5));
    assert!(!has_event(&nodes[0], lost));
}
