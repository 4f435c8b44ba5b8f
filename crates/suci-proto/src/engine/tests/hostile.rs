//! Peers that bend the rules, one by one.

use super::*;
use crate::credit::Grant;
use suci_link::limits::{MAX_RETIRED, RIDE_CREDIT};
use suci_link::types::Epoch;
use suci_link::wire::{CrcScope, Credit, Hello, put_ack};

/// F10: an INIT that is heard again after its session ended, while its cookie is still good, opens
/// nothing.
#[test]
fn f10_f14_an_init_opens_once_whatever_became_of_its_session() {
    let mut world = World::new(2);
    world.send(1, 0).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(0), 1);
    let init = world.seen.iter().find(|p| p.is(PacketType::Init)).cloned();
    let init = init.unwrap();
    let now = world.now;
    world.engines[1].close_peer(now, id(0), SECOND).unwrap();
    world.run(3 * SECOND);
    world.events(0);
    for _ in 0..3 {
        world.deliver(&init);
        world.run(SECOND);
    }
    assert_eq!(world.events(0), []);
    assert_eq!(world.received(0), 0);
    assert_eq!(world.engines[0].counters().handshake_rejected, 3);
}

/// F10: an attacker that sees an ACCEPT and forwards it from another address does not redirect the
/// messages.
#[test]
fn f10_an_accept_from_elsewhere_is_ignored() {
    let mut world = World::new(2);
    world.send(0, 1).unwrap();
    // HELLO, COOKIE, INIT.
    for host in [0, 1, 0] {
        let packets = world.outgoing(host);
        packets.iter().for_each(|packet| world.deliver(packet));
    }
    let packets = world.outgoing(1);
    let accept = packets.iter().find(|p| p.is(PacketType::Accept)).unwrap();
    let mut copied = accept.clone();
    copied.from = 7;
    world.deliver(&copied);
    assert_eq!(world.engines[0].counters().handshake_rejected, 1);
    assert!(!world.peer(0, 1).has_connection());
    world.deliver(accept);
    assert_eq!(world.peer(0, 1).path_address(), Some(address(1)));
}

/// A lingering connection's credit belongs to a session that is over: it must not widen the window
/// of the next session.
#[test]
fn f03_credit_that_comes_after_the_end_is_not_the_next_sessions() {
    let mut world = World::new(2);
    world.send(0, 1).unwrap();
    world.run(SECOND);
    let now = world.now;
    world.engines[1].close_peer(now, id(0), SECOND).unwrap();
    // The answer to CLOSE is under way; the closed connection still answers.
    let close = world.outgoing(1);
    close.iter().for_each(|packet| world.deliver(packet));
    let local = world.peer(0, 1).connection.as_ref().unwrap().link.local;
    assert!(world.peer(0, 1).lingering.is_some());
    let last = close.last().unwrap().header();
    let highest = world.peer(0, 1).connection.as_ref().unwrap();
    let highest = highest.link.numbers.peek().unwrap() - 1;
    let credit = Credit {
        generation: 0,
        limit: 1_000,
        control: 10,
        memory: 1 << 40,
    };
    let header = Header {
        number: last.number + 1,
        index: local.index,
        tag: local.tag,
        scope: CrcScope::Datagram,
        ..last
    };
    let mut bytes = Vec::new();
    wire::put_header(&mut bytes, &header);
    let ranges = [highest..=highest];
    let put = put_ack(
        &mut bytes,
        ranges.into_iter(),
        Duration::ZERO,
        None,
        Some(credit),
        100,
    );
    assert!(put > 0);
    wire::seal(&mut bytes);
    let taken = world.engines[0].counters().malformed;
    world.deliver(&Packet {
        from: 1,
        to: 0,
        bytes,
    });
    assert_eq!(world.engines[0].counters().malformed, taken);
    let peer = world.peer(0, 1);
    let received = &peer.connection.as_ref().unwrap().link.received;
    assert_eq!(received.highest(), Some(last.number + 1), "it was heard");
    assert_eq!(peer.session.outbox.session_credit(), (0, RIDE_CREDIT));
}

/// A peer that dies between its INIT and its next packet does not leave the credit of its old
/// connection on the books for ever.
#[test]
fn f17_credit_of_a_replaced_connection_lapses_though_its_successor_is_never_heard() {
    let mut world = World::new(2);
    world.send(1, 0).unwrap();
    world.run(SECOND);
    let now = world.now;
    world.peer(1, 0).open(now, 7);
    let key = world.engines[1].peer_key(id(0)).unwrap();
    world.engines[1].touch(key);
    // HELLO, COOKIE, INIT.
    for host in [1, 0, 1] {
        let packets = world.outgoing(host);
        packets.iter().for_each(|packet| world.deliver(packet));
    }
    let replaced = |world: &mut World| {
        let connection = world.peer(0, 1).connection.as_ref();
        connection.is_some_and(|c| !c.previous.is_empty())
    };
    assert!(replaced(&mut world));
    let end = world.now + 30 * SECOND;
    for _ in 0..100 {
        world.outgoing(0);
        let next = world.engines[0].next_timeout();
        world.now = next.map_or(end, |at| at.clamp(world.now, end));
        let now = world.now;
        world.engines[0].begin_cycle(now);
        world.engines[0].handle_timeout(now);
    }
    assert!(!replaced(&mut world));
    let shares = &world.engines[0].shared.shares;
    assert_eq!(shares.free(), Shares::new(BUFFER).free());
}

/// Node 2 gives up its attempt to connect.
fn drop_attempt(world: &mut World) {
    let engine = &mut world.engines[1];
    let key = engine.peer_key(id(0)).unwrap();
    engine
        .peers
        .get_mut(key)
        .unwrap()
        .drop_attempt(&mut engine.shared);
}

/// A peer that replaces its connection again before it was heard may have sent on each of them: all
/// stay on the books until the newest is heard.
#[test]
fn f10_credit_of_every_connection_that_was_replaced_unheard_stays_on_the_books() {
    let mut world = World::new(2);
    world.send(1, 0).unwrap();
    world.run(SECOND);
    let mut free = world.engines[0].shared.shares.free();
    for round in 1..=8 {
        let now = world.now;
        drop_attempt(&mut world);
        world.peer(1, 0).open(now, 7 + round);
        let key = world.engines[1].peer_key(id(0)).unwrap();
        world.engines[1].touch(key);
        // HELLO, COOKIE, INIT; ACCEPT is lost.
        for host in [1, 0, 1] {
            let packets = world.outgoing(host);
            packets.iter().for_each(|packet| world.deliver(packet));
        }
        world.outgoing(0);
        world.now += Duration::from_millis(10);
        let connection = world.peer(0, 1).connection.as_ref().unwrap();
        assert_eq!(connection.previous.len() as u64, round.min(4), "bounded");
        let before = core::mem::replace(&mut free, world.engines[0].shared.shares.free());
        assert_eq!(free < before, round <= 4, "{free} of {before}");
    }
    // The next connection is made when the first of these has lapsed.
    world.send(1, 0).unwrap();
    world.run(25 * SECOND);
    let connection = world.peer(0, 1).connection.as_ref().unwrap();
    assert!(connection.previous.is_empty(), "heard");
    world.engines[0].reset(world.now, id(1)).unwrap();
    let shares = &world.engines[0].shared.shares;
    assert_eq!(shares.free(), Shares::new(BUFFER).free());
}

/// A world whose first node has little memory: it cannot hold three large messages.
fn frugal_world(nodes: usize) -> World {
    let mut world = World::new(nodes);
    world.set_up_server(0, BUFFER, frugal());
    world
}

/// A configuration with little memory.
pub(super) fn frugal() -> Config {
    Config {
        memory: 1 << 20,
        max_message: 1 << 19,
        ..Config::default()
    }
}

fn send_large(world: &mut World, from: usize, length: usize) {
    let large = Outgoing {
        payload: Bytes::from(vec![from as u8; length]),
        ..message(b"")
    };
    world.engines[from].send(world.now, id(0), large).unwrap();
}

/// A peer that cannot send keeps no memory for large messages, and does not delay the peers behind
/// it in the queue.
#[test]
fn f32_a_suspended_peer_delays_no_peer_that_waits_for_memory() {
    let mut world = frugal_world(3);
    // One peer holds most of the memory; the next wants more than is left, the last would fit.
    send_large(&mut world, 1, 300_000);
    world.run(SECOND);
    send_large(&mut world, 1, 400_000);
    world.run(SECOND);
    send_large(&mut world, 2, 200_000);
    world.run(SECOND);
    assert!(!world.peer(0, 2).has_message(), "others came before");
    world.engines[0].suspend(id(1)).unwrap();
    world.run(SECOND);
    assert!(world.peer(0, 2).has_message());
    world.engines[0].resume(id(1)).unwrap();
    for left in [2, 1, 0] {
        assert!(world.engines[0].recv().is_some(), "{left} to come");
        world.run(SECOND);
    }
}

/// A sender whose next large message always waits already does not keep the memory of the one
/// before: a larger message of another peer, which asked earlier, comes first.
#[test]
fn f32_freed_memory_of_a_large_message_goes_to_the_longest_waiting_peer() {
    let mut world = frugal_world(3);
    for _ in 0..6 {
        send_large(&mut world, 1, 300_000);
    }
    world.run(SECOND);
    send_large(&mut world, 2, 400_000);
    world.run(SECOND);
    let mut order = Vec::new();
    while order.len() < 7 {
        let (from, message) = world.engines[0].recv().unwrap();
        order.push((from.node, message.payload.len()));
        world.run(SECOND);
    }
    // The second message of the first sender had asked before.
    assert_eq!(order[2], (id(2), 400_000));
}

/// Takes all credit of the socket, so that no other peer gets a packet.
fn hoard(shares: &mut Shares, now: Instant) -> Vec<Grant> {
    let mut grants = Vec::new();
    while let Some(grant) = shares.admit(0, 1_472, now) {
        grants.push(grant);
    }
    grants
}

/// Ends `grant` of peer `key`, puts it into the queue for credit, and makes credit free again.
fn line_up(shares: &mut Shares, grant: &mut Grant, key: usize, now: Instant) {
    assert!(shares.expire(grant, now + 30 * SECOND));
    let all = hoard(shares, now);
    shares.on_blocked(grant, key, now);
    all.into_iter()
        .for_each(|mut grant| shares.release(&mut grant));
    assert_eq!(shares.next_to_serve(), Some(key));
}

/// Serving ends although the first peer in the queue takes nothing.
#[test]
fn f04_serving_credit_ends_although_the_first_in_line_takes_none() {
    let mut world = World::new(2);
    world.send(1, 0).unwrap();
    world.run(SECOND);
    let now = world.now;
    let engine = &mut world.engines[0];
    let key = engine.peer_key(id(1)).unwrap();
    let shares = &mut engine.shared.shares;
    // Queue under the peer's key, but with a grant that its connection does not use.
    let mut other = shares.admit(0, 1_472, now).unwrap();
    line_up(shares, &mut other, key, now);
    engine.serve_waiting(now);
    assert!(
        engine.shared.shares.next_to_serve().is_some(),
        "it took none"
    );
}

/// A connection that waited for credit leaves the queue when another connection replaces it.
#[test]
fn f04_a_replaced_connection_waits_for_no_credit() {
    let mut world = World::new(2);
    world.send(1, 0).unwrap();
    world.run(SECOND);
    let now = world.now;
    let engine = &mut world.engines[0];
    let key = engine.peer_key(id(1)).unwrap();
    let shares = &mut engine.shared.shares;
    let connection = engine
        .peers
        .get_mut(key)
        .unwrap()
        .connection
        .as_mut()
        .unwrap();
    line_up(shares, &mut connection.grant, key, now);
    let index = connection.link.local.index;
    engine.peers.get_mut(key).unwrap().open(now, 77);
    engine.touch(key);
    world.settle();
    let connection = world.peer(0, 1).connection.as_ref().unwrap();
    assert_ne!(connection.link.local.index, index, "replaced");
    assert_eq!(world.engines[0].shared.shares.next_to_serve(), None);
}

pub(super) fn hello(from: usize, to: usize, token: u64) -> Packet {
    let mut bytes = Vec::new();
    let header = Header {
        kind: PacketType::Hello,
        scope: CrcScope::Datagram,
        index: id(from).0,
        number: 0,
        tag: token,
    };
    wire::put_header(&mut bytes, &header);
    let hello = Hello {
        target: id(to),
        incarnation: Incarnation(1_000 + from as u128),
    };
    hello.put(&mut bytes);
    wire::seal(&mut bytes);
    Packet { from, to, bytes }
}

/// F02: with the smallest usual socket buffer, one client that repeats HELLO for ever and never
/// sends its INIT keeps one slot, and new peers find the others.
#[test]
fn f02_a_client_that_only_repeats_its_hello_keeps_no_node_out() {
    let mut world = World::new(2);
    let engine = world.start(0, 2, 212_992);
    world.engines[0] = engine;
    for _ in 0..300 {
        world.deliver(&hello(7, 0, 99));
        let answers = world.outgoing(0);
        assert_eq!(answers.len(), 1, "itself it is answered");
        world.now += Duration::from_millis(100);
    }
    assert_eq!(world.engines[0].counters().hello_unanswered, 0);
    world.send(1, 0).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(0), 1);
}

/// Delivers a HELLO of another stranger for each of `tokens`.
fn strangers(world: &mut World, tokens: core::ops::Range<u64>) {
    for token in tokens {
        let mut packet = hello(10_000 + token as usize, 0, token);
        packet.from = 50;
        world.deliver(&packet);
    }
}

/// F02: HELLOs of strangers without end, in the smallest usual buffer. A node of the book connects
/// at once, and one with a session makes another connection; the grants stay within the budget.
#[test]
fn f02_a_flood_of_strangers_keeps_no_known_node_out() {
    let mut world = World::new(3);
    let engine = world.start(0, 3, 212_992);
    world.engines[0] = engine;
    world.send(1, 0).unwrap();
    world.run(SECOND);
    let mut token = 1_000_000;
    let mut flood = |world: &mut World, span: u64| {
        for _ in 0..span {
            strangers(world, token..token + 100);
            token += 100;
            world.run(Duration::from_millis(20));
        }
    };
    flood(&mut world, 100);
    assert!(world.engines[0].counters().hello_unanswered > 1_000);
    world.send(2, 0).unwrap();
    let now = world.now;
    world.peer(1, 0).open(now, 7);
    let key = world.engines[1].peer_key(id(0)).unwrap();
    world.engines[1].touch(key);
    let before = world.peer(1, 0).connection.as_ref().unwrap().link.local;
    flood(&mut world, 10);
    assert_eq!(world.received(0), 2, "the first message and the newcomer's");
    let after = world.peer(1, 0).connection.as_ref().unwrap().link.local;
    assert_ne!(before, after, "replaced");
}

/// F02, F12: the flood uses the ID of a node of the book, from changing addresses: that node and
/// another of the book are answered all the same, and strangers keep their half.
#[test]
fn f02_a_flood_in_the_name_of_a_known_node_keeps_no_node_out() {
    let mut world = World::new(3);
    let engine = world.start(0, 3, 212_992);
    world.engines[0] = engine;
    for round in 0..100 {
        for token in 0..100 {
            let mut packet = hello(1, 0, round * 100 + token);
            packet.from = 50 + token as usize;
            world.deliver(&packet);
        }
        world.run(Duration::from_millis(20));
    }
    assert_eq!(world.engines[0].counters().hello_unanswered, 0);
    world.deliver(&hello(7, 0, 5));
    assert_eq!(world.outgoing(0).len(), 1, "a stranger");
    world.send(1, 0).unwrap();
    world.send(2, 0).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(0), 2);
}

/// F04: answers to strangers fill half of the queue for answers at most.
#[test]
fn f04_answers_to_strangers_leave_room_for_those_to_known_nodes() {
    let mut world = World::new(2);
    strangers(&mut world, 1..1_000);
    let mut wrong = hello(1, 0, 7);
    let (header, _) = wire::open(&wrong.bytes).unwrap();
    wrong.bytes.clear();
    wire::put_header(&mut wrong.bytes, &header);
    let elsewhere = Hello {
        target: NodeId(77),
        incarnation: Incarnation(5),
    };
    elsewhere.put(&mut wrong.bytes);
    wire::seal(&mut wrong.bytes);
    (0..100).for_each(|_| world.deliver(&wrong));
    let waiting = world.engines[0].shared.replies.len();
    assert_eq!(waiting, 128);
    world.deliver(&hello(1, 0, 7));
    assert_eq!(world.engines[0].shared.replies.len(), waiting + 1);
}

/// A refused client calls again every second with a new token; the INITs of its earlier tokens are
/// not waited for.
#[test]
fn f02_an_init_that_was_refused_is_waited_for_no_more() {
    let mut world = World::new(2);
    let engine = world.start(0, 2, 100_000);
    world.engines[0] = engine;
    while world.engines[0].shared.memory.take().is_some() {}
    world.send(1, 0).unwrap();
    world.run(60 * SECOND);
    assert_eq!(world.engines[0].counters().hello_unanswered, 0);
    let refused = world.seen.iter().filter(|p| p.is(PacketType::Refused));
    assert!(refused.count() > 30, "it came again and again");
}

/// An initiator without memory for the session delays its INIT and keeps the cookie: another HELLO
/// would only make the responder reserve more.
#[test]
fn an_init_that_cannot_be_made_yet_asks_for_no_other_cookie() {
    let mut world = World::new(2);
    let mut taken = Vec::new();
    taken.extend(core::iter::from_fn(|| {
        world.engines[0].shared.memory.take()
    }));
    world.send(0, 1).unwrap();
    world.run(7 * SECOND);
    let asked = |world: &World| {
        let hellos = world.seen.iter().filter(|p| p.is(PacketType::Hello));
        hellos.count()
    };
    assert_eq!(asked(&world), 1);
    let next = world.engines[0].next_timeout();
    assert!(
        next.is_some_and(|at| at > world.now),
        "no turns without end"
    );
    world.run(20 * SECOND);
    assert!(asked(&world) <= 4, "only when the cookie had aged");
    for promise in taken {
        world.engines[0].shared.memory.release(promise);
    }
    world.run(2 * SECOND);
    assert_eq!(world.received(1), 1);
}

/// An empty message has no waiting bytes to report, but needs a packet like any other.
#[test]
fn f19_an_empty_message_asks_for_the_credit_it_lacks() {
    let peers = 12;
    let mut world = World::new(peers + 1);
    world.engines[0] = world.start(0, peers + 1, 12 * 6_656);
    for round in 0..20 {
        for peer in 1..=peers {
            let now = world.now;
            world.engines[peer].send(now, id(0), message(b"")).unwrap();
        }
        world.run(5 * SECOND);
        assert_eq!(world.received(0), peers, "round {round}");
    }
}

/// Lets `span` pass, without packets to or from the `dead`.
pub(super) fn run_without(world: &mut World, dead: &[usize], span: Duration) {
    let end = world.now + span;
    while world.now < end {
        world.now += Duration::from_millis(10);
        for _ in 0..200 {
            let hosts = (0..world.engines.len()).filter(|host| !dead.contains(host));
            let packets: Vec<_> = hosts.flat_map(|host| world.outgoing(host)).collect();
            let living = packets.iter().filter(|packet| !dead.contains(&packet.to));
            if packets.is_empty() {
                break;
            }
            living.for_each(|packet| world.deliver(packet));
        }
        for (host, engine) in world.engines.iter_mut().enumerate() {
            if !dead.contains(&host) {
                engine.begin_cycle(world.now);
                engine.handle_timeout(world.now);
            }
        }
    }
}

/// A sender dies in the middle of a large message. That is noticed; messages that fit beside its
/// memory go on, and the memory is freed when its session ends.
#[test]
fn f17_f32_a_peer_that_dies_during_a_large_message_is_noticed_and_delays_no_other() {
    let mut world = frugal_world(4);
    for peer in 1..=3 {
        world.send(peer, 0).unwrap();
    }
    world.run(SECOND);
    world.received(0);
    send_large(&mut world, 1, 400_000);
    // RTS, CTS, some of the message; then the sender is dead.
    for host in [1, 0, 1, 0, 1] {
        let packets = world.outgoing(host);
        packets.iter().for_each(|packet| world.deliver(packet));
    }
    send_large(&mut world, 2, 300_000);
    run_without(&mut world, &[1], SECOND);
    send_large(&mut world, 3, 100_000);
    run_without(&mut world, &[1], 5 * SECOND);
    assert_eq!(
        world.received(0),
        0,
        "the second waits for what the first holds"
    );
    run_without(&mut world, &[1], 10 * SECOND);
    let lost = |event: &Event| matches!(event, Event::Lost { node, .. } if *node == id(1));
    assert!(world.events(0).iter().any(lost));
    assert_eq!(world.received(0), 1, "the third need not");
    run_without(&mut world, &[1], 300 * SECOND);
    assert_eq!(world.received(0), 1, "the first has ended");
}

/// Clients vanish silently, and their windows fill the pool.
#[test]
fn f17_f32_sessions_of_the_dead_end_when_newcomers_find_no_room() {
    let mut world = World::new(3);
    world.send(1, 0).unwrap();
    world.run(SECOND);
    world.received(0);
    world.events(0);
    // Other sessions took the rest of the memory.
    let mut taken = Vec::new();
    while let Some(promise) = world.engines[0].shared.memory.take() {
        taken.push(promise);
    }
    run_without(&mut world, &[1], 60 * SECOND);
    assert!(world.events(0).is_empty(), "nothing waits for it");
    world.send(2, 0).unwrap();
    run_without(&mut world, &[1], 60 * SECOND);
    let lost = |event: &Event| matches!(event, Event::Lost { node, .. } if *node == id(1));
    assert!(world.events(0).iter().any(lost));
    run_without(&mut world, &[1], 300 * SECOND);
    // The first message was given up meanwhile.
    world.send(2, 0).unwrap();
    run_without(&mut world, &[1], 5 * SECOND);
    assert_eq!(world.received(0), 1, "the window of the first is free");
}

/// Strangers of one address get half of the table, and those that left are forgotten to make room
/// for more.
#[test]
fn f02_departed_strangers_of_an_address_make_room_for_others_of_it() {
    let mut world = super::strangers::one_server(7, 8, BUFFER);
    for peer in 1..=6 {
        world.send(peer, 0).unwrap();
        world.run(SECOND);
        assert_eq!(world.received(0), 1, "stranger {peer}");
        world.events(0);
        let now = world.now;
        world.engines[peer].close(now, SECOND);
        world.run(60 * SECOND);
        world.events(0);
    }
}

/// Data on an INIT is taken, and so are the packets that its sender sends on the old connection
/// until ACCEPT comes: the old connection stays on the books.
#[test]
fn f10_f21_data_on_an_init_does_not_end_the_old_connections_credit() {
    let mut world = connected();
    let now = world.now;
    world.peer(1, 0).open(now, 7);
    let key = world.engines[1].peer_key(id(0)).unwrap();
    world.engines[1].touch(key);
    // HELLO, COOKIE.
    for host in [1, 0] {
        let packets = world.outgoing(host);
        packets.iter().for_each(|packet| world.deliver(packet));
    }
    world.send(1, 0).unwrap();
    let init = world.outgoing(1);
    assert!(init.iter().any(|p| p.is(PacketType::Init)));
    init.iter().for_each(|packet| world.deliver(packet));
    assert_eq!(world.received(0), 1, "it rode");
    let replaced = |world: &mut World| {
        let connection = world.peer(0, 1).connection.as_ref().unwrap();
        connection.previous.len()
    };
    assert_eq!(replaced(&mut world), 1);
    world.send(1, 0).unwrap();
    let old = world.outgoing(1);
    assert!(old.iter().any(|p| p.is(PacketType::Data)), "{}", old.len());
    world.run(SECOND);
    assert_eq!(replaced(&mut world), 0, "heard");
    assert_eq!(world.received(0), 1);
}

/// Packets on the connection of a session that is over do not affect the next session.
#[test]
fn f15_nonsense_after_close_ends_the_connection_and_not_the_next_session() {
    let mut world = connected();
    let now = world.now;
    world.events(0);
    world.engines[1].close_peer(now, id(0), SECOND).unwrap();
    let close = world.outgoing(1);
    close.iter().for_each(|packet| world.deliver(packet));
    assert!(world.peer(0, 1).lingering.is_some());
    let ended = |event: &Event| matches!(event, Event::Ended { .. });
    assert_eq!(world.events(0).iter().filter(|e| ended(e)).count(), 1);
    world.send(0, 1).unwrap();
    let local = world.peer(0, 1).connection.as_ref().unwrap().link.local;
    let last = close.last().unwrap().header();
    let mut bytes = Vec::new();
    wire::put_header(
        &mut bytes,
        &Header {
            number: last.number + 1,
            index: local.index,
            tag: local.tag,
            ..last
        },
    );
    bytes.push(0x20);
    wire::seal(&mut bytes);
    world.deliver(&Packet {
        from: 1,
        to: 0,
        bytes,
    });
    assert_eq!(world.engines[0].counters().protocol_errors, 1);
    assert!(world.peer(0, 1).connection.is_none());
    world.run(5 * SECOND);
    assert!(!world.events(0).iter().any(ended));
    assert_eq!(world.received(1), 1);
}

/// An attacker that pretends to be node 2 and claims any number of ended sessions does not harm the
/// real node 2, neither when that calls nor when it is called.
#[test]
fn f14_no_claimed_epoch_locks_a_node_out() {
    let (half, most) = (1 << 63, u64::MAX);
    for claims in [
        [most, most],
        [most - 1, most - 1],
        [half, half],
        [half - 1, most],
    ] {
        for (caller, called) in [(0, 1), (1, 0)] {
            // The attacker pretends to be other starts of the node, and the running one.
            for (start, step) in [(50, 1), (2, 0)] {
                let mut world = World::new(2);
                let real = world.engines.pop().unwrap();
                assert_eq!(real.shared.identity.incarnation, Incarnation(2));
                for turn in 0..10 {
                    let incarnation = Incarnation(start + step * turn as u128);
                    claim_epoch(&mut world, incarnation, claims[turn % 2]);
                }
                world.engines.push(real);
                // Data on an INIT of a lower epoch is not sent again.
                world.send(caller, called).unwrap();
                world.run(SECOND);
                world.received(called);
                for (from, to) in [(caller, called), (called, caller)] {
                    world.send(from, to).unwrap();
                    world.run(SECOND);
                    assert_eq!(world.received(to), 1, "{claims:?} {caller} {start}");
                }
            }
        }
    }
}

/// ACCEPT ends the session before, which takes an entry in the history and may push one out:
/// sessions with that incarnation begin in a higher epoch from then on. But the session that ACCEPT
/// begins has the epoch in ACCEPT.
#[test]
fn f14_both_ends_are_in_the_epoch_that_accept_says() {
    let mut world = connected();
    let history = &mut world.peer(0, 1).history;
    for other in 0..MAX_RETIRED as u128 {
        let next = if other == 0 { 6 } else { 1 };
        history.go_on_at(Incarnation(100 + other), Epoch(next));
    }
    world.restart(1);
    for _ in 0..2 {
        for (from, to) in [(0, 1), (1, 0)] {
            world.send(from, to).unwrap();
            world.run(SECOND);
        }
    }
    let epochs = [(0, 1), (1, 0)].map(|(host, peer)| world.peer(host, peer).session.epoch);
    assert_eq!(epochs, [Epoch(0); 2]);
}

/// An attacker pretends to be the second host, opens a session with the first in the epoch `claim`,
/// and closes it.
fn claim_epoch(world: &mut World, incarnation: Incarnation, claim: u64) {
    let ours = world.engines[0].shared.identity.incarnation;
    let identity = Identity {
        node: id(1),
        incarnation,
    };
    let seed = [claim as u8; 32];
    let mut engine = Engine::new(Config::default(), identity, seed, BUFFER, world.now).unwrap();
    engine.add_peer(world.now, id(0), address(0)).unwrap();
    world.engines.push(engine);
    world.peer(1, 0).history.go_on_at(ours, Epoch(claim));
    world.send(1, 0).unwrap();
    world.run(SECOND);
    let now = world.now;
    world.engines[1].close_peer(now, id(0), SECOND).unwrap();
    world.run(2 * SECOND);
    world.received(0);
    world.events(0);
    world.engines.pop();
}
