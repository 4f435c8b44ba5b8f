//! Priorities between destinations, and of received messages.

use crate::net::{Net, address, id, message};
use suci_proto::time::Duration;
use suci_proto::types::{ChannelId, NodeId};
use suci_proto::{Config, Outgoing, Priority, TX_BUDGET, TransmitResult};

const SECOND: Duration = Duration::from_secs(1);

/// Host 0 knows the others, whose windows have grown.
fn hub(others: usize) -> Net {
    let mut net = Net::new(others + 1, |_| Config::default());
    for other in 1..=others {
        net.send(0, id(other), message(&vec![0; 10_000_000]));
        net.send(other, id(0), message(b"here"));
    }
    net.run(5 * SECOND);
    net.discard_events();
    net
}

fn class(class: u8) -> Priority {
    Priority::new(class, 16).unwrap()
}

/// The destinations of host 0's trains, as long as it may send.
fn trains(net: &mut Net) -> Vec<(usize, usize)> {
    let now = net.now;
    let others = net.len();
    let engine = net.engine(0);
    let mut order = Vec::new();
    while let Some(transmit) = engine.poll_transmit(now, 64) {
        let to = (0..others).find(|o| address(*o) == transmit.dest).unwrap();
        order.push((to, transmit.len));
        let segments = transmit.segments;
        engine.transmit_done(now, TransmitResult::Sent(segments));
    }
    order
}

/// Returns true if host 0 hands a message over before it transmits.
fn yields(net: &mut Net) -> bool {
    let now = net.now;
    net.engine(0).output_yields(now)
}

fn bytes_to(order: &[(usize, usize)], to: usize) -> usize {
    order
        .iter()
        .filter(|(t, _)| *t == to)
        .map(|(_, bytes)| bytes)
        .sum()
}

#[test]
fn a_higher_class_goes_first_and_delays_no_other_while_it_may_not_send() {
    let mut net = hub(2);
    net.change(0, id(2), |o| o.priority = class(5)).unwrap();
    for to in [1, 2] {
        net.queue(0, id(to), message(&vec![0; 200_000]));
    }
    for to in [1, 2] {
        net.queue(0, id(to), message(&vec![0; 50_000_000]));
    }
    let order = trains(&mut net);
    let first_low = order.iter().position(|(to, _)| *to == 1).unwrap();
    let last_high = order.iter().rposition(|(to, _)| *to == 2).unwrap();
    assert!(last_high < first_low, "{order:?}");
    assert!(
        bytes_to(&order, 2) >= 200_000,
        "until window or credit stopped it"
    );
    assert!(bytes_to(&order, 1) >= 200_000, "then the other");
}

/// The peer that the next train is for.
fn next_train(net: &mut Net) -> usize {
    let now = net.now;
    let others = net.len();
    let engine = net.engine(0);
    let transmit = engine.poll_transmit(now, 64).unwrap();
    let to = (0..others).find(|o| address(*o) == transmit.dest).unwrap();
    let segments = transmit.segments;
    engine.transmit_done(now, TransmitResult::Sent(segments));
    to
}

/// A message of an urgent channel waits for the train under way, not for the trains of all other
/// peers in its peer's class.
#[test]
fn an_urgent_channel_overtakes_bulk_to_other_peers() {
    let mut net = hub(4);
    let urgent = |to| (id(to), ChannelId(7));
    for to in [3, 4] {
        let (node, channel) = urgent(to);
        let engine = net.engine(0);
        engine
            .set_channel_priority(node, channel, class(6))
            .unwrap();
    }
    for to in 1..=3 {
        net.queue(0, id(to), message(&vec![0; 200_000]));
    }
    let before: Vec<_> = (0..6).map(|_| next_train(&mut net)).collect();
    assert!((1..=3).all(|to| before.contains(&to)), "{before:?}");
    for round in 0..4 {
        // One of the peers has bulk of its own, the other has none.
        for to in [3, 4] {
            net.queue(0, id(to), on(7, b"urgent"));
            assert_eq!(next_train(&mut net), to, "round {round}");
        }
        // Both at once: one after the other, before all bulk.
        net.queue(0, id(4), on(7, b"urgent"));
        net.queue(0, id(3), on(7, b"urgent"));
        let next = [next_train(&mut net), next_train(&mut net)];
        assert_eq!(next, [4, 3], "round {round}");
    }
    // Peers with bulk still share.
    let order = trains(&mut net);
    let last = |to| order.iter().rposition(|(t, _)| *t == to);
    assert!(last(1).is_some() && last(2).is_some(), "{order:?}");
    net.run(5 * SECOND);
    let urgent = |net: &mut Net, host| {
        let got = net.received(host);
        let urgent = got.iter().filter(|(_, m)| m.channel == ChannelId(7));
        urgent.count()
    };
    assert_eq!([3, 4].map(|host| urgent(&mut net, host)), [8, 8]);
}

/// The same at the receiver: urgent messages come first, even if others sent before.
#[test]
fn a_message_of_an_urgent_channel_is_received_before_those_of_other_peers() {
    let mut net = hub(3);
    net.reading = false;
    let engine = net.engine(0);
    engine
        .set_channel_priority(id(2), ChannelId(7), class(6))
        .unwrap();
    for from in 1..=3 {
        for n in 0..3 {
            net.send(from, id(0), message(&[n]));
        }
    }
    net.send(2, id(0), on(7, b"urgent"));
    net.send(2, id(0), on(7, b"also"));
    net.run(SECOND);
    let engine = net.engine(0);
    let got: Vec<_> = std::iter::from_fn(|| engine.recv()).collect();
    let urgent = got.iter().map(|(_, m)| m.channel == ChannelId(7));
    assert_eq!(urgent.take(3).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(got.len(), 11);
    assert!(!net.engine(0).has_message());
    // The only message of a peer is urgent: none is left after it.
    net.send(2, id(0), on(7, b"last"));
    net.run(SECOND);
    let engine = net.engine(0);
    assert!(engine.has_message() && engine.recv().is_some());
    assert!(!engine.has_message() && engine.recv().is_none());
}

/// The driver asks before it transmits. A message outranks output only by its class.
#[test]
fn an_urgent_message_outranks_bulk_that_is_to_be_sent_but_no_urgent_output() {
    let mut net = hub(2);
    net.reading = false;
    for to in [1, 2] {
        let engine = net.engine(0);
        engine
            .set_channel_priority(id(to), ChannelId(7), class(6))
            .unwrap();
    }
    assert!(!yields(&mut net), "there is none");
    net.send(1, id(0), message(b"bulk"));
    net.run(SECOND);
    net.queue(0, id(2), message(&vec![0; 200_000]));
    assert!(!yields(&mut net));
    assert!(!net.engine(0).has_urgent_output());
    trains(&mut net);
    net.send(1, id(0), on(7, b"question"));
    net.run(SECOND);
    assert!(!yields(&mut net), "nothing is to go");
    net.queue(0, id(2), message(&vec![0; 200_000]));
    assert!(yields(&mut net));
    net.queue(0, id(2), on(7, b"urgent, too"));
    assert!(!yields(&mut net));
    assert!(net.engine(0).has_urgent_output());
    assert_eq!(next_train(&mut net), 2);
    assert!(!net.engine(0).has_urgent_output());
    assert!(yields(&mut net));
    assert!(net.engine(0).recv().is_some());
    assert!(!yields(&mut net), "it was taken");
}

/// The program may never take the message; each message that it takes restarts the wait.
#[test]
fn output_waits_for_the_program_as_long_as_one_output_lasts() {
    let mut net = hub(2);
    net.reading = false;
    net.change(0, id(1), |o| o.priority = class(5)).unwrap();
    for _ in 0..2 {
        net.send(1, id(0), message(b"question"));
    }
    net.run(SECOND);
    for _ in 0..2 {
        net.queue(0, id(2), message(&vec![0; 200_000]));
        assert!(yields(&mut net));
        net.now += TX_BUDGET;
        assert!(yields(&mut net));
        net.now += Duration::from_nanos(1);
        assert!(!yields(&mut net) && !yields(&mut net));
        assert!(net.engine(0).recv_from(id(1).into()).is_some());
        trains(&mut net);
    }
}

/// A peer's class counts as a channel's class.
#[test]
fn a_message_of_a_peer_of_a_higher_class_outranks_what_is_to_be_sent_to_others() {
    let mut net = hub(2);
    net.reading = false;
    net.change(0, id(1), |o| o.priority = class(5)).unwrap();
    net.send(1, id(0), message(b"question"));
    net.run(SECOND);
    net.queue(0, id(2), message(&vec![0; 200_000]));
    assert!(yields(&mut net));
    net.queue(0, id(1), message(b"answer"));
    assert!(!yields(&mut net));
}

#[test]
fn peers_of_a_class_share_by_weight() {
    let mut net = hub(3);
    for (to, weight) in [(1, 16), (2, 48)] {
        let priority = Priority::new(3, weight).unwrap();
        net.change(0, id(to), |o| o.priority = priority).unwrap();
    }
    for _ in 0..10 {
        for to in 1..=3 {
            net.queue(0, id(to), message(&vec![0; 250_000]));
        }
    }
    let order = trains(&mut net);
    // Until one peer's window is used up.
    let busy = (1..=3)
        .map(|to| order.iter().rposition(|(t, _)| *t == to).unwrap())
        .min()
        .unwrap();
    let part = &order[..=busy];
    let [one, three, default] = [1, 2, 3].map(|to| bytes_to(part, to) as f64);
    assert!(one > 0.0 && three / one > 1.8, "{part:?}");
    assert!(
        (0.5..2.0).contains(&(default / one)),
        "the default weight is 16: {part:?}"
    );
}

#[test]
fn messages_of_a_higher_class_are_received_first() {
    let mut net = hub(3);
    net.reading = false;
    for from in 1..=3 {
        for n in 0..3 {
            net.send(from, id(0), message(&[n]));
        }
    }
    net.run(SECOND);
    net.change(0, id(3), |o| o.priority = class(4)).unwrap();
    net.change(0, id(1), |o| o.priority = class(0)).unwrap();
    let engine = net.engine(0);
    let from: Vec<_> = std::iter::from_fn(|| engine.recv())
        .map(|(from, _)| from.node)
        .collect();
    let expected = [3, 3, 3, 2, 2, 2, 1, 1, 1].map(id);
    assert_eq!(from, expected);
}

/// The order of messages taken `most` at a time, from peers and channels in turn, and others that
/// come first or last.
fn received_at_once(most: usize) -> Vec<(NodeId, ChannelId, u64)> {
    let mut net = hub(3);
    net.reading = false;
    for (from, channels) in [(1, 2), (2, 1), (3, 2)] {
        for n in 0..39 {
            net.queue(from, id(0), on(n % channels, &[7; 30]));
        }
        net.send(from, id(0), on(0, b"the last of a batch"));
    }
    net.run(SECOND);
    net.change(0, id(3), |o| o.priority = class(4)).unwrap();
    let engine = net.engine(0);
    engine
        .set_channel_priority(id(3), ChannelId(1), class(6))
        .unwrap();
    let mut got = Vec::new();
    while engine.recv_many(most, |from, m| got.push((from.node, m.channel, m.number))) > 0 {}
    got
}

#[test]
fn messages_taken_at_once_come_in_the_order_of_those_taken_one_by_one() {
    let singly = received_at_once(1);
    assert_eq!(singly.len(), 120);
    for most in [2, 7, 1_000] {
        assert_eq!(received_at_once(most), singly, "{most} at once");
    }
}

fn on(channel: u32, payload: &[u8]) -> Outgoing {
    Outgoing {
        channel: ChannelId(channel),
        ..message(payload)
    }
}

#[test]
fn channels_keep_their_priorities_in_the_next_session() {
    let mut net = hub(1);
    let set = |net: &mut Net, host: usize, to| {
        let engine = net.engine(host);
        engine
            .set_channel_priority(id(to), ChannelId(7), class(6))
            .unwrap();
    };
    set(&mut net, 0, 1);
    net.restart(1);
    net.send(0, id(1), message(b"finds out"));
    net.run(5 * SECOND);
    set(&mut net, 1, 0);
    net.discard_events();
    for n in 0..3 {
        net.queue(0, id(1), on(0, &[n; 1_300]));
    }
    net.queue(0, id(1), on(7, b"urgent"));
    net.flush(0);
    net.run(SECOND);
    let first = net.received(1).remove(0).1;
    assert_eq!(first.channel, ChannelId(7));
}

#[test]
fn unknown_peers_have_no_priority() {
    let mut net = hub(1);
    let unknown = net.change(0, id(9), |o| o.priority = class(1));
    assert!(unknown.is_err());
    assert!(
        net.engine(0)
            .set_channel_priority(id(9), ChannelId(0), class(1))
            .is_err()
    );
}
