//! Programs that do not take their events (F04).

use super::*;
use crate::peer::MAX_ENDS;
use crate::{EndReason, RefusedReason};

fn ends(events: &[Event]) -> Vec<EndReason> {
    let ends = events.iter().filter_map(|event| match event {
        Event::Ended { reason, .. } => Some(*reason),
        _ => None,
    });
    ends.collect()
}

/// Peer 1 opens and closes sessions with a program that takes messages but no events. After a few it is
/// refused and waits; another peer notices nothing; no end is forgotten.
#[test]
fn f04_a_peer_that_opens_and_closes_waits_for_a_program_that_takes_no_events() {
    let mut world = World::new(3);
    let mut sessions = 0;
    let mut heard = Vec::new();
    for round in 0..12 {
        let _ = world.send(1, 0);
        world.run(SECOND);
        let served = world.received(0) == 1;
        assert_eq!(served, round < MAX_ENDS, "round {round}");
        sessions += usize::from(served);
        let now = world.now;
        world.engines[1].close_peer(now, id(0), SECOND).unwrap();
        world.run(2 * SECOND);
        heard.extend(world.events(1));
    }
    let refused = Event::Refused {
        node: id(0),
        reason: RefusedReason::Full,
    };
    assert!(heard.contains(&refused));
    world.send(1, 0).unwrap();
    world.run(2 * SECOND);
    world.send(2, 0).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(0), 1, "of another peer");

    let told = world.events(0);
    assert_eq!(ends(&told), vec![EndReason::Closed; sessions]);
    world.run(3 * SECOND);
    assert_eq!(world.received(0), 1, "the peer that waited");
    assert!(ends(&world.events(0)).is_empty());
}

/// The same from the other side: this program opens the sessions, its peer starts again and again.
#[test]
fn f04_a_peer_that_restarts_is_opened_again_only_when_its_ends_were_heard() {
    let mut world = World::new(2);
    let mut accepted = 0;
    for _ in 0..12 {
        match world.send(0, 1) {
            Ok(_) => accepted += 1,
            Err(SendError::WouldBlock(_)) => break,
            Err(error) => panic!("{error}"),
        }
        world.run(30 * SECOND);
        world.restart(1);
        // Whoever starts anew is noticed by what it does not know.
        let _ = world.send(0, 1);
        world.run(30 * SECOND);
    }
    assert!(matches!(world.send(0, 1), Err(SendError::WouldBlock(_))));
    assert!(accepted >= 2, "{accepted}");
    let before = world.seen.len();
    world.run(30 * SECOND);
    let calls = world.seen.split_off(before);
    assert!(!calls.iter().any(|p| p.is(PacketType::Hello) && p.from == 0));

    let told = ends(&world.events(0));
    assert_eq!(told.len(), MAX_ENDS);
    world.send(0, 1).unwrap();
    world.run(2 * SECOND);
    assert_eq!(world.received(1), 1);
}

/// A connection that was asked for while too many ends were unheard is made once they are heard, without
/// anything else happening.
#[test]
fn f04_an_opening_that_waited_goes_on_when_events_are_taken() {
    let mut world = World::new(2);
    for _ in 0..MAX_ENDS {
        world.send(0, 1).unwrap();
        world.run(SECOND);
        let now = world.now;
        world.engines[0].abandon(now, id(1)).unwrap();
        world.run(SECOND);
        world.received(1);
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
    assert_eq!(ends(&world.events(0)), [EndReason::Abandoned; MAX_ENDS]);
    assert!(
        world.engines[0]
            .next_timeout()
            .is_some_and(|at| at <= world.now)
    );
    world.run(SECOND);
    assert_eq!(world.peer(0, 1).life.link(), crate::Link::Up);
}

/// What a peer announced in a session that is over cannot be answered any more.
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
    world.engines[0].abandon(now, id(1)).unwrap();
    world.engines[1].abandon(now, id(0)).unwrap();
    let told = world.events(1);
    assert_eq!(ends(&told), [EndReason::Abandoned]);
    assert_eq!(told.len(), 1, "{told:?}");
}

/// The suspension of a session that never began ends with it, and the program hears of that.
#[test]
fn a_suspension_without_a_session_ends_with_a_word() {
    let mut world = World::new(2);
    let (node, by) = (id(1), crate::event::Side::Here);
    let now = world.now;
    let give_up = |world: &mut World| {
        world.engines[0].connect(now, node).unwrap();
        world.engines[0].abandon(now, node).unwrap();
        world.events(0)
    };
    assert_eq!(give_up(&mut world), []);
    world.engines[0].suspend(node).unwrap();
    assert_eq!(world.events(0), [Event::Suspended { node, by }]);
    assert_eq!(give_up(&mut world), [Event::Resumed { node, by }]);
    assert_eq!(world.engines[0].suspended_by(node), None);
    assert_eq!(give_up(&mut world), [], "once");
}

/// What the program said about a stranger keeps it from being forgotten.
#[test]
fn f02_a_stranger_of_whom_the_program_said_something_is_not_forgotten() {
    use crate::{ControllerChoice, Decision, Observation, Priority, Steer};
    struct Never;
    impl Steer for Never {
        fn steer(&mut self, _: &Observation) -> Decision {
            Decision::default()
        }
    }
    type Wish = fn(&mut Engine, NodeId, Instant);
    let wishes: [Wish; 11] = [
        |e, node, _| e.set_patience(node, SECOND, 300 * SECOND).unwrap(),
        |e, node, _| e.set_patience(node, 10 * SECOND, 400 * SECOND).unwrap(),
        |e, node, _| e.watch(node, true).unwrap(),
        |e, node, now| e.prefer(now, node, Mode::Throughput).unwrap(),
        |e, node, _| {
            let urgent = Priority::new(2, 16).unwrap();
            e.set_priority(node, urgent).unwrap();
        },
        |e, node, _| {
            let urgent = Priority::new(2, 16).unwrap();
            e.set_channel_priority(node, ChannelId(0), urgent).unwrap();
        },
        |e, node, now| assert!(e.steer(now, node, Some(Box::new(Never)))),
        |e, node, _| assert!(e.set_manual(node, true)),
        |e, node, now| assert!(e.set_rate_cap(now, node, Some(1))),
        |e, node, _| assert!(e.set_controller(node, ControllerChoice::Cubic)),
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
