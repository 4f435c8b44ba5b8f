//! Cases in which the packets of a train must not be taken together, or only under a condition.

use super::*;
use crate::event::Side;

/// The first sender's link to the receiver.
const BY_SENDER: Link = Link {
    sender: 0,
    by_receiver: false,
};
const BY_RECEIVER: Link = Link {
    sender: 0,
    by_receiver: true,
};

/// Packets of a train.
const MANY: usize = 8;

/// Sends a message of `size` bytes from the first sender.
pub(super) fn send(both: &mut Both, size: usize) {
    let (from, channel) = (0, 0);
    both.take(&Step::Send {
        from,
        channel,
        size,
    });
}

pub(super) fn rounds(both: &mut Both, count: usize) {
    for _ in 0..count {
        let (mischief, wait) = (Vec::new(), 100);
        both.take(&Step::Round { mischief, wait });
    }
}

/// Begins a long message. Returns its next packets, all full, which were sent and did not arrive
/// yet.
fn begun(setting: &Setting) -> (Both, Vec<Arriving>) {
    let mut both = Both::new(setting);
    send(&mut both, 200_000);
    let train = next_train(&mut both);
    (both, train)
}

/// Returns the full packets that are sent next, once some were taken together. Delivers the packets
/// before them.
fn next_train(both: &mut Both) -> Vec<Arriving> {
    let before = both.taken_together();
    for _ in 0..50 {
        let packets = both.each(Trio::outgoing);
        let is_full = |p: &&Arriving| p.to == RECEIVER && p.bytes.len() == 1_472;
        let train: Vec<_> = packets.iter().filter(is_full).cloned().collect();
        if both.taken_together() > before && train.len() >= MANY {
            return train;
        }
        both.each(|trio| trio.cycle(&packets, 100));
    }
    panic!("no train");
}

/// Delivers `packets`. Returns how many of them were taken together.
fn arrive(both: &mut Both, packets: &[Arriving]) -> u64 {
    let before = both.taken_together();
    both.each(|trio| trio.cycle(packets, 100));
    both.taken_together() - before
}

/// The same packets with numbers beyond all numbers sent.
fn renumbered(packets: &[Arriving]) -> Vec<Arriving> {
    let later = |packet: &Arriving| {
        let (header, body) = wire::open(&packet.bytes).unwrap();
        let header = Header {
            number: header.number + 1_000,
            ..header
        };
        let mut bytes = Vec::new();
        wire::put_header(&mut bytes, &header);
        bytes.extend_from_slice(body);
        wire::seal(&mut bytes);
        Arriving {
            bytes,
            ..packet.clone()
        }
    };
    packets.iter().map(later).collect()
}

/// Checks that the message arrives, and more of its packets are taken together.
fn goes_on(both: &mut Both) {
    let before = both.taken_together();
    for _ in 0..300 {
        let (mischief, wait) = (Vec::new(), 1_000);
        both.take(&Step::Round { mischief, wait });
        if both.take(&Step::Take).len() == 1 {
            assert!(both.taken_together() > before + MANY as u64);
            return;
        }
    }
    panic!("no message");
}

#[test]
fn a_train_of_the_newest_packets_is_taken_together() {
    let (mut both, train) = begun(&Setting::usual());
    assert!(arrive(&mut both, &train) >= MANY as u64 / 2);
    goes_on(&mut both);
}

/// Late packets are not the newest; only the newest are taken together.
#[test]
fn a_late_train_is_taken_packet_by_packet() {
    let (mut both, train) = begun(&Setting::usual());
    let (early, late) = train.split_at(train.len() / 2);
    assert!(arrive(&mut both, late) > 0);
    assert_eq!(arrive(&mut both, early), 0);
    assert_eq!(arrive(&mut both, &train), 0, "repeated");
    goes_on(&mut both);
}

#[test]
fn f13_a_train_from_elsewhere_is_no_run() {
    let (mut both, mut train) = begun(&Setting::usual());
    train.iter_mut().for_each(|packet| packet.elsewhere = true);
    assert_eq!(arrive(&mut both, &train), 0);
    goes_on(&mut both);
}

#[test]
fn f20_a_train_while_the_receiver_closes() {
    let (mut both, train) = begun(&Setting::usual());
    both.take(&Step::Close(BY_RECEIVER));
    arrive(&mut both, &train);
    rounds(&mut both, 20);
    assert_eq!(arrive(&mut both, &renumbered(&train)), 0, "all is over");
    rounds(&mut both, 20);
}

/// F20: a sender that continues after it closed the session.
#[test]
fn f20_a_train_after_the_senders_close_is_taken_packet_by_packet() {
    let (mut both, train) = begun(&Setting::usual());
    both.each(|trio| {
        let now = trio.world.now;
        trio.world.engines[0].reset(now, id(RECEIVER)).unwrap();
    });
    rounds(&mut both, 1);
    let lingers = both.each(|trio| trio.world.peer(RECEIVER, 0).lingering.is_some());
    assert!(lingers);
    assert_eq!(arrive(&mut both, &renumbered(&train)), 0);
    rounds(&mut both, 20);
    assert!(both.take(&Step::Take).is_empty());
}

#[test]
fn a_train_of_a_replaced_connection_is_taken_packet_by_packet() {
    let (mut both, train) = begun(&Setting::usual());
    both.take(&Step::Replace(0));
    let connection = |trio: &mut Trio| {
        let connection = trio.world.peer(RECEIVER, 0).connection.as_ref();
        connection.map(|connection| connection.link.local.index)
    };
    let before = both.each(connection);
    for _ in 0..20 {
        // Only the packets that make the connection arrive.
        let mut packets = both.each(Trio::outgoing);
        packets.retain(|packet| packet.bytes.len() < 1_472 || packet.from == RECEIVER);
        both.each(|trio| trio.cycle(&packets, 100));
        if both.each(connection) != before {
            break;
        }
    }
    assert_ne!(both.each(connection), before, "another one");
    assert_eq!(arrive(&mut both, &train), 0);
    goes_on(&mut both);
}

#[test]
fn packets_in_flight_at_a_suspension_are_taken_together() {
    for link in [BY_SENDER, BY_RECEIVER] {
        let (mut both, train) = begun(&Setting::usual());
        both.take(&Step::Suspend(link));
        assert!(arrive(&mut both, &train) > 0);
        rounds(&mut both, 3);
        let suspended = both.each(|trio| trio.world.engines[RECEIVER].suspended_by(id(0)));
        let by = if link.by_receiver {
            Side::Here
        } else {
            Side::There
        };
        assert_eq!(suspended, Some(by));
        rounds(&mut both, 20);
        assert!(both.take(&Step::Take).is_empty());
        both.take(&Step::Resume(link));
        goes_on(&mut both);
    }
}

/// As usual, but the receiving program decides about messages as long as those here.
fn asking() -> Setting {
    let mut setting = Setting::usual();
    setting.max_message = 50_000;
    setting
}

/// Returns the data of an announced message, which its sender sends without the CTS, after the
/// program's `decision` if there is one.
fn data_before_cts(both: &mut Both, decision: Option<Decision>) -> Vec<Arriving> {
    rounds(both, 20);
    if let Some(decision) = decision {
        both.take(&Step::Decide(decision));
    }
    both.each(|trio| {
        let outbox = &mut trio.world.peer(0, RECEIVER).session.outbox;
        let number = outbox.delivered(ChannelId(0));
        outbox.on_cts(ChannelId(0), number).unwrap();
        trio.touch(0, RECEIVER);
    });
    let packets = both.each(Trio::outgoing);
    let data = packets.into_iter().filter(|p| p.to == RECEIVER);
    let train: Vec<_> = data.collect();
    assert!(train.len() >= MANY, "{}", train.len());
    train
}

/// Data of a message that the program refused, or did not decide about yet.
#[test]
fn a_train_of_a_message_that_is_not_wanted_brings_none() {
    for decision in [Some(Decision::Refuse), None] {
        let mut both = Both::new(&asking());
        send(&mut both, 200_000);
        let train = data_before_cts(&mut both, decision);
        // Data of a refused message is skipped; data of an unanswered one breaks the protocol with
        // its first packet.
        let together = arrive(&mut both, &train);
        assert!(decision.is_some() || together <= 1, "{together}");
        rounds(&mut both, 20);
        assert!(both.take(&Step::Take).is_empty());
    }
}

#[test]
fn trains_of_a_long_message_are_taken_together_into_the_programs_memory() {
    for decision in [Decision::Supply, Decision::Accept] {
        let mut both = Both::new(&asking());
        for _ in 0..3 {
            send(&mut both, 90_000);
            rounds(&mut both, 20);
            assert!(both.take(&Step::Take).is_empty(), "it asks");
            both.take(&Step::Decide(decision));
            rounds(&mut both, 50);
            let taken = both.take(&Step::Take);
            let sent: Vec<u8> = (0..90_000).map(|at| (at * 7 + at / 251) as u8).collect();
            assert!(taken == [sent], "{decision:?}");
        }
        assert!(
            both.taken_together() > 30,
            "{decision:?}: {}",
            both.taken_together()
        );
    }
}

/// The receiver wants its credit back while a train is under way.
#[test]
fn trains_while_credit_is_reclaimed() {
    let (mut both, train) = begun(&Setting::usual());
    both.take(&Step::Dismiss(0));
    let grant = both.each(|trio| {
        let connection = trio.world.peer(RECEIVER, 0).connection.as_ref().unwrap();
        let grant = &connection.grant;
        (grant.is_dismissed(), grant.is_reclaiming())
    });
    assert_eq!(grant, (true, true));
    // RECLAIM is sent, and crosses packets that were sent before.
    let reclaim = both.each(Trio::outgoing);
    assert!(arrive(&mut both, &train) > 0);
    both.each(|trio| trio.cycle(&reclaim, 100));
    goes_on(&mut both);
}
