//! Path MTU: the largest datagram that gets through (RFC 8899, RFC 9000 section 14).
//!
//! Where the kernel knows the route's MTU, the size starts there and falls when the kernel says
//! EMSGSIZE or when large packets keep vanishing. Where it does not, the size starts at the floor
//! and probes search upwards. Whatever is learnt from failure is doubted again after ten minutes.

use crate::limits::{CONTROL_PACKET, ETHERNET_MTU, MAX_DATAGRAM, MIN_MTU};
use crate::time::{Duration, Instant};

/// Losses of one probe size before it counts as too large (RFC 8899 section 5.1.2).
const MAX_PROBES: u32 = 3;

/// Gain below which searching further is not worth the probes.
const MIN_GAIN: usize = 16;

/// Time after which a size that failed is tried again (RFC 8899 section 5.1.1).
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// A probe of which nothing was heard for so long counts as lost (connection replaced, say).
const PROBE_LAPSE: Duration = Duration::from_secs(15);

/// Times that a full packet sent after the previous time was noticed must be lost, while smaller
/// ones arrive and no full one does, to suspect a black hole. Congestion does not choose by size.
const BLACK_HOLE_ROUNDS: u32 = 3;

/// Probe timeouts in a row after which size may be to blame.
const BLACK_HOLE_TIMEOUTS: u32 = 3;

/// Usual sizes to fall back to, before the floor: jumbo frames and Ethernet.
const STEPS: [usize; 2] = [8_972, ETHERNET_MTU];

/// The size of full packets on one path. All sizes are bytes of UDP payload.
#[derive(Clone, Debug)]
pub struct PathMtu {
    current: usize,
    /// Never search above this.
    limit: usize,
    /// Smallest size known not to get through; searching stays below it.
    failed: Option<usize>,
    /// When `failed` is doubted.
    raise_at: Option<Instant>,
    /// The probe in flight, and when it was sent.
    probe: Option<(usize, Instant)>,
    /// Size of the last probe lost, and how many of that size were in a row.
    probe_losses: (usize, u32),
    suspicion: Option<Suspicion>,
    /// The system refused what every path must carry, or only smaller packets arrive.
    refused_floor: bool,
}

/// Signs of a black hole.
#[derive(Clone, Copy, Debug)]
struct Suspicion {
    /// The smallest packet above the floor that was lost: larger ones arriving clear the path.
    size: usize,
    rounds: u32,
    noticed: Instant,
    smaller_arrived: bool,
}

impl PathMtu {
    /// A path whose route has MTU `route` (the UDP payload it carries), if the system knows it,
    /// and whose ends both take datagrams up to `limit`. Both are brought between [`MIN_MTU`]
    /// and [`MAX_DATAGRAM`].
    #[must_use]
    pub fn new(route: Option<usize>, limit: usize) -> Self {
        let limit = limit.clamp(MIN_MTU, MAX_DATAGRAM);
        let current = route.unwrap_or(MIN_MTU).clamp(MIN_MTU, limit);
        Self {
            current,
            limit: if route.is_some() { current } else { limit },
            failed: None,
            raise_at: None,
            probe: None,
            probe_losses: (0, 0),
            suspicion: None,
            refused_floor: false,
        }
    }

    /// Largest datagram to send now.
    #[must_use]
    pub const fn current(&self) -> usize {
        self.current
    }

    /// Largest datagram that is searched for.
    #[must_use]
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// The size that was found after a larger one had failed, if no search goes on.
    #[must_use]
    pub fn found(&self, now: Instant) -> Option<usize> {
        let settled = self.failed.is_some() && self.probe.is_none();
        (settled && self.probe_due(now).is_none()).then_some(self.current)
    }

    /// Nothing larger than now is searched for any more.
    pub const fn bind(&mut self) {
        self.limit = self.current;
    }

    /// The same path, whose ends both take datagrams up to `limit` from now on. Larger ones than
    /// before are looked for by probes.
    #[must_use]
    pub fn inherit(&self, limit: usize) -> Self {
        let limit = limit.clamp(MIN_MTU, MAX_DATAGRAM);
        Self {
            current: self.current.min(limit),
            limit,
            probe: None,
            refused_floor: false,
            ..self.clone()
        }
    }

    /// The system refused a datagram of `size` (EMSGSIZE), at once or by an ICMP message.
    /// Returns whether the size fell; what is in flight above the new one is lost.
    pub fn on_too_big(&mut self, now: Instant, size: usize) -> bool {
        self.settle_probe(size);
        if size <= MIN_MTU {
            return false;
        }
        self.fail(now, size);
        if size > self.current {
            return false;
        }
        self.fall(
            STEPS
                .into_iter()
                .find(|step| *step < size)
                .unwrap_or(MIN_MTU),
        );
        true
    }

    /// The system refused a datagram of `size`. Returns whether that is the first one that every
    /// path must carry.
    pub fn on_floor_refused(&mut self, size: usize) -> bool {
        size <= MIN_MTU && !core::mem::replace(&mut self.refused_floor, true)
    }

    /// Whether packets that every path must carry were lost for several round trips while smaller
    /// ones arrived. True once for a path.
    pub fn has_proved_narrow(&mut self) -> bool {
        let narrow = self.current == MIN_MTU
            && self
                .suspicion
                .is_some_and(|s| s.rounds >= BLACK_HOLE_ROUNDS && s.smaller_arrived);
        narrow && self.on_floor_refused(self.current)
    }

    /// Size of a probe to send now. The answer stays the same until one is
    /// [sent](Self::on_probe_sent) or more is known.
    #[must_use]
    pub fn probe_due(&self, now: Instant) -> Option<usize> {
        if self
            .probe
            .is_some_and(|(_, sent)| now.since(sent) < PROBE_LAPSE)
        {
            return None;
        }
        let below = match self.failed {
            Some(failed) if failed <= self.limit && !self.in_doubt(now) => failed,
            _ => return (self.limit > self.current).then_some(self.limit),
        };
        let usual = STEPS
            .into_iter()
            .find(|step| (self.current + 1..below).contains(step));
        let gain = below.saturating_sub(self.current);
        usual.or_else(|| (gain > MIN_GAIN).then_some(self.current + gain / 2))
    }

    /// When a probe may next become due merely because time passed.
    #[must_use]
    pub fn next_time(&self) -> Option<Instant> {
        match self.probe {
            Some((_, sent)) => Some(sent + PROBE_LAPSE),
            None => self.raise_at.filter(|_| self.limit > self.current),
        }
    }

    /// A probe of the `size` that was due went out.
    pub fn on_probe_sent(&mut self, now: Instant, size: usize) {
        if let Some((lapsed, sent)) = self.probe {
            self.on_probe_lost(sent + PROBE_LAPSE, lapsed);
        }
        self.forget_old_failure(now);
        self.probe = Some((size, now));
    }

    /// A probe of `size` arrived. Returns whether the size rose.
    pub fn on_probe_acked(&mut self, size: usize) -> bool {
        self.settle_probe(size);
        if size <= self.current || size > self.limit {
            return false;
        }
        self.failed = self.failed.filter(|failed| *failed > size);
        self.current = size;
        self.suspicion = None;
        true
    }

    /// A probe of `size` was lost.
    pub fn on_probe_lost(&mut self, now: Instant, size: usize) {
        self.settle_probe(size);
        let (last, losses) = self.probe_losses;
        self.probe_losses = (
            size,
            if last == size {
                losses.saturating_add(1)
            } else {
                1
            },
        );
        if self.probe_losses.1 >= MAX_PROBES && size > self.current {
            self.fail(now, size);
        }
    }

    /// Packets were acknowledged, the largest of `size` bytes.
    pub const fn on_acked(&mut self, size: usize) {
        if let Some(suspicion) = &mut self.suspicion {
            if size >= suspicion.size {
                self.suspicion = None;
            } else {
                suspicion.smaller_arrived = true;
            }
        }
    }

    /// Packets, not probes, were declared lost at `now`: the largest of `size` bytes, the newest
    /// sent at `sent_at`. Returns whether the size fell to the floor, because only small packets
    /// have come through for several round trips.
    pub fn on_lost(&mut self, now: Instant, size: usize, sent_at: Instant) -> bool {
        // On the smallest packets the floor itself is in doubt.
        let at_floor = self.current == MIN_MTU;
        let least = if at_floor { CONTROL_PACKET } else { MIN_MTU };
        if size <= least || size > self.current {
            return false;
        }
        let suspicion = self.suspicion.get_or_insert(Suspicion {
            size,
            rounds: 0,
            noticed: Instant::ZERO,
            smaller_arrived: false,
        });
        suspicion.size = suspicion.size.min(size);
        if suspicion.rounds == 0 || sent_at >= suspicion.noticed {
            suspicion.rounds = suspicion.rounds.saturating_add(1);
            suspicion.noticed = now;
        }
        if at_floor || suspicion.rounds < BLACK_HOLE_ROUNDS || !suspicion.smaller_arrived {
            return false;
        }
        let size = suspicion.size;
        self.fail(now, size);
        self.fall(MIN_MTU);
        true
    }

    /// The probe timer fired for the `count`th time in a row while packets above the floor were
    /// in flight. Returns whether the size fell to the floor. The peer may merely be away:
    /// nothing is held against the size it had, and probes search for it at once.
    pub fn on_probe_timeout(&mut self, count: u32) -> bool {
        if count < BLACK_HOLE_TIMEOUTS || self.current == MIN_MTU {
            return false;
        }
        self.fall(MIN_MTU);
        true
    }

    /// The peer was lost while packets above the floor were in flight, sooner perhaps than
    /// [`on_probe_timeout`](Self::on_probe_timeout) could tell. The next connection opens with
    /// small packets: would it keep the size, a black hole would swallow each one's messages again.
    pub const fn on_peer_lost(&mut self) {
        self.fall(MIN_MTU);
    }

    /// Whatever became of the probe of `size`, it is no longer in flight.
    fn settle_probe(&mut self, size: usize) {
        self.probe = self.probe.filter(|(probed, _)| *probed != size);
    }

    /// Whether what failed did so too long ago to be believed.
    #[must_use]
    pub fn in_doubt(&self, now: Instant) -> bool {
        self.raise_at.is_some_and(|at| now >= at)
    }

    fn forget_old_failure(&mut self, now: Instant) {
        if self.in_doubt(now) {
            self.raise_at = None;
            self.failed = None;
        }
    }

    fn fail(&mut self, now: Instant, size: usize) {
        self.forget_old_failure(now);
        self.failed = Some(self.failed.map_or(size, |failed| failed.min(size)));
        self.raise_at = Some(now + RAISE_AFTER);
        self.probe_losses = (0, 0);
    }

    const fn fall(&mut self, size: usize) {
        self.current = size;
        self.suspicion = None;
        self.probe = None;
    }
}

#[cfg(test)]
mod tests;
