//! Receiving from one peer, or on one channel, on both kinds of node.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, builder, introduce, pair, shared_pair, take};
use std::future::Future;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use suci::{
    AcceptPolicy, ChannelId, EndReason, Error, Event, Next, Node, NodeId, OutgoingMessage,
    SharedNode, WaitReason,
};

/// Long enough for a message that must not come.
const SHORT: Duration = Duration::from_millis(50);

/// More than lies ready for the program of a shared node.
const MUCH: usize = 12 << 20;
const PIECE: usize = 64 << 10;

fn number(payload: &[u8]) -> u32 {
    u32::from_le_bytes(payload[..4].try_into().unwrap())
}

fn numbered(number: u32) -> OutgoingMessage {
    OutgoingMessage::new(number.to_le_bytes().to_vec())
}

/// Nothing could end the wait: no other thread adds the node to this one.
#[test]
fn a_node_does_not_wait_for_one_that_it_does_not_know() {
    let mut node = Node::builder().id(NodeId(0)).open().unwrap();
    for wanted in [
        NodeId(7).into(),
        suci::Filter::from((NodeId(7), ChannelId(1))),
    ] {
        let error = node.recv_from(wanted).unwrap_err();
        assert!(matches!(error, Error::UnknownPeer(NodeId(7))), "{error}");
        assert!(node.try_recv_from(wanted).unwrap().is_none());
    }
    // It may wait for itself, and for messages that a removed peer left.
    let own = node.id();
    assert!(node.recv_from_timeout(own, SHORT).unwrap().is_none());
    let anyone = builder(7).accept(AcceptPolicy::Anyone);
    let mut peer = anyone.open().unwrap();
    introduce(&mut node, &mut peer);
    peer.send(own, "x").unwrap();
    peer.flush(LONG).unwrap();
    node.remove_peer(peer.id()).unwrap();
    assert_eq!(&node.recv_from(peer.id()).unwrap().payload[..], b"x");
    let end = node.recv_from(peer.id()).unwrap_err();
    assert!(matches!(end, Error::Ended { .. }), "{end}");
    let error = node.recv_from(peer.id()).unwrap_err();
    assert!(matches!(error, Error::UnknownPeer(NodeId(7))), "{error}");
    // Anyone may come.
    assert!(peer.recv_from_timeout(NodeId(9), SHORT).unwrap().is_none());
}

/// A program waits for one channel while the memory is full of messages on others: only itself can
/// end that.
#[test]
fn a_receiver_hears_which_messages_of_others_fill_its_memory() {
    let small = builder(0).memory(1 << 20).max_message(200_000);
    let mut node = small.open().unwrap();
    let mut peer = builder(1).open().unwrap();
    introduce(&mut node, &mut peer);
    let sender = std::thread::spawn(move || {
        // The empty ones fill what is too little for another long one.
        for (channel, length, count) in [(5, 1_000, 3_000), (6, 1_000, 3_000), (7, 0, 20_000)] {
            for _ in 0..count {
                let draft = OutgoingMessage::new(vec![1; length]).channel(ChannelId(channel));
                peer.send(NodeId(0), draft).unwrap();
            }
        }
        // Before, it would be sent among the others. The first grant of memory is small, so the
        // reason must last; or the receiver has begun to take them.
        let mut full_since = Instant::now();
        while full_since.elapsed() < 10 * SHORT {
            let stats = peer.peer(NodeId(0)).stats().unwrap().unwrap();
            if stats.queued_messages == 0 {
                break;
            }
            if stats.waiting != Some(WaitReason::SessionMemory) {
                full_since = Instant::now();
            }
            peer.poll(SHORT).unwrap();
        }
        let last = OutgoingMessage::new("at last").channel(ChannelId(9));
        peer.send(NodeId(0), last).unwrap();
        peer.flush(LONG).unwrap();
        peer
    });
    let wanted = (NodeId(1), ChannelId(9));
    for _ in 0..2 {
        let error = node.recv_from(wanted).unwrap_err();
        let Error::MemoryFull {
            from,
            channel,
            bytes,
            unread,
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!((*from, *channel), wanted);
        assert!(*bytes > 10_000, "{bytes}");
        // The channels that hold most come first.
        let [first, second] = [unread[0].0, unread[1].0];
        assert!(first != second && (5..8).contains(&first) && (5..8).contains(&second));
        let text = error.to_string();
        let channels = format!("on channel(s) {first}, {second}");
        assert!(text.contains(&channels), "{text}");
    }
    assert!(node.try_recv_from(wanted).unwrap().is_none());
    let taken: Vec<_> = (0..26_001).map(|_| take(&mut node)).collect();
    let last = taken.iter().filter(|m| m.channel == wanted.1);
    assert_eq!(last.count(), 1, "it comes once the others are taken");
    drop(sender.join().unwrap());
}

#[test]
fn a_node_receives_from_whom_it_wants() {
    let mut center = builder(0).open().unwrap();
    let mut peers: Vec<_> = (1..=3).map(|id| builder(id).open().unwrap()).collect();
    for peer in &mut peers {
        introduce(&mut center, peer);
    }
    let senders = peers.into_iter().map(|mut peer| {
        std::thread::spawn(move || {
            for n in 0..100 {
                peer.send(NodeId(0), numbered(n).channel(ChannelId(n % 2)))
                    .unwrap();
            }
            peer.flush(LONG).unwrap();
            peer
        })
    });
    let senders: Vec<_> = senders.collect();
    for peer in [3, 1] {
        for channel in [1, 0] {
            let wanted = (NodeId(peer), ChannelId(channel));
            for n in 0..50 {
                let message = center.recv_from(wanted).unwrap();
                assert_eq!((message.from, message.channel), wanted);
                assert_eq!(number(&message.payload), 2 * n + channel);
            }
        }
    }
    for _ in 0..50 {
        let message = center
            .recv_from_timeout(ChannelId(1), LONG)
            .unwrap()
            .unwrap();
        assert_eq!((message.from, message.channel), (NodeId(2), ChannelId(1)));
    }
    for n in 0..50 {
        assert_eq!(number(&take(&mut center).payload), 2 * n);
    }
    assert_eq!(center.recv_from_timeout(NodeId(1), SHORT).unwrap(), None);
    assert_eq!(center.try_recv_from(NodeId(1)).unwrap(), None);
    senders
        .into_iter()
        .for_each(|sender| drop(sender.join().unwrap()));
}

#[test]
fn a_wait_for_an_ended_peer_reports_the_end_once() {
    let (mut a, mut b) = pair();
    let to = b.id();
    b.send(a.id(), "first").unwrap();
    b.close(LONG).unwrap();
    assert_eq!(&a.recv_from(to).unwrap().payload[..], b"first");
    let ended = a.recv_from(to);
    assert!(
        matches!(ended, Err(Error::Ended { node, reason: EndReason::Closed }) if node == to),
        "{ended:?}"
    );
    assert_eq!(
        a.recv_from_timeout(to, SHORT).unwrap(),
        None,
        "a new session may begin"
    );
    let events = a.events().unwrap();
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Ended { .. })),
        "{events:?}"
    );
}

/// Sends messages of some KiB with numbers on channel 0, then one on channel 1.
fn flood(mut peer: Node) -> std::thread::JoinHandle<Node> {
    std::thread::spawn(move || {
        for n in 0..MUCH / PIECE {
            let mut payload = vec![0; PIECE];
            payload[..4].copy_from_slice(&u32::try_from(n).unwrap().to_le_bytes());
            peer.send_timeout(NodeId(0), payload, LONG).unwrap();
        }
        peer.send_timeout(
            NodeId(0),
            OutgoingMessage::new("control").channel(ChannelId(1)),
            LONG,
        )
        .unwrap();
        peer.flush(LONG).unwrap();
        peer
    })
}

/// A shared node, and two nodes that know it.
fn shared_center(threads: usize) -> (SharedNode, Node, Node) {
    let center = builder(0).open_threads(threads).unwrap();
    let peers = [1, 2].map(|id| {
        let mut peer = builder(id).open().unwrap();
        center.add_peer(peer.id(), peer.local_addr()).unwrap();
        peer.add_peer(center.id(), center.local_addr()).unwrap();
        peer
    });
    let [one, two] = peers;
    (center, one, two)
}

/// Messages that the program does not take fill the room for received ones, and hold up neither
/// other channels nor other peers.
#[test]
fn a_shared_node_receives_from_whom_it_wants_although_others_fill_it() {
    for threads in [1, 2] {
        let (center, one, mut two) = shared_center(threads);
        let flooding = flood(one);
        let control = center.recv_from((NodeId(1), ChannelId(1))).unwrap();
        assert_eq!(&control.payload[..], b"control");
        let echo = std::thread::spawn(move || {
            for _ in 0..100 {
                let message = two.recv().unwrap();
                two.send(message.from, message.payload.to_vec()).unwrap();
            }
            two.flush(LONG).unwrap();
            two
        });
        for n in 0..100_u32 {
            center.send(NodeId(2), numbered(n)).unwrap();
            let echoed = center.recv_from_timeout(NodeId(2), LONG).unwrap().unwrap();
            assert_eq!((echoed.from, number(&echoed.payload)), (NodeId(2), n));
        }
        for n in 0..MUCH / PIECE {
            let message = center.recv_timeout(LONG).unwrap().unwrap();
            assert_eq!(
                (message.from, number(&message.payload) as usize),
                (NodeId(1), n)
            );
        }
        assert!(center.try_recv().unwrap().is_none());
        drop((flooding.join().unwrap(), echo.join().unwrap()));
    }
}

#[test]
fn threads_of_a_program_receive_from_a_peer_each() {
    let center = builder(0).open_threads(2).unwrap();
    let senders: Vec<_> = (1..=4)
        .map(|id| {
            let mut peer = builder(id).open().unwrap();
            center.add_peer(peer.id(), peer.local_addr()).unwrap();
            peer.add_peer(center.id(), center.local_addr()).unwrap();
            std::thread::spawn(move || {
                for n in 0..500 {
                    peer.send_timeout(NodeId(0), numbered(n), LONG).unwrap();
                }
                peer.flush(LONG).unwrap();
                peer
            })
        })
        .collect();
    let receivers: Vec<_> = (1..=4)
        .map(|id| {
            let center = center.clone();
            std::thread::spawn(move || {
                for n in 0..500 {
                    let message = center.recv_from_timeout(NodeId(id), LONG).unwrap().unwrap();
                    assert_eq!((message.from, number(&message.payload)), (NodeId(id), n));
                }
            })
        })
        .collect();
    receivers
        .into_iter()
        .for_each(|receiver| receiver.join().unwrap());
    senders
        .into_iter()
        .for_each(|sender| drop(sender.join().unwrap()));
}

#[test]
fn a_shared_node_that_waits_for_the_dead_hears_of_the_end_once() {
    let (center, mut one, two) = shared_center(1);
    one.send(NodeId(0), "first").unwrap();
    let waiting = {
        let center = center.clone();
        std::thread::spawn(move || {
            let first = center.recv_from(NodeId(1)).unwrap();
            assert_eq!(&first.payload[..], b"first");
            center.recv_from(NodeId(1))
        })
    };
    one.close(LONG).unwrap();
    let ended = waiting.join().unwrap();
    assert!(
        matches!(
            ended,
            Err(Error::Ended {
                node: NodeId(1),
                reason: EndReason::Closed
            })
        ),
        "{ended:?}"
    );
    assert_eq!(center.recv_from_timeout(NodeId(1), SHORT).unwrap(), None);
    // An end that its event told is known.
    drop(two);
    loop {
        if let Some(Event::Ended {
            node: NodeId(1), ..
        }) = center.event_timeout(LONG).unwrap()
        {
            break;
        }
    }
    assert_eq!(center.recv_from_timeout(NodeId(1), SHORT).unwrap(), None);
}

/// A future that was woken and is dropped has taken nothing.
#[test]
fn a_dropped_future_loses_no_message() {
    let (a, b) = shared_pair();
    let mut cx = Context::from_waker(Waker::noop());
    for n in 0..200 {
        let mut waiting = Box::pin(a.recv_from_async(b.id()));
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        b.send(a.id(), numbered(n)).unwrap();
        if n % 2 == 0 {
            b.flush(LONG).unwrap();
        }
        drop(waiting);
        let message = a.recv_timeout(LONG).unwrap().unwrap();
        assert_eq!(number(&message.payload), n);
    }
}

/// Exact order also for a program that takes some messages out of order.
#[test]
fn the_end_of_a_session_stays_behind_its_last_message() {
    let (center, mut one, _two) = shared_center(1);
    for n in 0..10 {
        one.send(NodeId(0), numbered(n).channel(ChannelId(n % 2)))
            .unwrap();
    }
    one.close(LONG).unwrap();
    for n in 0..3 {
        let message = center.recv_from(ChannelId(1)).unwrap();
        assert_eq!(number(&message.payload), 2 * n + 1);
    }
    let mut numbers = Vec::new();
    loop {
        match center.next_timeout(LONG).unwrap().unwrap() {
            Next::Message(message) => numbers.push(number(&message.payload)),
            Next::Event(Event::Ended { .. }) => break,
            Next::Event(_) => {}
        }
    }
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 2, 4, 6, 7, 8, 9]);
}

#[test]
fn a_closed_node_gives_what_had_arrived() {
    let (center, mut one, mut two) = shared_center(1);
    for n in 0..5 {
        one.send(NodeId(0), numbered(n)).unwrap();
        two.send(NodeId(0), numbered(n)).unwrap();
    }
    one.flush(LONG).unwrap();
    two.flush(LONG).unwrap();
    assert_eq!(number(&center.recv_from(NodeId(2)).unwrap().payload), 0);
    center.close(LONG).unwrap();
    for n in 1..5 {
        assert_eq!(number(&center.recv_from(NodeId(2)).unwrap().payload), n);
    }
    for n in 0..5 {
        let message = center.recv().unwrap();
        assert_eq!((message.from, number(&message.payload)), (NodeId(1), n));
    }
    assert!(matches!(center.recv_from(NodeId(2)), Err(Error::Closed)));
}
