//! A node that sends to itself, on both kinds of node.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, builder, pair, take};
use std::time::Duration;
use suci::{
    Bytes, ChannelId, EndReason, Error, Event, LinkState, Node, NodeId, OutgoingMessage,
    SharedNode, Side,
};

/// Whose lowest byte names another thread than the first, with any number of threads from 2 to 4.
const ID: u32 = 11;

fn shared(threads: usize) -> SharedNode {
    builder(ID).open_threads(threads).unwrap()
}

fn take_shared(node: &SharedNode) -> suci::Message {
    node.recv_timeout(LONG).unwrap().unwrap()
}

#[test]
fn every_verb_that_sends_reaches_the_own_program() {
    let (mut a, mut b) = pair();
    let (own, other) = (a.id(), b.id());
    assert_eq!(a.send(own, "0").unwrap(), 0);
    assert_eq!(a.send_copy(own, b"1").unwrap(), 1);
    assert_eq!(a.send_timeout(own, "2", LONG).unwrap(), 2);
    let fill = |batch: &mut suci::Batch<'_>| {
        batch.send(own, "3").unwrap();
        batch.send_copy(own, b"4").unwrap();
        batch.send_copy(own, b"5").unwrap();
    };
    a.batch(fill).unwrap();
    for (node, sent) in a.broadcast(&[own, other], "6").unwrap() {
        assert_eq!(sent.unwrap(), if node == own { 6 } else { 0 });
    }
    for number in 0..7_u64 {
        let message = take(&mut a);
        assert_eq!((message.from, message.number), (own, number));
        assert_eq!(message.payload, number.to_string().as_bytes());
    }
    assert_eq!(take(&mut b).payload, b"6");
    a.flush(LONG).unwrap();
    let peer = a.peer(own);
    assert_eq!(peer.queue_len().unwrap(), (0, 0));
    assert_eq!(peer.delivered(ChannelId(0)).unwrap(), 7);
    assert!(peer.remote_window(ChannelId(0)).unwrap() > 0);
    let stats = peer.stats().unwrap().unwrap();
    assert_eq!((stats.link, stats.traffic.packets_sent), (LinkState::Up, 0));
    assert_eq!(stats.traffic.messages_received, 7);
    let known: Vec<_> = a.peers().unwrap().iter().map(|peer| peer.node).collect();
    assert_eq!(known, [other], "this node is none of its peers");
}

/// Each call that takes a message finds the next, though nothing arrives at the socket.
#[test]
fn many_and_long_messages_to_itself_come_in_order() {
    for wait in [suci::WaitPolicy::Sleep, suci::WaitPolicy::Adaptive] {
        let mut a = builder(ID).wait(wait).open().unwrap();
        let own = a.id();
        let mut sent = 0_u32;
        let mut received = 0_u32;
        while received < 3_000 {
            while sent < 3_000 {
                let len = match sent % 500 {
                    0 => 2_000_000,
                    1 => 100_000,
                    _ => 100,
                };
                let mut payload = vec![0; len];
                payload[..4].copy_from_slice(&sent.to_le_bytes());
                match a.send(own, payload) {
                    Ok(_) => sent += 1,
                    Err(Error::WouldBlock { .. }) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            let message = take(&mut a);
            assert_eq!(message.payload[..4], received.to_le_bytes());
            received += 1;
        }
    }
}

#[test]
fn a_full_queue_to_itself_takes_nothing_until_the_program_reads() {
    let mut a = builder(ID)
        .memory(1 << 20)
        .max_message(1 << 18)
        .send_queue(100_000)
        .open()
        .unwrap();
    let own = a.id();
    let mut sent = 0;
    let refused = loop {
        match a.send(own, vec![1; 1_000]) {
            Ok(_) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 2_000, "without bound");
    };
    assert!(matches!(refused, Error::WouldBlock { to, .. } if to == own));
    let timed = a.send_timeout(own, vec![1; 1_000], Duration::from_millis(20));
    assert!(matches!(timed, Err(Error::WouldBlock { .. })));
    for _ in 0..sent {
        take(&mut a);
    }
    let writable = |event: &Event| matches!(event, Event::Writable { node, .. } if *node == own);
    crate::common::await_event(&mut a, writable);
    a.send(own, "now").unwrap();
    assert_eq!(take(&mut a).payload, b"now");
}

#[test]
fn long_messages_to_itself_are_announced_as_those_of_others() {
    let mut a = builder(ID).max_message(1_000_000).open().unwrap();
    let own = a.id();
    let long = Bytes::from(vec![7; 1_000_001]);
    a.send(own, long.clone()).unwrap();
    assert!(matches!(a.recv(), Err(Error::NeedsAnswer { from, .. }) if from == own));
    let announced = |event: &Event| matches!(event, Event::Incoming { .. });
    let announced = |a: &mut Node| match crate::common::await_event(a, announced) {
        Event::Incoming {
            channel, number, ..
        } => (channel, number),
        _ => unreachable!(),
    };
    let (channel, number) = announced(&mut a);
    a.accept(own, channel, number).unwrap();
    assert!(take(&mut a).payload == long);
    let refused = OutgoingMessage::new(long).notify(1);
    a.send(own, refused).unwrap();
    let (channel, number) = announced(&mut a);
    a.refuse(own, channel, number, 5).unwrap();
    let told = |event: &Event| matches!(event, Event::NotDelivered { reason: 5, .. });
    crate::common::await_event(&mut a, told);
}

/// Its program would wait for itself.
#[test]
fn a_node_that_calls_itself_is_told_at_once() {
    let mut a = builder(ID).open().unwrap();
    let own = a.id();
    let called = a.call(own, "?", Duration::MAX);
    assert!(matches!(called, Err(Error::CallToItself(node)) if node == own));
    assert!(a.try_recv().unwrap().is_none(), "and nothing was sent");
}

#[test]
fn a_node_ends_its_session_with_itself_as_any_other() {
    let mut a = builder(ID).open().unwrap();
    let own = a.id();
    assert!(!a.peer(own).reset().unwrap(), "there is none");
    a.peer(own).suspend().unwrap();
    let refused = a.send(own, "x");
    assert!(matches!(
        refused,
        Err(Error::Suspended { by: Side::Here, .. })
    ));
    a.peer(own).resume().unwrap();
    a.send(own, "1").unwrap();
    assert!(a.peer(own).close(LONG).unwrap());
    let ended = |event: &Event| matches!(event, Event::Ended { .. });
    assert_eq!(take(&mut a).payload, b"1", "before the end is told");
    crate::common::await_event(&mut a, ended);
    assert_eq!(a.send(own, "2").unwrap(), 0, "another session");
    a.close(LONG).unwrap();
    assert_eq!(a.recv().unwrap().payload, b"2", "after the node was closed");
    assert!(matches!(a.recv(), Err(Error::Closed)));
}

#[test]
fn a_thread_that_waits_is_woken_by_what_another_sends_to_the_own_node() {
    for threads in 1..=4 {
        let node = shared(threads);
        let own = node.id();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                (0..100_u32)
                    .map(|_| node.recv().unwrap().payload.to_vec())
                    .collect::<Vec<_>>()
            });
            for n in 0..100_u32 {
                node.send(own, n.to_le_bytes().to_vec()).unwrap();
                if n % 10 == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            let expected: Vec<_> = (0..100_u32).map(|n| n.to_le_bytes().to_vec()).collect();
            assert_eq!(waits.join().unwrap(), expected, "{threads} threads");
        });
        node.flush(LONG).unwrap();
        assert_eq!(node.peer(own).delivered(ChannelId(0)).unwrap(), 100);
        assert_eq!(node.peer(own).queue_len().unwrap(), (0, 0));
        node.close(LONG).unwrap();
    }
}

#[test]
fn one_thread_calls_and_another_replies() {
    for threads in [1, 3] {
        let node = shared(threads);
        let own = node.id();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..50 {
                    let request = take_shared(&node);
                    let reply = request.reply(request.payload.to_vec()).unwrap();
                    node.send(request.from, reply).unwrap();
                }
            });
            for n in 0..50_u8 {
                let reply = node.call(own, vec![n], LONG).unwrap();
                assert_eq!((reply.from, &reply.payload[..]), (own, &[n][..]));
            }
        });
    }
}

#[test]
fn a_shared_node_keeps_its_own_messages_within_bounds() {
    let node = builder(ID)
        .memory(2 << 20)
        .max_message(1 << 18)
        .send_queue(100_000);
    let node = node.open_threads(2).unwrap();
    let own = node.id();
    // The ring to the program holds up to 8 MiB beside the queue.
    let mut sent = 0_u32;
    let blocked = (0..20_000).any(|_| {
        let mut payload = sent.to_le_bytes().to_vec();
        payload.resize(1_000, 0);
        match node.send_timeout(own, payload, Duration::from_millis(100)) {
            Ok(()) => sent += 1,
            Err(Error::WouldBlock { .. }) => return true,
            Err(error) => panic!("{error}"),
        }
        false
    });
    assert!(blocked, "{sent} messages");
    for n in 0..sent {
        assert_eq!(take_shared(&node).payload[..4], n.to_le_bytes());
    }
    node.send_timeout(own, "more", LONG).unwrap();
    assert_eq!(take_shared(&node).payload, b"more");
}

#[test]
fn what_a_shared_node_sent_to_itself_is_received_after_it_closed() {
    for threads in [1, 3] {
        let node = shared(threads);
        let own = node.id();
        for n in 0..100_u8 {
            node.send(own, vec![n]).unwrap();
        }
        let sent = node.broadcast(&[own, NodeId(99)], "last").unwrap();
        assert!(sent[0].1.is_ok() && matches!(sent[1].1, Err(Error::UnknownPeer(_))));
        node.close(LONG).unwrap();
        let late = node.broadcast(&[own], "late");
        assert!(matches!(late, Err(Error::Closed)));
        for n in 0..100_u8 {
            assert_eq!(node.recv().unwrap().payload, [n]);
        }
        assert_eq!(node.recv().unwrap().payload, b"last");
        let mut ends = 0;
        while let Ok(Some(event)) = node.event_timeout(LONG) {
            let reason = EndReason::ClosedHere;
            assert!(
                matches!(event, Event::Ended { node, reason: why, .. } if node == own && why == reason)
            );
            ends += 1;
        }
        assert_eq!(ends, 1);
    }
}
