//! ACK frames: the packets that arrived.

use super::frame::{Credit, kind};
use super::reader::{Malformed, Reader};
use super::varint::{self, Fields};
use crate::limits::MAX_ACK_RANGES;
use crate::time::{Duration, nanos};
use crate::types::PacketNumber;
use core::ops::RangeInclusive;

/// The frame carries ECN counts.
pub(super) const ECN: u8 = 0b01;
/// The frame carries a credit.
pub(super) const CREDIT: u8 = 0b10;

/// Packets received so far on this connection with each congestion mark (RFC 3168). Absolute, so
/// that a lost ACK loses no count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// Marked ECT(0).
    pub ect0: u64,
    /// Marked ECT(1).
    pub ect1: u64,
    /// Marked "congestion experienced".
    pub ce: u64,
}

impl EcnCounts {
    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let [ect0, ect1, ce] = r.varints()?;
        Ok(Self { ect0, ect1, ce })
    }

    #[inline]
    fn put(&self, fields: &mut Fields, buf: &mut Vec<u8>) {
        fields.add(buf, self.ect0);
        fields.add(buf, self.ect1);
        fields.add(buf, self.ce);
    }

    fn size(&self) -> usize {
        [self.ect0, self.ect1, self.ce]
            .into_iter()
            .map(varint::size)
            .sum()
    }
}

/// An ACK frame whose ranges were checked when it was read.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// The highest packet number acknowledged.
    pub largest: PacketNumber,
    /// Time from the kernel's receipt of `largest` to the sending of this frame.
    pub delay: Duration,
    /// Congestion marks seen so far, if the receiver can see them.
    pub ecn: Option<EcnCounts>,
    /// Credit that the acknowledgement carries.
    pub credit: Option<Credit>,
    ranges: AckRanges<'a>,
}

/// The ranges of an ACK, highest first, with at least one unacknowledged number between neighbours.
/// At most [`MAX_ACK_RANGES`].
#[derive(Clone, Copy, Debug)]
pub struct AckRanges<'a> {
    /// The range to yield next.
    next: Option<(PacketNumber, PacketNumber)>,
    /// The ranges after it: checked when the frame was read.
    more: Reader<'a>,
}

impl<'a> Ack<'a> {
    /// Returns the acknowledged ranges, highest first.
    #[must_use]
    pub fn ranges(&self) -> AckRanges<'a> {
        self.ranges
    }

    pub(super) fn size(&self) -> usize {
        let mut ranges = self.ranges();
        let mut low = self.largest;
        let mut size = riders_size(self.ecn, self.credit);
        if let Some(first) = ranges.next() {
            low = *first.start();
            size += fixed_size(
                self.largest,
                nanos(self.delay),
                self.largest.saturating_sub(low),
            );
        }
        for range in ranges {
            let (start, end) = range.into_inner();
            size += varint::size(low.saturating_sub(end).saturating_sub(2));
            size += varint::size(end.saturating_sub(start));
            low = start;
        }
        size
    }

    /// Reads the fields after the frame type `bits`. Inlined, since the result is large and would
    /// be copied.
    #[inline(always)]
    pub(super) fn read(bits: u8, r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let largest = r.varint()?;
        let [delay, further, length] = r.varints()?;
        let delay = Duration::from_nanos(delay);
        if further >= MAX_ACK_RANGES as u64 {
            return Err(Malformed("too many ack ranges"));
        }
        let first = (lower(largest, length)?, largest);
        let more = match further {
            0 => Reader::new(&[]),
            _ => further_ranges(first.0, further, r)?,
        };
        Ok(Self {
            largest,
            delay,
            ranges: AckRanges {
                next: Some(first),
                more,
            },
            ecn: (bits & ECN != 0).then(|| EcnCounts::read(r)).transpose()?,
            credit: (bits & CREDIT != 0).then(|| Credit::read(r)).transpose()?,
        })
    }
}

/// Returns the bytes that ECN counts and credit add to a frame.
fn riders_size(ecn: Option<EcnCounts>, credit: Option<Credit>) -> usize {
    ecn.map_or(0, |e| e.size()) + credit.map_or(0, |c| c.size())
}

/// Returns the bytes of the frame up to and with its first range; the range count is one byte.
fn fixed_size(largest: PacketNumber, delay: u64, length: u64) -> usize {
    2 + varint::size(largest) + varint::size(delay) + varint::size(length)
}

/// Returns `high` minus `by`, which must not pass zero.
fn lower(high: PacketNumber, by: u64) -> Result<PacketNumber, Malformed> {
    high.checked_sub(by)
        .ok_or(Malformed("ack range below zero"))
}

/// Reads and checks `count` ranges below one that ends at `low`; returns their bytes.
#[inline(never)]
fn further_ranges<'a>(
    mut low: PacketNumber,
    count: u64,
    r: &mut Reader<'a>,
) -> Result<Reader<'a>, Malformed> {
    let mut start = *r;
    for _ in 0..count {
        low = next_range(low, r)?.0;
    }
    let len = start.remaining() - r.remaining();
    Ok(Reader::new(start.bytes(len as u64)?))
}

/// Reads the (lowest, highest) of the range below one that ends at `low`.
fn next_range(
    low: PacketNumber,
    r: &mut Reader<'_>,
) -> Result<(PacketNumber, PacketNumber), Malformed> {
    // The wire holds gap - 1, and the highest number lies one below the gap.
    let high = lower(lower(low, 2)?, r.varint()?)?;
    Ok((lower(high, r.varint()?)?, high))
}

impl Iterator for AckRanges<'_> {
    type Item = RangeInclusive<PacketNumber>;

    fn next(&mut self) -> Option<Self::Item> {
        let (low, high) = self.next.take()?;
        if !self.more.is_empty() {
            self.next = next_range(low, &mut self.more).ok();
        }
        Some(low..=high)
    }
}

/// Frames are equal if their contents are, however they were encoded.
impl PartialEq for Ack<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.largest, self.delay, self.ecn, self.credit)
            == (other.largest, other.delay, other.ecn, other.credit)
            && self.ranges().eq(other.ranges())
    }
}

impl Eq for Ack<'_> {}

/// Longest frame of one range, in bytes, with ECN counts and credit.
const LONGEST_HEAD: usize = 2 + 10 * varint::MAX;

/// Appends an ACK frame with as many of `ranges` as fit `room` bytes and the limit of
/// [`MAX_ACK_RANGES`], and returns how many it wrote: 0 (and nothing appended) if not even the
/// first fits. ECN counts and credit are never cut.
///
/// `ranges` come highest first, with at least one number between neighbours; the first that breaks
/// this ends the list.
pub fn put_ack(
    buf: &mut Vec<u8>,
    mut ranges: impl Iterator<Item = RangeInclusive<PacketNumber>>,
    delay: Duration,
    ecn: Option<EcnCounts>,
    credit: Option<Credit>,
    room: usize,
) -> usize {
    let Some(first) = ranges.next() else { return 0 };
    let (Some(length), delay) = (first.end().checked_sub(*first.start()), nanos(delay)) else {
        return 0;
    };
    // Usually there is one range and enough room: then the head's length is not computed.
    let head = || fixed_size(*first.end(), delay, length) + riders_size(ecn, credit);
    if room < LONGEST_HEAD && room < head() {
        return 0;
    }

    let bits = if ecn.is_some() { ECN } else { 0 } | if credit.is_some() { CREDIT } else { 0 };
    let mut fields = Fields::new(kind::ACK | bits);
    fields.add(buf, *first.end());
    fields.add(buf, delay);
    let count_at = buf.len() + fields.len();
    fields.add(buf, 0); // as long as any count within the limit
    fields.add(buf, length);
    let mut count = 1;
    if let Some(second) = ranges.next() {
        let left = room.saturating_sub(head());
        let more = core::iter::once(second).chain(ranges);
        count += put_more(buf, &mut fields, *first.start(), more, left);
    }
    ecn.iter().for_each(|e| e.put(&mut fields, buf));
    credit.iter().for_each(|c| c.put_with(&mut fields, buf));
    fields.put(buf);
    if count > 1
        && let Some(target) = buf.get_mut(count_at)
    {
        *target = (((count - 1) as u8) << 1) | 1; // the one-byte varint
    }
    count
}

/// Appends the ranges below one that begins at `low`, as many as fit `left` bytes; returns how
/// many.
#[inline(never)]
fn put_more(
    buf: &mut Vec<u8>,
    fields: &mut Fields,
    mut low: PacketNumber,
    ranges: impl Iterator<Item = RangeInclusive<PacketNumber>>,
    mut left: usize,
) -> usize {
    let mut count = 0;
    for range in ranges.take(MAX_ACK_RANGES - 1) {
        let (start, end) = range.into_inner();
        let gap = low
            .checked_sub(end)
            .and_then(|distance| distance.checked_sub(2));
        let (Some(gap), Some(length)) = (gap, end.checked_sub(start)) else {
            break;
        };
        let need = varint::size(gap) + varint::size(length);
        if need > left {
            break;
        }
        left -= need;
        fields.add(buf, gap);
        fields.add(buf, length);
        low = start;
        count += 1;
    }
    count
}

const _: () = assert!(
    varint::size(MAX_ACK_RANGES as u64 - 1) == 1,
    "put_ack patches one byte"
);
