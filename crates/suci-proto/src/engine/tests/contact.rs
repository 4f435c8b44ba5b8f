//! Between INIT and ACCEPT: the ACCEPT that the responder owes, and data that it sends before the
//! initiator knows the connection.

use super::*;
use crate::event::EndReason;

/// A client (0) whose INIT just reached the server (1), which has nothing to send yet but ACCEPT.
fn accepted() -> (World, Packet) {
    let mut world = World::new(2);
    world.send(0, 1).unwrap();
    let init = loop {
        let packets = world.outgoing(0);
        if let Some(init) = packets.iter().find(|p| p.is(PacketType::Init)) {
            break init.clone();
        }
        packets.iter().for_each(|packet| world.deliver(packet));
        let answers = world.outgoing(1);
        answers.iter().for_each(|packet| world.deliver(packet));
    };
    world.deliver(&init);
    (world, init)
}

fn of(kind: PacketType, packets: &[Packet]) -> Vec<Packet> {
    packets.iter().filter(|p| p.is(kind)).cloned().collect()
}

/// ACCEPT takes no room in the queue of replies, so it is not dropped when that is full.
#[test]
fn f04_an_accept_goes_however_many_replies_wait() {
    let (mut world, _) = accepted();
    while world.engines[1].shared.replies.has_room_for(true) {
        let shared = &mut world.engines[1].shared;
        shared
            .replies
            .add(address(5).into(), vec![0; 28], &mut shared.counters);
    }
    assert_eq!(world.engines[1].shared.replies.len(), 256);
    let packets = world.outgoing(1);
    let accepts = packets.iter().filter(|p| p.bytes[0] == 0x14);
    assert_eq!(accepts.count(), 1);
}

/// Data that comes before ACCEPT shows that the INIT arrived: it is repeated at once, and only
/// once. The numbers of that data are repaid when ACCEPT comes.
#[test]
fn f31_data_before_accept_asks_for_it_and_is_repaid() {
    let (mut world, init) = accepted();
    world.send(1, 0).unwrap();
    let packets = world.outgoing(1);
    let accept = of(PacketType::Accept, &packets);
    let data = of(PacketType::Data, &packets);
    assert!(packets[0].is(PacketType::Accept), "before any data");
    assert!((accept.len(), data.is_empty()) == (1, false));
    data.iter().for_each(|packet| world.deliver(packet));
    let again = world.outgoing(0);
    assert_eq!(again.len(), 1, "no UNKNOWN");
    assert!(again[0].bytes == init.bytes, "the same INIT");
    data.iter().for_each(|packet| world.deliver(packet));
    assert!(world.outgoing(0).is_empty(), "once");
    world.deliver(&again[0]);
    let repeated = of(PacketType::Accept, &world.outgoing(1));
    assert!(repeated[0].bytes == accept[0].bytes, "the same ACCEPT");
    world.deliver(&repeated[0]);
    let highest = data.iter().map(|packet| packet.header().number).max();
    let connection = world.peer(0, 1).connection.as_ref().unwrap();
    assert_eq!(Some(connection.grant.drained_end()), highest.map(|n| n + 1));
    world.run(SECOND);
    assert_eq!((world.received(0), world.received(1)), (1, 1));
}

/// Data with a tag that no INIT offered is answered by UNKNOWN, and does not repeat the INIT.
#[test]
fn f11_data_with_another_tag_is_no_answer_to_an_init() {
    let (mut world, _) = accepted();
    world.send(1, 0).unwrap();
    let mut data = of(PacketType::Data, &world.outgoing(1)).remove(0);
    data.bytes[16] ^= 1;
    data.bytes.truncate(24);
    data.bytes.extend([0; 4]);
    wire::seal(&mut data.bytes);
    world.deliver(&data);
    let packets = world.outgoing(0);
    assert_eq!(of(PacketType::Init, &packets).len(), 0);
    assert_eq!(of(PacketType::Unknown, &packets).len(), 1);
}

/// The server gives up a session before its ACCEPT left: the client hears of its beginning and its
/// end.
#[test]
fn a_client_reset_before_its_accept_is_told_up_and_ended() {
    let (mut world, _) = accepted();
    world.engines[1].reset(world.now, id(0)).unwrap();
    let packets = world.outgoing(1);
    let kinds: Vec<_> = packets.iter().map(|packet| packet.header().kind).collect();
    let data = PacketType::Data;
    assert_eq!(kinds, [PacketType::Accept, data, data, data]);
    packets.iter().for_each(|packet| world.deliver(packet));
    let ended = |event: &Event| {
        matches!(
            event,
            Event::Ended {
                reason: EndReason::Closed,
                ..
            }
        )
    };
    assert!(world.events(0).iter().any(ended));
}

/// The time from COOKIE to INIT is no round trip if INIT may have been repeated: a first probe
/// would wait for three times as long.
#[test]
fn f31_a_repeated_init_measures_no_round_trip() {
    let mut world = World::new(2);
    world.send(0, 1).unwrap();
    for host in [0, 1] {
        let packets = world.outgoing(host);
        packets.iter().for_each(|packet| world.deliver(packet));
    }
    assert_eq!(of(PacketType::Init, &world.outgoing(0)).len(), 1, "lost");
    world.run(SECOND);
    let round_trip = world
        .peer(1, 0)
        .connection
        .as_ref()
        .unwrap()
        .link
        .recovery
        .rtt();
    let probe = round_trip.pto(Duration::ZERO);
    assert!(probe <= Duration::from_millis(60), "{probe:?}");
}
