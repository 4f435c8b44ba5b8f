//! Where callers come from: the network prefix of an address, and how many strangers of each are
//! expected.

use std::net::IpAddr;

/// Counters of prefixes. Two prefixes may share a counter: then their callers are counted together.
/// The hash that chooses the counter is keyed, so nobody can choose a prefix to be counted with.
const COUNTERS: usize = 1 << 10;

/// The part of a source address that one sender holds: an IPv4 address, or the upper 64 bits of an
/// IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SourcePrefix(u64);

impl From<IpAddr> for SourcePrefix {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self(v4.to_bits().into()),
            IpAddr::V6(v6) => Self((v6.to_bits() >> 64) as u64),
        }
    }
}

impl SourcePrefix {
    pub(super) fn bits(self) -> u64 {
        self.0
    }
}

/// How many callers of each prefix were answered in the current period and in the one before.
#[derive(Debug)]
pub(super) struct SourceCounts {
    period: u64,
    recent: [Box<[u32]>; 2],
}

impl SourceCounts {
    pub(super) fn new() -> Self {
        let counters = || vec![0; COUNTERS].into_boxed_slice();
        Self {
            period: 0,
            recent: [counters(), counters()],
        }
    }

    fn advance(&mut self, period: u64) {
        let passed = period.saturating_sub(self.period);
        if passed == 1 {
            self.recent.swap(0, 1);
        }
        for old in self.recent.iter_mut().take(passed.min(2) as usize) {
            old.fill(0);
        }
        self.period = self.period.max(period);
    }

    /// Returns how many callers are counted under the hash `source`.
    pub(super) fn count(&mut self, period: u64, source: u64) -> u64 {
        self.advance(period);
        let counted = |counts: &[u32]| counts.get(slot(source)).copied().unwrap_or(0);
        let [current, previous] = &self.recent;
        u64::from(counted(current)) + u64::from(counted(previous))
    }

    /// Counts one more caller.
    pub(super) fn add(&mut self, period: u64, source: u64) {
        self.advance(period);
        self.change(0, source, |count| count.saturating_add(1));
    }

    /// Counts one caller less: one of the current period (`ago` is 0) or of the one before (1).
    pub(super) fn remove(&mut self, period: u64, ago: usize, source: u64) {
        self.advance(period);
        self.change(ago, source, |count| count.saturating_sub(1));
    }

    fn change(&mut self, ago: usize, source: u64, change: impl FnOnce(u32) -> u32) {
        let counts = self.recent.get_mut(ago);
        if let Some(count) = counts.and_then(|counts| counts.get_mut(slot(source))) {
            *count = change(*count);
        }
    }
}

fn slot(source: u64) -> usize {
    source as usize % COUNTERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_holds_an_address_or_64_bits_of_one() {
        let prefix = |text: &str| SourcePrefix::from(text.parse::<IpAddr>().unwrap());
        assert_ne!(prefix("10.0.0.1"), prefix("10.0.0.2"));
        assert_eq!(prefix("::ffff:10.0.0.1"), prefix("10.0.0.1"));
        assert_eq!(prefix("2001:db8::1"), prefix("2001:db8::ffff:0:0:1"));
        assert_ne!(prefix("2001:db8::1"), prefix("2001:db8:0:1::1"));
    }

    #[test]
    fn callers_are_counted_for_two_periods() {
        let mut counts = SourceCounts::new();
        counts.add(5, 7);
        counts.add(6, 7);
        counts.add(6, 8);
        assert_eq!((counts.count(6, 7), counts.count(6, 8)), (2, 1));
        counts.remove(6, 1, 7);
        assert_eq!(counts.count(6, 7), 1);
        assert_eq!((counts.count(7, 7), counts.count(8, 7)), (1, 0));
        counts.add(8, 7);
        assert_eq!(counts.count(100, 7), 0);
    }
}
