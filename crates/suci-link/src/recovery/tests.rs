mod model;

use super::loss::{PersistentCongestion, Reordering};
use super::pto::Pto;
use super::sent::{PacketState, SentPackets};
use super::*;
use model::Sample;
use proptest::prelude::*;

const INITIAL: Duration = Duration::from_millis(100);
const DELAY: Duration = Duration::from_millis(5);
const DATA: SentKind = SentKind {
    eliciting: true,
    path_probe: false,
    control: false,
};
const ACK_ONLY: SentKind = SentKind {
    eliciting: false,
    path_probe: false,
    control: false,
};
const CONTROL: SentKind = SentKind {
    eliciting: true,
    path_probe: false,
    control: true,
};
const PROBE: SentKind = SentKind {
    eliciting: true,
    path_probe: true,
    control: false,
};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + ms(millis)
}

/// Returns waits of which only the peer has one.
fn reported(waited: Duration) -> AckDelays {
    AckDelays {
        local: Duration::ZERO,
        reported: waited,
        max: DELAY,
    }
}

/// Remembers what was reported, in order.
#[derive(Default)]
struct Log {
    acked: Vec<u64>,
    lost: Vec<u64>,
    frames: Vec<Sample>,
}

impl Sink<Sample> for Log {
    fn acked(&mut self, numbers: RangeInclusive<PacketNumber>, frames: &[Sample]) {
        self.acked.extend(numbers);
        self.frames.extend_from_slice(frames);
    }
    fn lost(&mut self, numbers: RangeInclusive<PacketNumber>, frames: &[Sample]) {
        self.lost.extend(numbers);
        self.frames.extend_from_slice(frames);
    }
}

/// Sample that probes repeat.
fn content(number: u64) -> Sample {
    let matters = true;
    Sample::Other { number, matters }
}

/// A recovery with its log, and shorthands.
struct Bench {
    recovery: Recovery<Sample>,
    log: Log,
}

impl Bench {
    fn new() -> Self {
        Self::starting_at(0)
    }

    fn starting_at(first: u64) -> Self {
        Self {
            recovery: Recovery::new(first, INITIAL),
            log: Log::default(),
        }
    }

    /// One round trip measured with packet 0: 100 ms, at time 100 ms.
    fn measured() -> Self {
        let mut bench = Self::new();
        bench.send(0, 0);
        let summary = bench.ack(100, &[0..=0]);
        assert_eq!(summary.path_sample, Some(ms(100)));
        bench.log = Log::default();
        bench
    }

    fn send(&mut self, number: u64, millis: u64) {
        self.send_kind(number, millis, 1_000, DATA);
    }

    fn send_kind(&mut self, number: u64, millis: u64, size: usize, kind: SentKind) {
        let frames = [content(number)];
        self.recovery
            .on_sent(number..=number, at(millis), size, kind, &frames);
    }

    fn try_ack(
        &mut self,
        millis: u64,
        ranges: &[RangeInclusive<u64>],
    ) -> Result<AckSummary, ProtocolError> {
        let ranges = ranges.iter().cloned();
        self.recovery
            .on_ack(at(millis), reported(Duration::ZERO), ranges, &mut self.log)
    }

    fn ack(&mut self, millis: u64, ranges: &[RangeInclusive<u64>]) -> AckSummary {
        self.try_ack(millis, ranges).unwrap()
    }

    fn timeout(&mut self, millis: u64) -> TimerAction {
        self.recovery.on_timeout(at(millis), DELAY, &mut self.log)
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.recovery.next_timeout(DELAY)
    }
}

/// Returns what is sent at `millis`, before anything was delivered.
fn sent(millis: u64, size: u32, kind: SentKind) -> Sent {
    let rate = RateSnapshot {
        delivered: 0,
        delivered_at: at(0),
        first_sent_at: at(0),
        app_limited_until: 0,
    };
    Sent {
        eliciting: kind.eliciting,
        path_probe: kind.path_probe,
        control: kind.control,
        size,
        sent_at: at(millis),
        rate,
    }
}

/// Returns the first unresolved position in `from..=through`.
fn first_open(sent_packets: &SentPackets<Sample>, from: u64, through: u64) -> Option<u64> {
    let sent_range = sent_packets.next_open(from, through)?;
    Some(sent_range.positions.start)
}

/// The packet at `position`, whose fate is open.
fn packet(sent_packets: &SentPackets<Sample>, position: u64) -> SentRange {
    let packet = sent_packets.next_open(position, position).unwrap();
    assert_eq!(packet.positions, position..position + 1);
    packet
}

mod acks;
mod losses;
mod parts;
mod probes;

proptest! {
    /// Any sequence of sends, acks, timeouts, drops and pauses agrees with the naive model.
    #[test]
    fn agrees_with_the_naive_model(data in prop::collection::vec(any::<u8>(), 0..900)) {
        model::run(&data);
    }
}
