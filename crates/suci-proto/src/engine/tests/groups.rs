//! Messages of groups: apart from the program's, and there for their group whatever the program
//! does.

use super::strangers::one_server;
use super::*;
use crate::counters::LinkState;
use crate::event::EndReason;

const CHANNEL: ChannelId = ChannelId::of_group(5);

fn of_group(payload: &'static [u8]) -> Outgoing {
    Outgoing {
        channel: CHANNEL,
        ..message(payload)
    }
}

fn send(world: &mut World, from: usize, to: usize, payload: &'static [u8]) {
    let sent = world.engines[from].send(world.now, id(to), of_group(payload));
    sent.unwrap();
}

/// The payloads of the messages for the group that `host` can take from `other`.
fn taken(world: &mut World, host: usize, other: usize) -> Vec<Vec<u8>> {
    let engine = &mut world.engines[host];
    let next = || engine.recv_of_group(id(other), CHANNEL);
    let payloads = core::iter::from_fn(next).map(|(_, message)| message.payload.to_vec());
    payloads.collect()
}

#[test]
fn messages_of_a_group_come_in_order_and_to_the_group_alone() {
    let mut world = connected();
    send(&mut world, 0, 1, b"one");
    world.send(0, 1).unwrap();
    send(&mut world, 0, 1, b"two");
    world.run(SECOND);
    assert!(world.engines[1].has_group_message());
    let other = ChannelId::of_group(6);
    assert!(world.engines[1].recv_of_group(id(0), other).is_none());
    assert_eq!(world.received(1), 1, "the program's");
    assert_eq!(taken(&mut world, 1, 0), [b"one", b"two"]);
    assert!(!world.engines[1].has_group_message());
}

/// A member that is ahead waits for memory, as any sender does.
#[test]
fn f04_untaken_messages_of_a_group_hold_their_sender_back() {
    const MEMORY: u64 = 2 << 20;
    let mut world = World::new(2);
    let config = Config {
        memory: MEMORY,
        max_message: MEMORY / 2,
        ..Config::default()
    };
    world.set_up_server(0, BUFFER, config);
    for _ in 0..60 {
        send(&mut world, 1, 0, &[7; 60_000]);
        world.settle();
    }
    world.run(SECOND);
    let held = world.peer(0, 1).memory_used();
    assert!(held <= MEMORY, "{held}");
    assert!(world.engines[1].queue_len(id(0)).0 > 20, "some wait there");
    let large = world.peer(0, 1).session.promise.large;
    assert_eq!(large, 0, "no group asked for the messages that wait");
    let mut came = 0;
    for _ in 0..200 {
        came += taken(&mut world, 0, 1).len();
        world.run(SECOND / 10);
    }
    assert_eq!(came, 60);
}

/// An operation would wait for ever: its program takes no message before it ends.
#[test]
fn f19_messages_of_a_group_pass_while_unread_messages_fill_the_session() {
    let mut world = World::new(2);
    let config = Config {
        memory: 1 << 20,
        max_message: 1 << 16,
        ..Config::default()
    };
    world.set_up_server(0, BUFFER, config);
    for _ in 0..400 {
        for channel in 0..4 {
            let stuffing = Outgoing {
                channel: ChannelId(channel),
                ..message(&[3; 900])
            };
            let now = world.now;
            world.engines[1].send(now, id(0), stuffing).unwrap();
        }
    }
    world.run(SECOND);
    assert!(world.engines[1].queue_len(id(0)).0 > 0, "no credit is left");
    // Each fills much of the reserve, or asks.
    for round in 0..60 {
        const LONG: [u8; 4_000] = [7; 4_000];
        send(&mut world, 1, 0, [&[], &LONG[..2_000], &LONG][round % 3]);
        let mut came = 0;
        for _ in 0..10 {
            world.run(SECOND / 100);
            came += taken(&mut world, 0, 1).len();
        }
        assert_eq!(came, 1, "{round}");
    }
}

/// The program that takes the messages of one group may wait for an operation of another first.
#[test]
fn f19_messages_of_a_group_pass_while_those_of_others_wait() {
    let mut world = World::new(2);
    let config = Config {
        memory: 1 << 20,
        max_message: 1 << 16,
        ..Config::default()
    };
    world.set_up_server(0, BUFFER, config);
    for _ in 0..400 {
        for group in [6, 7, 8] {
            let unread = Outgoing {
                channel: ChannelId::of_group(group),
                ..message(&[3; 900])
            };
            let now = world.now;
            world.engines[1].send(now, id(0), unread).unwrap();
        }
    }
    world.run(SECOND);
    for round in 0..60 {
        const LONG: [u8; 4_000] = [7; 4_000];
        send(&mut world, 1, 0, [&[], &LONG[..2_000], &LONG][round % 3]);
        let mut came = 0;
        for _ in 0..10 {
            world.run(SECOND / 100);
            came += taken(&mut world, 0, 1).len();
        }
        assert_eq!(came, 1, "{round}");
    }
    assert!(world.engines[1].queue_len(id(0)).0 > 1_000, "of the others");
}

/// Two groups with the same members would wait for each other for ever: at each member the queue is
/// full of messages that the other member takes only after one of the other group.
#[test]
fn f19_messages_of_a_group_have_room_in_a_queue_that_others_fill() {
    static LONG: [u8; 62_000] = [3; 62_000];
    for others in [ChannelId::of_group(6), ChannelId(0)] {
        let config = || Config {
            memory: 1 << 20,
            max_message: 1 << 16,
            send_queue: 1 << 16,
            rts_threshold: 1 << 12,
            ..Config::default()
        };
        let mut world = World::new(2);
        world.set_up_server(0, BUFFER, config());
        world.set_up_server(1, BUFFER, config());
        let now = world.now;
        world.engines[1].add_peer(now, id(0), address(0)).unwrap();
        let offer = |world: &mut World, channel, payload: &'static [u8]| {
            let unread = Outgoing {
                channel,
                ..message(payload)
            };
            let now = world.now;
            world.engines[1].send(now, id(0), unread).is_ok()
        };
        for _ in 0..60 {
            offer(&mut world, others, &LONG);
            world.run(SECOND / 50);
        }
        world.run(SECOND);
        let is_full = !offer(&mut world, others, &LONG);
        assert!(is_full, "{others:?}");
        for round in 0..10 {
            assert!(
                offer(&mut world, CHANNEL, &LONG[..4_000]),
                "{others:?} {round}"
            );
            assert!(
                !offer(&mut world, CHANNEL, &LONG[..4_000]),
                "no more than one"
            );
            let mut came = 0;
            for _ in 0..10 {
                came += taken(&mut world, 0, 1).len();
                world.run(SECOND / 100);
            }
            assert_eq!(came, 1, "{others:?} {round}");
        }
    }
}

/// Nothing else would answer an announced message of a group that is over: it would fill its
/// sender's queue until the session ends.
#[test]
fn f04_announced_messages_of_a_group_that_is_over_are_refused() {
    const MEMORY: u64 = 2 << 20;
    let mut world = World::new(2);
    let config = Config {
        memory: MEMORY,
        max_message: MEMORY / 2,
        rts_threshold: 1 << 12,
        ..Config::default()
    };
    world.set_up_server(0, BUFFER, config);
    let announced = |world: &mut World| {
        send(world, 1, 0, &[7; 60_000]);
        send(world, 1, 0, b"behind it");
        world.run(SECOND);
        world.engines[1].queue_len(id(0)).0
    };
    assert!(announced(&mut world) > 0, "no group asked for it");
    world.engines[0].end_group(CHANNEL);
    world.run(SECOND);
    assert_eq!(world.engines[1].queue_len(id(0)).0, 0);
    assert_eq!(announced(&mut world), 0);
    assert_eq!(world.peer(0, 1).memory_used(), 0);
    let about_it = |event: &Event| matches!(event, Event::NotDelivered { .. });
    let events = world.events(1);
    assert!(!events.iter().any(about_it), "the program did not send it");
}

#[test]
fn messages_of_a_group_outlast_their_session_and_its_end_is_told() {
    let mut world = connected();
    world.events(1);
    let free = world.engines[1].shared.memory.take().unwrap();
    let before = free.window;
    world.engines[1].shared.memory.release(free);
    send(&mut world, 0, 1, b"last");
    world.run(SECOND);
    let now = world.now;
    world.engines[0].close(now, SECOND);
    world.run(SECOND);
    let ended = |event: &Event| matches!(event, Event::Ended { reason, .. } if *reason == EndReason::Closed);
    assert!(world.events(1).iter().any(ended));
    assert!(!is_idle(&mut world));
    assert_eq!(taken(&mut world, 1, 0), [b"last"]);
    let state = world.engines[1].member_state(id(0)).unwrap();
    assert_eq!(state.last_end, Some(EndReason::Closed));
    // Its memory is free again.
    let after = world.engines[1].shared.memory.take().unwrap();
    assert!(after.window >= before);
}

fn is_idle(world: &mut World) -> bool {
    let key = world.engines[1].peer_key(id(0)).unwrap();
    world.engines[1].peers.active(key).is_none()
}

/// They would keep its state for ever, since no group has it for a member.
#[test]
fn f04_a_strangers_messages_for_a_group_end_with_its_session() {
    let mut world = one_server(2, 8, BUFFER);
    send(&mut world, 1, 0, b"hello");
    world.run(SECOND);
    assert!(world.engines[0].has_group_message());
    let now = world.now;
    world.engines[1].close(now, SECOND);
    world.run(SECOND);
    assert!(taken(&mut world, 0, 1).is_empty());
    assert!(!world.engines[0].has_group_message());
}

#[test]
fn f17_an_awaited_member_is_lost_within_the_silence_timeout() {
    for awaited in [false, true] {
        let mut world = connected();
        world.events(1);
        world.run(30 * SECOND);
        let now = world.now;
        world.engines[1].await_member(now, id(0), awaited);
        // The other process is gone.
        let gone = world.start(5, 0, BUFFER);
        world.engines[0] = gone;
        for _ in 0..1_250 {
            world.now += SECOND / 100;
            world.engines[1].begin_cycle(world.now);
            world.engines[1].handle_timeout(world.now);
            world.outgoing(1);
        }
        let state = world.engines[1].member_state(id(0)).unwrap();
        assert_eq!(state.link == LinkState::Lost, awaited);
    }
}

/// Nobody would take them, and they would hold memory until their session ends.
#[test]
fn messages_of_a_group_that_is_over_are_dropped_and_give_credit_back() {
    let mut world = connected();
    send(&mut world, 0, 1, b"before");
    world.run(SECOND);
    world.engines[1].end_group(CHANNEL);
    send(&mut world, 0, 1, b"after");
    world.run(SECOND);
    assert!(!world.engines[1].has_group_message());
    assert!(taken(&mut world, 1, 0).is_empty());
    assert_eq!(world.peer(1, 0).memory_used(), 0);
}
