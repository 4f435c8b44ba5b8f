//! Sealed mode: what is authentic, what the handshake refuses, and which key seals what.

use super::idle::is_idle;
use super::*;
use crate::RefusedReason;
use crate::handshake::{Claim, Renewal};
use suci_link::limits::{PHASE_PACKETS, PHASE_TIME};
use suci_link::security::AEAD_TAG;
use suci_link::wire::{SEALED_OVERHEAD, SealedHeader};

/// Hosts with these cluster keys each; plain ones have none.
pub(super) fn world(keys: &[&[u64]]) -> World {
    let mut world = World::new(0);
    for (host, keys) in keys.iter().enumerate().filter(|(_, keys)| !keys.is_empty()) {
        let security = world.cluster(keys);
        world.security.insert(host, security);
    }
    for host in 0..keys.len() {
        let engine = world.start(host, keys.len(), BUFFER);
        world.engines.push(engine);
    }
    world
}

/// Two connected hosts with the same key, each with one message of the other.
pub(super) fn connected() -> World {
    let mut world = world(&[&[1], &[1]]);
    for (from, to) in [(0, 1), (1, 0)] {
        world.send(from, to).unwrap();
        world.run(SECOND);
        assert_eq!(world.received(to), 1);
    }
    world
}

pub(super) fn is_sealed(packet: &Packet) -> bool {
    wire::is_data(&packet.bytes)
}

/// Checks that the hosts can still exchange messages, and that no number was sealed twice.
pub(super) fn exchange(world: &mut World) {
    world.run(3 * SECOND);
    for (from, to) in [(0, 1), (1, 0)] {
        world.received(to);
        world.send(from, to).unwrap();
        world.run(3 * SECOND);
        assert_eq!(world.received(to), 1, "from {from}");
    }
    assert_eq!(world.ledger.repeats(), []);
}

#[test]
fn nothing_of_a_message_is_readable() {
    let world = connected();
    assert_eq!(world.ledger.repeats(), []);
    let data = world.seen.iter().filter(|packet| is_sealed(packet));
    assert_eq!(data.count(), world.ledger.packets());
    for packet in &world.seen {
        let readable = packet.bytes.windows(5).any(|bytes| bytes == b"hello");
        assert!(!readable, "{:?}", packet.bytes);
    }
}

/// Long messages fill trains; their packets are as long as plain ones.
#[test]
fn long_messages_fill_their_packets() {
    let mut world = connected();
    let mtu = 1_472;
    for host in 0..2 {
        world.routes.insert(host, mtu);
    }
    let payload: Bytes = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
    let body = Outgoing {
        payload: payload.clone(),
        ..message(b"")
    };
    world.engines[0].send(world.now, id(1), body).unwrap();
    world.run(SECOND);
    let (_, received) = world.engines[1].recv().unwrap();
    assert_eq!(received.payload.to_vec(), payload);
    let longest = world.seen.iter().map(|packet| packet.bytes.len()).max();
    assert!(longest.is_some_and(|longest| longest <= mtu));
    assert_eq!(world.ledger.repeats(), []);
}

#[test]
fn nodes_with_other_keys_exchange_nothing_and_both_say_why() {
    let mut world = world(&[&[1], &[2]]);
    world.send(0, 1).unwrap();
    world.run(5 * SECOND);
    for host in 0..2 {
        let reason = RefusedReason::Key;
        let told = |event: &Event| {
            *event
                == (Event::Refused {
                    node: id(1 - host),
                    reason,
                })
        };
        let events = world.events(host);
        assert_eq!(
            events.iter().filter(|event| told(event)).count(),
            1,
            "{host}"
        );
        assert_eq!(world.received(host), 0);
        assert!(!world.peer(host, 1 - host).has_connection());
    }
    assert!(!world.seen.iter().any(is_sealed));
}

#[test]
fn a_plain_and_a_sealed_node_exchange_nothing_and_both_say_why() {
    for (from, keys) in [(0, [&[][..], &[1]]), (1, [&[], &[1]])] {
        let mut world = world(&keys);
        world.send(from, 1 - from).unwrap();
        world.run(5 * SECOND);
        for host in 0..2 {
            let reason = RefusedReason::Mode;
            let told = |event: &Event| {
                *event
                    == (Event::Refused {
                        node: id(1 - host),
                        reason,
                    })
            };
            assert!(world.events(host).iter().any(told), "{host}");
            assert_eq!(world.received(host), 0);
        }
        assert!(!world.seen.iter().any(|packet| wire::is_data(&packet.bytes)));
    }
}

/// A process that answers and refuses for another reason than a lack of room is silence: the peer
/// is lost when the silence timeout is over, and given up in time.
#[test]
fn a_peer_that_refuses_for_good_is_lost_and_given_up_in_time() {
    let silence = Duration::from_secs(2);
    for (keys, reason) in [
        ([&[1][..], &[2]], RefusedReason::Key),
        ([&[], &[1]], RefusedReason::Mode),
        ([&[1], &[]], RefusedReason::Mode),
    ] {
        let mut world = world(&keys);
        let (now, begun) = (world.now, world.now);
        let patience = |options: &mut crate::PeerOptions| {
            (options.silence_timeout, options.give_up_after) = (silence, 2 * silence);
        };
        world.engines[0]
            .change_options(now, id(1), patience)
            .unwrap();
        world.send(0, 1).unwrap();
        let (mut lost, mut ended) = (None, None);
        while ended.is_none() && world.now < begun + 5 * silence {
            world.run(Duration::from_millis(50));
            let after = world.now.since(begun);
            for event in world.events(0) {
                match event {
                    Event::Lost { cause, .. } => {
                        assert_eq!(cause, crate::LostCause::Refused(reason));
                        lost = Some(after);
                    }
                    Event::Ended { .. } => ended = Some(after),
                    _ => {}
                }
            }
        }
        println!("figure: {reason:?}: lost after {lost:?}, ended after {ended:?}");
        let slack = Duration::from_millis(500);
        let is_due =
            |at: Option<Duration>, due| at.is_some_and(|at| (due..due + slack).contains(&at));
        assert!(is_due(lost, silence), "{reason:?}: {lost:?}");
        assert!(is_due(ended, 2 * silence), "{reason:?}: {ended:?}");
    }
}

/// F30: whatever byte of a packet changed, the packet is dropped, and nothing but counters changes.
#[test]
fn f30_changed_packets_are_not_authentic() {
    let mut world = connected();
    world.send(0, 1).unwrap();
    let packets = world.outgoing(0);
    let [packet] = packets.as_slice() else {
        panic!("{} packets", packets.len());
    };
    let before = *world.engines[1].counters();
    for at in (0..packet.bytes.len()).filter(|at| *at != 0) {
        let mut changed = packet.clone();
        changed.bytes[at] ^= 0x10;
        world.deliver(&changed);
    }
    for len in [
        0,
        SEALED_OVERHEAD - 1,
        SEALED_OVERHEAD,
        packet.bytes.len() - 1,
    ] {
        let mut cut = packet.clone();
        cut.bytes.truncate(len);
        world.deliver(&cut);
    }
    let after = *world.engines[1].counters();
    assert_eq!(after.duplicates, before.duplicates);
    assert!(after.bad_checksum > before.bad_checksum);
    assert_eq!(world.received(1), 0);
    world.deliver(packet);
    assert_eq!(world.received(1), 1);
    exchange(&mut world);
}

/// F06: replays of a recorded session change nothing and are counted, also at a process that began
/// since.
#[test]
fn f06_replays_are_counted() {
    let mut world = connected();
    let seen = world.seen.clone();
    let data = seen
        .iter()
        .filter(|packet| packet.to == 1 && is_sealed(packet));
    let data = data.count() as u64;
    let before = *world.engines[1].counters();
    let to_it = seen.iter().filter(|packet| packet.to == 1);
    to_it.clone().for_each(|packet| world.deliver(packet));
    let after = *world.engines[1].counters();
    assert_eq!(after.duplicates - before.duplicates, data);
    assert_eq!(world.received(1), 0);
    exchange(&mut world);
    world.restart(1);
    to_it.clone().for_each(|packet| world.deliver(packet));
    let engine = &world.engines[1];
    assert_eq!(engine.counters().unknown_connection, data);
    assert!(!world.peer(1, 0).has_connection());
    exchange(&mut world);
}

/// F02: a sender with a good cookie and no key has so many messages read, and no more, however
/// often it sends its INIT. A node at another address comes in meanwhile.
#[test]
fn f02_messages_that_no_key_fits_are_read_at_a_bounded_rate() {
    let mut world = world(&[&[1], &[1], &[1]]);
    world.send(0, 1).unwrap();
    for host in [0, 1] {
        let packets = world.outgoing(host);
        packets.iter().for_each(|packet| world.deliver(packet));
    }
    let mut init = world.outgoing(0).remove(0);
    assert!(init.is(PacketType::Init));
    *init.bytes.last_mut().unwrap() ^= 1;
    wire::seal(&mut init.bytes);
    let mut refused = 0;
    for _ in 0..3_000 {
        world.deliver(&init);
        let answers = world.outgoing(1);
        refused += answers.iter().filter(|p| p.is(PacketType::Refused)).count();
    }
    assert_eq!(refused, 1_024);
    assert_eq!(world.engines[1].counters().handshake_rejected, 3_000);
    let elsewhere = SocketAddr::from(([10, 0, 0, 2], 1));
    let source = |from: SocketAddr| {
        let claim = Claim {
            origin: from.into(),
            node: id(0),
            incarnation: Incarnation(1),
            token: 1,
        };
        world.engines[1].cookie_key.source(&claim)
    };
    let work = &world.engines[1].handshake_work;
    assert!(!work.may_read(world.now, source(address(0))));
    assert!(work.may_read(world.now, source(elsewhere)));
    // Time lets its node in, too, once the attack is over.
    world.run(3 * SECOND);
    assert_eq!(world.received(1), 1);
}

/// Delivers what the hosts send until an ACCEPT of 1 is under way, and returns it.
pub(super) fn accept_of(world: &mut World) -> Packet {
    world.send(0, 1).unwrap();
    for host in [0, 1, 0] {
        let packets = world.outgoing(host);
        packets.iter().for_each(|packet| world.deliver(packet));
        world.seen.extend(packets);
    }
    let packets = world.outgoing(1);
    let accept = packets
        .iter()
        .find(|p| !is_sealed(p) && p.is(PacketType::Accept));
    accept.unwrap().clone()
}

/// F10: an ACCEPT that was changed, with its checksum corrected, does not end the attempt.
#[test]
fn f10_a_changed_accept_is_dropped() {
    let whole = accept_of(&mut world(&[&[1], &[1]])).bytes.len();
    // Fewer in a row than end an attempt.
    for first in (wire::PLAIN_OVERHEAD..whole).step_by(60) {
        let mut world = world(&[&[1], &[1]]);
        let accept = accept_of(&mut world);
        for at in first..whole.min(first + 60) {
            let mut changed = accept.clone();
            changed.bytes[at] ^= 1;
            wire::seal(&mut changed.bytes);
            world.deliver(&changed);
            assert!(!world.peer(0, 1).has_connection(), "byte {at}");
        }
        world.deliver(&accept);
        assert!(world.peer(0, 1).has_connection());
        exchange(&mut world);
    }
}

/// F10: an INIT that was changed opens nothing: its cookie, or the message over all of it, does not
/// fit.
#[test]
fn f10_a_changed_init_opens_nothing() {
    let mut world = world(&[&[1], &[1]]);
    world.send(0, 1).unwrap();
    for host in [0, 1] {
        let packets = world.outgoing(host);
        packets.iter().for_each(|packet| world.deliver(packet));
    }
    let packets = world.outgoing(0);
    let init = packets.iter().find(|p| p.is(PacketType::Init)).unwrap();
    // The checksum is corrected.
    for at in (8..init.bytes.len()).filter(|at| !(24..28).contains(at)) {
        let mut changed = init.clone();
        changed.bytes[at] ^= 1;
        wire::seal(&mut changed.bytes);
        world.deliver(&changed);
        assert!(!world.peer(1, 0).has_connection(), "byte {at}");
    }
    world.deliver(init);
    assert!(world.peer(1, 0).has_connection());
    exchange(&mut world);
}

#[test]
fn a_repeated_init_is_answered_by_the_same_accept() {
    let mut world = world(&[&[1], &[1]]);
    let accept = accept_of(&mut world);
    let init = world.seen.iter().find(|p| p.is(PacketType::Init)).cloned();
    world.deliver(&init.unwrap());
    let packets = world.outgoing(1);
    let again = packets
        .iter()
        .find(|p| !is_sealed(p) && p.is(PacketType::Accept));
    assert_eq!(again.unwrap().bytes, accept.bytes);
    assert_eq!(world.ledger.handshakes(), 1);
}

/// Data that comes before ACCEPT cannot be opened yet: it changes nothing.
#[test]
fn data_before_accept_changes_nothing() {
    let mut world = world(&[&[1], &[1]]);
    world.send(1, 0).unwrap();
    let accept = accept_of(&mut world);
    let local = world.peer(1, 0).connection.as_ref().unwrap().link.remote;
    let forged = SealedHeader {
        index: local.index,
        number: 1 << 40,
        phase: 0,
    };
    let bytes = [&forged.bytes()[..], &[0; 40]].concat();
    let (from, to) = (1, 0);
    world.deliver(&Packet { from, to, bytes });
    assert_eq!(world.engines[0].counters().unknown_connection, 1);
    assert_eq!(world.engines[0].counters().unknown_sent, 0);
    world.deliver(&accept);
    exchange(&mut world);
}

#[test]
fn both_keys_are_accepted_while_one_replaces_the_other() {
    for keys in [[&[2, 1][..], &[1]], [&[1], &[2, 1]], [&[1, 2], &[2, 1]]] {
        let mut world = world(&keys);
        world.send(0, 1).unwrap();
        world.run(3 * SECOND);
        assert_eq!(world.received(1), 1, "{keys:?}");
        exchange(&mut world);
    }
}

/// The packets that each host seals under a new connection have another index.
fn index_to(world: &mut World, host: usize) -> u32 {
    let connection = world.peer(host, 1 - host).connection.as_ref();
    connection.unwrap().link.remote.index
}

#[test]
fn renewed_keys_lose_no_message() {
    for renewal in [Renewal::Replace, Renewal::StopSealing, Renewal::Revoke] {
        let mut world = connected();
        let body = Outgoing {
            payload: vec![3; 200_000].into(),
            ..message(b"")
        };
        for _ in 0..3 {
            world.engines[0]
                .send(world.now, id(1), body.clone())
                .unwrap();
        }
        // Some packets are under way.
        let packets = world.outgoing(0);
        let old = index_to(&mut world, 0);
        let now = world.now;
        for engine in &mut world.engines {
            engine.renew_keys(now, renewal);
        }
        packets.iter().for_each(|packet| world.deliver(packet));
        world.run(5 * SECOND);
        assert_eq!(world.received(1), 3, "{renewal:?}");
        assert_ne!(index_to(&mut world, 0), old);
        assert!(world.ledger.handshakes() > 1);
        exchange(&mut world);
    }
}

/// A peer moves while this side may not seal anything under the present keys, a challenge neither:
/// the fresh handshake goes to where its packets come from.
#[test]
fn f13_a_fresh_handshake_finds_a_peer_that_moved() {
    const MOVED: usize = 10;
    for renewal in [Renewal::StopSealing, Renewal::Revoke] {
        let mut world = connected();
        let now = world.now;
        world.engines[1].renew_keys(now, renewal);
        world.send(0, 1).unwrap();
        for _ in 0..400 {
            for mut packet in [0, 1].map(|host| world.outgoing(host)).concat() {
                match (packet.from, packet.to) {
                    (0, _) => packet.from = MOVED,
                    (_, MOVED) => packet.to = 0,
                    _ => continue,
                }
                world.deliver(&packet);
            }
            world.pass(STEP);
        }
        assert_eq!(world.received(1), 1, "{renewal:?}");
        let path = world.peer(1, 0).path_address();
        assert_eq!(path, Some(address(MOVED)), "{renewal:?}");
    }
}

/// After a machine was restored from a snapshot, nothing is sealed before a fresh handshake.
#[test]
fn nothing_is_sealed_after_a_restored_snapshot() {
    for renewal in [Renewal::StopSealing, Renewal::Revoke] {
        let mut world = connected();
        let now = world.now;
        world.engines[0].renew_keys(now, renewal);
        let sealed = world.ledger.packets();
        for _ in 0..10 {
            world.send(0, 1).unwrap();
            assert!(!world.outgoing(0).iter().any(is_sealed));
            world.now += SECOND;
            let now = world.now;
            world.engines[0].begin_cycle(now);
            world.engines[0].handle_timeout(now);
        }
        world.engines[0]
            .close_peer(world.now, id(1), SECOND)
            .unwrap();
        assert!(!world.outgoing(0).iter().any(is_sealed));
        assert_eq!(world.ledger.packets(), sealed);
    }
}

/// Nor is the final CLOSE, which waits for the driver to look at the clock and send; so after a key
/// was taken out.
#[test]
fn no_final_close_is_sealed_under_keys_that_are_over() {
    use Renewal::{Replace, Revoke, StopSealing};
    for renewal in [None, Some(Replace), Some(StopSealing), Some(Revoke)] {
        let mut world = connected();
        let now = world.now;
        world.outgoing(0);
        let sealed = world.ledger.packets();
        assert_eq!(world.engines[0].reset(now, id(1)), Ok(true));
        if let Some(renewal) = renewal {
            world.engines[0].renew_keys(now, renewal);
        }
        let packets = world.outgoing(0);
        let closes = packets.iter().filter(|packet| is_sealed(packet)).count();
        let expected = match renewal {
            None | Some(Replace) => (3, 1),
            _ => (0, 0),
        };
        let sealed = world.ledger.packets() - sealed;
        assert_eq!((closes, sealed), expected, "{renewal:?}");
    }
}

/// F15: key phases change by time. Those of both directions are independent.
#[test]
fn f15_phases_change_by_time() {
    let mut world = connected();
    for phase in 1..=9 {
        world.now += PHASE_TIME;
        let now = world.now;
        for engine in &mut world.engines {
            engine.begin_cycle(now);
            engine.handle_timeout(now);
        }
        exchange(&mut world);
        assert_eq!(world.ledger.phases(), 2 * phase);
    }
    assert_eq!(world.ledger.handshakes(), 1);
}

/// F15: a phase whose packets are used up ends; without an acknowledgement the connection is
/// replaced.
#[test]
fn f15_phases_change_by_packets() {
    let mut world = connected();
    let sealing = |world: &mut World| {
        let connection = world.peer(0, 1).connection.as_mut().unwrap();
        connection
            .link
            .sealing
            .as_mut()
            .unwrap()
            .use_up_phase(PHASE_PACKETS);
    };
    sealing(&mut world);
    exchange(&mut world);
    assert_eq!((world.ledger.phases(), world.ledger.handshakes()), (1, 1));
    // The acknowledgement of the next phase's first packet is lost.
    sealing(&mut world);
    world.send(0, 1).unwrap();
    world.outgoing(0);
    sealing(&mut world);
    exchange(&mut world);
    assert_eq!((world.ledger.phases(), world.ledger.handshakes()), (2, 2));
}

/// F11: UNKNOWN is a hint: it must hold the end of a packet that was sent of late, and it changes
/// nothing but that a handshake begins.
#[test]
fn f11_unknown_names_a_packet_by_its_end() {
    let mut world = connected();
    let epoch = world.peer(0, 1).session.epoch;
    world.restart(1);
    world.send(0, 1).unwrap();
    let packets = world.outgoing(0);
    packets.iter().for_each(|packet| world.deliver(packet));
    let answers = world.outgoing(1);
    let [unknown] = answers.as_slice() else {
        panic!("{} packets", answers.len());
    };
    assert!(unknown.is(PacketType::Unknown));
    assert!(unknown.bytes.len() <= packets[0].bytes.len());
    let mut forged = unknown.clone();
    forged.bytes[16] ^= 1;
    wire::seal(&mut forged.bytes);
    world.deliver(&forged);
    assert_eq!(world.engines[0].counters().handshake_rejected, 1);
    assert!(world.outgoing(0).is_empty());
    world.deliver(unknown);
    assert!(
        world
            .outgoing(0)
            .iter()
            .any(|packet| packet.is(PacketType::Hello))
    );
    assert_eq!(world.peer(0, 1).session.epoch, epoch);
    exchange(&mut world);
}

/// Idle peers keep their keys, and packets that are not authentic leave them idle.
#[test]
fn idle_peers_keep_their_keys() {
    let mut world = connected();
    let packet = world
        .seen
        .iter()
        .rev()
        .find(|packet| packet.to == 1 && is_sealed(packet));
    let mut forged = packet.unwrap().clone();
    let last = forged.bytes.len() - AEAD_TAG;
    forged.bytes[last] ^= 1;
    while world.engines.iter_mut().any(|e| e.poll_event().is_some()) {}
    world.run(25 * SECOND);
    assert!(is_idle(&world, 1, 0));
    world.deliver(&forged);
    assert!(is_idle(&world, 1, 0));
    exchange(&mut world);
    assert_eq!(world.ledger.handshakes(), 1);
}
