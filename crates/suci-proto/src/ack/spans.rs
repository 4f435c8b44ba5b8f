//! The received packet numbers that the sender may not know to be received.

use crate::fold::{Fold, Words};
use crate::limits::MAX_TRACKED_RANGES;
use crate::types::PacketNumber;
use core::ops::RangeInclusive;
use std::collections::VecDeque;

/// Consecutive numbers, both ends included so that the last number of all is one like any other.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: PacketNumber,
    end: PacketNumber,
    /// Only ACK frames that went at least this far are sure to have told of the whole span: a
    /// late packet filled a hole in it when the highest number was the one before.
    told_from: PacketNumber,
}

/// Disjoint, non-adjacent spans in ascending order, at most [`MAX_TRACKED_RANGES`]. The last one
/// holds the highest number received and is never forgotten.
#[derive(Debug, Default)]
pub(super) struct Spans(VecDeque<Span>);

impl Fold for Span {
    fn fold(&self, to: &mut Words) {
        let Self {
            start,
            end,
            told_from,
        } = self;
        for position in [start, end, told_from] {
            to.put_position(*position);
        }
    }

    fn unfold(from: &mut Words) -> Self {
        Self {
            start: from.take_position(),
            end: from.take_position(),
            told_from: from.take_position(),
        }
    }
}

impl Fold for Spans {
    fn fold(&self, to: &mut Words) {
        self.0.fold(to);
    }

    fn unfold(from: &mut Words) -> Self {
        Self(Fold::unfold(from))
    }
}

impl Spans {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn highest(&self) -> Option<PacketNumber> {
        self.0.back().map(|span| span.end)
    }

    /// The newest first.
    pub(super) fn descending(&self) -> impl Iterator<Item = RangeInclusive<PacketNumber>> + '_ {
        self.0.iter().rev().map(|span| span.start..=span.end)
    }

    /// Adds a number that was never added before. In order it costs O(1) and allocates nothing,
    /// else at most the shifting of all spans.
    #[inline]
    pub(super) fn insert(&mut self, number: PacketNumber) {
        match self.0.back_mut() {
            Some(last) if last.end.checked_add(1) == Some(number) => last.end = number,
            Some(last) if number < last.end => {
                let told_from = last.end.saturating_add(1);
                self.insert_late(number, told_from);
            }
            _ => self.0.push_back(Span {
                start: number,
                end: number,
                told_from: number,
            }),
        }
        if self.0.len() > MAX_TRACKED_RANGES {
            self.0.pop_front();
        }
    }

    /// Adds the numbers from the highest on up to `last`.
    pub(super) fn extend_highest(&mut self, last: PacketNumber) {
        if let Some(span) = self.0.back_mut() {
            span.end = span.end.max(last);
        }
    }

    /// Adds a number below the highest: to the span below, the span above, between, or as the
    /// link that makes both one.
    #[inline(never)]
    fn insert_late(&mut self, number: PacketNumber, told_from: PacketNumber) {
        let at = self.0.partition_point(|span| span.start < number);
        let start_above = self.0.get(at).map(|span| span.start);
        let joins_above = start_above.is_some() && start_above == number.checked_add(1);
        let below = at.checked_sub(1).and_then(|below| self.0.get_mut(below));
        match below.filter(|below| below.end.checked_add(1) == Some(number)) {
            Some(below) => {
                below.told_from = told_from;
                below.end = number;
                if joins_above && let Some(above) = self.0.remove(at) {
                    self.extend(at, above.end);
                }
            }
            None if joins_above => {
                if let Some(above) = self.0.get_mut(at) {
                    above.start = number;
                    above.told_from = told_from;
                }
            }
            None => self.0.insert(
                at,
                Span {
                    start: number,
                    end: number,
                    told_from,
                },
            ),
        }
    }

    /// Makes the span before index `at` end at `end`.
    fn extend(&mut self, at: usize, end: PacketNumber) {
        if let Some(span) = at.checked_sub(1).and_then(|below| self.0.get_mut(below)) {
            span.end = end;
        }
    }

    /// Forgets what an ACK frame up to `largest` told, now that it is known to have arrived.
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
