//! Nodes served by a thread: blocking, timed, trying and async calls, back-pressure, ends.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, builder, set_option, shared_pair, take_many};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake};
use std::time::{Duration, Instant};
use suci::{
    Bytes, ChannelId, EndReason, Error, Event, NodeId, OutgoingMessage, PeerOptions, Priority,
    SessionNumber, SharedNode, Side,
};

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

/// Node 0 that knows node 1, whose port does not answer.
fn lonely(queue: u64) -> (SharedNode, UdpSocket) {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let a = builder(0).send_queue(queue).open_threads(1).unwrap();
    a.add_peer(NodeId(1), nobody.local_addr().unwrap()).unwrap();
    (a, nobody)
}

/// Messages queued on other channels leave an urgent channel its queue, however full theirs is.
#[test]
fn bulk_that_fills_its_queue_leaves_room_for_an_urgent_message() {
    const QUEUE: u64 = 64 << 10;
    let (bulk, urgent) = (ChannelId(0), ChannelId(1));
    let class = Priority::new(6, 16).unwrap();
    let draft = |channel| OutgoingMessage::new(vec![1; 10_000]).channel(channel);
    let fits = |sent: Result<(), Error>| match sent {
        Ok(()) => true,
        Err(Error::WouldBlock { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    let (shared, nobody) = lonely(QUEUE);
    let mut node = builder(0).send_queue(QUEUE).open().unwrap();
    node.add_peer(NodeId(1), nobody.local_addr().unwrap())
        .unwrap();
    let send_shared = |channel| fits(shared.send(NodeId(1), draft(channel)));
    assert_eq!((0..10).filter(|_| send_shared(bulk)).count(), 6);
    assert!(!send_shared(urgent), "of the same class");
    shared
        .peer(NodeId(1))
        .set_channel_priority(urgent, class)
        .unwrap();
    assert_eq!((0..10).filter(|_| send_shared(urgent)).count(), 6);
    let mut send = |channel| fits(node.send(NodeId(1), draft(channel)).map(drop));
    assert_eq!((0..10).filter(|_| send(bulk)).count(), 6);
    node.peer(NodeId(1))
        .set_channel_priority(urgent, class)
        .unwrap();
    let mut send = |channel| fits(node.send(NodeId(1), draft(channel)).map(drop));
    assert_eq!((0..10).filter(|_| send(urgent)).count(), 6);
}

/// A channel whose class changes takes its messages along: it leaves room in its old class, and
/// needs it in the new one.
#[test]
fn a_channel_that_becomes_urgent_takes_its_queue_along() {
    let (a, _nobody) = lonely(64 << 10);
    let send = |channel| {
        let draft = OutgoingMessage::new(vec![1; 10_000]).channel(ChannelId(channel));
        a.send(NodeId(1), draft).is_ok()
    };
    assert_eq!((0..10).filter(|_| send(1)).count(), 6);
    assert!(!send(0));
    let urgent = Priority::new(6, 16).unwrap();
    a.peer(NodeId(1))
        .set_channel_priority(ChannelId(1), urgent)
        .unwrap();
    let end = Instant::now() + LONG;
    while !send(0) && Instant::now() < end {
        std::thread::yield_now();
    }
    assert_eq!((0..10).filter(|_| send(0)).count(), 5);
    assert!(!send(1));
    assert_eq!(a.peer(NodeId(1)).queue_len().unwrap().0, 12);
}

fn is_handle<T: Send + Sync + Clone + 'static>(_: &T) {}

#[test]
fn handles_go_everywhere() {
    let (a, b) = shared_pair();
    is_handle(&a);
    let id = b.id();
    let senders: Vec<_> = (0..4_u32)
        .map(|channel| {
            let a = a.clone();
            std::thread::spawn(move || {
                for number in 0..500_u32 {
                    let draft = OutgoingMessage::new(number.to_le_bytes().to_vec())
                        .channel(ChannelId(channel));
                    a.send_timeout(id, draft, LONG).unwrap();
                }
            })
        })
        .collect();
    let mut next = [0_u32; 4];
    for _ in 0..2_000 {
        let message = b.recv_timeout(LONG).unwrap().expect("a message");
        let count = &mut next[message.channel.0 as usize];
        assert_eq!(&message.payload[..], count.to_le_bytes());
        *count += 1;
    }
    senders
        .into_iter()
        .for_each(|sender| sender.join().unwrap());
    a.flush(LONG).unwrap();
    assert_eq!(a.peer(id).queue_len().unwrap(), (0, 0));
    assert!(b.try_recv().unwrap().is_none());
}

#[test]
fn many_messages_are_taken_at_once_and_no_more_than_asked_for() {
    let (a, b) = shared_pair();
    // More messages than lie ready for the program at once: taking some makes room for the others.
    let send = |range: std::ops::Range<u32>| {
        for number in range {
            let payload = number.to_le_bytes().to_vec();
            a.send_timeout(b.id(), payload, LONG).unwrap();
        }
    };
    send(0..3_000);
    a.flush(LONG).unwrap();
    let mut messages = take_many(a.id(), 3_000, |messages, most, timeout| {
        b.recv_many(messages, most, timeout)
    });
    // A later message wakes the call. Messages that came before the end are taken after it.
    let waiting = b.clone();
    let taken = std::thread::spawn(move || waiting.recv_many(&mut Vec::new(), 9, LONG).unwrap());
    send(0..1);
    assert_eq!(taken.join().unwrap(), 1);
    send(1..3);
    a.flush(LONG).unwrap();
    b.close(LONG).unwrap();
    messages.clear();
    while messages.len() < 2 {
        b.recv_many(&mut messages, usize::MAX, LONG).unwrap();
    }
    let end = b.recv_many(&mut messages, usize::MAX, LONG);
    assert!(matches!(end, Err(Error::Closed)) && messages.len() == 2);
}

#[test]
fn all_threads_of_a_node_hand_over_many_at_once() {
    let b = builder(9).open_threads(2).unwrap();
    let senders = [0, 1].map(|id| {
        let a = builder(id).open_threads(1).unwrap();
        a.add_peer(b.id(), b.local_addr()).unwrap();
        b.add_peer(a.id(), a.local_addr()).unwrap();
        for number in 0..500_u32 {
            let payload = number.to_le_bytes().to_vec();
            a.send_timeout(b.id(), payload, LONG).unwrap();
        }
        a.flush(LONG).unwrap();
        a
    });
    // Each thread acknowledged them, and when it answers it has handed them over. One call takes
    // the messages of both.
    b.counters().unwrap();
    let mut messages = Vec::new();
    let taken = b.recv_many(&mut messages, usize::MAX, LONG).unwrap();
    assert_eq!((taken, messages.len()), (1_000, 1_000));
    let mut next = [0_u32; 2];
    for message in &messages {
        let count = &mut next[message.from.0 as usize];
        assert_eq!(&message.payload[..], count.to_le_bytes());
        *count += 1;
    }
    senders.iter().for_each(|a| a.close(LONG).unwrap());
}

#[test]
fn a_request_and_its_reply_cost_two_packets_here_too() {
    const ROUNDS: u64 = 2_000;
    // An acknowledgement waits 2 ms by default for a reply to ride on; a loaded machine is later
    // than that.
    let patient = |id| {
        builder(id)
            .config(|c| c.max_ack_delay = Duration::from_millis(500))
            .open_threads(1)
            .unwrap()
    };
    let (a, b) = (patient(0), patient(1));
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    let id = b.id();
    let echo = std::thread::spawn(move || {
        for _ in 0..ROUNDS + 1 {
            let message = b.recv().unwrap();
            b.send(message.from, message.payload).unwrap();
        }
        b
    });
    let round = || {
        a.send_copy(id, &[7; 64]).unwrap();
        a.recv().unwrap();
    };
    round();
    let before = a.counters().unwrap().packets_out;
    (0..ROUNDS).for_each(|_| round());
    let packets = a.counters().unwrap().packets_out - before;
    echo.join().unwrap();
    assert!(
        (ROUNDS..ROUNDS + ROUNDS / 100).contains(&packets),
        "{packets} packets"
    );
}

#[test]
fn one_full_peer_blocks_no_other() {
    let (a, _nobody) = lonely(1 << 16);
    let b = builder(2).open_threads(1).unwrap();
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    let mut accepted = 0;
    let refused = loop {
        match a.send(NodeId(1), vec![1; 1 << 10]) {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 65, "the queue has a bound");
    };
    assert!(refused.is_would_block(), "{refused}");
    assert_eq!(
        a.peer(NodeId(1)).queue_len().unwrap(),
        (accepted, accepted << 10)
    );
    a.send(b.id(), "through").unwrap();
    assert_eq!(
        &b.recv_timeout(LONG).unwrap().expect("a message").payload[..],
        b"through"
    );
    let late = a
        .send_timeout(NodeId(1), vec![1; 1 << 10], Duration::from_millis(5))
        .unwrap_err();
    assert!(late.is_would_block(), "{late}");
    let unflushed = || {
        let Err(Error::NotFlushed { peers }) = a.flush(Duration::from_millis(5)) else {
            panic!("flushed")
        };
        peers
    };
    // The other has its message; that it says so may take a moment more.
    let end = Instant::now() + LONG;
    while unflushed() != [(NodeId(1), accepted)] {
        assert!(Instant::now() < end, "{:?}", unflushed());
    }
    // Giving the peer up makes room again, and tells the outcome of every message.
    a.peer(NodeId(1)).reset().unwrap();
    let ended = await_event(&a, |e| matches!(e, Event::Ended { .. }));
    let Event::Ended {
        reason: EndReason::Reset,
        outcomes,
        ..
    } = ended
    else {
        panic!("{ended:?}")
    };
    assert_eq!(outcomes.len() as u64, accepted);
    a.send_timeout(NodeId(1), vec![1; 1 << 10], LONG).unwrap();
}

/// How many messages `send` accepts until it says that there is no room.
fn accepted(mut send: impl FnMut() -> Result<(), Error>) -> u64 {
    (0..)
        .find(|_| match send() {
            Ok(()) => false,
            Err(error) => {
                assert!(error.is_would_block(), "{error}");
                true
            }
        })
        .unwrap()
}

#[test]
fn f26_both_kinds_of_nodes_queue_as_much() {
    let shapes = [
        (0, 0),
        (0, 255),
        (32, 0),
        (1_000, 9),
        (65_472, 0),
        (80_000, 255),
    ];
    for (payload, header) in shapes {
        let draft = || OutgoingMessage::new(vec![1; payload]).user_header(vec![2; header]);
        let (shared, nobody) = lonely(1 << 16);
        let mut own = builder(2).send_queue(1 << 16).open().unwrap();
        own.add_peer(NodeId(1), nobody.local_addr().unwrap())
            .unwrap();
        let most = ((1 << 16) / (payload + header + 64)).max(1) as u64;
        assert_eq!(accepted(|| shared.send(NodeId(1), draft())), most);
        assert_eq!(
            accepted(|| own.send(NodeId(1), draft()).map(drop)),
            most,
            "{payload} B and {header} B"
        );
        let bytes = most * (payload + header) as u64;
        assert_eq!(shared.peer(NodeId(1)).queue_len().unwrap(), (most, bytes));
        assert_eq!(own.peer(NodeId(1)).queue_len().unwrap(), (most, bytes));
        let _ = (shared.close(Duration::ZERO), own.close(Duration::ZERO));
    }
}

/// The bound on the number of messages, which stays without a limit in bytes.
#[test]
fn f26_a_peer_that_takes_nothing_is_sent_a_million_messages_at_most() {
    const MOST: u64 = 1 << 20;
    let (shared, nobody) = lonely(u64::MAX);
    let mut own = builder(2).send_queue(u64::MAX).open().unwrap();
    own.add_peer(NodeId(1), nobody.local_addr().unwrap())
        .unwrap();
    assert_eq!(accepted(|| own.send_copy(NodeId(1), &[]).map(drop)), MOST);
    let send = || {
        // The thread may be behind: then its ring is full, and soon is not.
        let sent = shared.send(NodeId(1), Bytes::new());
        match shared.peer(NodeId(1)).queue_len().unwrap().0 {
            MOST => sent,
            _ => Ok(()),
        }
    };
    accepted(send);
    assert_eq!(shared.peer(NodeId(1)).queue_len().unwrap(), (MOST, 0));
    let _ = (shared.close(Duration::ZERO), own.close(Duration::ZERO));
}

/// Packets are lost, and with them the first of the messages kept behind them. The gate lets in
/// only as many messages as there is room for (a debug assertion checks), and gets all room back.
#[test]
fn f26_what_is_kept_behind_a_loss_is_not_let_in_once_more() {
    let faults: suci::FaultSpec = "loss=0.2,seed=3".parse().unwrap();
    let a = builder(0).send_queue(1 << 16).faults(faults);
    let (a, b) = (
        a.open_threads(1).unwrap(),
        builder(1).open_threads(1).unwrap(),
    );
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    let id = b.id();
    let taker = std::thread::spawn(move || {
        (0..20_000).for_each(|_| drop(b.recv_timeout(LONG).unwrap().expect("a message")));
        b
    });
    for number in 0..20_000_usize {
        let draft = OutgoingMessage::new(vec![1; number % 300]).user_header(vec![2; number % 256]);
        a.send_timeout(id, draft, LONG).unwrap();
        let (messages, bytes) = a.peer(id).queue_len().unwrap();
        assert!(
            bytes <= 1 << 16 && messages <= 1_024,
            "{messages}, {bytes} B"
        );
    }
    a.flush(LONG).unwrap();
    assert_eq!(a.peer(id).queue_len().unwrap(), (0, 0));
    taker.join().unwrap();
}

#[test]
fn f18_a_program_that_takes_nothing_slows_its_sender_and_loses_nothing() {
    const MESSAGES: u32 = 4_000;
    let a = builder(0).send_queue(1 << 20).open_threads(1).unwrap();
    let b = builder(1)
        .memory(2 << 20)
        .max_message(1 << 20)
        .open_threads(1)
        .unwrap();
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    let id = b.id();
    let message = |number: u32| {
        let mut payload = vec![0; 8_000];
        payload[..4].copy_from_slice(&number.to_le_bytes());
        payload
    };
    // 32 MB meet 2 MiB of memory, 4 MiB of ring and 1 MiB of queue: the sender is held up.
    let mut sent = 0;
    while a
        .send_timeout(id, message(sent), Duration::from_millis(200))
        .is_ok()
    {
        sent += 1;
        assert!(sent < MESSAGES, "nothing holds the sender up");
    }
    let sender = a.clone();
    let rest = std::thread::spawn(move || {
        for number in sent..MESSAGES {
            sender.send_timeout(id, message(number), LONG).unwrap();
        }
    });
    for number in 0..MESSAGES {
        let message = b.recv_timeout(LONG).unwrap().expect("a message");
        assert_eq!(message.payload[..4], number.to_le_bytes());
    }
    rest.join().unwrap();
    a.flush(LONG).unwrap();
    assert_eq!(b.socket_counters().unwrap().recv_drops, 0);
}

#[test]
fn what_did_not_fit_the_ring_follows_when_there_is_room() {
    // More than the ring holds; all of it lies in the receiver's engine when its program begins.
    const MESSAGES: u32 = 3_000;
    let (a, b) = shared_pair();
    for number in 0..MESSAGES {
        a.send_timeout(b.id(), number.to_le_bytes().to_vec(), LONG)
            .unwrap();
    }
    a.flush(LONG).unwrap();
    // Nothing is on its way any more: only the program's taking can wake the thread.
    for number in 0..MESSAGES {
        let message = b.recv_timeout(LONG).unwrap().expect("a message");
        assert_eq!(message.payload[..], number.to_le_bytes());
    }
}

#[test]
fn announced_messages_are_decided_by_any_handle() {
    let (a, b) = (builder(0).open_threads(1).unwrap(), {
        builder(1)
            .memory(4 << 20)
            .max_message(1 << 20)
            .open_threads(1)
            .unwrap()
    });
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    let payload = Bytes::from(vec![5; 6 << 20]);
    a.send(b.id(), payload.clone()).unwrap();
    let incoming = await_event(&b, |e| matches!(e, Event::Incoming { .. }));
    let Event::Incoming {
        node,
        channel,
        number,
        total,
        ..
    } = incoming
    else {
        panic!("filtered")
    };
    assert_eq!(total, 6 << 20);
    b.accept_into(node, channel, number, vec![0; 6 << 20])
        .unwrap();
    assert!(b.recv_timeout(LONG).unwrap().expect("the message").payload == payload);
    assert!(matches!(
        b.refuse(node, channel, number, 1),
        Err(Error::Incoming(_))
    ));
}

#[test]
fn closing_wakes_everybody_and_leaves_what_had_arrived() {
    let (a, b) = shared_pair();
    a.send(b.id(), OutgoingMessage::new("one").notify(1))
        .unwrap();
    a.send(b.id(), "two").unwrap();
    a.flush(LONG).unwrap();
    let (waiting, begun) = mpsc::channel();
    let receiver = {
        let a = a.clone();
        std::thread::spawn(move || {
            waiting.send(()).unwrap();
            a.recv()
        })
    };
    begun.recv().unwrap();
    a.close(LONG).unwrap();
    assert!(matches!(receiver.join().unwrap(), Err(Error::Closed)));
    assert!(matches!(a.send(b.id(), "x"), Err(Error::Closed)));
    assert!(matches!(a.counters(), Err(Error::Closed)));
    assert!(matches!(a.close(LONG), Err(Error::Closed)));
    let mut kept = std::iter::from_fn(|| a.next_event().ok().flatten());
    assert!(
        kept.any(|e| matches!(e, Event::Delivered { token: 1, .. })),
        "events stay"
    );
    // The other side: received messages come before the end, even when it closes, too.
    b.close(LONG).unwrap();
    assert_eq!(&b.recv().unwrap().payload[..], b"one");
    assert_eq!(
        &b.try_recv().unwrap().expect("a message").payload[..],
        b"two"
    );
    assert!(matches!(b.try_recv(), Err(Error::Closed)));
}

#[test]
fn closing_names_those_who_did_not_get_everything() {
    let (a, _nobody) = lonely(1 << 20);
    a.send(NodeId(1), "to nobody").unwrap();
    let error = a.close(Duration::from_millis(20)).unwrap_err();
    assert!(
        matches!(&error, Error::NotFlushed { peers } if peers[..] == [(NodeId(1), 1)]),
        "{error:?}"
    );
}

#[test]
fn a_port_is_free_when_its_node_is_closed() {
    let (a, _b) = shared_pair();
    let address = a.local_addr();
    a.close(LONG).unwrap();
    builder(5).listen(address).open_threads(1).unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

#[test]
fn futures_run_under_tokio() {
    const ROUNDS: u32 = 200;
    let (a, b) = shared_pair();
    let id = b.id();
    runtime().block_on(async {
        let echo = tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let message = b.recv_async().await.unwrap();
                b.send_async(message.from, message.payload).await.unwrap();
            }
            b.flush_async().await.unwrap();
        });
        for round in 0..ROUNDS {
            a.send_async(id, round.to_le_bytes().to_vec())
                .await
                .unwrap();
            assert_eq!(
                a.recv_async().await.unwrap().payload[..],
                round.to_le_bytes()
            );
        }
        a.flush_async().await.unwrap();
        echo.await.unwrap();
        assert_eq!(
            a.event_async().await.unwrap(),
            Event::Up {
                node: id,
                session: SessionNumber(0)
            }
        );
        a.close_async(LONG).await.unwrap();
        assert!(matches!(a.recv_async().await, Err(Error::Closed)));
    });
}

/// A task that continues on the thread that wakes it, until it has ended.
struct Inline<F>(Mutex<Option<Pin<Box<F>>>>);

impl<F: Future<Output = ()> + Send + 'static> Inline<F> {
    /// Begins it.
    fn begin(task: F) {
        Arc::new(Self(Mutex::new(Some(Box::pin(task))))).wake();
    }
}

impl<F: Future<Output = ()> + Send + 'static> Wake for Inline<F> {
    fn wake(self: Arc<Self>) {
        let waker = Arc::clone(&self).into();
        let mut task = self.0.lock().unwrap();
        // Two threads may have woken it at once.
        *task = task.take().and_then(|mut task| {
            let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
            polled.is_pending().then_some(task)
        });
    }
}

/// The thread that ends is the one which would have to wait for its end.
#[test]
fn a_task_that_an_io_thread_goes_on_with_closes_the_node() {
    for threads in [1, 3] {
        let a = builder(0).open_threads(threads).unwrap();
        let b = builder(1).open_threads(1).unwrap();
        a.add_peer(b.id(), b.local_addr()).unwrap();
        b.add_peer(a.id(), a.local_addr()).unwrap();
        let (told, end) = mpsc::channel();
        let node = a.clone();
        let to = b.id();
        Inline::begin(async move {
            node.recv_async().await.unwrap();
            node.send_async(to, "last").await.unwrap();
            let closed = node.close_async(LONG).await;
            let thread = std::thread::current().name().map(String::from);
            let _ = told.send((closed, thread));
        });
        b.send(a.id(), "close").unwrap();
        let (closed, thread) = end.recv_timeout(LONG).expect("it ends");
        closed.unwrap();
        assert_eq!(thread.as_deref(), Some("suci-io"));
        let last = b.recv_timeout(LONG).unwrap().expect("a message");
        assert_eq!(last.payload, "last");
        assert!(matches!(a.recv(), Err(Error::Closed)));
    }
}

#[test]
fn dropped_futures_lose_nothing() {
    let (a, b) = shared_pair();
    let id = b.id();
    runtime().block_on(async {
        for _ in 0..100 {
            // Gives up long before anything arrives.
            let nothing = tokio::time::timeout(Duration::from_micros(10), b.recv_async()).await;
            assert!(nothing.is_err());
        }
        a.send_async(id, "after all").await.unwrap();
        let message = tokio::time::timeout(LONG, b.recv_async())
            .await
            .expect("in time")
            .unwrap();
        assert_eq!(&message.payload[..], b"after all");
    });
}

#[test]
fn sending_waits_for_room_under_tokio() {
    let (a, _nobody) = lonely(1 << 16);
    runtime().block_on(async {
        a.send_async(NodeId(1), vec![1; 1 << 16]).await.unwrap();
        let full =
            tokio::time::timeout(Duration::from_millis(5), a.send_async(NodeId(1), "x")).await;
        assert!(full.is_err(), "it waits");
        let waiting = {
            let a = a.clone();
            tokio::spawn(async move { a.send_async(NodeId(1), "y").await })
        };
        tokio::task::yield_now().await;
        a.peer(NodeId(1)).reset().unwrap();
        tokio::time::timeout(LONG, waiting)
            .await
            .expect("in time")
            .unwrap()
            .unwrap();
    });
}

#[test]
fn sending_to_a_suspended_peer_fails_on_both_sides_until_it_is_resumed() {
    let (a, b) = shared_pair();
    a.send_copy(b.id(), b"before").unwrap();
    b.recv_timeout(LONG).unwrap().expect("a message");
    b.send_copy(a.id(), b"before").unwrap();
    b.flush(LONG).unwrap();
    a.peer(b.id()).suspend().unwrap();
    let Err(Error::Suspended { by, message, .. }) = a.send_copy(b.id(), b"now") else {
        panic!("accepted")
    };
    assert_eq!((by, &message.into_payload()[..]), (Side::Here, &b"now"[..]));
    await_event(&b, |e| {
        matches!(
            e,
            Event::Suspended {
                by: Side::There,
                ..
            }
        )
    });
    let refused = b.send_timeout(a.id(), "now", LONG);
    assert!(matches!(
        refused,
        Err(Error::Suspended {
            by: Side::There,
            ..
        })
    ));
    assert!(
        a.recv_timeout(LONG).unwrap().is_some(),
        "what arrived is read"
    );
    a.peer(b.id()).resume().unwrap();
    a.send_copy(b.id(), b"after").unwrap();
    b.recv_timeout(LONG).unwrap().expect("a message");
    await_event(&b, |e| {
        matches!(
            e,
            Event::Resumed {
                by: Side::There,
                ..
            }
        )
    });
    b.send_copy(a.id(), b"after").unwrap();
    a.recv_timeout(LONG).unwrap().expect("a message");
    let unknown = a.peer(NodeId(77)).suspend();
    assert!(matches!(unknown, Err(Error::UnknownPeer(NodeId(77)))));
}

#[test]
fn a_suspension_ends_a_wait_for_room() {
    let (a, _nobody) = lonely(100_000);
    a.send(NodeId(1), vec![0; 100_000]).unwrap();
    let waiting = a.clone();
    let waiter = std::thread::spawn(move || waiting.send_timeout(NodeId(1), vec![0; 50_000], LONG));
    std::thread::sleep(Duration::from_millis(50));
    a.peer(NodeId(1)).suspend().unwrap();
    let refused = waiter.join().unwrap();
    assert!(
        matches!(refused, Err(Error::Suspended { .. })),
        "{refused:?}"
    );
    a.peer(NodeId(1)).reset().unwrap();
}

/// A flush does not wait for messages that others send meanwhile.
#[test]
fn a_flush_beside_others_who_send_does_not_fail() {
    let (a, b) = shared_pair();
    let to = b.id();
    // Gates that it passes between its look at that of `b` and its last.
    for port in 10_000..10_100 {
        let nobody = SocketAddr::from(([127, 0, 0, 1], port));
        a.add_peer(NodeId(port.into()), nobody).unwrap();
    }
    let done = Arc::new(AtomicBool::new(false));
    let sender = {
        let (a, done) = (a.clone(), Arc::clone(&done));
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                a.send_timeout(to, "x", LONG).unwrap();
                std::thread::yield_now();
                while b.try_recv().unwrap().is_some() {}
            }
        })
    };
    let results: Vec<_> = (0..1_000).map(|_| a.flush(LONG)).collect();
    done.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    for result in results {
        result.unwrap();
    }
}

/// The thread itself took the messages that made room, and the sender has nothing to ask with.
#[test]
fn room_that_a_thread_made_is_told_at_once() {
    const PAYLOAD: usize = 1_000;
    let mut a = builder(0).open().unwrap();
    // A whole window has room in the ring, so that nothing is left over that would make the thread
    // look again.
    let b = builder(1).max_message(1 << 20).memory(4 << 20).max_peers(4);
    let b = b.statistics(false).open_threads(1).unwrap();
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    // A keep-alive would mend it after a third.
    let patience = Duration::from_secs(90);
    let limits = |o: &mut PeerOptions| {
        (o.silence_timeout, o.give_up_after) = (patience, 2 * patience);
    };
    set_option(a.peer(b.id()), limits).unwrap();
    let (mut sent, mut messages) = (0, Vec::new());
    for _ in 0..6 {
        // Until neither ring nor window has room, and all that has was acknowledged.
        let (mut queued, mut since) = (None, Instant::now());
        while since.elapsed() < Duration::from_millis(300) {
            while a.peer(b.id()).queue_len().unwrap().0 < 100 {
                a.send(b.id(), vec![0; PAYLOAD]).unwrap();
                sent += 1;
            }
            a.poll(Duration::from_millis(1)).unwrap();
            let now = Some((sent, a.peer(b.id()).queue_len().unwrap()));
            if queued != now {
                (queued, since) = (now, Instant::now());
            }
        }
        messages.clear();
        b.recv_many(&mut messages, usize::MAX, LONG).unwrap();
        let helper = std::thread::spawn(move || {
            let begun = Instant::now();
            while a.peer(NodeId(1)).queue_len().unwrap().0 > 0 && begun.elapsed() < LONG {
                a.poll(Duration::from_millis(10)).unwrap();
            }
            (a, begun.elapsed())
        });
        while !helper.is_finished() {
            b.recv_timeout(Duration::from_millis(1)).unwrap();
        }
        let (node, took) = helper.join().unwrap();
        assert!(took < Duration::from_secs(15), "{took:?}");
        a = node;
    }
}
