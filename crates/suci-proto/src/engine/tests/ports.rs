//! Input of the ports of layers.

use super::*;
use crate::error::SendError;
use crate::event::LostCause;
use crate::shared::PortInput;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use suci_channels::message::{IncomingInfo, Place, PlacedBy, Placement, TOO_LONG};
use suci_link::types::Source;

const CHANNEL: ChannelId = ChannelId::of_remote(0);

struct Nowhere;

impl Placement for Nowhere {
    fn place(&self, _: Source, _: &IncomingInfo) -> Place {
        Place::Own
    }
}

/// Two hosts with layers that name no memory.
fn world() -> World {
    world_with(Arc::new(Nowhere))
}

fn world_with(placement: Arc<dyn Placement>) -> World {
    let mut world = World::new(2);
    let config = Config {
        placement: PlacedBy::new(placement),
        ports: Ports::ALL,
        memory: 2 << 20,
        max_message: 1 << 20,
        ..Config::default()
    };
    for host in 0..2 {
        world.set_up_server(host, BUFFER, config.clone());
        let (other, now) = (1 - host, world.now);
        let added = world.engines[host].add_peer(now, id(other), address(other));
        added.unwrap();
    }
    world
}

fn send(world: &mut World, from: usize, to: usize, payload: Vec<u8>) {
    let outgoing = Outgoing {
        channel: CHANNEL,
        payload: payload.into(),
        ..message(b"")
    };
    world.engines[from]
        .send(world.now, id(to), outgoing)
        .unwrap();
}

/// Returns what came for the layer of one-sided operations, but for the news that a peer answers.
fn inputs(world: &mut World, host: usize) -> Vec<PortInput> {
    let all = core::iter::from_fn(|| world.engines[host].poll_port(Port::Remote));
    all.filter(|input| !matches!(input, PortInput::Up(_)))
        .collect()
}

fn payloads(inputs: &[PortInput]) -> Vec<usize> {
    let len = |input: &PortInput| match input {
        PortInput::Message(_, message) | PortInput::Last(_, message) => Some(message.payload.len()),
        _ => None,
    };
    inputs.iter().filter_map(len).collect()
}

#[test]
fn messages_for_layers_come_in_order_and_apart_from_the_programs() {
    let mut world = world();
    send(&mut world, 0, 1, vec![1; 10]);
    world.send(0, 1).unwrap();
    send(&mut world, 0, 1, vec![2; 200_000]);
    send(&mut world, 0, 1, vec![3; 20]);
    world.run(SECOND);
    assert!(world.engines[1].has_port_input(Port::Remote));
    let mut told = inputs(&mut world, 1);
    // The long one is announced, and permitted once the one before was handled.
    world.run(SECOND);
    told.extend(inputs(&mut world, 1));
    assert_eq!(payloads(&told), [10, 200_000, 20]);
    assert_eq!(world.received(1), 1, "the program's");
    assert!(inputs(&mut world, 0).is_empty());
}

/// An engine whose only layer is that of sockets: messages of others go to the program, and no news
/// wait where nobody takes them.
#[test]
fn a_closed_port_takes_nothing_from_the_program() {
    let mut world = World::new(0);
    world.ports = Ports::default().with(Port::Sockets);
    for host in 0..2 {
        let engine = world.start(host, 2, BUFFER);
        world.engines.push(engine);
    }
    send(&mut world, 0, 1, vec![1; 10]);
    send(&mut world, 0, 1, vec![2; 400_000]);
    world.run(SECOND);
    assert!(!world.engines[1].has_port_input(Port::Remote));
    assert_eq!(world.received(1), 2);
    world.engines[0].close(world.now, SECOND);
    world.run(SECOND);
    assert!(!world.engines[1].has_port_input(Port::Remote));
    let all = core::iter::from_fn(|| world.engines[1].poll_port(Port::Sockets));
    let all: Vec<_> = all.collect();
    assert!(
        matches!(all[..], [PortInput::Up(_), PortInput::Ended(..)]),
        "{all:?}"
    );
}

#[test]
fn f04_a_held_peer_waits_for_memory_and_for_nobody_else() {
    let mut world = world();
    world.engines[1].hold_port(Port::Remote, id(0), true);
    for _ in 0..40 {
        send(&mut world, 0, 1, vec![7; 100_000]);
    }
    world.run(SECOND);
    assert!(payloads(&inputs(&mut world, 1)).is_empty());
    assert!(world.peer(0, 1).session.outbox.queued().open().messages > 10);
    world.engines[1].hold_port(Port::Remote, id(0), false);
    let mut came = 0;
    for _ in 0..100 {
        came += payloads(&inputs(&mut world, 1)).len();
        world.run(SECOND / 10);
    }
    assert_eq!(came, 40);
}

#[test]
fn f20_the_last_messages_come_before_the_end() {
    let mut world = world();
    send(&mut world, 0, 1, vec![1; 10]);
    world.run(SECOND);
    world.engines[0].close(world.now, SECOND);
    world.run(SECOND);
    let told = inputs(&mut world, 1);
    assert_eq!(payloads(&told), [10]);
    let last = told.last();
    assert!(matches!(last, Some(PortInput::Ended(node, ..)) if *node == id(0)));
}

#[test]
fn f17_layers_hear_of_a_silent_peer() {
    let mut world = world();
    send(&mut world, 0, 1, vec![1; 10]);
    world.run(SECOND);
    inputs(&mut world, 0);
    send(&mut world, 0, 1, vec![1; 10]);
    // Nothing arrives any more.
    for _ in 0..200 {
        world.now += SECOND / 10;
        let now = world.now;
        world.engines[0].handle_timeout(now);
        world.outgoing(0);
    }
    let lost = PortInput::Lost(id(1), LostCause::NoAnswer);
    assert_eq!(inputs(&mut world, 0), [lost]);
}

#[test]
fn a_message_that_is_too_long_for_the_layer_is_refused() {
    let mut world = world();
    send(&mut world, 0, 1, vec![1; (1 << 20) + 1]);
    send(&mut world, 0, 1, vec![1; 10]);
    world.run(SECOND);
    assert_eq!(payloads(&inputs(&mut world, 1)), [10]);
    let (node, channel, token) = (id(1), CHANNEL, 0);
    let refused = PortInput::Refused {
        node,
        channel,
        token,
        reason: TOO_LONG,
    };
    assert!(inputs(&mut world, 0).contains(&refused));
    assert!(world.events(0).iter().all(|event| *event == up(1, 0)));
}

/// Names no memory for a message before the one before it was handled.
#[derive(Default)]
struct OneByOne {
    handled: AtomicU64,
}

impl Placement for OneByOne {
    fn place(&self, _: Source, message: &IncomingInfo) -> Place {
        match message.number <= self.handled.load(Ordering::Relaxed) {
            true => Place::Own,
            false => Place::Later,
        }
    }
}

/// A layer is asked again when it has handled the message before. It was asked when that one was
/// taken, answered that it had to wait, and was not asked again.
#[test]
fn a_layer_is_asked_again_once_it_handled_a_message() {
    let layer = Arc::new(OneByOne::default());
    let mut world = world_with(layer.clone());
    for _ in 0..3 {
        send(&mut world, 0, 1, vec![7; 300_000]);
    }
    let mut came = Vec::new();
    for _ in 0..20 {
        world.run(SECOND);
        while let Some(input) = world.engines[1].poll_port(Port::Remote) {
            if let PortInput::Message(_, message) = input {
                layer.handled.store(message.number + 1, Ordering::Relaxed);
                came.push(message.number);
            }
        }
    }
    assert_eq!(came, [0, 1, 2]);
}

/// Memory for large messages goes to the peer that waited longest, not to the next message of the
/// peer whose message was taken just now.
#[test]
fn f22_large_active_messages_of_peers_are_received_in_turn() {
    let mut world = World::new(3);
    let config = Config {
        ports: Ports::ALL,
        // Half of it is for large messages: room for one.
        memory: 1 << 20,
        max_message: 1 << 19,
        ..Config::default()
    };
    world.set_up_server(2, BUFFER, config);
    let send = |world: &mut World, from: usize| {
        let outgoing = Outgoing {
            channel: ChannelId::ACTIVE,
            payload: vec![7; 300_000].into(),
            ..message(b"")
        };
        world.engines[from]
            .send(world.now, id(2), outgoing)
            .unwrap();
        world.run(SECOND);
    };
    for from in [0, 0, 0, 1] {
        send(&mut world, from);
    }
    let mut came = Vec::new();
    for _ in 0..4 {
        let (from, _) = world.engines[2].recv_active().unwrap();
        came.push(from.node);
        world.run(SECOND);
    }
    assert_eq!(came, [id(0), id(1), id(0), id(0)]);
}

/// Returns the lengths of the messages of sockets that came, and whether their session ended then.
fn of_sockets(world: &mut World, host: usize) -> (Vec<usize>, bool) {
    let (mut lengths, mut ended) = (Vec::new(), false);
    while let Some(input) = world.engines[host].poll_port(Port::Sockets) {
        assert!(!ended, "{input:?} behind the end");
        match input {
            PortInput::Message(from, message) | PortInput::Last(from, message) => {
                assert_eq!(from.node, id(1 - host));
                lengths.push(message.payload.len());
            }
            PortInput::Ended(..) => ended = true,
            PortInput::Up(from) => assert_eq!((from, lengths.len()), (id(1 - host), 0)),
            other => panic!("{other:?}"),
        }
    }
    (lengths, ended)
}

/// F04 and F20: messages of sockets go to their layer alone. A held peer waits, and its last
/// messages come before the end of their session.
#[test]
fn sockets_have_their_messages_and_the_ends_of_sessions() {
    let mut world = world();
    let send = |world: &mut World, length: usize| {
        let outgoing = Outgoing {
            channel: ChannelId::of_sockets(3),
            payload: vec![0; length].into(),
            ..message(b"")
        };
        world.engines[0].send(world.now, id(1), outgoing).unwrap();
    };
    send(&mut world, 1);
    send(&mut world, 60_000);
    world.run(SECOND);
    assert_eq!(world.received(1), 0);
    assert!(inputs(&mut world, 1).is_empty());
    assert_eq!(of_sockets(&mut world, 1), (vec![1], false));
    // The long one is announced, and permitted once the one before was taken.
    world.run(SECOND);
    assert_eq!(of_sockets(&mut world, 1), (vec![60_000], false));
    world.engines[1].hold_port(Port::Sockets, id(0), true);
    send(&mut world, 2);
    world.run(SECOND);
    assert_eq!(of_sockets(&mut world, 1), (vec![], false));
    world.engines[1].hold_port(Port::Sockets, id(0), false);
    assert_eq!(of_sockets(&mut world, 1), (vec![2], false));
    send(&mut world, 3);
    world.run(SECOND);
    world.engines[0].close(world.now, SECOND);
    world.run(SECOND);
    assert_eq!(of_sockets(&mut world, 1), (vec![3], true));
}

/// A node that closes has sent messages of sockets to a peer that is silent from then on. Returns
/// the seconds until it is closed, and how many of the messages the program misses.
fn closing_seconds(is_lost_before: bool, sent: &[Outgoing]) -> (u64, u64) {
    let mut world = world();
    let (now, engine) = (world.now, &mut world.engines[0]);
    engine.send(now, id(1), message(b"up")).unwrap();
    engine.await_member(now, id(1), true);
    world.run(SECOND);
    for outgoing in sent {
        let (now, outgoing) = (world.now, outgoing.clone());
        world.engines[0].send(now, id(1), outgoing).unwrap();
    }
    let silent = |_: &Packet| true;
    if is_lost_before {
        world.run_but(SECOND * 12, silent);
    }
    let begun = world.now;
    world.engines[0].close(begun, SECOND * 60);
    while !world.engines[0].is_closed() {
        world.run_but(SECOND, silent);
    }
    let missed = world.engines[0].unflushed().map(|(_, _, failed)| failed);
    (world.now.since(begun).as_secs(), missed.sum())
}

/// Sockets fail when their peer is lost, so nobody waits for what they sent. Messages of the
/// program are awaited: the peer may come back.
#[test]
fn f20_a_close_waits_for_no_messages_of_sockets_that_failed() {
    let of_sockets = |token| Outgoing {
        channel: ChannelId::of_sockets(3),
        token,
        ..message(b"of a socket")
    };
    let (bytes, control) = (of_sockets(0), of_sockets(u64::MAX));
    for sent in [&[control.clone()][..], &[bytes, control]] {
        let missed = u64::from(sent.len() == 2);
        assert_eq!(closing_seconds(true, sent), (1, missed));
        let (seconds, failed) = closing_seconds(false, sent);
        assert!((9..=13).contains(&seconds), "{seconds} s");
        assert_eq!(failed, missed);
    }
    let (seconds, missed) = closing_seconds(true, &[message(b"of the program")]);
    assert!(seconds >= 60 && missed == 1, "{seconds} s, {missed}");
}

fn forwarded(channel: u32, length: usize) -> Outgoing {
    Outgoing {
        channel: ChannelId::of_forwarded(channel),
        payload: vec![0; length].into(),
        ..message(b"")
    }
}

/// Returns the lengths of the forwarded packets that came.
fn came_forwarded(world: &mut World, host: usize) -> Vec<usize> {
    let engine = &mut world.engines[host];
    let all = core::iter::from_fn(|| engine.poll_port(Port::Forwarded));
    payloads(&all.collect::<Vec<_>>())
}

/// Forwarded packets go to their layer alone. No flush waits for them, no event tells of them, and
/// those that nobody took end with their session.
#[test]
fn forwarded_packets_are_no_messages_of_the_program() {
    let mut world = world();
    for length in [10, 1_376] {
        let packet = forwarded(0, length);
        world.engines[0].send(world.now, id(1), packet).unwrap();
    }
    let channel = ChannelId::of_forwarded(0);
    assert_eq!(world.engines[0].open_on(id(1), channel), 2);
    assert_eq!(world.engines[0].unflushed().count(), 0);
    world.run(SECOND);
    assert_eq!(world.engines[0].open_on(id(1), channel), 0);
    assert_eq!(world.received(1), 0);
    assert!(world.engines[1].has_port_input(Port::Forwarded));
    assert_eq!(came_forwarded(&mut world, 1), [10, 1_376]);
    assert!(!world.engines[1].has_port_input(Port::Forwarded));
    world.engines[0]
        .send(world.now, id(1), forwarded(1, 5))
        .unwrap();
    world.run(SECOND);
    world.engines[0].close(world.now, SECOND);
    world.run(SECOND);
    assert_eq!(came_forwarded(&mut world, 1), [0; 0]);
    for host in 0..2 {
        while let Some(event) = world.engines[host].poll_event() {
            let told = matches!(event, Event::Delivered { .. } | Event::NotDelivered { .. });
            assert!(!told, "{event:?}");
        }
    }
}

/// A peer for which only a layer had messages is lost, and its session ends, once each: the program
/// that heard of the one hears of the other.
#[test]
fn a_peer_that_was_lost_with_packets_of_others_ends() {
    let mut world = world();
    let (now, nobody) = (world.now, 5);
    let engine = &mut world.engines[0];
    engine.add_peer(now, id(nobody), address(nobody)).unwrap();
    engine.send(now, id(nobody), forwarded(0, 5)).unwrap();
    world.run(SECOND * 310);
    let engine = &mut world.engines[0];
    let events: Vec<_> = core::iter::from_fn(|| engine.poll_event()).collect();
    let lost = events
        .iter()
        .position(|it| matches!(it, Event::Lost { .. }));
    let ended = events
        .iter()
        .position(|it| matches!(it, Event::Ended { .. }));
    assert!(lost.is_some() && lost < ended, "{events:?}");
}

/// The sessions with peers that carry others stay open, and take messages, until those are closed.
#[test]
fn peers_behind_others_are_closed_first() {
    let mut world = world();
    world.engines[0]
        .send(world.now, id(1), message(b"up"))
        .unwrap();
    world.run(SECOND);
    let now = world.now;
    let engine = &mut world.engines[0];
    engine.close_first(now, SECOND, |_| false);
    world.run(SECOND);
    let (now, engine) = (world.now, &mut world.engines[0]);
    assert!(engine.has_closed_first() && !engine.is_closed());
    engine.send(now, id(1), forwarded(0, 7)).unwrap();
    world.run(SECOND);
    assert_eq!(came_forwarded(&mut world, 1), [7]);
    let now = world.now;
    world.engines[0].close(now, SECOND);
    let closing = world.engines[0].send(now, id(1), forwarded(0, 7));
    assert!(matches!(closing, Err(SendError::Closed)));
    world.run(SECOND);
    assert!(world.engines[0].is_closed());
}
