//! The ledger: what was sent under which packet number, until its fate is known.
//!
//! One slot per number in a ring buffer from the oldest number whose fate is open to the
//! newest sent, and the frames of all packets in one array beside it: no allocation per
//! packet, no tree. Numbers are kept as positions counted from the connection's first, so
//! that nothing here overflows although numbers may run up to 2^64 - 1 (F15).
//!
//! **Work.** A resolved slot (acknowledged, skipped or forgotten) knows where its run of
//! resolved slots ends, and walks shorten those jumps (union-find). Walking an acknowledged
//! range costs a few steps plus the slots it resolves, each of which is resolved once: a
//! peer that repeats an ack, however wide, pays nothing but the walk's start (F06).
//!
//! **Memory.** Open slots, plus at most [`MAX_REMEMBERED`] lost and [`MAX_SILENT`]
//! non-eliciting packets, plus the resolved slots between them. The latter are bounded by
//! [`MAX_RESOLVED`] plus what is sent within one reordering delay, after which the oldest open
//! packet is lost itself.

mod rest;

use crate::fold::folds;
use crate::time::Instant;
use crate::types::{ChannelId, MessageNumber, PacketNumber, ProtocolError};
use core::ops::RangeInclusive;
use std::collections::VecDeque;

/// Lost packets whose late acknowledgement is still recognised.
pub const MAX_REMEMBERED: usize = 4_096;

/// Packets that call for no acknowledgement and had none yet.
pub const MAX_SILENT: usize = 4_096;

/// Resolved slots that a remembered lost packet may hold in the ledger beyond twice the open ones.
const MAX_RESOLVED: usize = 4 * MAX_REMEMBERED;

/// Runs of skipped numbers remembered although everything around them is resolved.
const MIN_SKIPS: usize = 64;

/// Frames of resolved packets that are moved out of the array at a time.
const FRAME_SWEEP: usize = 1_024;

/// What a packet carried that must be repeated if it is lost, or completed when acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentFrame {
    /// Whole small messages with consecutive numbers.
    Whole {
        /// Their channel.
        channel: ChannelId,
        /// The first message.
        first: MessageNumber,
        /// How many.
        count: u32,
    },
    /// Bytes `start..end` of one message; at `start == 0` its description too. Never empty.
    Part {
        /// Its channel.
        channel: ChannelId,
        /// The message.
        message: MessageNumber,
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
    },
    /// The request to send a large message.
    Rts {
        /// Its channel.
        channel: ChannelId,
        /// The message.
        message: MessageNumber,
    },
    /// The permission to send a large message.
    Cts {
        /// Its channel.
        channel: ChannelId,
        /// The message.
        message: MessageNumber,
    },
    /// The refusal of a large message.
    Refuse {
        /// Its channel.
        channel: ChannelId,
        /// The message.
        message: MessageNumber,
    },
    /// Memory credit of a channel; what is repeated is the newest.
    MaxChannel {
        /// The channel.
        channel: ChannelId,
    },
    /// Memory credit of a channel used up.
    ChannelBlocked {
        /// The channel.
        channel: ChannelId,
    },
    /// The announcement of a flow mode.
    Mode {
        /// Which announcement.
        number: u64,
    },
    /// A SUSPEND or RESUME.
    Suspension {
        /// Which one.
        number: u64,
    },
    /// The end of the session.
    Close,
    /// The return of reclaimed socket credit.
    Return {
        /// Of which grant.
        generation: u64,
    },
    /// An ACK frame whose largest was this: once acknowledged, older ranges need no repetition.
    Ack {
        /// The largest number it acknowledged.
        largest: PacketNumber,
    },
}

/// What kind of packet was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentKind {
    /// Whether the peer must acknowledge it: it counts as in flight and is watched by timers.
    pub eliciting: bool,
    /// Whether it probes the path's MTU: its loss says nothing about congestion.
    pub mtu_probe: bool,
}

/// State of the delivery-rate estimate when a packet left.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateMark {
    pub(super) delivered: u64,
    pub(super) delivered_at: Instant,
    pub(super) first_sent_at: Instant,
    pub(super) app_limited: bool,
}

folds!(RateMark {
    delivered,
    delivered_at,
    first_sent_at,
    app_limited
});

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Eliciting, in flight.
    Flying,
    /// Not eliciting, nothing heard.
    Silent,
    /// Declared lost by the thresholds; a late acknowledgement would prove them wrong.
    Lost,
    /// Given up for another reason; a late acknowledgement proves nothing.
    Dropped,
    /// Acknowledged.
    Acked,
    /// Never sent (skipped), or no longer of interest.
    Gone,
}

impl Fate {
    const fn is_resolved(self) -> bool {
        matches!(self, Self::Acked | Self::Gone)
    }
}

/// One packet number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) fate: Fate,
    pub(super) mtu_probe: bool,
    /// Bytes of the datagram, at most 65,507.
    pub(super) size: u32,
    pub(super) sent_at: Instant,
    pub(super) rate: RateMark,
    frame_count: u32,
    /// Index of its first frame among all frames ever recorded.
    first_frame: u64,
    /// Once resolved: no open slot lies before this position.
    pub(super) jump: u64,
}

/// The oldest packet in flight.
pub(super) struct Oldest {
    pub(super) position: u64,
    pub(super) slot: Slot,
    /// Whether finding it passed an acknowledged packet.
    pub(super) crossed_acked: bool,
}

/// Every packet whose fate is open, and what is needed to judge acknowledgements.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The connection's first packet number: position 0.
    first: PacketNumber,
    /// Position of `slots[0]`.
    base: u64,
    slots: VecDeque<Slot>,
    /// Frames of the slots in order; the first `frames_swept` belong to none any more.
    frames: Vec<SentFrame>,
    frames_swept: usize,
    /// Index of `frames[0]` among all frames ever recorded.
    frames_base: u64,
    /// Runs of skipped positions, ascending: all of the window and the last few below it.
    skips: VecDeque<RangeInclusive<u64>>,
    /// Lost or dropped, in that order of events, with the time to forget each.
    remembered: VecDeque<(u64, Instant)>,
    /// No packet in flight has a lower position.
    oldest_flying: u64,
    /// No silent packet has a lower position.
    oldest_silent: u64,
    silent: usize,
    flying: usize,
    in_flight: u64,
    /// Highest eliciting position that is no longer in flight, plus one.
    settled: u64,
}

impl Ledger {
    pub(super) const fn new(first: PacketNumber) -> Self {
        Self {
            first,
            base: 0,
            slots: VecDeque::new(),
            frames: Vec::new(),
            frames_swept: 0,
            frames_base: 0,
            skips: VecDeque::new(),
            remembered: VecDeque::new(),
            oldest_flying: 0,
            oldest_silent: 0,
            silent: 0,
            flying: 0,
            in_flight: 0,
            settled: 0,
        }
    }

    /// Bytes of the packets in flight.
    pub(super) const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// How many packets are in flight.
    pub(super) const fn flying(&self) -> usize {
        self.flying
    }

    pub(super) const fn number(&self, position: u64) -> PacketNumber {
        self.first.saturating_add(position)
    }

    /// One past the newest position sent.
    fn next(&self) -> u64 {
        self.base.saturating_add(self.slots.len() as u64)
    }

    fn index(&self, position: u64) -> Option<usize> {
        usize::try_from(position.checked_sub(self.base)?).ok()
    }

    pub(super) fn get(&self, position: u64) -> Option<&Slot> {
        self.slots.get(self.index(position)?)
    }

    fn get_mut(&mut self, position: u64) -> Option<&mut Slot> {
        let index = self.index(position)?;
        self.slots.get_mut(index)
    }

    /// Slots and frames that take memory.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        (self.slots.len(), self.frames.len())
    }

    /// The frames of a packet that is still in the window.
    pub(super) fn frames(&self, slot: &Slot) -> &[SentFrame] {
        let range = slot
            .first_frame
            .checked_sub(self.frames_base)
            .and_then(|start| {
                let start = usize::try_from(start).ok()?;
                Some(start..start.checked_add(slot.frame_count as usize)?)
            });
        range
            .and_then(|range| self.frames.get(range))
            .unwrap_or_default()
    }

    /// Records a packet. Numbers between the last one and `number` become skipped ones.
    pub(super) fn record(
        &mut self,
        number: PacketNumber,
        now: Instant,
        size: usize,
        kind: SentKind,
        frames: &[SentFrame],
        rate: RateMark,
    ) {
        let next = self.next();
        let Some(position) = number.checked_sub(self.first).filter(|&at| at >= next) else {
            debug_assert!(false, "packet numbers must rise");
            return;
        };
        let mut slot = Slot {
            fate: Fate::Gone,
            mtu_probe: kind.mtu_probe,
            size: u32::try_from(size).unwrap_or(u32::MAX),
            sent_at: now,
            rate,
            frame_count: 0,
            first_frame: self.frames_base.saturating_add(self.frames.len() as u64),
            jump: position,
        };
        self.skip(position, slot);
        slot.fate = if kind.eliciting {
            Fate::Flying
        } else {
            Fate::Silent
        };
        slot.frame_count = u32::try_from(frames.len()).unwrap_or(u32::MAX);
        self.frames.extend_from_slice(frames);
        self.slots.push_back(slot);
        if kind.eliciting {
            self.flying = self.flying.saturating_add(1);
            self.in_flight = self.in_flight.saturating_add(u64::from(slot.size));
        } else {
            self.silent = self.silent.saturating_add(1);
            if self.silent > MAX_SILENT {
                self.forget_oldest_silent();
            }
        }
    }

    /// Records eliciting packets of `size` bytes with consecutive numbers from `first` on. Each carried one of `frames`.
    pub(super) fn record_run(
        &mut self,
        first: PacketNumber,
        now: Instant,
        size: usize,
        frames: &[SentFrame],
        rate: RateMark,
    ) {
        let next = self.next();
        let Some(position) = first.checked_sub(self.first).filter(|&at| at >= next) else {
            debug_assert!(false, "packet numbers must rise");
            return;
        };
        let first_frame = self.frames_base.saturating_add(self.frames.len() as u64);
        let slot = Slot {
            fate: Fate::Gone,
            mtu_probe: false,
            size: u32::try_from(size).unwrap_or(u32::MAX),
            sent_at: now,
            rate,
            frame_count: 0,
            first_frame,
            jump: position,
        };
        self.skip(position, slot);
        let count = frames.len() as u64;
        self.slots.extend((0..count).map(|at| Slot {
            fate: Fate::Flying,
            frame_count: 1,
            first_frame: first_frame.saturating_add(at),
            jump: position.saturating_add(at),
            ..slot
        }));
        self.frames.extend_from_slice(frames);
        self.flying = self.flying.saturating_add(frames.len());
        let bytes = u64::from(slot.size).saturating_mul(count);
        self.in_flight = self.in_flight.saturating_add(bytes);
    }

    /// The numbers up to `position` become skipped ones: each takes a slot like `gone`.
    fn skip(&mut self, position: u64, gone: Slot) {
        let next = self.next();
        if position > next {
            self.skips.push_back(next..=position.saturating_sub(1));
            for _ in next..position {
                self.slots.push_back(gone);
            }
        }
    }

    /// Judges an acknowledgement before anything is changed by it: the largest position it
    /// names, or the number it names that never existed (F05). O(log skips) per range.
    pub(super) fn check(
        &self,
        ranges: impl Iterator<Item = RangeInclusive<PacketNumber>>,
    ) -> Result<Option<u64>, ProtocolError> {
        let next = self.next();
        let mut largest = None;
        for range in ranges {
            let Some((start, end)) = self.positions(&range) else {
                continue;
            };
            if end >= next {
                return Err(ProtocolError::NeverSent(*range.end()));
            }
            let skip = self.skips.partition_point(|skip| *skip.end() < start);
            if let Some(skip) = self.skips.get(skip).filter(|skip| *skip.start() <= end) {
                return Err(ProtocolError::NeverSent(
                    self.number(start.max(*skip.start())),
                ));
            }
            largest = largest.max(Some(end));
        }
        Ok(largest)
    }

    /// The positions of an acknowledged range, None if it lies below the connection's first.
    pub(super) fn positions(&self, range: &RangeInclusive<PacketNumber>) -> Option<(u64, u64)> {
        let end = range.end().checked_sub(self.first)?;
        let start = range.start().saturating_sub(self.first);
        (start <= end).then_some((start, end))
    }

    /// The first open position in `from..=through`.
    pub(super) fn next_open(&mut self, from: u64, through: u64) -> Option<u64> {
        let from = from.max(self.base);
        let mut open = from;
        while let Some(slot) = self.get(open).filter(|slot| slot.fate.is_resolved()) {
            open = slot.jump.max(open.saturating_add(1));
        }
        let mut at = from;
        while let Some(slot) = self.get_mut(at).filter(|slot| slot.fate.is_resolved()) {
            if slot.jump >= open {
                break;
            }
            at = core::mem::replace(&mut slot.jump, open).max(at.saturating_add(1));
        }
        (open <= through && open < self.next()).then_some(open)
    }

    /// The packet at `position` was acknowledged. Returns it as it was before.
    pub(super) fn acknowledge(&mut self, position: u64) -> Option<Slot> {
        self.resolve(position, Fate::Acked)
    }

    /// The packet at `position` is given up: `fate` is `Lost` or `Dropped`. Returns it as it was.
    pub(super) fn give_up(
        &mut self,
        position: u64,
        fate: Fate,
        forget_at: Instant,
    ) -> Option<Slot> {
        let before = self.resolve(position, fate)?;
        self.remembered.push_back((position, forget_at));
        if self.remembered.len() > MAX_REMEMBERED {
            self.forget_oldest_lost();
        }
        Some(before)
    }

    /// Changes a slot's fate and keeps the sums right.
    fn resolve(&mut self, position: u64, fate: Fate) -> Option<Slot> {
        let slot = self.get_mut(position)?;
        let before = *slot;
        slot.fate = fate;
        slot.jump = position.saturating_add(1);
        match before.fate {
            Fate::Flying => {
                self.flying = self.flying.saturating_sub(1);
                self.in_flight = self.in_flight.saturating_sub(u64::from(before.size));
                self.settled = self.settled.max(position.saturating_add(1));
            }
            Fate::Silent => self.silent = self.silent.saturating_sub(1),
            Fate::Lost | Fate::Dropped | Fate::Acked | Fate::Gone => {}
        }
        Some(before)
    }

    /// The oldest packet in flight. Amortised O(1): the search never goes back.
    pub(super) fn oldest_flying(&mut self) -> Option<Oldest> {
        let mut crossed_acked = false;
        let mut position = self.oldest_flying.max(self.base);
        let found = loop {
            match self.get(position) {
                None => break None,
                Some(slot) if slot.fate == Fate::Flying => break Some(*slot),
                Some(slot) => crossed_acked |= slot.fate == Fate::Acked,
            }
            position = position.saturating_add(1);
        };
        self.oldest_flying = position;
        found.map(|slot| Oldest {
            position,
            slot,
            crossed_acked,
        })
    }

    /// The packets in flight that carry something to be repeated, the oldest first. O(window).
    pub(super) fn carriers(&self) -> impl Iterator<Item = (u64, &Slot)> {
        let repeats = |frame: &SentFrame| !matches!(frame, SentFrame::Ack { .. });
        (self.oldest_flying.max(self.base)..self.next())
            .filter_map(|at| Some((at, self.get(at)?)))
            .filter(move |(_, slot)| {
                slot.fate == Fate::Flying && self.frames(slot).iter().any(repeats)
            })
    }

    /// Positions of the packets in flight of at least `size` bytes. O(window).
    pub(super) fn flying_from(&self, size: usize) -> Vec<u64> {
        let start = self.oldest_flying.max(self.base);
        (start..self.next())
            .filter(|&at| {
                self.get(at)
                    .is_some_and(|slot| slot.fate == Fate::Flying && slot.size as usize >= size)
            })
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

    fn forget_oldest_lost(&mut self) {
        if let Some((position, _)) = self.remembered.pop_front()
            && self
                .get(position)
                .is_some_and(|s| matches!(s.fate, Fate::Lost | Fate::Dropped))
        {
            self.resolve(position, Fate::Gone);
        }
    }

    fn forget_oldest_silent(&mut self) {
        let mut position = self.oldest_silent.max(self.base);
        while self
            .get(position)
            .is_some_and(|slot| slot.fate != Fate::Silent)
        {
            position = position.saturating_add(1);
        }
        self.resolve(position, Fate::Gone);
        self.oldest_silent = position;
        self.trim();
    }

    /// Drops slots from the old end while nothing can come of them any more.
    fn trim(&mut self) {
        while let Some(slot) = self.slots.front() {
            let crowded = || {
                let open = self.flying.saturating_add(self.silent);
                self.slots.len() > open.saturating_mul(2).saturating_add(MAX_RESOLVED)
            };
            match slot.fate {
                Fate::Flying => break,
                // A neighbour's fate is known, so an acknowledgement has passed it by.
                Fate::Silent if self.base >= self.settled => break,
                Fate::Silent => self.silent = self.silent.saturating_sub(1),
                Fate::Lost | Fate::Dropped if !crowded() => break,
                Fate::Lost | Fate::Dropped | Fate::Acked | Fate::Gone => {}
            }
            self.frames_swept = self.frames_swept.saturating_add(slot.frame_count as usize);
            self.slots.pop_front();
            self.base = self.base.saturating_add(1);
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

    /// Gives the places of dropped slots' frames back: O(1) per frame, amortised, because at
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
