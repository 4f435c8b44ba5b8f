//! Reasons why messages wait, and the counters of a peer.

use crate::net::message;
use crate::pair::Pair;
use suci_proto::time::Duration;
use suci_proto::types::NodeId;
use suci_proto::{Engine, LinkState, WaitReason};

const MOMENT: Duration = Duration::from_millis(5);

/// Checks that nothing waits, and everything was acknowledged.
fn assert_idle(pair: &Pair, host: usize) {
    let stats = pair.stats(host);
    assert_eq!((stats.waiting, stats.queued_messages), (None, 0));
}

#[test]
fn the_first_message_waits_for_its_link() {
    let mut pair = Pair::new();
    pair.send(0, message(b"first"));
    assert_eq!(pair.stats(0).waiting, Some(WaitReason::Link));
    pair.run(MOMENT);
    assert_idle(&pair, 0);
    let wait = pair.stats(0).waits.get(WaitReason::Link);
    // HELLO, COOKIE, INIT, ACCEPT: two round trips of 100 us.
    assert!((150_000..400_000).contains(&wait.nanos), "{wait:?}");
    assert_eq!(wait.times, 1);
    let nanos = pair.stats(0).waits.nanos();
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.stats(0).waits.nanos(), nanos, "an idle peer waits");
}

#[test]
fn a_burst_waits_for_window_or_pacer() {
    let mut pair = Pair::new();
    pair.send(0, message(b"open"));
    pair.run(MOMENT);
    for _ in 0..200 {
        pair.queue(0, message(&[7; 1_400]));
    }
    pair.send(0, message(b"last"));
    let waiting = pair.stats(0).waiting;
    assert!(
        matches!(
            waiting,
            Some(WaitReason::Congestion) | Some(WaitReason::Pacing)
        ),
        "{waiting:?}"
    );
    pair.run(Duration::from_secs(1));
    assert_idle(&pair, 0);
    let waits = pair.stats(0).waits;
    let held = [WaitReason::Congestion, WaitReason::Pacing].map(|r| waits.get(r).nanos);
    assert!(held.iter().sum::<u64>() > 0, "{waits:?}");
    assert_eq!(waits.get(WaitReason::SessionMemory).times, 0);
}

#[test]
fn a_small_socket_buffer_shows_as_socket_credit() {
    let mut pair = Pair::with_buffer(32 << 10);
    pair.send(0, message(b"open"));
    pair.run(MOMENT);
    for _ in 0..100 {
        pair.queue(0, message(&[7; 1_400]));
    }
    pair.send(0, message(b"last"));
    assert_eq!(pair.stats(0).waiting, Some(WaitReason::SocketCredit));
    pair.run(Duration::from_secs(5));
    assert_idle(&pair, 0);
    let wait = pair.stats(0).waits.get(WaitReason::SocketCredit);
    assert!(wait.nanos > 0 && wait.times > 0, "{wait:?}");
}

#[test]
fn a_program_that_does_not_read_shows_as_memory() {
    let mut pair = Pair::new();
    pair.set_reads(1, false);
    // Longer messages would ask for memory of another kind.
    for _ in 0..3_000 {
        pair.queue(0, message(&[7; 4_000]));
    }
    pair.send(0, message(b"last"));
    pair.run(Duration::from_secs(5));
    let waiting = pair.stats(0).waiting;
    assert_eq!(waiting, Some(WaitReason::ChannelMemory));
    assert!(pair.stats(0).waits.get(WaitReason::ChannelMemory).nanos > 1_000_000_000);
    pair.set_reads(1, true);
    // The program polls when a packet comes: at the latest the sender's question after a silence.
    pair.run(Duration::from_secs(4));
    assert_idle(&pair, 0);
}

#[test]
fn a_large_message_waits_for_its_answer() {
    let mut pair = Pair::new();
    pair.send(0, message(b"open"));
    pair.run(MOMENT);
    pair.send(0, message(&vec![7; 300 << 10]));
    assert_eq!(pair.stats(0).waiting, Some(WaitReason::Answer));
    pair.run(Duration::from_secs(1));
    assert_idle(&pair, 0);
    let wait = pair.stats(0).waits.get(WaitReason::Answer);
    assert!((100_000..300_000).contains(&wait.nanos), "{wait:?}");
    assert_eq!(wait.times, 1);
}

/// A cap of 1 MB/s: 1 MB takes a second, with the reason counted, and neither acknowledgements nor
/// the other direction are delayed. Without the cap the rest is sent at once.
#[test]
fn a_cap_holds_messages_back_and_says_so() {
    let mut pair = Pair::new();
    pair.send(0, message(b"open"));
    pair.run(MOMENT);
    let cap = |pair: &mut Pair, rate| {
        let set = |engine: &mut Engine, now, to| {
            engine
                .change_options(now, to, |o| o.rate_cap = rate)
                .is_ok()
        };
        assert!(pair.ask(0, set));
    };
    cap(&mut pair, Some(1_000_000));
    let moved = |pair: &mut Pair| {
        pair.received(1)
            .iter()
            .map(|m| m.payload.len())
            .sum::<usize>()
    };
    moved(&mut pair);
    for _ in 0..2_000 {
        pair.queue(0, message(&[7; 1_000]));
    }
    pair.send(0, message(b"last"));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.stats(0).waiting, Some(WaitReason::Cap));
    let first = moved(&mut pair);
    assert!((900_000..1_030_000).contains(&first), "{first} B");
    pair.send(1, message(b"back"));
    pair.run(MOMENT);
    assert_idle(&pair, 1);
    let wait = pair.stats(0).waits.get(WaitReason::Cap);
    assert!(wait.nanos > 900_000_000, "{wait:?}");
    cap(&mut pair, None);
    pair.run(Duration::from_millis(200));
    assert_idle(&pair, 0);
    assert_eq!(first + moved(&mut pair), 2_000_004);
    let nobody = NodeId(77);
    let set = |engine: &mut Engine, now, _| {
        engine
            .change_options(now, nobody, |o| o.rate_cap = None)
            .is_ok()
    };
    assert!(!pair.ask(0, set));
}

#[test]
fn a_socket_that_takes_nothing_is_a_reason_too() {
    let mut pair = Pair::new();
    pair.send(0, message(b"open"));
    pair.run(MOMENT);
    pair.queue(0, message(b"more"));
    pair.refuse_train(0);
    assert_eq!(pair.stats(0).waiting, Some(WaitReason::Socket));
    pair.send(0, message(b"it takes some again"));
    pair.run(MOMENT);
    assert_idle(&pair, 0);
}

/// Everything is acknowledged, and the socket does not take the next packet: no message waits,
/// which `audit` checks.
#[test]
fn acknowledged_messages_wait_no_more_though_the_socket_is_full() {
    let mut pair = Pair::new();
    pair.send(0, message(b"first"));
    // Until INIT is under way; a message that asks for an acknowledgement comes with ACCEPT.
    pair.run(Duration::from_micros(120));
    assert_eq!(pair.stats(0).waiting, Some(WaitReason::Link));
    pair.queue(1, message(b"reply"));
    pair.set_full(0, true);
    pair.run(MOMENT);
    assert_eq!(pair.received(0).len(), 1);
    assert_idle(&pair, 0);
}

/// A peer's last train that the socket does not take is not forgotten, nor are messages that the
/// program sends meanwhile; and packets that were sent late are watched for loss like others.
#[test]
fn f26_the_last_train_waits_for_the_socket_and_is_repaired_when_lost() {
    let mut pair = Pair::new();
    pair.send(0, message(b"first"));
    pair.run(MOMENT);
    assert_eq!(pair.received(1).len(), 1);

    // The train is built twice while the socket takes nothing; then another message is queued.
    pair.queue(0, message(b"second"));
    pair.refuse_train(0);
    pair.refuse_train(0);
    pair.set_full(0, true);
    pair.send(0, message(b"third"));
    pair.run(MOMENT);
    assert!(pair.received(1).is_empty());
    pair.set_full(0, false);
    pair.ask(0, |_, _, _| ());
    pair.run(MOMENT);
    let came: Vec<_> = pair.received(1).into_iter().map(|m| m.payload).collect();
    assert_eq!(came, [&b"second"[..], b"third"]);
    let traffic = pair.stats(0).traffic;
    assert_eq!((traffic.packets_lost, traffic.bytes_resent), (0, 0));

    pair.queue(0, message(b"fourth"));
    pair.refuse_train(0);
    pair.ask(0, |_, _, _| ());
    pair.drop_wire();
    pair.run(MOMENT);
    assert_eq!(pair.received(1).len(), 1);
    assert_idle(&pair, 0);
}

#[test]
fn traffic_is_counted_on_both_sides_and_survives_the_connection() {
    let mut pair = Pair::new();
    for _ in 0..10 {
        pair.send(0, message(&[7; 100]));
    }
    pair.run(MOMENT);
    let (here, there) = (pair.stats(0).traffic, pair.stats(1).traffic);
    assert_eq!((here.messages_sent, here.message_bytes_sent), (10, 1_000));
    let received = (there.messages_received, there.message_bytes_received);
    assert_eq!(received, (10, 1_000));
    assert_eq!(here.packets_sent, there.packets_received);
    assert_eq!(here.bytes_sent, there.bytes_received);
    assert_eq!(there.packets_sent, here.packets_received);
    assert!(there.acks_sent > 0 && there.acks_sent <= there.packets_sent);
    assert_eq!((here.bytes_resent, here.packets_lost), (0, 0));
    let stats = pair.stats(0);
    assert!(stats.min_rtt <= stats.rtt && stats.rtt_variance < stats.rtt);

    pair.close(0, Duration::from_secs(1));
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.stats(0).link, LinkState::Idle);
    let after = pair.stats(0).traffic;
    assert_eq!((after.messages_sent, after.message_bytes_sent), (10, 1_000));
    assert!(after.packets_sent >= here.packets_sent);
}

/// Data of a dead connection is sent again, and counted as resent.
#[test]
fn retransmissions_are_counted() {
    let mut pair = Pair::new();
    pair.send(0, message(b"open"));
    // The answer acknowledges it.
    pair.send(1, message(b"welcome"));
    pair.run(MOMENT);
    pair.send(0, message(&[7; 1_000]));
    pair.drop_wire();
    pair.run(Duration::from_secs(2));
    assert_idle(&pair, 0);
    let traffic = pair.stats(0).traffic;
    assert_eq!((traffic.bytes_resent, traffic.packets_lost), (1_000, 1));
    assert!(traffic.probes > 0);
}

/// Late answers made the path look slow. They are forgotten soon after the receiver answers at
/// once.
#[test]
fn a_receiver_that_was_late_for_a_while_is_not_sent_to_slowly_for_good() {
    let mut pair = Pair::new();
    pair.send(0, message(b"open"));
    pair.run(MOMENT);
    for _ in 0..16 {
        pair.set_away(1, true);
        pair.send(0, message(&[7; 60_000]));
        pair.run(4 * MOMENT);
        pair.set_away(1, false);
        pair.run(MOMENT);
    }
    pair.received(1);
    for _ in 0..200 {
        pair.send(0, message(&[7; 60_000]));
    }
    pair.run(Duration::from_millis(250));
    assert_eq!(pair.received(1).len(), 200);
}
