//! What recovery tells: of each packet to a [`Sink`], of all together in summaries.

use super::SentFrame;
use crate::time::{Duration, Instant, per_second};
use crate::types::PacketNumber;
use core::ops::RangeInclusive;

/// Who wants to know what became of the frames of packets, of one alone or of several in a row of
/// which each carried the next piece of one message: these are one frame.
///
/// A packet may be reported lost and later acknowledged (it was late): the repetition is
/// then needless, and `acked` says so. Nothing is reported acknowledged twice, or lost after
/// it was acknowledged.
pub trait Sink {
    /// The peer has these packets.
    fn acked(&mut self, numbers: RangeInclusive<PacketNumber>, frames: &[SentFrame]);
    /// Repeat what these eliciting packets carried. Packets that elicit nothing are never lost. A
    /// packet that was repeated by a probe may be reported once more.
    fn lost(&mut self, numbers: RangeInclusive<PacketNumber>, frames: &[SentFrame]);
}

/// How fast the path delivered, for model-based controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes the peer received while the newest acknowledged packet was under way.
    pub delivered: u64,
    /// In this time; never zero.
    pub interval: Duration,
    /// The sender had less to send than it might when that packet left: the path may carry more.
    pub app_limited: bool,
}

impl RateSample {
    /// Bytes per second.
    #[must_use]
    pub fn per_second(&self) -> u64 {
        per_second(self.delivered, self.interval)
    }
}

/// What one acknowledgement brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckSummary {
    /// Bytes that were in flight and are acknowledged now.
    pub newly_acked_bytes: u64,
    /// Eliciting packets that were in flight and are acknowledged now.
    pub newly_acked_packets: u32,
    /// When the newest packet newly acknowledged was sent, whatever its kind.
    pub largest_newly_acked_sent_at: Option<Instant>,
    /// What the newest packet and its acknowledgement spent on the path, if that was measured.
    pub path_sample: Option<Duration>,
    /// The delivery rate measured.
    pub rate: Option<RateSample>,
    /// Packets declared lost by a threshold that were acknowledged now.
    pub spurious: u32,
    /// Size of the largest eliciting packet acknowledged now, 0 if there was none.
    pub largest_acked_size: usize,
    /// Size of the largest MTU probe acknowledged now.
    pub mtu_probe_acked: Option<usize>,
    /// What this acknowledgement showed to be lost.
    pub lost: LossSummary,
}

/// What was declared lost at one moment. MTU probes count nowhere but in their own field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossSummary {
    /// Their bytes.
    pub bytes: u64,
    /// How many packets.
    pub packets: u32,
    /// Size of the largest of them, 0 if there was none.
    pub largest_size: usize,
    /// When the newest of them was sent.
    pub largest_lost_sent_at: Option<Instant>,
    /// Whether they span three probe timeouts without a sign of life (RFC 9002 7.6).
    pub persistent: bool,
    /// Size of the smallest MTU probe lost.
    pub mtu_probe_lost: Option<usize>,
}

/// What to do after [`Recovery::on_timeout`](super::Recovery::on_timeout).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerAction {
    /// Nothing was due.
    None,
    /// Packets were declared lost and reported to the sink.
    LossesDeclared(LossSummary),
    /// Silence: send this many eliciting packets, whatever the congestion window says.
    Probe {
        /// 1 or 2.
        count: u32,
    },
}
