//! Limits of bytes in flight and of the rate: congestion window, pacer and the program's steering
//! function.

use super::{Held, Link};
use crate::pacer::OVERSLEEP;
use crate::recovery::Content;
use crate::time::Instant;

impl<T: Content> Link<T> {
    /// Returns the bytes that may be in flight: the usable congestion window, or less if the
    /// program's steering function limits it.
    pub(super) fn window(&self, size: u64) -> u64 {
        self.usable_window().min(self.steered_window(size))
    }

    /// Returns the bytes that may be in flight as the program's steering function says.
    fn steered_window(&self, size: u64) -> u64 {
        let steered = self.steered.as_ref();
        steered.map_or(u64::MAX, |decision| decision.window_for(size))
    }

    /// Returns the bytes per second that the congestion controller permits.
    pub(super) fn network_rate(&self, now: Instant) -> Option<u64> {
        let rate = self.congestion.pacing_rate(self.recovery.rtt())?;
        let bound = self.cwnd_validation.bound(now, self.recovery.rtt());
        Some(bound.map_or(rate, |bound| rate.min(bound)))
    }

    /// Returns the bytes per second at which to send, if pacing is on.
    pub(super) fn rate(&self, now: Instant, size: u64) -> Option<u64> {
        let network = self.network_rate(now);
        match self.steered.as_ref().and_then(|it| it.pace_for(size)) {
            Some(pace) => Some(network.map_or(pace, |rate| rate.min(pace))),
            None => network,
        }
    }

    /// Returns true if sending waits for the pacer, at the pace of the congestion controller and no
    /// lower one.
    pub(super) fn is_paced_by_window(&self, now: Instant) -> bool {
        let rate = || self.rate(now, self.mtu.current() as u64);
        self.paced_until.is_some() && rate() == self.congestion.pacing_rate(self.recovery.rtt())
    }

    /// Tells the pacer if the process did not run although it could have sent since `since`: the
    /// pacer's time had come, or an acknowledgement had. Messages must have waited for the window
    /// or the pacer.
    #[inline]
    pub(super) fn note_late(&mut self, now: Instant, since: Instant) {
        if now > since + OVERSLEEP && !self.app_limited {
            self.on_late(now, since);
        }
    }

    #[cold]
    fn on_late(&mut self, now: Instant, since: Instant) {
        let since = self.paced_until.map_or(since, |until| until.min(since));
        if let Some(rate) = self.rate(now, self.mtu.current() as u64) {
            // A longer debt would be a burst of more than the path holds.
            let most = self.recovery.rtt().path();
            self.pacer.on_late(now, since, rate, most);
        }
    }

    /// Returns true if the program's steering function forbids one more full packet in flight.
    pub(super) fn is_held(&self, size: u64) -> bool {
        self.recovery.in_flight().saturating_add(size) > self.steered_window(size)
    }

    /// Returns `Ok` if a full data packet may be sent, otherwise the limit that stops it: `Steer`,
    /// the congestion window or the pacer. Window and pacer do not limit a PTO probe. If `Steer`
    /// forbids its data, it is a PING.
    ///
    /// # Errors
    /// The limit that stops it.
    pub(super) fn may_send(&mut self, now: Instant, size: u64) -> Result<(), Held> {
        if self.is_held(size) {
            return Err(Held::Steering);
        }
        if self.pending.probes > 0 {
            return Ok(());
        }
        if self.is_full(size) {
            return Err(Held::Congestion);
        }
        let wanted = size.saturating_add(self.reserve);
        // A single message needs no computation of rates.
        if self.recovery.in_flight() == 0 && self.pacer.has(wanted) {
            return Ok(());
        }
        let Some(rate) = self.rate(now, size) else {
            return Ok(());
        };
        if self.pacer.budget(now, rate) >= wanted {
            return Ok(());
        }
        self.paced_until = Some(self.pacer.next_time(now, rate, wanted));
        Err(match self.network_rate(now) {
            Some(network) if network <= rate => Held::Pacing,
            _ => Held::Steering,
        })
    }

    /// Returns true if the congestion window has no room for a packet of `size`.
    pub(super) fn is_full(&self, size: u64) -> bool {
        self.recovery.in_flight().saturating_add(size) > self.usable_window()
    }

    /// Returns the congestion window without the part reserved for higher classes. At least two
    /// packets fit: with one, the controller would see a half unused window and never let it grow.
    pub(super) fn usable_window(&self) -> u64 {
        let window = self.congestion.window();
        let least = window.min(2 * self.mtu.current() as u64);
        window
            .saturating_sub(self.reserve.min(window / 8))
            .max(least)
    }
}
