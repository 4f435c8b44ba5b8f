//! Programs that do not take their events (F04).

use super::*;
use crate::error::SendError;
use crate::peer::MAX_UNREAD;
use crate::{EndReason, RefusedReason};

fn ends(events: &[Event]) -> Vec<EndReason> {
    let ends = events.iter().filter_map(|event| match event {
        Event::Ended { reason, .. } => Some(*reason),
        _ => None,
    });
    ends.collect()
}

/// The numbers of sessions and of outcomes in each Ended event.
fn told(events: &[Event]) -> Vec<(u32, usize)> {
    let ends = events.iter().filter_map(|event| match event {
        Event::Ended {
            sessions, outcomes, ..
        } => Some((*sessions, outcomes.len())),
        _ => None,
    });
    ends.collect()
}

/// Peer 1 opens a session, sends, and closes, for ever. The program receives and takes no events:
/// it serves every session, and only one Ended event waits for it.
#[test]
fn f04_a_program_that_takes_no_events_serves_a_peer_that_comes_for_ever() {
    const ROUNDS: u32 = 100;
    let mut world = World::new(3);
    for round in 0..ROUNDS {
        world.send(1, 0).unwrap();
        world.run(SECOND / 10);
        assert_eq!(world.received(0), 1, "round {round}");
        world.send(0, 1).unwrap();
        world.run(SECOND / 10);
        assert_eq!(world.received(1), 1, "round {round}");
        let now = world.now;
        world.engines[1].close_peer(now, id(0), SECOND).unwrap();
        world.run(2 * SECOND);
        assert!(world.peer(0, 1).events.ends() <= 1);
        world.events(1);
    }
    world.send(2, 0).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(0), 1, "of another peer");
    let heard = world.events(0);
    assert_eq!(told(&heard), [(ROUNDS, 0)]);
    assert_eq!(ends(&heard), [EndReason::Closed]);
    let links = |e: &&Event| matches!(e, Event::Up { .. } | Event::Lost { .. });
    assert_eq!(heard.iter().filter(links).count(), 2, "one of each peer");
}

/// As before, but this program opens the sessions, and its peer restarts again and again.
#[test]
fn f04_a_program_that_takes_no_events_opens_sessions_for_ever() {
    let mut world = World::new(2);
    for round in 0..20 {
        world.send(0, 1).unwrap();
        world.run(SECOND);
        assert_eq!(world.received(1), 1, "round {round}");
        let now = world.now;
        world.engines[0].reset(now, id(1)).unwrap();
        world.run(SECOND);
    }
    assert_eq!(ends(&world.events(0)), [EndReason::Reset]);
}

/// A peer whose messages of four sessions are unread is refused, with the reason. Once the program
/// receives, the peer may connect again: its messages come in order, each with its session, and the
/// ends between them.
#[test]
fn f04_a_peer_that_leaves_unread_messages_waits_for_the_program() {
    let mut world = World::new(3);
    let mut heard = Vec::new();
    let mut left = 0;
    for _ in 0..12 {
        let _ = world.send(1, 0);
        world.run(SECOND);
        left += usize::from(world.engines[1].queue_len(id(0)).0 == 0);
        let now = world.now;
        world.engines[1].close_peer(now, id(0), SECOND).unwrap();
        world.run(2 * SECOND);
        heard.extend(world.events(1));
    }
    let refused = Event::Refused {
        node: id(0),
        reason: RefusedReason::Unread,
    };
    assert!(heard.contains(&refused));
    assert_eq!(left, MAX_UNREAD);
    world.send(1, 0).unwrap();
    world.run(2 * SECOND);
    world.send(2, 0).unwrap();
    world.run(SECOND);
    let unread = world.send(0, 1).unwrap_err();
    assert!(matches!(unread, SendError::Unread(_)), "{unread}");

    let engine = &mut world.engines[0];
    let mut sessions = Vec::new();
    loop {
        let events: Vec<_> = core::iter::from_fn(|| engine.poll_event()).collect();
        sessions.extend(
            events
                .iter()
                .filter(|e| e.node() == id(1))
                .filter_map(|e| match e {
                    Event::Ended { session, .. } => Some((*session, "ended")),
                    _ => None,
                }),
        );
        let Some((from, _)) = engine.recv() else {
            break;
        };
        if from.node == id(1) {
            sessions.push((from.session, "message"));
        }
    }
    let expected = (0..4).flat_map(|n| ["message", "ended"].map(|what| (SessionNumber(n), what)));
    assert_eq!(sessions, expected.collect::<Vec<_>>());
    world.run(3 * SECOND);
    assert_eq!(world.received(0), 1, "the peer that waited");
    world.send(0, 1).unwrap();
}

/// A connection that was asked for while too many sessions were unread is made once a message is
/// received, without anything else happening.
#[test]
fn f04_an_opening_that_waited_goes_on_when_messages_are_received() {
    let mut world = World::new(2);
    for _ in 0..MAX_UNREAD {
        world.send(1, 0).unwrap();
        world.run(SECOND);
        let now = world.now;
        world.engines[0].reset(now, id(1)).unwrap();
        world.run(SECOND);
        world.events(1);
    }
    let now = world.now;
    world.engines[0].connect(now, id(1)).unwrap();
    let before = world.seen.len();
    world.run(5 * SECOND);
    let mine = |p: &Packet| p.from == 0 && p.is(PacketType::Hello);
    assert!(!world.seen[before..].iter().any(mine));
    assert!(
        world.engines[0].next_timeout().is_none(),
        "nothing to wake up for"
    );
    assert!(world.engines[0].recv().is_some());
    assert!(
        world.engines[0]
            .next_timeout()
            .is_some_and(|at| at <= world.now)
    );
    world.run(SECOND);
    assert_eq!(world.peer(0, 1).life.link(), crate::LinkState::Up);
}

/// A table of strangers whose events the program does not take does not stay full: new ones are
/// served, one after the other.
#[test]
fn f02_f04_a_program_that_takes_no_events_serves_strangers_without_end() {
    const PLACES: usize = 2;
    let mut world = super::strangers::one_server(3 * PLACES + 1, PLACES, BUFFER);
    for host in 1..=3 * PLACES {
        world.send(host, 0).unwrap();
        world.run(3 * SECOND);
        assert_eq!(world.received(0), 1, "host {host}");
        let now = world.now;
        world.engines[host].close_peer(now, id(0), SECOND).unwrap();
        // A stranger is kept for as long as its cookie is valid.
        world.run(16 * SECOND);
        assert!(world.engines[0].peer_count() <= PLACES);
    }
    let heard = world.events(0);
    assert!(told(&heard).len() <= PLACES, "{heard:?}");
}

/// When an end merges with the one before, the outcomes of messages sent with `notify` stay. A
/// flush that reported failures does not report them again, whether the program takes their events
/// or not.
#[test]
fn f04_merged_ends_keep_the_outcomes_that_were_asked_for() {
    let mut world = World::new(2);
    let failed = |world: &World| world.engines[0].untold_failures(id(1));
    for round in 0..10 {
        let notified = Outgoing {
            notify: true,
            token: round,
            ..message(b"notify")
        };
        let now = world.now;
        // No packet leaves before the session is given up.
        world.engines[0].send(now, id(1), message(b"x")).unwrap();
        world.engines[0].send(now, id(1), notified).unwrap();
        world.engines[0].reset(now, id(1)).unwrap();
    }
    assert_eq!(failed(&world), 20);
    world.engines[0].flush_failures();
    assert_eq!(failed(&world), 0);
    world.send(0, 1).unwrap();
    let now = world.now;
    world.engines[0].reset(now, id(1)).unwrap();
    assert_eq!(failed(&world), 1, "since the flush");
    let heard = world.events(0);
    // Both outcomes of the first session, one of each other.
    assert_eq!(told(&heard), [(11, 11)]);
    let [Event::Ended { outcomes, .. }] = &heard[..] else {
        panic!("{heard:?}");
    };
    let tokens: Vec<_> = outcomes.iter().map(|o| o.token).collect();
    assert_eq!(tokens, [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(failed(&world), 0);
}

/// A message that a peer announced in a session that is over cannot be answered any more.
#[test]
fn announcements_go_with_their_session_and_with_their_answer() {
    let mut world = World::new(2);
    let long = Outgoing {
        payload: Bytes::from(vec![0; 80 << 20]),
        ..message(b"")
    };
    let now = world.now;
    assert!(world.engines[0].send(now, id(1), long.clone()).is_ok());
    world.run(SECOND);
    assert_eq!(world.engines[1].announcements().count(), 1);
    assert!(world.engines[1].has_event());
    world.engines[1].refuse(id(0), ChannelId(0), 0, 5).unwrap();
    assert_eq!(world.engines[1].announcements().count(), 0);
    world.run(SECOND);
    assert_eq!(world.events(1), [up(0, 0)]);
    let taken = world.events(0).pop();
    assert!(matches!(taken, Some(Event::NotDelivered { reason: 5, .. })));
    assert!(world.engines[0].send(now, id(1), long).is_ok());
    world.run(SECOND);
    let now = world.now;
    world.engines[0].reset(now, id(1)).unwrap();
    world.engines[1].reset(now, id(0)).unwrap();
    let told = world.events(1);
    assert_eq!(ends(&told), [EndReason::Reset]);
    assert_eq!(told.len(), 1, "{told:?}");
}

/// The suspension of a session that never began ends with that session, and the program is told.
#[test]
fn a_suspension_without_a_session_ends_with_an_event() {
    let mut world = World::new(2);
    let (node, by) = (id(1), crate::event::Side::Here);
    let now = world.now;
    let give_up = |world: &mut World| {
        world.engines[0].connect(now, node).unwrap();
        world.engines[0].reset(now, node).unwrap();
        world.events(0)
    };
    assert_eq!(give_up(&mut world), []);
    world.engines[0].suspend(node).unwrap();
    assert_eq!(world.events(0), [Event::Suspended { node, by }]);
    assert_eq!(give_up(&mut world), [Event::Resumed { node, by }]);
    assert_eq!(world.engines[0].suspended_by(node), None);
    assert_eq!(give_up(&mut world), [], "once");
}

/// A stranger for which the program changed a setting is not forgotten.
#[test]
fn f02_a_stranger_with_options_is_not_forgotten() {
    use crate::{ControllerChoice, Decision, Observation, Priority, Steer};
    struct Never;
    impl Steer for Never {
        fn steer(&mut self, _: &Observation) -> Decision {
            Decision::default()
        }
    }
    type Wish = fn(&mut Engine, NodeId, Instant);
    let wishes: [Wish; 11] = [
        |e, node, now| {
            e.change_options(now, node, |o| o.silence_timeout = SECOND)
                .unwrap()
        },
        |e, node, now| {
            e.change_options(now, node, |o| o.give_up_after = 400 * SECOND)
                .unwrap()
        },
        |e, node, now| {
            e.change_options(now, node, |o| o.keep_alive = true)
                .unwrap()
        },
        |e, node, now| {
            e.change_options(now, node, |o| o.mode = Mode::Throughput)
                .unwrap()
        },
        |e, node, now| {
            let urgent = Priority::new(2, 16).unwrap();
            e.change_options(now, node, |o| o.priority = urgent)
                .unwrap();
        },
        |e, node, _| {
            let urgent = Priority::new(2, 16).unwrap();
            e.set_channel_priority(node, ChannelId(0), urgent).unwrap();
        },
        |e, node, now| assert!(e.steer(now, node, Some(Box::new(Never)))),
        |e, node, now| {
            e.change_options(now, node, |o| o.manual_retransmission = true)
                .unwrap()
        },
        |e, node, now| {
            e.change_options(now, node, |o| o.rate_cap = Some(1))
                .unwrap()
        },
        |e, node, now| {
            e.change_options(now, node, |o| o.controller = ControllerChoice::Cubic)
                .unwrap()
        },
        |_, _, _| {},
    ];
    let count = wishes.len();
    for (at, wish) in wishes.into_iter().enumerate() {
        let mut world = World::new(1);
        let now = world.now;
        let engine = &mut world.engines[0];
        engine.insert_stranger(now, id(5), address(5).ip());
        wish(engine, id(5), now);
        world.settle();
        let engine = &mut world.engines[0];
        engine.forget_strangers(now + 100 * SECOND);
        assert_eq!(
            engine.peer_count(),
            usize::from(at + 1 < count),
            "wish {at}"
        );
    }
}

/// A member that joins and fails for ever leaves a program that takes no events the last two
/// changes, and the end of the member that it knew.
#[test]
fn f04_changes_of_members_wait_in_bounded_number() {
    use crate::MemberChange::{Failed, Joined, Left};
    let mut world = World::new(2);
    let node = id(1);
    let about_members = |world: &mut World| -> Vec<Event> {
        let mut events = world.events(0);
        events.retain(|event| !matches!(event, Event::Up { .. } | Event::Ended { .. }));
        events
    };
    world.engines[0].report_member(node, Joined);
    assert_eq!(about_members(&mut world), [Event::MemberJoined { node }]);
    for round in 0..10 {
        world.engines[0].report_member(node, Failed);
        world.engines[0].report_member(node, Joined);
        if round % 3 == 0 {
            // Ends of sessions between them change nothing.
            world.send(1, 0).unwrap();
            world.run(SECOND / 10);
            assert_eq!(world.received(0), 1);
            let now = world.now;
            world.engines[1].close_peer(now, id(0), SECOND).unwrap();
            world.run(2 * SECOND);
        }
    }
    world.engines[0].report_member(node, Left);
    let told = about_members(&mut world);
    assert!(told.len() <= 6, "{told:?}");
    assert_eq!(told.first(), Some(&Event::MemberFailed { node }));
    assert_eq!(told.last(), Some(&Event::MemberLeft { node }));
    // It had left already when it was thought to have failed.
    for change in [Joined, Failed, Left, Left] {
        world.engines[0].report_member(node, change);
    }
    let expected = [Event::MemberJoined { node }, Event::MemberLeft { node }];
    assert_eq!(about_members(&mut world), expected);
}
