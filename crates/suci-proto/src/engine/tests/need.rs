//! The part of a receive buffer that a peer gets, by the need that its packets and reports show.

use super::*;
use std::collections::VecDeque;
use suci_channels::waits::WaitReason;

const TICK: Duration = Duration::from_micros(200);

/// One-way delay. The round trip is long beside the time in which a new peer's share is used up.
const ONE_WAY: Duration = Duration::from_millis(20);

/// Two hosts with a long cable between them.
struct Cable {
    world: World,
    /// Time that a packet takes to pass the narrowest link, which spreads bursts.
    each: Duration,
    /// When the link will have passed everything that each host sent.
    busy: [Instant; 2],
    under_way: [VecDeque<(Instant, Packet)>; 2],
}

impl Cable {
    fn new(each: Duration) -> Self {
        let world = World::new(2);
        Self {
            each,
            busy: [world.now; 2],
            under_way: Default::default(),
            world,
        }
    }

    fn tick(&mut self) {
        let world = &mut self.world;
        world.now += TICK;
        let now = world.now;
        for host in 0..2 {
            world.engines[host].begin_cycle(now);
            let coming = &mut self.under_way[1 - host];
            while let Some((_, packet)) = coming.pop_front_if(|(at, _)| *at <= now) {
                world.deliver(&packet);
            }
            let engine = &mut world.engines[host];
            if engine.next_timeout().is_some_and(|at| at <= now) {
                engine.handle_timeout(now);
            }
            for packet in world.outgoing(host) {
                self.busy[host] = self.busy[host].max(now) + self.each;
                self.under_way[host].push_back((self.busy[host] + ONE_WAY, packet));
            }
        }
    }
}

/// Fills the queue of host `from` to the second one up to `messages` messages.
fn keep_busy(world: &mut World, from: usize, messages: u64, payload: &Bytes) {
    while world.engines[from].queue_len(id(1)).0 < messages {
        let message = Outgoing {
            payload: payload.clone(),
            ..message(b"")
        };
        world.engines[from].send(world.now, id(1), message).unwrap();
    }
}

/// The part of the link that messages of `length` bytes fill in the first seconds of a session.
fn filled(each: Duration, length: usize) -> f64 {
    let mut cable = Cable::new(each);
    let payload = Bytes::from(vec![7; length]);
    let mut received = 0;
    let span = 5 * SECOND;
    let end = cable.world.now + span;
    while cable.world.now < end {
        keep_busy(&mut cable.world, 0, 60, &payload);
        cable.tick();
        received += cable.world.received(1) * payload.len();
    }
    let packet = cable.world.engines[0].peer_stats(id(1)).unwrap().mtu - 40;
    let most = span.as_micros() / each.as_micros() * packet as u128;
    received as f64 / most as f64
}

/// Each packet arrives after its limit was raised: only its sender knows that it had to wait.
#[test]
fn a_receiver_hears_that_its_credit_does_not_fill_the_path() {
    let part = filled(Duration::from_micros(100), 16_384);
    assert!(part > 0.9, "{part:.2} of the link");
}

/// A link of 1 Gbit/s carries several messages within a round trip. Other messages are bounded by
/// credit, which grows with the packets drained, large ones by memory, too.
#[test]
fn large_messages_fill_a_long_path_as_others_do() {
    let each = Duration::from_micros(10);
    let (others, large) = (filled(each, 65_536), filled(each, 1 << 20));
    assert!(large > 0.75 * others, "{large:.2}, {others:.2} of the link");
}

/// The part of the receive buffer that the second host gives to `other`.
fn share(world: &mut World, other: usize) -> f64 {
    let grant = &world.peer(1, other).connection.as_ref().unwrap().grant;
    grant.share() as f64 * grant.charge() as f64 / Shares::new(BUFFER).free() as f64
}

/// The sender waits for the receiving program: a larger share is of no use, and the one that it
/// returned was not too small.
#[test]
fn a_peer_that_waits_for_memory_keeps_the_share_of_a_newcomer() {
    let mut world = World::new(2);
    world.set_up_server(1, BUFFER, super::hostile::frugal());
    let payload = Bytes::from(vec![7; 4_096]);
    for number in 0..400 {
        let message = Outgoing {
            channel: ChannelId(number % 4),
            payload: payload.clone(),
            ..message(b"")
        };
        world.engines[0].send(world.now, id(1), message).unwrap();
    }
    world.run(5 * SECOND);
    let waits = world.engines[0].peer_stats(id(1)).unwrap().waiting;
    assert_eq!(waits, Some(WaitReason::SessionMemory));
    assert!(share(&mut world, 0) < 0.05, "{}", share(&mut world, 0));
    let key = world.engines[1].peer_key(id(0)).unwrap();
    let now = world.now;
    let Engine { peers, shared, .. } = &mut world.engines[1];
    let connection = peers.get_mut(key).unwrap().connection.as_mut().unwrap();
    connection.link.pending.reclaim = shared.shares.reclaim(&mut connection.grant, now);
    let before = connection.grant.generation();
    world.engines[1].touch(key);
    world.run(5 * SECOND);
    let grant = &world.peer(1, 0).connection.as_ref().unwrap().grant;
    assert!(grant.generation() > before, "it was returned");
    assert!(share(&mut world, 0) < 0.05, "{}", share(&mut world, 0));
}

/// The slow peer's few packets come too often for it to be idle, and too seldom to use up its
/// credit.
#[test]
fn a_peer_that_sends_less_than_before_returns_credit_that_others_need() {
    let mut world = World::new(3);
    let payload = Bytes::from(vec![7; 16_384]);
    for _ in 0..20 {
        keep_busy(&mut world, 0, 100, &payload);
        world.run(Duration::from_millis(10));
        world.received(1);
    }
    assert!(share(&mut world, 0) > 0.9);
    for _ in 0..30 {
        world.send(0, 1).unwrap();
        keep_busy(&mut world, 2, 20, &payload);
        world.run(Duration::from_millis(100));
        world.received(1);
    }
    let (slow, busy) = (share(&mut world, 0), share(&mut world, 2));
    assert!(slow < 0.05 && busy > 0.9, "{slow:.2} and {busy:.2}");
}

/// Hosts whose packets to and from the second one take `one_way`.
struct Star {
    world: World,
    one_way: [Duration; 3],
    under_way: Vec<(Instant, Packet)>,
}

impl Star {
    fn tick(&mut self, tick: Duration) {
        let world = &mut self.world;
        world.now += tick;
        let now = world.now;
        world.engines.iter_mut().for_each(|e| e.begin_cycle(now));
        let due = self.under_way.extract_if(.., |(at, _)| *at <= now);
        due.for_each(|(_, packet)| world.deliver(&packet));
        for host in 0..3 {
            let engine = &mut world.engines[host];
            if engine.next_timeout().is_some_and(|at| at <= now) {
                engine.handle_timeout(now);
            }
            for packet in world.outgoing(host) {
                let far = if packet.from == 1 {
                    packet.to
                } else {
                    packet.from
                };
                self.under_way.push((now + self.one_way[far], packet));
            }
        }
    }
}

/// Over a long path packets never come near the limit, so the share seems too large; but the sender
/// uses it.
#[test]
fn bulk_does_not_starve_a_steady_sender_over_a_long_path() {
    let millis = Duration::from_millis;
    let mut star = Star {
        world: World::new(3),
        one_way: [millis(200), Duration::ZERO, millis(10)],
        under_way: Vec::new(),
    };
    let payload = Bytes::from(vec![7; 16_384]);
    let received = |world: &mut World| {
        let all = core::iter::from_fn(|| world.engines[1].recv());
        all.filter(|(from, _)| from.node == id(0)).count()
    };
    let tick = Duration::from_micros(500);
    let (mut sent, mut arrived) = (0, 0);
    for number in 0..24_000 {
        if number % 5 == 0 {
            // Each message fills a packet.
            let steady = Outgoing {
                payload: Bytes::from(vec![7; 1_000]),
                ..message(b"")
            };
            let now = star.world.now;
            star.world.engines[0].send(now, id(1), steady).unwrap();
            sent += 1;
        }
        if number > 4_000 {
            keep_busy(&mut star.world, 2, 300, &payload);
        }
        star.tick(tick);
        arrived += received(&mut star.world);
    }
    assert!(arrived > sent * 8 / 10, "{arrived} of {sent}");
}
