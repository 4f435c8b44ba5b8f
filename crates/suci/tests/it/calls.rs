//! Requests and replies, on both kinds of node.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, Relay, builder, pair, shared_pair, take};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};
use suci::{ChannelId, EndReason, Error, Kind, Message, Node, NodeId, OutgoingMessage, SharedNode};

/// Long enough for a reply that must not come.
const SHORT: Duration = Duration::from_millis(50);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls until ready, with no runtime and no timer.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker: Waker = Arc::new(Unpark(std::thread::current())).into();
    let end = Instant::now() + LONG;
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        assert!(Instant::now() < end, "nobody woke it");
        std::thread::park_timeout(LONG);
    }
}

/// Answers requests with their payload reversed, until a message that is none.
fn serve(mut node: Node) -> Node {
    loop {
        let message = take(&mut node);
        if !message.is_request() {
            return node;
        }
        let mut payload = message.payload.to_vec();
        payload.reverse();
        node.send(message.from, message.reply(payload).unwrap())
            .unwrap();
    }
}

/// A node of threads, and one that knows it and serves it.
fn client_and_server() -> (SharedNode, std::thread::JoinHandle<Node>) {
    let client = builder(0).open_threads(2).unwrap();
    let mut server = builder(1).open().unwrap();
    client.add_peer(server.id(), server.local_addr()).unwrap();
    server.add_peer(client.id(), client.local_addr()).unwrap();
    (client, std::thread::spawn(move || serve(server)))
}

#[test]
fn messages_that_come_during_a_call_are_received_later_in_order() {
    let (mut a, mut b) = pair();
    let to = b.id();
    let peer = std::thread::spawn(move || {
        let request = take(&mut b);
        for number in 0..100_u32 {
            b.send(request.from, number.to_le_bytes().to_vec()).unwrap();
        }
        b.send(request.from, request.reply("reply").unwrap())
            .unwrap();
        b.flush(LONG).unwrap();
        request
    });
    let draft = OutgoingMessage::new("request")
        .channel(ChannelId(5))
        .user_header("about");
    let reply = a.call(to, draft, LONG).unwrap();
    assert_eq!((&reply.payload[..], reply.from), (&b"reply"[..], to));
    let request = peer.join().unwrap();
    assert_eq!(
        (request.channel, &request.user_header[..]),
        (ChannelId(5), &b"about"[..])
    );
    for number in 0..100_u32 {
        assert_eq!(&take(&mut a).payload[..], number.to_le_bytes());
    }
    assert!(a.try_recv().unwrap().is_none(), "the reply was no message");
}

/// Sends more than the caller's memory holds, on channels from which it takes nothing. Then answers
/// one request after the other.
fn stuff_and_serve(mut node: Node, to: NodeId) -> std::thread::JoinHandle<Node> {
    for (channel, length) in [(5, 1_000), (6, 1_000), (7, 0)] {
        for _ in 0..6_000 {
            let draft = OutgoingMessage::new(vec![1; length]).channel(ChannelId(channel));
            node.send(to, draft).unwrap();
        }
    }
    std::thread::spawn(move || serve(node))
}

#[test]
fn replies_come_whatever_the_caller_leaves_alone() {
    let small = || builder(0).memory(1 << 20).max_message(200_000);
    let server = |address| {
        let mut node = builder(1).open().unwrap();
        node.add_peer(NodeId(0), address).unwrap();
        node
    };
    let lengths = [0, 64, 4_096, 100_000];
    let mut node = small().open().unwrap();
    let peer = server(node.local_addr());
    node.add_peer(NodeId(1), peer.local_addr()).unwrap();
    let peer = stuff_and_serve(peer, NodeId(0));
    for length in lengths.repeat(10) {
        let reply = node.call(NodeId(1), vec![2; length], LONG).unwrap();
        assert_eq!(reply.payload.len(), length);
    }
    node.send(NodeId(1), "the end").unwrap();
    node.flush(LONG).unwrap();
    assert!(peer.join().unwrap().peer(NodeId(0)).queue_len().unwrap().0 > 100);

    let shared = small().open_threads(1).unwrap();
    let peer = server(shared.local_addr());
    shared.add_peer(NodeId(1), peer.local_addr()).unwrap();
    let peer = stuff_and_serve(peer, NodeId(0));
    for length in lengths.repeat(10) {
        let reply = shared.call(NodeId(1), vec![2; length], LONG).unwrap();
        assert_eq!(reply.payload.len(), length);
    }
    shared.send(NodeId(1), "the end").unwrap();
    shared.flush(LONG).unwrap();
    assert!(peer.join().unwrap().peer(NodeId(0)).queue_len().unwrap().0 > 100);
}

#[test]
fn a_reply_keeps_its_header_and_its_kind() {
    let (mut a, mut b) = pair();
    let to = b.id();
    let peer = std::thread::spawn(move || {
        let request = take(&mut b);
        let draft = OutgoingMessage::new("no")
            .kind(Kind(200))
            .user_header("status");
        b.send(request.from, request.reply(draft).unwrap()).unwrap();
        b.flush(LONG).unwrap();
    });
    let reply = a.call(to, "may I", LONG).unwrap();
    assert_eq!(
        (reply.kind, &reply.user_header[..]),
        (Kind(200), &b"status"[..])
    );
    peer.join().unwrap();
}

#[test]
fn a_call_without_a_reply_is_over_at_its_limit_and_what_comes_later_is_counted() {
    let (mut a, mut b) = pair();
    let to = b.id();
    let peer = std::thread::spawn(move || {
        let request = take(&mut b);
        // The caller says when its call is over.
        take(&mut b);
        b.send(request.from, request.reply("late").unwrap())
            .unwrap();
        b.send(request.from, "next").unwrap();
        b.flush(LONG).unwrap();
    });
    let over = a.call(to, "anybody?", SHORT);
    assert!(
        matches!(over, Err(Error::TimedOut { limit, .. }) if limit == SHORT),
        "{over:?}"
    );
    a.send(to, "over").unwrap();
    assert_eq!(&take(&mut a).payload[..], b"next");
    peer.join().unwrap();
    assert_eq!(a.counters().unwrap().late_replies, 1);
}

#[test]
fn what_a_call_and_a_reply_cannot_carry_is_an_error() {
    let (mut a, mut b) = pair();
    for draft in [
        OutgoingMessage::new("").tag(1),
        OutgoingMessage::new("").kind(Kind(129)),
        OutgoingMessage::new("").token(1),
        OutgoingMessage::new("").notify(0),
    ] {
        let refused = a.call(b.id(), draft, LONG);
        assert!(
            matches!(refused, Err(Error::Reserved { .. })),
            "{refused:?}"
        );
    }
    a.send(b.id(), "no request").unwrap();
    let message = take(&mut b);
    assert!(matches!(message.reply(""), Err(Error::NotARequest(node)) if node == a.id()));
    let unknown = a.call(NodeId(9), "", LONG);
    assert!(
        matches!(unknown, Err(Error::UnknownPeer(NodeId(9)))),
        "{unknown:?}"
    );
    drop(b);
}

#[test]
fn the_end_of_a_session_ends_its_calls() {
    let (mut a, mut b) = pair();
    let to = b.id();
    let peer = std::thread::spawn(move || {
        take(&mut b);
        b.close(LONG).unwrap();
    });
    let ended = a.call(to, "are you there?", LONG);
    assert!(
        matches!(ended, Err(Error::Ended { node, reason: EndReason::Closed }) if node == to),
        "{ended:?}"
    );
    peer.join().unwrap();
}

/// Replies wait while a future that is not polled holds a long one. The failure of another call is
/// still told.
#[test]
fn the_end_of_a_session_ends_its_calls_beside_a_reply_that_nobody_takes() {
    let a = builder(0).open_threads(1).unwrap();
    let peers = [1, 2].map(|id| {
        let mut peer = builder(id).open().unwrap();
        a.add_peer(peer.id(), peer.local_addr()).unwrap();
        peer.add_peer(a.id(), a.local_addr()).unwrap();
        peer
    });
    let [mut answers, mut leaves] = peers;
    let mut untaken = Box::pin(a.call_async(answers.id(), "a lot", LONG));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(untaken.as_mut().poll(&mut cx).is_pending());
    let request = take(&mut answers);
    let reply = request.reply(vec![1; 5 << 20]).unwrap();
    answers.send(request.from, reply).unwrap();
    answers.flush(LONG).unwrap();
    let to = leaves.id();
    let peer = std::thread::spawn(move || {
        take(&mut leaves);
        leaves.close(LONG).unwrap();
    });
    let ended = a.call(to, "are you there?", LONG);
    assert!(
        matches!(ended, Err(Error::Ended { node, .. }) if node == to),
        "{ended:?}"
    );
    peer.join().unwrap();
    assert_eq!(block_on(untaken).unwrap().payload.len(), 5 << 20);
}

/// The peer takes a request, and its process dies: no port is open behind the relay any more.
fn dies_of_a_request(mut peer: Node, relay: Relay) -> std::thread::JoinHandle<Node> {
    std::thread::spawn(move || {
        take(&mut peer);
        drop(relay);
        peer
    })
}

fn check_died(result: &Result<Message, Error>) {
    let died = matches!(result, Err(Error::ProcessDied(NodeId(1))));
    assert!(died, "{result:?}");
}

/// The first call ends with the process, later ones fail at once, even if the queue is full.
#[test]
fn f17_calls_to_a_process_that_has_died_fail_at_once() {
    let mut a = builder(0).send_queue(65_536).open().unwrap();
    let mut b = builder(1).open().unwrap();
    let relay = Relay::introduce(&mut a, &mut b);
    let peer = dies_of_a_request(b, relay);
    for _ in 0..3 {
        check_died(&a.call(NodeId(1), "are you there?", LONG));
    }
    while a.send(NodeId(1), vec![0; 1_000]).is_ok() {}
    check_died(&a.call(NodeId(1), vec![0; 2_000], LONG));
    drop(peer.join().unwrap());
    let _ = a.close(Duration::ZERO);
}

#[test]
fn f17_calls_of_threads_to_a_process_that_has_died_fail_at_once() {
    let a = builder(0).send_queue(65_536).open_threads(1).unwrap();
    let mut b = builder(1).open().unwrap();
    let (relay, at) = Relay::between([a.local_addr(), b.local_addr()]);
    a.add_peer(NodeId(1), at).unwrap();
    b.add_peer(NodeId(0), at).unwrap();
    let peer = dies_of_a_request(b, relay);
    let check_calls = || {
        check_died(&a.call(NodeId(1), vec![0; 2_000], LONG));
        check_died(&block_on(a.call_async(NodeId(1), vec![0; 2_000], LONG)));
    };
    check_calls();
    let queued = || a.send_timeout(NodeId(1), vec![0; 1_000], SHORT);
    while queued().is_ok() {}
    check_calls();
    drop(peer.join().unwrap());
    let _ = a.close(Duration::ZERO);
}

#[test]
fn many_threads_call_at_once_and_each_gets_its_reply() {
    let (client, server) = client_and_server();
    let callers: Vec<_> = (0..8_u32)
        .map(|thread| {
            let client = client.clone();
            std::thread::spawn(move || {
                for number in 0..200_u32 {
                    let payload = [thread.to_le_bytes(), number.to_le_bytes()].concat();
                    let draft =
                        OutgoingMessage::new(payload.clone()).channel(ChannelId(number % 3));
                    let reply = client.call(NodeId(1), draft, LONG).unwrap();
                    assert!(reply.payload.iter().eq(payload.iter().rev()));
                }
            })
        })
        .collect();
    callers
        .into_iter()
        .for_each(|caller| caller.join().unwrap());
    assert_eq!(client.counters().unwrap().late_replies, 0);
    assert!(client.try_recv().unwrap().is_none());
    client.send(NodeId(1), "the end").unwrap();
    drop(server.join().unwrap());
}

#[test]
fn futures_call_at_once_and_a_cancelled_one_costs_nothing() {
    let (client, server) = client_and_server();
    let calls = |count: u32| {
        let call = |n: u32| Box::pin(client.call_async(NodeId(1), n.to_le_bytes().to_vec(), LONG));
        (0..count).map(call).collect::<Vec<_>>()
    };
    for round in 0..10 {
        let mut cx = Context::from_waker(Waker::noop());
        let mut cancelled = calls(100);
        for call in &mut cancelled {
            let _ = call.as_mut().poll(&mut cx);
        }
        drop(cancelled);
        for (number, call) in (0_u32..).zip(calls(100)) {
            let reply = block_on(call).unwrap();
            assert!(
                reply.payload.iter().eq(number.to_le_bytes().iter().rev()),
                "round {round}"
            );
        }
    }
    // Each request was answered or never sent.
    client.send(NodeId(1), "the end").unwrap();
    drop(server.join().unwrap());
}

/// Without any timer of a runtime.
#[test]
fn a_future_is_ready_at_its_limit() {
    let (a, b) = shared_pair();
    for _ in 0..3 {
        let over = block_on(a.call_async(b.id(), "anybody?", SHORT));
        assert!(
            matches!(over, Err(Error::TimedOut { limit, .. }) if limit == SHORT),
            "{over:?}"
        );
    }
    let request = b.recv_timeout(LONG).unwrap().unwrap();
    b.send(request.from, request.reply("late").unwrap())
        .unwrap();
    b.send(request.from, "next").unwrap();
    assert_eq!(&a.recv_timeout(LONG).unwrap().unwrap().payload[..], b"next");
    assert_eq!(a.counters().unwrap().late_replies, 1);
}

/// The request waits for room in a queue that nothing empties.
#[test]
fn a_future_whose_request_finds_no_room_is_ready_at_its_limit() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let a = builder(0).send_queue(65_536).open_threads(1).unwrap();
    a.add_peer(NodeId(1), nobody.local_addr().unwrap()).unwrap();
    a.send(NodeId(1), vec![0; 70_000]).unwrap();
    let full = a.send(NodeId(1), "more");
    assert!(matches!(full, Err(Error::WouldBlock { .. })), "{full:?}");
    for over in [
        block_on(a.call_async(NodeId(1), "anybody?", SHORT)),
        a.call(NodeId(1), "anybody?", SHORT),
    ] {
        assert!(matches!(over, Err(Error::TimedOut { .. })), "{over:?}");
    }
    let _ = a.close(Duration::ZERO);
}

#[test]
fn calls_end_with_their_node() {
    let (a, b) = shared_pair();
    let to = b.id();
    let callers = [0, 1].map(|_| {
        let a = a.clone();
        std::thread::spawn(move || a.call(to, "are you there?", LONG))
    });
    for _ in &callers {
        b.recv_timeout(LONG).unwrap().unwrap();
    }
    a.close(LONG).unwrap();
    for caller in callers {
        let ended = caller.join().unwrap();
        let expected = matches!(
            ended,
            Err(Error::Closed
                | Error::Ended {
                    reason: EndReason::ClosedHere,
                    ..
                })
        );
        assert!(expected, "{ended:?}");
    }
    let closed = a.call(to, "", LONG);
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
}

/// Two shared nodes that call each other at once, each from a thread that answers too.
#[test]
fn both_sides_call_at_once() {
    let (a, b) = shared_pair();
    let answer = |node: SharedNode| {
        std::thread::spawn(move || {
            for _ in 0..100 {
                let request: Message = node.recv_timeout(LONG).unwrap().unwrap();
                let reply = request.reply(request.payload.to_vec()).unwrap();
                node.send_timeout(request.from, reply, LONG).unwrap();
            }
        })
    };
    let call = |node: SharedNode, to: NodeId| {
        std::thread::spawn(move || {
            for number in 0..100_u32 {
                let reply = node.call(to, number.to_le_bytes().to_vec(), LONG).unwrap();
                assert_eq!(&reply.payload[..], number.to_le_bytes());
            }
        })
    };
    let threads = [
        answer(a.clone()),
        answer(b.clone()),
        call(a.clone(), b.id()),
        call(b.clone(), a.id()),
    ];
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

/// Takes one request and answers it.
fn answer_one(mut node: Node) -> std::thread::JoinHandle<Node> {
    std::thread::spawn(move || {
        let request = take(&mut node);
        let reply = request.reply("yes").unwrap();
        node.send(request.from, reply).unwrap();
        node.flush(LONG).unwrap();
        node
    })
}

/// A process is killed while nothing is asked of it. The first call ends when the kernel knows, and
/// the first call to its successor at another address arrives.
#[test]
fn f17_a_call_to_a_process_that_was_killed_while_idle_ends_at_once() {
    let mut longest = [Duration::ZERO; 2];
    // The process that was called by the other one has not measured the round trip.
    for calls in [false, true] {
        let mut a = builder(0).open().unwrap();
        let mut b = builder(1).open().unwrap();
        let relay = Relay::introduce(&mut a, &mut b);
        let b = match calls {
            true => {
                let b = answer_one(b);
                a.call(NodeId(1), "are you there?", LONG).unwrap();
                b.join().unwrap()
            }
            false => {
                let a_answers = answer_one(a);
                b.call(NodeId(0), "are you there?", LONG).unwrap();
                a = a_answers.join().unwrap();
                b
            }
        };
        std::thread::sleep(Duration::from_secs(2));
        drop(relay);
        let begun = Instant::now();
        check_died(&a.call(NodeId(1), "are you there?", LONG));
        longest[0] = longest[0].max(begun.elapsed());
        let mut successor = builder(1).open().unwrap();
        successor.add_peer(a.id(), a.local_addr()).unwrap();
        a.add_peer(NodeId(1), successor.local_addr()).unwrap();
        let successor = answer_one(successor);
        let begun = Instant::now();
        a.call(NodeId(1), "are you there?", LONG).unwrap();
        longest[1] = longest[1].max(begun.elapsed());
        drop((b, successor.join().unwrap()));
    }
    let [died, answered] = longest;
    println!("figure: died after {died:?}, its successor answered after {answered:?}");
    assert!(died < Duration::from_secs(1), "{died:?}");
    assert!(answered < Duration::from_secs(1), "{answered:?}");
}

#[test]
fn f17_a_call_of_threads_to_a_process_that_was_killed_while_idle_ends_at_once() {
    let mut longest = [Duration::ZERO; 2];
    for threads in [1, 2] {
        let a = builder(0).open_threads(threads).unwrap();
        let mut b = builder(1).open().unwrap();
        let (relay, at) = Relay::between([a.local_addr(), b.local_addr()]);
        a.add_peer(NodeId(1), at).unwrap();
        b.add_peer(NodeId(0), at).unwrap();
        // The other one calls: this one has not measured the round trip.
        let caller = std::thread::spawn(move || {
            b.call(NodeId(0), "are you there?", LONG).unwrap();
            b
        });
        let request = a.recv_timeout(LONG).unwrap().unwrap();
        a.send(request.from, request.reply("yes").unwrap()).unwrap();
        let b = caller.join().unwrap();
        std::thread::sleep(Duration::from_secs(2));
        drop(relay);
        let begun = Instant::now();
        check_died(&a.call(NodeId(1), "are you there?", LONG));
        longest[0] = longest[0].max(begun.elapsed());
        let mut successor = builder(1).open().unwrap();
        successor.add_peer(a.id(), a.local_addr()).unwrap();
        a.add_peer(NodeId(1), successor.local_addr()).unwrap();
        let successor = answer_one(successor);
        let begun = Instant::now();
        a.call(NodeId(1), "are you there?", LONG).unwrap();
        longest[1] = longest[1].max(begun.elapsed());
        drop((b, successor.join().unwrap()));
    }
    let [died, answered] = longest;
    println!("figure: died after {died:?}, its successor answered after {answered:?}");
    assert!(died < Duration::from_secs(1), "{died:?}");
    assert!(answered < Duration::from_secs(1), "{answered:?}");
}
