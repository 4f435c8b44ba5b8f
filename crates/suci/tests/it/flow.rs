//! Modes, priorities and the remote window, between nodes over loopback.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, await_event, builder, introduce, pair, shared_pair, take};
use std::time::{Duration, Instant};
use suci::{Bytes, ChannelId, Draft, Error, Event, Mode, Node, NodeId, Priority, SharedNode};

fn remote_mode(node: &Node, peer: NodeId) -> Mode {
    node.peer_stats(peer).unwrap().unwrap().remote_mode
}

fn shared_remote_mode(node: &SharedNode, peer: NodeId) -> Mode {
    node.peer_stats(peer).unwrap().unwrap().remote_mode
}

#[test]
fn a_mode_is_told_while_connected_and_by_the_builder_before() {
    let (mut a, mut b) = (
        builder(0).prefer(Mode::Throughput).open().unwrap(),
        builder(1).open().unwrap(),
    );
    introduce(&mut a, &mut b);
    a.send(b.id(), "hello").unwrap();
    take(&mut b);
    assert_eq!(remote_mode(&b, a.id()), Mode::Throughput);
    a.prefer(b.id(), Mode::Response).unwrap();
    let end = Instant::now() + LONG;
    while remote_mode(&b, a.id()) != Mode::Response {
        assert!(Instant::now() < end, "told at once");
        b.poll(Duration::from_millis(10)).unwrap();
        a.poll(Duration::ZERO).unwrap();
    }
    assert_eq!(a.peer_stats(b.id()).unwrap().unwrap().mode, Mode::Response);
    assert!(matches!(
        a.prefer(NodeId(9), Mode::Response),
        Err(Error::UnknownPeer(_))
    ));
}

#[test]
fn shared_nodes_have_modes_priorities_and_windows_too() {
    let (a, b) = shared_pair();
    a.prefer(b.id(), Mode::Response).unwrap();
    a.send(b.id(), "hello").unwrap();
    b.recv_timeout(LONG).unwrap().expect("a message");
    assert_eq!(shared_remote_mode(&b, a.id()), Mode::Response);
    // Else it may not know yet that the other has accepted, nor what.
    a.flush(LONG).unwrap();
    let urgent = Priority::new(7, 1).unwrap();
    a.set_priority(b.id(), urgent).unwrap();
    a.set_channel_priority(b.id(), ChannelId(1), urgent)
        .unwrap();
    assert!(a.set_priority(NodeId(9), urgent).is_err());
    assert!(a.remote_window(b.id(), ChannelId(1)).unwrap() > 1_000);
    assert_eq!(a.remote_window(NodeId(9), ChannelId(0)).unwrap(), 0);
}

#[test]
fn response_leaves_a_batch_at_once() {
    let (mut a, mut b) = pair();
    a.send(b.id(), "hello").unwrap();
    take(&mut b);
    // The greeting may ride on the handshake, whose end nobody would see for the batch.
    a.flush(LONG).unwrap();
    a.prefer(b.id(), Mode::Response).unwrap();
    let to = b.id();
    let arrived = a
        .batch(|batch| {
            batch.send(to, "now").unwrap();
            // The batch is not over yet.
            b.recv_timeout(LONG).unwrap()
        })
        .unwrap();
    assert_eq!(
        arrived.expect("a message").payload,
        Bytes::from_static(b"now")
    );
}

#[test]
fn an_urgent_channel_overtakes_bulk_that_waits() {
    let (mut a, mut b) = pair();
    a.send(b.id(), "hello").unwrap();
    take(&mut b);
    a.prefer(b.id(), Mode::Throughput).unwrap();
    a.set_channel_priority(b.id(), ChannelId(1), Priority::new(6, 16).unwrap())
        .unwrap();
    b.set_channel_priority(a.id(), ChannelId(1), Priority::new(6, 16).unwrap())
        .unwrap();
    let bulk = Bytes::from(vec![7; 200_000]);
    for _ in 0..100 {
        a.send(b.id(), bulk.clone()).unwrap();
    }
    a.send(b.id(), Draft::new("urgent").channel(ChannelId(1)))
        .unwrap();
    let end = Instant::now() + LONG;
    let mut order = Vec::new();
    while order.len() < 101 {
        assert!(Instant::now() < end);
        a.poll(Duration::ZERO).unwrap();
        while let Some(message) = b.try_recv().unwrap() {
            order.push(message.channel);
        }
    }
    let place = order.iter().position(|c| *c == ChannelId(1)).unwrap();
    assert!(place < 80, "{place} of 101");
}

/// Messages that a program sends in a row wait for its next call. Calls that neither send nor wait
/// are no such, and if none comes, they leave all the same.
#[test]
fn what_waits_for_a_program_that_stays_away_is_sent_by_its_helper() {
    const MESSAGES: u32 = 100;
    let (mut a, mut b) = pair();
    a.send(b.id(), "hello").unwrap();
    take(&mut b);
    let end = Instant::now() + LONG;
    for _ in 0..10 {
        a.flush(LONG).unwrap();
        for number in 0..MESSAGES {
            a.send_copy(b.id(), &number.to_le_bytes()).unwrap();
        }
        for number in 0..MESSAGES {
            let message = loop {
                // Else the helper would find it away after a while, and serve it.
                a.peers().unwrap();
                if let Some(message) = b.try_recv().unwrap() {
                    break message;
                }
                assert!(Instant::now() < end, "{number} waits for ever");
            };
            assert_eq!(message.payload[..], number.to_le_bytes());
        }
    }
}

/// The peer's program hears of the end after the last message, and nothing goes on the channel any
/// more.
#[test]
fn a_finished_channel_ends_after_its_last_message() {
    let (mut a, mut b) = pair();
    let channel = ChannelId(5);
    let on = |text: &'static str| Draft::new(text).channel(channel);
    for text in ["one", "two"] {
        a.send(b.id(), on(text)).unwrap();
    }
    assert!(a.finish_channel(b.id(), channel).unwrap());
    assert!(!a.finish_channel(b.id(), channel).unwrap());
    let refused = a.send(b.id(), on("three")).unwrap_err();
    let said = refused.to_string();
    let named = matches!(refused, Error::FinishedChannel { channel: c, .. } if c == channel);
    assert!(
        named && said.contains("channel 5 to node 1 was finished"),
        "{said}"
    );
    let ended = |event: &Event| {
        *event
            == Event::ChannelFinished {
                node: NodeId(0),
                channel,
            }
    };
    for text in ["one", "two"] {
        assert_eq!(take(&mut b).payload, text.as_bytes());
    }
    // The acknowledgement comes, and FIN goes.
    a.poll(Duration::from_millis(100)).unwrap();
    await_event(&mut b, ended);
    // The other direction goes on.
    b.send(a.id(), on("back")).unwrap();
    assert_eq!(take(&mut a).payload, b"back");
    a.send(b.id(), Draft::new("other").channel(ChannelId(6)))
        .unwrap();
    assert_eq!(take(&mut b).channel, ChannelId(6));
    assert!(matches!(
        a.finish_channel(b.id(), ChannelId(1 << 24)),
        Err(Error::ReservedChannel { .. })
    ));
    assert!(matches!(
        a.finish_channel(NodeId(99), channel),
        Err(Error::UnknownPeer(_))
    ));
}

#[test]
fn threads_finish_channels_too() {
    let (a, b) = shared_pair();
    let channel = ChannelId(5);
    a.send(b.id(), Draft::new("last").channel(channel)).unwrap();
    assert!(a.finish_channel(b.id(), channel).unwrap());
    assert_eq!(b.recv_timeout(LONG).unwrap().unwrap().payload, b"last");
    let end = Event::ChannelFinished {
        node: a.id(),
        channel,
    };
    let deadline = Instant::now() + LONG;
    while b.next_event().unwrap() != Some(end.clone()) {
        assert!(
            Instant::now() < deadline,
            "heard within a round trip or two"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}
