//! The questions to a controller, and what it is told.

use crate::limits::ETHERNET_MTU;
use crate::recovery::{RateSample, Rtt};
use crate::time::{Duration, Instant, per_second};
use core::fmt::Debug;

/// The packets that one ACK frame newly acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct AckSample<'a> {
    /// Bytes newly acknowledged, of packets that counted as in flight.
    pub bytes: u64,
    /// Bytes in flight before this acknowledgement.
    pub in_flight_before: u64,
    /// Bytes in flight now.
    pub in_flight: u64,
    /// Bytes acknowledged on this connection so far.
    pub delivered: u64,
    /// When the newest of the packets was sent.
    pub largest_sent_at: Instant,
    /// The round trip, already updated by this acknowledgement.
    pub rtt: &'a Rtt,
    /// Time that the newest packet and its acknowledgement spent on the path: the round trip
    /// measured now, without delays within either end. `None` if this acknowledgement measures
    /// nothing.
    pub path: Option<Duration>,
    /// The delivery rate measured now.
    pub rate: Option<RateSample>,
    /// The sender had no message to send, or no credit, or the program's steering function or rate
    /// cap limited it. Neither the window nor its pace did.
    pub app_limited: bool,
    /// The sender waits for the pacer, at the pace of this controller and no lower one.
    pub paced: bool,
}

impl AckSample<'_> {
    /// Returns true if this window limited the sender, by its size or by its pace (RFC 9002 section
    /// 7.8). A window that was not half used does not show whether more would fit. Its pace alone
    /// is the limit if most of the round trip is the other process waiting for a processor: then
    /// packets are acknowledged long before the window is full.
    pub(super) fn is_in_use(&self, window: f64) -> bool {
        !self.app_limited && (self.paced || 2.0 * self.in_flight_before as f64 >= window)
    }
}

/// Why a controller should slow down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Packets were declared lost.
    Loss,
    /// The receiver counted more congestion marks (RFC 3168).
    Ecn,
}

/// Signs of congestion found at one moment.
#[derive(Clone, Copy, Debug)]
pub struct CongestionEvent {
    /// Which signal.
    pub cause: Cause,
    /// Bytes declared lost, 0 for marks.
    pub bytes_lost: u64,
    /// When the newest packet concerned was sent. Several events of one window count once.
    pub largest_lost_sent_at: Instant,
    /// Persistent congestion: nothing arrived for so long that the path must be presumed changed
    /// (RFC 9002 7.6).
    pub persistent: bool,
    /// Bytes still in flight.
    pub in_flight: u64,
    /// The losses of the event before may still prove spurious. If the losses of all overlapping
    /// events do, the reactions to these events are undone together.
    pub overlaps: bool,
}

/// Decides the congestion window of one connection.
///
/// Every call is O(1), does not block and allocates nothing. Given the same calls, every controller
/// must decide the same on every machine. After any calls in any order its window is at least two
/// packets and at most 2^36 bytes, and its pace more than 0. It does not grow while the window is
/// not in use (`AckSample::is_in_use`).
pub trait Controller: Send + Debug {
    /// Notes that a packet of `bytes` that counts towards the window was sent; `in_flight` includes
    /// it.
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64);
    /// Handles acknowledged packets.
    fn on_ack(&mut self, now: Instant, sample: &AckSample<'_>);
    /// Handles a sign of congestion.
    fn on_congestion(&mut self, now: Instant, event: &CongestionEvent);
    /// Undoes the reactions to the last event and to those that it overlaps: their losses proved
    /// spurious. Does nothing if there are none.
    fn on_spurious(&mut self, now: Instant);
    /// Starts as on an unknown path, with the initial window or `most` bytes, if that is less, but
    /// at least the least window.
    fn restart(&mut self, mtu: usize, most: u64);
    /// Forgets everything learnt, since the path changed.
    fn on_path_changed(&mut self, mtu: usize) {
        self.restart(mtu, u64::MAX);
    }
    /// Handles a new packet size on the same path. `mtu` is in bytes of UDP payload.
    fn on_mtu(&mut self, mtu: usize);
    /// Returns the bytes that may be in flight.
    fn window(&self) -> u64;
    /// Returns the bytes per second at which to spread the window. `None` means no pacing: the
    /// round trip is unknown, or the controller does not pace. The caller may send more slowly:
    /// while the window is not the limit, a recent delivery rate bounds the pace (RFC 7661).
    fn pacing_rate(&self, rtt: &Rtt) -> Option<u64>;
    /// Returns its name in statistics.
    fn name(&self) -> &'static str;
}

/// Returns the initial window of RFC 6928 section 2, in bytes: ten packets. As in Linux these may
/// be jumbo frames, of which the RFC would allow two: a network that carries them is faster than
/// the RFC assumes. Two packets if they are larger still.
pub fn initial_window(mtu: usize) -> f64 {
    let most = if mtu > ETHERNET_MTU {
        89_720.0
    } else {
        14_600.0
    };
    let mtu = mtu.max(1) as f64;
    (10.0 * mtu).min((2.0 * mtu).max(most))
}

/// Returns the pace, in bytes per second, that sends `percent` percent of `window` in each round
/// trip of the path. Returns `None` while no round trip is measured.
pub(super) fn pace(window: u64, rtt: &Rtt, percent: u64) -> Option<u64> {
    if !rtt.has_sample() {
        return None;
    }
    let (hundreds, rest) = (window / 100, window % 100);
    let window = hundreds
        .saturating_mul(percent)
        .saturating_add(rest * percent / 100);
    Some(per_second(window, rtt.path()).max(1))
}
