//! Nodes of other versions: each side says that versions differ.

use super::*;
use crate::RefusedReason;
use crate::event::LostCause;
use suci_link::wire::HELLO_LEN;

/// The packet as one of version 2.
fn of_version_2(packet: &Packet) -> Packet {
    let mut changed = packet.clone();
    changed.bytes[0] = 0x20 | changed.bytes[0] & 0xf;
    wire::seal(&mut changed.bytes);
    changed
}

/// The HELLO of host 0 to host 1.
fn hello_of(world: &mut World) -> Packet {
    world.send(0, 1).unwrap();
    world.outgoing(0).remove(0)
}

/// HELLO of another version is answered by a shorter REFUSED, at a bounded rate. Nothing else
/// of another version is answered.
#[test]
fn a_hello_of_another_version_is_refused() {
    let mut world = World::new(2);
    let hello = of_version_2(&hello_of(&mut world));
    world.deliver(&hello);
    let answers = world.outgoing(1);
    let [refused] = answers.as_slice() else {
        panic!("{} answers", answers.len());
    };
    assert!(refused.is(PacketType::Refused) && refused.bytes.len() < hello.bytes.len());
    assert_eq!(world.engines[1].counters().wrong_version, 1);
    assert!(!world.peer(1, 0).has_connection());
    let mut others: Vec<Packet> = Vec::new();
    let mut short = hello.clone();
    short.bytes.truncate(HELLO_LEN - 1);
    wire::seal(&mut short.bytes);
    others.push(short);
    let mut damaged = hello.clone();
    damaged.bytes[30] ^= 1;
    others.push(damaged);
    for kind in (0..16).filter(|kind| *kind != 1) {
        let mut other = hello.clone();
        other.bytes[0] = 0x20 | kind;
        wire::seal(&mut other.bytes);
        others.push(other);
    }
    others.iter().for_each(|packet| world.deliver(packet));
    assert!(world.outgoing(1).is_empty());
    let mut answers = 0;
    for _ in 0..1_000 {
        world.deliver(&hello);
        answers += world.outgoing(1).len();
    }
    assert_eq!(answers, 99, "100 a second");
}

/// The caller's program hears that versions differ, whatever version the refuser has.
#[test]
fn the_caller_hears_that_versions_differ() {
    for answers_in_2 in [false, true] {
        let mut world = World::new(2);
        let hello = hello_of(&mut world);
        world.deliver(&of_version_2(&hello));
        let refused = world.outgoing(1).remove(0);
        let refused = match answers_in_2 {
            true => of_version_2(&refused),
            false => refused,
        };
        let mut forged = refused.clone();
        forged.bytes[16] ^= 1;
        wire::seal(&mut forged.bytes);
        world.deliver(&forged);
        assert!(world.events(0).is_empty(), "another token");
        let mut other = refused.clone();
        let code = other.bytes.last_mut().unwrap();
        *code = 3;
        wire::seal(&mut other.bytes);
        if answers_in_2 {
            world.deliver(&other);
            assert!(world.events(0).is_empty(), "another reason, of version 2");
        }
        world.deliver(&refused);
        let reason = RefusedReason::Version;
        let node = id(1);
        assert_eq!(world.events(0), [Event::Refused { node, reason }]);
        let cause = LostCause::Refused(reason);
        // The peer falls silent.
        world.engines.pop();
        world.run(20 * SECOND);
        assert_eq!(world.events(0), [Event::Lost { node, cause }]);
    }
}

/// The refuser's program hears it, too: once, of a node that it knows, where that node is.
#[test]
fn the_refuser_hears_that_versions_differ() {
    let mut world = World::new(2);
    let hello = of_version_2(&hello_of(&mut world));
    let mut elsewhere = hello.clone();
    elsewhere.from = 7;
    let mut stranger = hello.clone();
    stranger.bytes[4] = 99;
    let mut misled = hello.clone();
    misled.bytes[28] = 99;
    for other in [&mut elsewhere, &mut stranger, &mut misled] {
        wire::seal(&mut other.bytes);
        world.deliver(other);
        assert_eq!(world.outgoing(1).len(), 1, "REFUSED");
        assert!(world.events(1).is_empty());
    }
    world.deliver(&hello);
    let (node, reason) = (id(0), RefusedReason::Version);
    assert_eq!(world.events(1), [Event::Refused { node, reason }]);
    world.deliver(&hello);
    assert!(world.events(1).is_empty());
}

/// A forged HELLO of another version says nothing while the connection goes on.
#[test]
fn a_connection_that_goes_on_shows_that_versions_agree() {
    let mut world = World::new(2);
    let hello = of_version_2(&hello_of(&mut world));
    world.run(SECOND);
    world.events(1);
    assert!(world.peer(1, 0).has_connection());
    for _ in 0..10 {
        world.deliver(&hello);
        world.run(SECOND);
    }
    assert!(world.events(1).is_empty());
    // The other side is silent, but nothing waits for it: nobody can end this session by a HELLO.
    let without_0 = |packet: &Packet| packet.from == 0 || packet.to == 0;
    for _ in 0..15 {
        world.deliver(&hello);
        world.run_but(SECOND, without_0);
    }
    assert!(world.events(1).is_empty());
    // A process of the other version took the place of the old one.
    world.send(1, 0).unwrap();
    for _ in 0..15 {
        world.deliver(&hello);
        world.run_but(SECOND, without_0);
    }
    let (node, reason) = (id(0), RefusedReason::Version);
    let cause = LostCause::Refused(reason);
    let told = [Event::Refused { node, reason }, Event::Lost { node, cause }];
    assert_eq!(world.events(1), told);
}
