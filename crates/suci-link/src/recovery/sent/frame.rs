//! The content of a sent packet, as far as its loss or acknowledgement has consequences.

use core::fmt::Debug;
use core::ops::Range;

/// A part of a packet's content that must be repeated if the packet is lost, or completed when it
/// is acknowledged. Its owner gives this small token of it, and gets it back with the packet's
/// fate.
pub trait Content: Copy + Debug + PartialEq {
    /// Extends this part to the end of `next`, if `next` begins where it ends. Returns true if it
    /// did.
    fn adjoin(&mut self, _next: &Self) -> bool {
        false
    }

    /// Returns the bytes of a part that several packets may carry in equal pieces; 0 of any other.
    fn divisible(&self) -> u64 {
        0
    }

    /// Returns the piece with this range of the [`divisible`](Self::divisible) bytes.
    #[must_use]
    fn piece(&self, _bytes: Range<u64>) -> Self {
        *self
    }

    /// Returns true if probes repeat it.
    fn is_repeated(&self) -> bool {
        true
    }
}

/// The kind of a sent packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentKind {
    /// The peer must acknowledge the packet. It counts as in flight and is watched by timers.
    pub eliciting: bool,
    /// The packet probes the path: a packet size or ECN marks. Its loss is no sign of congestion.
    pub path_probe: bool,
    /// The packet is eliciting and was sent outside the congestion window. Such packets have their
    /// own bound, [`MAX_CONTROL`](super::MAX_CONTROL).
    pub control: bool,
}
