//! Engines talking over a network that is a vector: virtual time, no faults but those a test makes.

use crate::net::message;
use crate::pair::Pair;
use bytes::Bytes;
use suci_proto::time::Duration;
use suci_proto::types::{ChannelId, Kind};
use suci_proto::{EndReason, Event, Outcome, Outgoing};

#[test]
fn a_message_arrives() {
    let mut pair = Pair::new();
    pair.send(0, message(b"hello"));
    pair.run(Duration::from_secs(1));
    let got = pair.received(1);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].payload, Bytes::from_static(b"hello"));
}

#[test]
fn messages_of_all_sizes_arrive_in_order() {
    let mut pair = Pair::new();
    let sizes = [
        0, 1, 100, 1_400, 1_500, 10_000, 255_000, 300_000, 5_000_000, 3,
    ];
    for (n, size) in sizes.into_iter().enumerate() {
        pair.send(0, message(&vec![n as u8; size]));
    }
    pair.run(Duration::from_secs(5));
    let got = pair.received(1);
    assert_eq!(
        got.iter().map(|m| m.payload.len()).collect::<Vec<_>>(),
        sizes
    );
    assert!(
        got.iter()
            .enumerate()
            .all(|(n, m)| m.payload.iter().all(|b| *b == n as u8))
    );
    assert_eq!(
        pair.engine(0).queue_len(pair.id(1)),
        (0, 0),
        "all acknowledged"
    );
}

/// Kinds and channels that programs do not use may belong to other layers of a peer: such messages
/// are handed over like others.
#[test]
fn reserved_kinds_and_channels_arrive_and_harm_nothing() {
    let mut pair = Pair::new();
    let sent = [(0, 0), (5, 3 << 24), (127, u32::MAX), (128, 0)];
    for size in [10, 100_000, 5_000_000] {
        for (kind, channel) in sent {
            let (kind, channel) = (Kind(kind), ChannelId(channel));
            let payload = message(&vec![1; size]);
            pair.send(
                0,
                Outgoing {
                    kind,
                    channel,
                    ..payload
                },
            );
        }
        pair.run(Duration::from_secs(5));
        let got = pair.received(1);
        let mut got: Vec<_> = got.iter().map(|m| (m.kind.0, m.channel.0)).collect();
        got.sort_unstable();
        assert_eq!(got, sent);
    }
    assert_eq!(pair.engine(0).queue_len(pair.id(1)), (0, 0));
}

#[test]
fn f23_both_sides_open_at_once() {
    let mut pair = Pair::new();
    pair.send(0, message(b"a"));
    pair.send(1, message(b"b"));
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.received(1).len(), 1);
    assert_eq!(pair.received(0).len(), 1);
}

/// Twenty times, `meanwhile` runs and host 1 sends a small message, while the program of `away`
/// computes for 100 ms. Bulk of host 1 afterwards is not spread over such long times.
fn bulk_is_not_spread_over_the_pauses(away: usize, meanwhile: impl Fn(&mut Pair)) {
    let mut pair = Pair::new();
    for _ in 0..20 {
        meanwhile(&mut pair);
        pair.set_away(away, true);
        pair.run(Duration::from_micros(500));
        pair.send(1, message(&[2; 64]));
        pair.run(Duration::from_millis(100));
        pair.set_away(away, false);
        pair.run(Duration::from_millis(1));
    }
    assert_eq!(pair.received(0).len(), 20);
    let gaps: u64 = (0..2).map(|host| pair.engine(host).counters().gaps).sum();
    assert_eq!(gaps, 0, "what is held up measures nothing");
    let (path, least) = (pair.stats(1).rtt, pair.stats(1).min_rtt);
    assert!(least <= path && path < Duration::from_millis(1), "{path:?}");
    pair.send(1, message(&[3; 200_000]));
    // Spread over a smoothed round trip with the pauses, a window would take tens of milliseconds.
    pair.run(Duration::from_millis(1));
    assert_eq!(pair.received(0).len(), 1, "in ten round trips");
}

#[test]
fn a_program_that_pauses_is_sent_to_as_fast_as_one_that_does_not() {
    bulk_is_not_spread_over_the_pauses(0, |pair| pair.send(0, message(&[1; 64])));
    bulk_is_not_spread_over_the_pauses(0, |_| {});
}

/// Acknowledgements wait in the sender's socket meanwhile.
#[test]
fn a_program_that_pauses_sends_as_fast_as_one_that_does_not() {
    bulk_is_not_spread_over_the_pauses(1, |_| {});
}

/// Losses in a black hole do not count as congestion: once the size is found, the window is that of
/// a new path.
#[test]
fn f27_a_black_hole_is_not_answered_as_congestion() {
    let mut pair = Pair::new();
    pair.ping_pong(64, 10);
    pair.set_widest(1_250);
    pair.send(0, message(&[1; 400_000]));
    let mut seen = 0;
    while pair.received(1).is_empty() {
        pair.run(Duration::from_micros(100));
        let stats = pair.stats(0);
        if stats.mtu < 1_250 {
            assert!(stats.congestion_window >= 10 * 1_200, "{stats:?}");
            seen += 1;
        }
        assert!(seen < 1_000, "a tenth of a second");
    }
    assert!(seen > 0, "it was found");
}

/// Losses in a black hole do not count as congestion: the size is found within some probe timeouts,
/// and then the rest is not delayed.
#[test]
fn f27_a_black_hole_of_a_long_path_holds_nothing_up() {
    let mut pair = Pair::new();
    pair.set_latency(Duration::from_millis(20));
    pair.ping_pong(64, 10);
    pair.set_widest(1_250);
    pair.send(0, message(&[1; 4_000_000]));
    let mut took = Duration::ZERO;
    while pair.received(1).is_empty() {
        pair.run(Duration::from_millis(10));
        took += Duration::from_millis(10);
        let stats = pair.stats(0);
        assert!(stats.congestion_window >= 10 * 1_200, "{stats:?}");
        assert!(took < Duration::from_millis(1_500), "830 ms were enough");
    }
    assert!((1_200..=1_250).contains(&pair.stats(0).mtu));
}

/// The size falls after a long silence, too, whatever its cause.
#[test]
fn f27_a_long_silence_is_answered_as_congestion() {
    let mut pair = Pair::new();
    pair.set_latency(Duration::from_millis(20));
    pair.ping_pong(64, 10);
    pair.set_widest(0);
    pair.send(0, message(&[1; 100_000]));
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.stats(0).mtu, 1_200, "it fell");
    pair.set_widest(usize::MAX);
    let before = pair.stats(0).traffic;
    let mut noticed = false;
    for _ in 0..5_000 {
        pair.run(Duration::from_millis(1));
        let stats = pair.stats(0);
        if stats.traffic.packets_lost == before.packets_lost {
            continue;
        }
        assert!(noticed || stats.congestion_window <= 4 * 1_200, "{stats:?}");
        noticed = true;
        // Slow start from there: the window grew by the bytes acknowledged since.
        let sent = stats.traffic.bytes_sent - before.bytes_sent;
        assert!(stats.congestion_window <= 4 * 1_200 + sent, "{stats:?}");
        if sent > 6 * 1_200 {
            return;
        }
    }
    panic!("it does not go on in five seconds");
}

#[test]
fn close_drains_and_tells_both() {
    let mut pair = Pair::new();
    pair.send(0, message(&[7; 100_000]));
    pair.run(Duration::from_millis(1));
    pair.close(0, Duration::from_secs(5));
    pair.run(Duration::from_secs(1));
    assert!(pair.engine(0).is_closed());
    assert_eq!(pair.received(1).len(), 1);
    let ended = |events: Vec<Event>| {
        events
            .into_iter()
            .filter_map(|e| match e {
                Event::Ended {
                    reason, outcomes, ..
                } => Some((reason, outcomes)),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(ended(pair.events(0)), [(EndReason::ClosedHere, vec![])]);
    assert_eq!(ended(pair.events(1)), [(EndReason::Closed, vec![])]);
}

/// F20: CLOSE acknowledges once more. Its sender answers no probe any more.
#[test]
fn f20_a_message_is_delivered_though_its_last_acknowledgement_was_lost() {
    let mut pair = Pair::new();
    pair.send(0, message(b"first"));
    pair.run(Duration::from_secs(1));
    let acks = |pair: &Pair| pair.stats(1).traffic.acks_sent;
    let before = acks(&pair);
    pair.send(0, message(b"last"));
    while acks(&pair) == before {
        pair.run(Duration::from_micros(20));
    }
    pair.drop_wire();
    pair.close(1, Duration::from_secs(5));
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.received(1).len(), 2);
    let events = pair.events(0);
    let ended = events.iter().find_map(|event| match event {
        Event::Ended {
            reason, outcomes, ..
        } => Some((*reason, outcomes.len())),
        _ => None,
    });
    assert_eq!(ended, Some((EndReason::Closed, 0)), "{events:?}");
}

#[test]
fn f14_a_restarted_peer_ends_the_session_once() {
    let mut pair = Pair::new();
    pair.send(0, message(b"before"));
    pair.run(Duration::from_secs(1));
    pair.restart(1);
    pair.send(0, message(b"lost"));
    pair.run(Duration::from_secs(5));
    let ended: Vec<_> = pair
        .events(0)
        .into_iter()
        .filter(|e| matches!(e, Event::Ended { .. }))
        .collect();
    assert_eq!(ended.len(), 1, "{ended:?}");
    let Event::Ended {
        reason, outcomes, ..
    } = &ended[0]
    else {
        unreachable!()
    };
    assert_eq!(*reason, EndReason::Restarted);
    assert_eq!(outcomes.len(), 1);
    assert_ne!(outcomes[0].outcome, Outcome::Delivered);
    pair.send(0, message(b"after"));
    pair.run(Duration::from_secs(1));
    assert_eq!(
        pair.received(1).last().unwrap().payload,
        Bytes::from_static(b"after")
    );
}

/// A receiver chooses the shard by byte 4, so all packets of a node must have the same byte there,
/// before and during a connection: `Pair` checks each packet. This test sends all types that it can
/// make.
#[test]
fn every_packet_names_its_sender_in_byte_4() {
    let mut pair = Pair::new();
    pair.send(0, message(b"before"));
    pair.run(Duration::from_secs(1));
    pair.restart(1);
    pair.send(0, message(b"to one that does not know the connection"));
    pair.run(Duration::from_secs(5));
    pair.send(1, message(b"after"));
    pair.run(Duration::from_secs(5));
    pair.close(0, Duration::from_secs(1));
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.kinds(), [0, 1, 2, 3, 4, 5], "DATA to UNKNOWN");
}

#[test]
fn two_packets_per_round_trip() {
    let mut pair = Pair::new();
    pair.ping_pong(64, 100);
    let before = pair.packets();
    pair.ping_pong(64, 10_000);
    let per_trip = (pair.packets() - before) as f64 / 10_000.0;
    assert!((2.0..2.01).contains(&per_trip), "{per_trip}");
}

/// An operation of a group has rounds with several members: the next message to a member may come
/// some cycles later, and carries the acknowledgement. A message of the program is acknowledged in
/// the next cycle.
#[test]
fn acknowledgements_of_a_group_wait_for_its_next_message() {
    let mut pair = Pair::new();
    for (channel, cost) in [(ChannelId(0), 4), (ChannelId::of_group(1), 2)] {
        let round = Outgoing {
            channel,
            user_header: Bytes::from_static(b"arguments"),
            ..message(b"round")
        };
        pair.send(0, round.clone());
        pair.run(Duration::from_secs(1));
        let before = pair.packets();
        for from in [1, 0] {
            pair.send(from, round.clone());
            pair.run(Duration::from_millis(1));
        }
        assert_eq!(pair.packets() - before, cost);
        // The last message is acknowledged before its sender asks.
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.engine(0).queue_len(pair.id(1)), (0, 0));
        let probes = [0, 1].map(|host| pair.engine(host).counters().probes);
        assert_eq!(probes, [0, 0]);
    }
}

#[test]
fn small_messages_share_packets() {
    let mut pair = Pair::new();
    pair.ping_pong(64, 100);
    let before = pair.engine(0).counters().packets_out;
    for _ in 0..30_000 {
        pair.queue(0, message(&[1; 32]));
    }
    pair.run(Duration::from_secs(1));
    let packets = pair.engine(0).counters().packets_out - before;
    assert_eq!(pair.received(1).len(), 30_000);
    assert!(30_000 / packets >= 30, "{packets} packets");
}
