//! The choice of a connection's controller.

use super::{AckSample, Bbr, CongestionEvent, Controller, Cubic, Fixed, Lan};
use crate::recovery::Rtt;
use crate::time::{Duration, Instant};

/// The controller that decides how much may be in flight to a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControllerChoice {
    /// [`Lan`](Self::Lan) where the least round trip is below 5 ms, else [`Wan`](Self::Wan). The
    /// default.
    #[default]
    Auto,
    /// Delay-based (after Swift): full links with queues of a millisecond or two.
    Lan,
    /// Model-based (after BBR): long paths, also those with random loss.
    Wan,
    /// CUBIC (RFC 9438), as TCP.
    Cubic,
    /// A fixed window, as in classic user-level protocols. Only for networks that the program knows
    /// and does not share.
    Fixed {
        /// Bytes in flight; two packets at least.
        bytes: u64,
    },
}

impl ControllerChoice {
    /// Returns a controller in its initial state, for packets of `mtu` bytes of UDP payload.
    #[must_use]
    pub fn make(self, mtu: usize) -> Box<dyn Controller> {
        match self {
            Self::Auto => Box::new(Auto::new(mtu)),
            Self::Lan => Box::new(Lan::new(mtu)),
            Self::Wan => Box::new(Bbr::new(mtu)),
            Self::Cubic => Box::new(Cubic::new(mtu)),
            Self::Fixed { bytes } => Box::new(Fixed::new(bytes, mtu)),
        }
    }
}

/// A path whose packets take longer than this leaves the machine room. On paths of 0.4 to 5 ms
/// [`Bbr`] carries more under random loss, and leaves less to a TCP beside it in a deep buffer:
/// 0.24 of the link at 2 ms, where [`Lan`] leaves 0.3.
const LONG: Duration = Duration::from_millis(5);
/// A path that counted as long but then measures shorter than this was measured through a queue.
const SHORT: Duration = Duration::from_millis(4);

/// Chooses by the least time on the path: once by the first measurement, and once more if a later
/// one contradicts it. Least times only fall, so the choice cannot alternate; a new path begins
/// anew.
#[derive(Debug)]
pub struct Auto {
    mtu: usize,
    decided: bool,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Lan(Box<Lan>),
    Wan(Box<Bbr>),
}

impl Auto {
    /// Returns an undecided controller for packets of `mtu` bytes of UDP payload.
    #[must_use]
    pub fn new(mtu: usize) -> Self {
        Self {
            mtu,
            decided: false,
            inner: Inner::Lan(Box::new(Lan::new(mtu))),
        }
    }

    fn decide(&mut self, path: Duration) {
        let to_wan = !self.decided && path > LONG;
        let to_lan = matches!(self.inner, Inner::Wan(_)) && path < SHORT;
        self.decided = true;
        if to_wan {
            self.inner = Inner::Wan(Box::new(Bbr::new(self.mtu)));
        } else if to_lan {
            self.inner = Inner::Lan(Box::new(Lan::new(self.mtu)));
        }
    }

    fn inner(&self) -> &dyn Controller {
        match &self.inner {
            Inner::Lan(lan) => &**lan,
            Inner::Wan(wan) => &**wan,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Controller {
        match &mut self.inner {
            Inner::Lan(lan) => &mut **lan,
            Inner::Wan(wan) => &mut **wan,
        }
    }
}

impl Controller for Auto {
    // Calls made for each packet go to the concrete types, so that they are inlined.

    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        match &mut self.inner {
            Inner::Lan(lan) => lan.on_sent(now, bytes, in_flight),
            Inner::Wan(wan) => wan.on_sent(now, bytes, in_flight),
        }
    }

    fn on_ack(&mut self, now: Instant, sample: &AckSample<'_>) {
        if let Some(path) = sample.path {
            self.decide(path);
        }
        match &mut self.inner {
            Inner::Lan(lan) => lan.on_ack(now, sample),
            Inner::Wan(wan) => wan.on_ack(now, sample),
        }
    }

    fn on_congestion(&mut self, now: Instant, event: &CongestionEvent) {
        self.inner_mut().on_congestion(now, event);
    }

    fn on_spurious(&mut self, now: Instant) {
        self.inner_mut().on_spurious(now);
    }

    fn restart(&mut self, mtu: usize, most: u64) {
        self.mtu = mtu;
        self.inner_mut().restart(mtu, most);
    }

    fn on_path_changed(&mut self, mtu: usize) {
        *self = Self::new(mtu);
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
        self.inner_mut().on_mtu(mtu);
    }

    fn window(&self) -> u64 {
        match &self.inner {
            Inner::Lan(lan) => lan.window(),
            Inner::Wan(wan) => wan.window(),
        }
    }

    fn pacing_rate(&self, rtt: &Rtt) -> Option<u64> {
        self.inner().pacing_rate(rtt)
    }

    fn name(&self) -> &'static str {
        self.inner().name()
    }
}
