//! The received packet numbers of which the sender may not know.

use crate::limits::MAX_TRACKED_RANGES;
use crate::types::PacketNumber;
use core::ops::RangeInclusive;
use std::collections::VecDeque;

/// Consecutive numbers, both ends included, so that the highest possible number needs no special
/// case.
#[derive(Clone, Copy, Debug)]
struct ReceivedSpan {
    start: PacketNumber,
    end: PacketNumber,
    /// Only ACK frames that reach at least this number are sure to contain the whole span: a late
    /// packet filled a hole in it when the highest number was one below this.
    told_from: PacketNumber,
    /// An ACK frame contained the whole span. Never true of the last span, which grows.
    told: bool,
}

/// The spans that an ACK frame has room for: the number told before, and the number of others.
struct Places {
    told: usize,
    untold: usize,
}

impl Places {
    /// Takes a place for the next span. Returns whether there was one.
    const fn take(&mut self, told: bool) -> bool {
        let left = if told {
            &mut self.told
        } else {
            &mut self.untold
        };
        let found = *left > 0;
        *left = left.saturating_sub(1);
        found
    }
}

/// Disjoint, non-adjacent spans in ascending order, at most [`MAX_TRACKED_RANGES`]. The last one
/// holds the highest number received and is never forgotten.
#[derive(Debug, Default)]
pub(super) struct Spans(VecDeque<ReceivedSpan>);

impl Spans {
    /// Forgets all spans but the last, and gives their memory back.
    pub(super) fn shrink(&mut self) {
        self.0.drain(..self.0.len().saturating_sub(1));
        self.0.shrink_to_fit();
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn highest(&self) -> Option<PacketNumber> {
        self.0.back().map(|span| span.end)
    }

    /// Returns the ranges for an ACK frame with at most `most` of them, the newest first. It
    /// chooses the highest span, then spans that changed since they were last told, then others. If
    /// more than `most` packets are late at a time, the newest ranges alone would never report an
    /// older packet that arrived.
    pub(super) fn to_tell(
        &self,
        most: usize,
    ) -> impl Iterator<Item = RangeInclusive<PacketNumber>> + '_ {
        let mut places = self.places(most);
        let chosen = self
            .0
            .iter()
            .rev()
            .filter(move |span| places.take(span.told));
        chosen.map(|span| span.start..=span.end)
    }

    /// Notes that the first `count` spans of [`to_tell`](Self::to_tell) are in an ACK frame now.
    pub(super) fn on_told(&mut self, most: usize, count: usize) {
        if self.0.len() < 2 {
            return;
        }
        let next = self.highest().map_or(0, |last| last.saturating_add(1));
        let (mut places, mut left, mut is_last) = (self.places(most), count, true);
        for span in self.0.iter_mut().rev() {
            if places.take(span.told) && left > 0 {
                left = left.saturating_sub(1);
                span.told = !is_last;
            } else {
                span.told_from = next;
            }
            is_last = false;
        }
    }

    fn places(&self, most: usize) -> Places {
        if self.0.len() <= most {
            return Places {
                told: most,
                untold: most,
            };
        }
        let untold = self.0.iter().filter(|span| !span.told).count().min(most);
        Places {
            told: most.saturating_sub(untold),
            untold,
        }
    }

    /// Adds the numbers `first..=last`, none of which was added before. In order it costs O(1) and
    /// allocates nothing; otherwise it shifts at most all spans.
    #[inline]
    pub(super) fn insert(&mut self, first: PacketNumber, last: PacketNumber) {
        match self.0.back_mut() {
            Some(newest) if newest.end.checked_add(1) == Some(first) => newest.end = last,
            Some(newest) if first < newest.end => {
                let told_from = newest.end.saturating_add(1);
                self.insert_late(first, last, told_from);
            }
            _ => self.0.push_back(ReceivedSpan {
                start: first,
                end: last,
                told_from: first,
                told: false,
            }),
        }
        if self.0.len() > MAX_TRACKED_RANGES {
            self.0.pop_front();
        }
    }

    /// Adds numbers below the highest: to the span below, to the span above, as a span between, or
    /// as the link that makes both one.
    #[inline(never)]
    fn insert_late(&mut self, first: PacketNumber, last: PacketNumber, told_from: PacketNumber) {
        let at = self.0.partition_point(|span| span.start < first);
        let start_above = self.0.get(at).map(|span| span.start);
        let joins_above = start_above.is_some() && start_above == last.checked_add(1);
        let below = at.checked_sub(1).and_then(|below| self.0.get_mut(below));
        match below.filter(|below| below.end.checked_add(1) == Some(first)) {
            Some(below) => {
                below.told_from = told_from;
                below.told = false;
                below.end = last;
                if joins_above && let Some(above) = self.0.remove(at) {
                    self.extend(at, above.end);
                }
            }
            None if joins_above => {
                if let Some(above) = self.0.get_mut(at) {
                    above.start = first;
                    above.told_from = told_from;
                    above.told = false;
                }
            }
            None => self.0.insert(
                at,
                ReceivedSpan {
                    start: first,
                    end: last,
                    told_from,
                    told: false,
                },
            ),
        }
    }

    /// Extends the span before index `at` to `end`.
    fn extend(&mut self, at: usize, end: PacketNumber) {
        if let Some(span) = at.checked_sub(1).and_then(|below| self.0.get_mut(below)) {
            span.end = end;
        }
    }

    /// Forgets the spans in an ACK frame up to `largest` that is known to have arrived.
    pub(super) fn forget(&mut self, largest: PacketNumber) {
        if self.0.len() < 2 {
            return;
        }
        let Some(last) = self.0.pop_back() else {
            return;
        };
        self.0
            .retain(|span| span.end > largest || span.told_from > largest);
        self.0.push_back(last);
    }
}
