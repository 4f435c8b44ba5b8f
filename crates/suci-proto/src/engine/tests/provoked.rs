//! A peer that makes us send packets that ask for an acknowledgement, and acknowledges them late or
//! never (F04).

use super::*;
use crate::peer::Connection;
use core::ops::RangeInclusive;
use std::collections::VecDeque;
use suci_channels::waits::WaitReason;
use suci_link::recovery::{MAX_CONTROL, MAX_REMEMBERED, MAX_SILENT};
use suci_link::wire::{CrcScope, Credit, Frame, Rts, put_ack};

const TURN: Duration = Duration::from_micros(200);
const TURNS: u64 = 50_000;

/// How late the peer acknowledges: just in time for its grant not to lapse.
const LATE: Duration = Duration::from_secs(8);

/// The channel whose messages wait for memory.
const FULL: ChannelId = ChannelId(9);

/// The frame that the peer makes us send in each of its cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provoked {
    Response,
    /// The peer comes from another address every other time.
    Challenge,
    MaxChannel,
    /// As `MaxChannel`, but three of four packets are never acknowledged.
    MaxChannelLost,
    ChannelBlocked,
    Cts,
    Return,
    Blocked,
    /// BLOCKED for acknowledgements alone.
    ReserveLow,
    /// PING, because a grant is nearly used up.
    Refresh,
}

use Provoked::*;

const ALL: [Provoked; 10] = [
    Response,
    Challenge,
    MaxChannel,
    MaxChannelLost,
    ChannelBlocked,
    Cts,
    Return,
    Blocked,
    ReserveLow,
    Refresh,
];

/// The first host's peer: it has taken over the second one's end of their connection.
struct Rogue {
    world: World,
    /// The number of its next packet.
    number: u64,
    /// Packets of the first host that it did not acknowledge.
    unacked: VecDeque<(Instant, u64)>,
    cycles: u64,
    /// The limit of the channel [`FULL`].
    limit: u64,
}

impl Rogue {
    fn new() -> Self {
        let mut world = World::new(2);
        world.set_up_server(1, BUFFER, super::hostile::frugal());
        world.send(0, 1).unwrap();
        world.run(SECOND);
        world.send(1, 0).unwrap();
        world.run(SECOND);
        for _ in 0..30 {
            let message = Outgoing {
                channel: FULL,
                payload: Bytes::from(vec![1; 4_000]),
                ..message(b"")
            };
            world.engines[0].send(world.now, id(1), message).unwrap();
        }
        world.run(SECOND);
        let peer = world.peer(0, 1);
        let waits = peer.session.outbox.wait_reason();
        assert_eq!(waits, Some(WaitReason::ChannelMemory));
        let limit = peer.connection.as_ref().unwrap().link.params.channel_memory;
        let number = world
            .peer(1, 0)
            .connection
            .as_ref()
            .unwrap()
            .link
            .numbers
            .peek();
        Self {
            world,
            number: number.unwrap(),
            unacked: VecDeque::new(),
            cycles: 0,
            limit,
        }
    }

    /// The first host's end of the connection.
    fn connection(&mut self) -> &Connection {
        self.world.peer(0, 1).connection.as_ref().unwrap()
    }

    /// The frames that the peer sends to provoke `what`.
    fn frames(&mut self, what: Provoked) -> Vec<Frame<'static>> {
        let next = self.connection().link.numbers.peek().unwrap();
        let cycle = self.cycles;
        let credit = |generation, limit, control| {
            Frame::Credit(Credit {
                generation,
                limit,
                control,
                memory: 1 << 30,
            })
        };
        let plenty = credit(1, next + 1_000, 1_000);
        match what {
            Response | Challenge => vec![plenty, Frame::Challenge(cycle)],
            MaxChannel | MaxChannelLost => {
                let channel = ChannelId(0);
                vec![plenty, Frame::ChannelBlocked { channel, limit: 0 }]
            }
            ChannelBlocked => {
                let (channel, limit) = (FULL, self.limit + cycle);
                vec![plenty, Frame::MaxChannel { channel, limit }, Frame::Ping]
            }
            Cts => {
                let rts = Rts {
                    channel: ChannelId(1),
                    message: 0,
                    total: 100_000,
                    tag: 0,
                    kind: Kind::USER,
                    user_header: &[],
                };
                vec![plenty, Frame::Rts(rts)]
            }
            Return | Blocked => {
                let generation = cycle;
                let none = credit(generation, next - 1, 1_000);
                vec![none, Frame::Reclaim { generation }]
            }
            ReserveLow => vec![credit(1, next - 1, 1), Frame::Ping],
            Refresh if cycle.is_multiple_of(2) => vec![credit(1, next, 1_000), Frame::Ping],
            Refresh => vec![Frame::Ping],
        }
    }

    /// Runs a cycle of the peer: it sends these frames, and acknowledges packets older than `late`.
    /// Returns the packets that the first host sends.
    fn cycle(&mut self, what: Provoked, late: Duration) -> Vec<Packet> {
        self.cycles += 1;
        self.world.now += TURN;
        let now = self.world.now;
        let old = |&mut (sent_at, _): &mut (Instant, u64)| sent_at + late <= now;
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        while let Some((_, number)) = self.unacked.pop_front_if(old) {
            match ranges.last_mut() {
                _ if what == MaxChannelLost && !number.is_multiple_of(4) => {}
                Some(last) if *last.end() + 1 == number => *last = *last.start()..=number,
                _ => ranges.push(number..=number),
            }
        }
        let frames = self.frames(what);
        let local = self.connection().link.local;
        let mut bytes = Vec::new();
        let header = Header {
            kind: PacketType::Data,
            scope: CrcScope::Datagram,
            index: local.index,
            number: self.number,
            tag: local.tag,
        };
        wire::put_header(&mut bytes, &header);
        let newest = ranges.into_iter().rev();
        put_ack(&mut bytes, newest, Duration::ZERO, None, None, 1_000);
        frames.iter().for_each(|frame| frame.put(&mut bytes));
        wire::seal(&mut bytes);
        self.number += 1;
        let elsewhere = what == Challenge && self.cycles.is_multiple_of(2);
        let from = if elsewhere { 5 } else { 1 };
        self.world.deliver(&Packet { from, to: 0, bytes });
        let engine = &mut self.world.engines[0];
        engine.begin_cycle(now);
        if engine.next_timeout().is_some_and(|at| at <= now) {
            engine.handle_timeout(now);
        }
        let sent = self.world.outgoing(0);
        let numbers = sent.iter().map(|packet| (now, packet.header().number));
        self.unacked.extend(numbers);
        sent
    }
}

/// A peer that acknowledges nothing for seconds, and in each cycle makes us send a packet that asks
/// for an acknowledgement, does not make us remember more and more. Once it acknowledges, it is
/// answered again.
#[test]
fn f04_provoked_packets_that_are_acknowledged_late_are_bounded() {
    for what in ALL {
        let mut rogue = Rogue::new();
        if what == Blocked {
            let _ = rogue.world.send(0, 1).unwrap();
        }
        let (mut control, mut batches) = (0, 0);
        for _ in 0..TURNS {
            rogue.cycle(what, LATE);
            let recovery = &rogue.connection().link.recovery;
            control = control.max(recovery.control_in_flight());
            batches = batches.max(recovery.batches());
        }
        assert_eq!(control, MAX_CONTROL, "{what:?}: as much as may be");
        let most = MAX_SILENT + MAX_REMEMBERED;
        assert!(batches <= most, "{what:?}: {batches} batches");
        rogue.cycle(what, Duration::ZERO);
        assert!(rogue.connection().link.recovery.control_in_flight() < 4);
        let sent = rogue.cycle(Response, LATE);
        let answer = Frame::Response(rogue.cycles);
        assert!(sent.iter().any(|packet| holds(packet, &answer)), "{what:?}");
    }
}

fn holds(packet: &Packet, frame: &Frame<'_>) -> bool {
    let (_, payload) = wire::open(&packet.bytes).unwrap();
    wire::frames(payload).any(|held| held == Ok(*frame))
}

/// Packets that `host` has in flight beside its congestion window.
fn control(world: &mut World, host: usize) -> u64 {
    let connection = world.peer(host, 1 - host).connection.as_ref().unwrap();
    connection.link.recovery.control_in_flight()
}

/// No packet arrives on either side until both hold control packets back. Then packets arrive
/// again, and both go on.
#[test]
fn f04_f19_both_ends_that_keep_control_back_go_on_when_packets_arrive_again() {
    let mut world = connected();
    for nonce in 0..2 * MAX_CONTROL {
        for host in 0..2 {
            let connection = world.peer(host, 1 - host).connection.as_mut().unwrap();
            connection.link.pending.respond(nonce, None);
            let key = world.engines[host].peer_key(id(1 - host)).unwrap();
            world.engines[host].touch(key);
            let packets = world.outgoing(host);
            assert_eq!(packets.len(), usize::from(nonce < MAX_CONTROL));
            // From half of the maximum on, each packet asks for an acknowledgement at once.
            for packet in packets {
                let asks = holds(&packet, &Frame::Ping);
                assert!(asks || nonce < MAX_CONTROL / 2, "{nonce}");
                assert!(!asks || nonce > 0);
            }
        }
    }
    // A control packet that waits for the maximum to allow it sets no timer: the probe timer
    // resolves that.
    let now = world.now;
    let connection = world.peer(0, 1).connection.as_mut().unwrap();
    connection.link.path.heard_from(address(9), || 5, now);
    let key = world.engines[0].peer_key(id(1)).unwrap();
    world.engines[0].touch(key);
    assert_eq!(world.outgoing(0).len(), 0);
    assert!(world.engines[0].next_timeout().unwrap() > now);
    assert_eq!(
        [0, 1].map(|host| control(&mut world, host)),
        [MAX_CONTROL; 2]
    );
    world.run(SECOND);
    assert_eq!([0, 1].map(|host| control(&mut world, host)), [0; 2]);
    for host in 0..2 {
        let connection = world.peer(host, 1 - host).connection.as_ref().unwrap();
        assert!(!connection.link.pending.has_any());
    }
}
