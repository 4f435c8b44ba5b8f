//! The packets received, and when to acknowledge them (RFC 9000 section 13.2).
//!
//! There are two records: the ranges that still have to be acknowledged, and the window that tells
//! duplicates from new packets. They are separate because the first may forget (that costs a
//! retransmission) and the second must not (that would break the promise of at most once).

mod dedup;
mod spans;

use crate::limits::MAX_ACK_RANGES;
use crate::planted;
use crate::time::{Duration, Instant};
use crate::types::{Ecn, PacketNumber};
use crate::wire::{self, Credit, EcnCounts};
use core::ops::RangeInclusive;
use dedup::Dedup;
use spans::Spans;

/// The need to send an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckNeed {
    /// No packet waits for an acknowledgement.
    None,
    /// It should ride on the next packet that is sent for another reason.
    Ride,
    /// It should be sent at once, in a packet of its own if necessary.
    Now,
}

/// The packets received on one connection. The caller must authenticate a packet before any call
/// about it: the window moves with the highest number (entry F10 of docs/faults.md).
#[derive(Debug)]
pub struct Received {
    dedup: Dedup,
    spans: Spans,
    /// When the highest number arrived.
    highest_arrival: Instant,
    ecn: EcnCounts,
    /// True if the last ack-eliciting packet carried the CE mark.
    marked: bool,
    /// Ack-eliciting packets since the last ACK frame.
    unacked: u32,
    /// When the first of the `unacked` packets arrived.
    waiting_since: Instant,
    /// The acknowledgement should be sent at once.
    urgent: bool,
    /// Number of unacknowledged packets that make the acknowledgement urgent.
    ack_every: u32,
    max_ack_delay: Duration,
    /// The program's bound of `max_ack_delay`, set by its steering function (`Steer`).
    bound: Option<Duration>,
}

impl Received {
    /// Gives memory back, once no earlier packet can arrive any more: missing numbers count as
    /// received, and acknowledgements give the newest range alone.
    pub fn shrink(&mut self) {
        self.dedup.shrink();
        self.spans.shrink();
    }

    /// Returns the initial state for a connection whose packet numbers begin at `first`. Each
    /// packet is acknowledged at once until [`set_ack_every`](Self::set_ack_every) and
    /// [`set_max_ack_delay`](Self::set_max_ack_delay) are called.
    #[must_use]
    pub fn new(first: PacketNumber) -> Self {
        Self {
            dedup: Dedup::new(first),
            spans: Spans::default(),
            highest_arrival: Instant::ZERO,
            ecn: EcnCounts::default(),
            marked: false,
            unacked: 0,
            waiting_since: Instant::ZERO,
            urgent: false,
            ack_every: 1,
            max_ack_delay: Duration::ZERO,
            bound: None,
        }
    }

    /// Sets how many ack-eliciting packets force an acknowledgement (at least 1). Usually the
    /// sender, which knows its window, sends PING earlier.
    ///
    /// Packets that [`on_packets`](Self::on_packets) takes together count together: one
    /// acknowledgement follows them, however many they are.
    pub const fn set_ack_every(&mut self, packets: u32) {
        self.ack_every = packets;
    }

    /// Sets how long an acknowledgement may wait, as negotiated.
    pub const fn set_max_ack_delay(&mut self, delay: Duration) {
        self.max_ack_delay = delay;
    }

    /// Sets the program's own bound of that time; `None` for none.
    pub const fn set_ack_bound(&mut self, bound: Option<Duration>) {
        self.bound = bound;
    }

    /// Returns true if `number` was not received before. A number
    /// [`DEDUP_WINDOW`](crate::limits::DEDUP_WINDOW) or more below the highest counts as a
    /// duplicate.
    #[must_use]
    pub fn is_fresh(&self, number: PacketNumber) -> bool {
        if planted("dedup-off") {
            return true;
        }
        self.dedup.is_fresh(number)
    }

    /// Notes fresh, authentic packets with consecutive `numbers`, which arrived together and have
    /// the same mark. `arrival` is the system's time stamp. `eliciting` is true if each of them is
    /// ack-eliciting (RFC 9000 section 13.2).
    pub fn on_packets(
        &mut self,
        numbers: RangeInclusive<PacketNumber>,
        arrival: Instant,
        eliciting: bool,
        ecn: Ecn,
        now: Instant,
    ) {
        let (first, last) = numbers.into_inner();
        if first > last || !self.dedup.is_fresh(first) {
            return;
        }
        // The time stamp may be from another clock.
        let arrival = arrival.min(now);
        let in_order = self.dedup.expected() == Some(first);
        if self.dedup.highest() < Some(last) {
            self.highest_arrival = arrival;
        }
        self.dedup.insert(first, last);
        self.spans.insert(first, last);
        let count = (last - first).saturating_add(1);
        self.count_marks(ecn, count);
        if !eliciting {
            return;
        }
        if self.unacked == 0 {
            self.waiting_since = arrival;
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.unacked = self.unacked.saturating_add(count);
        let marked = ecn == Ecn::Ce;
        // A gap opened or (partly) filled, or marks began or ended: the sender must know at once
        // (RFC 9000 section 13.2.1, RFC 8257 section 3.2).
        if !in_order || marked != self.marked || self.unacked >= self.ack_every {
            self.urgent = true;
        }
        self.marked = marked;
    }

    /// Returns the highest number received.
    #[must_use]
    pub const fn highest(&self) -> Option<PacketNumber> {
        self.dedup.highest()
    }

    /// Returns whether an acknowledgement should be sent, and how urgently.
    #[must_use]
    pub fn ack_state(&self, now: Instant) -> AckNeed {
        if self.urgent {
            return AckNeed::Now;
        }
        match self.deadline() {
            None => AckNeed::None,
            Some(deadline) if deadline <= now => AckNeed::Now,
            Some(_) => AckNeed::Ride,
        }
    }

    /// Returns the time until which an acknowledgement may wait; `None` if none is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        (self.unacked > 0).then(|| {
            let delay = self.max_ack_delay;
            let delay = self.bound.map_or(delay, |bound| bound.min(delay));
            self.waiting_since + delay
        })
    }

    /// Makes a waiting acknowledgement due at once.
    pub const fn force(&mut self) {
        self.urgent = self.unacked > 0;
    }

    /// Appends an ACK frame of at most `room` bytes to `buf`, with the highest range and as many
    /// others as fit. Ranges that changed since they were last sent go first. Returns the highest
    /// number that it acknowledges. No acknowledgement waits afterwards. Returns `None` and appends
    /// nothing if no packet was received or not even one range fits.
    pub fn write_ack(
        &mut self,
        buf: &mut Vec<u8>,
        now: Instant,
        room: usize,
        credit: Option<Credit>,
    ) -> Option<PacketNumber> {
        let largest = self.spans.highest()?;
        let delay = now.since(self.highest_arrival);
        let counts = self.ecn;
        let ecn = (counts.ect0 | counts.ect1 | counts.ce != 0).then_some(counts);
        let ranges = self.spans.to_report(MAX_ACK_RANGES);
        let ranges = ranges.map(|range| match range.end() {
            end if *end == largest && planted("ack-off-by-one") => {
                *range.start()..=end.saturating_add(1)
            }
            _ => range,
        });
        let written = wire::put_ack(buf, ranges, delay, ecn, credit, room);
        if written == 0 {
            return None;
        }
        self.spans.on_reported(MAX_ACK_RANGES, written);
        self.unacked = 0;
        self.urgent = false;
        Some(largest)
    }

    /// Notes that the sender acknowledged a packet whose ACK frame went up to `largest`: the ranges
    /// in that frame need not be sent again.
    pub fn on_ack_acked(&mut self, largest: PacketNumber) {
        self.spans.forget(largest);
    }

    /// Returns the number of ranges to acknowledge now.
    #[cfg(test)]
    fn range_count(&self) -> usize {
        self.spans.len()
    }

    const fn count_marks(&mut self, ecn: Ecn, packets: u64) {
        let counter = match ecn {
            Ecn::NotEct => return,
            Ecn::Ect0 => &mut self.ecn.ect0,
            Ecn::Ect1 => &mut self.ecn.ect1,
            Ecn::Ce => &mut self.ecn.ce,
        };
        *counter = counter.saturating_add(packets);
    }
}

#[cfg(test)]
mod tests;
