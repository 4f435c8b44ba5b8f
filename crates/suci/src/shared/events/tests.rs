use super::super::ring::has_reached;
use super::*;
use suci_proto::types::SessionNumber;
use suci_proto::{EndReason, Outcome, Side};

const PEER: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

fn up(node: NodeId, session: u32) -> Event {
    let session = SessionNumber(session);
    Event::Up { node, session }
}

fn ended(node: NodeId, session: u32, sessions: u32, tokens: &[(u64, bool)]) -> Event {
    let outcome = |&(token, notify): &(u64, bool)| MessageOutcome {
        channel: ChannelId(0),
        number: 0,
        token,
        notify,
        outcome: Outcome::Unknown,
    };
    Event::Ended {
        node,
        session: SessionNumber(session),
        sessions,
        reason: EndReason::Closed,
        outcomes: tokens.iter().map(outcome).collect(),
    }
}

fn finished(channel: u32) -> Event {
    let (node, channel) = (PEER, ChannelId(channel));
    Event::ChannelFinished { node, channel }
}

fn delivered(token: u64) -> Event {
    Event::Delivered {
        node: PEER,
        channel: ChannelId(0),
        number: 0,
        token,
    }
}

fn queue(events: &[(Option<usize>, Event)]) -> Events {
    let mut all = Events::default();
    for (after, event) in events {
        all.push(event.clone(), event.failures(), *after);
    }
    all
}

/// The events that may be taken once the program took the messages before position `taken`.
fn drain(events: &mut Events, taken: usize) -> Vec<Event> {
    let pop = || {
        events.release(|before| has_reached(taken, before.end));
        events.pop().0
    };
    std::iter::from_fn(pop).collect()
}

#[test]
fn ends_without_messages_between_them_become_one() {
    let mut events = queue(&[
        (None, up(PEER, 0)),
        (None, delivered(7)),
        (None, ended(PEER, 0, 1, &[(1, false)])),
        (None, up(PEER, 1)),
        (None, ended(PEER, 1, 1, &[(2, false), (3, true)])),
        (None, up(PEER, 2)),
    ]);
    let failures: Vec<_> = events.flush_failures().collect();
    assert_eq!(
        failures,
        [(PEER, 3)],
        "also those whose outcomes are left out"
    );
    let expected = [
        up(PEER, 0),
        delivered(7),
        ended(PEER, 1, 2, &[(1, false), (3, true)]),
        up(PEER, 2),
    ];
    assert_eq!(drain(&mut events, 0), expected);
    assert_eq!(events.flush_failures().count(), 0);
}

/// The later session closed in order, which must not hide what is missing of the earlier one.
#[test]
fn a_merged_end_says_what_is_missing() {
    let mut first = ended(PEER, 0, 1, &[]);
    if let Event::Ended { reason, .. } = &mut first {
        *reason = EndReason::CutShort { missing: 3 };
    }
    let mut events = queue(&[(None, first), (None, ended(PEER, 1, 1, &[]))]);
    let [Event::Ended { reason, .. }] = drain(&mut events, 0)[..] else {
        panic!("one event");
    };
    assert_eq!(reason, EndReason::CutShort { missing: 3 });
}

#[test]
fn an_end_waits_for_the_messages_of_its_session_and_holds_back_what_follows() {
    let first = ended(PEER, 0, 1, &[]);
    let second = ended(PEER, 1, 1, &[]);
    let mut events = queue(&[
        (None, up(PEER, 0)),
        (Some(3), first.clone()),
        (None, up(PEER, 1)),
        (None, up(OTHER, 0)),
        (Some(5), second.clone()),
    ]);
    assert_eq!(drain(&mut events, 2), [up(PEER, 0), up(OTHER, 0)]);
    assert_eq!(events.held_until(2), Some(3));
    assert_eq!(drain(&mut events, 3), [first, up(PEER, 1)]);
    assert_eq!(events.held_until(3), Some(5));
    assert_eq!(drain(&mut events, 5), [second]);
    assert!(!events.has_held() && events.nodes.is_empty());
}

/// Sessions of which the program took the messages, but no event.
#[test]
fn ends_become_one_when_the_messages_between_them_are_taken() {
    let mut events = queue(&[
        (Some(1), ended(PEER, 0, 1, &[])),
        (Some(2), ended(PEER, 1, 1, &[])),
        (Some(3), ended(PEER, 2, 1, &[])),
    ]);
    assert_eq!(events.len_of(PEER), 3);
    assert_eq!(drain(&mut events, 2), [ended(PEER, 1, 2, &[])]);
    assert_eq!(drain(&mut events, 3), [ended(PEER, 2, 1, &[])]);
}

#[test]
fn the_end_of_a_channel_waits_for_its_messages_only() {
    let mut events = queue(&[
        (Some(9), finished(1)),
        (None, finished(2)),
        (Some(4), finished(3)),
        (None, delivered(7)),
    ]);
    assert_eq!(drain(&mut events, 3), [delivered(7), finished(2)]);
    assert_eq!(drain(&mut events, 4), [finished(3)]);
    // With the session all channels are over.
    events.push(ended(PEER, 0, 1, &[]), 0, Some(9));
    assert_eq!(drain(&mut events, 9), [ended(PEER, 0, 1, &[])]);
}

/// However many channels a peer opens and finishes.
#[test]
fn f04_untaken_ends_of_channels_are_few_ranges() {
    let mut events = Events::default();
    for channel in 0..200_000 {
        events.push(finished(channel), 0, None);
    }
    let ranges = |events: &Events| events.nodes.get(&PEER).unwrap().finished.ranges();
    assert_eq!(ranges(&events), 1);
    for channel in 0..200_000 {
        events.push(finished(300_000 + 2 * channel), 0, None);
    }
    assert_eq!(ranges(&events) as u64, MAX_CHANNELS);
}

/// The program asked for room and hears of it, however the session goes on.
#[test]
fn room_is_told_whatever_follows() {
    let room = Event::Writable {
        node: PEER,
        class: 4,
    };
    let mut events = queue(&[(None, up(PEER, 0)), (None, room.clone())]);
    events.push(ended(PEER, 0, 1, &[]), 0, None);
    assert!(events.take_back_room(PEER, 4) && !events.take_back_room(PEER, 4));
    events.push(room.clone(), 0, None);
    let expected = [up(PEER, 0), ended(PEER, 0, 1, &[]), room];
    assert_eq!(drain(&mut events, 0), expected);
}

/// Of each state the newest event stays, whatever a peer does in one session.
#[test]
fn f04_of_each_state_the_newest_event_stays() {
    let (node, by) = (PEER, Side::There);
    let mut events = Events::default();
    for session in 0..1_000 {
        events.push(up(node, session), 0, None);
        events.push(Event::Quiet { node }, 0, None);
        events.push(Event::Suspended { node, by }, 0, None);
        events.push(Event::Resumed { node, by }, 0, None);
    }
    assert!(events.len_of(PEER) <= 2);
}

/// Nodes that come, end and are forgotten.
#[test]
fn f04_events_of_forgotten_nodes_are_dropped_when_they_are_many() {
    let mut events = Events::default();
    for node in 0..1_000 {
        events.push(ended(NodeId(node), 0, 1, &[]), 0, Some(7));
        events.push(up(NodeId(node), 1), 0, None);
        events.forget(100, |node| node < NodeId(10));
        assert!(events.nodes.len() <= 100);
    }
    events.forget(10, |node| node < NodeId(10));
    let sizes = (events.nodes.len(), events.held.len(), events.free.len());
    assert_eq!(sizes, (10, 10, 0));
}
