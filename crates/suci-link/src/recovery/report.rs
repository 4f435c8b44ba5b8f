//! The reports of loss recovery: each packet to a [`Sink`], sums in summaries.

use crate::time::{Duration, Instant, per_second};
use crate::types::PacketNumber;
use core::ops::RangeInclusive;

/// Receives the fate of packets' frames. A call covers one packet, or several consecutive packets
/// of which each carried the next piece of one message; the pieces are one frame.
///
/// A packet may be reported lost and later acknowledged, if it was late. The repetition is then
/// unnecessary. No packet is reported acknowledged twice, or lost after it was acknowledged.
pub trait Sink<T> {
    /// Reports packets that the peer acknowledged.
    fn acked(&mut self, numbers: RangeInclusive<PacketNumber>, frames: &[T]);
    /// Reports eliciting packets whose content must be repeated. Other packets are never reported
    /// here. If a probe repeated a packet, it may be reported once more.
    fn lost(&mut self, numbers: RangeInclusive<PacketNumber>, frames: &[T]);
}

/// A sample of the path's delivery rate, for model-based controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes that the peer received while the newest acknowledged packet was in flight.
    pub delivered: u64,
    /// The duration of the sample; never zero.
    pub interval: Duration,
    /// The sender had less data than it was allowed to send when that packet left, so the path may
    /// carry more.
    pub app_limited: bool,
}

impl RateSample {
    /// Returns the rate in bytes per second.
    #[must_use]
    pub fn per_second(&self) -> u64 {
        per_second(self.delivered, self.interval)
    }
}

/// The consequences of one acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckSummary {
    /// Bytes of packets in flight that it acknowledged.
    pub newly_acked_bytes: u64,
    /// Number of eliciting packets in flight that it acknowledged.
    pub newly_acked_packets: u32,
    /// Time at which the newest newly acknowledged packet of any kind was sent.
    pub largest_newly_acked_sent_at: Option<Instant>,
    /// Time that the newest packet and its acknowledgement spent on the path, if it was measured.
    pub path_sample: Option<Duration>,
    /// The sample of the delivery rate, if there is one.
    pub rate: Option<RateSample>,
    /// Number of packets that a threshold declared lost and that were acknowledged now.
    pub spurious: u32,
    /// Size of the largest eliciting packet acknowledged now, 0 if there was none.
    pub largest_acked_size: usize,
    /// Size of the largest MTU probe acknowledged now.
    pub mtu_probe_acked: Option<usize>,
    /// The packets that this acknowledgement caused to be declared lost.
    pub lost: LossSummary,
}

/// The packets declared lost at one moment. MTU probes count only in their own field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossSummary {
    /// Bytes of the lost packets.
    pub bytes: u64,
    /// Number of lost packets.
    pub packets: u32,
    /// Size of the largest lost packet, 0 if there was none.
    pub largest_size: usize,
    /// Time at which the newest lost packet was sent.
    pub largest_lost_sent_at: Option<Instant>,
    /// The losses are persistent congestion: they span three probe timeouts without an
    /// acknowledgement (RFC 9002 7.6).
    pub persistent: bool,
    /// Size of the smallest MTU probe lost.
    pub mtu_probe_lost: Option<usize>,
}

/// The action that the caller must take after
/// [`Recovery::on_timeout`](super::Recovery::on_timeout).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerAction {
    /// Nothing was due.
    None,
    /// Packets were declared lost and reported to the sink.
    LossesDeclared(LossSummary),
    /// The peer is silent: send this many eliciting packets, whatever the congestion window says.
    Probe {
        /// 1 or 2.
        count: u32,
    },
}
