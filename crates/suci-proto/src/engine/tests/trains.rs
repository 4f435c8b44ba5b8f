//! Packets taken as trains have the same effect as one by one: on the books, the packets sent, and
//! the messages received.

mod gates;

use super::packet_sequences::{Setting, difference, setting};
use super::*;
use crate::peer::Closing;
use proptest::prelude::*;

/// Faults of the network in a round.
#[derive(Clone, Copy, Debug)]
enum Mischief {
    /// Loses this many packets, from this one on.
    Lose(usize),
    Repeat,
    /// Swaps the packet with the one this many behind the next.
    Swap(usize),
    Flip(usize),
    /// Changes a byte of the frames and corrects the checksum, as a sender could that breaks the
    /// rules.
    Forge(usize),
    Mark,
    /// The packet comes from another address.
    Move,
}

#[derive(Clone, Debug)]
enum Step {
    Send {
        from: usize,
        channel: u32,
        size: usize,
    },
    Round {
        mischief: Vec<(Mischief, usize)>,
        wait: u64,
    },
    /// The receiving program takes its messages.
    Take,
    /// The receiving program decides about long messages.
    Decide(Decision),
    Close(Link),
    Suspend(Link),
    Resume(Link),
    /// The sender makes another connection.
    Replace(usize),
    /// The receiver wants the sender's slot for others.
    Dismiss(usize),
}

/// A sender and the receiver, and which of the two acts on the link.
#[derive(Clone, Copy, Debug)]
struct Link {
    sender: usize,
    by_receiver: bool,
}

impl Link {
    /// The host that acts, and the node ID of the other.
    fn ends(self) -> (usize, NodeId) {
        if self.by_receiver {
            (RECEIVER, id(self.sender))
        } else {
            (self.sender, id(RECEIVER))
        }
    }
}

/// The program's answer to an announced message.
#[derive(Clone, Copy, Debug)]
enum Decision {
    Refuse,
    Accept,
    /// Accept it into the program's own memory.
    Supply,
}

fn link() -> impl Strategy<Value = Link> {
    (0..RECEIVER, any::<bool>()).prop_map(|(sender, by_receiver)| Link {
        sender,
        by_receiver,
    })
}

fn event() -> impl Strategy<Value = Step> {
    let decisions = prop_oneof![
        1 => Just(Decision::Refuse),
        2 => Just(Decision::Accept),
        4 => Just(Decision::Supply),
    ];
    prop_oneof![
        8 => decisions.prop_map(Step::Decide),
        1 => link().prop_map(Step::Close),
        1 => link().prop_map(Step::Suspend),
        2 => link().prop_map(Step::Resume),
        1 => (0..RECEIVER).prop_map(Step::Replace),
        1 => (0..RECEIVER).prop_map(Step::Dismiss),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let sizes = prop_oneof![
        1..300_usize,
        1_400..3_000_usize,
        3_000..100_000_usize,
        100_000..300_000_usize
    ];
    let mischief = prop_oneof![
        6 => (1..8_usize).prop_map(Mischief::Lose),
        2 => Just(Mischief::Repeat),
        2 => (0..50_usize).prop_map(Mischief::Swap),
        2 => (0..1_472_usize).prop_map(Mischief::Flip),
        1 => (28..40_usize).prop_map(Mischief::Forge),
        2 => Just(Mischief::Mark),
        1 => Just(Mischief::Move),
    ];
    let mischief = prop_oneof![
        1 => Just(Vec::new()),
        1 => prop::collection::vec((mischief, 0..150_usize), 1..6),
    ];
    prop_oneof![
        4 => (0..2_usize, 0..3_u32, sizes)
            .prop_map(|(from, channel, size)| Step::Send { from, channel, size }),
        8 => (mischief, 0..400_u64).prop_map(|(mischief, wait)| Step::Round { mischief, wait }),
        2 => Just(Step::Take),
        2 => event(),
    ]
}

/// A packet that arrives.
#[derive(Clone, PartialEq)]
struct Arriving {
    from: usize,
    to: usize,
    elsewhere: bool,
    ecn: Ecn,
    bytes: Vec<u8>,
}

/// The host index of the receiver, and the number of senders.
const RECEIVER: usize = 2;

struct Trio {
    world: World,
    mtu: usize,
    in_trains: bool,
}

impl Trio {
    fn new(setting: &Setting, in_trains: bool) -> Self {
        let mut world = World::new(0);
        for host in 0..=RECEIVER {
            let engine = setting.engine(&world, host, 0..=RECEIVER);
            world.engines.push(engine);
        }
        Self {
            world,
            mtu: setting.mtu,
            in_trains,
        }
    }

    /// All packets sent now.
    fn outgoing(&mut self) -> Vec<Arriving> {
        let mut packets = Vec::new();
        for host in 0..=RECEIVER {
            while let Some(query) = self.world.engines[host].poll_route() {
                self.world.engines[host].set_route_mtu(query, Some(self.mtu));
            }
            packets.extend(self.world.outgoing(host));
        }
        let arriving = |packet: Packet| Arriving {
            from: packet.from,
            to: packet.to,
            elsewhere: false,
            ecn: Ecn::Ect0,
            bytes: packet.bytes,
        };
        packets.into_iter().map(arriving).collect()
    }

    /// Delivers packets, either joined as a kernel with GRO would, or one by one.
    fn deliver(&mut self, packets: &[Arriving]) {
        let mut rest = packets;
        while let Some(first) = rest.first() {
            let joins = |p: &&Arriving| {
                let same = (p.from, p.to, p.elsewhere, p.ecn)
                    == (first.from, first.to, first.elsewhere, first.ecn);
                same && p.bytes.len() == first.bytes.len()
            };
            let mut count = if self.in_trains {
                rest.iter().take(44).take_while(joins).count()
            } else {
                1
            };
            let shorter = |p: &Arriving| {
                let like = Arriving {
                    bytes: p.bytes.clone(),
                    ..first.clone()
                };
                p.bytes.len() < first.bytes.len() && *p == like
            };
            count += usize::from(self.in_trains && rest.get(count).is_some_and(shorter));
            let (train, others) = rest.split_at(count);
            rest = others;
            let arrival = Arrival {
                to: None,
                from: address(first.from + if first.elsewhere { 100 } else { 0 }),
                ecn: first.ecn,
                at: self.world.now,
            };
            let Some(engine) = self.world.engines.get_mut(first.to) else {
                continue;
            };
            if self.in_trains {
                let mut bytes: Vec<u8> = train.iter().flat_map(|p| p.bytes.clone()).collect();
                engine.handle_train(self.world.now, &arrival, first.bytes.len(), &mut bytes);
            } else {
                engine.handle_datagram(self.world.now, &arrival, &mut first.bytes.clone());
            }
            engine.audit(self.world.now).unwrap();
        }
    }

    /// Runs a step. Returns its results as seen from outside.
    fn take(&mut self, step: &Step) -> Vec<Vec<u8>> {
        match step {
            Step::Send {
                from,
                channel,
                size,
            } => {
                let payload: Vec<u8> = (0..*size).map(|at| (at * 7 + at / 251) as u8).collect();
                let message = Outgoing {
                    channel: ChannelId(*channel),
                    payload: payload.into(),
                    ..message(b"")
                };
                let _ = self.world.engines[*from].send(self.world.now, id(RECEIVER), message);
                Vec::new()
            }
            Step::Round { mischief, wait } => {
                let mut packets = self.outgoing();
                let sent = packets.iter().map(|p| p.bytes.clone()).collect();
                mischief
                    .iter()
                    .for_each(|(m, at)| harm(&mut packets, *m, *at));
                self.cycle(&packets, *wait);
                sent
            }
            Step::Take => {
                let engine = &mut self.world.engines[RECEIVER];
                let messages = core::iter::from_fn(|| engine.recv());
                messages.map(|(_, m)| m.payload.to_vec()).collect()
            }
            Step::Decide(decision) => self.decide(*decision),
            Step::Close(link) => {
                let (host, node) = link.ends();
                self.world.engines[host]
                    .close_peer(self.world.now, node, SECOND)
                    .unwrap();
                Vec::new()
            }
            Step::Suspend(link) => {
                let (host, node) = link.ends();
                self.world.engines[host].suspend(node).unwrap();
                Vec::new()
            }
            Step::Resume(link) => {
                let (host, node) = link.ends();
                self.world.engines[host].resume(node).unwrap();
                Vec::new()
            }
            Step::Replace(sender) => {
                self.replace(*sender);
                Vec::new()
            }
            Step::Dismiss(sender) => {
                self.dismiss(*sender);
                Vec::new()
            }
        }
    }

    /// Delivers `packets`, `wait` microseconds later.
    fn cycle(&mut self, packets: &[Arriving], wait: u64) {
        self.world.now += Duration::from_micros(wait);
        for engine in &mut self.world.engines {
            engine.begin_cycle(self.world.now);
        }
        self.deliver(packets);
        for engine in &mut self.world.engines {
            engine.handle_timeout(self.world.now);
        }
    }

    /// Takes the receiving program's events, and decides about announced messages.
    fn decide(&mut self, decision: Decision) -> Vec<Vec<u8>> {
        let events = self.world.events(RECEIVER);
        for event in &events {
            let Event::Incoming {
                node,
                channel,
                number,
                total,
                ..
            } = *event
            else {
                continue;
            };
            let engine = &mut self.world.engines[RECEIVER];
            let decided = match decision {
                Decision::Refuse => engine.refuse(node, channel, number, 1),
                Decision::Accept => engine.accept(node, channel, number, None),
                Decision::Supply => {
                    let buffer = Some(vec![0; total as usize].into());
                    engine.accept(node, channel, number, buffer)
                }
            };
            // The session may be over.
            let _ = decided;
        }
        events.iter().map(|e| format!("{e:?}").into()).collect()
    }

    fn replace(&mut self, sender: usize) {
        let now = self.world.now;
        let peer = self.world.peer(sender, RECEIVER);
        if peer.has_connection() && peer.attempt.is_none() && peer.closing == Closing::Open {
            peer.open(now, 7);
            self.touch(sender, RECEIVER);
        }
    }

    fn dismiss(&mut self, sender: usize) {
        let key = self.touch(RECEIVER, sender);
        let engine = &mut self.world.engines[RECEIVER];
        let peer = engine.peers.get_mut(key).unwrap();
        if let Some(connection) = &mut peer.connection
            && !connection.grant.is_dismissed()
        {
            engine.shared.shares.dismiss(&mut connection.grant);
            peer.balance_credit(self.world.now, &mut engine.shared.shares);
        }
    }

    fn touch(&mut self, host: usize, other: usize) -> usize {
        let engine = &mut self.world.engines[host];
        let key = engine.peer_key(id(other)).unwrap();
        engine.touch(key);
        key
    }

    /// Returns the number of packets that the receiver took together with others.
    fn taken_together(&self) -> u64 {
        self.world.engines[RECEIVER].shared.taken_together
    }

    /// All that the receiver knows of its senders, and how it divides its socket's buffer among
    /// them.
    fn books(&mut self) -> Vec<String> {
        let mut books: Vec<_> = (0..RECEIVER)
            .map(|sender| format!("{:?}", self.world.peer(RECEIVER, sender)))
            .collect();
        let shared = &self.world.engines[RECEIVER].shared;
        books.push(format!("{:?} {:?}", shared.counters, shared.shares));
        books
    }
}

/// Applies `mischief` to the packet at index `at`, if there is one.
fn harm(packets: &mut Vec<Arriving>, mischief: Mischief, at: usize) {
    let count = packets.len();
    if at >= count {
        return;
    }
    let bytes = &mut packets[at].bytes;
    match mischief {
        Mischief::Lose(some) => drop(packets.drain(at..(at + some).min(count))),
        Mischief::Repeat => packets.insert(at, packets[at].clone()),
        Mischief::Swap(distance) => packets.swap(at, (at + 1 + distance).min(count - 1)),
        Mischief::Flip(slot) => {
            let slot = slot.min(bytes.len() - 1);
            bytes[slot] ^= 0x10;
        }
        Mischief::Forge(slot) => {
            if let Some(byte) = bytes.get_mut(slot) {
                *byte = byte.wrapping_add(2);
                wire::seal(bytes);
            }
        }
        Mischief::Mark => packets[at].ecn = Ecn::Ce,
        Mischief::Move => packets[at].elsewhere = true,
    }
}

/// The same world twice: packets arrive in trains, and one by one.
struct Both([Trio; 2]);

impl Both {
    fn new(setting: &Setting) -> Self {
        Self([true, false].map(|in_trains| Trio::new(setting, in_trains)))
    }

    /// Runs `act` in both worlds; the results must be equal.
    fn each<T: PartialEq>(&mut self, act: impl Fn(&mut Trio) -> T) -> T {
        let [in_trains, one_by_one] = self.0.each_mut().map(act);
        assert!(in_trains == one_by_one, "others were sent or received");
        let [trains, singles] = self.0.each_mut().map(Trio::books);
        assert_eq!(trains.len(), singles.len());
        for (train, single) in trains.iter().zip(&singles) {
            assert_eq!(difference(train, single), None);
        }
        in_trains
    }

    fn take(&mut self, step: &Step) -> Vec<Vec<u8>> {
        self.each(|trio| trio.take(step))
    }

    /// Returns the number of packets that were taken together.
    fn taken_together(&self) -> u64 {
        let [in_trains, one_by_one] = &self.0;
        assert_eq!(one_by_one.taken_together(), 0);
        in_trains.taken_together()
    }
}

/// Checks that packets are taken together at all: otherwise the comparison would pass with single
/// packets.
#[test]
fn trains_of_a_long_message_are_taken_together() {
    let mut both = Both::new(&Setting::usual());
    for _ in 0..3 {
        gates::send(&mut both, 90_000);
        gates::rounds(&mut both, 50);
        assert_eq!(both.take(&Step::Take).len(), 1);
    }
    assert!(
        both.taken_together() > 30,
        "{} packets taken together",
        both.taken_together()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn f07_f10_trains_are_packets_one_by_one(
        setting in setting(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut both = Both::new(&setting);
        for step in &steps {
            both.take(step);
        }
    }
}
