//! Receiving from one peer, or on one channel, while other messages wait.

use crate::net::{Net, id, message};
use crate::pair::Pair;
use suci_proto::time::Duration;
use suci_proto::types::{ChannelId, NodeId};
use suci_proto::{Config, EndReason, Engine, Event, Filter, Outgoing};

const SECOND: Duration = Duration::from_secs(1);

fn on(channel: u32, payload: &[u8]) -> Outgoing {
    Outgoing {
        channel: ChannelId(channel),
        ..message(payload)
    }
}

fn payloads(engine: &mut Engine, wanted: impl Into<Filter>) -> Vec<Vec<u8>> {
    let wanted = wanted.into();
    let received = std::iter::from_fn(|| engine.recv_from(wanted));
    received.map(|(_, m)| m.payload.to_vec()).collect()
}

fn take_all(engine: &mut Engine) -> Vec<(NodeId, u32, Vec<u8>)> {
    let all = std::iter::from_fn(|| engine.recv());
    all.map(|(from, m)| (from.node, m.channel.0, m.payload.to_vec()))
        .collect()
}

/// Host 0 has messages 0 to 2 of hosts 1 and 2 on channels 0 and 7, and takes none.
fn filled() -> Net {
    let mut net = Net::new(3, |_| Config::default());
    net.reading = false;
    for number in 0..3 {
        for host in [1, 2] {
            for channel in [0, 7] {
                net.send(
                    host,
                    id(0),
                    on(channel, &[host as u8, channel as u8, number]),
                );
            }
        }
    }
    net.run(SECOND);
    net
}

#[test]
fn messages_of_one_peer_are_taken_and_others_keep_their_order() {
    let mut net = filled();
    let engine = net.engine(0);
    let of_two = payloads(engine, id(2));
    assert_eq!(of_two.len(), 6);
    assert!(of_two.iter().all(|payload| payload[0] == 2));
    for channel in [0, 7] {
        let numbers: Vec<_> = of_two
            .iter()
            .filter(|p| p[1] == channel)
            .map(|p| p[2])
            .collect();
        assert_eq!(numbers, [0, 1, 2]);
    }
    assert!(engine.has_message());
    let rest = take_all(engine);
    assert_eq!(rest.len(), 6);
    assert!(rest.iter().all(|(from, ..)| *from == id(1)));
    assert!(!engine.has_message());
}

#[test]
fn messages_on_one_channel_come_from_peers_in_turn() {
    let mut net = filled();
    let engine = net.engine(0);
    let on_seven = payloads(engine, ChannelId(7));
    let peers: Vec<_> = on_seven.iter().map(|payload| payload[0]).collect();
    assert_eq!(on_seven.len(), 6);
    assert!(peers.windows(2).all(|two| two[0] != two[1]), "{peers:?}");
    assert!(payloads(engine, (id(1), ChannelId(7))).is_empty());
    let one = payloads(engine, (id(1), ChannelId(0)));
    assert_eq!(one, [[1, 0, 0], [1, 0, 1], [1, 0, 2]]);
    assert!(payloads(engine, id(1)).is_empty() && engine.has_message());
    assert_eq!(take_all(engine).len(), 3);
    assert!(!engine.has_message() && engine.recv_from(id(9).into()).is_none());
}

/// Untaken messages stop at the credit of their channel, and delay no other channel.
#[test]
fn waiting_messages_are_bounded_and_delay_no_other_channel() {
    let mut pair = Pair::new();
    pair.set_reads(0, false);
    // Until the credit of channel 0 is used up.
    for _ in 0..10_000 {
        pair.send(1, message(&[7; 20_000]));
        pair.run(Duration::from_millis(1));
        if pair.engine(1).queue_len(pair.id(0)).0 > 20 {
            break;
        }
    }
    pair.run(SECOND);
    let kept = pair.engine(1).queue_len(pair.id(0)).0;
    assert!(kept > 0, "credit is used up");
    for number in 0..200_u8 {
        pair.send(1, on(3, &[number]));
        pair.run(Duration::from_millis(1));
        let got = pair.ask(0, |engine, _, _| payloads(engine, ChannelId(3)));
        assert_eq!(got, [[number]]);
    }
    pair.run(SECOND);
    assert_eq!(
        pair.engine(1).queue_len(pair.id(0)).0,
        kept,
        "no credit was given back"
    );
    pair.set_reads(0, true);
    pair.run(SECOND * 20);
    let numbers: Vec<_> = pair.received(0).iter().map(|m| m.number).collect();
    assert!(numbers.is_sorted() && numbers.first() == Some(&0));
    assert_eq!(pair.engine(1).queue_len(pair.id(0)).0, 0);
}

/// Messages of a session that ended come before those of the next one, and its end is told after
/// the last of them.
#[test]
fn sessions_are_taken_in_order() {
    let mut pair = Pair::new();
    pair.set_reads(0, false);
    for number in 0..2 {
        for channel in [0, 7] {
            pair.send(1, on(channel, &[number]));
        }
    }
    pair.run(SECOND);
    pair.restart(1);
    pair.send(1, on(7, &[9]));
    pair.run(SECOND);
    let ended = |event: &Event| matches!(event, Event::Ended { .. });
    assert!(!pair.events(0).iter().any(ended), "messages of it are left");
    let on_seven = pair.ask(0, |engine, _, _| payloads(engine, ChannelId(7)));
    assert_eq!(on_seven, [[0], [1], [9]]);
    assert!(!pair.events(0).iter().any(ended), "messages of it are left");
    let rest = pair.ask(0, |engine, _, node| payloads(engine, node));
    assert_eq!(rest, [[0], [1]]);
    pair.run(SECOND);
    assert!(pair.events(0).iter().any(ended));
}

#[test]
fn an_end_is_reported_once_by_an_event_or_a_receiving_call() {
    let mut pair = Pair::new();
    pair.set_reads(0, false);
    pair.send(1, message(b"hello"));
    pair.run(SECOND);
    let unheard = |pair: &mut Pair| {
        let node = pair.id(1);
        let now = pair.now();
        let engine = pair.engine_mut(0);
        engine.handle_timeout(now);
        engine.take_unheard_end(node)
    };
    assert_eq!(unheard(&mut pair), None);
    pair.restart(1);
    pair.send(1, message(b"again"));
    pair.run(SECOND);
    assert_eq!(unheard(&mut pair), Some(EndReason::Restarted));
    assert_eq!(unheard(&mut pair), None, "told");
    // The end of the next session is told by its event.
    pair.set_reads(0, true);
    pair.restart(1);
    pair.send(1, message(b"once more"));
    pair.run(SECOND);
    assert_eq!(unheard(&mut pair), None);
}
