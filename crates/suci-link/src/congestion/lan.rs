//! Delay-based control for the machine room, after Swift (Kumar et al., SIGCOMM 2020).
//!
//! The signal is the queueing delay: the time of packets on the path beyond the least ever measured
//! (Swift section 3.1). Swift's hosts stamp in hardware. Here both ends stamp in the kernel and
//! subtract the time that a packet waited for its process, and the *least* delay of a round trip
//! counts, so that a process that was not scheduled does not look like a queue.
//!
//! Swift's target is an end-to-end delay that its operator knows. Here it is relative to the least
//! round trip, and milliseconds rather than microseconds ([`TARGET`]): virtual machines, shared
//! cores and segmentation trains make delays of hundreds of microseconds that mean nothing.
//!
//! Two additions, which a network of Swift flows alone does not need:
//!
//! * **Draining.** A flow that begins beside others mistakes their queue for part of the path.
//!   Therefore each flow lets its own packets drain for a moment every second ([`DRAIN_EVERY`];
//!   LEDBAT++ does likewise), which shows the true round trip to all of them.
//! * **Competition.** A flow that fills the buffer without regard to delay (TCP) would starve this
//!   one. When the delay stays above the target although the window was cut again and again, CUBIC
//!   decides instead until a drain finds the queue gone (as Copa's mode switch, Arun and
//!   Balakrishnan, NSDI 2018, section 4). The threshold uses the highest rate that the link lately
//!   showed: a starved flow must not use its own rate.
//!
//! One reaction is weaker: Swift halves its window at each loss (its Algorithm 1), since its
//! network loses packets only where a queue is full. Other networks lose a packet in a hundred at
//! random, and a window that shrinks for each keeps almost nothing in flight on a fast path. Here a
//! loss is answered if
//!
//! * more was lost than BBR version 3 tolerates ([`Losses`]). That detects a buffer too small to
//!   cause delay: a window that grows into such a buffer loses its growth, an eighth;
//! * or there was a queue: a quarter of the target ([`NEAR`]). Nearer to the target the window
//!   grows so little that an overflow would stay below the threshold. But then the window stays
//!   above the product of rate and base delay (as BBR's short-term bound stays above the delivered
//!   rate), since the queue may not be the cause of the loss.
//!
//! In competition CUBIC answers each loss.

mod competitive;
mod rates;

use super::losses::Losses;
use super::{AckSample, Cause, CongestionEvent, Controller, Cubic, initial_window, pace};
use crate::recovery::Rtt;
use crate::time::{Duration, Instant};
use competitive::CompetitiveMode;
use rates::Rates;

/// Queueing delay that is always allowed (Swift section 3.5: the base target).
const TARGET: f64 = 1.0e-3;
/// Further queueing delay allowed to a flow with a small window, so that the smaller of two flows
/// grows and shares become even (Swift section 3.5: flow-based scaling, with its range of windows).
const SCALING: f64 = 1.5e-3;
const SCALING_FROM: f64 = 4.0;
const SCALING_TO: f64 = 4_096.0;
/// Packets that may wait on any link: on a slow one a single packet takes a millisecond. They may
/// wait for at most [`TARGET_MOST`], since a starved flow must not mistake its own rate for the
/// link's.
const TARGET_PACKETS: f64 = 2.0;
const TARGET_MOST: f64 = 7.0e-3;
/// Part of the excess by which the window shrinks, and the most that it shrinks at once (Swift
/// section 3.2: beta and max_mdf).
const BETA: f64 = 0.8;
const MAX_DECREASE: f64 = 0.5;
/// Part of the window left after a congestion mark (RFC 8511) and after a loss (as CUBIC).
const AFTER_MARK: f64 = 0.8;
const AFTER_LOSS: f64 = 0.7;
/// Part of the target from which on a queue may be the cause of even a few losses.
const NEAR: f64 = 0.25;
/// Without any queue the window grows by this part in a round, beside the one packet: the link has
/// become faster, or slow start ended too early. The part falls as the delay nears the target.
const GROWTH: f64 = 1.0 / 8.0;
/// Samples that make a round's least delay trustworthy enough to end slow start: a single packet,
/// or two of one train, may be late without a queue.
const SAMPLES: u32 = 3;
/// Time between drains of our own packets, and the shortest time if another flow seems to drain.
const DRAIN_EVERY: Duration = Duration::from_secs(1);
const DRAIN_AGAIN: Duration = Duration::from_millis(300);
/// The same in round trips, so that draining costs a long path at most a hundredth of its
/// throughput.
const DRAIN_ROUNDS: u32 = 100;
/// Part of the window that stays while draining: less than the path holds, unless the queue is
/// three times as long as the path. The acknowledgements of this part measure the delay.
const DRAIN_TO: f64 = 0.25;
/// Part of the target left after a loss that it did not prevent: the buffer holds less. It doubles
/// back each [`DRAIN_EVERY`], and is never below [`LEAST_PART`] of it.
const BELOW_LOSS: f64 = 0.8;
const LEAST_PART: f64 = 0.2;
/// Cuts in a row after which the delay is still far above the target: another flow fills the queue.
/// A queue of our own shrinks by up to half with each.
const FUTILE_CUTS: u32 = 8;
const FAR: f64 = 2.0;
/// In competition, the time between two probes, which test whether the queue is gone, and the
/// shortest such time after a sign that it is.
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBE_AGAIN: Duration = Duration::from_secs(2);
/// A queue that falls to this part from one round to the next is such a sign: another `Lan` flow
/// may be probing.
const FALL: f64 = 0.8;
/// Failed probes after which the least round trip is replaced by the least seen since: the path
/// itself became longer.
const MAX_FAILED_PROBES: u32 = 5;
/// Bounds of the window: two packets (RFC 9002 section 7.2), and 100 Gbit/s for five seconds.
const MIN_PACKETS: f64 = 2.0;
const MAX_WINDOW: f64 = (1_u64 << 36) as f64;

/// Delay-based control.
#[derive(Debug)]
pub struct Lan {
    /// Bytes of UDP payload in a full packet.
    mtu: f64,
    window: f64,
    /// Slow start: the window doubles each round.
    slow_start: bool,
    /// Least time on the path, in seconds.
    base: Option<f64>,
    round: LanRound,
    /// Least time on the path in the round before.
    least_before: Option<f64>,
    losses: Losses,
    /// Queueing delay of the last round, in seconds.
    last_queue: Option<f64>,
    rates: Rates,
    /// The part of the whole target to aim at. A buffer that was seen to hold less makes a higher
    /// target useless.
    target_part: f64,
    /// Cuts since the delay was last near the target, and the window when it was last below.
    futile: u32,
    window_within_target: f64,
    phase: LanPhase,
    /// When our own packets were last drained, or the connection began to measure.
    drained_at: Option<Instant>,
    /// The whole window before the last loss and those that it overlaps, in case they prove
    /// spurious.
    before_loss: Option<f64>,
    /// Losses and marks of packets sent before this belong to an event already answered.
    answered: Option<Instant>,
}

/// Packets sent from `began` until the first of them was acknowledged are one round trip.
#[derive(Debug, Default)]
struct LanRound {
    began: Option<Instant>,
    /// Least time on the path that a packet of this round spent.
    least: Option<f64>,
    samples: u32,
    /// The window was in use.
    used: bool,
    /// The window was cut: packets of this round still met the queue from before.
    settling: bool,
}

/// The phase of the controller.
#[derive(Debug)]
enum LanPhase {
    /// Delay decides.
    ByDelay,
    /// Our own packets drain; then `window` applies again.
    Draining { window: f64, rounds: u32 },
    /// Another flow fills the queue: CUBIC decides.
    CompetitiveMode(Box<CompetitiveMode>),
}

impl Lan {
    /// Returns the initial state for packets of `mtu` bytes of UDP payload.
    #[must_use]
    pub fn new(mtu: usize) -> Self {
        let window = initial_window(mtu);
        Self {
            mtu: mtu.max(1) as f64,
            window,
            slow_start: true,
            base: None,
            round: LanRound::default(),
            least_before: None,
            losses: Losses::default(),
            rates: Rates::default(),
            target_part: 1.0,
            last_queue: None,
            futile: 0,
            window_within_target: window,
            phase: LanPhase::ByDelay,
            drained_at: None,
            before_loss: None,
            answered: None,
        }
    }

    fn set_window(&mut self, window: f64) {
        self.window = window.min(MAX_WINDOW).max(MIN_PACKETS * self.mtu);
    }

    /// Returns the window; while packets drain, the window that applies again afterwards.
    fn window_after_drain(&mut self) -> &mut f64 {
        match &mut self.phase {
            LanPhase::Draining { window, .. } => window,
            _ => &mut self.window,
        }
    }

    /// Returns the queueing delay to aim at, in seconds.
    fn target(&self) -> f64 {
        self.target_of(self.target_part, self.rates.recent())
    }

    /// Returns the target for this part of the whole (Swift section 3.5), on a link of this rate,
    /// in seconds.
    fn target_of(&self, part: f64, rate: f64) -> f64 {
        let packets = (self.window / self.mtu).clamp(SCALING_FROM, SCALING_TO);
        let alpha = SCALING / (1.0 / SCALING_FROM.sqrt() - 1.0 / SCALING_TO.sqrt());
        let scaled = alpha * (1.0 / packets.sqrt() - 1.0 / SCALING_TO.sqrt());
        let few = if rate > 0.0 {
            (TARGET_PACKETS * self.mtu / rate).min(TARGET_MOST)
        } else {
            0.0
        };
        (part * (TARGET + scaled)).max(few)
    }

    /// Returns the least window after a cut: the highest delivery rate times the base delay and
    /// half the target. Less than rate times base delay in flight leaves the path idle.
    fn floor(&self, base: f64, target: f64) -> f64 {
        self.rates.recent() * (base + target / 2.0)
    }

    /// Cuts the window by the excess delay as in Swift section 3.2: in proportion, and bounded.
    fn cut(&mut self, base: f64, queue: f64, target: f64) {
        let part = (BETA * (queue - target) / (base + queue)).min(MAX_DECREASE);
        let floor = self.floor(base, target).min(self.window);
        // A starved flow must not mistake its own rate for the link's.
        let far = FAR * self.target_of(self.target_part, self.rates.of_link());
        if queue <= far {
            self.futile = 0;
        } else {
            self.futile = self.futile.saturating_add(1);
        }
        self.set_window((self.window * (1.0 - part)).max(floor));
        self.slow_start = false;
        self.round.settling = true;
    }

    /// Grows the window after a round in use whose delay was within the target (Swift section 3.2:
    /// one packet more).
    fn grow(&mut self, queue: f64, target: f64) {
        self.futile = 0;
        self.window_within_target = self.window;
        let room = (1.0 - queue / target).max(0.0);
        self.set_window(self.window + self.mtu + self.window * GROWTH * room);
    }

    /// Ends a round. `used`: its packets filled the window. `least`: the time that the fastest of
    /// them spent on the path, in seconds.
    fn end_round(&mut self, now: Instant, used: bool, least: Option<f64>, settling: bool) {
        self.rates.next_round();
        if let LanPhase::Draining { window, rounds } = &mut self.phase {
            *rounds -= 1;
            if *rounds == 0 {
                let window = *window;
                self.phase = LanPhase::ByDelay;
                self.set_window(window);
                self.round.settling = true;
            }
            return;
        }
        let (Some(base), Some(least)) = (self.base, least) else {
            return;
        };
        if !used || settling {
            return;
        }
        let (queue, target) = ((least - base).max(0.0), self.target());
        if queue > target {
            self.cut(base, queue, target);
            if self.futile >= FUTILE_CUTS {
                self.enter_competitive(now, least);
            }
        } else if !self.slow_start {
            self.grow(queue, target);
            self.drain_if_due(now, base, queue);
        }
        self.last_queue = Some(queue);
    }

    fn drain_if_due(&mut self, now: Instant, base: f64, queue: f64) {
        let fell = self.last_queue.is_some_and(|last| queue < FALL * last);
        let every = if fell { DRAIN_AGAIN } else { DRAIN_EVERY };
        let rounds = if fell { DRAIN_ROUNDS / 4 } else { DRAIN_ROUNDS };
        let every = (base * f64::from(rounds)).max(every.as_secs_f64());
        let last = *self.drained_at.get_or_insert(now);
        if now.since(last).as_secs_f64() < every {
            return;
        }
        self.drained_at = Some(now);
        self.target_part = (2.0 * self.target_part).min(1.0);
        self.phase = LanPhase::Draining {
            window: self.window,
            rounds: 2,
        };
        self.set_window(self.window * DRAIN_TO);
    }

    fn enter_competitive(&mut self, now: Instant, found: f64) {
        let cubic = Cubic::with_window(self.mtu as usize, self.window_within_target);
        self.phase = LanPhase::CompetitiveMode(Box::new(CompetitiveMode::new(now, cubic, found)));
    }

    /// Ends a round while CUBIC decides: begins or ends a probe, and leaves competition if the
    /// probe found the queue gone.
    fn end_competitive_round(&mut self, now: Instant, least: Option<f64>) {
        self.rates.next_round();
        // Aim at the whole target, not `target_part` of it: other `Lan` flows, which lost nothing,
        // keep a queue up to the whole.
        let (target, base) = (self.target_of(1.0, self.rates.recent()), self.base);
        let LanPhase::CompetitiveMode(competitive) = &mut self.phase else {
            return;
        };
        let (Some(least), Some(base)) = (least, base) else {
            return;
        };
        if competitive.probing == 0 {
            let before = competitive.last.replace(least).unwrap_or(least);
            let fell = least - base < FALL * (before - base);
            competitive.probe_if_due(now, if fell { PROBE_AGAIN } else { PROBE_EVERY });
            return;
        }
        competitive.probing -= 1;
        if least - base <= target {
            let window = (self.rates.recent() * (base + target)).min(self.window);
            self.phase = LanPhase::ByDelay;
            self.futile = 0;
            self.drained_at = Some(now);
            self.set_window(window);
        } else if competitive.probing == 0 {
            competitive.last = None;
            competitive.failed += 1;
            if competitive.failed >= MAX_FAILED_PROBES {
                self.base = competitive.least.take();
                competitive.failed = 0;
            }
        }
    }

    fn measure(&mut self, now: Instant, sample: &AckSample<'_>) {
        if let Some(rate) = sample.rate {
            self.rates.add(now, rate.per_second() as f64);
        }
        let Some(path) = sample.path.map(|path| path.as_secs_f64()) else {
            return;
        };
        let least_of = |least: Option<f64>| Some(least.map_or(path, |least| least.min(path)));
        self.base = least_of(self.base);
        self.round.least = least_of(self.round.least);
        self.round.samples = self.round.samples.saturating_add(1);
        if let LanPhase::CompetitiveMode(competitive) = &mut self.phase {
            competitive.least = least_of(competitive.least);
        }
    }

    /// Doubles the window in each round (slow start), until the delay is above the target.
    fn grow_in_slow_start(&mut self, bytes: u64) {
        let (Some(base), Some(least)) = (self.base, self.round.least) else {
            return;
        };
        let (queue, target) = (least - base, self.target());
        if self.round.samples >= SAMPLES && queue > target {
            self.cut(base, queue, target);
        } else {
            self.set_window(self.window + bytes as f64);
        }
    }

    /// Answers losses, unless they are few and no queue explains them.
    fn on_loss(&mut self, now: Instant, event: &CongestionEvent) {
        let lost = event.bytes_lost as f64;
        if !event.overlaps {
            self.before_loss = None;
        }
        self.losses.on_lost(lost);
        let many = self.losses.exceed(event.in_flight as f64 + lost, self.mtu);
        let mut floor = 0.0;
        if let Some(base) = self.base {
            let least = self.round.least.or(self.least_before);
            let queue = least.map_or(0.0, |least| least - base);
            let target = self.target();
            if !many && queue < NEAR * target {
                return;
            }
            // A buffer overflowed at this delay: a higher target is useless.
            let held = BELOW_LOSS * queue / target;
            self.target_part = (self.target_part * held.clamp(LEAST_PART, 1.0)).max(LEAST_PART);
            if !many {
                floor = self.floor(base, self.target());
            }
        }
        let whole = *self.window_after_drain();
        self.before_loss.get_or_insert(whole);
        self.shrink(now, AFTER_LOSS, floor);
    }

    /// Answers loss or mark, once for all packets in flight now: shrinks the window to its part
    /// `left`, but not below `floor`.
    fn shrink(&mut self, now: Instant, left: f64, floor: f64) {
        let whole = self.window_after_drain();
        *whole = whole.min((*whole * left).max(floor));
        let whole = *whole;
        self.set_window(self.window.min(whole));
        self.answered = Some(now);
        self.losses = Losses::default();
        self.slow_start = false;
        self.round.settling = true;
    }
}

impl Controller for Lan {
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        if let LanPhase::CompetitiveMode(competitive) = &mut self.phase {
            competitive.cubic.on_sent(now, bytes, in_flight);
        }
    }

    fn on_ack(&mut self, now: Instant, sample: &AckSample<'_>) {
        let used = sample.is_in_use(self.window);
        if self
            .round
            .began
            .is_none_or(|began| sample.largest_sent_at >= began)
        {
            let ended = core::mem::take(&mut self.round);
            self.round.began = Some(now);
            self.least_before = ended.least;
            self.losses.end_round(self.mtu);
            if let LanPhase::CompetitiveMode(_) = self.phase {
                self.end_competitive_round(now, ended.least);
            } else {
                self.end_round(now, ended.used, ended.least, ended.settling);
            }
        }
        self.measure(now, sample);
        self.losses.on_acked(sample.bytes as f64);
        self.round.used |= used;
        match &mut self.phase {
            LanPhase::CompetitiveMode(competitive) => {
                if competitive.probing == 0 {
                    if self.round.samples >= SAMPLES {
                        competitive.judge_slow_start(self.round.least);
                    }
                    competitive.cubic.on_ack(now, sample);
                }
                let probing = competitive.probing > 0;
                let window = if probing {
                    0.0
                } else {
                    competitive.cubic.window() as f64
                };
                self.set_window(window);
            }
            LanPhase::ByDelay if self.slow_start && used && !self.round.settling => {
                self.grow_in_slow_start(sample.bytes);
            }
            _ => {}
        }
    }

    fn on_congestion(&mut self, now: Instant, event: &CongestionEvent) {
        if let LanPhase::CompetitiveMode(competitive) = &mut self.phase {
            competitive.cubic.on_congestion(now, event);
            // Other flows lost packets too: other `Lan` flows probe at the same time.
            competitive.probe_if_due(now, PROBE_AGAIN);
            // The other decisions of CUBIC apply with the next acknowledgement. After persistent
            // congestion none may come.
            if event.persistent {
                self.set_window(0.0);
            }
            return;
        }
        // Losses and marks of one window count once.
        if self
            .answered
            .is_none_or(|at| event.largest_lost_sent_at > at)
        {
            match event.cause {
                Cause::Loss => self.on_loss(now, event),
                Cause::Ecn => {
                    self.before_loss = None;
                    self.shrink(now, AFTER_MARK, 0.0);
                }
            }
        }
        if event.persistent {
            *self.window_after_drain() = 0.0;
            self.set_window(0.0);
        }
    }

    fn on_spurious(&mut self, now: Instant) {
        if let LanPhase::CompetitiveMode(competitive) = &mut self.phase {
            competitive.cubic.on_spurious(now);
            return;
        }
        self.losses = Losses::default();
        if let Some(window) = self.before_loss.take() {
            let whole = self.window_after_drain();
            *whole = whole.max(window);
            self.answered = None;
        }
    }

    fn restart(&mut self, mtu: usize, most: u64) {
        *self = Self::new(mtu);
        self.set_window(self.window.min(most as f64));
        self.window_within_target = self.window;
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.mtu = mtu.max(1) as f64;
        if let LanPhase::CompetitiveMode(competitive) = &mut self.phase {
            competitive.cubic.on_mtu(mtu);
        }
        self.set_window(self.window);
    }

    fn window(&self) -> u64 {
        (self.window + 0.5) as u64
    }

    fn pacing_rate(&self, rtt: &Rtt) -> Option<u64> {
        if let LanPhase::CompetitiveMode(competitive) = &self.phase
            && competitive.probing == 0
        {
            return competitive.cubic.pacing_rate(rtt);
        }
        // RFC 9002 section 7.7.
        let percent = if self.slow_start { 200 } else { 125 };
        pace(self.window(), rtt, percent)
    }

    fn name(&self) -> &'static str {
        "lan"
    }
}
