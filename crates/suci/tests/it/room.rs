//! A program that sends as much as the queue takes, and hears when it takes more.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, builder, introduce};
use std::time::Duration;
use suci::{Error, Event, Next, Node, NodeId, OutgoingMessage, Priority, SharedNode};

/// Bytes of a message; six such messages fit the queue.
const LENGTH: usize = 10_000;

const MESSAGES: u32 = 200;

fn draft(number: u32) -> OutgoingMessage {
    let mut payload = vec![0; LENGTH];
    payload[..4].copy_from_slice(&number.to_le_bytes());
    OutgoingMessage::new(payload)
}

/// Whether it is the only event that tells of room here.
fn is_room(event: &Event, node: NodeId) -> bool {
    let class = Priority::DEFAULT.class();
    match event {
        Event::Writable { .. } => {
            assert_eq!(event, &Event::Writable { node, class });
            true
        }
        _ => false,
    }
}

/// Receives all messages in order, on a thread of its own.
fn receiver(mut node: Node) -> std::thread::JoinHandle<Node> {
    std::thread::spawn(move || {
        for number in 0..MESSAGES {
            let message = node.recv_timeout(LONG).unwrap().unwrap();
            assert_eq!(message.payload[..4], number.to_le_bytes());
        }
        node
    })
}

#[test]
fn a_program_that_waits_for_room_sends_everything() {
    let mut a = builder(0).send_queue(1 << 16).open().unwrap();
    let mut b = builder(1).open().unwrap();
    introduce(&mut a, &mut b);
    let id = b.id();
    let receiver = receiver(b);
    let (mut number, mut refused, mut told) = (0, 0, 0);
    while number < MESSAGES {
        match a.send(id, draft(number)) {
            Ok(_) => number += 1,
            Err(Error::WouldBlock { .. }) => {
                refused += 1;
                // Another refused message: one event tells both of the room.
                if let Err(error) = a.send_timeout(id, draft(number), Duration::ZERO) {
                    assert!(error.is_would_block(), "{error}");
                } else {
                    number += 1;
                }
                loop {
                    match a.next_timeout(LONG).unwrap().expect("room") {
                        Next::Event(event) if is_room(&event, id) => break,
                        Next::Event(_) => {}
                        Next::Message(message) => panic!("{message:?}"),
                    }
                }
                told += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    a.flush(LONG).unwrap();
    receiver.join().unwrap();
    assert!(refused > 0 && told == refused);
    while let Some(event) = a.next_event().unwrap() {
        assert!(!is_room(&event, id), "nobody waits for room");
    }
}

fn shared() -> (SharedNode, Node) {
    let a = builder(0).send_queue(1 << 16).open_threads(1).unwrap();
    let mut b = builder(1).open().unwrap();
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    (a, b)
}

#[test]
fn a_program_that_waits_for_room_of_threads_sends_everything() {
    let (a, b) = shared();
    let id = b.id();
    let receiver = receiver(b);
    let (mut number, mut refused, mut told) = (0, 0, 0);
    while number < MESSAGES {
        match a.send(id, draft(number)) {
            Ok(()) => number += 1,
            Err(Error::WouldBlock { .. }) => {
                refused += 1;
                loop {
                    match a.next_timeout(LONG).unwrap().expect("room") {
                        Next::Event(event) if is_room(&event, id) => break,
                        Next::Event(_) => {}
                        Next::Message(message) => panic!("{message:?}"),
                    }
                }
                told += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    a.flush(LONG).unwrap();
    receiver.join().unwrap();
    assert!(refused > 0 && told == refused);
    while let Some(event) = a.next_event().unwrap() {
        assert!(!is_room(&event, id), "nobody waits for room");
    }
}

/// One event tells of room, however often a message was refused, and although the program takes no
/// events meanwhile.
#[test]
fn room_is_one_event_of_threads_for_all_that_were_refused() {
    let (a, b) = shared();
    let id = b.id();
    let receiver = receiver(b);
    let mut refused = 0;
    for number in 0..MESSAGES {
        while let Err(error) = a.send(id, draft(number)) {
            assert!(error.is_would_block(), "{error}");
            refused += 1;
            std::thread::yield_now();
        }
    }
    a.flush(LONG).unwrap();
    receiver.join().unwrap();
    assert!(refused > 0);
    let mut rooms = 0;
    while let Some(event) = a.event_timeout(Duration::from_millis(100)).unwrap() {
        rooms += u32::from(is_room(&event, id));
    }
    assert_eq!(rooms, 1);
}

/// A message that waits by itself asks for no event.
#[test]
fn a_send_that_waits_by_itself_asks_for_no_event() {
    let (a, b) = shared();
    let id = b.id();
    let receiver = receiver(b);
    for number in 0..MESSAGES {
        a.send_timeout(id, draft(number), LONG).unwrap();
    }
    receiver.join().unwrap();
    while let Some(event) = a.event_timeout(Duration::from_millis(100)).unwrap() {
        assert!(!is_room(&event, id));
    }
}
