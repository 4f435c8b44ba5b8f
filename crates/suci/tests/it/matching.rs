//! Receives that take messages by tag and source, between real nodes.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, await_event, builder, introduce, pair, shared_pair};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use suci::matching::{Completion, Matching, MatchingError, MatchingNode, Pattern};
use suci::{Bytes, Error, Event, NOT_PERMITTED, Node, NodeId, OutgoingMessage, SharedNode};

const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at * 7 + seed) as u8).collect()
}

/// Runs `receives` at a node while another one sends.
fn with_nodes(sends: impl FnOnce(Matching<'_>) + Send, receives: impl FnOnce(Matching<'_>)) {
    let (mut a, mut b) = pair();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (a, over) = (&mut a, &over);
        scope.spawn(move || {
            sends(a.matching());
            while !over.load(Ordering::Relaxed) {
                a.poll(Duration::from_millis(1)).unwrap();
            }
        });
        let received = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            receives(b.matching());
        }));
        over.store(true, Ordering::Relaxed);
        received.unwrap();
    });
}

const LENGTHS: [usize; 9] = [0, 1, 32, 64, 1_400, 2_000, 70_000, 300_000, 5 << 20];

fn send_all(matching: &Matching<'_, impl MatchingNode>, to: NodeId) {
    for (tag, length) in (0..).zip(LENGTHS) {
        let message = OutgoingMessage::new(bytes(tag, length)).user_header(vec![tag as u8]);
        matching.send(to, tag, message).unwrap();
    }
}

fn receive_all(matching: &Matching<'_, impl MatchingNode>, from: NodeId, backwards: bool) {
    let mut buffers = LENGTHS.map(|length| vec![0; length + 3]);
    matching.scope(|scope| {
        let order = (0..).zip(&mut buffers);
        let mut posted: Vec<_> = order
            .map(|(tag, buffer)| {
                (
                    tag,
                    scope.post(Pattern::tag(tag).from(from), buffer).unwrap(),
                )
            })
            .collect();
        if backwards {
            posted.reverse();
        }
        for (tag, mut posted) in posted {
            let got = scope.wait(&mut posted, LONG).unwrap().unwrap();
            let length = LENGTHS[tag as usize];
            assert_eq!((got.from.node, got.tag), (from, tag));
            assert_eq!(
                (got.length, got.total, got.offset),
                (length as u64, length as u64, 0)
            );
            assert_eq!(got.user_header, [tag as u8][..]);
            assert_eq!(posted.into_buffer()[..length], bytes(tag, length));
        }
    });
}

#[test]
fn messages_of_every_length_come_to_their_receives() {
    // Receives that are there first, and messages that are.
    with_nodes(
        |a| send_all(&a, B),
        |b| {
            receive_all(&b, A, false);
            assert_eq!(b.unexpected(), (0, 0));
        },
    );
    with_nodes(
        |a| send_all(&a, B),
        |b| {
            let last = Pattern::tag(LENGTHS.len() as u64 - 1);
            let peeked = b.peek(&last, LONG).unwrap().unwrap();
            assert_eq!(peeked.total, 5 << 20);
            receive_all(&b, A, true);
            assert_eq!(b.unexpected(), (0, 0));
        },
    );
}

#[test]
fn threads_share_the_receives_of_a_node() {
    let (a, b) = shared_pair();
    thread::scope(|scope| {
        for channel in 0..4 {
            let (a, b) = (a.clone(), b.clone());
            scope.spawn(move || send_all(&a.matching().on(channel), B));
            scope.spawn(move || {
                let mut buffer = vec![0; 5 << 20];
                for tag in (0..9_u64).rev() {
                    let length = LENGTHS[tag as usize];
                    let pattern = Pattern::tag(tag).on(channel);
                    let matching = b.matching();
                    let got = matching
                        .receive(pattern, &mut buffer, LONG)
                        .unwrap()
                        .unwrap();
                    assert_eq!(got.length, length as u64);
                    assert_eq!(buffer[..length], bytes(tag, length));
                }
            });
        }
    });
    assert_eq!(b.matching().unexpected(), (0, 0));
}

#[test]
fn a_node_with_several_threads_receives_from_any() {
    let nodes: Vec<SharedNode> = (0..5)
        .map(|id| {
            builder(id)
                .open_threads(if id == 0 { 2 } else { 1 })
                .unwrap()
        })
        .collect();
    let (first, others) = nodes.split_first().unwrap();
    for other in others {
        other.add_peer(first.id(), first.local_addr()).unwrap();
        first.add_peer(other.id(), other.local_addr()).unwrap();
        other.matching().send(A, 9, bytes(9, 400_000)).unwrap();
    }
    let mut from = Vec::new();
    let mut buffer = vec![0; 400_000];
    for _ in others {
        let got = first
            .matching()
            .receive(Pattern::any(), &mut buffer, LONG)
            .unwrap()
            .unwrap();
        from.push(got.from.node);
        assert_eq!(buffer, bytes(9, 400_000));
        buffer.fill(0);
    }
    from.sort_unstable();
    assert_eq!(from, [1, 2, 3, 4].map(NodeId));
}

#[test]
fn a_message_that_is_too_long_is_cut_and_nothing_is_written_behind_it() {
    let raw = |b: &Matching<'_>, memory: &mut [u8]| {
        let parts = [
            (NonNull::from(&mut memory[1]), 2),
            (NonNull::from(&mut memory[8]), 5),
        ];
        // SAFETY: the memory outlives the waits for the completions below, and is read only after.
        unsafe { b.post_raw(Pattern::any(), &parts, None) }.unwrap()
    };
    with_nodes(
        |a| {
            a.send(B, 1, bytes(1, 6)).unwrap();
            for tag in 2..4 {
                a.send(B, tag, bytes(tag, 900_000)).unwrap();
            }
        },
        |b| {
            for tag in 1..4 {
                let mut memory = [255; 16];
                let receive = raw(&b, &mut memory);
                let Completion {
                    result, released, ..
                } = b.completion_of(receive, LONG).unwrap().unwrap();
                let got = result.unwrap();
                let total = if tag == 1 { 6 } else { 900_000 };
                assert_eq!((got.tag, got.total, released), (tag, total, true));
                assert_eq!((got.is_truncated(), got.length), (tag > 1, total.min(7)));
                let sent = bytes(tag, 7);
                assert_eq!([&memory[1..3], &memory[8..12]].concat(), sent[..6]);
                assert_eq!(
                    (memory[0], &memory[3..8], &memory[13..]),
                    (255, &[255; 5][..], &[255; 3][..])
                );
            }
        },
    );
}

#[test]
fn a_buffer_for_several_messages_is_given_back_once() {
    with_nodes(
        |a| {
            for tag in 0..10 {
                a.send(B, tag, bytes(tag, 300)).unwrap();
            }
        },
        |b| {
            let mut memory = vec![0; 1_000];
            let parts = [(NonNull::from(&mut memory[0]), 1_000)];
            // SAFETY: the memory is used only after the buffer was given back.
            let several = unsafe { b.post_raw(Pattern::any(), &parts, Some(300)) }.unwrap();
            let next = |_| b.next_completion(LONG).unwrap().unwrap();
            let done: Vec<_> = (0..3).map(next).collect();
            assert!(done.iter().all(|one| one.receive == several));
            let offsets = done.iter().map(|one| one.result.as_ref().unwrap().offset);
            assert!(offsets.eq([0, 300, 600]));
            assert_eq!(done.iter().filter(|one| one.released).count(), 1);
            assert!(done[2].released);
            assert_eq!(memory[300..600], bytes(1, 300));
            // SAFETY: a receive that is refused takes no memory.
            let error = unsafe { b.post_raw(Pattern::any(), &parts, Some(1_001)) };
            let error = error.unwrap_err();
            assert!(matches!(error, MatchingError::Buffer(_)), "{error}");
        },
    );
}

#[test]
fn receives_that_are_dropped_or_forgotten_take_nothing() {
    with_nodes(
        |a| {
            for tag in 0..4 {
                a.send(B, tag, bytes(tag, 200_000)).unwrap();
            }
        },
        |b| {
            let mut memory = [0; 8];
            b.scope(|scope| {
                drop(scope.post(Pattern::any(), &mut memory).unwrap());
            });
            b.scope(|scope| {
                std::mem::forget(scope.post(Pattern::any().from(B), &mut memory).unwrap());
            });
            let receive = {
                let parts = [(NonNull::from(&mut memory[0]), 8)];
                // SAFETY: the receive is cancelled before the memory is used.
                unsafe { b.post_raw(Pattern::any().on(3), &parts, None) }.unwrap()
            };
            assert!(b.cancel(receive).unwrap() && !b.cancel(receive).unwrap());
            let last = b.peek(&Pattern::tag(3), LONG).unwrap().unwrap();
            assert_eq!((last.total, memory), (200_000, [0; 8]));
            // The first one is still there, since no receive was.
            let got = b
                .receive(Pattern::any(), &mut memory, LONG)
                .unwrap()
                .unwrap();
            assert_eq!((got.tag, got.length), (0, 8));
            // One can be claimed, and received or discarded.
            let claimed = b.claim(&Pattern::tag(2), LONG).unwrap().unwrap();
            assert!(b.claim(&Pattern::tag(2), Duration::ZERO).unwrap().is_none());
            let mut room = vec![0; 200_000];
            b.scope(|scope| {
                let mut posted = scope.receive_claimed(claimed.message, &mut room).unwrap();
                let got = scope.wait(&mut posted, LONG).unwrap().unwrap();
                assert_eq!((got.tag, got.length), (2, 200_000));
                assert!(
                    scope.wait(&mut posted, LONG).unwrap().is_none(),
                    "taken before"
                );
            });
            assert_eq!(room, bytes(2, 200_000));
            let claimed = b.claim(&Pattern::tag(1), LONG).unwrap().unwrap();
            b.discard(claimed.message).unwrap();
            assert!(b.discard(claimed.message).is_err());
            assert_eq!(b.unexpected().0, 1);
        },
    );
}

/// An announced message that no receive admits stays with its sender if there is no memory for it,
/// and goes to the receive that is posted later.
#[test]
fn a_message_beyond_all_memory_waits_for_its_receive() {
    let small = |id| builder(id).memory(4 << 20).open().unwrap();
    let (mut a, mut b) = (small(0), small(1));
    introduce(&mut a, &mut b);
    let payload = Bytes::from(bytes(3, 12 << 20));
    a.matching().send(B, 3, payload.clone()).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (a, over) = (&mut a, &over);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                a.poll(Duration::from_millis(1)).unwrap();
            }
        });
        let matching = b.matching();
        let peeked = matching.peek(&Pattern::any(), LONG).unwrap().unwrap();
        assert_eq!(peeked.total, 12 << 20);
        assert_eq!(matching.unexpected(), (1, 0), "not here");
        let mut buffer = vec![0; 12 << 20];
        let got = matching.receive(Pattern::tag(3), &mut buffer, LONG);
        over.store(true, Ordering::Relaxed);
        assert_eq!(got.unwrap().unwrap().length, 12 << 20);
        assert!(buffer == payload);
    });
}

#[test]
fn the_end_of_a_session_ends_receives_from_its_node() {
    let (mut a, mut b) = pair();
    a.matching().send(B, 1, "here").unwrap();
    let ends = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        a.close(LONG).unwrap();
    });
    let matching = b.matching();
    let mut memory = [0; 8];
    let got = matching.receive(Pattern::tag(1).from(A), &mut memory, LONG);
    assert_eq!(got.unwrap().unwrap().length, 4);
    let failed = matching.receive(Pattern::tag(1).from(A), &mut memory, LONG);
    assert!(
        matches!(failed, Err(Error::Ended { node: A, .. })),
        "{failed:?}"
    );
    let short = Duration::from_millis(5);
    assert!(
        matching
            .receive(Pattern::tag(1), &mut memory, short)
            .unwrap()
            .is_none()
    );
    ends.join().unwrap();
    b.close(LONG).unwrap();
    let closed = b.matching().receive(Pattern::any(), &mut memory, short);
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
}

#[test]
fn a_message_has_neither_channel_nor_tag_of_its_own() {
    let (mut a, _b) = pair();
    let matching = a.matching();
    let tagged = matching.send(B, 1, OutgoingMessage::new("x").tag(4));
    assert!(matches!(tagged, Err(Error::Reserved { .. })), "{tagged:?}");
    let placed = OutgoingMessage::new("x").channel(suci::ChannelId(4));
    let placed = matching.send(B, 1, placed);
    assert!(matches!(placed, Err(Error::Reserved { .. })), "{placed:?}");
    let unknown = matching.send(NodeId(77), 1, "x");
    assert!(matches!(unknown, Err(Error::UnknownPeer(_))), "{unknown:?}");
}

/// The sender hears of its messages as of others, and the receiver's program sees no such message
/// in other calls.
#[test]
fn the_sender_hears_of_delivery() {
    let (mut a, mut b) = pair();
    a.matching()
        .send(B, 1, OutgoingMessage::new("x").notify(42))
        .unwrap();
    let mut memory = [0; 8];
    b.matching()
        .receive(Pattern::any(), &mut memory, LONG)
        .unwrap()
        .unwrap();
    assert!(b.try_recv().unwrap().is_none());
    let poll = thread::spawn(move || {
        b.poll(Duration::from_millis(200)).unwrap();
        b
    });
    let event = await_event(&mut a, |event| !matches!(event, Event::Up { .. }));
    assert!(
        matches!(
            event,
            Event::Delivered {
                token: 42,
                node: B,
                ..
            }
        ),
        "{event:?}"
    );
    drop(poll.join().unwrap());
}

/// A node that fills the memory for unexpected messages is held back, and everything arrives.
#[test]
fn f04_unexpected_messages_are_bounded() {
    const COUNT: u64 = 3_000;
    const LENGTH: usize = 60_000;
    let (a, b) = shared_pair();
    let sender = thread::spawn(move || {
        for tag in 0..COUNT {
            let mut message = OutgoingMessage::new(bytes(tag, LENGTH));
            let matching = a.matching();
            while let Err(error) = matching.send(B, tag, message) {
                let Error::WouldBlock { message: back, .. } = error else {
                    panic!("{error}");
                };
                message = *back;
                thread::sleep(Duration::from_millis(1));
            }
        }
        a
    });
    let matching = b.matching();
    let mut most = 0;
    let half = 64 << 20;
    while most < half {
        most = matching.unexpected().1;
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(100));
    let mut buffer = vec![0; LENGTH];
    for tag in 0..COUNT {
        most = most.max(matching.unexpected().1);
        matching
            .receive(Pattern::tag(tag), &mut buffer, LONG)
            .unwrap()
            .unwrap();
        assert!(buffer == bytes(tag, LENGTH));
    }
    assert!(most < (128 << 20) + (1 << 20), "{most}");
    drop(sender.join().unwrap());
}

#[test]
fn a_node_matches_its_own_messages() {
    let mut node = builder(0).open().unwrap();
    let matching = node.matching();
    matching.send(A, 5, bytes(5, 1_000_000)).unwrap();
    let mut buffer = vec![0; 1_000_000];
    let got = matching
        .receive(Pattern::tag(5), &mut buffer, LONG)
        .unwrap()
        .unwrap();
    assert_eq!((got.from.node, &buffer), (A, &bytes(5, 1_000_000)));
    let _ = (NOT_PERMITTED, Node::builder());
}
