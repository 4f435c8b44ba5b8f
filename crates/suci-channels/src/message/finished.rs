//! Channel numbers that are not used again in a session.

use std::collections::BTreeMap;
use suci_link::types::ChannelId;

/// A set of channel numbers, stored as ranges. Each number that a peer adds costs one operation on
/// the tree. The owner bounds [`ranges`](Self::ranges).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// The last number of each range, by its first number. Ranges do not touch.
    ranges: BTreeMap<u32, u32>,
}

impl Finished {
    /// Adds a number.
    pub fn insert(&mut self, channel: ChannelId) {
        let ChannelId(number) = channel;
        if self.contains(channel) {
            return;
        }
        let (mut first, mut last) = (number, number);
        if let Some((&below, end)) = self.ranges.range_mut(..number).next_back()
            && end.checked_add(1) == Some(number)
        {
            *end = number;
            first = below;
        }
        if let Some(next) = number.checked_add(1)
            && let Some(end) = self.ranges.remove(&next)
        {
            last = end;
        }
        self.ranges.insert(first, last);
    }

    /// Returns true if the set contains a number.
    #[must_use]
    pub fn contains(&self, channel: ChannelId) -> bool {
        let below = self.ranges.range(..=channel.0).next_back();
        below.is_some_and(|(_, last)| *last >= channel.0)
    }

    /// Removes the lowest number and returns it.
    pub fn pop_first(&mut self) -> Option<ChannelId> {
        let (first, last) = self.ranges.pop_first()?;
        if let Some(next) = first.checked_add(1).filter(|next| *next <= last) {
            self.ranges.insert(next, last);
        }
        Some(ChannelId(first))
    }

    /// Removes the lowest range.
    pub fn pop_first_range(&mut self) {
        self.ranges.pop_first();
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the number of ranges.
    #[must_use]
    pub fn ranges(&self) -> usize {
        self.ranges.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set(numbers: &[u32]) -> Finished {
        let mut set = Finished::default();
        numbers.iter().for_each(|n| set.insert(ChannelId(*n)));
        set
    }

    #[test]
    fn numbers_that_go_up_are_one_range() {
        let up: Vec<u32> = (5..10_000).collect();
        assert_eq!(set(&up).ranges(), 1);
        assert_eq!(set(&[0, u32::MAX, u32::MAX - 1]).ranges(), 2);
    }

    proptest! {
        #[test]
        fn it_holds_what_was_added(numbers in prop::collection::vec(0_u32..60, 0..80)) {
            let mut finished = set(&numbers);
            let mut model: BTreeSet<u32> = numbers.into_iter().collect();
            for number in 0..64 {
                prop_assert_eq!(finished.contains(ChannelId(number)), model.contains(&number));
            }
            let gaps = model.iter().filter(|n| !model.contains(&(**n + 1))).count();
            prop_assert_eq!(finished.ranges(), gaps);
            while let Some(ChannelId(first)) = finished.pop_first() {
                prop_assert_eq!(Some(first), model.pop_first());
            }
            prop_assert!(model.is_empty() && finished.is_empty());
        }
    }
}
