use super::events::EVENTS;
use super::shard::MESSAGES;
use super::*;
use crate::message::Message;
use crate::sockets::{Address, SocketError, SocketKind};
use crate::{AddressBook, Next, Node};
use std::net::UdpSocket;
use std::task::{Context, Poll};
use suci_layers::sockets::Sockets;
use suci_proto::message::Held;
use suci_proto::types::SessionNumber;
use suci_proto::{Event, Filter, Priority, UNNUMBERED};

const LONG: Duration = Duration::from_secs(30);

fn node(id: u32) -> SharedNode {
    node_of(id, 1)
}

fn node_of(id: u32, threads: usize) -> SharedNode {
    let builder = Node::builder().id(NodeId(id)).book(AddressBook::new());
    let builder = builder.listen("127.0.0.1:0".parse().unwrap());
    builder.open_threads(threads).unwrap()
}

/// A node of `threads` threads, and peers with the IDs 1 to `peers` that it knows and that know it.
fn star(threads: usize, peers: u32) -> (SharedNode, Vec<SharedNode>) {
    let center = node_of(0, threads);
    let peers: Vec<_> = (1..=peers).map(node).collect();
    for peer in &peers {
        center.add_peer(peer.id(), peer.local_addr()).unwrap();
        peer.add_peer(center.id(), center.local_addr()).unwrap();
    }
    (center, peers)
}

fn take(node: &SharedNode) -> Message {
    node.recv_timeout(LONG).unwrap().expect("a message")
}

/// The socket of a thread.
fn socket_of(node: &SharedNode, index: usize) -> std::os::fd::RawFd {
    node.inner.shards[index].descriptors.last().unwrap().fd()
}

/// The outcomes of messages sent with `notify` wait for the program, however many there are, and
/// `flush` knows of them.
#[test]
fn outcomes_that_nobody_takes_wait_for_the_program() {
    let count = EVENTS as u64 + 500;
    let (a, b) = (node(0), node(1));
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    a.add_peer(NodeId(1), b.local_addr()).unwrap();
    a.add_peer(NodeId(2), nobody.local_addr().unwrap()).unwrap();
    b.add_peer(NodeId(0), a.local_addr()).unwrap();
    let taker = std::thread::spawn(move || {
        (0..count).for_each(|_| drop(b.recv_timeout(LONG).unwrap().unwrap()));
        b
    });
    for token in 0..count {
        let draft = OutgoingMessage::new("x").notify(token);
        a.send_timeout(NodeId(1), draft, LONG).unwrap();
    }
    a.flush(LONG).unwrap();
    let b = taker.join().unwrap();
    a.send(NodeId(2), "to nobody").unwrap();
    a.peer(NodeId(2)).reset().unwrap();
    match a.flush(LONG) {
        Err(Error::NotFlushed { peers }) => assert_eq!(peers, [(NodeId(2), 1)]),
        other => panic!("{other:?}"),
    }
    let mut delivered = 0;
    let mut ended = 0;
    while delivered < count || ended < 1 {
        match a.event_timeout(LONG).unwrap().expect("it follows") {
            Event::Delivered { token, .. } => {
                assert_eq!(token, delivered, "in order");
                delivered += 1;
            }
            Event::Ended { node, .. } => {
                assert_eq!(node, NodeId(2));
                ended += 1;
            }
            _ => {}
        }
    }
    a.flush(LONG).unwrap();
    drop(b);
}

/// A program that takes no events hears of the end of the peer that it waits for, and gets the
/// messages that it asks for, however many sessions ended before. The events that wait for it are
/// bounded, and in exact order.
#[test]
fn f04_events_that_nobody_takes_harm_nobody() {
    const SESSIONS: u32 = 10;
    let builder = Node::builder().id(NodeId(0)).book(AddressBook::new());
    let builder = builder.accept(suci_proto::AcceptPolicy::Anyone);
    let builder = builder.listen("127.0.0.1:0".parse().unwrap());
    let server = builder.open_threads(1).unwrap();
    let client = || {
        let client = Node::builder().id(NodeId(1)).book(AddressBook::new());
        let client = client.listen("127.0.0.1:0".parse().unwrap());
        let mut client = client.open().unwrap();
        client.add_peer(NodeId(0), server.local_addr()).unwrap();
        client
    };
    let mut first = client();
    first.send(NodeId(0), "left alone").unwrap();
    first.flush(LONG).unwrap();
    let gate = server.inner.shards[0].gate(NodeId(1)).unwrap();
    for _ in 0..1_000 {
        first.peer(NodeId(0)).suspend().unwrap();
        while gate.suspended().is_none() {
            std::thread::yield_now();
        }
        first.peer(NodeId(0)).resume().unwrap();
        while gate.suspended().is_some() {
            std::thread::yield_now();
        }
    }
    drop(gate);
    first.close(LONG).unwrap();
    let asked = Filter::from(ChannelId(1));
    for session in 1..SESSIONS {
        let mut client = client();
        let draft = OutgoingMessage::new("asked for").channel(ChannelId(1));
        client.send(NodeId(0), draft).unwrap();
        let message = server.recv_from_timeout(asked, LONG).unwrap().unwrap();
        assert_eq!(message.session, SessionNumber(session));
        client.close(LONG).unwrap();
    }
    // One message was left alone, so that two ends stay apart.
    let waiting = lock(&server.inner.shards[0].events).len_of(NodeId(1));
    assert!(waiting <= 8, "{waiting}");
    let mut last = client();
    last.send(
        NodeId(0),
        OutgoingMessage::new("here").channel(ChannelId(1)),
    )
    .unwrap();
    assert!(server.recv_from_timeout(asked, LONG).unwrap().is_some());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| server.recv_from_timeout(NodeId(1), LONG));
        let left = waits.join().unwrap().unwrap().unwrap();
        assert_eq!(left.payload, "left alone");
        let waits = scope.spawn(|| server.recv_from_timeout(NodeId(1), LONG));
        last.close(LONG).unwrap();
        assert!(matches!(waits.join().unwrap(), Err(Error::Ended { .. })));
    });
    let mut ended = 0;
    while ended <= SESSIONS {
        match server.event_timeout(LONG).unwrap().expect("all are told") {
            Event::Ended { sessions, .. } => ended += sessions,
            Event::Up { .. } | Event::Suspended { .. } | Event::Resumed { .. } => {}
            event => panic!("{event:?}"),
        }
    }
    assert_eq!(ended, SESSIONS + 1);
}

/// Nothing is sent to a node that was removed, until it is entered again.
#[test]
fn a_node_that_was_removed_is_unknown() {
    let (a, b) = (node(0), node(1));
    a.add_peer(NodeId(1), b.local_addr()).unwrap();
    b.add_peer(NodeId(0), a.local_addr()).unwrap();
    a.send(NodeId(1), "one").unwrap();
    take(&b);
    a.remove_peer(NodeId(1)).unwrap();
    assert!(matches!(
        a.send(NodeId(1), "two"),
        Err(Error::UnknownPeer(NodeId(1)))
    ));
    assert!(matches!(
        a.peer(NodeId(1)).queue_len(),
        Err(Error::UnknownPeer(NodeId(1)))
    ));
    a.add_peer(NodeId(1), b.local_addr()).unwrap();
    a.send(NodeId(1), "three").unwrap();
    assert_eq!(take(&b).payload, "three");
}

/// If any node may come, a node that was removed may come back, and is answered.
#[test]
fn a_node_that_was_removed_is_answered_when_it_comes_back() {
    let builder = Node::builder().id(NodeId(0)).book(AddressBook::new());
    let builder = builder.accept(suci_proto::AcceptPolicy::Anyone);
    let builder = builder.listen("127.0.0.1:0".parse().unwrap());
    let (server, client) = (builder.open_threads(1).unwrap(), node(1));
    client.add_peer(NodeId(0), server.local_addr()).unwrap();
    client.send(NodeId(0), "here").unwrap();
    take(&server);
    server.remove_peer(NodeId(1)).unwrap();
    let is_end = |event: &Event| matches!(event, Event::Ended { .. });
    while !is_end(&client.event_timeout(LONG).unwrap().expect("the end")) {}
    client.send(NodeId(0), "again").unwrap();
    assert_eq!(take(&server).payload, "again");
    server.send(NodeId(1), "welcome").unwrap();
    assert_eq!(take(&client).payload, "welcome");
}

/// The program that hears of the end of a session finds all its messages, also those that had no
/// room.
#[test]
fn an_end_follows_the_last_message_into_what_the_program_takes() {
    let (a, b) = (node(0), node(1));
    a.add_peer(NodeId(1), b.local_addr()).unwrap();
    b.add_peer(NodeId(0), a.local_addr()).unwrap();
    let is_end = |event: &Event| matches!(event, Event::Ended { .. });
    for _ in 0..=MESSAGES {
        a.send_timeout(NodeId(1), "x", LONG).unwrap();
    }
    a.peer(NodeId(1)).close(LONG).unwrap();
    while !is_end(&a.event_timeout(LONG).unwrap().expect("the end")) {}
    // When the thread answers, it has handed over all that it could.
    b.peers().unwrap();
    let told = || std::iter::from_fn(|| b.next_event().unwrap()).any(|event| is_end(&event));
    assert!(!told(), "a message had no room");
    let other = b.clone();
    let waits = std::thread::spawn(move || other.event_timeout(LONG).unwrap().expect("the end"));
    for _ in 0..MESSAGES {
        take(&b);
        assert!(!told() && !waits.is_finished(), "messages are left");
    }
    take(&b);
    // The call that takes the last message wakes the one that waits.
    assert!(is_end(&waits.join().unwrap()));
    assert_eq!(b.try_recv().unwrap(), None);
}

/// A command that leaves another one behind, until the node has taken a datagram or `deadline` is
/// over.
fn command_without_end(inner: Arc<Inner>, deadline: Deadline) -> Command {
    Command::run(move |worker| {
        if worker.driver.engine.counters().datagrams_in == 0 && !deadline.is_over() {
            let next = command_without_end(Arc::clone(&inner), deadline);
            assert!(inner.shards[0].push(next).is_ok());
        }
    })
}

#[test]
fn commands_without_end_do_not_keep_a_thread_from_its_socket() {
    let (a, b) = (node(0), node(1));
    a.add_peer(NodeId(1), b.local_addr()).unwrap();
    b.add_peer(NodeId(0), a.local_addr()).unwrap();
    let deadline = Deadline::after(Duration::from_secs(5));
    let endless = command_without_end(Arc::clone(&a.inner), deadline);
    assert!(a.inner.shards[0].push(endless).is_ok());
    b.send(NodeId(0), "x").unwrap();
    take(&a);
    assert!(!deadline.is_over());
}

/// Sends messages to a session that is closing, which are refused here, until the queue is full or
/// there were `most`. The program takes no events. Returns the node and how many were accepted, one
/// before included.
fn refused_here(notify: bool, most: usize) -> (SharedNode, u64) {
    let builder = Node::builder().id(NodeId(0)).book(AddressBook::new());
    let builder = builder.listen("127.0.0.1:0".parse().unwrap());
    let a = builder.send_queue(64 << 10).open_threads(1).unwrap();
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    a.add_peer(NodeId(1), nobody.local_addr().unwrap()).unwrap();
    a.send(NodeId(1), "keeps the session from its end").unwrap();
    a.peer(NodeId(1)).close(LONG).unwrap();
    let mut accepted = 0;
    let deadline = Deadline::after(LONG);
    let is_accepted = |token| loop {
        // Asked first: once they are full, nothing that is refused makes room any more.
        let full = notify && lock(&a.inner.shards[0].events).len_of(NodeId(1)) >= EVENTS;
        let mut draft = OutgoingMessage::new("x").token(token);
        if notify {
            draft = draft.notify(token);
        }
        // The handle's own call is not used here, because it would ask for an event that reports
        // room.
        if a.inner.send(NodeId(1), draft).is_ok() {
            return true;
        }
        if full || deadline.is_over() {
            return false;
        }
        std::thread::yield_now();
    };
    while accepted < most && is_accepted(accepted as u64) {
        accepted += 1;
    }
    (a, accepted as u64)
}

/// Takes the events until those of `refused` messages and the end of the session came.
fn take_refusals(a: &SharedNode, refused: u64) {
    let (mut expected, mut ended) = (0, false);
    while expected < refused || !ended {
        match a.event_timeout(LONG).unwrap().expect("it follows") {
            Event::NotDelivered { number, token, .. } => {
                assert_eq!((number, token), (UNNUMBERED, expected));
                expected += 1;
            }
            Event::Ended { .. } => ended = true,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(a.peer(NodeId(1)).queue_len().unwrap().0, 0);
    a.flush(LONG).unwrap();
}

/// The number of messages that a flush reports as not delivered.
fn unflushed(a: &SharedNode) -> u64 {
    // The thread that flushes may be the one that takes the events.
    let deadline = Deadline::after(LONG / 2);
    let Err(Error::NotFlushed { peers }) = a.flush(LONG) else {
        panic!("something failed");
    };
    assert!(!deadline.is_over(), "nothing was to be waited for");
    let [(NodeId(1), count)] = peers[..] else {
        panic!("{peers:?}");
    };
    count
}

/// Messages that are refused here and were sent with `notify` have an event each. If the program
/// does not take those, the queue's bound holds.
#[test]
fn f04_messages_refused_here_wait_while_nobody_takes_their_events() {
    // Twice as many as events and queue hold.
    let most = 2 * (EVENTS + 1_024);
    let (a, accepted) = refused_here(true, most);
    assert!(
        (EVENTS as u64..most as u64).contains(&accepted),
        "{accepted}"
    );
    assert_eq!(lock(&a.inner.shards[0].events).len_of(NodeId(1)), EVENTS);
    a.peer(NodeId(1)).reset().unwrap();
    assert_eq!(unflushed(&a), accepted + 1);
    take_refusals(&a, accepted);
}

/// A program that takes no events can send on: others are dropped when they fill the queue, and a
/// flush says how many failed, once.
#[test]
fn f04_messages_refused_here_do_not_fill_the_queue_of_a_program_that_takes_no_events() {
    let most = 4 * (EVENTS + 1_024);
    let (a, accepted) = refused_here(false, most);
    assert_eq!(accepted, most as u64);
    a.peer(NodeId(1)).reset().unwrap();
    assert_eq!(unflushed(&a), accepted + 1);
    a.flush(LONG).unwrap();
    let events = std::iter::from_fn(|| a.event_timeout(Duration::from_millis(300)).unwrap());
    let refused = events.filter(|event| matches!(event, Event::NotDelivered { .. }));
    let told = refused.count();
    assert!((EVENTS..=EVENTS + 1_024).contains(&told), "{told}");
    assert_eq!(a.peer(NodeId(1)).queue_len().unwrap().0, 0);
}

/// As long as the queue has room for them, each has its event, although the program takes events
/// only afterwards.
#[test]
fn f04_messages_refused_here_are_told_each_once() {
    let most = EVENTS + 1_000;
    let (a, accepted) = refused_here(false, most);
    assert_eq!(accepted, most as u64);
    a.peer(NodeId(1)).reset().unwrap();
    assert_eq!(unflushed(&a), accepted + 1);
    take_refusals(&a, accepted);
}

/// After the event of a delivery there is room for the next message, however small the queue.
#[test]
fn what_was_delivered_is_not_queued_any_more() {
    let builder = Node::builder().id(NodeId(0)).book(AddressBook::new());
    let builder = builder.listen("127.0.0.1:0".parse().unwrap());
    let a = builder.send_queue(64 << 10).open_threads(1).unwrap();
    let b = node(1);
    a.add_peer(NodeId(1), b.local_addr()).unwrap();
    b.add_peer(NodeId(0), a.local_addr()).unwrap();
    let deadline = Deadline::after(LONG);
    // More than the queue, which takes one alone.
    let bytes = Bytes::from(vec![0; 65 << 10]);
    for number in 0..2_000 {
        let draft = OutgoingMessage::new(bytes.clone()).notify(number);
        a.send(NodeId(1), draft).unwrap();
        loop {
            match a.next_event().unwrap() {
                Some(Event::Delivered { token, .. }) if token == number => break,
                _ => std::thread::yield_now(),
            }
            assert!(!deadline.is_over());
        }
        assert_eq!(a.peer(NodeId(1)).queue_len().unwrap(), (0, 0));
        take(&b);
    }
}

/// The lock of the waiters may be held by a thread that the child does not have.
#[test]
fn f24_a_call_that_waited_is_dropped_in_a_child() {
    let a = node(0);
    let waiting = &a.inner.message_ready.0;
    let mut registration = sleepers::Registration::new(waiting);
    registration.enter(std::task::Waker::noop());
    let held = waiting.list();
    // SAFETY: the child drops the registration, which allocates nothing and takes no lock, or is
    // ended by the alarm; `status` outlives the call that writes it.
    let status = unsafe {
        match libc::fork() {
            0 => {
                libc::alarm(5);
                drop(registration);
                libc::_exit(0)
            }
            pid => {
                let mut status = -1;
                assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
                status
            }
        }
    };
    drop(held);
    assert_eq!(status, 0, "the child ended by itself");
}

/// A task with a limit of its own ends while it waits, and would be kept for as long as nothing
/// happens.
#[test]
fn calls_that_are_given_up_leave_no_waker_behind() {
    struct Task;
    impl std::task::Wake for Task {
        fn wake(self: Arc<Self>) {}
    }
    let builder = Node::builder().id(NodeId(0)).book(AddressBook::new());
    let builder = builder.listen("127.0.0.1:0".parse().unwrap());
    let a = builder.send_queue(64 << 10).open_threads(1).unwrap();
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    a.add_peer(NodeId(1), nobody.local_addr().unwrap()).unwrap();
    a.send(NodeId(1), vec![7; 64 << 10]).unwrap();
    let task = Arc::new(Task);
    let waker = Arc::clone(&task).into();
    let mut cx = Context::from_waker(&waker);
    let mut waits = |call: &mut dyn FnMut(&mut Context<'_>) -> bool| {
        assert!(call(&mut cx) && call(&mut cx), "pending");
        assert!(Arc::strong_count(&task) > 2, "entered");
    };
    for _ in 0..2 {
        let mut send = std::pin::pin!(a.send_async(NodeId(1), "x"));
        let mut recv = std::pin::pin!(a.recv_async());
        let mut event = std::pin::pin!(a.event_async());
        let mut flush = std::pin::pin!(a.flush_async());
        waits(&mut |cx| send.as_mut().poll(cx).is_pending());
        waits(&mut |cx| recv.as_mut().poll(cx).is_pending());
        waits(&mut |cx| event.as_mut().poll(cx).is_pending());
        waits(&mut |cx| flush.as_mut().poll(cx).is_pending());
    }
    // The thread may be about to wake one that it found, which it holds for a moment.
    let deadline = Deadline::after(Duration::from_secs(5));
    while Arc::strong_count(&task) > 2 && !deadline.is_over() {
        std::thread::yield_now();
    }
    assert_eq!(Arc::strong_count(&task), 2, "this and the waker");
}

/// The gate lets a message in while the thread has begun to suspend the session: it is kept, and
/// has its outcome should the node be closed first.
#[test]
fn what_a_suspension_kept_is_told_of_when_the_node_closes() {
    let (a, b) = (node(0), node(1));
    a.add_peer(NodeId(1), b.local_addr()).unwrap();
    let (suspended, is_suspended) = std::sync::mpsc::channel();
    let (go, may_go) = std::sync::mpsc::channel();
    let other = a.clone();
    let asking = std::thread::spawn(move || {
        other.ask(NodeId(1), move |driver| {
            driver.engine.suspend(NodeId(1)).unwrap();
            suspended.send(()).unwrap();
            may_go.recv().unwrap();
        })
    });
    is_suspended.recv().unwrap();
    a.send(NodeId(1), OutgoingMessage::new("late")).unwrap();
    go.send(()).unwrap();
    asking.join().unwrap().unwrap();
    match a.close(Duration::ZERO) {
        Err(Error::NotFlushed { peers }) => assert_eq!(peers, [(NodeId(1), 1)]),
        other => panic!("{other:?}"),
    }
    let events = std::iter::from_fn(|| a.next_event().ok().flatten());
    let refused =
        |event: &Event| matches!(event, Event::NotDelivered { node, .. } if *node == NodeId(1));
    assert_eq!(events.filter(refused).count(), 1);
}

/// A gate may let in messages that the engine does not take yet. Once the engine would take them,
/// nothing else may come that wakes the thread.
#[test]
fn what_the_engine_did_not_take_goes_as_soon_as_it_would() {
    const ACK_DELAY: Duration = Duration::from_millis(500);
    let builder = Node::builder().id(NodeId(0)).book(AddressBook::new());
    let builder = builder.listen("127.0.0.1:0".parse().unwrap());
    let builder = builder.statistics(false);
    let builder = builder.config(|config| config.max_ack_delay = ACK_DELAY);
    let (a, b) = (builder.open_threads(1).unwrap(), node(1));
    a.add_peer(NodeId(1), b.local_addr()).unwrap();
    b.add_peer(NodeId(0), a.local_addr()).unwrap();
    a.send(NodeId(1), "up").unwrap();
    take(&b);
    let round = |text: &'static str| {
        b.peer(NodeId(0)).suspend().unwrap();
        let gate = a.inner.shards[0].gate(NodeId(1)).unwrap();
        while gate.suspended().is_none() {
            std::thread::yield_now();
        }
        // This message is from a handle that looked at the gate just before.
        let late = OutgoingMessage::new(text).into_outgoing();
        let class = gate.class_of(late.channel);
        assert!(gate.debit(class, Held::of(&late)));
        let pushed = a.inner.shards[0].push(Command::Send(NodeId(1), class, late, None));
        assert!(pushed.is_ok());
        a.peers().unwrap();
        let resumed = std::time::Instant::now();
        b.peer(NodeId(0)).resume().unwrap();
        assert_eq!(take(&b).payload, text);
        resumed.elapsed()
    };
    // The thread wakes up to acknowledge that the session was resumed, by itself only then.
    let took = ["one", "two", "three"].map(round);
    assert!(took.into_iter().min() < Some(ACK_DELAY / 2), "{took:?}");
    a.flush(LONG).unwrap();
}

/// The thread is in the middle of something: it ends that for an urgent message, and for no other.
#[test]
fn an_urgent_message_interrupts_the_thread() {
    let (a, peers) = star(1, 1);
    let urgent = Priority::new(6, 16).unwrap();
    a.peer(NodeId(1))
        .set_channel_priority(ChannelId(7), urgent)
        .unwrap();
    let (is_busy, busy) = std::sync::mpsc::channel();
    let (go, goes) = std::sync::mpsc::channel();
    let call = Command::run(move |_| {
        is_busy.send(()).unwrap();
        goes.recv().unwrap();
    });
    assert!(a.inner.shards[0].push(call).is_ok());
    busy.recv().unwrap();
    let is_interrupted = || a.inner.shards[0].urgent.load(Ordering::Relaxed);
    a.send(NodeId(1), "bulk").unwrap();
    assert!(!is_interrupted());
    a.send(
        NodeId(1),
        OutgoingMessage::new("urgent").channel(ChannelId(7)),
    )
    .unwrap();
    assert!(is_interrupted());
    go.send(()).unwrap();
    for _ in 0..2 {
        take(&peers[0]);
    }
    a.peers().unwrap();
    assert!(!is_interrupted(), "it was taken");
}

/// A node that came once leaves nothing behind for ever; a gate that a call still uses stays.
#[test]
fn f02_gates_of_forgotten_nodes_are_forgotten() {
    let (a, b) = (node(0), node(1));
    let gone = 1_000..1_500;
    for id in gone.clone() {
        a.inner.shards[0].gate_or_new(NodeId(id));
    }
    let in_use = a.inner.shards[0].gate(NodeId(1_001)).unwrap();
    assert!(
        a.inner.shards[0]
            .gate(NodeId(1_000))
            .unwrap()
            .debit(0, Held::one(1)),
        "holds a message"
    );
    a.add_peer(NodeId(1), b.local_addr()).unwrap();
    b.add_peer(NodeId(0), a.local_addr()).unwrap();
    a.send(NodeId(1), "comes").unwrap();
    let up = a.event_timeout(LONG).unwrap();
    assert_eq!(
        up,
        Some(Event::Up {
            node: NodeId(1),
            session: SessionNumber(0)
        })
    );
    // The cycle that told of it is over when the thread answers.
    a.peers().unwrap();
    let left: Vec<_> = gone
        .filter(|id| a.inner.shards[0].gate(NodeId(*id)).is_some())
        .collect();
    assert_eq!(left, [1_000, 1_001]);
    assert!(a.inner.shards[0].gate(NodeId(1)).is_some(), "is known");
    drop(in_use);
}

/// The kernel that counts the sockets in another order, or not at all: here it sends everything to
/// the thread at `index`.
fn steer_all_to(node: &SharedNode, index: u32) {
    let code = u16::try_from(libc::BPF_RET | libc::BPF_K).unwrap();
    let instructions = [libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k: index,
    }];
    let program = libc::sock_fprog {
        len: 1,
        filter: instructions.as_ptr().cast_mut(),
    };
    // SAFETY: the program and its instruction outlive the call, which only reads them.
    let done = unsafe {
        libc::setsockopt(
            socket_of(node, 0),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            libc::socklen_t::try_from(size_of_val(&program)).unwrap(),
        )
    };
    assert_eq!(done, 0);
}

#[test]
fn datagrams_that_come_to_a_wrong_thread_find_the_right_one() {
    const MESSAGES: u32 = 300;
    for index in 0..3 {
        let (a, peers) = star(3, 6);
        steer_all_to(&a, index);
        std::thread::scope(|scope| {
            for peer in &peers {
                let to = a.id();
                scope.spawn(move || {
                    for number in 0..MESSAGES {
                        peer.send_timeout(to, number.to_le_bytes().to_vec(), LONG)
                            .unwrap();
                        assert_eq!(take(peer).payload[..], number.to_le_bytes());
                    }
                });
            }
            for _ in 0..MESSAGES * 6 {
                let message = take(&a);
                a.send_timeout(message.from, message.payload, LONG).unwrap();
            }
        });
        let each = a.thread_counters().unwrap();
        for (thread, (counters, socket)) in each.iter().enumerate() {
            assert_eq!(counters.messages_received, u64::from(MESSAGES) * 2);
            let here = thread == index as usize;
            assert_eq!(counters.misdirected > 0, here);
            assert_eq!(socket.datagrams_received > 0, here);
        }
        // The same holds when it closes.
        a.close(LONG).unwrap();
        for peer in &peers {
            let ended = |e: Option<Event>| matches!(e, Some(Event::Ended { .. }));
            while !ended(peer.event_timeout(LONG).unwrap()) {}
        }
    }
}

/// Datagrams that another thread does not take in time are dropped and counted, as a socket does
/// (F04).
#[test]
fn f04_datagrams_for_another_thread_wait_in_a_bounded_ring() {
    let (a, _) = star(2, 1);
    steer_all_to(&a, 0);
    let (blocked, is_blocked) = std::sync::mpsc::channel();
    let (go, may_go) = std::sync::mpsc::channel();
    let other = a.clone();
    let asking = std::thread::spawn(move || {
        other.ask(NodeId(1), move |_| {
            blocked.send(()).unwrap();
            may_go.recv().unwrap();
        })
    });
    is_blocked.recv().unwrap();
    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..400 {
        noise.send_to(&[1; 100], a.local_addr()).unwrap();
    }
    let deadline = std::time::Instant::now() + LONG;
    let counters = loop {
        let counters = a
            .ask(NodeId(0), |driver| *driver.engine.counters())
            .unwrap();
        if counters.misdirected == 400 {
            break counters;
        }
        assert!(std::time::Instant::now() < deadline, "{counters:?}");
    };
    assert_eq!(counters.misdirected_dropped, 400 - 256);
    go.send(()).unwrap();
    asking.join().unwrap().unwrap();
    while a.counters().unwrap().datagrams_in < 256 {}
    assert_eq!(
        a.counters().unwrap().malformed + a.counters().unwrap().wrong_version,
        256
    );
}

/// Checks a node with a failed thread: calls say so, nothing hangs, and the peers of the other
/// threads hear of the end.
fn is_over(a: &SharedNode, peers: &[SharedNode], said: &str) {
    let gone = |result: Result<(), Error>| match result {
        Err(Error::ThreadGone(why)) => assert!(why.contains(said), "{why}"),
        other => panic!("{other:?}"),
    };
    gone(loop {
        match a.recv_timeout(LONG) {
            Ok(Some(_)) => {}
            other => break other.map(drop),
        }
    });
    gone(a.send(NodeId(1), "x"));
    gone(a.counters().map(drop));
    gone(a.flush(LONG));
    gone(a.close(LONG));
    gone(loop {
        match a.next_event() {
            Ok(Some(_)) => {}
            other => break other.map(drop),
        }
    });
    for peer in peers {
        // The end comes after the session's messages.
        let mut next = peer.next_timeout(LONG).unwrap();
        while !matches!(next, Some(Next::Event(Event::Ended { .. }))) {
            next = peer.next_timeout(LONG).unwrap();
            assert!(next.is_some(), "hears of the end");
        }
    }
    // The port is free.
    let again = Node::builder().id(NodeId(50)).book(AddressBook::new());
    again.listen(a.local_addr()).open_threads(2).unwrap();
}

#[test]
fn a_thread_that_panics_ends_the_node_and_everybody_hears_of_it() {
    for victim in 0..3_u32 {
        let (a, mut peers) = star(3, 6);
        for peer in &peers {
            peer.send(a.id(), "up").unwrap();
            take(&a);
            a.send(peer.id(), "waits").unwrap();
        }
        let receiver = a.clone();
        let receiver = std::thread::spawn(move || receiver.recv());
        let answer = a.ask(NodeId(victim), |_| -> () { panic!("a test's") });
        assert!(matches!(answer, Err(Error::ThreadGone(_))), "{answer:?}");
        assert!(matches!(
            receiver.join().unwrap(),
            Err(Error::ThreadGone(_))
        ));
        // The peers of the thread that panicked learn it by silence.
        peers.retain(|peer| peer.id().0 % 3 != victim);
        is_over(&a, &peers, "panicked");
    }
}

/// Makes the thread at `index` find that its descriptor is no socket any more.
fn break_socket(node: &SharedNode, index: usize) {
    let file = std::fs::File::open("/dev/null").unwrap();
    let from = std::os::fd::AsRawFd::as_raw_fd(&file);
    let to = socket_of(node, index);
    // SAFETY: both are open.
    assert_eq!(unsafe { libc::dup2(from, to) }, to);
}

/// The program gets all messages, also those without room in the ring: they were acknowledged.
#[test]
fn a_socket_that_fails_leaves_what_had_arrived() {
    let count = MESSAGES + 5;
    let (a, peers) = star(1, 1);
    for _ in 0..count {
        peers[0].send_timeout(a.id(), "x", LONG).unwrap();
    }
    peers[0].flush(LONG).unwrap();
    break_socket(&a, 0);
    let _ = a.send(NodeId(1), "into nothing");
    while !a.inner.done.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let taken = std::iter::from_fn(|| a.try_recv().ok()).count();
    assert_eq!(taken, count);
    assert!(matches!(a.try_recv(), Err(Error::ThreadGone(_))));
}

#[test]
fn a_socket_that_fails_ends_the_node_and_everybody_hears_of_it() {
    let (a, mut peers) = star(3, 6);
    for peer in &peers {
        peer.send(a.id(), "up").unwrap();
        take(&a);
    }
    break_socket(&a, 1);
    let _ = a.send(NodeId(1), "into nothing");
    peers.retain(|peer| peer.id().0 % 3 != 1);
    is_over(&a, &peers, "socket");
}

/// The client's calls to `server` as futures, each polled once: their requests are on their way.
fn begin_calls(
    client: &SharedNode,
    count: u64,
) -> Vec<std::pin::Pin<Box<impl Future<Output = Result<Message, Error>>>>> {
    let call = |_| Box::pin(client.call_async(NodeId(1), "request", LONG));
    let mut calls: Vec<_> = (0..count).map(call).collect();
    let mut cx = Context::from_waker(std::task::Waker::noop());
    for call in &mut calls {
        assert!(call.as_mut().poll(&mut cx).is_pending());
    }
    calls
}

/// Until `is_so`, which it becomes soon.
fn wait_until(is_so: impl Fn() -> bool) {
    let end = std::time::Instant::now() + LONG;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "it never is");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_future_that_is_dropped_takes_its_call_along() {
    const CALLS: u64 = 2 * super::shard::COMMANDS as u64;
    let (client, peers) = star(1, 1);
    let (mut calls, mut requests) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        // No more at once than the ring has room for: a request that waits for room goes when its
        // future is polled.
        let more = begin_calls(&client, CALLS / 8);
        requests.extend(more.iter().map(|_| take(&peers[0])));
        calls.extend(more);
    }
    let open = || {
        client
            .ask(NodeId(1), |driver| driver.engine.open_calls())
            .unwrap()
    };
    assert_eq!(open() as u64, CALLS);
    // More at once than the ring has room for.
    drop(calls);
    wait_until(|| open() == 0);
    for request in &requests {
        let reply = request.reply("late").unwrap();
        peers[0].send_timeout(request.from, reply, LONG).unwrap();
    }
    wait_until(|| client.counters().unwrap().late_replies == CALLS);
}

/// The replies that callers leave in their futures are bounded. The rest waits in the engine, where
/// its sender's memory credit pays for it.
#[test]
fn f04_replies_that_nobody_takes_wait_in_the_engine_and_follow() {
    const LENGTH: usize = 1 << 20;
    const CALLS: u64 = 12;
    let (client, peers) = star(1, 1);
    let calls = begin_calls(&client, CALLS);
    for _ in &calls {
        let request = take(&peers[0]);
        let reply = request.reply(vec![7; LENGTH]).unwrap();
        peers[0].send_timeout(request.from, reply, LONG).unwrap();
    }
    let shard = &client.inner.shards[0];
    wait_until(|| shard.replies_wait.load(Ordering::SeqCst));
    let given = shard.reply_bytes.load(Ordering::SeqCst);
    assert!(
        given <= super::shard::MESSAGE_BYTES + LENGTH as u64,
        "{given}"
    );
    for call in calls {
        let reply = client.inner.wait_for(poll_of(call)).unwrap().unwrap();
        assert_eq!(reply.payload.len(), LENGTH);
    }
    assert_eq!(shard.reply_bytes.load(Ordering::SeqCst), 0);
}

fn poll_of<F: Future + Unpin>(mut future: F) -> impl FnMut(&mut Context<'_>) -> Poll<F::Output> {
    move |cx| std::pin::Pin::new(&mut future).poll(cx)
}

/// Miri runs this one: each value is taken once, and what is left is dropped with the queue.
#[test]
fn a_ring_gives_each_value_once_and_drops_the_rest() {
    let value = Arc::new(());
    let ring = super::ring::Ring::new(4);
    for _ in 0..3 {
        while ring.push(Arc::clone(&value)).is_ok() {}
        assert_eq!(Arc::strong_count(&value), 5);
        assert!(ring.pop().is_some() && ring.pop().is_some());
        assert_eq!(Arc::strong_count(&value), 3);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| while ring.pop().is_some() {});
        while ring.push(Arc::clone(&value)).is_err() {}
    });
    drop(ring);
    assert_eq!(Arc::strong_count(&value), 1);
}

/// The node is closed after a call that connects found it open: the call does not wait for ever.
#[test]
fn a_call_that_connects_while_the_node_closes_fails() {
    let node = node(0);
    let table = &node.inner.shards[0].sockets;
    table.update(Sockets::end);
    let peer = Address {
        node: NodeId(1),
        port: 80,
    };
    let failed = node.sockets().connect(None, peer, SocketKind::Stream);
    let closed = matches!(failed, Err(SocketError::Node(Error::Closed)));
    assert!(closed, "{failed:?}");
}
