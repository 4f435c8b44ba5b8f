//! Attackers: entries of docs/faults.md about packets that no honest node would send.

use std::rc::Rc;

use crate::scenario::{
    MS, SECOND, arrive, calm, chatty, ended, lost, ok, record, send, spec, world,
};
use bytes::Bytes;
use suci_proto::types::ProtocolError;
use suci_proto::{Config, EndReason};
use suci_sim::options::Step;
use suci_sim::packet::Packet;
use suci_sim::rng::Rng;
use suci_sim::runner;
use suci_sim::tap::{self, DATA, Head};
use suci_sim::world::World;

/// The newest packet of a connection from one host to another.
fn newest(packets: &[Packet], from: usize, world: &World, to: usize) -> Packet {
    let mut all = packets.iter().rev();
    let found = all.find(|packet| {
        packet.source == from
            && packet.to == world.network.address(to)
            && packet.bytes.first() == Some(&DATA)
    });
    match found {
        Some(packet) => packet.clone(),
        None => panic!("no packet from {from} to {to}"),
    }
}

fn with_bytes(packet: &Packet, bytes: Vec<u8>) -> Packet {
    let mut packet = packet.clone();
    packet.bytes = Bytes::from(bytes);
    packet.carries = Rc::new([]);
    packet.fate.hostile = true;
    packet.fate.damaged = true;
    packet
}

/// A packet of a connection by the peer itself, further on, with frames of the test's making.
fn forged(world: &World, packet: &Packet, ahead: u64, body: &[u8]) -> Packet {
    match world.forged(packet, ahead, body) {
        Some(bytes) => with_bytes(packet, bytes),
        None => panic!("no packet of a connection"),
    }
}

/// The bytes by which UNKNOWN names a packet: the tag, or in sealed mode the end.
fn name(world: &World, packet: &Packet) -> u64 {
    let name = match world.options.sealed {
        true => packet.bytes.last_chunk().copied().map(u64::from_le_bytes),
        false => tap::head(&packet.bytes).map(|head| head.tag),
    };
    name.unwrap_or_else(|| panic!("a packet without a name"))
}

fn frame(first: u8, numbers: &[u64]) -> Vec<u8> {
    let mut body = vec![first];
    numbers
        .iter()
        .for_each(|number| tap::put_varint(&mut body, *number));
    body
}

fn three() -> (World, Vec<Packet>) {
    let mut world = world(calm(3));
    let packets = record(&mut world);
    for host in 0..3 {
        for to in (1..4).filter(|to| *to != host + 1) {
            send(&mut world, host as usize, 5, spec(to, 0, 500));
        }
    }
    arrive(&mut world, SECOND * 5);
    ok(world.run_for(MS * 100));
    let packets = packets.borrow().clone();
    (world, packets)
}

/// F01: a HELLO from a forged address is answered there by no more bytes than it had, and
/// leaves nothing behind.
#[test]
fn f01_a_spoofed_hello_keeps_no_state_and_is_not_amplified() {
    let mut world = world(calm(3));
    let packets = record(&mut world);
    send(&mut world, 0, 1, spec(2, 0, 100));
    arrive(&mut world, SECOND);
    let hello = packets
        .borrow()
        .iter()
        .find(|packet| packet.bytes.first() == Some(&(DATA + 1)))
        .cloned();
    let Some(hello) = hello else {
        panic!("no HELLO seen")
    };
    let before = packets.borrow().len();
    let peers = world.engine(1).map(|engine| engine.peers().count());
    for port in 0..500 {
        let mut packet = with_bytes(&hello, hello.bytes.to_vec());
        packet.from.set_port(20_000 + port);
        world.inject(packet);
        ok(world.run_for(MS));
    }
    let answers: Vec<_> = packets.borrow()[before..]
        .iter()
        .filter(|packet| packet.to.port() >= 20_000)
        .map(|packet| packet.bytes.len())
        .collect();
    assert!(!answers.is_empty(), "a listener answers");
    assert!(answers.len() <= 500 && answers.iter().all(|length| *length <= hello.bytes.len()));
    assert_eq!(world.engine(1).map(|engine| engine.peers().count()), peers);
}

/// F05: a peer that knows the tag acknowledges a packet that was never sent. That session ends with
/// a protocol error; the others do not notice.
#[test]
fn f05_an_ack_of_a_packet_never_sent_ends_that_session_only() {
    let (mut world, packets) = three();
    let packet = newest(&packets, 1, &world, 0);
    let lie = frame(0x10, &[1 << 40, 0, 0, 0]);
    world.inject(forged(&world, &packet, 1, &lie));
    ok(world.run_for(MS * 100));
    assert!(
        matches!(
            ended(&world, 0)[..],
            [EndReason::Protocol(ProtocolError::NeverSent(_))]
        ),
        "{:?}",
        ended(&world, 0)
    );
    assert_eq!(ended(&world, 2), vec![]);
    send(&mut world, 0, 5, spec(3, 0, 500));
    send(&mut world, 0, 5, spec(2, 0, 500));
    arrive(&mut world, SECOND * 30);
}

/// F08, F09: noise, empty datagrams, truncated ones, right checksums around broken frames.
#[test]
fn f08_malformed_packets_are_counted_and_dropped() {
    let (mut world, packets) = three();
    let packet = newest(&packets, 1, &world, 0);
    let before = world.engine(0).map(|engine| *engine.counters());
    let mut rng = Rng::new(1, 1);
    for round in 0..2_000 {
        let length = if round % 10 == 0 {
            0
        } else {
            rng.index(0, 1_472)
        };
        let mut bytes: Vec<u8> = (0..length).map(|_| rng.word() as u8).collect();
        if let (Some(first), 0) = (bytes.first_mut(), round % 3) {
            *first = DATA;
        }
        world.inject(with_bytes(&packet, bytes));
        if round % 50 == 0 {
            ok(world.run_for(MS));
        }
    }
    ok(world.run_for(MS));
    // Without a checksum, noise in sealed mode looks like a packet of an unknown connection.
    let counted = |c: &suci_proto::Counters| {
        c.malformed + c.wrong_version + c.bad_checksum + c.unknown_connection
    };
    let after = world.engine(0).map(|engine| *engine.counters());
    let rejected = after
        .as_ref()
        .map(counted)
        .zip(before.as_ref().map(counted));
    assert_eq!(
        rejected.map(|(after, before)| after - before),
        Some(2_000),
        "every one of them"
    );
    assert_eq!(ended(&world, 0), vec![]);
    // With the right tag and checksum, broken frames are that peer's fault alone.
    world.inject(forged(&world, &packet, 1, &[0x80 | 1, 0xff]));
    ok(world.run_for(MS * 100));
    assert!(
        matches!(ended(&world, 0)[..], [EndReason::Protocol(_)]),
        "{:?}",
        ended(&world, 0)
    );
    assert_eq!(ended(&world, 2), vec![]);
    send(&mut world, 0, 5, spec(3, 0, 500));
    arrive(&mut world, SECOND * 5);
}

/// F11: CLOSE with a wrong tag, and UNKNOWN, which any host may send: no session ends.
#[test]
fn f11_a_forged_close_or_hint_ends_nothing() {
    let (mut world, packets) = three();
    let packet = newest(&packets, 1, &world, 0);
    let Some(head) = tap::head(&packet.bytes) else {
        panic!("no header")
    };
    for bit in 0..64 {
        let close = frame(0x0f, &[0, 0, 0]);
        let head = Head {
            tag: head.tag ^ 1 << bit,
            number: head.number + 1 + bit,
            ..head
        };
        world.inject(with_bytes(&packet, tap::forge(head, &close)));
    }
    // A hint names a packet that its reader sent.
    let own = newest(&packets, 0, &world, 1);
    let Some(head) = tap::head(&own.bytes) else {
        panic!("no header")
    };
    for _ in 0..20 {
        let mut hint = with_bytes(
            &packet,
            tap::forge(
                Head {
                    first: tap::UNKNOWN,
                    tag: name(&world, &own),
                    ..head
                },
                &[],
            ),
        );
        hint.to = packet.to;
        world.inject(hint);
        ok(world.run_for(MS * 10));
    }
    send(&mut world, 0, 5, spec(2, 0, 500));
    send(&mut world, 1, 5, spec(1, 0, 500));
    arrive(&mut world, SECOND * 20);
    for host in 0..3 {
        assert_eq!(ended(&world, host), vec![], "host {host}");
        assert!(lost(&world, host).is_empty());
    }
}

/// F15: packet numbers begin just before the end of the field, and before 2^32 and 2^63.
#[test]
fn f15_packet_numbers_near_their_end_lose_nothing() {
    for first in [
        u64::MAX - 20,
        u64::MAX - 400,
        (1 << 63) - 50,
        (1 << 32) - 50,
    ] {
        let mut options = calm(2);
        options.configs = vec![Config {
            first_packet_number: first,
            ..Config::default()
        }];
        options.traffic = chatty(300);
        let outcome = runner::run(options, false);
        assert!(
            outcome.failure.is_none(),
            "{first:#x}: {:?}",
            outcome.failure
        );
        assert!(outcome.tally.messages >= 600, "{}", outcome.tally);
    }
}

/// All attacks at once, from an attacker that overhears every packet.
#[test]
fn f10_f11_an_attacker_that_overhears_everything_ends_no_session() {
    let mut options = calm(3);
    options.traffic = chatty(300);
    options.script = (1..200)
        .map(|n| (MS * (n * 10), Step::Attack(20)))
        .collect();
    let mut world = world(options);
    ok(world.run_for(SECOND * 4));
    for host in 0..3 {
        assert_eq!(ended(&world, host), vec![], "host {host}");
    }
    assert!(world.tally.hostile > 3_000);
    world.mend();
    ok(world.settle());
}
