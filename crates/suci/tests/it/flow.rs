//! Modes, priorities and the remote window, between nodes over loopback.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, await_event, builder, introduce, pair, set_option, shared_pair, take};
use std::time::{Duration, Instant};
use suci::{
    Bytes, ChannelId, Error, Event, Mode, Node, NodeId, OutgoingMessage, Priority, SharedNode,
};

fn remote_mode(node: &Node, peer: NodeId) -> Mode {
    node.peer(peer).stats().unwrap().unwrap().remote_mode
}

fn shared_remote_mode(node: &SharedNode, peer: NodeId) -> Mode {
    node.peer(peer).stats().unwrap().unwrap().remote_mode
}

#[test]
fn a_mode_is_told_while_connected_and_by_the_builder_before() {
    let (mut a, mut b) = (
        builder(0).mode(Mode::Throughput).open().unwrap(),
        builder(1).open().unwrap(),
    );
    introduce(&mut a, &mut b);
    a.send(b.id(), "hello").unwrap();
    take(&mut b);
    assert_eq!(remote_mode(&b, a.id()), Mode::Throughput);
    set_option(a.peer(b.id()), |o| o.mode = Mode::Response).unwrap();
    let end = Instant::now() + LONG;
    while remote_mode(&b, a.id()) != Mode::Response {
        assert!(Instant::now() < end, "told at once");
        b.poll(Duration::from_millis(10)).unwrap();
        a.poll(Duration::ZERO).unwrap();
    }
    assert_eq!(
        a.peer(b.id()).stats().unwrap().unwrap().mode,
        Mode::Response
    );
    assert!(matches!(
        set_option(a.peer(NodeId(9)), |o| o.mode = Mode::Response),
        Err(Error::UnknownPeer(_))
    ));
}

#[test]
fn shared_nodes_have_modes_priorities_and_windows_too() {
    let (a, b) = shared_pair();
    set_option(a.peer(b.id()), |o| o.mode = Mode::Response).unwrap();
    a.send(b.id(), "hello").unwrap();
    b.recv_timeout(LONG).unwrap().expect("a message");
    assert_eq!(shared_remote_mode(&b, a.id()), Mode::Response);
    // Otherwise it may not know yet that the other side has accepted, nor its settings.
    a.flush(LONG).unwrap();
    let urgent = Priority::new(7, 1).unwrap();
    set_option(a.peer(b.id()), |o| o.priority = urgent).unwrap();
    a.peer(b.id())
        .set_channel_priority(ChannelId(1), urgent)
        .unwrap();
    assert!(set_option(a.peer(NodeId(9)), |o| o.priority = urgent).is_err());
    assert!(a.peer(b.id()).remote_window(ChannelId(1)).unwrap() > 1_000);
    assert_eq!(a.peer(NodeId(9)).remote_window(ChannelId(0)).unwrap(), 0);
}

#[test]
fn response_leaves_a_batch_at_once() {
    let (mut a, mut b) = pair();
    a.send(b.id(), "hello").unwrap();
    take(&mut b);
    // The greeting may ride on the handshake, whose end would not be seen because of the batch.
    a.flush(LONG).unwrap();
    set_option(a.peer(b.id()), |o| o.mode = Mode::Response).unwrap();
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
    set_option(a.peer(b.id()), |o| o.mode = Mode::Throughput).unwrap();
    a.peer(b.id())
        .set_channel_priority(ChannelId(1), Priority::new(6, 16).unwrap())
        .unwrap();
    b.peer(a.id())
        .set_channel_priority(ChannelId(1), Priority::new(6, 16).unwrap())
        .unwrap();
    let bulk = Bytes::from(vec![7; 200_000]);
    for _ in 0..100 {
        a.send(b.id(), bulk.clone()).unwrap();
    }
    a.send(b.id(), OutgoingMessage::new("urgent").channel(ChannelId(1)))
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

/// Messages of a burst wait for the program's next call. A call that only asks is no such call. If
/// the program makes no other, its helper sends the messages.
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
    let on = |text: &'static str| OutgoingMessage::new(text).channel(channel);
    for text in ["one", "two"] {
        a.send(b.id(), on(text)).unwrap();
    }
    assert!(a.peer(b.id()).finish_channel(channel).unwrap());
    assert!(!a.peer(b.id()).finish_channel(channel).unwrap());
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
    a.send(b.id(), OutgoingMessage::new("other").channel(ChannelId(6)))
        .unwrap();
    assert_eq!(take(&mut b).channel, ChannelId(6));
    assert!(matches!(
        a.peer(b.id()).finish_channel(ChannelId(1 << 24)),
        Err(Error::ReservedChannel { .. })
    ));
    assert!(matches!(
        a.peer(NodeId(99)).finish_channel(channel),
        Err(Error::UnknownPeer(_))
    ));
}

#[test]
fn threads_finish_channels_too() {
    let (a, b) = shared_pair();
    let channel = ChannelId(5);
    a.send(b.id(), OutgoingMessage::new("last").channel(channel))
        .unwrap();
    assert!(a.peer(b.id()).finish_channel(channel).unwrap());
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
