//! Nodes served by several threads: with any number of them, they behave like one.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, builder, set_option};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use suci::{
    AcceptPolicy, ChannelId, Error, Event, Mode, NodeId, OutgoingMessage, SharedNode, Side,
};

/// Node `id` with `threads` threads, on a port of its own.
fn node(id: u32, threads: usize) -> SharedNode {
    builder(id).open_threads(threads).unwrap()
}

fn introduce(nodes: &[SharedNode]) {
    for a in nodes {
        for b in nodes.iter().filter(|b| b.id() != a.id()) {
            a.add_peer(b.id(), b.local_addr()).unwrap();
        }
    }
}

/// A node of `threads` threads, and one of a single thread for each ID; they know the first and it
/// knows them.
fn star(threads: usize, ids: std::ops::Range<u32>) -> (SharedNode, Vec<SharedNode>) {
    let center = node(0, threads);
    let others: Vec<_> = ids.map(|id| node(id, 1)).collect();
    for other in &others {
        center.add_peer(other.id(), other.local_addr()).unwrap();
        other.add_peer(center.id(), center.local_addr()).unwrap();
    }
    (center, others)
}

fn take(node: &SharedNode) -> suci::Message {
    node.recv_timeout(LONG).unwrap().unwrap()
}

/// The first event that is `wanted`, which must come.
fn await_event(node: &SharedNode, wanted: impl Fn(&Event) -> bool) -> Event {
    let end = Instant::now() + LONG;
    while Instant::now() < end {
        if let Some(event) = node.event_timeout(LONG).unwrap()
            && wanted(&event)
        {
            return event;
        }
    }
    panic!("no such event");
}

#[test]
fn all_send_to_all_and_every_thread_has_its_peers() {
    const MESSAGES: u32 = 300;
    for threads in 1..=4 {
        // Lowest bytes from 253 over 0, so that rows begin anywhere.
        let nodes: Vec<_> = (0x1fd..0x1fd + 7).map(|id| node(id, threads)).collect();
        introduce(&nodes);
        std::thread::scope(|scope| {
            for node in &nodes {
                let others: Vec<_> = nodes.iter().map(SharedNode::id).collect();
                let others: Vec<_> = others.into_iter().filter(|id| *id != node.id()).collect();
                let all = MESSAGES * others.len() as u32;
                scope.spawn(move || {
                    for number in 0..MESSAGES {
                        for (to, sent) in node
                            .broadcast(&others, number.to_le_bytes().to_vec())
                            .unwrap()
                        {
                            if sent.is_err() {
                                let again = number.to_le_bytes().to_vec();
                                node.send_timeout(to, again, LONG).unwrap();
                            }
                        }
                    }
                });
                scope.spawn(move || {
                    let mut next = BTreeMap::<NodeId, u32>::new();
                    for _ in 0..all {
                        let message = take(node);
                        let next = next.entry(message.from).or_default();
                        assert_eq!(message.payload[..], next.to_le_bytes(), "in order");
                        *next += 1;
                    }
                });
            }
        });
        for node in &nodes {
            node.flush(LONG).unwrap();
            assert_eq!((node.threads(), node.peers().unwrap().len()), (threads, 6));
            let each = node.thread_counters().unwrap();
            assert_eq!(each.len(), threads);
            let count = |place: usize| {
                let ids = nodes
                    .iter()
                    .map(SharedNode::id)
                    .filter(|id| *id != node.id());
                ids.filter(|id| (id.0 & 0xff) as usize % threads == place)
                    .count() as u64
            };
            for (place, (counters, socket)) in each.iter().enumerate() {
                let all = count(place) * u64::from(MESSAGES);
                assert_eq!(
                    counters.messages_received, all,
                    "thread {place} of {threads}"
                );
                assert_eq!((counters.misdirected, socket.recv_drops), (0, 0));
            }
            let sum = node.counters().unwrap();
            assert_eq!(sum.messages_received, 6 * u64::from(MESSAGES));
            let datagrams: u64 = each
                .iter()
                .map(|(_, socket)| socket.datagrams_received)
                .sum();
            assert!(node.socket_counters().unwrap().datagrams_received >= datagrams);
            assert_eq!(
                node.share_stats()
                    .unwrap()
                    .iter()
                    .map(|s| s.peers)
                    .sum::<u64>(),
                6
            );
        }
    }
}

#[test]
fn a_number_of_threads_that_is_not_possible_is_refused() {
    for threads in [0, 257] {
        let refused = builder(1).open_threads(threads).unwrap_err();
        assert!(
            matches!(refused, Error::Threads(n) if n == threads),
            "{refused}"
        );
    }
    node(1, 256).close(LONG).unwrap();
}

#[test]
fn what_is_the_nodes_is_divided_among_its_threads() {
    let says = |builder: suci::NodeBuilder| builder.open_threads(4).unwrap_err().to_string();
    assert!(says(builder(1).memory(3 << 20)).contains("1 MiB for each thread"));
    let explicit = builder(1).memory(64 << 20).max_message(9 << 20);
    assert!(says(explicit).contains("each thread's part"));
    let mut lone = builder(4).memory(1 << 20).open().unwrap();
    lone.close(LONG).unwrap();
    let explicit = builder(1).memory(64 << 20).max_message(64 << 19);
    explicit.open().unwrap();
    // By default messages that fit are taken, and longer ones are announced.
    let a = builder(0).memory(4 << 20).open_threads(4).unwrap();
    let b = node(1, 1);
    introduce(&[a.clone(), b.clone()]);
    b.send(a.id(), vec![1; 512 << 10]).unwrap();
    assert_eq!(take(&a).payload.len(), 512 << 10);
    b.send(a.id(), vec![1; (512 << 10) + 1]).unwrap();
    await_event(&a, |e| matches!(e, Event::Incoming { .. }));
    let limit = node(2, 1).peer_limit();
    assert_eq!(a.peer_limit(), 4 * limit);
    let few = builder(3).max_peers(2).open_threads(2).unwrap();
    let at = b.local_addr();
    few.add_peer(NodeId(10), at).unwrap();
    assert!(matches!(few.add_peer(NodeId(12), at), Err(Error::Peer(_))));
    few.add_peer(NodeId(11), at).unwrap();
}

/// A second owner of a node's port is refused, whatever it is; the first node goes on.
#[test]
fn a_second_node_at_the_same_port_is_refused() {
    for threads in 1..=3 {
        let (a, others) = star(threads, 1..5);
        let at = a.local_addr();
        let refused = |error: Error| {
            assert!(matches!(error, Error::AddressInUse { address } if address == at))
        };
        refused(builder(9).listen(at).open().unwrap_err());
        for second in 1..=3 {
            refused(builder(9).listen(at).open_threads(second).unwrap_err());
        }
        let sharing = builder(9).udp(|udp| udp.reuse_port = true).open_threads(2);
        assert!(
            matches!(sharing, Err(Error::Io { .. })),
            "a group is one node's"
        );
        for other in &others {
            other.send(a.id(), "still there?").unwrap();
        }
        others.iter().for_each(|_| drop(take(&a)));
        a.close(LONG).unwrap();
        builder(9).listen(at).open_threads(2).unwrap();
    }
}

#[test]
fn a_node_may_come_back_with_another_number_of_threads() {
    let (mut a, others) = star(3, 1..8);
    let at = a.local_addr();
    for threads in [2, 1, 4] {
        a.close(LONG).unwrap();
        a = builder(0).listen(at).open_threads(threads).unwrap();
        for other in &others {
            a.add_peer(other.id(), other.local_addr()).unwrap();
            other.send_timeout(a.id(), "to the new one", LONG).unwrap();
        }
        let mut from: Vec<_> = others.iter().map(|_| take(&a).from).collect();
        from.sort_unstable();
        assert_eq!(from, others.iter().map(SharedNode::id).collect::<Vec<_>>());
        for other in &others {
            a.send(other.id(), "back").unwrap();
            take(other);
        }
    }
}

#[test]
fn peers_that_are_in_no_book_reach_their_thread() {
    let a = builder(0)
        .accept(AcceptPolicy::Anyone)
        .open_threads(3)
        .unwrap();
    let others: Vec<_> = (1..8).map(|id| node(id, 2)).collect();
    for other in &others {
        other.add_peer(a.id(), a.local_addr()).unwrap();
        other.send(a.id(), "who am I?").unwrap();
    }
    for _ in &others {
        let message = take(&a);
        a.send(message.from, message.from.0.to_le_bytes().to_vec())
            .unwrap();
    }
    for other in &others {
        assert_eq!(take(other).payload[..], other.id().0.to_le_bytes());
    }
    // By default only those of the book come in.
    let b = node(9, 2);
    others[0].add_peer(b.id(), b.local_addr()).unwrap();
    others[0].send(b.id(), "may I?").unwrap();
    await_event(&others[0], |e| {
        matches!(
            e,
            Event::Refused {
                node: NodeId(9),
                ..
            }
        )
    });
}

#[test]
fn one_that_takes_a_nodes_id_is_refused() {
    let (a, others) = star(2, 1..3);
    for other in &others {
        other.send(a.id(), "first").unwrap();
        take(&a);
        // Another process of the same name, elsewhere.
        let double = node(other.id().0, 2);
        double.add_peer(a.id(), a.local_addr()).unwrap();
        double.send(a.id(), "me too").unwrap();
        await_event(&double, |e| matches!(e, Event::Refused { .. }));
        other.send(a.id(), "still me").unwrap();
        assert_eq!(&take(&a).payload[..], b"still me");
        double.peer(a.id()).reset().unwrap();
    }
    // Even its own.
    let double = node(0, 2);
    let at = others[0].local_addr();
    double.add_peer(NodeId(1), at).unwrap();
    double.send(NodeId(1), "I am you").unwrap();
    await_event(&double, |e| matches!(e, Event::Refused { .. }));
}

#[test]
fn one_full_peer_blocks_no_other() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let a = builder(0).send_queue(1 << 16).open_threads(2).unwrap();
    let others = [node(2, 1), node(3, 1)];
    introduce(&[a.clone(), others[0].clone()]);
    introduce(&[a.clone(), others[1].clone()]);
    // One full peer in each thread.
    for full in [NodeId(4), NodeId(5)] {
        a.add_peer(full, nobody.local_addr().unwrap()).unwrap();
        while a.send(full, vec![0; 1 << 10]).is_ok() {}
        assert!(a.send(full, vec![0; 1 << 10]).unwrap_err().is_would_block());
    }
    for number in 0..500_u32 {
        for other in &others {
            a.send_timeout(other.id(), number.to_le_bytes().to_vec(), LONG)
                .unwrap();
        }
    }
    for number in 0..500_u32 {
        for other in &others {
            assert_eq!(take(other).payload[..], number.to_le_bytes());
        }
    }
    let unflushed = || {
        let Err(Error::NotFlushed { peers }) = a.flush(Duration::from_millis(5)) else {
            panic!("flushed")
        };
        peers.iter().map(|(node, _)| node.0).collect::<Vec<_>>()
    };
    // The others have everything; that they say so may take a moment more.
    let end = Instant::now() + LONG;
    while unflushed() != [4, 5] {
        assert!(Instant::now() < end, "{:?}", unflushed());
    }
}

/// Messages that wait in several threads are taken in rotation.
#[test]
fn a_handle_takes_from_all_threads_in_turn() {
    const MESSAGES: usize = 900;
    let (a, others) = star(3, 1..4);
    for other in &others {
        for _ in 0..MESSAGES {
            other.send_timeout(a.id(), "x", LONG).unwrap();
        }
        other.flush(LONG).unwrap();
    }
    // Everything waits in the rings: a cycle of each thread is over.
    a.counters().unwrap();
    for _ in 0..2 {
        let mut counts = BTreeMap::<NodeId, usize>::new();
        for _ in 0..MESSAGES {
            *counts
                .entry(a.try_recv().unwrap().expect("waits").from)
                .or_default() += 1;
        }
        assert_eq!(counts.into_values().collect::<Vec<_>>(), [MESSAGES / 3; 3]);
    }
    // Another handle has a rotation of its own, and events come in rotation, too.
    let b = a.clone();
    for _ in 0..MESSAGES {
        b.try_recv().unwrap().expect("waits");
    }
    let mut up: Vec<_> = (0..3)
        .map(|_| b.next_event().unwrap().expect("up").node().0)
        .collect();
    up.sort_unstable();
    assert_eq!(up, [1, 2, 3]);
}

#[test]
fn closing_delivers_what_every_thread_has() {
    const MESSAGES: u32 = 400;
    let (a, others) = star(4, 1..9);
    // The messages are acknowledged: a closing node takes nothing more, and the other's thread may
    // not have begun to send by then.
    for other in &others {
        other.send(a.id(), "before the end").unwrap();
        other.flush(LONG).unwrap();
    }
    for number in 0..MESSAGES {
        for other in &others {
            let draft = OutgoingMessage::new(vec![number as u8; 2_000]).notify(u64::from(number));
            a.send_timeout(other.id(), draft, LONG).unwrap();
        }
    }
    let receivers: Vec<_> = others
        .into_iter()
        .map(|other| {
            std::thread::spawn(move || {
                for number in 0..MESSAGES {
                    assert_eq!(take(&other).payload[0], number as u8);
                }
                await_event(&other, |e| matches!(e, Event::Ended { .. }));
            })
        })
        .collect();
    a.close(LONG).unwrap();
    receivers
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    // Received messages and the events can be taken from all threads.
    let mut delivered = 0;
    while let Ok(Some(event)) = a.next_event() {
        delivered += u32::from(matches!(event, Event::Delivered { .. }));
    }
    assert_eq!(delivered, 8 * MESSAGES);
    let messages = std::iter::from_fn(|| a.try_recv().ok().flatten()).count();
    assert_eq!(messages, 8);
    assert!(matches!(a.try_recv(), Err(Error::Closed)));
    // The ends of the sessions come after their messages.
    let ends = std::iter::from_fn(|| a.next_event().ok().flatten());
    assert!(ends.map(|e| matches!(e, Event::Ended { .. })).eq([true; 8]));
    assert!(matches!(a.next_event(), Err(Error::Closed)));
}

#[test]
fn closing_names_peers_of_all_threads_and_wakes_everybody() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let a = node(0, 3);
    for id in (1..7).rev() {
        a.add_peer(NodeId(id), nobody.local_addr().unwrap())
            .unwrap();
        a.send(NodeId(id), "to nobody").unwrap();
    }
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let a = a.clone();
            std::thread::spawn(move || a.recv())
        })
        .collect();
    let begun = Instant::now();
    let error = a.close(Duration::from_millis(300)).unwrap_err();
    let Error::NotFlushed { peers } = error else {
        panic!("{error}")
    };
    assert_eq!(peers, (1..7).map(|id| (NodeId(id), 1)).collect::<Vec<_>>());
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "one deadline for all"
    );
    for thread in waiting {
        assert!(matches!(thread.join().unwrap(), Err(Error::Closed)));
    }
}

#[test]
fn verbs_find_the_thread_of_their_peer() {
    let (a, others) = star(3, 1..7);
    for other in &others {
        let id = other.id();
        a.peer(id).connect().unwrap();
        await_event(&a, |e| matches!(e, Event::Up { node, .. } if *node == id));
        set_option(a.peer(id), |o| o.mode = Mode::Response).unwrap();
        set_option(a.peer(id), |o| o.priority = suci::Priority::default()).unwrap();
        set_option(a.peer(id), |o| o.rate_cap = Some(100 << 20)).unwrap();
        set_option(a.peer(id), |o| o.keep_alive = true).unwrap();
        a.send(id, "hello").unwrap();
        take(other);
        // Else it may not know yet that the other has accepted.
        a.flush(LONG).unwrap();
        assert_eq!(
            a.peer(id).stats().unwrap().expect("known").mode,
            Mode::Response
        );
        assert!(a.peer(id).controller().unwrap().is_some());
        a.peer(id).suspend().unwrap();
        let refused = a.send(id, "now");
        assert!(matches!(
            refused,
            Err(Error::Suspended { by: Side::Here, .. })
        ));
        a.peer(id).resume().unwrap();
        a.send(id, "again").unwrap();
        take(other);
        a.flush(LONG).unwrap();
        assert_eq!(a.peer(id).delivered(ChannelId(0)).unwrap(), 2);
        assert!(a.peer(id).close(LONG).unwrap());
        await_event(other, |e| matches!(e, Event::Ended { .. }));
        assert!(a.peer(NodeId(id.0 + 99)).stats().unwrap().is_none());
    }
    let stranger = a.peer(NodeId(77)).suspend();
    assert!(matches!(stranger, Err(Error::UnknownPeer(NodeId(77)))));
}

fn is_readable(node: &SharedNode, limit: Duration) -> bool {
    let mut fd = libc::pollfd {
        fd: node.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let limit = libc::c_int::try_from(limit.as_millis()).unwrap();
    // SAFETY: `fd` is one entry and outlives the call.
    unsafe { libc::poll(&raw mut fd, 1, limit) == 1 }
}

/// Nothing waits, and soon the descriptor says so: a thread may say late that something came which
/// was taken already.
fn goes_dark(node: &SharedNode) {
    let end = Instant::now() + LONG;
    while is_readable(node, Duration::ZERO) {
        assert!(node.try_recv().unwrap().is_none());
        assert!(Instant::now() < end, "it stays readable");
    }
}

#[test]
fn one_descriptor_stands_for_all_threads() {
    let (a, others) = star(3, 1..7);
    let b = a.clone();
    assert_eq!(a.as_raw_fd(), b.as_raw_fd());
    goes_dark(&a);
    for _ in 0..20 {
        for other in &others {
            other.send(a.id(), "news").unwrap();
            let message = loop {
                assert!(is_readable(&a, LONG));
                while a.next_event().unwrap().is_some() {}
                if let Some(message) = b.try_recv().unwrap() {
                    break message;
                }
            };
            assert_eq!(message.from, other.id());
            // The beginning of its session was told before it, perhaps after the last look at
            // events.
            while a.next_event().unwrap().is_some() {}
            goes_dark(&a);
        }
    }
    // Events alone, of any thread.
    for other in &others {
        a.send(other.id(), OutgoingMessage::new("x").notify(1))
            .unwrap();
        let delivered = |e: &Event| matches!(e, Event::Delivered { .. });
        while !a.next_event().unwrap().is_some_and(|e| delivered(&e)) {
            assert!(is_readable(&a, LONG));
        }
        goes_dark(&a);
    }
    a.close(LONG).unwrap();
    assert!(is_readable(&a, LONG), "the end is news");
    assert!(matches!(a.try_recv(), Err(Error::Closed)));
}

#[test]
fn futures_wait_for_all_threads() {
    let (a, others) = star(3, 1..7);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        for round in 0..50_u8 {
            for other in &others {
                let waiting = {
                    let a = a.clone();
                    tokio::spawn(async move { a.recv_async().await })
                };
                tokio::task::yield_now().await;
                other.send_async(a.id(), vec![round]).await.unwrap();
                let message = tokio::time::timeout(LONG, waiting)
                    .await
                    .unwrap()
                    .unwrap()
                    .unwrap();
                assert_eq!((message.from, message.payload[0]), (other.id(), round));
            }
        }
        a.flush_async().await.unwrap();
        a.close_async(LONG).await.unwrap();
    });
}

/// The file that `suci stat` reads has the numbers of all threads, and a wish left in it finds its
/// thread.
#[test]
fn statistics_are_of_all_threads() {
    // A file has the name of its process and node: no other test has a node of this one.
    let a = node(0x1_0000, 3);
    let others: Vec<_> = (1..7).map(|id| node(id, 1)).collect();
    for other in &others {
        introduce(&[a.clone(), other.clone()]);
    }
    for _ in 0..10 {
        for other in &others {
            other.send(a.id(), "x").unwrap();
            take(&a);
        }
    }
    let each = others.len() as u64;
    let mut taken = 10 * each;
    let found = suci::statistics::find().into_iter();
    let mut own = found
        .filter(|f| f.pid == std::process::id())
        .filter_map(|f| f.open().ok());
    let file = own.find(|file| {
        file.read()
            .is_ok_and(|read| read.address == Some(a.local_addr()))
    });
    let file = file.expect("a file of its own");
    let end = Instant::now() + LONG;
    let mut wishes = others.iter().map(SharedNode::id);
    let mut wished: Vec<NodeId> = Vec::new();
    loop {
        // Each message makes the threads run cycles.
        for other in &others {
            other.send(a.id(), "x").unwrap();
            take(&a);
        }
        taken += each;
        let read = file.read().unwrap();
        let modes: Vec<_> = read
            .peers
            .iter()
            .filter(|p| p.mode == Mode::Throughput)
            .collect();
        if read.asked.is_none() && modes.len() == wished.len() {
            match wishes.next() {
                Some(id) => {
                    wished.push(id);
                    file.prefer(id, Mode::Throughput).unwrap();
                }
                None => break,
            }
        }
        assert!(Instant::now() < end, "{read:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(150));
    for other in &others {
        other.send(a.id(), "x").unwrap();
        take(&a);
    }
    taken += each;
    // The program does not call the node meanwhile: its threads publish the rest by themselves.
    let end = Instant::now() + LONG;
    let read = loop {
        let read = file.read().unwrap();
        if read.counters.messages_received == taken {
            break read;
        }
        assert!(Instant::now() < end, "{read:?}, and {taken} were taken");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!((read.peers_known, read.peers.len()), (6, 6));
    assert_eq!(a.counters().unwrap().messages_received, taken);
    a.close(LONG).unwrap();
    let path = suci::statistics::find();
    assert!(!path.iter().any(|f| {
        f.open()
            .is_ok_and(|f| f.read().is_ok_and(|r| r.address == Some(a.local_addr())))
    }));
}

/// Carries packets between `a` and `b`, and comes to `b` from one of two addresses.
struct Door {
    which: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    at: SocketAddr,
}

impl Door {
    fn new(a: SocketAddr, b: SocketAddr) -> Self {
        let sockets: Vec<_> = (0..3)
            .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
            .collect();
        let at = sockets[0].local_addr().unwrap();
        let (which, stop) = (
            Arc::new(AtomicUsize::new(1)),
            Arc::new(AtomicBool::new(false)),
        );
        let (chosen, stopped) = (Arc::clone(&which), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            sockets
                .iter()
                .for_each(|s| s.set_nonblocking(true).unwrap());
            let mut packet = [0; 65_536];
            while !stopped.load(Ordering::Relaxed) {
                let mut idle = true;
                for (place, socket) in sockets.iter().enumerate() {
                    while let Ok((length, _)) = socket.recv_from(&mut packet) {
                        idle = false;
                        // A packet that the socket does not take is lost, as on any network.
                        let _ = match place {
                            0 => sockets[chosen.load(Ordering::Relaxed)]
                                .send_to(&packet[..length], b),
                            _ => sockets[0].send_to(&packet[..length], a),
                        };
                    }
                }
                if idle {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
        Self {
            which,
            stop,
            thread: Some(thread),
            at,
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[test]
fn a_peer_that_moves_stays_with_its_thread() {
    for id in 1..=3 {
        let (a, b) = (node(id, 2), node(0, 3));
        let door = Door::new(a.local_addr(), b.local_addr());
        a.add_peer(b.id(), door.at).unwrap();
        b.add_peer(a.id(), door.at).unwrap();
        for round in 0..60_u8 {
            if round % 20 == 10 {
                let before = door.which.load(Ordering::Relaxed);
                door.which.store(3 - before, Ordering::Relaxed);
            }
            a.send(b.id(), vec![round]).unwrap();
            assert_eq!(take(&b).payload[0], round);
            b.send(a.id(), vec![round]).unwrap();
            assert_eq!(take(&a).payload[0], round);
        }
        let ended = std::iter::from_fn(|| b.next_event().unwrap())
            .any(|e| matches!(e, Event::Ended { .. }));
        assert!(!ended, "the session goes on");
        assert_eq!(b.counters().unwrap().misdirected, 0);
    }
}
