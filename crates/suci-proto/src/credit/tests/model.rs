//! Several senders, one socket and a network that loses, repeats and reorders both ways.
//!
//! The model keeps its own picture of the socket buffer, packet by packet. On every step the
//! packets that lie there must fit the grants, and the grants must fit the budget. When the faults
//! stop, every sender must get its data through.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

const STEP: u64 = 10;
const PTO: Duration = Duration::from_millis(100);
/// Longest delay of a packet: less than L, as the protocol assumes.
const LONGEST: u64 = 8_000;

/// The generator xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Faults of the network, in percent of the packets.
#[derive(Clone, Copy, Debug)]
struct Faults {
    loss: u64,
    duplicates: u64,
    late: u64,
    pauses: bool,
}

const CALM: Faults = Faults {
    loss: 0,
    duplicates: 0,
    late: 0,
    pauses: false,
};

#[derive(Clone, Copy, Debug)]
struct Packet {
    number: PacketNumber,
    data: bool,
    eliciting: bool,
    blocked: bool,
    /// The generation and the limit that was too low.
    used_up: Option<(u64, PacketNumber)>,
    returned: Option<SocketReturn>,
    sent: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Reply {
    acked_sent_at: Option<Instant>,
    credit: Option<SocketCredit>,
    reclaim: Option<u64>,
}

struct Pair {
    credit: SendCredit,
    grant: Grant,
    next: PacketNumber,
    forth: Vec<(u64, Packet)>,
    back: Vec<(u64, Reply)>,
    /// Highest number that reached the buffer: lower ones are late.
    arrived: PacketNumber,
    seen: BTreeSet<PacketNumber>,
    newest_drained: Option<Instant>,
    /// When no packet of this peer lay in the buffer.
    empty_at: u64,
    owes_ack: bool,
    delivered: u64,
    busy: bool,
    sender_paused: u64,
}

struct World {
    random: Random,
    faults: Faults,
    shares: Shares,
    pairs: Vec<Pair>,
    /// The socket buffer: the index of the sender, the packet, and whether it came late or twice.
    buffer: VecDeque<(usize, Packet, bool)>,
    paused: u64,
    now: u64,
    /// False if shares may shrink, which can leave more late packets under way than the allowance.
    steady: bool,
    injected: u64,
    mtu: usize,
}

impl World {
    fn new(
        seed: u64,
        peers: usize,
        (packets, mtu): (u64, usize),
        first: PacketNumber,
        faults: Faults,
    ) -> Self {
        let mut world = Self {
            random: Random(seed | 1),
            faults,
            shares: Shares::new(packets * data_charge(mtu) * 2 + 8),
            pairs: Vec::new(),
            buffer: VecDeque::new(),
            paused: 0,
            now: 1_000,
            steady: peers == 1,
            injected: 0,
            mtu,
        };
        for _ in 0..peers {
            world.join(first);
        }
        world
    }

    fn join(&mut self, first: PacketNumber) {
        let now = at(self.now);
        let Some(mut grant) = self.shares.admit(first, self.mtu, now) else {
            return;
        };
        // The INIT was the first packet, and is drained.
        self.shares.drain_one(&mut grant, first, true, now);
        let credit = SendCredit::new(first, grant.handshake_credit(first), now);
        self.pairs.push(Pair {
            credit,
            grant,
            next: first + 1,
            forth: Vec::new(),
            back: Vec::new(),
            arrived: first + 1,
            seen: BTreeSet::new(),
            newest_drained: None,
            empty_at: self.now,
            owes_ack: false,
            delivered: 0,
            busy: true,
            sender_paused: 0,
        });
    }

    fn delay(&mut self) -> u64 {
        if self.random.percent(self.faults.late) {
            self.injected += 1;
            let rare = self.random.percent(3);
            self.random.below(if rare { LONGEST } else { 400 })
        } else {
            5 + self.random.below(3)
        }
    }

    /// Returns the arrival times of one transmission: none, one, or several.
    fn fate(&mut self) -> Vec<u64> {
        if self.random.percent(self.faults.loss) {
            self.injected += 1;
            return Vec::new();
        }
        let mut times = vec![self.now + self.delay()];
        while times.len() < 4 && self.random.percent(self.faults.duplicates) {
            self.injected += 1;
            times.push(self.now + self.delay());
        }
        times
    }

    fn transmit(&mut self, index: usize, data: bool, eliciting: bool) {
        let now = at(self.now);
        let pair = &mut self.pairs[index];
        let returned = pair.credit.return_due(now);
        let blocked = pair.credit.needs_blocked(now) && eliciting;
        let number = pair.next;
        pair.next += 1;
        pair.credit.on_sent(number, now, eliciting);
        if returned.is_some() {
            pair.credit.on_return_sent(now);
        }
        let used_up = pair.credit.used_up().filter(|_| data);
        let used_up = used_up.map(|limit| (pair.credit.generation(), limit));
        if used_up.is_some() {
            pair.credit.on_used_up_reported(now);
        }
        if blocked {
            pair.credit.on_blocked_sent(now);
        }
        let packet = Packet {
            number,
            data,
            eliciting,
            blocked,
            used_up,
            returned,
            sent: now,
        };
        let fate = self.fate();
        if let (true, Some(answer)) = (fate.is_empty(), returned) {
            self.pairs[index].credit.on_return_lost(answer.generation);
        }
        self.pairs[index]
            .forth
            .extend(fate.into_iter().map(|time| (time, packet)));
    }

    fn send(&mut self, index: usize) {
        if self.faults.pauses && self.random.below(4_000) == 0 {
            self.pairs[index].sender_paused = self.now + self.random.below(3 * L);
        }
        if self.now < self.pairs[index].sender_paused {
            return;
        }
        let now = at(self.now);
        if self.faults.pauses && self.random.below(600) == 0 {
            self.pairs[index].busy = !self.pairs[index].busy;
        }
        let burst = self.random.below(12);
        for _ in 0..burst {
            let pair = &self.pairs[index];
            if !pair.busy || !pair.credit.may_send_data(pair.next, now) {
                break;
            }
            self.transmit(index, true, true);
        }
        let pair = &mut self.pairs[index];
        let control = pair.credit.may_send_control(pair.next, now);
        if pair.busy && !pair.credit.may_send_data(pair.next, now) {
            pair.credit.on_used_up(now);
            pair.credit.on_waiting(now, PTO);
        } else {
            pair.credit.on_idle(now);
        }
        let ping = pair.credit.needs_blocked(now)
            || pair.credit.return_is_urgent()
            || pair.credit.refresh_due(pair.next, now);
        let chatter = self.random.below(200) == 0;
        if (ping || chatter) && !matches!(control, ControlAllowance::NotBefore(_)) {
            self.transmit(index, false, ping);
        }
    }

    fn arrive(&mut self, index: usize) {
        let now = self.now;
        let mut due: Vec<_> = self.pairs[index]
            .forth
            .extract_if(.., |(t, _)| *t <= now)
            .collect();
        due.sort_by_key(|(time, packet)| (*time, packet.number));
        for (_, packet) in due {
            let twice = self
                .buffer
                .iter()
                .any(|(i, p, _)| *i == index && p.number == packet.number)
                || self.pairs[index].seen.contains(&packet.number);
            let late = twice || packet.number < self.pairs[index].arrived;
            // More reordering than the grant allows for is outside the promise; the model drops
            // such a packet.
            let lying = self
                .buffer
                .iter()
                .filter(|(i, _, late)| *i == index && *late)
                .count();
            if late && lying as u64 >= self.pairs[index].grant.share() / 8 {
                continue;
            }
            let pair = &mut self.pairs[index];
            pair.arrived = pair.arrived.max(packet.number);
            self.buffer.push_back((index, packet, late));
        }
    }

    fn drain(&mut self) {
        if self.faults.pauses && self.random.below(3_000) == 0 {
            self.paused = self.now + self.random.below(3 * L);
        }
        if self.now < self.paused {
            return;
        }
        let speed = if self.faults.pauses {
            self.random.below(10)
        } else {
            u64::MAX
        };
        let now = at(self.now);
        for _ in 0..speed {
            let Some((index, packet, _)) = self.buffer.pop_front() else {
                break;
            };
            let Self { shares, pairs, .. } = self;
            let Some(pair) = pairs.get_mut(index) else {
                continue;
            };
            if !pair.seen.insert(packet.number) {
                continue;
            }
            let before = pair.grant.limit();
            if let Some(answer) = packet.returned {
                shares.on_return(&mut pair.grant, answer, now);
            }
            let used_up = |(generation, limit)| {
                generation == pair.grant.generation() && packet.number > limit
            };
            if packet.used_up.is_some_and(used_up) {
                shares.on_used_up(&mut pair.grant, now);
            }
            if packet.blocked || packet.used_up.is_some() {
                shares.on_blocked(&mut pair.grant, index, now);
            }
            shares.drain_one(&mut pair.grant, packet.number, packet.eliciting, now);
            assert!(pair.grant.limit() >= before || pair.grant.generation() > 0);
            pair.delivered += u64::from(packet.data);
            pair.owes_ack |= packet.eliciting;
            pair.newest_drained = pair.newest_drained.max(Some(packet.sent));
            shares.check().unwrap();
        }
        if self.buffer.is_empty() {
            for pair in &mut self.pairs {
                self.shares.expire(&mut pair.grant, now);
            }
        }
        while let Some(index) = self.shares.next_to_serve() {
            self.shares.serve(&mut self.pairs[index].grant, now);
        }
        for index in 0..self.pairs.len() {
            self.shares
                .satisfy_if_silent(&mut self.pairs[index].grant, now);
            self.answer(index);
        }
    }

    fn answer(&mut self, index: usize) {
        let now = at(self.now);
        let Self { shares, pairs, .. } = self;
        let pair = &mut pairs[index];
        let reclaim = if shares.reclaim_due(&pair.grant, NEAR, now) {
            shares.reclaim(&mut pair.grant, now)
        } else {
            None
        };
        let ack = core::mem::take(&mut pair.owes_ack);
        if !ack && reclaim.is_none() && !pair.grant.update_due() {
            return;
        }
        let credit = (pair.grant.ride_due() || reclaim.is_some()).then(|| pair.grant.credit());
        let reply = Reply {
            acked_sent_at: pair.newest_drained.filter(|_| ack),
            credit,
            reclaim,
        };
        let fate = self.fate();
        self.pairs[index]
            .back
            .extend(fate.into_iter().map(|time| (time, reply)));
    }

    fn hear(&mut self, index: usize) {
        let time = self.now;
        let now = at(time);
        let pair = &mut self.pairs[index];
        if time < pair.sender_paused {
            return;
        }
        let mut due: Vec<_> = pair.back.extract_if(.., |(t, _)| *t <= time).collect();
        due.sort_by_key(|(time, _)| *time);
        for (_, reply) in due {
            if let Some(sent) = reply.acked_sent_at {
                pair.credit.on_acked(sent, now);
            }
            if let Some(credit) = reply.credit {
                pair.credit.on_grant(credit, now);
            }
            if let Some(generation) = reply.reclaim {
                pair.credit.on_reclaim(generation, now);
            }
        }
    }

    /// The invariants, from the model's own picture of the buffer.
    fn check(&mut self) {
        self.shares.check().unwrap();
        let booked: u64 = self.pairs.iter().map(|p| p.grant.outstanding_bytes()).sum();
        let budget = Shares::new(0).free() + booked + self.shares.free();
        let (mut bytes, mut tolerated) = (0_u64, 0_u64);
        for (index, pair) in self.pairs.iter_mut().enumerate() {
            let (mut ahead, mut late, mut control) = (0_u64, 0_u64, 0_u64);
            let end = pair.grant.limit() + 1;
            let outstanding = pair.grant.outstanding();
            for (_, packet, came_late) in self.buffer.iter().filter(|(i, ..)| *i == index) {
                bytes += if packet.data {
                    DATA_CHARGE
                } else {
                    data_charge(128)
                };
                if *came_late {
                    late += 1;
                } else if packet.number < end && (packet.data || outstanding > 0) {
                    ahead += 1;
                } else {
                    assert!(
                        !packet.data,
                        "data {} beyond the limit {end}",
                        packet.number
                    );
                    control += 1;
                }
            }
            if ahead + late + control == 0 {
                pair.empty_at = self.now;
            }
            // After a quarter of a second, after another second, then one in each L.
            let time = self.now - pair.empty_at + LONGEST;
            let extra = 1 + u64::from(time >= 250) + u64::from(time >= 1_250) + time / L;
            assert!(
                control <= pair.grant.control() + extra,
                "{control} control packets"
            );
            tolerated += control.saturating_sub(pair.grant.control()) * data_charge(128);
            let excess = (ahead + late).saturating_sub(outstanding);
            assert!(
                excess == 0 || late > 0,
                "{ahead} in order of {outstanding} granted"
            );
            assert!(
                excess == 0 || !self.steady,
                "{ahead} and {late} late of {outstanding}"
            );
            tolerated += excess * data_charge(self.mtu);
        }
        let control: u64 = self.pairs.iter().map(|p| p.grant.control()).sum();
        assert!(bytes <= booked + control * data_charge(128) + tolerated);
        assert!(booked <= budget);
    }

    fn run(&mut self, millis: u64) {
        let end = self.now + millis;
        while self.now < end {
            for index in 0..self.pairs.len() {
                self.hear(index);
                self.send(index);
                self.arrive(index);
            }
            self.check();
            self.drain();
            self.check();
            self.now += STEP;
        }
    }

    /// Ends the faults. Every sender must get its data through.
    fn finish(&mut self, each: u64, within: u64) {
        self.faults = CALM;
        self.paused = 0;
        for pair in &mut self.pairs {
            pair.busy = true;
            pair.sender_paused = 0;
        }
        let goals: Vec<_> = self.pairs.iter().map(|p| p.delivered + each).collect();
        let end = self.now + within;
        while self
            .pairs
            .iter()
            .zip(&goals)
            .any(|(p, goal)| p.delivered < *goal)
        {
            if self.now >= end {
                let stuck = self
                    .pairs
                    .iter()
                    .zip(&goals)
                    .find(|(p, goal)| p.delivered < **goal);
                let Some((pair, goal)) = stuck else { return };
                panic!(
                    "{} of {goal} at {}, next {}: {:?} {:?} {:?}",
                    pair.delivered, self.now, pair.next, pair.credit, pair.grant, self.shares
                );
            }
            self.run(STEP);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn f31_within_the_budget_and_alive_under_any_faults(
        seed in any::<u64>(),
        peers in 1..7_usize,
        packets in 7..150_u64,
        near_end in any::<bool>(),
        (loss, duplicates, late) in (0..51_u64, 0..21_u64, 0..31_u64),
        joiners in 0..4_usize,
    ) {
        let first = if near_end { u64::MAX - 10_000_000 } else { 0 };
        let faults = Faults { loss, duplicates, late, pauses: true };
        let mut world = World::new(seed, peers, (packets, ETHERNET_MTU), first, faults);
        world.run(20_000);
        for _ in 0..joiners {
            world.steady = false;
            world.join(first);
            world.run(5_000);
        }
        prop_assert!(loss == 0 || world.injected > 0);
        world.finish(60, 8 * L);
    }

    #[test]
    fn f31_more_peers_than_packets_are_all_served(seed in any::<u64>(), loss in 0..30_u64) {
        let faults = Faults { loss, duplicates: 5, late: 5, pauses: false };
        let mut world = World::new(seed, 6, (6, 65_507), 0, faults);
        for pair in &mut world.pairs {
            pair.busy = false;
        }
        // The idle ones lapse, and the packets that the joiners take are not free for them.
        world.steady = false;
        world.pairs.iter_mut().for_each(|p| p.sender_paused = 1_000 + 3 * L);
        world.run(2 * L + 100);
        for _ in 0..4 {
            world.join(0);
        }
        prop_assert!(world.pairs.len() > 6, "{}", world.pairs.len());
        world.run(5_000);
        world.finish(20, 12 * L);
    }

    #[test]
    fn f19_a_sender_alone_is_never_stuck(seed in any::<u64>(), packets in 2..40_u64) {
        // Half of everything is lost for a minute, and all of it for 15 s in between.
        let faults = Faults { loss: 50, duplicates: 10, late: 30, pauses: false };
        let mut world = World::new(seed, 1, (packets, ETHERNET_MTU), 0, faults);
        world.run(20_000);
        world.faults.loss = 100;
        world.run(15_000);
        world.faults.loss = 50;
        world.run(20_000);
        world.finish(50, 5 * L);
    }
}

#[test]
fn a_calm_network_moves_a_share_each_round_trip() {
    let mut world = World::new(7, 1, (200, ETHERNET_MTU), 0, CALM);
    world.finish(10_000, 60_000);
    assert!(world.pairs.iter().all(|p| p.grant.generation() == 0));
}
