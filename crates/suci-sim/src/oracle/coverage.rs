//! The bytes of a message that went by.

/// A set of byte ranges of one message of known length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Coverage {
    /// No byte.
    #[default]
    Nothing,
    /// Some: disjoint, ascending, half-open.
    Some(Vec<(u64, u64)>),
    /// Everything.
    Whole,
}

impl Coverage {
    /// Adds `start..end` of a message of `length` bytes. A message of no bytes is whole as soon as
    /// it is mentioned.
    pub fn add(&mut self, start: u64, end: u64, length: u64) {
        if *self == Self::Whole {
            return;
        }
        if start == 0 && end >= length {
            *self = Self::Whole;
            return;
        }
        let mut ranges = match core::mem::take(self) {
            Self::Some(ranges) => ranges,
            Self::Nothing | Self::Whole => Vec::new(),
        };
        let from = ranges.partition_point(|range| range.1 < start);
        let to = ranges.partition_point(|range| range.0 <= end);
        let mut joined = (start, end);
        for range in ranges.drain(from..to) {
            joined = (joined.0.min(range.0), joined.1.max(range.1));
        }
        ranges.insert(from, joined);
        *self = match ranges.as_slice() {
            [(0, last)] if *last >= length => Self::Whole,
            _ => Self::Some(ranges),
        };
    }

    /// Returns the number of bytes, of a message of `length` bytes, that went by.
    #[must_use]
    pub fn bytes(&self, length: u64) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Some(ranges) => ranges.iter().map(|(start, end)| end - start).sum(),
            Self::Whole => length,
        }
    }

    /// Returns true if every byte went by.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_any_order_make_the_whole() {
        let mut seen = Coverage::default();
        for (start, end) in [(6, 9), (0, 2), (2, 4), (3, 5)] {
            seen.add(start, end, 9);
            assert!(!seen.is_whole());
        }
        assert_eq!(seen, Coverage::Some(vec![(0, 5), (6, 9)]));
        assert_eq!(seen.bytes(9), 8);
        seen.add(5, 6, 9);
        assert!(seen.is_whole());
    }

    #[test]
    fn an_empty_message_is_whole_when_mentioned() {
        let mut seen = Coverage::default();
        seen.add(0, 0, 0);
        assert!(seen.is_whole());
    }
}
