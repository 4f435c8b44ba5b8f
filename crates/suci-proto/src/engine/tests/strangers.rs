//! Nodes that are not in the book: the state that they leave, and which of them make room for
//! others.

use super::hostile::{hello, run_without};
use super::idle::is_idle;
use super::*;
use crate::event::EndReason;
use crate::handshake::Trust;
use crate::shared::{MemoryShares, Promise};

/// Hosts that know one another, except for the first: its book is empty, and it admits strangers.
pub(super) fn one_server(hosts: usize, max_peers: usize, buffer: u64) -> World {
    let mut world = World::new(hosts);
    let config = Config {
        max_peers,
        ..Config::default()
    };
    world.set_up_server(0, buffer, config);
    world
}

/// The window that one more session would get, which shows how many sessions there are.
fn next_window(memory: &mut MemoryShares) -> u64 {
    let promise = memory.take().unwrap();
    let window = promise.window;
    memory.release(promise);
    window
}

/// The second host sends the first one a message, then the first gives up the connection; the
/// session goes on.
fn come_and_give_up_slot(world: &mut World) {
    world.send(1, 0).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(0), 1);
    world.events(0);
    let now = world.now;
    let key = world.engines[0].peer_key(id(1)).unwrap();
    let Engine { peers, shared, .. } = &mut world.engines[0];
    peers.get_mut(key).unwrap().give_up_slot(now, shared);
    world.engines[0].touch(key);
}

/// Takes all memory of the first host, so that one request for a session's window failed.
fn take_all_memory(world: &mut World) -> Vec<Promise> {
    let memory = &mut world.engines[0].shared.memory;
    let taken = core::iter::from_fn(|| memory.take()).collect();
    assert!(memory.is_wanted());
    taken
}

/// Returns true if the first host's session with the second ended.
fn ended(world: &mut World) -> bool {
    let ended = |event: &Event| matches!(event, Event::Ended { node, .. } if *node == id(1));
    world.events(0).iter().any(ended)
}

/// Cookies are valid for 15 s, but their INITs are waited for only a second or two: many INITs may
/// come at once, and there is no slot for most of them. A stranger that is refused takes no
/// memory; a node of the book keeps its window.
#[test]
fn f02_f32_a_refused_stranger_takes_no_memory_unlike_a_node_of_the_book() {
    let (slots, callers) = (3, 6);
    for in_book in [false, true] {
        let mut world = one_server(1 + callers, 100, slots * 6_656);
        let mut inits = Vec::new();
        for caller in 1..=callers {
            if in_book {
                let now = world.now;
                world.engines[0]
                    .add_peer(now, id(caller), address(caller))
                    .unwrap();
            }
            world.send(caller, 0).unwrap();
            for host in [caller, 0] {
                let packets = world.outgoing(host);
                packets.iter().for_each(|packet| world.deliver(packet));
            }
            inits.extend(world.outgoing(caller));
            world.now += 2 * SECOND;
        }
        assert!(inits.iter().all(|p| p.is(PacketType::Init)));
        inits.iter().for_each(|init| world.deliver(init));
        let admitted = world.engines[0].shared.shares.peers();
        assert!(admitted <= slots, "{admitted}");
        let refused = world.outgoing(0);
        let refused = refused.iter().filter(|p| p.is(PacketType::Refused));
        let refused: Vec<_> = refused.map(|packet| packet.to).collect();
        assert_eq!(refused.len() + admitted as usize, callers);
        let (trust, windows) = match in_book {
            false => (Trust::Stranger, admitted),
            true => (Trust::Known, callers as u64),
        };
        for caller in refused {
            assert_eq!(world.peer(0, caller).trust(), trust, "{caller}");
        }
        let mut fresh = MemoryShares::new(Config::default().memory);
        assert!((0..windows).all(|_| fresh.take().is_some()));
        let window = next_window(&mut world.engines[0].shared.memory);
        assert_eq!(window, next_window(&mut fresh));
    }
}

/// Clients vanish silently, and the table is full of them.
#[test]
fn f02_f17_strangers_that_died_make_room_for_others() {
    let mut world = one_server(6, 8, BUFFER);
    let dead = [1, 2, 3, 4];
    for stranger in dead {
        world.send(stranger, 0).unwrap();
        world.run(SECOND);
        assert_eq!(world.received(0), 1);
    }
    for _ in 0..6 {
        // Earlier messages may have been given up.
        let _ = world.send(5, 0);
        run_without(&mut world, &dead, 100 * SECOND);
        world.events(0);
        world.events(5);
    }
    assert!(world.received(0) > 0);
}

/// The peer gave its slot away and died. Nothing is ever sent to it, so no silence shows its
/// death.
#[test]
fn f17_f32_a_dead_session_without_a_connection_ends_when_another_finds_no_room() {
    let mut world = World::new(3);
    come_and_give_up_slot(&mut world);
    run_without(&mut world, &[1], 400 * SECOND);
    assert_eq!(world.events(0), [], "it troubles nobody");
    let taken = take_all_memory(&mut world);
    world.send(2, 0).unwrap();
    run_without(&mut world, &[1], 30 * SECOND);
    let ended = |event: &Event| matches!(event, Event::Ended { node, reason: EndReason::Silent, .. } if *node == id(1));
    assert!(world.events(0).iter().any(ended));
    assert_eq!(world.received(0), 1, "its window is free");
    assert!(!taken.is_empty());
}

/// Nodes of the book that never connect keep no stranger out, however many they are; those that
/// were connected count.
#[test]
fn f02_nodes_of_the_book_that_never_connected_keep_no_stranger_out() {
    let most = 3;
    let mut world = one_server(6, most, BUFFER);
    let now = world.now;
    let engine = &mut world.engines[0];
    for known in [1, 5, 100] {
        engine.add_peer(now, id(known), address(known)).unwrap();
    }
    let full = Err(crate::PeerError::TooMany(most));
    assert_eq!(engine.add_peer(now, id(102), address(102)), full);
    let mut served = 0;
    for (client, received) in [(2, 1), (1, 2), (5, 3), (3, 3)] {
        world.send(client, 0).unwrap();
        world.run(3 * SECOND);
        served += world.received(0);
        assert_eq!(served, received, "client {client}");
    }
    // A node of the book that was connected and is removed makes room.
    let now = world.now;
    world.engines[0].remove_peer(now, id(1)).unwrap();
    world.run(suci_link::limits::COOKIE_LIFETIME + 5 * SECOND);
    served += world.received(0);
    assert_eq!(served, 4);
    let engine = &world.engines[0];
    let met = engine.peers.iter().filter(|(_, peer)| peer.is_met());
    assert_eq!(met.count(), engine.shared.met);
}

/// A HELLO proves nothing: however full the table is, it ends no session of a node of the book.
#[test]
fn f02_a_stranger_that_finds_the_table_full_ends_no_session_of_the_books_nodes() {
    let mut world = one_server(3, 1, BUFFER);
    let now = world.now;
    world.engines[0].add_peer(now, id(1), address(1)).unwrap();
    come_and_give_up_slot(&mut world);
    run_without(&mut world, &[1], 400 * SECOND);
    world.send(2, 0).unwrap();
    run_without(&mut world, &[1], 30 * SECOND);
    assert_eq!(world.received(0), 0, "it is refused");
    assert_eq!(world.events(0), []);
}

/// A stranger that finds no room in the table causes no question to nodes of the book: they stay
/// idle.
#[test]
fn f02_strangers_at_a_full_table_disturb_no_node_of_the_book() {
    let mut world = one_server(3, 2, BUFFER);
    for node in [1, 2] {
        let now = world.now;
        world.engines[0]
            .add_peer(now, id(node), address(node))
            .unwrap();
        world.send(node, 0).unwrap();
        world.run(SECOND);
    }
    assert_eq!(world.received(0), 2);
    world.events(0);
    world.run(25 * SECOND);
    world.seen.clear();
    for token in 0..60 {
        world.deliver(&hello(7, 0, token));
        world.run(SECOND);
        assert!(is_idle(&world, 0, 1) && is_idle(&world, 0, 2), "{token} s");
    }
    assert_eq!(world.seen.iter().filter(|p| p.to == 7).count(), 60);
    assert_eq!(world.seen.iter().filter(|p| p.to != 7).count(), 0);
}

/// Requests for room in the table do not suppress a request for memory.
#[test]
fn f02_f17_f32_strangers_that_find_the_table_full_keep_no_session_of_the_dead() {
    let mut world = one_server(3, 2, BUFFER);
    for node in [1, 2] {
        let now = world.now;
        world.engines[0]
            .add_peer(now, id(node), address(node))
            .unwrap();
    }
    come_and_give_up_slot(&mut world);
    run_without(&mut world, &[1], 400 * SECOND);
    world.deliver(&hello(7, 0, 0));
    let taken = take_all_memory(&mut world);
    world.send(2, 0).unwrap();
    for token in 1..200 {
        world.deliver(&hello(7, 0, token));
        run_without(&mut world, &[1], SECOND / 20);
    }
    assert!(ended(&mut world));
    assert_eq!(world.received(0), 1, "its window is free");
    assert!(!taken.is_empty());
}

/// The process was stopped, between two cycles or within one, and nothing was due.
#[test]
fn f16_f32_a_stop_ends_no_session_when_another_finds_no_room() {
    for within in [false, true] {
        let mut world = World::new(3);
        come_and_give_up_slot(&mut world);
        world.run(30 * SECOND);
        assert!(is_idle(&world, 0, 1));
        let taken = take_all_memory(&mut world);
        let before = world.now;
        world.now += 400 * SECOND;
        let now = world.now;
        let engine = &mut world.engines[0];
        engine.begin_cycle(if within { before } else { now });
        engine.handle_timeout(now);
        let _ = world.send(2, 0);
        world.run(30 * SECOND);
        assert!(!ended(&mut world), "within a cycle: {within}");
        assert!(!taken.is_empty());
    }
}

/// Anyone can send a HELLO from the dead node's address.
#[test]
fn f04_f17_hellos_in_the_name_of_the_dead_keep_no_session() {
    let mut world = World::new(3);
    come_and_give_up_slot(&mut world);
    for token in 0..5 {
        run_without(&mut world, &[1], 140 * SECOND);
        world.deliver(&hello(1, 0, token));
    }
    assert_eq!(world.events(0), []);
    let taken = take_all_memory(&mut world);
    run_without(&mut world, &[1], SECOND);
    assert!(ended(&mut world));
    assert!(!taken.is_empty());
}

/// This node has no memory for a session that it wants to open.
#[test]
fn f17_f32_sessions_of_the_dead_end_when_a_call_of_ours_finds_no_room() {
    let mut world = World::new(3);
    world.send(1, 0).unwrap();
    world.run(SECOND);
    world.received(0);
    let taken = take_all_memory(&mut world);
    for _ in 0..6 {
        // Earlier messages may have been given up.
        let _ = world.send(0, 2);
        run_without(&mut world, &[1], 100 * SECOND);
        world.events(0);
    }
    assert!(world.received(2) > 0);
    assert!(!taken.is_empty());
}

/// A stranger that the program enters into the book no longer counts among the strangers of its
/// address.
#[test]
fn f02_strangers_that_the_program_adopts_leave_their_part_of_the_table_to_others() {
    let mut world = one_server(6, 8, BUFFER);
    for stranger in 1..=4 {
        world.send(stranger, 0).unwrap();
        world.run(SECOND);
        assert_eq!(world.received(0), 1);
        let now = world.now;
        let entered = world.engines[0].add_peer(now, id(stranger), address(stranger));
        assert_eq!(entered, Ok(()));
    }
    world.send(5, 0).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(0), 1);
}

/// The program finds room in the table as strangers would.
#[test]
fn f02_strangers_that_left_make_room_for_the_book() {
    let mut world = one_server(2, 2, BUFFER);
    world.send(1, 0).unwrap();
    world.run(SECOND);
    world.received(0);
    let now = world.now;
    world.engines[1].close(now, SECOND);
    world.run(60 * SECOND);
    world.events(0);
    let now = world.now;
    for node in [8, 9] {
        assert_eq!(
            world.engines[0].add_peer(now, id(node), address(node)),
            Ok(())
        );
    }
    assert!(world.engines[0].add_peer(now, id(10), address(10)).is_err());
}

/// The program asks for room again and again, until the silence of the dead has lasted long enough.
#[test]
fn f02_f17_strangers_that_died_make_room_for_the_book() {
    let mut world = one_server(2, 1, BUFFER);
    world.send(1, 0).unwrap();
    world.run(SECOND);
    world.received(0);
    let entered = (0..40).any(|_| {
        run_without(&mut world, &[1], 10 * SECOND);
        world.events(0);
        let now = world.now;
        world.engines[0].add_peer(now, id(8), address(8)).is_ok()
    });
    assert!(entered);
}

/// A server with only the second host in its book, and `strangers` strangers.
fn one_of_the_book(strangers: usize) -> World {
    let mut world = one_server(2 + strangers, 1_000, BUFFER);
    let now = world.now;
    world.engines[0].add_peer(now, id(1), address(1)).unwrap();
    world
}

/// Checks that the node of the book gets credit after strangers opened sessions and left. Their
/// grants stay booked for up to 2 L; the node gets credit from the part kept from strangers.
fn comes_in_after(world: &mut World, strangers: usize) {
    let admitted = world.received(0);
    assert!(admitted > 50, "{admitted} strangers came in");
    world.send(1, 0).unwrap();
    let gone: Vec<_> = (2..2 + strangers).collect();
    run_without(world, &gone, SECOND);
    assert_eq!(world.received(0), 1);
}

#[test]
fn f02_strangers_leave_room_for_the_book_that_comes_after_them() {
    let strangers = 200;
    let mut world = one_of_the_book(strangers);
    for stranger in 2..2 + strangers {
        world.send(stranger, 0).unwrap();
        let others: Vec<_> = (1..2 + strangers)
            .filter(|host| *host != stranger)
            .collect();
        run_without(&mut world, &others, SECOND / 20);
    }
    let admitted = world.engines[0].shared.shares.peers();
    let known = world.engines[0].peer_count() as u64;
    assert_eq!(known, 1 + admitted, "who found no room left no trace");
    comes_in_after(&mut world, strangers);
}

/// The strangers got their cookies while there was room for all of them.
#[test]
fn f02_strangers_that_come_all_at_once_leave_room_for_the_book() {
    let strangers = 200;
    let mut world = one_of_the_book(strangers);
    for stranger in 2..2 + strangers {
        world.send(stranger, 0).unwrap();
        for host in [stranger, 0] {
            let packets = world.outgoing(host);
            packets.iter().for_each(|packet| world.deliver(packet));
        }
    }
    let inits: Vec<_> = (2..2 + strangers)
        .flat_map(|stranger| world.outgoing(stranger))
        .collect();
    assert!(inits.len() == strangers && inits.iter().all(|p| p.is(PacketType::Init)));
    world.now += 3 * SECOND;
    inits.iter().for_each(|init| world.deliver(init));
    world.outgoing(0);
    comes_in_after(&mut world, strangers);
}

/// The program of a host asks the first host once, and closes in order.
fn visit(world: &mut World, host: usize) {
    world.send(host, 0).unwrap();
    world.settle();
    let now = world.now;
    world.engines[host].close(now, SECOND);
    world.settle();
}

/// All visitors come from one address: strangers of one address get half of the table. One that
/// closed in order gives its place back as soon as another needs it.
#[test]
fn f34_strangers_that_closed_in_order_make_room_at_once() {
    let mut world = one_server(241, 100, BUFFER);
    for visitor in 1..=240 {
        visit(&mut world, visitor);
        assert_eq!(world.received(0), 1, "visitor {visitor}");
        world.events(0);
        let refused = |event: &Event| matches!(event, Event::Refused { .. });
        assert!(!world.events(visitor).iter().any(refused));
        world.now += Duration::from_millis(1);
    }
}

/// A stranger that closed is forgotten before its cookie expires. A copy of its INIT brings its
/// message no second time.
#[test]
fn f10_f34_a_copy_of_the_init_of_a_stranger_that_was_forgotten_is_dropped() {
    let mut world = one_server(2, 100, BUFFER);
    world.send(1, 0).unwrap();
    for host in [1, 0] {
        let packets = world.outgoing(host);
        packets.iter().for_each(|packet| world.deliver(packet));
    }
    let init = world.outgoing(1);
    assert!(init.len() == 1 && init[0].is(PacketType::Init));
    world.deliver(&init[0]);
    world.settle();
    let now = world.now;
    world.engines[1].close(now, SECOND);
    world.settle();
    assert_eq!(world.received(0), 1);
    world.events(0);
    world.run(SECOND);
    let now = world.now;
    world.engines[0].forget_strangers(now);
    assert!(world.engines[0].peer_key(id(1)).is_none(), "forgotten");
    world.deliver(&init[0]);
    world.settle();
    assert_eq!(world.received(0), 0);
    assert!(world.engines[0].peer_key(id(1)).is_none());
}
