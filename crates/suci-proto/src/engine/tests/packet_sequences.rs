//! Full packets that are built together equal packets built one by one: the same bytes, and the
//! same state afterwards.

use super::*;
use crate::config::Config;
use proptest::prelude::*;
use suci_channels::message::SentFrame;
use suci_channels::scheduler::Priority;
use suci_link::congestion::ControllerChoice;
use suci_link::link::Recorded;

/// The next step of a program and its network.
#[derive(Clone, Debug)]
enum Step {
    Send {
        channel: u32,
        size: usize,
    },
    /// `lost`: the index of the first lost packet of the round, and the number lost.
    Round {
        lost: Option<(usize, usize)>,
        wait: u64,
    },
    Cap(Option<u64>),
    /// The next packet asks for an acknowledgement: later packets are cut at other offsets.
    Ping,
    /// A packet number is skipped soon.
    Skip(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let sizes = prop_oneof![
        1..300_usize,
        1_400..3_000_usize,
        3_000..100_000_usize,
        100_000..400_000_usize
    ];
    prop_oneof![
        3 => (0..3_u32, sizes).prop_map(|(channel, size)| Step::Send { channel, size }),
        6 => (prop::option::weighted(0.2, (0..50_usize, 1..5_usize)), 0..400_u64)
            .prop_map(|(lost, wait)| Step::Round { lost, wait }),
        1 => prop::option::of(1_000_000..1_000_000_000_u64).prop_map(Step::Cap),
        1 => Just(Step::Ping),
        1 => (1..100_u64).prop_map(Step::Skip),
    ]
}

fn controller() -> impl Strategy<Value = ControllerChoice> {
    prop_oneof![
        3 => Just(ControllerChoice::Auto),
        1 => Just(ControllerChoice::Cubic),
        1 => Just(ControllerChoice::Wan),
        1 => Just(ControllerChoice::Fixed { bytes: 200_000 }),
    ]
}

/// How the two ends are set up.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    controller: ControllerChoice,
    mode: Mode,
    payload_checksum: bool,
    sealed: bool,
    buffer: u64,
    pub(super) mtu: usize,
    priorities: bool,
    /// Longer messages are the receiving program's to decide about.
    pub(super) max_message: u64,
}

impl Setting {
    /// The usual setting.
    pub(super) fn usual() -> Self {
        Self {
            controller: ControllerChoice::Auto,
            mode: Mode::Adaptive,
            payload_checksum: true,
            sealed: false,
            buffer: BUFFER,
            mtu: 1_472,
            priorities: false,
            max_message: Config::default().max_message,
        }
    }

    /// The engine of `host`, which knows the others.
    pub(super) fn engine(
        &self,
        world: &World,
        host: usize,
        hosts: impl Iterator<Item = usize>,
    ) -> Engine {
        let identity = Identity {
            node: id(host),
            incarnation: Incarnation(host as u128 + 1),
        };
        let config = Config {
            accept: AcceptPolicy::Anyone,
            controller: self.controller,
            mode: self.mode,
            payload_checksum: self.payload_checksum,
            security: match self.sealed {
                true => world.cluster(&[1]),
                false => Security::Plain,
            },
            max_datagram: self.mtu,
            max_message: self.max_message,
            ack_on_poll: true,
            ..Config::default()
        };
        let seed = [host as u8; 32];
        let mut engine = Engine::new(config, identity, seed, self.buffer, world.now).unwrap();
        for other in hosts.filter(|other| *other != host) {
            engine
                .add_peer(world.now, id(other), address(other))
                .unwrap();
        }
        engine
    }
}

pub(super) fn setting() -> impl Strategy<Value = Setting> {
    let modes = prop_oneof![
        Just(Mode::Adaptive),
        Just(Mode::Throughput),
        Just(Mode::Response)
    ];
    let buffers = prop_oneof![Just(BUFFER), Just(1 << 20)];
    let mtus = prop_oneof![3 => Just(1_472_usize), 1 => Just(1_200_usize), 1 => Just(8_972_usize)];
    let flags = (
        any::<bool>(),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.3),
    );
    let longest = prop_oneof![3 => Just(Config::default().max_message), 1 => Just(50_000)];
    (controller(), modes, buffers, mtus, flags, longest).prop_map(
        |(controller, mode, buffer, mtu, (payload_checksum, priorities, sealed), max_message)| {
            Setting {
                controller,
                mode,
                payload_checksum,
                sealed,
                buffer,
                mtu,
                priorities,
                max_message,
            }
        },
    )
}

/// Two ends, the first of which sends.
struct Pairs {
    world: World,
    mtu: usize,
}

impl Pairs {
    fn new(setting: &Setting, one_by_one: bool) -> Self {
        let mut world = World::new(0);
        for host in 0..2 {
            let mut engine = setting.engine(&world, host, 0..2);
            engine.shared.one_by_one = one_by_one;
            world.engines.push(engine);
        }
        let to = id(1);
        if setting.priorities {
            for (channel, class) in [(0, 3), (1, 5), (2, 5)] {
                let priority = Priority::new(class, 16).unwrap();
                world.engines[0]
                    .set_channel_priority(to, ChannelId(channel), priority)
                    .unwrap();
            }
        }
        Self {
            world,
            mtu: setting.mtu,
        }
    }

    fn outgoing(&mut self, host: usize) -> Vec<Packet> {
        while let Some(query) = self.world.engines[host].poll_route() {
            self.world.engines[host].set_route_mtu(query, Some(self.mtu));
        }
        self.world.outgoing(host)
    }

    /// Delivers the packets that both ends send now, except the lost ones of the first end.
    fn round(&mut self, lost: Option<(usize, usize)>, wait: u64) -> Vec<Vec<u8>> {
        let mut packets: Vec<Packet> = (0..2).flat_map(|host| self.outgoing(host)).collect();
        let bytes = packets.iter().map(|p| p.bytes.clone()).collect();
        self.world.now += Duration::from_micros(wait);
        for engine in &mut self.world.engines {
            engine.begin_cycle(self.world.now);
        }
        if let Some((from, count)) = lost {
            let end = (from + count).min(packets.len());
            packets.drain(from.min(end)..end);
        }
        packets.iter().for_each(|packet| self.world.deliver(packet));
        for engine in &mut self.world.engines {
            engine.handle_timeout(self.world.now);
        }
        self.world.received(1);
        bytes
    }

    fn take(&mut self, step: &Step) -> Vec<Vec<u8>> {
        let now = self.world.now;
        match *step {
            Step::Send { channel, size } => {
                let payload: Vec<u8> = (0..size).map(|at| (at * 7 + at / 251) as u8).collect();
                let message = Outgoing {
                    channel: ChannelId(channel),
                    payload: payload.into(),
                    ..message(b"")
                };
                let _ = self.world.engines[0].send(now, id(1), message);
                Vec::new()
            }
            Step::Round { lost, wait } => self.round(lost, wait),
            Step::Ping => {
                if let Some(connection) = &mut self.world.peer(0, 1).connection {
                    connection.link.pending.ping = true;
                }
                Vec::new()
            }
            Step::Skip(after) => {
                if let Some(connection) = &mut self.world.peer(0, 1).connection {
                    connection.link.numbers.skip_after(after);
                }
                Vec::new()
            }
            Step::Cap(rate) => {
                let _ = self.world.engines[0].change_options(now, id(1), |o| o.rate_cap = rate);
                Vec::new()
            }
        }
    }

    /// All that the first end knows of the second: packets in flight, credit, windows, queues,
    /// pending frames.
    fn books(&mut self) -> String {
        format!("{:?}", self.world.peer(0, 1))
    }
}

/// Returns where two texts begin to differ, or one ends.
pub(super) fn difference(one: &str, other: &str) -> Option<String> {
    let differs = one.bytes().zip(other.bytes()).position(|(a, b)| a != b);
    let ends = (one.len() != other.len()).then(|| one.len().min(other.len()));
    let at = differs.or(ends)?;
    let part = |text: &str| {
        text.get(at.saturating_sub(200)..(at + 100).min(text.len()))
            .unwrap_or_default()
            .to_owned()
    };
    Some(format!("{}\n{}", part(one), part(other)))
}

#[test]
fn a_text_differs_from_its_beginning() {
    assert_eq!(difference("books", "books"), None);
    assert!(difference("books", "book").is_some());
    assert!(difference("books", "looks").is_some());
}

/// Checks that packets are built together at all: otherwise the comparison would pass with single
/// packets.
#[test]
fn full_packets_of_a_long_message_are_built_together() {
    for one_by_one in [false, true] {
        let mut pairs = Pairs::new(&Setting::usual(), one_by_one);
        for _ in 0..3 {
            let (channel, size) = (0, 90_000);
            pairs.take(&Step::Send { channel, size });
            for _ in 0..50 {
                pairs.round(None, 100);
            }
        }
        let built = pairs.world.engines[0].shared.built_together;
        assert_eq!(built > 100, !one_by_one, "{built} packets built together");
    }
}

/// A piece that shared its packet with other frames is shorter than a packet. Sent again alone it
/// is padded or carries its length: in both cases its frame header differs from those of a several.
#[test]
fn a_piece_shorter_than_its_packet_is_built_alone() {
    for short in 1..5 {
        let mut setting = Setting::usual();
        // A piece is too small a part of this window to ask for an acknowledgement.
        setting.controller = ControllerChoice::Fixed { bytes: 200_000 };
        let mut pairs = Pairs::new(&setting, false);
        let (channel, size) = (0, 100);
        pairs.take(&Step::Send { channel, size });
        (0..20).for_each(|_| drop(pairs.round(None, 100)));
        let (channel, size) = (0, 90_000);
        pairs.take(&Step::Send { channel, size });
        for lost in [false, true] {
            let (now, engine) = (pairs.world.now, &mut pairs.world.engines[0]);
            let transmit = engine.poll_transmit(now, 1).unwrap();
            let mut bytes = Vec::new();
            transmit.copy_to(&mut bytes);
            engine.transmit_done(now, TransmitResult::Sent(1));
            let (from, to) = (0, 1);
            pairs.world.deliver(&Packet { from, to, bytes });
            if lost && let Some(frame) = pairs.world.engines[0].shared.frames.first().copied() {
                let Recorded::Cargo(SentFrame::Data {
                    channel,
                    start,
                    end,
                }) = frame
                else {
                    panic!("{frame:?}");
                };
                let start = start + short;
                let outbox = &mut pairs.world.peer(0, 1).session.outbox;
                outbox.on_lost(&SentFrame::Data {
                    channel,
                    start,
                    end,
                });
            }
        }
        let before = pairs.world.peer(1, 0).session.inbox.received();
        (0..100).for_each(|_| drop(pairs.round(None, 1_000)));
        let received = pairs.world.peer(1, 0).session.inbox.received();
        assert_eq!(received, before + 1, "{short}");
        assert!(pairs.world.engines[0].shared.built_together > 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, max_shrink_iters: 10, ..ProptestConfig::default() })]

    #[test]
    fn packets_built_together_equal_packets_built_one_by_one(
        setting in setting(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut pairs = [false, true].map(|one_by_one| Pairs::new(&setting, one_by_one));
        for step in &steps {
            let [together, one_by_one] = pairs.each_mut().map(|pair| pair.take(step));
            prop_assert_eq!(together.len(), one_by_one.len());
            for (several, single) in together.iter().zip(&one_by_one) {
                prop_assert_eq!(several, single);
            }
            let [together, one_by_one] = pairs.each_mut().map(Pairs::books);
            prop_assert_eq!(difference(&together, &one_by_one), None);
        }
    }
}
