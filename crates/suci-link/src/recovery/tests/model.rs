//! Loss recovery beside a naive model of it: one map of all packets ever sent, no cleverness.
//!
//! Bytes choose the operations, so that the property test and the fuzz target (which includes this
//! file) drive the same comparison. The model does not copy the adaptive thresholds: it knows the
//! least and the most that they may be, and RFC 9002's rules.

use super::{
    AckDelays, AckSummary, Content, Duration, Instant, LossSummary, MAX_CONTROL,
    MAX_PACKET_THRESHOLD, MAX_REMEMBERED, MIN_PACKET_THRESHOLD, PacketNumber, ProtocolError,
    Recovery, SentKind, Sink, TimerAction,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

const MAX_ACK_DELAY: Duration = Duration::from_millis(5);

/// Nanoseconds after which nothing is compared: what a timer may add, some three centuries, fits
/// behind them.
const LAST: u64 = 1 << 63;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Silent,
    Lost { forget_at: Instant, dropped: bool },
    Acked,
    Abandoned,
}

#[derive(Clone, Debug)]
struct Packet {
    state: State,
    sent_at: Instant,
    size: usize,
    probe: bool,
    control: bool,
    frames: Vec<Sample>,
}

/// The content of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    /// Bytes of something, which several packets may carry in equal pieces.
    Bytes { of: u32, start: u64, end: u64 },
    /// Anything else. Probes repeat it if it `matters`.
    Other { number: u64, matters: bool },
}

impl Content for Sample {
    fn adjoin(&mut self, next: &Self) -> bool {
        match (self, *next) {
            (
                Self::Bytes { of, end, .. },
                Self::Bytes {
                    of: other,
                    start,
                    end: reach,
                },
            ) if (*of, *end) == (other, start) => {
                *end = reach;
                true
            }
            _ => false,
        }
    }

    fn divisible(&self) -> u64 {
        match self {
            Self::Bytes { start, end, .. } => end - start,
            Self::Other { .. } => 0,
        }
    }

    fn piece(&self, bytes: std::ops::Range<u64>) -> Self {
        match self {
            Self::Bytes { of, start, .. } => Self::Bytes {
                of: *of,
                start: start + bytes.start,
                end: start + bytes.end,
            },
            Self::Other { .. } => unreachable!("it cannot be divided"),
        }
    }

    fn is_repeated(&self) -> bool {
        !matches!(self, Self::Other { matters: false, .. })
    }
}

/// The frames of a packet follow from its number, so that mixed-up frames are noticed.
fn frames_of(number: PacketNumber, count: u64) -> Vec<Sample> {
    (0..count)
        .map(|i| Sample::Other {
            number: number.wrapping_mul(31) ^ i,
            matters: true,
        })
        .collect()
}

/// Returns `len` bytes at position `start`.
fn part(start: u64, len: u64) -> Sample {
    let end = start + len;
    Sample::Bytes { of: 7, start, end }
}

/// Returns what each of the packets carried that were reported together.
fn each(
    numbers: RangeInclusive<PacketNumber>,
    frames: &[Sample],
) -> impl Iterator<Item = (PacketNumber, Vec<Sample>)> {
    let count = numbers.end() - numbers.start() + 1;
    let (first, frames) = (*numbers.start(), frames.to_vec());
    numbers.map(move |number| match *frames {
        [Sample::Bytes { start, end, .. }] => {
            assert!((end - start).is_multiple_of(count));
            let len = (end - start) / count;
            (number, vec![part(start + (number - first) * len, len)])
        }
        _ => {
            assert_eq!(count, 1, "only parts are reported together");
            (number, frames.clone())
        }
    })
}

#[derive(Default)]
struct Reports {
    acked: Vec<(PacketNumber, Vec<Sample>)>,
    lost: Vec<(PacketNumber, Vec<Sample>)>,
}

impl Sink<Sample> for Reports {
    fn acked(&mut self, numbers: RangeInclusive<PacketNumber>, frames: &[Sample]) {
        self.acked.extend(each(numbers, frames));
    }
    fn lost(&mut self, numbers: RangeInclusive<PacketNumber>, frames: &[Sample]) {
        self.lost.extend(each(numbers, frames));
    }
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> Option<u64> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(u64::from(byte))
    }
    fn or_zero(&mut self) -> u64 {
        self.next().unwrap_or(0)
    }
}

struct World {
    recovery: Recovery<Sample>,
    now: Instant,
    /// A packet declared lost arrived.
    late: bool,
    /// The last `now` that recovery can have seen for certain.
    clock: Instant,
    first: PacketNumber,
    next: PacketNumber,
    /// Where the next part of the message begins.
    part: u64,
    packets: BTreeMap<PacketNumber, Packet>,
    skips: BTreeSet<PacketNumber>,
    largest_acked: Option<PacketNumber>,
    resumed_at: Option<Instant>,
    /// When the first pause of those that count as one ended.
    held_since: Option<Instant>,
    /// Packets sent before this time are not exempted again.
    already_exempted: Option<Instant>,
}

/// Runs the operations that `data` spells; panics where recovery and model disagree.
pub(super) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let first = match bytes.or_zero() % 3 {
        0 => 0,
        1 => 1 << 40,
        _ => u64::MAX - 100_000,
    };
    let mut world = World {
        recovery: Recovery::new(first, Duration::from_millis(100)),
        now: Instant::from_nanos(1_000_000_000),
        clock: Instant::ZERO,
        late: false,
        first,
        next: first,
        part: 0,
        packets: BTreeMap::new(),
        skips: BTreeSet::new(),
        largest_acked: None,
        resumed_at: None,
        held_since: None,
        already_exempted: None,
    };
    for _ in 0..2_000 {
        let Some(op) = bytes.next() else { break };
        world.now += Duration::from_micros(bytes.or_zero().pow(2));
        match op % 16 {
            0..=6 => world.send(&mut bytes, op),
            7..=11 => world.ack(&mut bytes),
            12 => world.timeout(),
            13 => {
                if let Some(deadline) = world.recovery.next_timeout(MAX_ACK_DELAY) {
                    // At the end of time no timer is later than now: round trips of years get
                    // there.
                    if deadline >= Instant::from_nanos(LAST) {
                        break;
                    }
                    world.now = world.now.max(deadline);
                }
                world.timeout();
            }
            14 => world.drop_some(&mut bytes),
            _ => {
                let held = world.held_until();
                let longest = world.recovery.rtt().pto(MAX_ACK_DELAY) * 2;
                let over = held.is_none_or(|held| world.now >= held);
                if over || world.held_since.is_some_and(|s| world.now >= s + longest) {
                    world.already_exempted = if over {
                        world.resumed_at
                    } else {
                        world.held_since
                    };
                    world.held_since = Some(world.now);
                }
                world
                    .recovery
                    .on_resumed_after_gap(world.now, MAX_ACK_DELAY);
                world.resumed_at = Some(world.now);
            }
        }
        world.check_sums();
    }
}

impl World {
    fn send(&mut self, bytes: &mut Bytes<'_>, op: u64) {
        let choice = bytes.or_zero();
        if choice.is_multiple_of(13) {
            for _ in 0..=choice % 3 {
                self.skips.insert(self.next);
                self.next += 1;
            }
        }
        self.clock = self.now;
        let eliciting = !choice.is_multiple_of(5);
        let probe = eliciting && choice % 17 == 1;
        let size = 40 + 9 * choice as usize;
        let burst = if op == 6 { 40 } else { 1 };
        let (first, start, len) = (self.next, self.part, 1 + choice % 3);
        // Packets that carry a part each, which follow those before.
        let parts = choice % 8 > 4;
        let control = eliciting && !probe && !parts;
        let kind = SentKind {
            eliciting,
            path_probe: probe,
            control,
        };
        for at in 0..burst {
            let frames = if parts {
                vec![part(start + at * len, len)]
            } else {
                frames_of(self.next, choice % 4)
            };
            let in_a_run = parts && eliciting && !probe && choice.is_multiple_of(2);
            if !in_a_run {
                self.recovery
                    .on_sent(self.next..=self.next, self.now, size, kind, &frames);
            } else if at == 0 {
                let all = [part(start, burst * len)];
                self.recovery
                    .on_sent(first..=first + burst - 1, self.now, size, kind, &all);
            }
            let state = if eliciting {
                State::InFlight
            } else {
                State::Silent
            };
            let packet = Packet {
                state,
                sent_at: self.now,
                size,
                probe,
                control,
                frames,
            };
            self.packets.insert(self.next, packet);
            self.next += 1;
        }
        if parts {
            self.part += burst * len;
        }
    }

    fn ack(&mut self, bytes: &mut Bytes<'_>) {
        let choice = bytes.or_zero();
        let count = 1 + choice % 4;
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        // Mostly honest: from a little below the newest downwards, around skipped numbers.
        let mut end = self.next.saturating_sub(1 + bytes.or_zero() % 48);
        if choice >= 250 {
            end = self.next.saturating_add(choice - 250);
        }
        for _ in 0..count {
            if end < self.first {
                break;
            }
            let mut start = end.saturating_sub(bytes.or_zero() % 64);
            if choice % 32 == 31 {
                start = self.first.saturating_sub(choice);
            } else if choice < 240 {
                while self.skips.contains(&end) && end > self.first {
                    end -= 1;
                }
                start = start.min(end);
                if let Some(&skip) = self.skips.range(start..=end).next_back() {
                    start = (skip + 1).min(end);
                }
            }
            ranges.push(start..=end);
            match start.checked_sub(2 + bytes.or_zero() % 8) {
                Some(below) => end = below,
                None => break,
            }
        }
        let delays = AckDelays {
            reported: Duration::from_micros(bytes.or_zero() * 40),
            local: Duration::from_micros(choice % 16 * 20),
            max: MAX_ACK_DELAY,
        };
        self.apply(&ranges, delays);
        if choice % 8 == 7 {
            self.apply(&ranges, delays);
        }
    }

    fn apply(&mut self, ranges: &[RangeInclusive<u64>], delays: AckDelays) {
        let mut reports = Reports::default();
        let before = self.recovery.in_flight();
        let result = self
            .recovery
            .on_ack(self.now, delays, ranges.iter().cloned(), &mut reports);
        let bad = ranges.iter().find_map(|range| {
            let skipped = self.skips.range(range.clone()).next().copied();
            if *range.end() >= self.next {
                Some(*range.end())
            } else {
                skipped
            }
        });
        match result {
            Ok(summary) => {
                // Skips may be forgotten once far behind; the model remembers them all.
                if let Some(bad) = bad {
                    let newer = self.skips.range(bad..).count();
                    assert!(
                        bad < self.next && newer >= 64,
                        "{bad} was never sent: {ranges:?}"
                    );
                }
                self.check_ack(ranges, delays, &summary, &reports);
            }
            Err(ProtocolError::NeverSent(number)) => {
                assert!(bad.is_some(), "honest ack refused: {ranges:?}");
                assert!(number >= self.next || self.skips.contains(&number));
                assert!(reports.acked.is_empty() && reports.lost.is_empty());
                assert_eq!(before, self.recovery.in_flight(), "applied nothing");
            }
            Err(other) => panic!("unexpected {other}"),
        }
    }

    fn check_ack(
        &mut self,
        ranges: &[RangeInclusive<u64>],
        delays: AckDelays,
        summary: &AckSummary,
        reports: &Reports,
    ) {
        let reported: BTreeSet<u64> = reports.acked.iter().map(|(number, _)| *number).collect();
        assert_eq!(reported.len(), reports.acked.len(), "reported twice");
        for range in ranges {
            for (number, packet) in self.packets.range(range.clone()) {
                let must = match packet.state {
                    State::InFlight => true,
                    State::Lost { forget_at, .. } => {
                        self.now < forget_at && self.packets.len() < MAX_REMEMBERED
                    }
                    State::Silent | State::Acked | State::Abandoned => false,
                };
                assert!(!must || reported.contains(number), "{number} not reported");
            }
        }
        let (mut bytes, mut packets, mut spurious, mut eliciting) = (0, 0, 0, false);
        let (mut newest, mut largest_size) = (None, 0);
        for (number, frames) in &reports.acked {
            assert!(ranges.iter().any(|range| range.contains(number)));
            let packet = self.packets.get_mut(number).unwrap();
            assert_eq!(*frames, packet.frames);
            match packet.state {
                State::InFlight => {
                    bytes += packet.size as u64;
                    packets += 1;
                }
                State::Lost { dropped, .. } => {
                    spurious += u32::from(!dropped);
                }
                State::Silent => {}
                State::Acked => panic!("{number} acknowledged twice"),
                State::Abandoned => panic!("{number} was given up"),
            }
            if packet.state != State::Silent {
                eliciting = true;
                largest_size = largest_size.max(packet.size);
            }
            let dropped = matches!(packet.state, State::Lost { dropped: true, .. });
            newest = newest.max(Some((*number, packet.sent_at, dropped)));
            packet.state = State::Acked;
        }
        assert_eq!(
            (
                summary.newly_acked_bytes,
                summary.newly_acked_packets,
                summary.spurious
            ),
            (bytes, packets, spurious)
        );
        assert_eq!(
            summary.largest_newly_acked_sent_at,
            newest.map(|(_, sent_at, _)| sent_at)
        );
        assert_eq!(summary.largest_acked_size, largest_size);
        self.late |= spurious > 0;
        let Some((newest, sent_at, dropped)) = newest else {
            assert_eq!(*summary, AckSummary::default());
            assert!(reports.lost.is_empty());
            return;
        };
        let largest = ranges.iter().map(|range| *range.end()).max();
        self.largest_acked = self.largest_acked.max(largest);
        let measurable = eliciting
            && Some(newest) == largest
            && !dropped
            && self.resumed_at.is_none_or(|resumed| sent_at >= resumed);
        let sample = measurable.then(|| self.now.since(sent_at));
        let path = sample.and_then(|sample| sample.checked_sub(delays.reported + delays.local));
        assert_eq!(summary.path_sample, path);
        assert!(sample.is_none_or(|sample| self.recovery.rtt().latest() == sample));
        self.check_losses(&summary.lost, reports);
    }

    fn timeout(&mut self) {
        let due = self.recovery.next_timeout(MAX_ACK_DELAY);
        let mut reports = Reports::default();
        let action = self
            .recovery
            .on_timeout(self.now, MAX_ACK_DELAY, &mut reports);
        assert!(reports.acked.is_empty());
        match action {
            TimerAction::None => assert!(reports.lost.is_empty()),
            TimerAction::LossesDeclared(lost) => {
                assert!(due.is_some_and(|due| due <= self.now) && !reports.lost.is_empty());
                self.check_losses(&lost, &reports);
            }
            TimerAction::Probe { count } => {
                assert!(due.is_some_and(|due| due <= self.now));
                assert!((1..=2).contains(&count) && self.recovery.pto_count() > 0);
                self.check_given_up(&reports);
            }
        }
        let next = self.recovery.next_timeout(MAX_ACK_DELAY);
        assert!(
            next.is_none_or(|next| next > self.now),
            "a timer in the past"
        );
    }

    /// A probe declares nothing lost; but if there are too many packets with control, it gives up
    /// the oldest.
    fn check_given_up(&mut self, reports: &Reports) {
        let in_flight = |packet: &Packet| packet.control && packet.state == State::InFlight;
        let crowded = self.packets.values().filter(|p| in_flight(p)).count() as u64 >= MAX_CONTROL;
        let oldest = self
            .packets
            .iter_mut()
            .find(|(_, p)| crowded && in_flight(p));
        let reported = reports.lost.first().map(|(number, _)| number);
        assert_eq!(reported, oldest.as_ref().map(|(number, _)| *number));
        assert!(reports.lost.len() <= 1);
        if let Some((_, packet)) = oldest {
            packet.state = State::Abandoned;
        }
    }

    fn held_until(&self) -> Option<Instant> {
        let timeout = self.recovery.rtt().pto(MAX_ACK_DELAY);
        self.resumed_at.map(|resumed| resumed + timeout)
    }

    fn check_losses(&mut self, summary: &LossSummary, reports: &Reports) {
        let rtt = self.recovery.rtt();
        let round_trip = rtt.smoothed().max(rtt.latest());
        let least = round_trip + round_trip / 8;
        let most = (round_trip * 3).max(Duration::from_micros(200));
        let held = self.held_until().is_some_and(|until| self.now < until);
        let forget_at = self.now + rtt.pto(MAX_ACK_DELAY) * 2;
        let largest = self.largest_acked;
        let (mut bytes, mut packets, mut probe, mut largest_size) = (0, 0, None, 0);
        for (number, frames) in &reports.lost {
            let packet = self.packets.get_mut(number).unwrap();
            let already_exempted = self
                .already_exempted
                .is_some_and(|until| packet.sent_at < until);
            assert!(
                !held || already_exempted,
                "declared within one timeout of a pause"
            );
            assert_eq!(packet.state, State::InFlight);
            assert_eq!(*frames, packet.frames);
            let overtaken = largest.unwrap().checked_sub(*number).unwrap();
            let age = self.now.since(packet.sent_at);
            assert!(overtaken > 0 && (overtaken >= MIN_PACKET_THRESHOLD || age >= least));
            packet.state = State::Lost {
                forget_at,
                dropped: packet.probe,
            };
            if packet.probe {
                probe = Some(probe.map_or(packet.size, |size: usize| size.min(packet.size)));
            } else {
                bytes += packet.size as u64;
                packets += 1;
                largest_size = largest_size.max(packet.size);
            }
        }
        assert_eq!((summary.bytes, summary.packets), (bytes, packets));
        assert_eq!(summary.largest_size, largest_size);
        assert_eq!(summary.mtu_probe_lost, probe);
        let Some(largest) = largest else { return };
        for (number, packet) in self.packets.range(..largest) {
            // Where more overtook a packet that was not lost, time alone decides.
            let by_packets = !self.late && largest - number >= MAX_PACKET_THRESHOLD;
            let overdue = by_packets || self.now.since(packet.sent_at) >= most;
            let already_exempted = self
                .already_exempted
                .is_some_and(|until| packet.sent_at < until);
            assert!(
                (held && !already_exempted) || !overdue || packet.state != State::InFlight,
                "{number} is overdue"
            );
        }
    }

    fn drop_some(&mut self, bytes: &mut Bytes<'_>) {
        let mut reports = Reports::default();
        let choice = bytes.or_zero() as usize;
        let size = 9 * choice;
        let all = choice < 16;
        if all {
            self.recovery.drop_all(&mut reports);
        } else {
            self.recovery.drop_larger_than(size, &mut reports);
        }
        let dropped: Vec<u64> = self
            .packets
            .iter()
            .filter(|(_, packet)| packet.state == State::InFlight && (all || packet.size > size))
            .map(|(number, _)| *number)
            .collect();
        let reported: Vec<u64> = reports.lost.iter().map(|(number, _)| *number).collect();
        assert_eq!(reported, dropped);
        // Packets that the path refused are remembered for two timeouts after the last call with a
        // clock.
        let forget_at = self.clock + self.recovery.rtt().pto(Duration::ZERO) * 2;
        for number in dropped {
            let packet = self.packets.get_mut(&number).unwrap();
            packet.state = State::Lost {
                forget_at,
                dropped: true,
            };
        }
    }

    fn check_sums(&self) {
        let in_flight = self
            .packets
            .values()
            .filter(|packet| packet.state == State::InFlight);
        let bytes: u64 = in_flight.clone().map(|packet| packet.size as u64).sum();
        assert_eq!(self.recovery.in_flight(), bytes);
        let control = in_flight.clone().filter(|packet| packet.control).count();
        assert_eq!(self.recovery.control_in_flight(), control as u64);
        assert_eq!(
            self.recovery.has_eliciting_in_flight(),
            in_flight.count() > 0
        );
        assert_eq!(
            self.recovery.next_timeout(MAX_ACK_DELAY).is_some(),
            bytes > 0,
            "a timer runs exactly while something is in flight"
        );
    }
}
