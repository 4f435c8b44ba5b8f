//! A set of `u64` offsets kept as sorted, disjoint, non-adjacent half-open ranges.
//!
//! Reassembly keeps the bytes that arrived, retransmission the bytes that were lost. Most sets
//! never have more than one span, which needs no memory of its own. In other sets almost all
//! operations append at the end or remove at the front, so the spans are in a ring buffer: these
//! two cost O(1), all others a binary search and one shift. A tree was rejected: the owner bounds
//! the number of spans anyway (F04), and for a few hundred a flat array is faster and smaller.

use core::ops::Range;
use std::collections::VecDeque;

/// A set of offsets below `u64::MAX`, as ranges.
///
/// Ranges that are empty or reversed are the empty set wherever one is passed. A peer that chooses
/// the ranges decides how many spans there are: the owner must bound
/// [`span_count`](Self::span_count).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// The lowest span; empty if the set is.
    front: Span,
    /// The others: sorted; each non-empty; each ends before the next one starts.
    spans: VecDeque<Span>,
    /// Sum of the spans' lengths. At most `u64::MAX`, as spans are disjoint.
    covered: u64,
}

/// One maximal run of offsets, `start < end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    start: u64,
    end: u64,
}

impl Span {
    /// The empty span.
    const EMPTY: Self = Self { start: 0, end: 0 };

    fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    fn range(self) -> Range<u64> {
        self.start..self.end
    }
}

impl RangeSet {
    /// Returns the empty set; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            front: Span::EMPTY,
            spans: VecDeque::new(),
            covered: 0,
        }
    }

    /// Adds `range`. Returns how many of its offsets were not there before.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        if self.is_empty() {
            (self.front.start, self.front.end) = (range.start, range.end);
            self.covered = self.front.len();
            return self.covered;
        }
        let last = self.spans.back_mut().unwrap_or(&mut self.front);
        if last.start <= range.start && range.start <= last.end {
            // The usual case: in order, at the end.
            let added = range.end.saturating_sub(last.end);
            last.end = last.end.max(range.end);
            self.covered = self.covered.saturating_add(added);
            return added;
        }
        self.among_all(|set| set.insert_anywhere(range))
    }

    /// Runs `act` while all spans are in the ring.
    fn among_all(&mut self, act: impl FnOnce(&mut Self) -> u64) -> u64 {
        if self.spans.capacity() == 0 {
            // Few sets have more than two.
            self.spans.reserve_exact(2);
        }
        if !self.is_empty() {
            self.spans.push_front(self.front);
        }
        let changed = act(self);
        self.front = self.spans.pop_front().unwrap_or_default();
        changed
    }

    fn insert_anywhere(&mut self, range: Range<u64>) -> u64 {
        // All spans that overlap or touch the new range become one.
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

    /// Removes `range`. Returns how many of its offsets were there.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        if !self.intersects(range.clone()) {
            return 0;
        }
        if range.start <= self.front.start && range.end <= self.front.end {
            // The usual case: in order, at the front.
            let removed = range.end.saturating_sub(self.front.start);
            self.pop_front(removed);
            return removed;
        }
        self.among_all(|set| set.remove_anywhere(range))
    }

    fn remove_anywhere(&mut self, range: Range<u64>) -> u64 {
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

    /// Returns true if `offset` is in the set.
    #[must_use]
    pub fn contains(&self, offset: u64) -> bool {
        self.span_at(offset).is_some()
    }

    /// Returns true if all of `range` is in the set; true for an empty range.
    #[must_use]
    pub fn covers(&self, range: Range<u64>) -> bool {
        range.is_empty()
            || self
                .span_at(range.start)
                .is_some_and(|span| range.end <= span.end)
    }

    /// Returns the span that `offset` is in.
    #[must_use]
    pub fn span(&self, offset: u64) -> Option<Range<u64>> {
        self.span_at(offset).map(|span| span.range())
    }

    /// Returns true if any of `range` is in the set; false for an empty range.
    #[must_use]
    pub fn intersects(&self, range: Range<u64>) -> bool {
        let next = self.ending_beyond(range.start);
        !range.is_empty() && next.is_some_and(|span| span.start < range.end)
    }

    /// Returns the beginning of the first span that ends beyond `offset`; `offset` may lie in it.
    #[must_use]
    pub fn next_start(&self, offset: u64) -> Option<u64> {
        self.ending_beyond(offset).map(|span| span.start)
    }

    /// Returns the lowest span.
    #[must_use]
    pub fn first(&self) -> Option<Range<u64>> {
        (!self.is_empty()).then(|| self.front.range())
    }

    /// Returns the highest span.
    #[must_use]
    pub fn last(&self) -> Option<Range<u64>> {
        let last = self.spans.back().map(|span| span.range());
        last.or_else(|| self.first())
    }

    /// Returns the spans in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + Clone {
        let others = self.spans.iter().map(|span| span.range());
        self.first().into_iter().chain(others)
    }

    /// Returns the spans that `range` overlaps, in ascending order. It does not iterate over other
    /// spans, of which a peer may have made thousands.
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let from = (self.spans).partition_point(|span| span.end <= range.start);
        let to = match range.is_empty() {
            false => (self.spans).partition_point(|span| span.start < range.end),
            true => from,
        };
        let others = self.spans.range(from..to);
        let front = (self.first()).filter(|front| {
            !range.is_empty() && front.start < range.end && range.start < front.end
        });
        front.into_iter().chain(others.map(|span| span.range()))
    }

    /// Returns how many offsets are in the set.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.covered
    }

    /// Returns true if nothing is in the set.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.covered == 0
    }

    /// Returns how many separate spans the set needs: its memory, in units of 16 bytes.
    #[must_use]
    pub fn span_count(&self) -> usize {
        self.spans
            .len()
            .saturating_add(usize::from(!self.is_empty()))
    }

    /// Takes the lowest span out, or its first `max_len` offsets if it is longer. None if the set
    /// is empty or `max_len` is 0.
    pub fn pop_front(&mut self, max_len: u64) -> Option<Range<u64>> {
        if max_len == 0 || self.is_empty() {
            return None;
        }
        let Span { start, end } = self.front;
        let end = end.min(start.saturating_add(max_len));
        if end == self.front.end {
            self.front = self.spans.pop_front().unwrap_or_default();
        } else {
            self.front.start = end;
        }
        self.covered = self.covered.saturating_sub(end.saturating_sub(start));
        Some(start..end)
    }

    /// Empties the set and keeps its memory.
    pub fn clear(&mut self) {
        self.front = Span::EMPTY;
        self.spans.clear();
        self.covered = 0;
    }

    /// Returns the lowest span that ends beyond `offset`.
    fn ending_beyond(&self, offset: u64) -> Option<&Span> {
        if offset < self.front.end {
            return Some(&self.front);
        }
        // The usual case, if any.
        if self.spans.back()?.end <= offset {
            return None;
        }
        let next = self.spans.partition_point(|span| span.end <= offset);
        self.spans.get(next)
    }

    fn span_at(&self, offset: u64) -> Option<&Span> {
        self.ending_beyond(offset)
            .filter(|span| span.start <= offset)
    }

    /// Puts up to two spans where those of `old` were, reusing their positions.
    fn replace(&mut self, old: Range<usize>, new: [Option<Span>; 2]) {
        let mut index = old.start;
        for span in new.into_iter().flatten() {
            match self.spans.get_mut(index).filter(|_| index < old.end) {
                Some(slot) => *slot = span,
                None => self.spans.insert(index, span),
            }
            index = index.saturating_add(1);
        }
        if index < old.end {
            self.spans.drain(index..old.end);
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

#[doc(hidden)]
impl RangeSet {
    /// Returns the bytes allocated.
    #[must_use]
    pub fn heap(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }
}

#[cfg(test)]
mod tests;
