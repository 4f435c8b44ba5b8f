//! The sent packets: what was sent under which packet number, until its fate is known.
//!
//! Three things side by side, from the oldest number whose fate is open to the newest sent: a bit
//! for the fate of each number ([`StateBitmap`]), what was sent under them by flights
//! ([`SentBatch`]), and the frames of all packets in one array. A train of a long message is one
//! flight with one frame however many packets it has, and what is acknowledged of it in one piece
//! is one [`SentRange`]: recording, acknowledging and forgetting it costs the same as a single
//! packet. Nothing is split when some of a flight is lost, since only the marks tell. No allocation
//! per packet, no tree. Numbers are kept as positions counted from the connection's first, so that
//! nothing here overflows although numbers may run up to 2^64 - 1 (F15).
//!
//! **Work.** Walking an acknowledged range costs a step for 64 positions plus the ranges it
//! resolves, each of which is resolved once: of a peer that repeats an ack, however wide, each
//! costs at most one step for 64 numbers in the window (F06).
//!
//! **Memory.** Open positions, plus at most [`MAX_REMEMBERED`] lost and [`MAX_SILENT`]
//! non-eliciting packets, plus the resolved positions between them. Open are what the congestion
//! window let go and [`MAX_CONTROL`] packets beside it. The resolved are bounded by
//! [`MAX_RESOLVED`] plus what is sent within one reordering delay, after which the oldest open
//! packet is lost itself. A peer that acknowledges nothing has the oldest packet stay in flight; of
//! the non-eliciting ones behind it those beyond [`MAX_SILENT`] leave nothing but their five bits
//! in the marks.

mod batch;
mod frame;
mod idle;
mod marks;

pub(super) use batch::{Carried, Sent};
pub use frame::{SentFrame, SentKind};
pub(super) use marks::PacketState;

use crate::time::Instant;
use crate::types::{PacketNumber, ProtocolError};
use batch::SentBatch;
use core::ops::{Range, RangeInclusive};
use marks::{StateBitmap, Word};
use std::collections::VecDeque;

/// Lost packets whose late acknowledgement is still recognised.
pub const MAX_REMEMBERED: usize = 4_096;

/// Packets that call for no acknowledgement and had none yet.
pub const MAX_SILENT: usize = 4_096;

/// Packets in flight beside the congestion window, which all carry control: a peer can have us send
/// such packets as often as it likes, and acknowledge them as late. Honest traffic has a few in a
/// round trip, and what waits for a place shares the next packet.
pub const MAX_CONTROL: u64 = 64;

/// Resolved positions that a lost or non-eliciting packet may hold among the sent packets beyond
/// twice the open ones.
const MAX_RESOLVED: usize = 4 * MAX_REMEMBERED;

/// Runs of skipped numbers remembered although everything around them is resolved.
const MIN_SKIPS: usize = 64;

/// Frames of resolved packets that are moved out of the array at a time.
const FRAME_SWEEP: usize = 1_024;

/// State of the delivery-rate estimate when a packet left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateMark {
    pub(super) delivered: u64,
    pub(super) delivered_at: Instant,
    pub(super) first_sent_at: Instant,
    /// What is sent until so much was delivered is sent by a sender that had no more
    /// (draft-ietf-ccwg-bbr, "Detecting application-limited phases").
    pub(super) app_limited_until: u64,
}

/// Packets with consecutive numbers, of one flight and one fate.
#[derive(Clone, Debug)]
pub(super) struct SentRange {
    pub(super) positions: Range<u64>,
    pub(super) fate: PacketState,
    pub(super) sent: Sent,
    /// Which of the sent batches, as long as none is recorded or forgotten.
    flight: usize,
}

impl SentRange {
    /// How many packets.
    pub(super) fn count(&self) -> u64 {
        self.positions.end.saturating_sub(self.positions.start)
    }

    /// Their bytes.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.sent.size).saturating_mul(self.count())
    }

    /// Each of them alone.
    pub(super) fn each(self) -> impl Iterator<Item = Self> {
        self.positions.clone().map(move |position| Self {
            positions: position..position.saturating_add(1),
            ..self
        })
    }
}

/// The oldest packet in flight.
pub(super) struct Oldest {
    pub(super) position: u64,
    pub(super) packet: SentRange,
    /// Whether finding it passed an acknowledged packet.
    pub(super) crossed_acked: bool,
}

/// Every packet whose fate is open, and what is needed to judge acknowledgements.
#[derive(Debug)]
pub(super) struct SentPackets {
    /// The connection's first packet number: position 0.
    first: PacketNumber,
    /// No position below is of interest.
    base: u64,
    /// One past the newest position sent.
    next: u64,
    marks: StateBitmap,
    /// What was sent, in order; none lies below `base` as a whole. Skipped numbers lie in none.
    flights: VecDeque<SentBatch>,
    /// Frames of the flights in order; the first `frames_swept` belong to none any more.
    frames: Vec<SentFrame>,
    frames_swept: usize,
    /// Index of `frames[0]` among all frames ever recorded.
    frames_base: u64,
    /// Runs of skipped positions, ascending: all of the window and the last few below it.
    skips: VecDeque<RangeInclusive<u64>>,
    /// Lost or dropped, in that order of events, with the time to forget each.
    remembered: VecDeque<(u64, Instant)>,
    /// Lost packets whose late acknowledgement would be recognised.
    doubtful: u64,
    /// Lost packets of which that is true no more.
    confirmed: u64,
    /// No packet in flight has a lower position.
    oldest_flying: u64,
    /// No silent packet has a lower position.
    oldest_silent: u64,
    silent: u64,
    flying: u64,
    /// Those in flight that went beside the congestion window.
    control: u64,
    in_flight: u64,
    /// Highest eliciting position that is no longer in flight, plus one.
    settled: u64,
}

impl SentPackets {
    pub(super) fn new(first: PacketNumber) -> Self {
        Self {
            first,
            base: 0,
            next: 0,
            marks: StateBitmap::default(),
            flights: VecDeque::new(),
            frames: Vec::new(),
            frames_swept: 0,
            frames_base: 0,
            skips: VecDeque::new(),
            remembered: VecDeque::new(),
            doubtful: 0,
            confirmed: 0,
            oldest_flying: 0,
            oldest_silent: 0,
            silent: 0,
            flying: 0,
            control: 0,
            in_flight: 0,
            settled: 0,
        }
    }

    /// Bytes of the packets in flight.
    pub(super) const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// How many packets are in flight.
    pub(super) const fn flying(&self) -> u64 {
        self.flying
    }

    /// How many of them went beside the congestion window.
    pub(super) const fn control(&self) -> u64 {
        self.control
    }

    /// How many packets were declared lost that may still arrive.
    pub(super) const fn doubtful(&self) -> u64 {
        self.doubtful
    }

    /// How many packets were declared lost so far and did not arrive in time to tell.
    pub(super) const fn confirmed(&self) -> u64 {
        self.confirmed
    }

    const fn number(&self, position: u64) -> PacketNumber {
        self.first.saturating_add(position)
    }

    /// The packet numbers of a sent range.
    pub(super) fn numbers(&self, sent_range: &SentRange) -> RangeInclusive<PacketNumber> {
        let Range { start, end } = sent_range.positions;
        self.number(start)..=self.number(end.saturating_sub(1))
    }

    /// What became of a packet.
    #[cfg(test)]
    pub(super) fn fate(&self, position: u64) -> PacketState {
        self.marks.get(position)
    }

    /// Positions and frames that take memory.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        ((self.next - self.base) as usize, self.frames.len())
    }

    /// Flights that take memory.
    #[cfg(test)]
    pub(super) fn flights(&self) -> usize {
        self.flights.len()
    }

    /// What the packets of a sent range carried.
    pub(super) fn carried(&self, sent_range: &SentRange) -> Carried<'_> {
        self.flights
            .get(sent_range.flight)
            .map_or(Carried::Frames(&[]), |flight| {
                flight.carried(&sent_range.positions, self.frames(flight))
            })
    }

    /// The frames of a flight.
    fn frames(&self, flight: &SentBatch) -> &[SentFrame] {
        let range = flight
            .first_frame
            .checked_sub(self.frames_base)
            .and_then(|start| {
                let start = usize::try_from(start).ok()?;
                Some(start..start.checked_add(flight.frame_count as usize)?)
            });
        range
            .and_then(|range| self.frames.get(range))
            .unwrap_or_default()
    }

    /// Records packets of the same kind with consecutive `numbers` that carried `frames`: if they
    /// are several, then equal pieces of the only frame each. Numbers between the last one and
    /// these become skipped ones.
    pub(super) fn record(
        &mut self,
        numbers: RangeInclusive<PacketNumber>,
        sent: Sent,
        frames: &[SentFrame],
    ) {
        let next = self.next;
        let (first, last) = numbers.into_inner();
        let Some(position) = first.checked_sub(self.first).filter(|&at| at >= next) else {
            debug_assert!(false, "packet numbers must rise");
            return;
        };
        let count = last.saturating_sub(first).saturating_add(1);
        if position > next {
            self.skips.push_back(next..=position.saturating_sub(1));
        }
        let remembered = sent.eliciting || self.has_room_for_silent();
        self.next = position.saturating_add(count);
        if !remembered {
            return;
        }
        let first_frame = self.frames_base.saturating_add(self.frames.len() as u64);
        let flight = SentBatch::new(position, count, sent, first_frame, frames);
        if !self.joins_newest(&flight, frames) {
            self.flights.push_back(flight);
            self.frames.extend_from_slice(frames);
        }
        if sent.eliciting {
            self.marks.change(
                position..self.next,
                PacketState::Gone,
                PacketState::InFlight,
            );
            self.flying = self.flying.saturating_add(count);
            if sent.control {
                self.control = self.control.saturating_add(count);
            }
            let bytes = u64::from(sent.size).saturating_mul(count);
            self.in_flight = self.in_flight.saturating_add(bytes);
        } else {
            self.marks
                .change(position..self.next, PacketState::Gone, PacketState::Silent);
            self.silent = self.silent.saturating_add(count);
        }
    }

    /// Whether one more packet that calls for no acknowledgement can be remembered, mostly in the
    /// place of the oldest such. But what stands behind the oldest packet in flight gives no memory
    /// back before that does: there the newest counts as told at once.
    fn has_room_for_silent(&mut self) -> bool {
        if self.silent < MAX_SILENT as u64 {
            return true;
        }
        let stuck = self.marks.get(self.base) == PacketState::InFlight;
        if !stuck {
            self.forget_oldest_silent();
        }
        !stuck
    }

    /// Whether the packets of `flight`, which carried `frames`, are more of the newest flight.
    fn joins_newest(&mut self, flight: &SentBatch, frames: &[SentFrame]) -> bool {
        let (Some(newest), Some(parts), [more]) =
            (self.flights.back_mut(), self.frames.last_mut(), frames)
        else {
            return false;
        };
        newest.join(flight, parts, more)
    }

    /// Judges an acknowledgement before anything is changed by it: the largest position it
    /// names, or the number it names that never existed (F05). O(log skips) per range.
    pub(super) fn check(
        &self,
        ranges: impl Iterator<Item = RangeInclusive<PacketNumber>>,
    ) -> Result<Option<u64>, ProtocolError> {
        let next = self.next;
        let mut largest = None;
        for range in ranges {
            let Some((start, end)) = self.positions(&range) else {
                continue;
            };
            if end >= next {
                return Err(ProtocolError::NeverSent(*range.end()));
            }
            // Few acknowledgements reach back to the last of them.
            if self.skips.back().is_some_and(|last| start <= *last.end()) {
                self.check_skips(start, end)?;
            }
            largest = largest.max(Some(end));
        }
        Ok(largest)
    }

    /// Finds a skipped number among those acknowledged, from position `start` to `end`.
    #[inline(never)]
    fn check_skips(&self, start: u64, end: u64) -> Result<(), ProtocolError> {
        let skip = self.skips.partition_point(|skip| *skip.end() < start);
        match self.skips.get(skip).filter(|skip| *skip.start() <= end) {
            Some(skip) => Err(ProtocolError::NeverSent(
                self.number(start.max(*skip.start())),
            )),
            None => Ok(()),
        }
    }

    /// The positions of an acknowledged range, None if it lies below the connection's first.
    pub(super) fn positions(&self, range: &RangeInclusive<PacketNumber>) -> Option<(u64, u64)> {
        let end = range.end().checked_sub(self.first)?;
        let start = range.start().saturating_sub(self.first);
        (start <= end).then_some((start, end))
    }

    /// The first packets in `from..=through` whose acknowledgement would be news.
    pub(super) fn next_open(&self, from: u64, through: u64) -> Option<SentRange> {
        let end = through.saturating_add(1).min(self.next);
        let open = self.marks.find(from.max(self.base)..end, Word::open)?;
        self.sent_range(open, end)
    }

    /// The first packets in flight from `from` on.
    fn next_flying(&self, from: u64) -> Option<SentRange> {
        let flying = |word: &Word| word.of(PacketState::InFlight);
        let position = self.marks.find(from.max(self.base)..self.next, flying)?;
        self.sent_range(position, self.next)
    }

    /// The packet at `position` and those after it of the same flight and fate, up to `end`.
    fn sent_range(&self, position: u64, end: u64) -> Option<SentRange> {
        let at = self.flight_at(position);
        let flight = self.flights.get(at).filter(|f| f.first <= position)?;
        let end = end.min(flight.end());
        let fate = self.marks.get(position);
        let behind = position.saturating_add(1)..end;
        let other = self.marks.find(behind, |word| !word.of(fate));
        Some(SentRange {
            positions: position..other.unwrap_or(end),
            fate,
            sent: flight.sent,
            flight: at,
        })
    }

    /// The first flight that ends beyond `position`. Looked for from the old end in steps that
    /// double: mostly the oldest are asked for, one after the other.
    fn flight_at(&self, position: u64) -> usize {
        let before = |at: usize| self.flights.get(at).is_some_and(|f| f.end() <= position);
        let (mut from, mut to) = (0_usize, 0_usize);
        while before(to) {
            (from, to) = (to.saturating_add(1), to.saturating_mul(2).saturating_add(2));
        }
        while from < to {
            let middle = from.midpoint(to);
            if before(middle) {
                from = middle.saturating_add(1);
            } else {
                to = middle;
            }
        }
        from
    }

    /// These packets were acknowledged.
    pub(super) fn acknowledge(&mut self, sent_range: &SentRange) {
        self.resolve(sent_range, PacketState::Acked);
    }

    /// These packets are given up: `fate` is `Lost` or `Dropped`.
    pub(super) fn give_up(
        &mut self,
        sent_range: &SentRange,
        fate: PacketState,
        forget_at: Instant,
    ) {
        self.resolve(sent_range, fate);
        for position in sent_range.positions.clone() {
            self.remembered.push_back((position, forget_at));
            if self.remembered.len() > MAX_REMEMBERED {
                self.forget_oldest_lost();
            }
        }
    }

    /// These packets in flight are given up, and not even a late acknowledgement of them is of
    /// interest.
    pub(super) fn reset(&mut self, sent_range: &SentRange) {
        self.resolve(sent_range, PacketState::Gone);
        self.trim();
    }

    /// Changes the fate of packets and keeps the sums right.
    fn resolve(&mut self, sent_range: &SentRange, fate: PacketState) {
        let positions = sent_range.positions.clone();
        self.marks.change(positions, sent_range.fate, fate);
        if fate == PacketState::Lost {
            self.doubtful = self.doubtful.saturating_add(sent_range.count());
        }
        match sent_range.fate {
            PacketState::InFlight => {
                self.flying = self.flying.saturating_sub(sent_range.count());
                if sent_range.sent.control {
                    self.control = self.control.saturating_sub(sent_range.count());
                }
                self.in_flight = self.in_flight.saturating_sub(sent_range.bytes());
                self.settled = self.settled.max(sent_range.positions.end);
            }
            PacketState::Silent => self.silent = self.silent.saturating_sub(sent_range.count()),
            PacketState::Lost => self.doubtful = self.doubtful.saturating_sub(sent_range.count()),
            PacketState::Dropped | PacketState::Acked | PacketState::Gone => {}
        }
    }

    /// A lost packet is forgotten.
    fn confirm(&mut self) {
        self.doubtful = self.doubtful.saturating_sub(1);
        self.confirmed = self.confirmed.saturating_add(1);
    }

    /// The oldest packet in flight. One step for 64 packets that were passed since; the search
    /// never goes back.
    pub(super) fn oldest_flying(&mut self) -> Option<Oldest> {
        let from = self.oldest_flying.max(self.base);
        let found = self.next_flying(from);
        let position = found.as_ref().map_or(self.next, |f| f.positions.start);
        self.oldest_flying = position;
        let packet = found?.each().next()?;
        let acked = self
            .marks
            .find(from..position, |word| word.of(PacketState::Acked));
        Some(Oldest {
            position,
            packet,
            crossed_acked: acked.is_some(),
        })
    }

    /// When the oldest packet in flight was sent.
    pub(super) fn oldest_sent_at(&self) -> Option<Instant> {
        self.all_flying().next().map(|oldest| oldest.sent.sent_at)
    }

    /// All packets in flight, the oldest first.
    fn all_flying(&self) -> impl Iterator<Item = SentRange> {
        let next = |last: &SentRange| self.next_flying(last.positions.end);
        core::iter::successors(self.next_flying(self.oldest_flying), next)
    }

    /// The packets in flight that carry something to be repeated, the oldest first, one by one.
    /// O(window).
    pub(super) fn carriers(&self) -> impl Iterator<Item = SentRange> {
        let repeats = |frame: &SentFrame| !matches!(frame, SentFrame::Ack { .. });
        self.all_flying()
            .filter(move |sent_range| self.carried(sent_range).iter().any(repeats))
            .flat_map(SentRange::each)
    }

    /// The oldest packet in flight that went beside the congestion window. O(window).
    pub(super) fn oldest_control(&self) -> Option<SentRange> {
        self.all_flying().find(|sent_range| sent_range.sent.control)
    }

    /// The packets in flight of at least `size` bytes. O(window).
    pub(super) fn flying_from(&self, size: usize) -> Vec<SentRange> {
        self.all_flying()
            .filter(|sent_range| sent_range.sent.size as usize >= size)
            .collect()
    }

    /// Forgets lost packets whose time has come, then whatever at the old end is resolved.
    pub(super) fn expire(&mut self, now: Instant) {
        while self
            .remembered
            .front()
            .is_some_and(|&(_, forget_at)| forget_at <= now)
        {
            self.forget_oldest_lost();
        }
        self.trim();
    }

    /// Checks that a peer cannot make it remember more than it should.
    pub(super) fn audit(&self) -> Result<(), String> {
        if self.control > MAX_CONTROL {
            return Err(format!("{} control packets in flight", self.control));
        }
        let flights = self.flights.len() as u64;
        let open = self.flying.saturating_add(MAX_CONTROL + MAX_SILENT as u64);
        if flights > open.saturating_mul(2).saturating_add(MAX_RESOLVED as u64) {
            return Err(format!("{flights} flights for {} in flight", self.flying));
        }
        Ok(())
    }

    fn forget_oldest_lost(&mut self) {
        if let Some((position, _)) = self.remembered.pop_front()
            && let fate @ (PacketState::Lost | PacketState::Dropped) = self.marks.get(position)
        {
            self.forget(position, fate);
            if fate == PacketState::Lost {
                self.confirm();
            }
        }
    }

    fn forget_oldest_silent(&mut self) {
        let from = self.oldest_silent.max(self.base);
        let silent = |word: &Word| word.of(PacketState::Silent);
        if let Some(position) = self.marks.find(from..self.next, silent) {
            self.forget(position, PacketState::Silent);
            self.silent = self.silent.saturating_sub(1);
            self.oldest_silent = position;
        }
        self.trim();
    }

    fn forget(&mut self, position: u64, fate: PacketState) {
        let range = position..position.saturating_add(1);
        self.marks.change(range, fate, PacketState::Gone);
    }

    /// Drops positions from the old end while nothing can come of them any more.
    fn trim(&mut self) {
        self.base = loop {
            if self.flying == 0 && self.silent == 0 && self.remembered.is_empty() {
                break self.next;
            }
            let Some(position) = self.marks.find(self.base..self.next, Word::open) else {
                break self.next;
            };
            let crowded = || {
                let open = self.flying.saturating_add(self.silent);
                let most = open.saturating_mul(2).saturating_add(MAX_RESOLVED as u64);
                self.next.saturating_sub(position) > most
            };
            match self.marks.get(position) {
                PacketState::InFlight => break position,
                // A neighbour's fate is known, so an acknowledgement has passed it by.
                PacketState::Silent if position >= self.settled && !crowded() => break position,
                PacketState::Silent => self.silent = self.silent.saturating_sub(1),
                PacketState::Lost | PacketState::Dropped if !crowded() => break position,
                PacketState::Lost => self.confirm(),
                PacketState::Dropped | PacketState::Acked | PacketState::Gone => {}
            }
            self.base = position.saturating_add(1);
        };
        self.marks.drop_below(self.base);
        while let Some(flight) = self.flights.front().filter(|f| f.end() <= self.base) {
            self.frames_swept = self
                .frames_swept
                .saturating_add(flight.frame_count as usize);
            self.flights.pop_front();
        }
        while self.skips.len() > MIN_SKIPS
            && self
                .skips
                .front()
                .is_some_and(|skip| *skip.end() < self.base)
        {
            self.skips.pop_front();
        }
        self.sweep_frames();
    }

    /// Gives the places of forgotten flights' frames back: O(1) per frame, amortised, because at
    /// least as many leave as move.
    fn sweep_frames(&mut self) {
        let swept = self.frames_swept.min(self.frames.len());
        if swept == self.frames.len() {
            self.frames.clear();
        } else if swept >= FRAME_SWEEP && swept >= self.frames.len() / 2 {
            self.frames.drain(..swept);
        } else {
            return;
        }
        self.frames_base = self.frames_base.saturating_add(swept as u64);
        self.frames_swept = 0;
    }
}
