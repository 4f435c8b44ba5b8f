//! CUBIC (RFC 9438) with HyStart++ (RFC 9406) and an initial window after RFC 6928.

use super::hystart::{GrowthPhase, HyStart};
use super::{AckSample, CongestionEvent, Controller, initial_window, pace};
use crate::recovery::Rtt;
use crate::time::{Duration, Instant};

/// Part of the window left after congestion (RFC 9438 section 4.6).
const BETA: f64 = 0.7;
/// Steepness of the cubic function, in packets per second cubed (RFC 9438 section 5.1).
const C: f64 = 0.4;
/// Growth per round trip, in packets, of a Reno flow with the same share at [`BETA`].
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Slow growth of conservative slow start (RFC 9406 section 4.3).
const CONSERVATIVE_DIVISOR: f64 = 4.0;
/// Pacing, in per cent of the window each round trip. TCP's packets leave in clumps, as
/// acknowledgements release them, and are lost more often at a full buffer than evenly paced ones:
/// paced at 125, this controller took two thirds of a link.
const PACE: u64 = 200;
/// Smallest window, in packets (RFC 9002 section 7.2).
const MIN_PACKETS: f64 = 2.0;
/// Largest window, in bytes: 100 Gbit/s for five seconds. Keeps all numbers exact in an `f64`.
const MAX_WINDOW: f64 = (1_u64 << 36) as f64;

/// Standard congestion control: fills long paths, shares with TCP, reacts to loss and marks.
///
/// Uses only the exactly rounded operations of floating point, so that a simulation repeats on
/// every machine.
#[derive(Clone, Debug)]
pub struct Cubic {
    /// Bytes of UDP payload in a full packet.
    mtu: f64,
    state: CubicState,
    /// Losses of packets sent before this belong to an event already answered.
    recovery_began: Option<Instant>,
    /// Latest moment at which the window was in use.
    active_at: Instant,
    /// The state before the last event and those that it overlaps, in case they prove spurious.
    before: Option<CubicState>,
}

#[derive(Clone, Debug)]
struct CubicState {
    window: f64,
    /// Slow start ends here; `None` until the first congestion.
    threshold: Option<f64>,
    hystart: HyStart,
    /// The window at which the plateau of the cubic function lies.
    plateau: f64,
    /// The window just before the last reduction.
    prior: f64,
    epoch: Option<AvoidanceEpoch>,
}

/// One run of congestion avoidance, from a reduction (or slow start's end) to the next.
#[derive(Clone, Debug)]
struct AvoidanceEpoch {
    began: Instant,
    /// Seconds from the beginning to the plateau (K).
    climb: f64,
    /// The window that Reno would have.
    reno: f64,
}

impl Cubic {
    /// Returns the initial state for packets of `mtu` bytes of UDP payload.
    #[must_use]
    pub fn new(mtu: usize) -> Self {
        let window = initial_window(mtu);
        let mtu = mtu.max(1) as f64;
        let state = CubicState {
            window,
            threshold: None,
            hystart: HyStart::default(),
            plateau: window,
            prior: window,
            epoch: None,
        };
        Self {
            mtu,
            state,
            recovery_began: None,
            active_at: Instant::ZERO,
            before: None,
        }
    }

    /// Starts in slow start, from a window that another controller found.
    pub(super) fn with_window(mtu: usize, window: f64) -> Self {
        let mut cubic = Self::new(mtu);
        cubic.set_window(window);
        cubic
    }

    /// Leaves slow start at the current window.
    pub(super) fn end_slow_start(&mut self) {
        self.state.threshold = Some(self.state.window);
        self.state.plateau = self.state.window;
        self.state.prior = self.state.window;
    }

    /// Returns true if it is in its first slow start, without congestion so far.
    pub(super) const fn is_searching(&self) -> bool {
        self.state.threshold.is_none()
    }

    fn in_slow_start(&self) -> bool {
        self.state
            .threshold
            .is_none_or(|threshold| self.state.window < threshold)
    }

    fn set_window(&mut self, window: f64) {
        self.state.window = window.min(MAX_WINDOW).max(MIN_PACKETS * self.mtu);
    }

    /// Excludes time in which the window was not used from its growth (RFC 9438 section 5.8).
    fn skip_idle(&mut self, now: Instant) {
        let idle = now.since(self.active_at);
        if let Some(epoch) = &mut self.state.epoch {
            epoch.began += idle;
        }
    }

    fn slow_start(&mut self, now: Instant, sample: &AckSample<'_>) {
        let bytes = sample.bytes as f64;
        let Some(threshold) = self.state.threshold else {
            match self
                .state
                .hystart
                .on_ack(now, sample.largest_sent_at, sample.path)
            {
                GrowthPhase::SlowStart => self.set_window(self.state.window + bytes),
                GrowthPhase::Conservative => {
                    self.set_window(self.state.window + bytes / CONSERVATIVE_DIVISOR);
                }
                GrowthPhase::Done => self.end_slow_start(),
            }
            return;
        };
        self.set_window((self.state.window + bytes).min(threshold));
    }

    /// Grows the window in congestion avoidance (RFC 9438 sections 4.2 to 4.5).
    fn congestion_avoidance(&mut self, now: Instant, sample: &AckSample<'_>) {
        let (mtu, window, plateau) = (self.mtu, self.state.window, self.state.plateau);
        let prior = self.state.prior;
        let epoch = self.state.epoch.get_or_insert_with(|| AvoidanceEpoch {
            began: now,
            climb: cube_root((plateau - window).max(0.0) / mtu / C),
            reno: window,
        });
        let share = sample.bytes as f64 / window;
        let alpha = if epoch.reno < prior { ALPHA } else { 1.0 };
        epoch.reno += alpha * share * mtu;
        let cubic = |after: Duration| {
            let t = after.as_secs_f64() - epoch.climb;
            C * t * t * t * mtu + plateau
        };
        let elapsed = now.since(epoch.began);
        let grown = if cubic(elapsed) < epoch.reno {
            epoch.reno
        } else {
            let target = cubic(elapsed.saturating_add(sample.rtt.smoothed()));
            window + (target.clamp(window, 1.5 * window) - window) * share
        };
        self.set_window(grown.max(window));
    }
}

impl Controller for Cubic {
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        if in_flight <= bytes {
            self.skip_idle(now);
            self.active_at = now;
        }
    }

    fn on_ack(&mut self, now: Instant, sample: &AckSample<'_>) {
        let idle = !sample.is_in_use(self.state.window);
        if idle {
            self.skip_idle(now);
        }
        self.active_at = now;
        let recovering = self
            .recovery_began
            .is_some_and(|began| sample.largest_sent_at <= began);
        if idle || recovering {
            return;
        }
        if self.in_slow_start() {
            self.slow_start(now, sample);
        } else {
            self.congestion_avoidance(now, sample);
        }
    }

    fn on_congestion(&mut self, now: Instant, event: &CongestionEvent) {
        let known = self
            .recovery_began
            .is_some_and(|began| event.largest_lost_sent_at <= began);
        if !known {
            if !event.overlaps {
                self.before = None;
            }
            self.before.get_or_insert_with(|| self.state.clone());
            self.recovery_began = Some(now);
            let window = self.state.window;
            // Fast convergence (RFC 9438 section 4.7): a flow whose window stayed below its last
            // maximum leaves room for a new flow.
            self.state.plateau = if window < self.state.plateau {
                window * (1.0 + BETA) / 2.0
            } else {
                window
            };
            self.state.prior = window;
            self.state.epoch = None;
            self.set_window(window * BETA);
            self.state.threshold = Some(self.state.window);
        }
        if event.persistent {
            self.state.epoch = None;
            self.set_window(0.0);
        }
    }

    fn on_spurious(&mut self, _now: Instant) {
        let Some(before) = self.before.take() else {
            return;
        };
        if before.window > self.state.window {
            self.state = before;
            self.recovery_began = None;
            // The packet size may have changed meanwhile.
            self.set_window(self.state.window);
        }
    }

    fn restart(&mut self, mtu: usize, most: u64) {
        *self = Self::new(mtu);
        self.set_window(self.state.window.min(most as f64));
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.mtu = mtu.max(1) as f64;
        self.set_window(self.state.window);
    }

    fn window(&self) -> u64 {
        (self.state.window + 0.5) as u64
    }

    fn pacing_rate(&self, rtt: &Rtt) -> Option<u64> {
        pace(self.window(), rtt, PACE)
    }

    fn name(&self) -> &'static str {
        "cubic"
    }
}

/// Returns the cube root of a number that is not negative. The standard library's differs between
/// machines in the last bit; Newton's method from a guess at the exponent does not.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    // Dividing the bits by three divides the exponent; the constant restores its bias.
    let mut root = f64::from_bits(x.to_bits() / 3 + 0x2A9F_7893_0000_0000);
    for _ in 0..4 {
        root -= (root - x / (root * root)) / 3.0;
    }
    root
}

#[cfg(test)]
mod tests;
