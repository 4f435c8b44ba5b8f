//! Idle peers: when a peer becomes idle, what activates it, and that nothing else changes.

use super::hostile::hello;
use super::*;
use crate::LinkState;
use crate::event::EndReason;

/// Longer than any grant lasts.
const LONG: Duration = Duration::from_secs(25);

/// Two hosts that exchanged messages and are idle since.
fn idle() -> World {
    let mut world = World::new(2);
    for round in 0..3 {
        for (from, to) in [(0, 1), (1, 0)] {
            assert_eq!(world.send(from, to).unwrap(), round);
            world.run(Duration::from_millis(20));
            assert_eq!(world.received(to), 1);
        }
    }
    while world.engines.iter_mut().any(|e| e.poll_event().is_some()) {}
    assert!(!is_idle(&world, 0, 1), "its grant is good for a while");
    world.run(LONG);
    assert!(is_idle(&world, 0, 1) && is_idle(&world, 1, 0));
    world
}

pub(super) fn is_idle(world: &World, host: usize, other: usize) -> bool {
    let engine = &world.engines[host];
    let key = engine.peer_key(id(other)).unwrap();
    engine.peers.get(key).is_some() && engine.peers.active(key).is_none()
}

#[test]
fn an_idle_peer_is_seen_as_before_and_goes_on() {
    let mut world = idle();
    let stats = world.engines[0].peer_stats(id(1)).unwrap();
    assert_eq!(stats.link, LinkState::Up);
    assert_eq!(stats.traffic.messages_sent, 3);
    assert_eq!(world.engines[0].delivered(id(1), ChannelId(0)), 3);
    assert!(is_idle(&world, 0, 1), "looked at");
    let index = |world: &World| {
        let key = world.engines[0].peer_key(id(1)).unwrap();
        let peer = world.engines[0].peers.get(key).unwrap();
        peer.connection.as_ref().unwrap().link.local.index
    };
    let before = index(&world);
    for (from, to) in [(0, 1), (1, 0)] {
        assert_eq!(world.send(from, to).unwrap(), 3, "its session goes on");
        assert!(!is_idle(&world, from, to));
        world.run(Duration::from_millis(20));
        assert_eq!(world.received(to), 1);
    }
    assert_eq!(index(&world), before, "and its connection");
    while world.engines.iter_mut().any(|e| e.poll_event().is_some()) {}
    world.run(LONG);
    assert!(is_idle(&world, 0, 1) && is_idle(&world, 1, 0), "again");
}

#[test]
fn f10_packets_from_before_idleness_are_duplicates_after_it() {
    let mut world = idle();
    let old = world.seen.clone();
    let data = |p: &&Packet| p.to == 0 && p.is(PacketType::Data);
    let before = world.engines[0].counters().duplicates;
    for packet in old.iter().filter(data) {
        world.deliver(packet);
    }
    let count = old.iter().filter(data).count() as u64;
    assert!(count >= 3);
    assert_eq!(world.engines[0].counters().duplicates, before + count);
    assert_eq!(world.received(0), 0);
    world.settle();
    assert!(is_idle(&world, 0, 1), "and it stays idle");
}

#[test]
fn f08_a_packet_with_a_wrong_tag_activates_no_peer() {
    let mut world = idle();
    let engine = &mut world.engines[0];
    let key = engine.peer_key(id(1)).unwrap();
    let end = engine
        .peers
        .get(key)
        .unwrap()
        .connection
        .as_ref()
        .unwrap()
        .link
        .local;
    for wrong in [1, 1 << 63] {
        let tag = end.tag ^ wrong;
        assert!(engine.peers.addressed(key, End { tag, ..end }).is_none());
    }
    assert!(is_idle(&world, 0, 1));
    assert!(world.engines[0].peers.addressed(key, end).is_some());
    assert!(!is_idle(&world, 0, 1));
}

#[test]
fn f04_a_hello_in_its_name_activates_no_peer() {
    let mut never_connected = World::new(2);
    for world in [&mut idle(), &mut never_connected] {
        world.deliver(&hello(1, 0, 7));
        assert!(is_idle(world, 0, 1));
    }
}

/// All these packets are answers, but an idle peer asked nothing.
#[test]
fn f04_answers_in_its_name_activate_no_peer() {
    let mut world = idle();
    let target = id(0);
    let peer_incarnation = world.engines[0].shared.identity.incarnation;
    let incarnation = world.engines[1].shared.identity.incarnation;
    let cookie = wire::Cookie {
        target,
        incarnation,
        cookie: [7; 24],
        epoch: Default::default(),
    };
    let refused = wire::Refused {
        target,
        incarnation,
        code: wire::RefusedCode::NoSocketCredit,
    };
    let accept = wire::Accept {
        target,
        incarnation,
        peer_incarnation,
        epoch: Default::default(),
        index: 1,
        tag: 2,
        grant: wire::Credit {
            generation: 0,
            limit: 0,
            control: 0,
            memory: 0,
        },
        params: wire::Params::default(),
    };
    type Body<'a> = &'a dyn Fn(&mut Vec<u8>);
    let bodies: [(PacketType, Body<'_>); 4] = [
        (PacketType::Unknown, &|_| {}),
        (PacketType::Cookie, &|b| cookie.put(b)),
        (PacketType::Refused, &|b| refused.put(b)),
        (PacketType::Accept, &|b| accept.put(b)),
    ];
    for (kind, body) in bodies {
        let mut forged = hello(1, 0, 7);
        let header = Header {
            kind,
            ..forged.header()
        };
        forged.bytes.clear();
        wire::put_header(&mut forged.bytes, &header);
        body(&mut forged.bytes);
        wire::seal(&mut forged.bytes);
        world.deliver(&forged);
        assert!(is_idle(&world, 0, 1), "{kind:?}");
    }
    assert_eq!(world.engines[0].counters().handshake_rejected, 4);
}

#[test]
fn f04_a_peer_activated_without_cause_becomes_idle_again() {
    let mut world = idle();
    let _ = world.peer(0, 1);
    assert!(!is_idle(&world, 0, 1));
    world.settle();
    assert!(is_idle(&world, 0, 1));
}

#[test]
fn f16_time_that_passed_undrained_activates_no_peer() {
    let mut world = idle();
    world.now += Duration::from_secs(3_600);
    let (now, engine) = (world.now, &mut world.engines[0]);
    let gaps = engine.counters().gaps;
    engine.expected = Some(engine.last_run);
    engine.begin_cycle(now);
    assert_eq!(engine.counters().gaps, gaps + 1);
    assert!(is_idle(&world, 0, 1));
}

#[test]
fn an_idle_peer_is_told_of_the_close() {
    let mut world = idle();
    let now = world.now;
    world.engines[0].close(now, SECOND);
    world.run(SECOND);
    for (host, expected) in [(0, EndReason::ClosedHere), (1, EndReason::Closed)] {
        let events = core::iter::from_fn(|| world.engines[host].poll_event());
        let ended = |e: &Event| matches!(e, Event::Ended { reason, .. } if *reason == expected);
        assert_eq!(events.filter(ended).count(), 1);
    }
    assert!(world.engines[0].is_closed());
}

#[test]
fn a_node_of_the_book_that_was_never_needed_is_idle() {
    let world = World::new(2);
    assert!(is_idle(&world, 0, 1));
}
