//! Path MTU: the largest datagram that gets through (RFC 8899, RFC 9000 section 14).
//!
//! If the kernel knows the route's MTU, the size starts there and falls when the kernel reports
//! EMSGSIZE or when large packets keep being lost. Otherwise the size starts at the floor and
//! probes search upwards. A size that failed is tried again after ten minutes.

use crate::limits::{CONTROL_PACKET, ETHERNET_MTU, MAX_DATAGRAM, MIN_MTU};
use crate::time::{Duration, Instant};

/// Losses of one probe size before it counts as too large (RFC 8899 section 5.1.2).
const MAX_PROBES: u32 = 3;

/// Gain in bytes below which searching further is not worth the probes.
const MIN_GAIN: usize = 16;

/// Time after which a size that failed is tried again (RFC 8899 section 5.1.1).
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// A probe without an answer for this time counts as lost (for example after the connection was
/// replaced).
const PROBE_LAPSE: Duration = Duration::from_secs(15);

/// Rounds in which a full packet must be lost, while smaller ones arrive and no full one does, to
/// detect a black hole. Each round's packet was sent after the round before was noticed. Congestion
/// does not select by size.
const BLACK_HOLE_ROUNDS: u32 = 3;

/// Probe timeouts in a row after which the packet size may be the cause.
const BLACK_HOLE_TIMEOUTS: u32 = 3;

/// Usual sizes to fall back to, before the floor: jumbo frames and Ethernet.
const STEPS: [usize; 2] = [8_972, ETHERNET_MTU];

/// The size of full packets on one path. All sizes are bytes of UDP payload.
#[derive(Clone, Debug)]
pub struct PathMtu {
    current: usize,
    /// Never search above this.
    limit: usize,
    /// Smallest size that failed; the search stays below it.
    failed: Option<usize>,
    /// When `failed` may be tried again.
    raise_at: Option<Instant>,
    /// The probe in flight, and when it was sent.
    probe: Option<(usize, Instant)>,
    /// Size of the last lost probe, and how many of that size were lost in a row.
    probe_losses: (usize, u32),
    black_hole: Option<BlackHole>,
    /// Two probe timeouts in a row came, and since then only control packets arrived.
    floor_suspected: bool,
    /// The system refused a size that every path must carry, or only smaller packets arrive.
    refused_floor: bool,
}

/// Signs of a black hole.
#[derive(Clone, Copy, Debug)]
struct BlackHole {
    /// The smallest packet above the floor that was lost. If one as large arrives, the suspicion
    /// ends.
    size: usize,
    rounds: u32,
    noticed: Instant,
    smaller_arrived: bool,
}

impl PathMtu {
    /// Returns a path whose route has MTU `route` (the UDP payload it carries), if the system knows
    /// it, and whose ends both take datagrams up to `limit`. Both are brought between [`MIN_MTU`]
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
            black_hole: None,
            floor_suspected: false,
            refused_floor: false,
        }
    }

    /// Returns the largest datagram to send now.
    #[must_use]
    pub const fn current(&self) -> usize {
        self.current
    }

    /// Returns the largest datagram for which the search probes.
    #[must_use]
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the size that was found after a larger one had failed, if the search is over.
    #[must_use]
    pub fn found(&self, now: Instant) -> Option<usize> {
        let settled = self.failed.is_some() && self.probe.is_none();
        (settled && self.probe_due(now).is_none()).then_some(self.current)
    }

    /// Ends the search at the current size.
    pub const fn bind(&mut self) {
        self.limit = self.current;
    }

    /// Returns the state for the same path, whose ends both take datagrams up to `limit` from now
    /// on. Probes search for sizes larger than before.
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

    /// Handles the system's refusal of a datagram of `size` (EMSGSIZE), at once or by an ICMP
    /// message. Returns true if the size fell; packets in flight above the new size are lost.
    pub fn on_too_big(&mut self, now: Instant, size: usize) -> bool {
        self.end_probe(size);
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

    /// Handles the system's refusal of a datagram of `size`. Returns true for the first refusal of
    /// a size that every path must carry.
    pub fn on_floor_refused(&mut self, size: usize) -> bool {
        size <= MIN_MTU && !core::mem::replace(&mut self.refused_floor, true)
    }

    /// Returns true if packets of a size that every path must carry were lost for several round
    /// trips while smaller ones arrived. Returns true once for a path.
    pub fn has_proved_narrow(&mut self) -> bool {
        let narrow = self.current == MIN_MTU
            && self
                .black_hole
                .is_some_and(|s| s.rounds >= BLACK_HOLE_ROUNDS && s.smaller_arrived);
        narrow && self.on_floor_refused(self.current)
    }

    /// Returns the size of a probe to send now. Returns `None` while a probe is unanswered, and if
    /// no larger size is worth a probe.
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

    /// Returns when a probe may next become due by time alone.
    #[must_use]
    pub fn next_time(&self) -> Option<Instant> {
        match self.probe {
            Some((_, sent)) => Some(sent + PROBE_LAPSE),
            None => self.raise_at.filter(|_| self.limit > self.current),
        }
    }

    /// Notes that a probe of `size` was sent.
    pub fn on_probe_sent(&mut self, now: Instant, size: usize) {
        if let Some((lapsed, sent)) = self.probe {
            self.on_probe_lost(sent + PROBE_LAPSE, lapsed);
        }
        self.forget_old_failure(now);
        self.probe = Some((size, now));
    }

    /// Notes that a probe of `size` arrived. Returns whether the packet size rose.
    pub fn on_probe_acked(&mut self, size: usize) -> bool {
        self.end_probe(size);
        if size <= self.current || size > self.limit {
            return false;
        }
        self.failed = self.failed.filter(|failed| *failed > size);
        self.current = size;
        self.black_hole = None;
        true
    }

    /// Notes that a probe of `size` was lost.
    pub fn on_probe_lost(&mut self, now: Instant, size: usize) {
        self.end_probe(size);
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

    /// Notes that packets were acknowledged, the largest of `size` bytes.
    pub const fn on_acked(&mut self, size: usize) {
        self.floor_suspected &= size <= CONTROL_PACKET;
        if let Some(black_hole) = &mut self.black_hole {
            if size >= black_hole.size {
                self.black_hole = None;
            } else {
                black_hole.smaller_arrived = true;
            }
        }
    }

    /// Notes that packets, not probes, were declared lost at `now`: the largest of `size` bytes,
    /// the newest sent at `sent_at`. Returns whether the size fell to the floor, because only small
    /// packets arrived for several round trips.
    pub fn on_lost(&mut self, now: Instant, size: usize, sent_at: Instant) -> bool {
        // At the floor, losses of all but control packets count: the path may not carry the floor
        // itself.
        let at_floor = self.current == MIN_MTU;
        let least = if at_floor { CONTROL_PACKET } else { MIN_MTU };
        if size <= least || size > self.current {
            return false;
        }
        let black_hole = self.black_hole.get_or_insert(BlackHole {
            size,
            rounds: 0,
            noticed: Instant::ZERO,
            smaller_arrived: false,
        });
        black_hole.size = black_hole.size.min(size);
        if black_hole.rounds == 0 || sent_at >= black_hole.noticed {
            black_hole.rounds = black_hole.rounds.saturating_add(1);
            black_hole.noticed = now;
        }
        if at_floor || black_hole.rounds < BLACK_HOLE_ROUNDS || !black_hole.smaller_arrived {
            return false;
        }
        let size = black_hole.size;
        self.fail(now, size);
        self.fall(MIN_MTU);
        true
    }

    /// Notes that the probe timer fired for the `count`th time in a row while packets above the
    /// floor were in flight. Returns whether the size fell to the floor. The peer may merely be
    /// away: its former size does not count as failed, and probes search for it at once.
    pub fn on_probe_timeout(&mut self, count: u32) -> bool {
        if count < BLACK_HOLE_TIMEOUTS || self.current == MIN_MTU {
            return false;
        }
        self.fall(MIN_MTU);
        true
    }

    /// Returns true if a probe of the `count`th probe timeout in a row should be a small packet:
    /// packets cannot become smaller, and their size may be the cause. Once the program was told,
    /// such probes would only keep the sender from backing off.
    pub const fn suspects_floor(&mut self, count: u32) -> bool {
        self.floor_suspected |= count > 1;
        self.current == MIN_MTU && self.floor_suspected && !self.refused_floor
    }

    /// Lowers the size to the floor after the peer was lost while packets above the floor were in
    /// flight, perhaps before [`on_probe_timeout`](Self::on_probe_timeout) lowered it. Opening the
    /// next connection needs only small packets; with the old size, a black hole would drop the
    /// messages of each connection again.
    pub const fn on_peer_lost(&mut self) {
        self.fall(MIN_MTU);
    }

    /// Notes that the probe of `size` is no longer in flight.
    fn end_probe(&mut self, size: usize) {
        self.probe = self.probe.filter(|(probed, _)| *probed != size);
    }

    /// Returns true if the failure of `failed` is so old that the size should be tried again.
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
        self.black_hole = None;
        self.probe = None;
    }
}

#[cfg(test)]
mod tests;
