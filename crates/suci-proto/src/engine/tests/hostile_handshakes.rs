//! Sealed mode: what handshakes cost that somebody on the path repeats or forges, when keys are
//! worn out, and what both sides hear of keys that differ.

use super::sealed::{accept_of, connected, exchange, is_sealed, world};
use super::*;
use crate::event::LostCause;
use crate::handshake::Renewal;
use crate::{RefusedReason, handshake::Claim};
use suci_link::limits::MAX_FORGERIES;

/// Returns true if the packet has this kind: sealed packets have none of a handshake.
fn is(packet: &Packet, kind: PacketType) -> bool {
    !is_sealed(packet) && packet.is(kind)
}

/// The INIT of host 0 that opened its connection with host 1.
fn recorded_init(world: &World) -> Packet {
    let is_init = |packet: &&Packet| is(packet, PacketType::Init);
    world.seen.iter().rfind(is_init).unwrap().clone()
}

/// Returns true if host 1 would read a message of host 0's address.
fn may_read(world: &World) -> bool {
    let engine = &world.engines[1];
    let claim = Claim {
        origin: address(0).into(),
        node: id(0),
        incarnation: Incarnation(1),
        token: 1,
    };
    let source = engine.cookie_key.source(&claim);
    engine.handshake_work.may_read(world.now, source)
}

/// F02: an INIT that was recorded on the path, and copies of it with another message, use up
/// neither the key exchanges of all nor the failures of the honest source.
#[test]
fn f02_repeated_inits_use_up_no_limit() {
    let mut world = world(&[&[1], &[1]]);
    world.send(0, 1).unwrap();
    world.run(SECOND);
    let init = recorded_init(&world);
    let mut changed = init.clone();
    *changed.bytes.last_mut().unwrap() ^= 1;
    wire::seal(&mut changed.bytes);
    let flood = |world: &mut World| {
        for _ in 0..5_000 {
            world.deliver(&init);
            world.deliver(&changed);
            world.outgoing(1);
        }
        assert!(may_read(world));
    };
    flood(&mut world);
    // The same once a newer INIT was accepted.
    let now = world.now;
    world.engines[0].renew_keys(now, Renewal::Replace);
    world.run(SECOND);
    assert_ne!(recorded_init(&world).bytes, init.bytes);
    let before = world.engines[1].counters().handshake_rejected;
    flood(&mut world);
    let after = world.engines[1].counters().handshake_rejected;
    assert_eq!((after - before, world.ledger.handshakes()), (10_000, 2));
    exchange(&mut world);
}

/// F02: an INIT that a key fits and that is refused for another reason is not read without end.
#[test]
fn f02_refused_inits_are_read_at_a_bounded_rate() {
    let mut world = world(&[&[1], &[1]]);
    for from in [0, 1] {
        world.send(from, 1 - from).unwrap();
    }
    // Both INITs are under way: that of the lower node wins.
    for _ in ["HELLO", "COOKIE"] {
        let packets = [0, 1].map(|host| world.outgoing(host)).concat();
        packets.iter().for_each(|packet| world.deliver(packet));
    }
    let inits = [0, 1].map(|host| world.outgoing(host)).concat();
    let init = inits.iter().find(|p| is(p, PacketType::Init) && p.to == 0);
    for _ in 0..3_000 {
        world.deliver(init.unwrap());
    }
    assert!(!world.peer(0, 1).has_connection());
    let read = world.engines[0].counters().handshake_rejected;
    assert_eq!(read, 3_000);
    let claim = Claim {
        origin: address(1).into(),
        node: id(1),
        incarnation: Incarnation(2),
        token: 1,
    };
    let source = world.engines[0].cookie_key.source(&claim);
    assert!(!world.engines[0].handshake_work.may_read(world.now, source));
    exchange(&mut world);
}

/// Returns a world in which an ACCEPT with the token of host 0's INIT came `count` times, and was
/// forged. The honest one came then.
fn after_forged_accepts(count: usize) -> World {
    let mut world = world(&[&[1], &[1]]);
    let accept = accept_of(&mut world);
    let mut forged = accept.clone();
    *forged.bytes.last_mut().unwrap() ^= 1;
    wire::seal(&mut forged.bytes);
    (0..count).for_each(|_| world.deliver(&forged));
    world.deliver(&accept);
    world
}

/// F02: an initiator makes key exchanges for so many forged ACCEPTs, and then begins anew.
#[test]
fn f02_forged_accepts_end_an_attempt_at_last() {
    assert!(after_forged_accepts(63).peer(0, 1).has_connection());
    for count in [64, 10_000] {
        let mut world = after_forged_accepts(count);
        assert!(!world.peer(0, 1).has_connection());
        let exchanges = world.ledger.handshakes();
        world.run(3 * SECOND);
        assert_eq!(world.ledger.handshakes(), exchanges + 1);
        assert_eq!(world.received(1), 1);
        exchange(&mut world);
    }
}

/// RFC 9001, section 6.6: keys under which too many packets were forged open nothing more. A fresh
/// handshake follows, and no message is lost.
#[test]
fn keys_of_a_much_forged_connection_are_replaced() {
    let mut world = connected();
    let packet = world.seen.iter().rfind(|p| p.to == 1 && is_sealed(p));
    let mut forged = packet.unwrap().clone();
    *forged.bytes.last_mut().unwrap() ^= 1;
    let connection = world.peer(1, 0).connection.as_mut().unwrap();
    let sealing = connection.link.sealing.as_mut().unwrap();
    sealing.wear_out(MAX_FORGERIES - 2);
    world.deliver(&forged);
    world.run(SECOND);
    assert_eq!(world.ledger.handshakes(), 1);
    world.send(0, 1).unwrap();
    world.deliver(&forged);
    exchange(&mut world);
    assert_eq!(world.ledger.handshakes(), 2);
}

/// Two connected hosts with a cluster key, whose keys are changed by `change`.
fn rekeyed(keys: [&[u64]; 2], renewal: Renewal) -> World {
    let mut world = World::new(0);
    let makes = [(), ()].map(|()| RecordingHandshakes::new(world.ledger.clone(), &[1]));
    for (host, makes) in makes.iter().enumerate() {
        let security = Security::Sealed(Arc::new(makes.clone()));
        world.security.insert(host, security);
        let engine = world.start(host, 2, BUFFER);
        world.engines.push(engine);
    }
    exchange(&mut world);
    (0..2).for_each(|host| drop(world.events(host)));
    for (makes, keys) in makes.iter().zip(keys) {
        makes.set_keys(keys);
    }
    let now = world.now;
    world.engines[0].renew_keys(now, renewal);
    world
}

fn refusals(events: &[Event]) -> Vec<RefusedReason> {
    let reason = |event: &Event| match event {
        Event::Refused { reason, .. } => Some(*reason),
        _ => None,
    };
    events.iter().filter_map(reason).collect()
}

/// A key that is replaced at one side alone: both sides hear that keys differ, and know the cause
/// should the other be lost.
#[test]
fn both_sides_hear_of_keys_that_were_changed_at_one() {
    for sends in [false, true] {
        let mut world = rekeyed([&[2], &[1]], Renewal::Revoke);
        if sends {
            world.send(0, 1).unwrap();
            world.send(1, 0).unwrap();
        }
        world.run(7 * SECOND);
        for host in 0..2 {
            let events = world.events(host);
            assert_eq!(refusals(&events), [RefusedReason::Key], "{host} {sends}");
            assert_eq!(world.received(host), 0);
        }
        world.run(10 * SECOND);
        for host in 0..2 {
            assert_eq!(refusals(&world.events(host)), [], "said once");
            let cause = world.peer(host, 1 - host).life.cause();
            assert_eq!(cause, LostCause::Refused(RefusedReason::Key), "{host}");
        }
    }
}

/// While a key is rotated, its first use is refused where only the old one is known. Nobody hears
/// of that: the connection goes on.
#[test]
fn a_rotation_is_no_fault() {
    for keys in [[&[2, 1][..], &[1]], [&[2, 1], &[1, 2]]] {
        let mut world = rekeyed(keys, Renewal::Replace);
        world.run(20 * SECOND);
        exchange(&mut world);
        for host in 0..2 {
            assert_eq!(refusals(&world.events(host)), []);
        }
        assert_eq!(world.ledger.handshakes(), 2);
    }
}

/// Somebody on the path who has no key says that keys differ: the peer is asked, and answers.
#[test]
fn forged_inits_do_not_say_that_keys_differ() {
    let mut world = connected();
    (0..2).for_each(|host| drop(world.events(host)));
    for _ in 0..10 {
        let init = recorded_init(&world);
        let hello = world
            .seen
            .iter()
            .find(|p| is(p, PacketType::Hello) && p.to == 1);
        let mut hello = hello.unwrap().clone();
        let tag = world.now.as_nanos();
        hello.bytes[16..24].copy_from_slice(&tag.to_le_bytes());
        wire::seal(&mut hello.bytes);
        world.deliver(&hello);
        let answers = world.outgoing(1);
        let cookie = answers.iter().find(|p| is(p, PacketType::Cookie));
        let cookie = cookie.unwrap().bytes[48..72].to_vec();
        let (header, body) = wire::open(&init.bytes).unwrap();
        let mut read = wire::Init::read(body).unwrap();
        read.cookie.copy_from_slice(&cookie);
        let mut forged = Packet {
            bytes: Vec::new(),
            ..init
        };
        wire::put_header(&mut forged.bytes, &Header { tag, ..header });
        read.put(&mut forged.bytes);
        wire::seal(&mut forged.bytes);
        world.deliver(&forged);
        world.run(SECOND);
    }
    let refused = world.seen.iter().filter(|p| is(p, PacketType::Refused));
    assert_eq!(refused.count(), 10);
    assert_eq!(refusals(&world.events(1)), []);
    exchange(&mut world);
}
