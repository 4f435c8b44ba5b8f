//! Random choices of a member. They need not be secret.

use core::time::Duration;
use suci_proto::time::nanos;

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a number below `count`; 0 if that is 0.
    pub(super) fn below(&mut self, count: usize) -> usize {
        let index = self.next().checked_rem(count as u64).unwrap_or(0);
        usize::try_from(index).unwrap_or(0)
    }

    /// Returns between three and five quarters of `time`, so that members that began together do
    /// not stay in step.
    pub(super) fn around(&mut self, time: Duration) -> Duration {
        let span = nanos(time);
        let extra = self.next().checked_rem(span / 2 + 1).unwrap_or(0);
        Duration::from_nanos(span / 4 * 3 + extra)
    }
}
