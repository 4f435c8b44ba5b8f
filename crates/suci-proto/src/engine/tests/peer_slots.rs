//! More peers than slots in the socket's budget.

use super::hostile::hello;
use super::*;
use crate::event::EndReason;
use crate::handshake::{Claim, InitRoom, Trust};
use suci_link::limits::MIN_MTU;
use suci_link::types::ProtocolError;

/// A world whose first host has `slots` slots.
fn narrow(slots: u64, peers: usize) -> World {
    let mut world = World::new(peers + 1);
    world.engines[0] = world.start(0, peers + 1, slots * 6_656);
    assert_eq!(world.engines[0].peer_limit(), slots);
    world
}

/// Connects the first peers, one after the other.
fn take_slots(world: &mut World, peers: usize) {
    for peer in 1..=peers {
        world.send(peer, 0).unwrap();
        world.run(SECOND);
    }
    assert_eq!(admitted(world, peers), peers);
}

/// Returns how many of the first `peers` peers have a slot that is not being taken away.
fn admitted(world: &mut World, peers: usize) -> usize {
    let connected = |peer: &usize| {
        let slot = &world.peer(0, *peer).connection;
        slot.as_ref().is_some_and(|c| !c.grant.is_dismissed())
    };
    (1..=peers).filter(connected).count()
}

/// F01, F02: a HELLO that finds no slot gets no answer, its repetitions get REFUSED, and COOKIE
/// once there is a slot: together no more bytes than it sent. Strangers that call without end get
/// no answer and take no turn of others. A COOKIE that is lost is sent again at once.
#[test]
fn f01_f02_a_hello_that_waits_hears_no_more_than_it_said() {
    let mut world = narrow(2, 3);
    take_slots(&mut world, 2);
    let call = hello(3, 0, 77);
    let (mut said, mut heard, mut kinds) = (0, 0, Vec::new());
    let mut flood = 0;
    while !kinds.contains(&PacketType::Cookie) {
        assert!(said < 40 * call.bytes.len(), "it waits for ever");
        world.deliver(&call);
        said += call.bytes.len();
        for _ in 0..20 {
            flood += 1;
            let mut packet = hello(10_000 + flood, 0, flood as u64);
            packet.from = 50;
            world.deliver(&packet);
        }
        world.now += Duration::from_millis(100);
        let now = world.now;
        world.engines[0].handle_timeout(now);
        for packet in world.outgoing(0) {
            match packet.to {
                3 => {
                    heard += packet.bytes.len();
                    kinds.push(packet.header().kind);
                }
                50 => assert!(
                    packet.is(PacketType::Cookie),
                    "no word that there is no room"
                ),
                _ => world.deliver(&packet),
            }
        }
        for admitted in 1..=2 {
            let answers = world.outgoing(admitted);
            answers.iter().for_each(|packet| world.deliver(packet));
        }
        assert!(heard <= said, "{heard} B for {said} B");
        let first = said == call.bytes.len();
        assert!(
            !first || kinds.is_empty(),
            "REFUSED and COOKIE would be longer"
        );
    }
    assert_ne!(kinds[0], PacketType::Cookie, "all slots were taken");
    // That COOKIE is lost.
    world.deliver(&call);
    let again = world.outgoing(0);
    let cookies = again
        .iter()
        .filter(|p| p.to == 3 && p.is(PacketType::Cookie));
    assert_eq!(
        cookies.count(),
        1,
        "answered before, it does not wait again"
    );
}

/// F01, F02: a stranger whose HELLO waits hears from the second one on that there is no room yet,
/// so that it does not take the node for lost.
#[test]
fn f01_f02_a_waiting_stranger_is_told_that_the_node_lives() {
    let mut world = narrow(2, 2);
    take_slots(&mut world, 2);
    let mut call = hello(9, 0, 77);
    call.from = 50;
    let mut heard = Vec::new();
    for _ in 0..3 {
        world.deliver(&call);
        let answers = world.outgoing(0);
        heard.push(answers.iter().any(|p| p.is(PacketType::Refused)));
        world.now += Duration::from_millis(300);
    }
    assert_eq!(heard, [false, true, true]);
}

/// F02: a known node that found no room and stopped calling keeps no stranger out.
#[test]
fn f02_a_known_node_that_calls_no_more_keeps_no_stranger_out() {
    let mut world = World::new(2);
    let nothing = InitRoom {
        packets: 0,
        slots: 0,
        strangers: 0,
    };
    let mut call = hello(9, 0, 77);
    call.from = 50;
    let engine = &mut world.engines[0];
    let claim = Claim {
        origin: address(1).into(),
        node: id(1),
        incarnation: Incarnation(7),
        token: 1,
    };
    let known = engine.cookie_key.caller(&claim, Trust::Known);
    assert!(!engine.pending_inits.admits(world.now, known, nothing));
    world.deliver(&call);
    let answers = world.outgoing(0);
    assert!(answers.iter().any(|p| p.is(PacketType::Cookie)));
}

/// More peers than slots, and all have something to say again and again: each is served in turn
/// within seconds, sessions go on, and no peer is lost.
#[test]
fn f31_more_peers_than_places_are_served_in_turn() {
    let peers = 12;
    let mut world = World::new(peers + 1);
    let slots = 5;
    let engine = world.start(0, peers + 1, slots * 6_656);
    world.engines[0] = engine;
    assert_eq!(world.engines[0].peer_limit(), slots);
    for round in 0..4 {
        for peer in 1..=peers {
            world.send(peer, 0).unwrap();
        }
        for second in 0.. {
            assert!(second < 30, "round {round}");
            world.run(SECOND);
            world.engines[0].shared.shares.check().unwrap();
            let waits = (1..=peers).any(|peer| !world.peer(peer, 0).session.outbox.is_empty());
            if !waits {
                break;
            }
        }
        assert_eq!(world.received(0), peers, "round {round}");
    }
    // Now this node asks for slots.
    for peer in 1..=peers {
        world.send(0, peer).unwrap();
    }
    world.run(20 * SECOND);
    for peer in 1..=peers {
        assert_eq!(world.received(peer), 1, "to {peer}");
    }
    for host in 0..=peers {
        let bad = |event: &Event| matches!(event, Event::Lost { .. } | Event::Ended { .. });
        assert!(!world.events(host).iter().any(bad), "host {host}");
    }
    // Once everything was sent, every node stops sending.
    world.run(5 * SECOND);
    let before = world.seen.len();
    world.run(10 * SECOND);
    let after = world.seen.len() - before;
    assert!(after < 40, "{after} packets");
}

/// Delivers HELLOs in the name of `nodes` from another address; then a tenth of a second passes.
fn forge(world: &mut World, nodes: core::ops::RangeInclusive<usize>, round: u64) {
    for node in nodes {
        let mut forged = hello(node, 0, 100 + round);
        forged.from = 50;
        world.deliver(&forged);
    }
    world.run(SECOND / 10);
}

/// F02: forged HELLOs in the name of nodes with a slot take no slot from a new peer.
#[test]
fn f02_hellos_in_the_name_of_those_with_a_slot_leave_the_last_one_to_a_newcomer() {
    let mut world = narrow(5, 5);
    take_slots(&mut world, 4);
    world.send(5, 0).unwrap();
    for tenth in 0..30 {
        forge(&mut world, 1..=4, tenth);
    }
    assert_eq!(admitted(&mut world, 5), 5);
    assert_eq!(world.received(0), 5);
}

/// F02: a HELLO proves nothing. An attacker with any number of names, at an address that is not
/// theirs, makes only one peer give up its slot, as a stranger would.
#[test]
fn f02_hellos_in_the_name_of_absent_nodes_do_not_empty_the_slots() {
    let mut world = narrow(5, 12);
    take_slots(&mut world, 5);
    for tenth in 0..50 {
        forge(&mut world, 6..=12, tenth);
        assert!(
            admitted(&mut world, 12) >= 4,
            "after {tenth} tenths of a second"
        );
    }
}

/// With small grants every packet carries a CREDIT: a message that only fits a packet without one
/// is cut.
#[test]
fn f21_a_message_of_nearly_a_packet_does_not_wait_for_a_packet_without_credit() {
    let mut world = World::new(2);
    for host in 0..2 {
        world.engines[host] = world.start(host, 2, 6_656);
    }
    for size in MIN_MTU - 60..=MIN_MTU {
        let draft = Outgoing {
            payload: Bytes::from(vec![1; size]),
            ..message(b"")
        };
        let now = world.now;
        world.engines[0].send(now, id(1), draft).unwrap();
        world.run(SECOND / 10);
        assert_eq!(world.received(1), 1, "{size} B");
    }
}

/// F02 and F17: HELLOs from a dead peer's address, which anybody can forge, are no sign of its
/// life, in both modes.
#[test]
fn f02_f17_hellos_in_the_name_of_a_dead_peer_do_not_delay_lost() {
    for sealed in [false, true] {
        let mut world = World::new(0);
        for host in 0..2 {
            if sealed {
                let security = world.cluster(&[1]);
                world.security.insert(host, security);
            }
            let engine = world.start(host, 2, BUFFER);
            world.engines.push(engine);
        }
        world.send(0, 1).unwrap();
        world.run(SECOND);
        world.events(0);
        // Its slot was given to others; then its process is gone.
        let now = world.now;
        let (key, engine) = (world.peer(0, 1).key, &mut world.engines[0]);
        engine.update(key, |peer, shared| peer.give_up_slot(now, shared));
        world.engines.truncate(1);
        world.send(0, 1).unwrap();
        let lost = |event: &Event| matches!(event, Event::Lost { .. });
        let mut seconds = 0;
        while !world.events(0).iter().any(lost) {
            assert!(seconds < 35, "sealed: {sealed}");
            seconds += 1;
            let mut forged = hello(1, 0, 1_000 + seconds);
            forged.from = 1;
            world.deliver(&forged);
            world.run(SECOND);
        }
    }
}

/// The peer's INIT arrived during our own attempt, and there is no room for it: our attempt
/// continues.
#[test]
fn f31_a_node_without_room_for_a_caller_still_calls_it() {
    let mut world = World::new(2);
    world.send(1, 0).unwrap();
    world.send(0, 1).unwrap();
    // HELLO; host 0's own packets are lost, except the COOKIE.
    let hello = world.outgoing(1);
    hello.iter().for_each(|packet| world.deliver(packet));
    let answers = world.outgoing(0);
    let cookie = answers.iter().filter(|p| p.is(PacketType::Cookie));
    cookie.for_each(|packet| world.deliver(packet));
    let memory = &mut world.engines[0].shared.memory;
    let mut taken: Vec<_> = core::iter::from_fn(|| memory.take()).collect();
    let init = world.outgoing(1);
    assert!(init.iter().any(|p| p.is(PacketType::Init)));
    init.iter().for_each(|packet| world.deliver(packet));
    let refused = world.outgoing(0);
    assert!(refused.iter().any(|p| p.is(PacketType::Refused)));
    for promise in taken.drain(..) {
        world.engines[0].shared.memory.release(promise);
    }
    world.now += 2 * SECOND;
    let now = world.now;
    world.engines[0].begin_cycle(now);
    world.engines[0].handle_timeout(now);
    let again = world.outgoing(0);
    assert!(again.iter().any(|p| p.is(PacketType::Hello)));
    world.run(2 * SECOND);
    assert_eq!((world.received(0), world.received(1)), (1, 1));
}

/// F11: the index of a connection that gave up its slot goes to the next attempt; a peer that
/// still uses the index gets UNKNOWN, however long that attempt waits.
#[test]
fn f11_an_index_that_another_attempt_has_is_unknown_to_its_last_user() {
    let mut world = World::new(3);
    world.send(0, 1).unwrap();
    world.run(SECOND);
    let index = world
        .peer(0, 1)
        .connection
        .as_ref()
        .unwrap()
        .link
        .remote
        .index;
    let now = world.now;
    let key = world.engines[1].peer_key(id(0)).unwrap();
    let Engine { peers, shared, .. } = &mut world.engines[1];
    peers.get_mut(key).unwrap().give_up_slot(now, shared);
    // HELLO, COOKIE; the INIT is lost.
    world.send(1, 2).unwrap();
    for host in [1, 2] {
        let packets = world.outgoing(host);
        packets.iter().for_each(|packet| world.deliver(packet));
    }
    assert!(world.outgoing(1).iter().any(|p| p.is(PacketType::Init)));
    let attempt = world.engines[1].peer_key(id(2));
    assert_eq!(world.engines[1].shared.indices.peer(index), attempt);
    world.send(0, 1).unwrap();
    let packets = world.outgoing(0);
    packets.iter().for_each(|packet| world.deliver(packet));
    let answers = world.outgoing(1);
    assert!(answers.iter().any(|p| p.is(PacketType::Unknown)));
}

/// A CLOSE that is lost with the slot is sent again on the next connection.
#[test]
fn f31_a_close_is_not_lost_with_the_slot() {
    let mut world = World::new(2);
    world.send(0, 1).unwrap();
    world.run(SECOND);
    let now = world.now;
    world.engines[0].close(now, 30 * SECOND);
    // The CLOSE is lost.
    assert_eq!(world.outgoing(0).len(), 1);
    let key = world.engines[0].peer_key(id(1)).unwrap();
    let Engine { peers, shared, .. } = &mut world.engines[0];
    peers.get_mut(key).unwrap().give_up_slot(now, shared);
    world.engines[0].touch(key);
    world.received(1);
    world.run(5 * SECOND);
    assert!(world.engines[0].is_closed(), "long before the deadline");
    let told = |event: &Event| matches!(event, Event::Ended { .. });
    assert!(world.events(1).iter().any(told));
}

/// The number of sweeps in a second in which a node begins and ends waiting for a slot again and
/// again, with `peers` peers.
fn looks_in_a_second(peers: usize) -> u32 {
    let mut world = World::new(2);
    let begun = world.now;
    for peer in 2..peers {
        world.engines[0]
            .add_peer(begun, id(peer), address(peer))
            .unwrap();
    }
    let mut sweeps = 0;
    while world.now < begun + SECOND {
        let (now, engine) = (world.now, &mut world.engines[0]);
        assert!(
            !engine.shared.admission_queue.ask(now, None, 0),
            "somebody waits"
        );
        let due = engine.next_timeout().expect("a sweep serves it");
        sweeps += u32::from(due <= now);
        engine.handle_timeout(now);
        engine.shared.admission_queue.leave(None);
        engine.handle_timeout(now);
        assert_eq!(engine.next_timeout(), None, "nobody waits any more");
        world.now += Duration::from_millis(1);
    }
    sweeps
}

/// F02: a sweep costs a step for each peer. Sweeps keep a distance, which grows with the number of
/// peers, up to 100 ms.
#[test]
fn f02_sweeps_keep_their_distance_whatever_comes_and_goes() {
    assert!((245..=250).contains(&looks_in_a_second(2)));
    assert!((95..=100).contains(&looks_in_a_second(5_000)));
    assert!((25..=31).contains(&looks_in_a_second(16_000)));
}

/// A process without work sleeps, however small its socket's buffer is.
#[test]
fn no_peer_is_woken_for_credit_that_no_peer_could_return() {
    for buffer in [20_000, 50_000, 100_000, 212_992] {
        let mut world = World::new(2);
        world.engines[0] = world.start(0, 2, buffer);
        assert_eq!(world.engines[0].next_timeout(), None, "{buffer} B");
        world.send(1, 0).unwrap();
        world.run(5 * SECOND);
        assert_eq!(world.received(0), 1);
        let next = world.engines[0].next_timeout();
        let soon = world.now + SECOND;
        assert!(next.is_none_or(|at| at > soon), "{buffer} B: {next:?}");
    }
}

/// Returns the time for which a peer that sends but answers nothing keeps its slot, at a node with
/// this `give_up_after`.
fn ignores_for(give_up_after: Duration) -> Duration {
    let mut world = narrow(2, 1);
    take_slots(&mut world, 1);
    let key = world.engines[0].peer_key(id(1)).unwrap();
    let Engine { peers, shared, .. } = &mut world.engines[0];
    let peer = peers.get_mut(key).unwrap();
    peer.options.give_up_after = give_up_after;
    let connection = peer.connection.as_mut().unwrap();
    shared.shares.dismiss(&mut connection.grant);
    let began = world.now;
    for second in 0..2_000 {
        if world.peer(0, 1).connection.is_none() {
            break;
        }
        if second % 15 == 0 {
            world.deliver_ping(0);
        }
        world.now += SECOND;
        world.engines[0].begin_cycle(world.now);
        world.engines[0].handle_timeout(world.now);
        // No packet of the node arrives.
        world.outgoing(0);
    }
    let ended = |event: &Event| {
        matches!(
            event,
            Event::Ended {
                reason: EndReason::Protocol(ProtocolError::Limit(_)),
                ..
            }
        )
    };
    world.received(0);
    assert!(world.events(0).iter().any(ended));
    world.now.since(began)
}

/// The peer lives, but answers no RECLAIM: its slot would be lost to others for ever.
#[test]
fn f31_a_peer_that_keeps_its_slot_against_every_reclaim_is_removed() {
    for (give_up_after, least) in [(60, 240), (300, 300), (900, 900)] {
        let took = ignores_for(give_up_after * SECOND);
        let range = least * SECOND..(least + 30) * SECOND;
        assert!(range.contains(&took), "{give_up_after} s: {took:?}");
    }
}
