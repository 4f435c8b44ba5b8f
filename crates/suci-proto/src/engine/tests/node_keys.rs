//! Sealed mode with keys of nodes: who is believed, what a removed key ends, and which layers a
//! node may use.

use super::*;
use crate::RefusedReason;
use crate::error::SendError;
use crate::event::{EndReason, Side};
use crate::handshake::Renewal;
use crate::shared::PortInput;
use suci_channels::message::{NOT_PERMITTED, Outcome};
use suci_link::types::{Layer, Layers, ProtocolError};

/// The handshakes of each host.
type Makes = Vec<RecordingHandshakes>;

/// Hosts whose handshakes are under the keys of these nodes.
fn world_of(owners: &[usize]) -> (World, Makes) {
    world_with(owners, Ports::default())
}

fn world_with(owners: &[usize], ports: Ports) -> (World, Makes) {
    let mut world = World::new(0);
    world.ports = ports;
    let of = |owner: &usize| RecordingHandshakes::of_node(world.ledger.clone(), id(*owner), &[1]);
    let makes: Makes = owners.iter().map(of).collect();
    for (host, makes) in makes.iter().enumerate() {
        let security = Security::Sealed(Arc::new(makes.clone()));
        world.security.insert(host, security);
    }
    for host in 0..owners.len() {
        let engine = world.start(host, owners.len(), BUFFER);
        world.engines.push(engine);
    }
    (world, makes)
}

/// Two connected hosts, each with one message of the other.
fn connected() -> (World, Makes) {
    let (mut world, makes) = world_of(&[0, 1]);
    for (from, to) in [(0, 1), (1, 0)] {
        world.send(from, to).unwrap();
        world.run(SECOND);
        assert_eq!(world.received(to), 1);
    }
    (world, makes)
}

fn refused(peer: usize, reason: RefusedReason) -> Event {
    let node = id(peer);
    Event::Refused { node, reason }
}

fn ends(events: &[Event]) -> Vec<EndReason> {
    let reason = |event: &Event| match event {
        Event::Ended { reason, .. } => Some(*reason),
        _ => None,
    };
    events.iter().filter_map(reason).collect()
}

fn on(channel: ChannelId) -> Outgoing {
    Outgoing {
        channel,
        ..message(b"hello")
    }
}

#[test]
fn nodes_with_their_keys_talk() {
    let (world, _) = connected();
    assert_eq!(world.ledger.repeats(), []);
    assert!(world.ledger.packets() > 0);
}

/// Host 2 has a key of its own, and runs under the ID of node 1: with keys of nodes nobody believes
/// it. With a cluster key it is node 1.
#[test]
fn a_member_cannot_pose_as_another() {
    for (from, to) in [(0, 1), (1, 0)] {
        let (mut world, _) = world_of(&[0, 2]);
        world.send(from, to).unwrap();
        world.run(5 * SECOND);
        let asked = refused(to, RefusedReason::NodeKey);
        let asking = refused(from, RefusedReason::NoNodeKeyHere);
        assert!(world.events(from).contains(&asked));
        assert!(world.events(to).contains(&asking));
        // Either file may be the wrong one.
        let reasons = [RefusedReason::NodeKey, RefusedReason::NoNodeKeyHere];
        let name_both = |reason: RefusedReason| reason.to_string().ends_with("with both files");
        assert!(reasons.into_iter().all(name_both));
        assert_eq!(world.received(to), 0);
        assert!(!world.peer(to, from).has_connection());
    }
    let mut world = World::new(0);
    for host in 0..2 {
        let security = world.cluster(&[1]);
        world.security.insert(host, security);
        let engine = world.start(host, 2, BUFFER);
        world.engines.push(engine);
    }
    world.send(1, 0).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(0), 1);
}

#[test]
fn a_node_with_its_own_key_and_one_with_the_clusters_say_that_modes_differ() {
    for (from, to) in [(0, 1), (1, 0)] {
        let mut world = World::new(0);
        let own = RecordingHandshakes::of_node(world.ledger.clone(), id(0), &[1]);
        let cluster = world.cluster(&[1]);
        world.security.insert(0, Security::Sealed(Arc::new(own)));
        world.security.insert(1, cluster);
        for host in 0..2 {
            let engine = world.start(host, 2, BUFFER);
            world.engines.push(engine);
        }
        world.send(from, to).unwrap();
        world.run(5 * SECOND);
        for host in 0..2 {
            let said = refused(1 - host, RefusedReason::Mode);
            assert!(world.events(host).contains(&said), "{host}");
            assert_eq!(world.received(host), 0);
        }
    }
}

#[test]
fn a_removed_key_ends_the_session_and_both_sides_say_why() {
    let (mut world, makes) = connected();
    let (now, old) = (
        world.now,
        world.engines[0].member_state(id(1)).unwrap().session,
    );
    makes[0].set_keys(&[2]);
    world.engines[0].renew_keys_of(now, id(1), Renewal::EndSession);
    world.run(SECOND);
    assert_eq!(ends(&world.events(0)), [EndReason::Revoked]);
    assert_eq!(ends(&world.events(1)), [EndReason::RevokedThere]);
    world.send(1, 0).unwrap();
    world.run(5 * SECOND);
    assert!(
        world
            .events(1)
            .contains(&refused(0, RefusedReason::NodeKey))
    );
    assert_eq!(world.received(0), 0);
    // The key comes back: a new session begins.
    makes[0].set_keys(&[1]);
    world.run(5 * SECOND);
    assert_eq!(world.received(0), 1);
    assert_ne!(world.engines[0].member_state(id(1)).unwrap().session, old);
}

/// Host 1 may use sockets and one-sided operations of host 0, and nothing else.
#[test]
fn messages_on_layers_that_the_peer_denies_are_not_delivered() {
    let (mut world, makes) = world_of(&[0, 1]);
    let some = Layers::NONE.with(Layer::Sockets).with(Layer::OneSided);
    makes[0].permit(id(1), some);
    let now = world.now;
    let early = Outgoing {
        notify: true,
        token: 7,
        ..message(b"early")
    };
    world.engines[1].send(now, id(0), early).unwrap();
    world.engines[1]
        .send(now, id(0), on(ChannelId::ACTIVE))
        .unwrap();
    world.engines[1]
        .send(now, id(0), on(ChannelId::of_sockets(0)))
        .unwrap();
    world.run(SECOND);
    let events = world.events(1);
    let early = Event::NotDelivered {
        node: id(0),
        channel: ChannelId(0),
        number: 0,
        token: 7,
        reason: NOT_PERMITTED,
    };
    assert!(events.contains(&early), "{events:?}");
    for (channel, layer) in [
        (ChannelId(0), Some(Layer::Messages)),
        (ChannelId::of_group(1), Some(Layer::Groups)),
        (ChannelId::ACTIVE, Some(Layer::Active)),
        (ChannelId::of_remote(0), None),
        (ChannelId(0).replies(), None),
    ] {
        let sent = world.engines[1].send(world.now, id(0), on(channel));
        let expected = layer.map(|layer| SendError::NotPermitted { layer });
        assert_eq!(sent.err(), expected);
    }
    // The other direction is not concerned, and the queue does not wait for what was denied.
    world.send(0, 1).unwrap();
    world.run(SECOND);
    // There are no layers here: the program gets the message of sockets, and the one-sided one.
    assert_eq!((world.received(0), world.received(1)), (2, 1));
    assert!(world.peer(1, 0).session.outbox.is_empty());
    let counters = world.engines[0].counters();
    assert_eq!(counters.protocol_errors, 0);
    assert_eq!(
        world.engines[0].member_state(id(1)).unwrap().denied_by,
        Some(Side::Here)
    );
    assert_eq!(
        world.engines[1].member_state(id(0)).unwrap().denied_by,
        Some(Side::There)
    );
    // More rights come with a fresh handshake, within the session.
    makes[0].permit(id(1), Layers::ALL);
    let now = world.now;
    world.engines[0].renew_keys_of(now, id(1), Renewal::Replace);
    world.run(SECOND);
    world.send(1, 0).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(0), 1);
    assert_eq!(ends(&world.events(1)), []);
}

/// One-sided operations that were begun before the handshake fail, too.
#[test]
fn the_layer_of_one_sided_operations_hears_that_it_is_denied() {
    let (mut world, makes) = world_with(&[0, 1], Ports::default().with(Port::Remote));
    makes[0].permit(id(1), Layers::NONE.with(Layer::Messages));
    let (now, channel) = (world.now, ChannelId::of_remote(0));
    world.engines[1].send(now, id(0), on(channel)).unwrap();
    world.run(SECOND);
    let refused = PortInput::Refused {
        node: id(0),
        channel,
        token: 0,
        reason: NOT_PERMITTED,
    };
    let mut inputs = Vec::new();
    while let Some(input) = world.engines[1].poll_port(Port::Remote) {
        inputs.push(input);
    }
    assert!(inputs.contains(&refused), "{inputs:?}");
}

/// A peer that uses a layer in spite of what it was told loses its session before it costs memory.
#[test]
fn a_peer_that_uses_a_denied_layer_all_the_same_is_closed() {
    let (mut world, _) = connected();
    let key = world.engines[0].peer_key(id(1)).unwrap();
    let peer = world.engines[0].peers.get_mut(key).unwrap();
    peer.session
        .inbox
        .set_permitted(Layers::NONE.with(Layer::Messages));
    let held = peer.session.inbox.memory_used();
    let (now, channel) = (world.now, ChannelId::of_sockets(3));
    let large = Outgoing {
        payload: vec![1; 100_000].into(),
        notify: true,
        ..on(channel)
    };
    world.engines[1].send(now, id(0), large).unwrap();
    world.run(SECOND);
    assert_eq!(world.engines[0].counters().protocol_errors, 1);
    assert_eq!(world.peer(0, 1).session.inbox.memory_used(), held);
    let error = ProtocolError::NotPermitted(Layer::Sockets);
    assert_eq!(ends(&world.events(0)), [EndReason::Protocol(error)]);
    let events = world.events(1);
    assert_eq!(ends(&events), [EndReason::PeerProtocol(10)]);
    let failed = events.iter().any(|event| match event {
        Event::Ended { outcomes, .. } => outcomes.iter().all(|of| of.outcome != Outcome::Delivered),
        _ => false,
    });
    assert!(failed);
}

/// Whether it is a handshake packet of this kind.
fn is(packet: &Packet, kind: PacketType) -> bool {
    !suci_link::wire::is_data(&packet.bytes) && packet.is(kind)
}

/// Host 0 called host 1, whose ACCEPT was lost: host 1 has a session of which host 0 does not know,
/// and a message on its way that host 0 cannot open.
fn half_open() -> (World, Makes) {
    let (mut world, makes) = world_of(&[0, 1]);
    world.send(0, 1).unwrap();
    world.settle_but(|packet| is(packet, PacketType::Accept));
    let (now, channel) = (world.now, ChannelId::of_sockets(3));
    world.engines[1].send(now, id(0), on(channel)).unwrap();
    world.settle_but(|packet| is(packet, PacketType::Accept));
    assert!(world.peer(1, 0).has_connection() && !world.peer(0, 1).has_connection());
    (world, makes)
}

/// Host 1 was told that it may not use sockets any more, and nobody broke the protocol.
fn is_denied_sockets(world: &mut World) {
    assert_eq!(ends(&world.events(1)), [EndReason::RevokedThere]);
    let counters = world.engines.iter().map(Engine::counters);
    assert!(counters.map(|it| it.protocol_errors).eq([0, 0]));
    let (now, layer) = (world.now, Layer::Sockets);
    let sent = world.engines[1].send(now, id(0), on(ChannelId::of_sockets(3)));
    assert_eq!(sent.err(), Some(SendError::NotPermitted { layer }));
    // Its messages go on in a new session.
    world.send(1, 0).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(0), 1);
}

/// Host 1 heard of more rights in a session that host 0 never knew.
#[test]
fn fewer_rights_while_an_accept_is_lost_are_a_denial() {
    let (mut world, makes) = half_open();
    makes[0].permit(id(1), Layers::NONE.with(Layer::Messages));
    let now = world.now;
    world.engines[0].renew_keys_of(now, id(1), Renewal::EndSession);
    world.run(SECOND);
    assert_eq!(ends(&world.events(0)), []);
    assert_eq!(world.received(1), 1);
    is_denied_sockets(&mut world);
}

/// The same where host 1 calls first: it hears of fewer rights from ACCEPT. Host 0 took up the
/// session with that, and hears that it is over.
#[test]
fn fewer_rights_in_an_answer_are_a_denial() {
    let (mut world, makes) = half_open();
    makes[0].permit(id(1), Layers::NONE.with(Layer::Messages));
    let of_caller = |packet: &Packet| {
        let kinds = [PacketType::Hello, PacketType::Init];
        packet.from == 0 && kinds.iter().any(|kind| is(packet, *kind))
    };
    world.run_but(60 * SECOND, |packet| {
        of_caller(packet) || packet.from == 1 && is(packet, PacketType::Accept)
    });
    world.run(5 * SECOND);
    assert_eq!(ends(&world.events(0)), [EndReason::PeerEnded]);
    is_denied_sockets(&mut world);
}

/// The file changed, and the driver did not look yet: a fresh handshake does not take rights away
/// within the session. Then the driver ends it.
#[test]
fn rights_stay_until_the_session_ends() {
    let (mut world, makes) = connected();
    let channel = ChannelId::of_sockets(3);
    for from in [0, 1] {
        makes[0].permit(id(1), Layers::NONE.with(Layer::Messages));
        let now = world.now;
        world.engines[from].renew_keys_of(now, id(1 - from), Renewal::Replace);
        world.run(SECOND);
        let now = world.now;
        world.engines[1].send(now, id(0), on(channel)).unwrap();
        world.run(SECOND);
        assert_eq!(world.received(0), 1);
    }
    let now = world.now;
    world.engines[0].renew_keys_of(now, id(1), Renewal::EndSession);
    world.run(SECOND);
    assert_eq!(ends(&world.events(0)), [EndReason::Revoked]);
    world.send(0, 1).unwrap();
    world.run(SECOND);
    is_denied_sockets(&mut world);
}

/// The last connection still lingers when the next INIT is under way: it tells of rights that the
/// file takes away.
#[test]
fn an_attempt_beside_a_lingering_connection_is_made_anew() {
    let (mut world, makes) = connected();
    let now = world.now;
    world.engines[1].close_peer(now, id(0), SECOND).unwrap();
    world.settle();
    assert!(world.peer(0, 1).lingering.is_some());
    world.send(0, 1).unwrap();
    world.settle_but(|packet| is(packet, PacketType::Accept));
    assert!(world.peer(0, 1).lingering.is_some() && world.peer(0, 1).has_offer());
    makes[0].permit(id(1), Layers::NONE.with(Layer::Messages));
    let now = world.now;
    world.engines[0].renew_keys_of(now, id(1), Renewal::EndSession);
    world.run(5 * SECOND);
    let (now, layer) = (world.now, Layer::Sockets);
    let sent = world.engines[1].send(now, id(0), on(ChannelId::of_sockets(3)));
    assert_eq!(sent.err(), Some(SendError::NotPermitted { layer }));
    assert_eq!(world.engines[0].counters().protocol_errors, 0);
    assert_eq!(world.received(1), 1);
}
