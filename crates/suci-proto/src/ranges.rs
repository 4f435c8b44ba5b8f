//! A set of `u64` offsets kept as sorted, disjoint, non-adjacent half-open ranges.
//!
//! Reassembly keeps the bytes it has, retransmission the bytes it owes. Both see almost
//! only appends at the end and removals at the front, so the spans live in a ring buffer:
//! those two cost O(1), anything else a binary search and one shift. A tree was rejected:
//! the owner caps the number of spans anyway (F04), and for a few hundred a flat array is
//! faster and smaller.

use core::ops::Range;
use std::collections::VecDeque;

/// A set of offsets below `u64::MAX`, as ranges.
///
/// Ranges that are empty or reversed are the empty set wherever one is passed. A peer that
/// chooses the ranges decides how many spans there are: the owner must bound
/// [`span_count`](Self::span_count).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Sorted; each non-empty; each ends before the next one starts.
    spans: VecDeque<Span>,
    /// Sum of the spans' lengths. At most `u64::MAX`, as spans are disjoint.
    covered: u64,
}

/// One maximal run of offsets, `start < end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u64,
    end: u64,
}

impl Span {
    fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

impl RangeSet {
    /// The empty set; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            spans: VecDeque::new(),
            covered: 0,
        }
    }

    /// Adds `range` and says how many of its offsets were not there before.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        if let Some(last) = self.spans.back_mut()
            && last.start <= range.start
            && range.start <= last.end
        {
            // The usual case: in order, at the end.
            let added = range.end.saturating_sub(last.end);
            last.end = last.end.max(range.end);
            self.covered = self.covered.saturating_add(added);
            return added;
        }
        if self.spans.capacity() == 0 {
            // Most sets never have more.
            self.spans.reserve_exact(1);
        }
        // Everything that overlaps or touches the new range melts into one span.
        let from = self.spans.partition_point(|span| span.end < range.start);
        let to = self.spans.partition_point(|span| span.start <= range.end);
        let mut merged = Span {
            start: range.start,
            end: range.end,
        };
        let mut absorbed = 0_u64;
        for span in self.spans.range(from..to) {
            merged.start = merged.start.min(span.start);
            merged.end = merged.end.max(span.end);
            absorbed = absorbed.saturating_add(span.len());
        }
        self.replace(from..to, [Some(merged), None]);
        let added = merged.len().saturating_sub(absorbed);
        self.covered = self.covered.saturating_add(added);
        added
    }

    /// Takes `range` out and says how many of its offsets were there.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let from = self.spans.partition_point(|span| span.end <= range.start);
        let to = self.spans.partition_point(|span| span.start < range.end);
        let mut removed = 0_u64;
        let (mut left, mut right) = (None, None);
        for span in self.spans.range(from..to) {
            let (start, end) = (span.start.max(range.start), span.end.min(range.end));
            removed = removed.saturating_add(end.saturating_sub(start));
            if span.start < range.start {
                left = Some(Span {
                    start: span.start,
                    end: range.start,
                });
            }
            if span.end > range.end {
                right = Some(Span {
                    start: range.end,
                    end: span.end,
                });
            }
        }
        self.replace(from..to, [left, right]);
        self.covered = self.covered.saturating_sub(removed);
        removed
    }

    /// Whether `offset` is in the set.
    #[must_use]
    pub fn contains(&self, offset: u64) -> bool {
        self.span_at(offset).is_some()
    }

    /// Whether all of `range` is in the set; true for an empty range.
    #[must_use]
    pub fn covers(&self, range: Range<u64>) -> bool {
        range.is_empty()
            || self
                .span_at(range.start)
                .is_some_and(|span| range.end <= span.end)
    }

    /// Whether any of `range` is in the set; false for an empty range.
    #[must_use]
    pub fn intersects(&self, range: Range<u64>) -> bool {
        let next = self.spans.partition_point(|span| span.end <= range.start);
        !range.is_empty()
            && self
                .spans
                .get(next)
                .is_some_and(|span| span.start < range.end)
    }

    /// Where the first span begins that ends beyond `offset`, which may lie in it.
    #[must_use]
    pub fn next_start(&self, offset: u64) -> Option<u64> {
        if self.spans.back()?.end <= offset {
            // The usual case.
            return None;
        }
        let next = self.spans.partition_point(|span| span.end <= offset);
        self.spans.get(next).map(|span| span.start)
    }

    /// The lowest span.
    #[must_use]
    pub fn first(&self) -> Option<Range<u64>> {
        self.spans.front().map(|span| span.start..span.end)
    }

    /// The highest span.
    #[must_use]
    pub fn last(&self) -> Option<Range<u64>> {
        self.spans.back().map(|span| span.start..span.end)
    }

    /// The spans in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + ExactSizeIterator + Clone {
        self.spans.iter().map(|span| span.start..span.end)
    }

    /// How many offsets are in the set.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.covered
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.covered == 0
    }

    /// How many separate spans the set needs: its memory, in units of 16 bytes.
    #[must_use]
    pub fn span_count(&self) -> usize {
        self.spans.len()
    }

    /// Takes the lowest span out, or its first `max_len` offsets if it is longer.
    /// None if the set is empty or `max_len` is 0.
    pub fn pop_front(&mut self, max_len: u64) -> Option<Range<u64>> {
        if max_len == 0 {
            return None;
        }
        let first = self.spans.front_mut()?;
        let start = first.start;
        let end = first.end.min(start.saturating_add(max_len));
        if end == first.end {
            self.spans.pop_front();
        } else {
            first.start = end;
        }
        self.covered = self.covered.saturating_sub(end.saturating_sub(start));
        Some(start..end)
    }

    /// Empties the set and keeps its memory.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.covered = 0;
    }

    fn span_at(&self, offset: u64) -> Option<&Span> {
        let next = self.spans.partition_point(|span| span.end <= offset);
        self.spans.get(next).filter(|span| span.start <= offset)
    }

    /// Puts up to two spans where those of `old` were, reusing their places.
    fn replace(&mut self, old: Range<usize>, new: [Option<Span>; 2]) {
        let mut place = old.start;
        for span in new.into_iter().flatten() {
            match self.spans.get_mut(place).filter(|_| place < old.end) {
                Some(slot) => *slot = span,
                None => self.spans.insert(place, span),
            }
            place = place.saturating_add(1);
        }
        if place < old.end {
            self.spans.drain(place..old.end);
        }
    }
}

impl FromIterator<Range<u64>> for RangeSet {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut set = Self::new();
        for range in ranges {
            set.insert(range);
        }
        set
    }
}

#[cfg(test)]
impl RangeSet {
    /// Bytes allocated.
    pub(crate) fn heap(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }
}

#[cfg(test)]
mod tests;
