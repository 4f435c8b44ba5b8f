//! The received packet numbers that the sender may not know to be received.

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
    /// Only an ACK frame whose largest number is at least this can contain the whole span. A late
    /// packet that joins the span moves this to one above the highest number received so far.
    reported_from: PacketNumber,
    /// An ACK frame contained the whole span. Never true of the last span, which grows.
    reported: bool,
}

/// How many spans an ACK frame has room for: of those reported before, and of all others.
struct SpanQuota {
    reported: usize,
    unreported: usize,
}

impl SpanQuota {
    /// Takes one for the next span. Returns whether one was left.
    const fn take(&mut self, reported: bool) -> bool {
        let left = if reported {
            &mut self.reported
        } else {
            &mut self.unreported
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

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn highest(&self) -> Option<PacketNumber> {
        self.0.back().map(|span| span.end)
    }

    /// Returns the ranges for an ACK frame with at most `most` of them, the newest first. It
    /// chooses the highest span, then spans that changed since they were last reported, then
    /// others. The newest ranges alone would never report an older packet that arrived while more
    /// than `most` packets are late.
    pub(super) fn to_report(
        &self,
        most: usize,
    ) -> impl Iterator<Item = RangeInclusive<PacketNumber>> + '_ {
        let mut quota = self.quota(most);
        let chosen = self
            .0
            .iter()
            .rev()
            .filter(move |span| quota.take(span.reported));
        chosen.map(|span| span.start..=span.end)
    }

    /// Notes that the first `count` spans of [`to_report`](Self::to_report) are in an ACK frame
    /// now.
    pub(super) fn on_reported(&mut self, most: usize, count: usize) {
        if self.0.len() < 2 {
            return;
        }
        let next = self.highest().map_or(0, |last| last.saturating_add(1));
        let (mut quota, mut left, mut is_last) = (self.quota(most), count, true);
        for span in self.0.iter_mut().rev() {
            if quota.take(span.reported) && left > 0 {
                left = left.saturating_sub(1);
                span.reported = !is_last;
            } else {
                span.reported_from = next;
            }
            is_last = false;
        }
    }

    fn quota(&self, most: usize) -> SpanQuota {
        if self.0.len() <= most {
            return SpanQuota {
                reported: most,
                unreported: most,
            };
        }
        let unreported = self
            .0
            .iter()
            .filter(|span| !span.reported)
            .count()
            .min(most);
        SpanQuota {
            reported: most.saturating_sub(unreported),
            unreported,
        }
    }

    /// Adds the numbers `first..=last`, none of which was added before. In order it costs O(1) and
    /// allocates nothing; otherwise it shifts at most all spans.
    #[inline]
    pub(super) fn insert(&mut self, first: PacketNumber, last: PacketNumber) {
        match self.0.back_mut() {
            Some(newest) if newest.end.checked_add(1) == Some(first) => newest.end = last,
            Some(newest) if first < newest.end => {
                let reported_from = newest.end.saturating_add(1);
                self.insert_late(first, last, reported_from);
            }
            _ => self.0.push_back(ReceivedSpan {
                start: first,
                end: last,
                reported_from: first,
                reported: false,
            }),
        }
        if self.0.len() > MAX_TRACKED_RANGES {
            self.0.pop_front();
        }
    }

    /// Adds numbers below the highest: to the span below, to the span above, as a span between, or
    /// as the link that makes both one.
    #[inline(never)]
    fn insert_late(
        &mut self,
        first: PacketNumber,
        last: PacketNumber,
        reported_from: PacketNumber,
    ) {
        let at = self.0.partition_point(|span| span.start < first);
        let start_above = self.0.get(at).map(|span| span.start);
        let joins_above = start_above.is_some() && start_above == last.checked_add(1);
        let below = at.checked_sub(1).and_then(|below| self.0.get_mut(below));
        match below.filter(|below| below.end.checked_add(1) == Some(first)) {
            Some(below) => {
                below.reported_from = reported_from;
                below.reported = false;
                below.end = last;
                if joins_above && let Some(above) = self.0.remove(at) {
                    self.extend(at, above.end);
                }
            }
            None if joins_above => {
                if let Some(above) = self.0.get_mut(at) {
                    above.start = first;
                    above.reported_from = reported_from;
                    above.reported = false;
                }
            }
            None => self.0.insert(
                at,
                ReceivedSpan {
                    start: first,
                    end: last,
                    reported_from,
                    reported: false,
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

    /// Forgets the spans that an ACK frame up to `largest` contained: that frame arrived.
    pub(super) fn forget(&mut self, largest: PacketNumber) {
        if self.0.len() < 2 {
            return;
        }
        let Some(last) = self.0.pop_back() else {
            return;
        };
        self.0
            .retain(|span| span.end > largest || span.reported_from > largest);
        self.0.push_back(last);
    }
}
