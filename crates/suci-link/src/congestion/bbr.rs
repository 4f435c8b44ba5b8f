//! Model-based control for long paths, after BBR version 3 (draft-ietf-ccwg-bbr).
//!
//! It measures the path's bandwidth and its round trip without a queue, and keeps about their
//! product in flight. Section names in comments are the draft's.
//!
//! A round is congested if it was marked or lost more than [`Losses`] tolerate, and either met a
//! queue or gained no bandwidth. In the draft loss alone suffices. So it becomes very slow on any
//! path with more random loss: each probe ends before it begins, and each round cuts the bandwidth
//! to the delivery rate of the round before, without end. Three more things differ:
//!
//! * "Refill" is always followed by a round of "Up". A loss of packets sent before, without a
//!   queue, does not end that.
//! * Without a queue, congestion cuts the bandwidth once between probes. If the loss goes on after
//!   that, the rate was not its cause.
//! * The window never falls below the product plus the allowance for aggregated acknowledgements.
//!
//! Left out or simplified: losses are judged once a round, not packet by packet; the bound in the
//! short term is one of bandwidth alone (`bw_lo`); the wait between probes varies with the bytes
//! delivered instead of a random number, so that simulations repeat and flows still do not probe in
//! step.
//!
//! Added: where the path itself delays packets now and then (radio, shared hosts), the least round
//! trip is far below most round trips, and a window computed from it alone shrinks from cycle to
//! cycle. "ProbeRTT" therefore measures the mean beside the least, and the window uses the larger.
//! A queue of our own is in neither, since only packets sent while little is in flight count.

use super::losses::Losses;
use super::{AckSample, Cause, CongestionEvent, Controller, initial_window, pace};
use crate::limits::MAX_DATAGRAM;
use crate::recent_max::RecentMax;
use crate::recovery::Rtt;
use crate::time::{Duration, Instant};

/// Part of the bandwidth left after congestion (BBR.Beta), and the part of a bound that is used
/// while not probing (BBR.Headroom).
const BETA: f64 = 0.7;
const HEADROOM: f64 = 0.85;
/// Pacing and window in multiples of the measured values ("Startup", "Drain", "ProbeBW").
const STARTUP_PACING: f64 = 2.77;
const DRAIN_PACING: f64 = 0.5;
const UP_PACING: f64 = 1.25;
const DOWN_PACING: f64 = 0.9;
const WINDOW_GAIN: f64 = 2.0;
const UP_WINDOW_GAIN: f64 = 2.25;
/// Pacing stays at this part of the model, so that no queue grows (BBRPacingMarginPercent).
const MARGIN: f64 = 0.99;
/// "Startup" ends when the bandwidth did not grow by a quarter in three rounds.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Least time between bandwidth probes, and its variation in milliseconds.
const PROBE_BW: Duration = Duration::from_secs(1);
const PROBE_BW_SPREAD: u64 = 500;
/// Least rounds between probes, if they pass before that time: as often as Reno fills a window that
/// it halved ("Coexistence with Reno").
const PROBE_BW_ROUNDS: f64 = 63.0;
/// A probe upwards goes on while the bandwidth grows by this factor. It raises its target by
/// [`UP_PACING`]; a flow that has half of the link and takes from another flow gains a ninth.
const UP_GROWTH: f64 = 1.125;
/// Rounds of probing upwards without such growth, at most.
const UP_ROUNDS: u32 = 8;
/// Time without a lower round trip after which the window is halved to look for one ("ProbeRTT"),
/// and the time for which it is halved.
const PROBE_RTT_EVERY: Duration = Duration::from_secs(5);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
const PROBE_RTT_GAIN: f64 = 0.5;
/// Rounds over which aggregated acknowledgements are remembered, in two halves.
const AGGREGATION_ROUNDS: u64 = 5;
/// The window holds at least what leaves in this time, in seconds. On shorter paths hosts take
/// longer than the path: an acknowledgement waits for a process, and a process for its turn.
const LEAST_TIME: f64 = 750e-6;
/// Bounds of the window: four packets (BBRMinPipeCwnd), and 100 Gbit/s for five seconds.
const MIN_PACKETS: f64 = 4.0;
const MAX_WINDOW: f64 = (1_u64 << 36) as f64;

/// Model-based control.
#[derive(Clone, Debug)]
pub struct Bbr {
    mtu: f64,
    window: f64,
    state: BbrState,
    round: BbrRound,
    rounds: u64,
    /// Highest bandwidth in bytes per second, by probing cycles.
    bandwidth: RecentMax<f64>,
    /// Least time on the path in seconds, and when it was last seen or probed.
    min_rtt: Option<f64>,
    min_rtt_at: Instant,
    /// Mean time on the path while little was in flight, in seconds; 0 until it was measured.
    usual_rtt: f64,
    bounds: Bounds,
    /// The bounds before the last reaction to loss and those that it overlaps, in case they prove
    /// spurious.
    before: Option<Bounds>,
    /// Highest bandwidth up to the last round.
    best: f64,
    /// Bandwidth that must be exceeded for "Startup" to go on, and rounds in which it was not.
    full_bandwidth: f64,
    full_rounds: u32,
    /// The pipe was filled once.
    filled: bool,
    /// The probe upwards has more in flight than fills the pipe, and waits for acknowledgements.
    up_filled: bool,
    /// Bandwidth that the probe upwards must exceed by [`UP_GROWTH`] to go on.
    up_from: f64,
    /// When the current cycle began to wait for its probe, in which round, and how long it waits.
    cycle_began: Instant,
    cycle_round: u64,
    cycle_wait: Duration,
    losses: Losses,
    ack_aggregation: AckAggregation,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum BbrState {
    Startup,
    Drain,
    /// "ProbeBW": below the path's bandwidth, then at it, then, after a round at it, above it.
    Down,
    Cruise,
    Refill,
    /// At `since` the probe upwards began, saw the bandwidth grow, or filled the pipe. `rounds` is
    /// the number of rounds since the first two.
    Up {
        since: Instant,
        rounds: u32,
    },
    /// `measured` is set once little is in flight.
    ProbeRtt {
        measured: Option<RttMeasurement>,
    },
}

/// Round trips while little is in flight, which measure the path without a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RttMeasurement {
    since: Instant,
    /// Time on the path, in seconds.
    least: f64,
    sum: f64,
    samples: f64,
}

/// Bounds that loss set on the model.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// With more than this in flight, too much was lost (inflight_hi).
    in_flight: f64,
    /// Highest bandwidth while not probing (bw_lo). Infinite until congestion is met after the last
    /// probe.
    bandwidth: f64,
}

const UNBOUNDED: Bounds = Bounds {
    in_flight: f64::INFINITY,
    bandwidth: f64::INFINITY,
};

/// Packets sent from `began` until the first of them was acknowledged are one round trip.
#[derive(Clone, Debug, Default)]
struct BbrRound {
    began: Option<Instant>,
    delivered: f64,
    lost: f64,
    /// Maximum of the data in flight when a packet was lost.
    lost_in_flight: f64,
    marked: bool,
    /// Highest bandwidth measured.
    bandwidth: f64,
    /// Least time on the path, in seconds.
    least: Option<f64>,
    app_limited: bool,
}

/// Bytes acknowledged at once beyond those that the bandwidth explains ("ACK aggregation").
#[derive(Clone, Debug, Default)]
struct AckAggregation {
    /// When the current measurement began, and bytes acknowledged since.
    began: Option<Instant>,
    bytes: f64,
    extra: RecentMax<f64>,
}

impl AckAggregation {
    fn on_ack(&mut self, now: Instant, bytes: f64, bandwidth: f64) {
        let began = *self.began.get_or_insert(now);
        let expected = bandwidth * now.since(began).as_secs_f64();
        if self.bytes <= expected {
            self.began = Some(now);
            self.bytes = bytes;
        } else {
            self.bytes += bytes;
        }
        self.extra.note((self.bytes - expected).max(0.0));
    }
}

impl Bbr {
    /// Returns the initial state for packets of `mtu` bytes of UDP payload.
    #[must_use]
    pub fn new(mtu: usize) -> Self {
        Self {
            mtu: mtu.max(1) as f64,
            window: initial_window(mtu),
            state: BbrState::Startup,
            round: BbrRound::default(),
            rounds: 0,
            bandwidth: RecentMax::default(),
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            usual_rtt: 0.0,
            bounds: UNBOUNDED,
            before: None,
            best: 0.0,
            full_bandwidth: 0.0,
            full_rounds: 0,
            filled: false,
            up_filled: false,
            up_from: 0.0,
            cycle_began: Instant::ZERO,
            cycle_round: 0,
            cycle_wait: PROBE_BW,
            losses: Losses::default(),
            ack_aggregation: AckAggregation::default(),
        }
    }

    fn set_window(&mut self, window: f64) {
        self.window = window.min(MAX_WINDOW).max(MIN_PACKETS * self.mtu);
    }

    fn max_bandwidth(&self) -> f64 {
        self.bandwidth.get()
    }

    /// Returns the path's bandwidth according to the model, in bytes per second.
    fn model(&self) -> f64 {
        self.max_bandwidth().min(self.bounds.bandwidth)
    }

    /// Returns the bytes that fill the path without a queue; `None` until both factors were
    /// measured.
    fn product(&self) -> Option<f64> {
        let product = self.model() * self.min_rtt?;
        (product > 0.0).then_some(product)
    }

    /// Returns the bytes in flight when the path is filled: more than the product where packets are
    /// usually late.
    fn usual(&self, product: f64) -> f64 {
        product.max(self.model() * self.usual_rtt)
    }

    /// Updates the model by the sample's measurements.
    fn measure(&mut self, now: Instant, sample: &AckSample<'_>) {
        if let Some(rate) = sample.rate {
            let bandwidth = rate.per_second() as f64;
            if !rate.app_limited || bandwidth >= self.max_bandwidth() {
                self.bandwidth.note(bandwidth);
                self.round.bandwidth = self.round.bandwidth.max(bandwidth);
            }
        }
        self.round.delivered += sample.bytes as f64;
        self.round.app_limited |= sample.app_limited;
        self.ack_aggregation
            .on_ack(now, sample.bytes as f64, self.max_bandwidth());
        let Some(path) = sample.path.map(|path| path.as_secs_f64()) else {
            return;
        };
        self.round.least = Some(self.round.least.map_or(path, |least| least.min(path)));
        if self.min_rtt.is_none_or(|least| path <= least) {
            self.min_rtt = Some(path);
            self.min_rtt_at = now;
        }
        if let BbrState::ProbeRtt {
            measured: Some(measured),
        } = &mut self.state
            && sample.largest_sent_at >= measured.since
        {
            measured.least = measured.least.min(path);
            measured.sum += path;
            measured.samples += 1.0;
        }
    }

    /// Ends a round: judges its losses, whether the pipe is full, and whether the phase is over.
    fn end_round(&mut self, now: Instant, round: &BbrRound, in_flight: f64) {
        self.rounds += 1;
        if self.rounds.is_multiple_of(AGGREGATION_ROUNDS) {
            self.ack_aggregation.extra.end_period();
        }
        let grew = self.max_bandwidth() > self.best;
        self.best = self.max_bandwidth();
        let queue = self.has_queue(round);
        let congested = (self.is_lossy(round) || round.marked) && (queue || !grew);
        if congested {
            self.before.get_or_insert(self.bounds);
        }
        match self.state {
            BbrState::Startup => self.judge_startup(round, congested),
            BbrState::Refill => self.go_up(now),
            // Packets judged in the first round were sent before it. Only a queue counts then.
            BbrState::Up { rounds, .. } if congested && (rounds > 0 || queue) => {
                self.bounds.in_flight = self.bounds.in_flight.min(round.lost_in_flight);
                self.go_down(now);
            }
            BbrState::Up { since, rounds } => {
                self.state = BbrState::Up {
                    since,
                    rounds: rounds + 1,
                };
                // The bound was reached without loss: it moves, faster with each round.
                if in_flight >= HEADROOM * self.bounds.in_flight {
                    self.bounds.in_flight += f64::from(1_u32 << rounds.min(UP_ROUNDS)) * self.mtu;
                }
            }
            // Cut once in a cycle, and again as long as there is a queue: without a queue, loss at
            // the delivered rate is not caused by that rate.
            BbrState::Down | BbrState::Cruise
                if congested && (queue || self.bounds.bandwidth == f64::INFINITY) =>
            {
                let least = BETA * self.model();
                self.bounds.bandwidth = self.model().min(round.bandwidth.max(least));
            }
            _ => {}
        }
    }

    /// Raises a bound that was reached without loss by the gain of "Up". If it grew by single
    /// packets, it would limit a flow for minutes after losses or a larger flow made it small.
    fn raise_bound(&mut self, in_flight: f64) {
        if in_flight >= HEADROOM * self.bounds.in_flight {
            self.bounds.in_flight *= UP_PACING;
        }
    }

    /// Returns true if each packet of the round met a queue larger than the headroom.
    fn has_queue(&self, round: &BbrRound) -> bool {
        let path = self.min_rtt.unwrap_or(f64::INFINITY);
        round.least.is_some_and(|least| HEADROOM * least > path)
    }

    /// Returns true if more was lost than the tolerance for random loss.
    fn is_lossy(&mut self, round: &BbrRound) -> bool {
        self.losses.on_acked(round.delivered);
        self.losses.on_lost(round.lost);
        let lossy = self.losses.exceed(0.0, self.mtu);
        if lossy {
            self.losses = Losses::default();
        } else {
            self.losses.end_round(self.mtu);
        }
        lossy
    }

    /// Ends "Startup" if the bandwidth no longer grows, or at once if too much is lost ("Exiting
    /// Startup").
    fn judge_startup(&mut self, round: &BbrRound, congested: bool) {
        if self.max_bandwidth() >= FULL_GROWTH * self.full_bandwidth {
            self.full_bandwidth = self.max_bandwidth();
            self.full_rounds = 0;
            return;
        }
        if congested {
            let product = self.product().unwrap_or(self.window);
            self.bounds.in_flight = product.max(round.delivered);
        } else if round.app_limited {
            return;
        }
        self.full_rounds += 1;
        if congested || self.full_rounds >= FULL_ROUNDS {
            self.filled = true;
            self.state = BbrState::Drain;
        }
    }

    /// Begins to probe upwards, or goes on because the bandwidth grew.
    fn go_up(&mut self, now: Instant) {
        self.state = BbrState::Up {
            since: now,
            rounds: 0,
        };
        self.up_filled = false;
        self.up_from = self.max_bandwidth();
    }

    /// Goes on probing upwards or ends it. In the draft a probe ends after three rounds without
    /// growth by a quarter. Here one round decides: the packets that were sent until the pipe was
    /// filled show in the next round trip whether the path carries more. Until then the pace is
    /// lower, so that the queue stays at a quarter of the product.
    fn probe_up(&mut self, now: Instant, sample: &AckSample<'_>, product: f64) {
        let BbrState::Up { since, rounds } = self.state else {
            return;
        };
        let in_flight = sample.in_flight as f64;
        if self.max_bandwidth() >= UP_GROWTH * self.up_from {
            self.raise_bound(in_flight);
            self.go_up(now);
        } else if self.up_filled && sample.largest_sent_at >= since || rounds >= UP_ROUNDS {
            self.go_down(now);
        } else if !self.up_filled
            && now.since(since).as_secs_f64() > self.min_rtt.unwrap_or(0.0)
            && in_flight >= UP_PACING * self.usual(product)
        {
            self.raise_bound(in_flight);
            self.up_filled = true;
            self.state = BbrState::Up { since: now, rounds };
        }
    }

    /// Begins another cycle of "ProbeBW".
    fn go_down(&mut self, now: Instant) {
        self.state = BbrState::Down;
        if self.bandwidth.present() > 0.0 {
            self.bandwidth.end_period();
        }
        self.cycle_began = now;
        self.cycle_round = self.rounds;
    }

    /// Moves through the phases by time and bytes in flight.
    fn advance(&mut self, now: Instant, sample: &AckSample<'_>) {
        let in_flight = sample.in_flight as f64;
        let Some(product) = self.product() else {
            return;
        };
        match self.state {
            BbrState::Drain if in_flight <= product => self.go_down(now),
            BbrState::Down if in_flight <= product.min(HEADROOM * self.bounds.in_flight) => {
                self.state = BbrState::Cruise;
                let spread = Duration::from_millis(sample.delivered % PROBE_BW_SPREAD);
                self.cycle_wait = PROBE_BW + spread;
            }
            BbrState::Down | BbrState::Cruise if self.is_probe_due(now, product) => {
                self.bounds.bandwidth = f64::INFINITY;
                self.state = BbrState::Refill;
            }
            BbrState::Up { .. } => self.probe_up(now, sample, product),
            _ => {}
        }
        self.probe_rtt(now, in_flight, product);
    }

    fn is_probe_due(&self, now: Instant, product: f64) -> bool {
        let rounds = (self.rounds - self.cycle_round) as f64;
        now.since(self.cycle_began) >= self.cycle_wait
            || rounds >= (product / self.mtu).max(PROBE_BW_ROUNDS)
    }

    /// Runs "ProbeRTT".
    fn probe_rtt(&mut self, now: Instant, in_flight: f64, product: f64) {
        match self.state {
            BbrState::ProbeRtt { measured: None }
                if in_flight <= (PROBE_RTT_GAIN * product).max(MIN_PACKETS * self.mtu) =>
            {
                self.state = BbrState::ProbeRtt {
                    measured: Some(RttMeasurement {
                        since: now,
                        least: f64::INFINITY,
                        sum: 0.0,
                        samples: 0.0,
                    }),
                };
            }
            BbrState::ProbeRtt {
                measured: Some(measured),
            } if measured.since + PROBE_RTT_TIME <= now && measured.samples > 0.0 => {
                self.min_rtt = Some(measured.least);
                self.min_rtt_at = now;
                self.usual_rtt = measured.sum / measured.samples;
                if self.filled {
                    self.go_down(now);
                    self.state = BbrState::Cruise;
                } else {
                    self.state = BbrState::Startup;
                }
            }
            BbrState::ProbeRtt { .. } | BbrState::Startup => {}
            _ if now.since(self.min_rtt_at) >= PROBE_RTT_EVERY => {
                self.state = BbrState::ProbeRtt { measured: None };
            }
            _ => {}
        }
    }

    fn pacing_gain(&self) -> f64 {
        match self.state {
            BbrState::Startup => STARTUP_PACING,
            BbrState::Drain => DRAIN_PACING,
            BbrState::Down => DOWN_PACING,
            BbrState::Up { .. } if self.up_filled => DOWN_PACING,
            BbrState::Up { .. } => UP_PACING,
            BbrState::Cruise | BbrState::Refill | BbrState::ProbeRtt { .. } => 1.0,
        }
    }

    /// Adapts the window to `acked` bytes ("Congestion window").
    fn adjust_window(&mut self, acked: f64) {
        let Some(product) = self.product() else {
            self.set_window(self.window + acked);
            return;
        };
        let gain = if matches!(self.state, BbrState::Up { .. }) {
            UP_WINDOW_GAIN
        } else {
            WINDOW_GAIN
        };
        // Segmentation trains leave at once, and acknowledgements arrive aggregated.
        let quantum = (self.model() / 1_000.0)
            .min(MAX_DATAGRAM as f64)
            .max(2.0 * self.mtu);
        let allowance = 3.0 * quantum + self.ack_aggregation.extra.get();
        let least_time = LEAST_TIME * self.model();
        let target = (gain * self.usual(product) + allowance).max(least_time);
        let least = (product + allowance).max(least_time);
        let grown = self.window + acked;
        let window = if self.filled {
            grown.min(target)
        } else {
            grown.min(target.max(self.window))
        };
        let bound = match self.state {
            BbrState::ProbeRtt { .. } => PROBE_RTT_GAIN * product,
            BbrState::Down | BbrState::Cruise => (HEADROOM * self.bounds.in_flight).max(least),
            _ => self.bounds.in_flight.max(least),
        };
        self.set_window(window.min(bound));
    }
}

impl Controller for Bbr {
    fn on_sent(&mut self, now: Instant, _bytes: u64, _in_flight: u64) {
        if self.min_rtt_at == Instant::ZERO {
            self.min_rtt_at = now;
        }
    }

    fn on_ack(&mut self, now: Instant, sample: &AckSample<'_>) {
        if self
            .round
            .began
            .is_none_or(|began| sample.largest_sent_at >= began)
        {
            let ended = core::mem::take(&mut self.round);
            self.round.began = Some(now);
            self.end_round(now, &ended, sample.in_flight_before as f64);
        }
        self.measure(now, sample);
        self.advance(now, sample);
        self.adjust_window(sample.bytes as f64);
    }

    fn on_congestion(&mut self, _now: Instant, event: &CongestionEvent) {
        match event.cause {
            Cause::Loss => {
                let lost = event.bytes_lost as f64;
                if !event.overlaps {
                    self.before = None;
                }
                self.round.lost += lost;
                let in_flight = event.in_flight as f64 + lost;
                self.round.lost_in_flight = self.round.lost_in_flight.max(in_flight);
            }
            Cause::Ecn => {
                self.before = None;
                self.round.marked = true;
                let in_flight = event.in_flight as f64;
                self.round.lost_in_flight = self.round.lost_in_flight.max(in_flight);
            }
        }
        if event.persistent {
            self.set_window(0.0);
        }
    }

    fn on_spurious(&mut self, _now: Instant) {
        self.round.lost = 0.0;
        self.losses = Losses::default();
        if let Some(before) = self.before.take() {
            self.bounds.in_flight = self.bounds.in_flight.max(before.in_flight);
            self.bounds.bandwidth = self.bounds.bandwidth.max(before.bandwidth);
        }
    }

    fn restart(&mut self, mtu: usize, most: u64) {
        *self = Self::new(mtu);
        self.set_window(self.window.min(most as f64));
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.mtu = mtu.max(1) as f64;
        self.set_window(self.window);
    }

    fn window(&self) -> u64 {
        (self.window + 0.5) as u64
    }

    fn pacing_rate(&self, rtt: &Rtt) -> Option<u64> {
        let model = self.model();
        if self.min_rtt.is_none() && model == 0.0 {
            return pace(self.window(), rtt, 277);
        }
        let rate = (MARGIN * self.pacing_gain() * model).min(MAX_WINDOW) as u64;
        // The least window leaves within a round trip, as the window permits. A model of a few
        // bytes, as of a path that dropped all full packets, would send one packet per second.
        let least = pace((MIN_PACKETS * self.mtu) as u64, rtt, 100);
        Some(least.map_or(rate, |least| rate.max(least)))
    }

    fn name(&self) -> &'static str {
        "wan"
    }
}
