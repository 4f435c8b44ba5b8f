//! One direction of an emulated link in virtual time: it takes packets and the time, and says when
//! which packet arrives. It has no clock and no socket.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::ip;
use super::link::{Direction, Ecn, Loss};

/// Counts of packets by their fate, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that the sending host put onto the link.
    pub entered: u64,
    /// Packets handed to the receiving host, copies included.
    pub delivered: u64,
    /// Dropped at random.
    pub lost: u64,
    /// Dropped for want of room in the queue.
    pub overflowed: u64,
    /// Dropped because they were larger than the limit.
    pub too_large: u64,
    /// Dropped because they were ECN-capable.
    pub ecn_dropped: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets that were chosen to be overtaken.
    pub reordered: u64,
    /// Dropped because no host has their destination address (see [`Alias`](super::Alias)).
    pub unroutable: u64,
    /// Refused by the receiving host's kernel.
    pub refused: u64,
}

impl Counts {
    /// Packets that did not arrive, for any reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let Self {
            lost,
            overflowed,
            too_large,
            ecn_dropped,
            unroutable,
            refused,
            ..
        } = *self;
        lost + overflowed + too_large + ecn_dropped + unroutable + refused
    }
}

/// A packet under way. The earliest is the least; equal ones keep their order.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    due: Duration,
    serial: u64,
    packet: Vec<u8>,
}

/// One direction of the link. All times are since the start of the emulation.
#[derive(Debug)]
pub(super) struct Pipe {
    direction: Direction,
    random: Random,
    /// Time at which the transmission of all packets in the queue ends.
    busy_until: Duration,
    /// The latest arrival of a packet that keeps its order.
    last_due: Duration,
    /// Whether a run of losses goes on.
    in_burst: bool,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    serial: u64,
    pub(super) counts: Counts,
}

impl Pipe {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            direction: Direction::default(),
            random: Random(seed),
            busy_until: Duration::ZERO,
            last_due: Duration::ZERO,
            in_burst: false,
            under_way: BinaryHeap::new(),
            serial: 0,
            counts: Counts::default(),
        }
    }

    /// Packets that enter from now on meet `direction`. Those under way arrive as was decided when
    /// they entered.
    pub(super) fn change(&mut self, direction: Direction) {
        self.direction = direction;
    }

    /// `packet` enters at `now`, which never runs backwards. Returns the ICMP packet for its
    /// sender, if there is one.
    pub(super) fn enter(&mut self, now: Duration, mut packet: Vec<u8>) -> Option<Vec<u8>> {
        self.counts.entered += 1;
        if let Some(limit) = self.direction.size_limit
            && packet.len() > usize::from(limit.bytes)
        {
            self.counts.too_large += 1;
            return limit
                .icmp
                .then(|| ip::too_big(&packet, limit.bytes))
                .flatten();
        }
        if !self.pass_ecn(&mut packet) {
            self.counts.ecn_dropped += 1;
            return None;
        }
        let Some(sent) = self.transmit(now, packet.len()) else {
            self.counts.overflowed += 1;
            return None;
        };
        if self.is_lost() {
            self.counts.lost += 1;
            return None;
        }
        let due = self.arrival(sent);
        if self.random.chance(self.direction.duplicate) {
            self.counts.duplicated += 1;
            self.hold(due, packet.clone());
        }
        self.hold(due, packet);
        None
    }

    /// Returns the time at which the next packet arrives.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.under_way.peek().map(|Reverse(first)| first.due)
    }

    /// The next packet that has arrived by `now`.
    pub(super) fn leave(&mut self, now: Duration) -> Option<Vec<u8>> {
        if self.next_due()? > now {
            return None;
        }
        self.under_way.pop().map(|Reverse(first)| first.packet)
    }

    /// Treats the ECN field as the link does; returns false if the packet is dropped.
    fn pass_ecn(&mut self, packet: &mut [u8]) -> bool {
        let is_capable = ip::ecn(packet) != ip::NOT_ECT;
        match self.direction.ecn {
            Ecn::Drop => return !is_capable,
            Ecn::Bleach if is_capable => ip::set_ecn(packet, ip::NOT_ECT),
            Ecn::Strip if ip::ecn(packet) == ip::CE => ip::set_ecn(packet, ip::ECT_0),
            Ecn::Mark(share) if is_capable && self.random.chance(share) => {
                ip::set_ecn(packet, ip::CE);
            }
            _ => {}
        }
        true
    }

    /// Returns the time at which the last bit of a packet of `length` bytes is sent; nothing if the
    /// queue has no room.
    fn transmit(&mut self, now: Duration, length: usize) -> Option<Duration> {
        let Some(rate) = self.direction.rate.filter(|rate| *rate > 0) else {
            return Some(now);
        };
        let bits = length as f64 * 8.0;
        let backlog = self.busy_until.saturating_sub(now);
        let waiting = backlog.as_secs_f64() * rate as f64;
        // A link without a backlog takes a packet of any size.
        if let Some(queue) = self.direction.queue
            && !backlog.is_zero()
            && waiting + bits > queue as f64 * 8.0
        {
            return None;
        }
        let takes = Duration::from_secs_f64(bits / rate as f64);
        self.busy_until = self.busy_until.max(now) + takes;
        Some(self.busy_until)
    }

    fn is_lost(&mut self) -> bool {
        match self.direction.loss {
            Loss::None => false,
            Loss::Even(probability) => self.random.chance(probability),
            Loss::Bursts { share, length } => {
                // In the long run a run begins as often as one ends.
                let ends = 1.0 / length.max(1.0);
                let begins = ends * share / (1.0 - share).max(f64::MIN_POSITIVE);
                self.in_burst = match self.in_burst {
                    true => !self.random.chance(ends),
                    false => self.random.chance(begins),
                };
                self.in_burst
            }
        }
    }

    /// Returns the time at which a packet arrives whose transmission ended at `sent`.
    fn arrival(&mut self, sent: Duration) -> Duration {
        let Direction {
            delay,
            jitter,
            reorder,
            ..
        } = self.direction;
        let due = sent + delay + jitter.mul_f64(self.random.unit());
        if self.random.chance(reorder.share) {
            self.counts.reordered += 1;
            return due.max(self.last_due) + reorder.late.mul_f64(self.random.unit());
        }
        self.last_due = self.last_due.max(due);
        self.last_due
    }

    fn hold(&mut self, due: Duration, packet: Vec<u8>) {
        self.serial += 1;
        self.under_way.push(Reverse(UnderWay {
            due,
            serial: self.serial,
            packet,
        }));
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014): equal seeds choose equal packets.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to below 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability; draws nothing where that is 0.
    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::{Reorder, SizeLimit};
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn pipe(direction: Direction) -> Pipe {
        let mut pipe = Pipe::new(7);
        pipe.change(direction);
        pipe
    }

    /// An IPv4 packet of `length` bytes with this ECN field, and `name` in its last byte.
    fn packet(length: usize, ecn: u8, name: u8) -> Vec<u8> {
        let mut packet = ip::tests::udp(length, ecn);
        packet[length - 1] = name;
        packet
    }

    /// The arrivals of all packets under way: time and name.
    fn arrivals(pipe: &mut Pipe) -> Vec<(Duration, u8)> {
        let mut arrived = Vec::new();
        while let Some(due) = pipe.next_due() {
            let before = due.checked_sub(Duration::from_nanos(1));
            assert_eq!(before.and_then(|before| pipe.leave(before)), None);
            let packet = pipe.leave(due).unwrap();
            arrived.push((due, *packet.last().unwrap()));
        }
        arrived
    }

    /// Enters `count` packets of 100 bytes, one each millisecond.
    fn enter_many(pipe: &mut Pipe, count: u32) {
        for number in 0..count {
            let name = u8::try_from(number % 256).unwrap();
            assert_eq!(pipe.enter(MS * number, packet(100, 0, name)), None);
        }
    }

    #[test]
    fn a_packet_arrives_after_its_transmission_and_the_delay() {
        // 100 bytes at 800 kbit/s take 1 ms.
        let mut pipe = pipe(Direction {
            rate: Some(800_000),
            delay: 10 * MS,
            ..Direction::default()
        });
        pipe.enter(Duration::ZERO, packet(100, 0, 1));
        pipe.enter(Duration::ZERO, packet(200, 0, 2));
        pipe.enter(50 * MS, packet(100, 0, 3));
        let expected = [(11 * MS, 1), (13 * MS, 2), (61 * MS, 3)];
        assert_eq!(arrivals(&mut pipe), expected);
    }

    #[test]
    fn a_full_queue_drops_the_newest_and_a_link_without_backlog_takes_any_size() {
        let mut pipe = pipe(Direction {
            rate: Some(800_000),
            queue: Some(250),
            ..Direction::default()
        });
        pipe.enter(Duration::ZERO, packet(1_000, 0, 1));
        // 200 bytes are left to be sent, and a millisecond later 100.
        pipe.enter(8 * MS, packet(100, 0, 2));
        pipe.enter(9 * MS, packet(100, 0, 3));
        pipe.enter(9 * MS, packet(100, 0, 4));
        let expected = [(10 * MS, 1), (11 * MS, 3)];
        assert_eq!(arrivals(&mut pipe), expected);
        assert_eq!(pipe.counts.overflowed, 2);
    }

    #[test]
    fn a_change_concerns_packets_that_enter_afterwards() {
        let mut pipe = pipe(Direction {
            delay: 5 * MS,
            ..Direction::default()
        });
        pipe.enter(Duration::ZERO, packet(100, 0, 1));
        pipe.change(Direction {
            delay: 20 * MS,
            ..Direction::default()
        });
        pipe.enter(MS, packet(100, 0, 2));
        assert_eq!(arrivals(&mut pipe), [(5 * MS, 1), (21 * MS, 2)]);
    }

    #[test]
    fn a_shorter_delay_overtakes_nobody() {
        let mut pipe = pipe(Direction {
            delay: 20 * MS,
            ..Direction::default()
        });
        pipe.enter(Duration::ZERO, packet(100, 0, 1));
        pipe.change(Direction::default());
        pipe.enter(MS, packet(100, 0, 2));
        assert_eq!(arrivals(&mut pipe), [(20 * MS, 1), (20 * MS, 2)]);
    }

    #[test]
    fn jitter_keeps_the_order_and_its_bounds() {
        let mut pipe = pipe(Direction {
            delay: 5 * MS,
            jitter: 50 * MS,
            ..Direction::default()
        });
        enter_many(&mut pipe, 200);
        let arrived = arrivals(&mut pipe);
        let mut differs = false;
        for (number, (due, name)) in (0..).zip(&arrived) {
            assert_eq!(u32::from(*name), number);
            let took = *due - MS * number;
            assert!((5 * MS..55 * MS).contains(&took), "{took:?}");
            differs |= took > 20 * MS;
        }
        assert!(differs && arrived.len() == 200);
    }

    #[test]
    fn chosen_packets_are_overtaken_and_none_is_lost() {
        let mut pipe = pipe(Direction {
            reorder: Reorder {
                share: 0.25,
                late: 10 * MS,
            },
            ..Direction::default()
        });
        enter_many(&mut pipe, 200);
        let reordered = pipe.counts.reordered;
        assert!((25..75).contains(&reordered), "{reordered}");
        let names: Vec<u8> = arrivals(&mut pipe).iter().map(|(_, name)| *name).collect();
        assert!(!names.is_sorted());
        let mut sorted = names;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..200).collect::<Vec<u8>>());
    }

    #[test]
    fn losses_have_their_share_and_bursts_their_length() {
        for (loss, runs) in [
            (Loss::Even(0.1), 800..1_000),
            (
                Loss::Bursts {
                    share: 0.1,
                    length: 5.0,
                },
                160..240,
            ),
        ] {
            let mut pipe = pipe(Direction {
                loss,
                ..Direction::default()
            });
            let (mut lost, mut begun, mut before) = (0, 0, 0);
            for number in 0..10_000 {
                pipe.enter(MS * number, packet(100, 0, 0));
                let after = pipe.counts.lost;
                let is_lost = after > lost;
                begun += u32::from(is_lost && before == lost);
                (before, lost) = if is_lost {
                    (u64::MAX, after)
                } else {
                    (after, after)
                };
            }
            assert!((850..1_150).contains(&lost), "{loss:?}: {lost}");
            assert!(runs.contains(&begun), "{loss:?}: {begun} runs");
            assert_eq!(arrivals(&mut pipe).len() as u64, 10_000 - lost);
        }
    }

    #[test]
    fn a_lost_packet_took_its_share_of_the_rate() {
        let mut pipe = pipe(Direction {
            rate: Some(800_000),
            loss: Loss::Even(1.0),
            ..Direction::default()
        });
        pipe.enter(Duration::ZERO, packet(100, 0, 1));
        pipe.change(Direction {
            rate: Some(800_000),
            ..Direction::default()
        });
        pipe.enter(Duration::ZERO, packet(100, 0, 2));
        assert_eq!(arrivals(&mut pipe), [(2 * MS, 2)]);
    }

    #[test]
    fn a_copy_follows_its_original() {
        let mut pipe = pipe(Direction {
            duplicate: 1.0,
            delay: MS,
            ..Direction::default()
        });
        pipe.enter(Duration::ZERO, packet(100, 0, 1));
        pipe.enter(Duration::ZERO, packet(100, 0, 2));
        assert_eq!(arrivals(&mut pipe), [(MS, 1), (MS, 1), (MS, 2), (MS, 2)]);
        assert_eq!(pipe.counts.duplicated, 2);
    }

    #[test]
    fn a_packet_beyond_the_limit_is_dropped_and_told_if_wanted() {
        for icmp in [false, true] {
            let mut pipe = pipe(Direction {
                size_limit: Some(SizeLimit { bytes: 1_400, icmp }),
                ..Direction::default()
            });
            assert_eq!(pipe.enter(MS, packet(1_400, 0, 1)), None);
            let told = pipe.enter(MS, packet(1_401, 0, 2));
            assert_eq!(told.is_some(), icmp);
            assert_eq!(pipe.counts.too_large, 1);
            assert_eq!(arrivals(&mut pipe), [(MS, 1)]);
        }
    }

    #[test]
    fn the_ecn_field_meets_what_the_link_does() {
        for (ecn, [not_capable, capable, marked]) in [
            (Ecn::Pass, [Some(0), Some(2), Some(3)]),
            (Ecn::Bleach, [Some(0), Some(0), Some(0)]),
            (Ecn::Strip, [Some(0), Some(2), Some(2)]),
            (Ecn::Mark(1.0), [Some(0), Some(3), Some(3)]),
            (Ecn::Mark(0.0), [Some(0), Some(2), Some(3)]),
            (Ecn::Drop, [Some(0), None, None]),
        ] {
            for (field, expected) in [(0, not_capable), (2, capable), (3, marked)] {
                let mut pipe = pipe(Direction {
                    ecn,
                    ..Direction::default()
                });
                pipe.enter(MS, packet(100, field, 1));
                let arrived = pipe.leave(MS).map(|packet| ip::ecn(&packet));
                assert_eq!(arrived, expected, "{ecn:?}, {field}");
            }
        }
    }
}
