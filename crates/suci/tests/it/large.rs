//! Messages too long to be taken without the program's consent.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, await_event, builder, introduce, take};
use std::time::Duration;
use suci::{Bytes, ChannelId, Error, Event, Message, Node, NodeId, OutgoingMessage, SharedNode};

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
        OutgoingMessage::new(payload.clone())
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
    assert!(
        refused.contains("needs a buffer: accept it into one"),
        "{refused}"
    );
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
    let (length, _) = b.recv_into(&mut buffer, LONG).unwrap().unwrap();
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
    let Error::BufferTooShort {
        length,
        buffer: had,
    } = short
    else {
        panic!("{short}")
    };
    assert_eq!((length, had), (5 << 20, 4 << 20));
    // The message still waits, for the call that takes it.
    assert_eq!(b.recv_into(&mut buffer, LONG).unwrap().unwrap().0, 5 << 20);
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
    let is_short = |error: suci::Error| matches!(error, Error::BufferTooShort { .. });
    assert!(is_short(b.recv_into(&mut buffer, LONG).unwrap_err()));
    c.send_copy(b.id(), &[3; 10]).unwrap();
    let (stop_other, other) = polling(c);
    let begun = std::time::Instant::now();
    let (length, message) = loop {
        match b.recv_into(&mut buffer, LONG) {
            Ok(taken) => break taken.unwrap(),
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
    a.send(b.id(), OutgoingMessage::new(vec![1; 2 << 20]).token(8))
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
    // Both are queued before either side receives.
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
        .peer(NodeId(0))
        .stats()
        .unwrap()
        .is_none_or(|s| s.link != suci::LinkState::Up)
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
    assert!(matches!(done, Ok(None)), "{done:?}");
}

/// Checks the error of a receiving call while the message of 2 MiB waits on channel 3.
fn is_told(told: &Error) {
    let Error::NeedsAnswer {
        from,
        channel,
        number,
        length,
        limit,
    } = *told
    else {
        panic!("{told}");
    };
    let (node, on) = (NodeId(0), ChannelId(3));
    assert_eq!((from, channel, number), (node, on, 0));
    assert_eq!((length, limit), (2 << 20, LONGEST));
    let text = told.to_string();
    for word in [
        "2097152 bytes",
        "channel 3",
        "node 0",
        "max_message",
        "accept_into with a buffer",
    ] {
        assert!(text.contains(word), "{text} says {word}");
    }
}

/// Sends that message, and a small one on another channel whenever it is asked to.
fn sender(to: &Node) -> (std::sync::mpsc::Sender<()>, std::thread::JoinHandle<Node>) {
    let mut a = builder(0).max_message(LONGEST).open().unwrap();
    a.add_peer(to.id(), to.local_addr()).unwrap();
    let long = OutgoingMessage::new(vec![9; 2 << 20]).channel(ChannelId(3));
    let id = to.id();
    a.send(id, long).unwrap();
    let (again, asked) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        loop {
            a.poll(Duration::from_millis(1)).unwrap();
            match asked.try_recv() {
                Ok(()) => drop(a.send(id, "small").unwrap()),
                Err(std::sync::mpsc::TryRecvError::Empty) => {}
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return a,
            }
        }
    });
    (again, thread)
}

/// A program that takes no events is told of a message that only its answer lets come, once by each
/// call that receives; it goes on receiving from others, and takes the message when it likes.
#[test]
fn a_receiving_call_tells_of_a_message_that_needs_an_answer() {
    type Receive = fn(&mut Node) -> Result<Option<Message>, Error>;
    let calls: [Receive; 3] = [
        |node| node.recv().map(Some),
        |node| node.recv_timeout(LONG),
        |node| {
            let mut messages = Vec::new();
            node.recv_many(&mut messages, 9, LONG)?;
            Ok(messages.pop())
        },
    ];
    for receive in calls {
        let mut b = builder(1).max_message(LONGEST).open().unwrap();
        b.add_peer(NodeId(0), "127.0.0.1:9".parse().unwrap())
            .unwrap();
        let (again, thread) = sender(&b);
        is_told(&receive(&mut b).unwrap_err());
        assert!(
            b.recv_timeout(Duration::from_millis(20)).unwrap().is_none(),
            "once"
        );
        again.send(()).unwrap();
        let small = receive(&mut b).unwrap().expect("from another channel");
        assert_eq!(&small.payload[..], b"small");
        b.accept_into(NodeId(0), ChannelId(3), 0, vec![0; 2 << 20])
            .unwrap();
        let long = receive(&mut b).unwrap().expect("it was accepted");
        assert_eq!(long.payload.len(), 2 << 20);
        drop(again);
        thread.join().unwrap();
    }
}

/// A program that takes the event hears of it by that alone; calls that do not wait never fail for
/// it.
#[test]
fn a_message_whose_event_was_taken_is_no_error_of_receiving() {
    let mut b = builder(1).max_message(LONGEST).open().unwrap();
    b.add_peer(NodeId(0), "127.0.0.1:9".parse().unwrap())
        .unwrap();
    let (again, thread) = sender(&b);
    while b
        .peer(NodeId(0))
        .stats()
        .unwrap()
        .is_none_or(|s| s.traffic.packets_received < 2)
    {
        assert_eq!(b.try_recv().unwrap(), None);
    }
    await_event(&mut b, is_incoming);
    assert!(b.recv_timeout(Duration::from_millis(20)).unwrap().is_none());
    b.refuse(NodeId(0), ChannelId(3), 0, 1).unwrap();
    drop(again);
    thread.join().unwrap();
}

#[test]
fn a_receiving_call_of_a_shared_node_tells_of_a_message_that_needs_an_answer() {
    type Receive = fn(&SharedNode) -> Result<Option<Message>, Error>;
    let calls: [Receive; 4] = [
        |node| node.recv().map(Some),
        |node| node.recv_timeout(LONG),
        |node| {
            let mut messages = Vec::new();
            node.recv_many(&mut messages, 9, LONG)?;
            Ok(messages.pop())
        },
        |node| {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            runtime.unwrap().block_on(node.recv_async()).map(Some)
        },
    ];
    for receive in calls {
        let b = builder(1).max_message(LONGEST).open_threads(1).unwrap();
        let mut a = builder(0).max_message(LONGEST).open().unwrap();
        a.add_peer(b.id(), b.local_addr()).unwrap();
        b.add_peer(a.id(), a.local_addr()).unwrap();
        let long = OutgoingMessage::new(vec![9; 2 << 20]).channel(ChannelId(3));
        a.send(b.id(), long).unwrap();
        let (stop, thread) = polling(a);
        is_told(&receive(&b).unwrap_err());
        assert!(
            b.recv_timeout(Duration::from_millis(20)).unwrap().is_none(),
            "once"
        );
        b.accept_into(NodeId(0), ChannelId(3), 0, vec![0; 2 << 20])
            .unwrap();
        let long = receive(&b).unwrap().expect("it was accepted");
        assert_eq!(long.payload.len(), 2 << 20);
        stop.send(()).unwrap();
        thread.join().unwrap();
    }
}
