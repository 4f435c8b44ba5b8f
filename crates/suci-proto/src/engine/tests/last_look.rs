//! After a train that holds everything, the peer is not checked again in this cycle: work that
//! arises from sending that train is not forgotten.

use super::*;
use suci_link::limits::MIN_MTU;
use suci_link::pmtu::PathMtu;
use suci_link::recovery::Recovery;
use suci_link::types::PacketNumber;

/// A probe needs packets in flight; a message of a few packets is acknowledged before the next one
/// begins.
#[test]
fn a_message_of_a_few_packets_finds_how_large_packets_may_be() {
    let mut world = connected();
    let connection = world.peer(1, 0).connection.as_mut().unwrap();
    connection.link.params.max_datagram = 8_972;
    let connection = world.peer(0, 1).connection.as_mut().unwrap();
    connection.link.mtu = PathMtu::new(None, 8_972);
    assert_eq!(connection.link.mtu.current(), MIN_MTU);
    let page = Outgoing {
        payload: Bytes::from(vec![1; 2_000]),
        ..message(b"")
    };
    world.engines[0].send(world.now, id(1), page).unwrap();
    let packets = world.outgoing(0);
    let sizes: Vec<_> = packets.iter().map(|packet| packet.bytes.len()).collect();
    assert!(matches!(sizes[..], [MIN_MTU, _, 8_972]), "{sizes:?}");
    packets.iter().for_each(|packet| world.deliver(packet));
    world.run(SECOND);
    let connection = world.peer(0, 1).connection.as_ref().unwrap();
    assert_eq!(connection.link.mtu.current(), 8_972);
}

/// The old connection can send nothing again: the next one must be opened although no timer of the
/// old one runs.
#[test]
fn f15_a_loss_of_the_last_number_is_repaired_on_the_next_connection() {
    let mut world = connected();
    let now = world.now;
    let connection = world.peer(0, 1).connection.as_mut().unwrap();
    connection.link.numbers.leave(1);
    let number = PacketNumber::MAX - 1;
    assert_eq!(connection.link.numbers.peek(), Some(number));
    let credit = SocketCredit {
        generation: 0,
        limit: 8,
        control: 8,
    };
    connection.link.credit = SendCredit::new(number - 1, credit, now);
    connection.link.recovery = Recovery::new(number, SECOND / 10);
    world.send(0, 1).unwrap();
    let lost = world.outgoing(0);
    assert_eq!(lost[0].header().number, number);
    world.run(5 * SECOND);
    assert_eq!(world.received(1), 1);
}
