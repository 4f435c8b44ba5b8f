//! Sessions that follow one another under one node ID, and sessions that never had a connection.

use super::*;
use crate::error::SendError;
use crate::{EndReason, Outcome};
use suci_link::limits::{ETHERNET_MTU, MAX_RETIRED, MIN_MTU};
use suci_link::types::{Epoch, ProtocolError};

/// Ends sessions of more earlier incarnations of `other` at `host` than that remembers: the next
/// one begins in a higher epoch.
fn raise_floor(world: &mut World, host: usize, other: usize) {
    let history = &mut world.peer(host, other).history;
    for number in 0..=MAX_RETIRED as u128 {
        history.ended(Incarnation(1_000 + number), Epoch(4));
    }
}

fn ends(world: &mut World, host: usize) -> Vec<(EndReason, Vec<Outcome>)> {
    let ended = world
        .events(host)
        .into_iter()
        .filter_map(|event| match event {
            Event::Ended {
                reason, outcomes, ..
            } => Some((reason, outcomes.iter().map(|o| o.outcome).collect())),
            _ => None,
        });
    ended.collect()
}

/// Sends from `from` to `to` until INIT is under way, and returns it undelivered.
fn init_of(world: &mut World, from: usize, to: usize) -> Packet {
    world.send(from, to).unwrap();
    for host in [from, to] {
        world.now += Duration::from_micros(50);
        let packets = world.outgoing(host);
        packets.iter().for_each(|packet| world.deliver(packet));
    }
    world.now += Duration::from_micros(50);
    let packets = world.outgoing(from);
    packets
        .into_iter()
        .find(|p| p.is(PacketType::Init))
        .unwrap()
}

/// Lets `span` pass, in which everything that `silent` sends is lost.
fn run_without(world: &mut World, silent: usize, span: Duration) {
    let end = world.now + span;
    while world.now < end {
        world.now += Duration::from_millis(10);
        for engine in &mut world.engines {
            engine.begin_cycle(world.now);
            engine.handle_timeout(world.now);
        }
        for host in 0..world.engines.len() {
            let packets = world.outgoing(host);
            for packet in packets.iter().filter(|packet| packet.from != silent) {
                world.deliver(packet);
            }
        }
    }
}

/// The first message of each process arrives, and its program hears only of its own end.
#[test]
fn f14_a_node_id_may_be_used_again_and_again() {
    let mut world = World::new(2);
    for start in 0..40 {
        world.send(1, 0).unwrap();
        world.run(SECOND / 10);
        assert_eq!(world.received(0), 1, "start {start}");
        assert_eq!(ends(&mut world, 1), [], "start {start}");
        let now = world.now;
        world.engines[1].close(now, SECOND);
        world.run(SECOND / 10);
        assert!(world.engines[1].is_closed());
        assert_eq!(ends(&mut world, 1), [(EndReason::ClosedHere, vec![])]);
        assert_eq!(ends(&mut world, 0), [(EndReason::Closed, vec![])]);
        world.restart(1);
    }
    assert_eq!(world.engines[0].peers().count(), 1);
}

/// ACCEPT gives a higher epoch: the data on INIT was discarded and is sent again, in a session of
/// that epoch.
#[test]
fn f14_a_higher_epoch_does_not_end_a_session_that_the_peer_never_had() {
    let mut world = World::new(2);
    raise_floor(&mut world, 0, 1);
    world.send(1, 0).unwrap();
    world.send(1, 0).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(0), 2);
    world.send(0, 1).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(1), 1);
    assert_eq!(ends(&mut world, 1), []);
    assert_eq!(ends(&mut world, 0), []);
    let epochs = [(0, 1), (1, 0)].map(|(host, peer)| world.peer(host, peer).session.epoch);
    assert_eq!(epochs, [Epoch(5); 2]);
}

/// Data on an earlier INIT was taken, and its session is over: it is sent in no other session.
#[test]
fn f14_data_of_an_earlier_init_is_not_sent_in_another_session() {
    let mut world = World::new(2);
    let init = init_of(&mut world, 1, 0);
    world.deliver(&init);
    world.outgoing(0);
    assert_eq!(world.received(0), 1);
    let now = world.now;
    assert_eq!(world.engines[0].reset(now, id(1)), Ok(true));
    world.outgoing(0);
    // Longer than an INIT is repeated.
    run_without(&mut world, 0, 5 * SECOND);
    world.run(SECOND);
    assert_eq!(world.received(0), 0, "once");
    let told = [(EndReason::PeerEnded, vec![Outcome::Unknown])];
    assert_eq!(ends(&mut world, 1), told);
    world.send(1, 0).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(0), 1);
}

/// Six ACCEPTs are lost, and the attempt begins anew. The peer began in a higher epoch, so the data
/// on INIT was taken in that epoch, once.
#[test]
fn f14_a_message_arrives_although_all_answers_to_its_first_inits_are_lost() {
    let mut world = World::new(2);
    raise_floor(&mut world, 0, 1);
    let init = init_of(&mut world, 1, 0);
    world.deliver(&init);
    world.outgoing(0);
    run_without(&mut world, 0, 5 * SECOND);
    world.run(3 * SECOND);
    assert_eq!(world.received(0), 1);
    assert_eq!(ends(&mut world, 1), []);
    assert_eq!(ends(&mut world, 0), []);
}

/// As before, but the peer never got one of these INITs.
#[test]
fn f14_a_message_arrives_although_all_its_first_inits_are_lost() {
    let mut world = World::new(2);
    raise_floor(&mut world, 0, 1);
    init_of(&mut world, 1, 0);
    run_without(&mut world, 1, 5 * SECOND);
    world.run(3 * SECOND);
    assert_eq!(world.received(0), 1);
    assert_eq!(ends(&mut world, 1), []);
}

/// The peer refuses the INITs of a new process, since its program did not take the messages of
/// earlier sessions. The message arrives once the peer accepts.
#[test]
fn f14_a_message_arrives_although_its_first_inits_are_refused() {
    const UNREAD: usize = crate::peer::MAX_UNREAD;
    let mut world = World::new(2);
    raise_floor(&mut world, 0, 1);
    for _ in 0..UNREAD {
        world.send(1, 0).unwrap();
        world.run(SECOND / 10);
        let now = world.now;
        world.engines[1].close(now, SECOND);
        world.run(SECOND / 10);
        world.events(1);
        world.restart(1);
    }
    world.send(1, 0).unwrap();
    world.run(4 * SECOND);
    let told = world.events(1);
    let refused = |event: &Event| matches!(event, Event::Refused { .. });
    assert!(told.iter().any(refused), "{told:?}");
    assert_eq!(world.received(0), UNREAD);
    world.run(4 * SECOND);
    assert_eq!(world.received(0), 1);
    assert_eq!(ends(&mut world, 1), []);
}

/// A world with a process that died, and another one with its node ID at the third host's address.
fn claimed() -> World {
    let mut world = World::new(2);
    world.send(1, 0).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(0), 1);
    world.restart(1);
    world
}

/// Lets `span` pass. Returns the INITs of the new process, and how many messages the first host
/// received.
fn run_claim(world: &mut World, span: Duration) -> (Vec<Packet>, usize) {
    let (mut inits, mut received) = (Vec::new(), 0);
    let end = world.now + span;
    while world.now < end {
        world.now += Duration::from_millis(10);
        for host in [0, 1] {
            let now = world.now;
            world.engines[host].begin_cycle(now);
            world.engines[host].handle_timeout(now);
            for mut packet in world.outgoing(host) {
                match (host, packet.to) {
                    (1, _) => packet.from = 2,
                    (_, 2) => packet.to = 1,
                    _ => continue,
                }
                if packet.is(PacketType::Init) {
                    inits.push(packet.clone());
                }
                world.deliver(&packet);
            }
        }
        received += world.received(0);
    }
    (inits, received)
}

/// While a process with this node ID is alive, another one is refused. When it is admitted at last,
/// its messages are sent: none of them was taken before.
#[test]
fn f12_f14_data_on_refused_inits_arrives_when_the_peer_accepts() {
    let mut world = claimed();
    raise_floor(&mut world, 0, 1);
    world.send(1, 0).unwrap();
    let (inits, received) = run_claim(&mut world, 5 * SECOND);
    assert!(inits.len() > 2 && received == 0, "refused");
    let (_, received) = run_claim(&mut world, 15 * SECOND);
    assert_eq!(received, 1);
    assert_eq!(ends(&mut world, 1), []);
    assert_eq!(ends(&mut world, 0), [(EndReason::Restarted, vec![])]);
}

/// The sender of the INIT was told that no data was taken.
#[test]
fn f12_f14_an_init_that_was_refused_once_is_never_accepted() {
    let mut world = claimed();
    world.send(1, 0).unwrap();
    let (inits, received) = run_claim(&mut world, SECOND / 2);
    // The first INIT made the node ask the old process, its copy was refused.
    assert_eq!((inits.len(), received), (2, 0));
    // Now no other process has the node ID.
    let now = world.now;
    assert_eq!(world.engines[0].reset(now, id(1)), Ok(true));
    world.deliver(&inits[0]);
    assert_eq!(world.received(0), 0, "a copy");
    let (_, received) = run_claim(&mut world, 5 * SECOND);
    assert_eq!(received, 1);
    assert_eq!(ends(&mut world, 1), []);
}

/// INITs cross, and the peer's gives a higher epoch although it has no session with us.
#[test]
fn f14_a_higher_epoch_in_a_crossing_init_does_not_end_a_session_that_the_peer_never_had() {
    let mut world = World::new(2);
    raise_floor(&mut world, 0, 1);
    world.send(0, 1).unwrap();
    world.send(1, 0).unwrap();
    world.run(SECOND);
    assert_eq!((world.received(0), world.received(1)), (1, 1));
    assert_eq!(ends(&mut world, 1), []);
    assert_eq!(ends(&mut world, 0), []);
}

/// The host whose INIT loses closes while the INITs are under way: it answers, and its messages
/// arrive.
#[test]
fn f20_a_close_while_inits_cross_gives_up_no_message() {
    let mut world = World::new(2);
    world.send(0, 1).unwrap();
    world.send(1, 0).unwrap();
    // HELLOs, COOKIEs, INITs.
    for step in 0..3 {
        let packets = [world.outgoing(0), world.outgoing(1)].concat();
        if step == 2 {
            let now = world.now;
            world.engines[1].close(now, 60 * SECOND);
        }
        world.now += Duration::from_micros(50);
        packets.iter().for_each(|packet| world.deliver(packet));
    }
    world.run(SECOND);
    assert_eq!(world.received(0), 1);
    assert!(world.engines[1].is_closed());
    assert_eq!(ends(&mut world, 0), [(EndReason::Closed, vec![])]);
}

/// The first host's program closes before ACCEPT came: the second one has a session already, and
/// hears of its end.
#[test]
fn f20_a_close_before_accept_ends_the_peers_session_too() {
    let mut world = World::new(2);
    let now = world.now;
    world.engines[1].connect(now, id(0)).unwrap();
    for host in [1, 0, 1] {
        world.now += Duration::from_micros(50);
        let packets = world.outgoing(host);
        packets.iter().for_each(|packet| world.deliver(packet));
    }
    let now = world.now;
    world.engines[1].close(now, SECOND);
    world.run(SECOND / 10);
    assert!(world.engines[1].is_closed());
    assert_eq!(ends(&mut world, 0), [(EndReason::Closed, vec![])]);
}

#[test]
fn a_close_waits_for_no_cancelled_message_to_a_peer_that_never_answered() {
    let mut world = World::new(2);
    let now = world.now;
    let token = 7;
    let outgoing = Outgoing {
        token,
        ..message(b"given up")
    };
    world.engines[1].send(now, id(0), outgoing).unwrap();
    assert!(!world.outgoing(1).is_empty(), "HELLO, which is lost");
    let cancelled = world.engines[1].cancel(id(0), ChannelId(0), token);
    assert_eq!(cancelled, Ok(1));
    world.engines[1].close(now, 60 * SECOND);
    world.outgoing(1);
    assert!(world.engines[1].is_closed());
}

/// CLOSE is lost until its sender considers the peer lost; it is sent again on the next connection.
#[test]
fn f20_a_close_goes_again_on_the_connection_after_a_silence() {
    let mut world = World::new(2);
    world.send(1, 0).unwrap();
    world.run(SECOND / 10);
    let now = world.now;
    world.engines[1].close(now, 60 * SECOND);
    run_without(&mut world, 1, 12 * SECOND);
    let lost = |event: &Event| matches!(event, Event::Lost { .. });
    assert!(world.events(1).iter().any(lost), "a silence of 10 s");
    world.run(2 * SECOND);
    assert!(world.engines[1].is_closed());
    assert_eq!(world.received(0), 1);
    assert_eq!(ends(&mut world, 0), [(EndReason::Closed, vec![])]);
}

/// A packet is longer than the size to which its sender bound itself.
#[test]
fn f27_a_packet_longer_than_its_sender_said_ends_the_session() {
    let mut world = connected();
    let connection = world.peer(1, 0).connection.as_mut().unwrap();
    let highest = connection.link.received.highest().unwrap();
    connection.link.bounds.add(highest, 10);
    world.send(0, 1).unwrap();
    world.run(SECOND);
    let ends = ends(&mut world, 1);
    let Some((EndReason::Protocol(error), _)) = ends.first() else {
        panic!("{ends:?}");
    };
    assert!(matches!(error, ProtocolError::Limit(_)), "{error:?}");
}

/// The path moves to one that carries more. The receiver charges for the bound and closes with
/// Limit when a longer packet comes.
#[test]
fn f27_packets_bound_to_a_size_stay_so_on_another_path() {
    let mut world = connected();
    let now = world.now;
    let connection = world.peer(0, 1).connection.as_mut().unwrap();
    connection.link.begin_on_route(Some(ETHERNET_MTU), now);
    assert_eq!(connection.link.mtu.current(), ETHERNET_MTU);
    assert!(connection.link.credit.bind(MIN_MTU, now));
    connection.link.begin_on_route(Some(ETHERNET_MTU), now);
    assert_eq!(connection.link.mtu.current(), MIN_MTU);
}

/// The program uses 6,000 channels before the peer has said that it permits fewer: each message is
/// delivered, or told as not delivered, once.
#[test]
fn messages_on_channels_that_the_peer_does_not_permit_are_told_each_once() {
    const ALL: u32 = 6_000;
    let mut world = World::new(2);
    let config = Config {
        memory: 1 << 20,
        max_message: 64 << 10,
        ..Config::default()
    };
    world.set_up_server(1, BUFFER, config);
    for channel in 0..ALL {
        let message = Outgoing {
            channel: ChannelId(channel),
            token: channel.into(),
            ..message(b"x")
        };
        world.engines[0].send(world.now, id(1), message).unwrap();
    }
    let mut outcomes = vec![0; ALL as usize];
    let mut arrived = 0_u64;
    for _ in 0..100 {
        world.run(Duration::from_millis(50));
        while let Some((_, message)) = world.engines[1].recv() {
            outcomes[message.channel.0 as usize] += 1;
            arrived += 1;
        }
        for event in world.events(0) {
            if let Event::NotDelivered { token, reason, .. } = event {
                assert_eq!(reason, crate::TOO_MANY_CHANNELS);
                outcomes[token as usize] += 1;
            }
        }
    }
    println!("figure: {arrived} of {ALL} arrived, the others were told");
    assert!(outcomes.iter().all(|outcomes| *outcomes == 1));
    assert!(world.peer(0, 1).session.outbox.is_empty());
    // From now on it is known.
    let late = Outgoing {
        channel: ChannelId(ALL),
        ..message(b"x")
    };
    let refused = world.engines[0].send(world.now, id(1), late);
    let full = SendError::Channels { open: arrived };
    assert_eq!(refused, Err(full));
    assert!((suci_link::limits::MIN_CHANNELS..ALL.into()).contains(&arrived));
}

/// A peer that permits more gets all of them.
#[test]
fn channels_are_not_refused_before_the_peer_says_how_many_it_permits() {
    let mut world = World::new(2);
    for channel in 0..1_100 {
        let message = Outgoing {
            channel: ChannelId(channel),
            ..message(b"x")
        };
        world.engines[0].send(world.now, id(1), message).unwrap();
    }
    world.run(5 * SECOND);
    assert_eq!(world.received(1), 1_100);
}
