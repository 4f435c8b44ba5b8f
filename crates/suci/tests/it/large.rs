//! Messages too long to be taken unasked.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, await_event, builder, introduce, take};
use std::time::Duration;
use suci::{Bytes, ChannelId, Draft, Event, Node, NodeId};

const LONGEST: u64 = 1 << 20;

/// Two nodes that ask their programs above 1 MiB and hold at most 4 MiB.
fn small_pair() -> (Node, Node) {
    let small = |id| {
        builder(id)
            .memory(4 << 20)
            .max_message(LONGEST)
            .open()
            .unwrap()
    };
    let (mut a, mut b) = (small(0), small(1));
    introduce(&mut a, &mut b);
    (a, b)
}

fn is_incoming(event: &Event) -> bool {
    matches!(event, Event::Incoming { .. })
}

/// Polls a node in the background until told to stop.
fn polling(mut node: Node) -> (std::sync::mpsc::Sender<()>, std::thread::JoinHandle<Node>) {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            node.poll(Duration::from_millis(1)).unwrap();
        }
        node
    });
    (stop, thread)
}

#[test]
fn a_supplied_buffer_takes_what_memory_could_not() {
    let (mut a, mut b) = small_pair();
    let payload = Bytes::from(vec![5; 8 << 20]);
    a.send(
        b.id(),
        Draft::new(payload.clone())
            .channel(ChannelId(2))
            .tag(4)
            .user_header("h"),
    )
    .unwrap();
    let (stop, sender) = polling(a);
    let Event::Incoming {
        node,
        channel,
        number,
        total,
        tag,
        user_header,
        ..
    } = await_event(&mut b, is_incoming)
    else {
        panic!("filtered");
    };
    assert_eq!(
        (node, channel, number, total),
        (NodeId(0), ChannelId(2), 0, 8 << 20)
    );
    assert_eq!((tag, &user_header[..]), (4, &b"h"[..]));
    let refused = b.accept(node, channel, number).unwrap_err().to_string();
    assert!(refused.contains("needs a buffer"), "{refused}");
    let short = b
        .accept_into(node, channel, number, vec![0; 10])
        .unwrap_err()
        .to_string();
    assert!(short.contains("10 bytes"), "{short}");
    let buffer = vec![0; 8 << 20];
    let place = buffer.as_ptr();
    b.accept_into(node, channel, number, buffer).unwrap();
    let message = take(&mut b);
    assert!(message.payload == payload, "the bytes differ");
    assert_eq!(
        message.payload.as_ptr(),
        place,
        "it is the buffer, not a copy"
    );
    stop.send(()).unwrap();
    sender.join().unwrap();
}

#[test]
fn recv_into_accepts_what_fits() {
    let (mut a, mut b) = small_pair();
    let payload = Bytes::from(vec![6; 5 << 20]);
    a.send(b.id(), payload.clone()).unwrap();
    let (stop, sender) = polling(a);
    let mut buffer = vec![0; 6 << 20];
    let (length, _) = b.recv_into(&mut buffer, LONG).unwrap();
    assert!(buffer[..length] == payload[..], "the bytes differ");
    stop.send(()).unwrap();
    sender.join().unwrap();
}

#[test]
fn recv_into_says_how_long_an_announced_message_is() {
    let (mut a, mut b) = small_pair();
    a.send(b.id(), vec![6; 5 << 20]).unwrap();
    let (stop, sender) = polling(a);
    let mut buffer = vec![0; 6 << 20];
    let short = b.recv_into(&mut buffer[..4 << 20], LONG).unwrap_err();
    let suci::Error::BufferTooShort {
        length,
        buffer: had,
    } = short
    else {
        panic!("{short}")
    };
    assert_eq!((length, had), (5 << 20, 4 << 20));
    // It waits still, for whatever takes it.
    assert_eq!(b.recv_into(&mut buffer, LONG).unwrap().0, 5 << 20);
    stop.send(()).unwrap();
    sender.join().unwrap();
}

#[test]
fn recv_into_hears_others_beside_an_announced_message_that_does_not_fit() {
    let (mut a, mut b) = small_pair();
    let mut c = builder(2).open().unwrap();
    introduce(&mut b, &mut c);
    a.send(b.id(), vec![6; 5 << 20]).unwrap();
    let (stop, sender) = polling(a);
    let mut buffer = vec![0; 4 << 20];
    let is_short = |error: suci::Error| matches!(error, suci::Error::BufferTooShort { .. });
    assert!(is_short(b.recv_into(&mut buffer, LONG).unwrap_err()));
    c.send_copy(b.id(), &[3; 10]).unwrap();
    let (stop_other, other) = polling(c);
    let begun = std::time::Instant::now();
    let (length, message) = loop {
        match b.recv_into(&mut buffer, LONG) {
            Ok(taken) => break taken,
            Err(error) => assert!(is_short(error)),
        }
        assert!(begun.elapsed() < LONG);
    };
    assert_eq!((length, message.from), (10, NodeId(2)));
    for (stop, thread) in [(stop, sender), (stop_other, other)] {
        stop.send(()).unwrap();
        thread.join().unwrap();
    }
}

#[test]
fn a_refusal_comes_with_its_reason_and_blocks_nothing() {
    let (mut a, mut b) = small_pair();
    a.send(b.id(), Draft::new(vec![1; 2 << 20]).token(8))
        .unwrap();
    a.send(b.id(), "next").unwrap();
    let (to, refuser) = (
        b.id(),
        std::thread::spawn(move || {
            let Event::Incoming {
                node,
                channel,
                number,
                ..
            } = await_event(&mut b, is_incoming)
            else {
                panic!("filtered");
            };
            b.refuse(node, channel, number, 99).unwrap();
            let message = take(&mut b);
            assert_eq!((&message.payload[..], message.number), (&b"next"[..], 1));
            assert!(
                b.refuse(node, channel, number, 99).is_err(),
                "it was decided before"
            );
            b
        }),
    );
    let event = await_event(&mut a, |e| matches!(e, Event::NotDelivered { .. }));
    let channel = ChannelId(0);
    assert_eq!(
        event,
        Event::NotDelivered {
            node: to,
            channel,
            number: 0,
            token: 8,
            reason: 99
        }
    );
    a.flush(LONG).unwrap();
    refuser.join().unwrap();
}

#[test]
fn f22_both_send_huge_messages_first() {
    const LENGTH: usize = 32 << 20;
    let (mut a, mut b) = crate::common::pair();
    let (ids, payload) = ((a.id(), b.id()), Bytes::from(vec![3; LENGTH]));
    // Both are queued before anybody receives.
    a.send(ids.1, payload.clone()).unwrap();
    b.send(ids.0, payload.clone()).unwrap();
    let other = payload.clone();
    let there = std::thread::spawn(move || {
        assert!(take(&mut b).payload == other, "the bytes differ");
        b.flush(LONG).unwrap();
    });
    assert!(take(&mut a).payload == payload, "the bytes differ");
    a.flush(LONG).unwrap();
    there.join().unwrap();
}

#[test]
fn a_message_withdrawn_after_its_announcement_is_no_error_of_recv_into() {
    let (mut a, mut b) = small_pair();
    a.send(b.id(), vec![5; 2 << 20]).unwrap();
    let (stop, thread) = polling(a);
    // The event stays where it is: recv_into is to find it.
    let begun = std::time::Instant::now();
    while b
        .peer_stats(NodeId(0))
        .unwrap()
        .is_none_or(|s| s.link != suci::Link::Up)
    {
        assert!(begun.elapsed() < LONG);
        b.poll(Duration::from_millis(1)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(50));
    b.poll(Duration::ZERO).unwrap();
    stop.send(()).unwrap();
    // Its outcome tells that it was not delivered.
    thread.join().unwrap().close(Duration::ZERO).unwrap_err();
    std::thread::sleep(Duration::from_millis(50));
    b.poll(Duration::ZERO).unwrap();
    let mut buffer = vec![0; 2 << 20];
    let done = b.recv_into(&mut buffer, Duration::from_millis(20));
    assert!(
        matches!(done, Err(suci::Error::TimedOut { .. })),
        "{done:?}"
    );
}
