//! Bad input gets a typed error or a counter that names the fault and the reason.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, await_event, builder, introduce, pair, shared_pair, take};
use std::io::Write;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use suci::{
    AcceptPolicy, AddressBook, Bytes, ChannelId, Error, Event, Kind, Node, NodeId, OutgoingMessage,
    Priority,
};

#[test]
fn unknown_peers_and_an_address_of_oneself_are_refused() {
    let (mut a, _b) = pair();
    assert!(matches!(
        a.send(NodeId(99), "x"),
        Err(Error::UnknownPeer(NodeId(99)))
    ));
    let said = a.send(NodeId(99), "x").unwrap_err().to_string();
    assert!(
        said.contains("node 99") && said.contains("address book"),
        "{said}"
    );
    assert!(matches!(
        a.add_peer(NodeId(0), "127.0.0.1:9".parse().unwrap()),
        Err(Error::Peer(_))
    ));
    assert!(matches!(
        a.peer(NodeId(99)).queue_len(),
        Err(Error::UnknownPeer(NodeId(99)))
    ));
}

/// A call that awaits the end of a session that is not there would wait for ever.
#[test]
fn there_is_nothing_to_end_with_a_stranger_nor_before_a_session() {
    let (mut a, mut b) = pair();
    for (ended, shared) in [
        (a.peer(NodeId(99)).close(LONG), false),
        (a.peer(NodeId(99)).reset(), false),
        (shared_pair().0.peer(NodeId(99)).close(LONG), true),
        (shared_pair().0.peer(NodeId(99)).reset(), true),
    ] {
        let stranger = matches!(ended, Err(Error::UnknownPeer(NodeId(99))));
        assert!(stranger, "{ended:?}, shared: {shared}");
    }
    assert!(!a.peer(b.id()).close(LONG).unwrap());
    assert!(!a.peer(b.id()).reset().unwrap());
    a.send(b.id(), "x").unwrap();
    take(&mut b);
    assert!(a.peer(b.id()).close(LONG).unwrap());
    let refused = a.send(b.id(), "y").unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("wait for the event Ended"), "{said}");
    let Error::Closing { to, message } = refused else {
        panic!("{refused}")
    };
    let there = std::thread::spawn(move || (take(&mut b), b));
    let is_end = |event: &Event| matches!(event, Event::Ended { .. });
    await_event(&mut a, is_end);
    a.send(to, *message).unwrap();
    a.flush(LONG).unwrap();
    let (message, _b) = there.join().unwrap();
    assert_eq!(&message.payload[..], b"y");
    assert!(a.peer(to).reset().unwrap());
    await_event(&mut a, is_end);
}

/// Messages left unread are bounded: after four sessions the program is told, in the call that
/// cannot go on.
#[test]
fn a_program_that_leaves_messages_unread_is_told_to_receive_them() {
    let (mut a, mut b) = pair();
    for _ in 0..4 {
        b.send(a.id(), "x").unwrap();
        // The other one's helper takes it.
        b.flush(LONG).unwrap();
        a.peer(b.id()).reset().unwrap();
        await_event(&mut b, |event| matches!(event, Event::Ended { .. }));
    }
    let refused = a.send(b.id(), "y").unwrap_err();
    assert!(matches!(refused, Error::Unread { .. }), "{refused}");
    assert!(refused.to_string().contains("receive them"), "{refused}");
    take(&mut a);
    a.send(b.id(), "y").unwrap();
}

/// Ends that the program does not take keep it from nothing.
#[test]
fn a_program_that_takes_no_events_ends_as_many_sessions_as_it_likes() {
    let (mut a, mut b) = pair();
    for _ in 0..20 {
        a.send(b.id(), "x").unwrap();
        take(&mut b);
        a.peer(b.id()).reset().unwrap();
    }
    let ends = a.events().unwrap();
    let ends = ends.iter().filter_map(|event| match event {
        Event::Ended { sessions, .. } => Some(*sessions),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), [20]);
}

/// Kinds below 128 and channels with another top byte than 0 are the library's, whichever call is
/// to send them.
#[test]
fn reserved_kinds_and_channels_are_refused() {
    let (mut a, b) = pair();
    let (shared, other) = shared_pair();
    let on = |channel| OutgoingMessage::new("x").channel(ChannelId(channel));
    let of = |kind| OutgoingMessage::new("x").kind(Kind(kind));
    for (draft, said) in [
        (of(0), "kind 0 is reserved for the library: use 128 to 255"),
        (of(5), "kind 5 is"),
        (of(127), "kind 127 is"),
        (
            on(1 << 24),
            "channel 16777216 is reserved for other layers of the library: use 0 to 16777215",
        ),
        (on(u32::MAX), "channel 4294967295 is"),
    ] {
        let (to, shared_to) = (b.id(), other.id());
        let broadcast = a.broadcast(&[to], draft.clone()).unwrap().remove(0).1;
        let all = [
            a.send(to, draft.clone()).map(drop),
            a.send_timeout(to, draft.clone(), LONG).map(drop),
            a.batch(|batch| batch.send(to, draft.clone()))
                .unwrap()
                .map(drop),
            broadcast.map(drop),
            shared.send(shared_to, draft.clone()),
            shared.send_timeout(shared_to, draft.clone(), LONG),
            shared
                .broadcast(&[shared_to], draft.clone())
                .unwrap()
                .remove(0)
                .1,
        ];
        for refused in all {
            let error = refused.unwrap_err();
            let named = matches!(
                error,
                Error::ReservedKind { .. } | Error::ReservedChannel { .. }
            );
            let text = error.to_string();
            assert!(named && text.starts_with(said), "{text}");
        }
    }
    for channel in [1 << 24, u32::MAX].map(ChannelId) {
        for set in [
            a.peer(b.id())
                .set_channel_priority(channel, Priority::DEFAULT),
            shared
                .peer(other.id())
                .set_channel_priority(channel, Priority::DEFAULT),
        ] {
            assert!(matches!(set, Err(Error::ReservedChannel { channel: c }) if c == channel));
        }
    }
    for draft in [of(128), of(255), on((1 << 24) - 1)] {
        a.send(b.id(), draft.clone()).unwrap();
        shared.send(other.id(), draft).unwrap();
    }
}

#[test]
fn a_long_user_header_is_refused() {
    let (mut a, b) = pair();
    let sent = a.send(b.id(), OutgoingMessage::new("x").user_header(vec![0; 256]));
    assert!(
        matches!(sent, Err(Error::HeaderTooLong { length: 256 })),
        "{sent:?}"
    );
}

#[test]
fn a_full_queue_gives_the_message_back() {
    let mut a = builder(0).send_queue(1 << 16).open().unwrap();
    // No node is there.
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    a.add_peer(NodeId(1), nobody.local_addr().unwrap()).unwrap();
    // Each counts 64 bytes more: two fill the queue.
    let payload = Bytes::from(vec![1; (1 << 15) - 64]);
    a.send(NodeId(1), payload.clone()).unwrap();
    a.send(NodeId(1), payload.clone()).unwrap();
    let refused = a.send(NodeId(1), payload.clone()).unwrap_err();
    assert!(refused.is_would_block(), "{refused}");
    let Error::WouldBlock { to, message } = refused else {
        panic!("{refused}")
    };
    assert_eq!((to, message.into_payload()), (NodeId(1), payload.clone()));
    let late = a
        .send_timeout(NodeId(1), payload, Duration::from_millis(5))
        .unwrap_err();
    assert!(late.is_would_block(), "{late}");
}

/// A batch is lent the room for messages that are alike, and no more of it than there is.
#[test]
fn a_queue_is_full_after_as_many_in_a_batch_as_one_by_one() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let filled = |fill: &dyn Fn(&mut suci::Node) -> usize| {
        let mut a = builder(0).send_queue(1 << 16).open().unwrap();
        a.add_peer(NodeId(1), nobody.local_addr().unwrap()).unwrap();
        let accepted = fill(&mut a);
        (accepted, a.peer(NodeId(1)).queue_len().unwrap())
    };
    let bytes = [7; 40];
    let singly = filled(&|a| {
        (0..)
            .take_while(|_| a.send_copy(NodeId(1), &bytes).is_ok())
            .count()
    });
    let batched = filled(&|a| {
        let fill = |batch: &mut suci::Batch<'_>| {
            let mut numbers = 0..;
            let send = |number: &u64| match batch.send_copy(NodeId(1), &bytes) {
                Ok(given) => given == *number,
                Err(error) => {
                    assert!(error.is_would_block(), "{error}");
                    false
                }
            };
            numbers.by_ref().take_while(send).count()
        };
        a.batch(fill).unwrap()
    });
    assert_eq!(batched, singly);
    assert_eq!(batched.0, (1 << 16) / (40 + 64));
}

/// Messages that a batch accepted are sent, even if the batch never came to its end.
#[test]
fn a_batch_that_panics_keeps_what_it_accepted() {
    let mut a = builder(0).open().unwrap();
    let mut b = builder(1).open().unwrap();
    crate::common::introduce(&mut a, &mut b);
    let to = b.id();
    let fill = std::panic::AssertUnwindSafe(|| {
        a.batch(|batch| {
            for number in 0..100 {
                assert_eq!(batch.send_copy(to, b"alike").unwrap(), number);
            }
            std::panic::resume_unwind(Box::new("stop"));
        })
    });
    assert!(std::panic::catch_unwind(fill).is_err());
    // The helper sends them: the program makes no further call.
    let begun = std::time::Instant::now();
    (0..100).for_each(|_| assert_eq!(take(&mut b).payload, b"alike"));
    println!(
        "figure: 100 messages after {} ms",
        begun.elapsed().as_millis()
    );
    let number = a.send_copy(to, b"last").unwrap();
    assert_eq!(number, 100);
    assert_eq!(take(&mut b).payload, b"last");
}

/// A panic of the program's function goes on in the caller, whichever thread ran the function. The
/// node works on.
#[test]
fn a_panic_in_a_change_of_options_is_the_callers() {
    let mut a = builder(0).open().unwrap();
    let b = builder(1).open_threads(1).unwrap();
    a.add_peer(NodeId(1), b.local_addr()).unwrap();
    b.add_peer(NodeId(0), a.local_addr()).unwrap();
    let stop = |options: &mut suci::PeerOptions| {
        options.keep_alive = true;
        std::panic::resume_unwind(Box::new("stop"));
    };
    let changes: [&dyn Fn() -> Result<(), Error>; 2] =
        [&|| a.peer(NodeId(1)).configure(stop), &|| {
            b.peer(NodeId(0)).configure(stop)
        }];
    for change in changes {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(change)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"stop"));
    }
    assert!(!a.peer(NodeId(1)).options().unwrap().keep_alive);
    assert!(!b.peer(NodeId(0)).options().unwrap().keep_alive);
    b.send(NodeId(0), "b works").unwrap();
    assert_eq!(take(&mut a).payload, "b works");
    a.send(NodeId(1), "a works").unwrap();
    assert_eq!(b.recv_timeout(LONG).unwrap().unwrap().payload, "a works");
}

#[test]
fn send_timeout_waits_for_room() {
    let mut a = builder(0).send_queue(1 << 16).open().unwrap();
    let mut b = builder(1).open().unwrap();
    crate::common::introduce(&mut a, &mut b);
    let to = b.id();
    let receiver = std::thread::spawn(move || (0..100).for_each(|_| drop(take(&mut b))));
    for _ in 0..100 {
        a.send_timeout(to, vec![1; 1 << 15], LONG).unwrap();
    }
    a.flush(LONG).unwrap();
    receiver.join().unwrap();
}

/// A book, also an empty one, says where the node is, or the program does.
#[test]
fn a_book_without_the_node_itself_needs_an_address() {
    let mut others = AddressBook::new();
    let seven = "127.0.0.1:7".parse().unwrap();
    others.add(NodeId(7), seven).unwrap();
    for (book, named) in [
        (others, "its address book"),
        (AddressBook::new(), "its empty address book"),
    ] {
        let refused = Node::builder().id(NodeId(0)).book(book.clone()).open();
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::NotInBook { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains(named) && said.contains("listen"), "{said}");
        let any = "127.0.0.1:0".parse().unwrap();
        let placed = Node::builder().id(NodeId(0)).book(book).listen(any);
        assert_eq!(placed.open().unwrap().id(), NodeId(0));
    }
}

#[test]
fn an_address_in_use_is_named() {
    let a = builder(0).open().unwrap();
    let error = builder(1).listen(a.local_addr()).open().unwrap_err();
    assert!(matches!(error, Error::AddressInUse { address } if address == a.local_addr()));
    assert!(error.to_string().contains("another port"), "{error}");
}

#[test]
fn foreign_addresses_cannot_be_listened_at() {
    let address = "192.0.2.1:4000".parse().unwrap();
    let error = builder(1)
        .listen(address)
        .allow_insecure_network()
        .open()
        .unwrap_err();
    assert!(matches!(error, Error::Bind { .. }), "{error:?}");
    assert!(error.to_string().contains("192.0.2.1:4000"), "{error}");
}

#[test]
fn plain_mode_stays_on_loopback_unless_named() {
    let everywhere = "0.0.0.0:0".parse().unwrap();
    let error = builder(0).listen(everywhere).open().unwrap_err();
    assert!(matches!(error, Error::PlainOnNetwork { .. }), "{error:?}");
    assert!(
        error.to_string().contains("allow_insecure_network"),
        "{error}"
    );
    let far = "192.0.2.1:4000".parse().unwrap();
    let mut book = AddressBook::new();
    book.add(NodeId(7), far).unwrap();
    assert!(
        matches!(builder(0).book(book.clone()).open(), Err(Error::PlainOnNetwork { address }) if address == far)
    );
    assert!(matches!(
        builder(0).open().unwrap().add_peer(NodeId(7), far),
        Err(Error::PlainOnNetwork { .. })
    ));
    let mut named = builder(0)
        .listen(everywhere)
        .allow_insecure_network()
        .book(book)
        .open()
        .unwrap();
    named
        .add_peer(NodeId(8), "192.0.2.2:4000".parse().unwrap())
        .unwrap();
    // Where it was not said where to listen, that is loopback, from which nothing goes there.
    let mut here = builder(0).allow_insecure_network().open().unwrap();
    let said = here.add_peer(NodeId(7), far).unwrap_err().to_string();
    assert!(
        said.contains("192.0.2.1:4000") && said.contains("listen at 0.0.0.0"),
        "{said}"
    );
}

#[test]
fn a_bad_book_is_refused_with_file_and_line() {
    let path = std::env::temp_dir().join(format!("suci-book-{}", std::process::id()));
    let mut file = std::fs::File::create(&path).unwrap();
    writeln!(file, "# comment\n0 127.0.0.1:4000\n1 nowhere").unwrap();
    let error = Node::builder()
        .id(NodeId(0))
        .book_file(&path)
        .open()
        .unwrap_err();
    std::fs::remove_file(&path).unwrap();
    let said = error.to_string();
    assert!(
        said.starts_with(&format!("{}:3: ", path.display())),
        "{said}"
    );
    let error = Node::builder()
        .id(NodeId(0))
        .book_file(&path)
        .open()
        .unwrap_err();
    assert!(
        error.to_string().contains(&path.display().to_string()),
        "{error}"
    );
}

/// Addresses that a book may hold, but not for this node.
#[test]
fn an_address_of_a_book_that_is_not_allowed_is_refused_with_file_and_line() {
    let path = std::env::temp_dir().join(format!("suci-allowed-{}", std::process::id()));
    for (entry, part) in [
        ("0 192.0.2.1:4000", "--plain"),
        ("1 192.0.2.1:4000", "--plain"),
        ("1 [::1]:4000", "same family"),
    ] {
        std::fs::write(&path, format!("# cluster\n{entry}\n")).unwrap();
        let open = Node::builder().id(NodeId(0)).book_file(&path).open();
        let said = open.unwrap_err().to_string();
        let place = format!("{}:2: ", path.display());
        assert!(said.starts_with(&place) && said.contains(part), "{said}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn settings_out_of_range_are_named() {
    let error = builder(0).memory(5).open().unwrap_err();
    assert!(error.to_string().contains("memory = 5"), "{error}");
    assert!(matches!(builder(0).open_threads(0), Err(Error::Threads(0))));
    let error = Node::builder().open().unwrap_err();
    assert!(
        matches!(error, Error::Missing { .. }) && error.to_string().contains("SUCI_ID"),
        "{error}"
    );
}

/// Sends `bytes` to the node from a stranger's socket and polls until they arrived.
fn hit(node: &mut Node, bytes: &[u8]) -> suci::Counters {
    let before = node.counters().unwrap().datagrams_in;
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(bytes, node.local_addr()).unwrap();
    let end = std::time::Instant::now() + LONG;
    while node.counters().unwrap().datagrams_in == before && std::time::Instant::now() < end {
        node.poll(Duration::from_millis(10)).unwrap();
    }
    node.counters().unwrap()
}

#[test]
fn f08_garbage_is_counted_and_harms_nobody() {
    let (mut a, mut b) = pair();
    // Version 1 (upper half of byte 0), everything else noise.
    let mut noise = vec![0xA5; 200];
    noise[0] = 0x10;
    let counters = hit(&mut b, &noise);
    assert_eq!(
        counters.malformed + counters.bad_checksum,
        1,
        "{counters:?}"
    );
    // F09: an empty datagram, too.
    assert_eq!(hit(&mut b, &[]).datagrams_in, 2);
    a.send(b.id(), "still works").unwrap();
    assert_eq!(&take(&mut b).payload[..], b"still works");
}

/// A HELLO to `target` as a stranger would make it, each time of another node.
fn hello(target: NodeId, stranger: u32) -> Vec<u8> {
    use suci_proto::types::Incarnation;
    use suci_proto::wire::{CrcScope, Header, Hello, PacketType, put_header, seal};
    let mut bytes = Vec::new();
    let header = Header {
        kind: PacketType::Hello,
        scope: CrcScope::Datagram,
        index: 1_000 + stranger,
        number: 0,
        tag: u64::from(stranger),
    };
    put_header(&mut bytes, &header);
    let incarnation = Incarnation(u128::from(stranger));
    Hello {
        target,
        incarnation,
    }
    .put(&mut bytes);
    seal(&mut bytes);
    bytes
}

/// More HELLOs than the socket's buffer has room to answer, again and again: a node of the book
/// connects amid them.
#[test]
fn f02_a_flood_of_hellos_keeps_no_node_of_the_book_out() {
    let mut a = builder(0).open().unwrap();
    let mut b = builder(1).accept(AcceptPolicy::Anyone).open().unwrap();
    introduce(&mut a, &mut b);
    let to = b.local_addr();
    let enough = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&enough);
    let flood = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for stranger in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
            let _ = socket.send_to(&hello(NodeId(1), stranger), to);
            if stranger % 20 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    });
    let unanswered = |node: &Node| node.counters().unwrap().hello_unanswered;
    let end = std::time::Instant::now() + LONG;
    while unanswered(&b) < 100 && std::time::Instant::now() < end {
        b.poll(Duration::from_millis(10)).unwrap();
    }
    let before = unanswered(&b);
    assert!(before >= 100, "room was used up");
    let begun = std::time::Instant::now();
    a.send(b.id(), "amid the flood").unwrap();
    while a.peer(b.id()).queue_len().unwrap().0 > 0 && std::time::Instant::now() < end {
        a.poll(Duration::from_millis(1)).unwrap();
        b.poll(Duration::from_millis(1)).unwrap();
    }
    let took = begun.elapsed();
    assert_eq!(&take(&mut b).payload[..], b"amid the flood");
    assert!(took < Duration::from_secs(5), "{took:?}");
    while unanswered(&b) <= before {
        assert!(std::time::Instant::now() < end, "the flood is over");
        b.poll(Duration::from_millis(1)).unwrap();
    }
    enough.store(true, Ordering::Relaxed);
    flood.join().unwrap();
}

#[test]
fn another_version_is_counted() {
    let mut node = builder(0).open().unwrap();
    let mut future = [0_u8; 64];
    future[0] = 0xF0;
    assert_eq!(hit(&mut node, &future).wrong_version, 1);
}

#[test]
fn addresses_that_nothing_can_reach_are_refused() {
    let mut a = builder(0).open().unwrap();
    let shared = builder(1).open_threads(1).unwrap();
    for address in ["127.0.0.1:0", "[::1]:9", "0.0.0.0:9", "224.0.0.1:9"] {
        let address = address.parse().unwrap();
        let said = a.add_peer(NodeId(9), address).unwrap_err().to_string();
        assert!(
            said.contains(&format!(
                "{address} cannot be reached from {}",
                a.local_addr()
            )),
            "{said}"
        );
        let also = shared.add_peer(NodeId(9), address).unwrap_err();
        assert!(matches!(also, Error::Unreachable { .. }), "{also}");
        let mut book = AddressBook::new();
        book.add(NodeId(9), address).unwrap();
        let at_once = Node::builder().id(NodeId(0)).book(book).open().unwrap_err();
        assert!(matches!(at_once, Error::Unreachable { .. }), "{at_once}");
    }
}

/// The system binds a socket there, but nothing can be sent from it.
#[test]
fn a_node_listens_at_no_address_of_many_hosts() {
    for address in ["224.0.0.1:0", "255.255.255.255:0", "[ff02::1]:0"] {
        let listen = builder(0).listen(address.parse().unwrap());
        let said = listen.allow_insecure_network().open().unwrap_err();
        let said = said.to_string();
        let part = format!("cannot listen at {address}: it is not the address of one host");
        assert!(said.contains(&part), "{said}");
    }
}

#[test]
fn a_receive_buffer_without_room_for_a_peer_is_refused() {
    let tiny = builder(0).udp(|options| options.recv_buffer = 1).open();
    let said = tiny.unwrap_err().to_string();
    assert!(
        said.contains("has no room for a peer") && said.contains("net.core.rmem_max"),
        "{said}"
    );
}
