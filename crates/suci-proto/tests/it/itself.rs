//! A node that sends to itself.

mod model;

use crate::net::message;
use crate::pair::Pair;
use bytes::Bytes;
use suci_proto::time::Duration;
use suci_proto::types::{ChannelId, Kind, NodeId};
use suci_proto::{
    CallId, Config, EndReason, Engine, Event, Filter, Message, Outcome, Outgoing, PeerError,
    SendError, Side,
};

const SECOND: Duration = Duration::from_secs(1);
const C1: ChannelId = ChannelId(1);

fn itself(pair: &Pair) -> NodeId {
    pair.id(0)
}

/// More messages of [`KIB`] than the window of a channel holds.
const MANY: usize = 8_000;
const KIB: [u8; 1_024] = [1; 1_024];

/// Sends to itself, and lets time pass.
fn send(pair: &mut Pair, message: Outgoing) -> u64 {
    let number = pair.ask(0, |engine, now, other| {
        engine.send(now, itself_of(other), message)
    });
    number.unwrap()
}

/// The ID of host 0, given that of host 1.
fn itself_of(other: NodeId) -> NodeId {
    NodeId(other.0 - 1)
}

fn payloads(messages: &[Message]) -> Vec<Vec<u8>> {
    messages.iter().map(|m| m.payload.to_vec()).collect()
}

#[test]
fn messages_to_itself_arrive_in_order_and_no_packet_leaves() {
    let mut pair = Pair::new();
    for n in 0..1_000_u32 {
        // Some messages fill packets of their own, some ask first (RTS).
        let long = match n % 100 {
            0 => 300_000,
            1 => 70_000,
            2 => 1_000,
            _ => 4,
        };
        let mut payload = n.to_le_bytes().to_vec();
        payload.resize(long, n as u8);
        let header = Bytes::from(vec![n as u8; n as usize % 3]);
        let number = send(
            &mut pair,
            Outgoing {
                tag: u64::from(n),
                user_header: header,
                ..message(&payload)
            },
        );
        assert_eq!(number, u64::from(n));
        pair.run(Duration::from_millis(1));
    }
    let received = pair.received(0);
    assert_eq!(received.len(), 1_000);
    for (n, got) in received.iter().enumerate() {
        assert_eq!((got.number, got.tag), (n as u64, n as u64));
        assert_eq!(got.payload[..4], (n as u32).to_le_bytes());
        assert_eq!(got.user_header.len(), n % 3);
    }
    assert_eq!(pair.packets(), 0, "nothing for a socket");
    assert_eq!(pair.events(0), [], "nobody came up");
    let node = itself(&pair);
    let engine = pair.engine(0);
    assert_eq!(engine.queue_len(node), (0, 0));
    assert_eq!(engine.delivered(node, ChannelId(0)), 1_000);
    assert_eq!(engine.peer_count(), 1, "the other one");
    assert_eq!(engine.peers().count(), 1);
    let stats = engine.peer_stats(node).unwrap();
    let traffic = (stats.traffic.messages_sent, stats.traffic.messages_received);
    assert_eq!(traffic, (1_000, 1_000));
    assert_eq!(engine.counters().protocol_errors, 0);
}

#[test]
fn delivery_to_itself_is_told_as_for_others() {
    let mut pair = Pair::new();
    send(
        &mut pair,
        Outgoing {
            notify: true,
            token: 7,
            ..message(b"told")
        },
    );
    let node = itself(&pair);
    let channel = ChannelId(0);
    let delivered = Event::Delivered {
        node,
        channel,
        number: 0,
        token: 7,
    };
    assert_eq!(pair.events(0), [delivered]);
}

/// The memory of the session and then the queue fill up; taking messages lets the others follow.
#[test]
fn a_program_that_does_not_read_fills_its_own_queue_and_no_more() {
    let mut pair = Pair::new();
    pair.set_reads(0, false);
    let node = itself(&pair);
    let payload = Bytes::from(vec![5; 100_000]);
    let mut accepted = 0;
    let refused = loop {
        let next = Outgoing {
            payload: payload.clone(),
            ..message(b"")
        };
        let sent = pair.ask(0, |engine, now, _| engine.send(now, node, next));
        pair.run(Duration::from_millis(1));
        match sent {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
    };
    let SendError::WouldBlock(message) = refused else {
        panic!("{refused}");
    };
    let config = Config::default();
    // The queue, the memory for large messages and a window: messages ask once the window is full.
    let most = config.send_queue + config.memory / 2 + (8 << 20);
    assert!(accepted * 100_000 <= most, "{accepted} messages");
    let queued = pair.engine(0).queue_len(node).1;
    assert!(queued <= config.send_queue && queued >= config.send_queue - 200_000);
    let window = |pair: &Pair| pair.engine(0).remote_window(pair.now(), node, ChannelId(0));
    assert!(window(&pair) < 100_000);
    let class = pair.engine_mut(0).want_room(node, &message).unwrap();
    pair.read(0);
    assert_eq!(pair.received(0).len(), accepted as usize);
    assert_eq!(pair.events(0), [Event::Writable { node, class }]);
    assert!(window(&pair) > 100_000);
}

#[test]
fn an_unread_channel_delays_no_other() {
    let mut pair = Pair::new();
    pair.set_reads(0, false);
    for _ in 0..300 {
        send(&mut pair, message(&[1; 100_000]));
    }
    let other = Outgoing {
        channel: C1,
        ..message(b"other")
    };
    send(&mut pair, other);
    pair.run(SECOND);
    let node = itself(&pair);
    let wanted = Filter::from(node).on(C1);
    let got = pair.engine_mut(0).recv_from(wanted).unwrap();
    assert_eq!(got.1.payload, b"other");
}

#[test]
fn messages_longer_than_max_message_are_announced_and_answered() {
    let mut pair = Pair::new();
    let node = itself(&pair);
    let long = Bytes::from(vec![3; Config::default().max_message as usize + 1]);
    let announced = |pair: &mut Pair| {
        // The queue takes one message of that length.
        let payload = long.clone();
        send(
            pair,
            Outgoing {
                payload,
                ..message(b"")
            },
        );
        pair.run(SECOND);
        let mut events = pair.events(0);
        events.retain(|event| matches!(event, Event::Incoming { .. }));
        match events[..] {
            [Event::Incoming { number, total, .. }] => {
                assert_eq!(total, long.len() as u64);
                number
            }
            _ => panic!("{events:?}"),
        }
    };
    let channel = ChannelId(0);
    assert_eq!(announced(&mut pair), 0);
    let buffer = vec![0; long.len()];
    let memory = buffer.as_ptr();
    let accept = |engine: &mut Engine, _, _| engine.accept(node, channel, 0, Some(buffer.into()));
    pair.ask(0, accept).unwrap();
    pair.run(SECOND);
    assert_eq!(announced(&mut pair), 1);
    let received = pair.received(0);
    assert!(received[0].payload == long && received[0].payload.as_ptr() == memory);
    pair.ask(0, |engine, _, _| engine.refuse(node, channel, 1, 9))
        .unwrap();
    assert_eq!(announced(&mut pair), 2);
    let next = pair.ask(0, |engine, now, _| engine.send(now, node, message(b"next")));
    assert!(
        matches!(next, Err(SendError::WouldBlock(_))),
        "the queue is full"
    );
    pair.ask(0, |engine, _, _| engine.accept(node, channel, 2, None))
        .unwrap();
    pair.run(SECOND);
    send(&mut pair, message(b"next"));
    pair.run(SECOND);
    let received = pair.received(0);
    assert_eq!(received.len(), 2);
    assert!(received[0].payload == long && received[1].payload == b"next");
}

#[test]
fn a_call_to_itself_is_answered_by_its_own_program() {
    let mut pair = Pair::new();
    let node = itself(&pair);
    let id = CallId(77);
    pair.ask(0, |engine, now, _| {
        engine.call(now, node, id, message(b"what?"))
    })
    .unwrap();
    pair.run(SECOND);
    let [request] = &pair.received(0)[..] else {
        panic!("one request");
    };
    assert_eq!(request.kind, Kind::REQUEST);
    let reply = Outgoing {
        channel: request.channel.replies(),
        tag: request.tag,
        ..message(b"that")
    };
    send(&mut pair, reply);
    let (answered, result) = pair.engine_mut(0).poll_call().unwrap();
    assert_eq!(answered, id);
    assert_eq!(result.unwrap().1.payload, b"that");
    assert!(pair.received(0).is_empty());
    // A call without a reply ends with the session.
    pair.ask(0, |engine, now, _| {
        engine.call(now, node, id, message(b"what?"))
    })
    .unwrap();
    assert!(
        pair.ask(0, |engine, now, _| engine.reset(now, node))
            .unwrap()
    );
    assert!(pair.engine_mut(0).poll_call().unwrap().1.is_err());
}

#[test]
fn suspended_messages_to_itself_wait() {
    let mut pair = Pair::new();
    let node = itself(&pair);
    pair.set_reads(0, false);
    // Send more than the memory holds.
    for _ in 0..MANY {
        send(&mut pair, message(&KIB));
    }
    pair.run(SECOND);
    pair.ask(0, |engine, _, _| engine.suspend(node)).unwrap();
    let refused = pair.ask(0, |engine, now, _| engine.send(now, node, message(b"x")));
    let by = Side::Here;
    assert!(matches!(refused, Err(SendError::Suspended { by: found, .. }) if found == by));
    pair.read(0);
    let before = pair.received(0).len();
    assert!(before < MANY, "{before} were passed on before");
    pair.ask(0, |engine, _, _| engine.resume(node)).unwrap();
    pair.run(SECOND);
    assert_eq!(before + pair.received(0).len(), MANY);
    assert_eq!(
        pair.events(0),
        [Event::Suspended { node, by }, Event::Resumed { node, by }]
    );
}

#[test]
fn cancelled_and_expired_messages_to_itself_do_not_arrive() {
    let mut pair = Pair::new();
    let node = itself(&pair);
    pair.set_reads(0, false);
    for _ in 0..MANY {
        send(&mut pair, message(&KIB));
    }
    for token in [1, 2] {
        let deadline = (token == 2).then_some(SECOND);
        let late = Outgoing {
            token,
            deadline,
            notify: true,
            ..message(&[token as u8])
        };
        send(&mut pair, late);
    }
    let cancelled = pair.ask(0, |engine, _, _| engine.cancel(node, ChannelId(0), 1));
    assert_eq!(cancelled, Ok(1));
    pair.run(2 * SECOND);
    pair.read(0);
    assert_eq!(pair.received(0).len(), MANY);
    let told = pair.events(0);
    let failed = |event: &&Event| matches!(event, Event::NotDelivered { .. });
    assert_eq!(told.iter().filter(failed).count(), 2, "{told:?}");
    assert_eq!(pair.engine(0).queue_len(node), (0, 0));
}

#[test]
fn a_finished_channel_to_itself_is_told_and_gone() {
    let mut pair = Pair::new();
    let node = itself(&pair);
    send(&mut pair, message(b"last"));
    let channel = ChannelId(0);
    for channel in [channel, C1] {
        let finish = pair.ask(0, |engine, now, _| {
            engine.finish_channel(now, node, channel)
        });
        assert_eq!(
            finish,
            Ok(true),
            "{channel:?}, of which the second was never used"
        );
    }
    pair.run(SECOND);
    assert_eq!(payloads(&pair.received(0)), [b"last"]);
    let mut finished = pair.events(0);
    finished.sort_by_key(|event| format!("{event:?}"));
    let expected = [channel, C1].map(|channel| Event::ChannelFinished { node, channel });
    assert_eq!(finished, expected);
    let again = pair.ask(0, |engine, now, _| engine.send(now, node, message(b"x")));
    assert_eq!(again, Err(SendError::Finished { channel }));
}

/// Messages that were passed on are received, the others have their outcomes, and another session
/// begins.
#[test]
fn a_session_with_itself_ends_by_reset_and_another_begins() {
    let mut pair = Pair::new();
    let node = itself(&pair);
    pair.set_reads(0, false);
    for _ in 0..MANY {
        send(&mut pair, message(&KIB));
    }
    pair.run(SECOND);
    assert_eq!(
        pair.ask(0, |engine, now, _| engine.reset(now, node)),
        Ok(true)
    );
    pair.read(0);
    let received = pair.received(0).len();
    let [
        Event::Ended {
            reason, outcomes, ..
        },
    ] = &pair.events(0)[..]
    else {
        panic!("one end");
    };
    assert_eq!(*reason, EndReason::Reset);
    assert_eq!(received + outcomes.len(), MANY, "{received} received");
    assert!(
        outcomes
            .iter()
            .all(|of| of.outcome == Outcome::NotDelivered)
    );
    assert_eq!(send(&mut pair, message(b"anew")), 0);
    pair.run(SECOND);
    assert_eq!(payloads(&pair.received(0)), [b"anew"]);
}

#[test]
fn closing_waits_for_what_was_sent_to_itself() {
    let mut pair = Pair::new();
    pair.set_reads(0, false);
    for n in 0..MANY {
        send(&mut pair, message(&[n as u8; KIB.len()]));
    }
    pair.close(0, 10 * SECOND);
    pair.run(SECOND);
    assert!(!pair.engine(0).is_closed(), "not all was passed on");
    pair.read(0);
    assert!(pair.engine(0).is_closed());
    let received = pair.received(0);
    assert_eq!(received.len(), MANY);
    let in_order = |(n, m): (usize, &Message)| m.payload[0] == n as u8;
    assert!(received.iter().enumerate().all(in_order));
    let ended = pair.events(0);
    assert!(
        matches!(&ended[..], [Event::Ended { reason: EndReason::ClosedHere, outcomes, .. }] if outcomes.is_empty()),
        "{ended:?}"
    );
}

#[test]
fn an_engine_that_never_sent_to_itself_closes_without_an_event() {
    let mut pair = Pair::new();
    pair.close(0, SECOND);
    assert!(pair.engine(0).is_closed());
    assert_eq!(pair.events(0), []);
    assert_eq!(pair.engine(0).next_timeout(), None);
}

/// The node cannot be removed from itself, or entered.
#[test]
fn this_node_stays_known() {
    let mut pair = Pair::new();
    let node = itself(&pair);
    send(&mut pair, message(b"1"));
    let removed = pair.ask(0, |engine, now, _| engine.remove_peer(now, node));
    assert_eq!(removed, Ok(true));
    send(&mut pair, message(b"2"));
    pair.run(SECOND);
    assert_eq!(payloads(&pair.received(0)), [b"1", b"2"]);
    let at = std::net::SocketAddr::from(([10, 0, 0, 9], 1));
    let added = pair.ask(0, |engine, now, _| engine.add_peer(now, node, at));
    assert_eq!(added, Err(PeerError::Itself(node)));
    assert!(added.unwrap_err().to_string().contains("leave it out"));
}

#[test]
fn an_idle_session_with_itself_needs_no_timer() {
    let mut pair = Pair::new();
    send(&mut pair, message(b"1"));
    pair.run(60 * SECOND);
    assert_eq!(pair.engine(0).next_timeout(), None);
    assert!(!pair.engine(0).has_output());
    send(&mut pair, message(b"2"));
    pair.run(SECOND);
    assert_eq!(payloads(&pair.received(0)), [b"1", b"2"]);
}
