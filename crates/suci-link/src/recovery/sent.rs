//! The sent packets: the content sent under each packet number, until the packet's fate is known.
//!
//! Three structures cover the numbers from the oldest unresolved one to the newest one. A
//! [`StateBitmap`] holds one bit for the fate of each number. [`SentBatch`] entries describe the
//! packets. One array holds the frames of all packets. A train of a long message is one batch with
//! one frame, however many packets it has. Packets of it that are acknowledged together are one
//! [`SentRange`]. So recording, acknowledging and forgetting a train costs the same as for a single
//! packet. A batch is not split if some of its packets are lost, since only the bitmap holds their
//! fate. There is no allocation per packet and no tree. Numbers are stored as positions counted
//! from the connection's first number. So nothing here overflows although numbers may run up to
//! 2^64 - 1 (F15).
//!
//! **Work.** An acknowledged range costs one step for each 64 positions, plus the ranges that it
//! resolves. Each range is resolved once. A peer that repeats an acknowledgement of any width
//! therefore costs at most one step for each 64 numbers in the window (F06).
//!
//! **Memory.** This part stores the open positions, at most [`MAX_REMEMBERED`] lost and
//! [`MAX_SILENT`] non-eliciting packets, and the resolved positions between them. A position is
//! open while its packet is in flight: those that the congestion window permitted, and
//! [`MAX_CONTROL`] packets outside it. The resolved ones are bounded by [`MAX_RESOLVED`] plus the
//! packets sent within one reordering delay; after that, the oldest open packet is itself lost. If
//! a peer acknowledges nothing, the oldest packet stays in flight. Behind it, non-eliciting packets
//! beyond [`MAX_SILENT`] take only their five bits in the bitmap.

mod batch;
mod bitmap;
mod frame;
mod idle;

pub(super) use batch::{Carried, Sent};
pub(super) use bitmap::PacketState;
pub use frame::{Content, SentKind};

use crate::planted;
use crate::time::Instant;
use crate::types::{PacketNumber, ProtocolError};
use batch::SentBatch;
use bitmap::{StateBitmap, Word};
use core::ops::{Range, RangeInclusive};
use std::collections::VecDeque;

/// Bound of lost packets whose late acknowledgement is still recognised: a window of 6 MB on an
/// Ethernet path may be late as a whole. Each takes 16 B.
pub const MAX_REMEMBERED: usize = 4_096;

/// Bound of remembered packets that elicit no acknowledgement and are not acknowledged. They tell
/// only which acknowledgements the peer has, so there need not be more of them than lost packets.
pub const MAX_SILENT: usize = 4_096;

/// Bound of ack-eliciting control packets in flight outside the congestion window. A peer can
/// provoke such packets as often as it likes, and acknowledge them as late as it likes. Honest
/// traffic has a few in a round trip. At the bound control frames wait, and then share a packet.
pub const MAX_CONTROL: u64 = 64;

/// Resolved positions that a lost or non-eliciting packet may keep stored, beyond twice the number
/// of open ones.
const MAX_RESOLVED: usize = 4 * MAX_REMEMBERED;

/// Skipped ranges that are remembered although all packets around them are resolved: those of the
/// last 262,144 packets or so, far more than any acknowledgement is late.
const MIN_SKIPS: usize = 64;

/// Frames of resolved packets that are removed from the array at once. They take 24 KiB. Each
/// removal moves all frames behind them, so it must not come for each packet.
const FRAME_SWEEP: usize = 1_024;

/// State of the delivery-rate estimate at the time when a packet was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateSnapshot {
    pub(super) delivered: u64,
    pub(super) delivered_at: Instant,
    pub(super) first_sent_at: Instant,
    /// Until so many bytes are delivered, samples count as limited by the application
    /// (draft-ietf-ccwg-bbr, "Detecting application-limited phases").
    pub(super) app_limited_until: u64,
}

/// Packets with consecutive numbers, of one batch and with one fate.
#[derive(Clone, Debug)]
pub(super) struct SentRange {
    pub(super) positions: Range<u64>,
    pub(super) fate: PacketState,
    pub(super) sent: Sent,
    /// Index of the batch. Valid until a batch is recorded or forgotten.
    batch: usize,
}

impl SentRange {
    /// Returns the number of packets.
    pub(super) fn count(&self) -> u64 {
        self.positions.end.saturating_sub(self.positions.start)
    }

    /// Returns the bytes of all packets.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.sent.size).saturating_mul(self.count())
    }

    /// Returns each packet as a range of its own.
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
    /// True if an acknowledged packet lies between the previous oldest packet and this one.
    pub(super) crossed_acked: bool,
}

/// All packets whose fate is open, and the state needed to check acknowledgements.
#[derive(Debug)]
pub(super) struct SentPackets<T> {
    /// The connection's first packet number: position 0.
    first: PacketNumber,
    /// Positions below this one are resolved and forgotten.
    base: u64,
    /// One past the newest position sent.
    next: u64,
    states: StateBitmap,
    /// The batches in order; each ends above `base`. Skipped numbers belong to no batch.
    batches: VecDeque<SentBatch>,
    /// Frames of the batches in order. The first `frames_swept` belong to forgotten batches.
    frames: Vec<T>,
    frames_swept: usize,
    /// Index of `frames[0]` among all frames ever recorded.
    frames_base: u64,
    /// Skipped ranges of positions, ascending: all in the window, and the last few below it.
    skips: VecDeque<RangeInclusive<u64>>,
    /// Lost or dropped positions in the order of these events, each with the time to forget it.
    remembered: VecDeque<(u64, Instant)>,
    /// Number of lost packets whose late acknowledgement would still be recognised.
    doubtful: u64,
    /// Number of lost packets that were forgotten without an acknowledgement.
    confirmed: u64,
    /// No packet in flight has a lower position.
    oldest_in_flight: u64,
    /// No silent packet has a lower position.
    oldest_silent: u64,
    silent: u64,
    packets_in_flight: u64,
    /// Number of packets in flight that were sent outside the congestion window.
    control: u64,
    in_flight: u64,
    /// Highest eliciting position that is no longer in flight, plus one.
    settled: u64,
}

impl<T: Content> SentPackets<T> {
    pub(super) fn new(first: PacketNumber) -> Self {
        Self {
            first,
            base: 0,
            next: 0,
            states: StateBitmap::default(),
            batches: VecDeque::new(),
            frames: Vec::new(),
            frames_swept: 0,
            frames_base: 0,
            skips: VecDeque::new(),
            remembered: VecDeque::new(),
            doubtful: 0,
            confirmed: 0,
            oldest_in_flight: 0,
            oldest_silent: 0,
            silent: 0,
            packets_in_flight: 0,
            control: 0,
            in_flight: 0,
            settled: 0,
        }
    }

    /// Returns the bytes of the packets in flight.
    pub(super) const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns the number of packets in flight.
    pub(super) const fn packets_in_flight(&self) -> u64 {
        self.packets_in_flight
    }

    /// Returns the number of packets in flight that were sent outside the congestion window.
    pub(super) const fn control(&self) -> u64 {
        self.control
    }

    /// Returns the number of packets declared lost that may still arrive.
    pub(super) const fn doubtful(&self) -> u64 {
        self.doubtful
    }

    /// Returns the number of packets declared lost that were forgotten without an acknowledgement.
    pub(super) const fn confirmed(&self) -> u64 {
        self.confirmed
    }

    const fn number(&self, position: u64) -> PacketNumber {
        self.first.saturating_add(position)
    }

    /// Returns the packet numbers of a sent range.
    pub(super) fn numbers(&self, sent_range: &SentRange) -> RangeInclusive<PacketNumber> {
        let Range { start, end } = sent_range.positions;
        self.number(start)..=self.number(end.saturating_sub(1))
    }

    /// Returns the fate of a packet.
    #[cfg(test)]
    pub(super) fn fate(&self, position: u64) -> PacketState {
        self.states.get(position)
    }

    /// Returns the number of positions and of frames that are stored.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        ((self.next - self.base) as usize, self.frames.len())
    }

    /// Returns the number of batches that are stored.
    pub(super) fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Returns the frames that the packets of a sent range carried.
    pub(super) fn carried(&self, sent_range: &SentRange) -> Carried<'_, T> {
        self.batches
            .get(sent_range.batch)
            .map_or(Carried::Frames(&[]), |batch| {
                batch.carried(&sent_range.positions, self.frames(batch))
            })
    }

    /// Returns the frames of a batch.
    fn frames(&self, batch: &SentBatch) -> &[T] {
        let range = batch
            .first_frame
            .checked_sub(self.frames_base)
            .and_then(|start| {
                let start = usize::try_from(start).ok()?;
                Some(start..start.checked_add(batch.frame_count as usize)?)
            });
        range
            .and_then(|range| self.frames.get(range))
            .unwrap_or_default()
    }

    /// Records packets of the same kind with consecutive `numbers` that carried `frames`. If there
    /// are several packets, each carried an equal piece of the only frame. Numbers between the
    /// previous packet and these become skipped ones.
    pub(super) fn record(
        &mut self,
        numbers: RangeInclusive<PacketNumber>,
        sent: Sent,
        frames: &[T],
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
        let batch = SentBatch::new(position, count, sent, first_frame, frames);
        if !self.joins_newest(&batch, frames) {
            self.batches.push_back(batch);
            self.frames.extend_from_slice(frames);
        }
        if sent.eliciting {
            self.states.change(
                position..self.next,
                PacketState::Gone,
                PacketState::InFlight,
            );
            self.packets_in_flight = self.packets_in_flight.saturating_add(count);
            if sent.control {
                self.control = self.control.saturating_add(count);
            }
            let bytes = u64::from(sent.size).saturating_mul(count);
            self.in_flight = self.in_flight.saturating_add(bytes);
        } else {
            self.states
                .change(position..self.next, PacketState::Gone, PacketState::Silent);
            self.silent = self.silent.saturating_add(count);
        }
    }

    /// Returns true if one more packet that elicits no acknowledgement can be remembered. At the
    /// bound it usually replaces the oldest such packet. But packets behind the oldest packet in
    /// flight free no memory before that one is resolved; in this case, the new packet is not
    /// remembered.
    fn has_room_for_silent(&mut self) -> bool {
        if self.silent < MAX_SILENT as u64 {
            return true;
        }
        let stuck = self.states.get(self.base) == PacketState::InFlight;
        if !stuck {
            self.forget_oldest_silent();
        }
        !stuck
    }

    /// Adds the packets of `batch`, which carried `frames`, to the newest batch if they continue
    /// it. Returns true if they do.
    fn joins_newest(&mut self, batch: &SentBatch, frames: &[T]) -> bool {
        let (Some(newest), Some(parts), [more]) =
            (self.batches.back_mut(), self.frames.last_mut(), frames)
        else {
            return false;
        };
        newest.join(batch, parts, more)
    }

    /// Checks an acknowledgement before it is applied. Returns the largest position that it names.
    /// O(log skips) per range.
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
                if planted("acks-unchecked") {
                    continue;
                }
                return Err(ProtocolError::NeverSent(*range.end()));
            }
            // Few acknowledgements reach back to the newest skipped range.
            if self.skips.back().is_some_and(|last| start <= *last.end()) {
                self.check_skips(start, end)?;
            }
            largest = largest.max(Some(end));
        }
        Ok(largest)
    }

    /// Returns an error if a skipped number lies from position `start` to `end`.
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

    /// Returns the positions of an acknowledged range, or `None` if it lies below the connection's
    /// first number.
    pub(super) fn positions(&self, range: &RangeInclusive<PacketNumber>) -> Option<(u64, u64)> {
        let end = range.end().checked_sub(self.first)?;
        let start = range.start().saturating_sub(self.first);
        (start <= end).then_some((start, end))
    }

    /// Returns the first unresolved packets in `from..=through`.
    pub(super) fn next_open(&self, from: u64, through: u64) -> Option<SentRange> {
        let end = through.saturating_add(1).min(self.next);
        let open = self.states.find(from.max(self.base)..end, Word::open)?;
        self.sent_range(open, end)
    }

    /// Returns the first packets in flight from `from` on.
    fn next_in_flight(&self, from: u64) -> Option<SentRange> {
        let in_flight = |word: &Word| word.of(PacketState::InFlight);
        let position = self
            .states
            .find(from.max(self.base)..self.next, in_flight)?;
        self.sent_range(position, self.next)
    }

    /// Returns the packet at `position` and the following ones of the same batch and fate, up to
    /// `end`.
    fn sent_range(&self, position: u64, end: u64) -> Option<SentRange> {
        let at = self.batch_at(position);
        let batch = self.batches.get(at).filter(|f| f.first <= position)?;
        let end = end.min(batch.end());
        let fate = self.states.get(position);
        let behind = position.saturating_add(1)..end;
        let other = self.states.find(behind, |word| !word.of(fate));
        Some(SentRange {
            positions: position..other.unwrap_or(end),
            fate,
            sent: batch.sent,
            batch: at,
        })
    }

    /// Returns the index of the first batch that ends beyond `position`. The search starts at the
    /// oldest batch with steps that double, since callers mostly ask for the oldest batches in
    /// order.
    fn batch_at(&self, position: u64) -> usize {
        let before = |at: usize| self.batches.get(at).is_some_and(|f| f.end() <= position);
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

    /// Marks packets as acknowledged.
    pub(super) fn acknowledge(&mut self, sent_range: &SentRange) {
        self.resolve(sent_range, PacketState::Acked);
    }

    /// Gives packets up; `fate` is `Lost` or `Dropped`. They are remembered until `forget_at`.
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

    /// Gives up packets in flight and forgets them: their late acknowledgement has no effect.
    pub(super) fn reset(&mut self, sent_range: &SentRange) {
        self.resolve(sent_range, PacketState::Gone);
        self.trim();
    }

    /// Changes the fate of packets and updates the counts.
    fn resolve(&mut self, sent_range: &SentRange, fate: PacketState) {
        let positions = sent_range.positions.clone();
        self.states.change(positions, sent_range.fate, fate);
        if fate == PacketState::Lost {
            self.doubtful = self.doubtful.saturating_add(sent_range.count());
        }
        match sent_range.fate {
            PacketState::InFlight => {
                self.packets_in_flight = self.packets_in_flight.saturating_sub(sent_range.count());
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

    /// Counts a lost packet that is forgotten without an acknowledgement.
    fn confirm(&mut self) {
        self.doubtful = self.doubtful.saturating_sub(1);
        self.confirmed = self.confirmed.saturating_add(1);
    }

    /// Returns the oldest packet in flight. Costs one step for each 64 packets that were resolved
    /// since the last call; the search never goes back.
    pub(super) fn oldest_in_flight(&mut self) -> Option<Oldest> {
        let from = self.oldest_in_flight.max(self.base);
        let found = self.next_in_flight(from);
        let position = found.as_ref().map_or(self.next, |f| f.positions.start);
        self.oldest_in_flight = position;
        let packet = found?.each().next()?;
        let acked = self
            .states
            .find(from..position, |word| word.of(PacketState::Acked));
        Some(Oldest {
            position,
            packet,
            crossed_acked: acked.is_some(),
        })
    }

    /// Returns the time at which the oldest packet in flight was sent.
    pub(super) fn oldest_sent_at(&self) -> Option<Instant> {
        self.all_in_flight()
            .next()
            .map(|oldest| oldest.sent.sent_at)
    }

    /// Returns all packets in flight, the oldest first.
    fn all_in_flight(&self) -> impl Iterator<Item = SentRange> {
        let next = |last: &SentRange| self.next_in_flight(last.positions.end);
        core::iter::successors(self.next_in_flight(self.oldest_in_flight), next)
    }

    /// Returns the packets in flight that carry what probes repeat, one by one, the oldest first.
    /// O(window).
    pub(super) fn carriers(&self) -> impl Iterator<Item = SentRange> {
        self.all_in_flight()
            .filter(|sent_range| self.carried(sent_range).iter().any(T::is_repeated))
            .flat_map(SentRange::each)
    }

    /// Returns the oldest packet in flight that was sent outside the congestion window. O(window).
    pub(super) fn oldest_control(&self) -> Option<SentRange> {
        self.all_in_flight()
            .find(|sent_range| sent_range.sent.control)
    }

    /// Returns the packets in flight of at least `size` bytes. O(window).
    pub(super) fn in_flight_from(&self, size: usize) -> Vec<SentRange> {
        self.all_in_flight()
            .filter(|sent_range| sent_range.sent.size as usize >= size)
            .collect()
    }

    /// Forgets lost packets whose time has passed, then resolved positions at the old end.
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

    /// Checks the bounds that a peer could try to exceed.
    pub(super) fn audit(&self) -> Result<(), String> {
        if self.control > MAX_CONTROL {
            return Err(format!("{} control packets in flight", self.control));
        }
        let batches = self.batches.len() as u64;
        let open = self
            .packets_in_flight
            .saturating_add(MAX_CONTROL + MAX_SILENT as u64);
        if batches > open.saturating_mul(2).saturating_add(MAX_RESOLVED as u64) {
            return Err(format!(
                "{batches} batches for {} in flight",
                self.packets_in_flight
            ));
        }
        Ok(())
    }

    fn forget_oldest_lost(&mut self) {
        if let Some((position, _)) = self.remembered.pop_front()
            && let fate @ (PacketState::Lost | PacketState::Dropped) = self.states.get(position)
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
        if let Some(position) = self.states.find(from..self.next, silent) {
            self.forget(position, PacketState::Silent);
            self.silent = self.silent.saturating_sub(1);
            self.oldest_silent = position;
        }
        self.trim();
    }

    fn forget(&mut self, position: u64, fate: PacketState) {
        let range = position..position.saturating_add(1);
        self.states.change(range, fate, PacketState::Gone);
    }

    /// Forgets positions from the old end until it reaches one that may still change.
    fn trim(&mut self) {
        self.base = loop {
            if self.packets_in_flight == 0 && self.silent == 0 && self.remembered.is_empty() {
                break self.next;
            }
            let Some(position) = self.states.find(self.base..self.next, Word::open) else {
                break self.next;
            };
            let crowded = || {
                let open = self.packets_in_flight.saturating_add(self.silent);
                let most = open.saturating_mul(2).saturating_add(MAX_RESOLVED as u64);
                self.next.saturating_sub(position) > most
            };
            match self.states.get(position) {
                PacketState::InFlight => break position,
                // A packet with a higher number is resolved, so an acknowledgement has skipped this
                // one.
                PacketState::Silent if position >= self.settled && !crowded() => break position,
                PacketState::Silent => self.silent = self.silent.saturating_sub(1),
                PacketState::Lost | PacketState::Dropped if !crowded() => break position,
                PacketState::Lost => self.confirm(),
                PacketState::Dropped | PacketState::Acked | PacketState::Gone => {}
            }
            self.base = position.saturating_add(1);
        };
        self.states.drop_below(self.base);
        while let Some(batch) = self.batches.front().filter(|f| f.end() <= self.base) {
            self.frames_swept = self.frames_swept.saturating_add(batch.frame_count as usize);
            self.batches.pop_front();
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

    /// Removes the frames of forgotten batches. O(1) per frame, amortised, since at least as many
    /// frames are removed as are moved.
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
