//! One message on its way out, or a run of small ones: what was sent of it, what is owed again,
//! what arrived.

use super::chain::Chain;
use super::outgoing::{Plan, What};
use super::small::{Small, SmallState};
use super::{Held, Outgoing, charge, index, len64};
use crate::limits::MIN_PIECE;
use crate::ranges::RangeSet;
use crate::time::Instant;
use crate::types::{ChannelId, Kind, MessageNumber};
use crate::wire::{FragHead, Frame, Rts, Start};
use bytes::Bytes;
use core::ops::Range;

/// A message until its number leaves the channel's front; small ones that are alike and side by
/// side are one, and so are those of a chain.
#[derive(Debug)]
pub(super) enum Entry {
    Small(Small),
    /// Longer ones that are alike, while several wait.
    Chain(Box<Chain>),
    Long(Box<Long>),
}

impl Entry {
    /// How many messages it is.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Small(small) => small.count().into(),
            Self::Chain(chain) => chain.count(),
            Self::Long(_) => 1,
        }
    }

    /// Bytes of the message, of each in a run. Zero once released.
    pub(super) fn total(&self) -> u64 {
        match self {
            Self::Small(small) => small.total(),
            Self::Chain(chain) => chain.total(),
            Self::Long(long) => long.total(),
        }
    }

    /// What sending it at once, or the first of a run, is charged.
    pub(super) fn charge(&self) -> u64 {
        match self {
            Self::Small(small) => small.charge(),
            Self::Chain(chain) => chain.charge(),
            Self::Long(long) => long.charge(),
        }
    }

    /// What asking first is charged.
    pub(super) fn request_charge(&self) -> u64 {
        match self {
            Self::Small(small) => small.request_charge(),
            Self::Chain(_) => charge(0, 0),
            Self::Long(long) => long.request_charge(),
        }
    }

    /// Whether something of it is to be sent again.
    pub(super) fn owes(&self) -> bool {
        match self {
            Self::Small(small) => small.fate == SmallState::Lost,
            Self::Chain(chain) => chain.owes(),
            Self::Long(long) => long.owes(),
        }
    }

    /// Whether its number needs no more thought.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Small(small) => small.fate == SmallState::Acked,
            Self::Chain(chain) => chain.is_done(),
            Self::Long(long) => matches!(long.phase, LargePhase::Acked | LargePhase::Refused(_)),
        }
    }

    /// Whether the receiver did not want it.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self, Self::Long(long) if matches!(long.phase, LargePhase::Refused(_)))
    }

    /// Whether its number stands in the channel's list of what is owed again.
    pub(super) fn listed(&mut self) -> &mut bool {
        match self {
            Self::Small(small) => &mut small.listed,
            Self::Chain(chain) => &mut chain.listed,
            Self::Long(long) => &mut long.listed,
        }
    }

    /// Whether its messages were cancelled.
    pub(super) fn is_void(&self) -> bool {
        matches!(self, Self::Small(small) if small.is_void())
    }

    /// The small message that it is or was: its frame is kept until its number leaves the channel's
    /// front.
    pub(super) fn small(&self) -> Option<&Small> {
        match self {
            Self::Small(small) => Some(small),
            Self::Chain(_) => None,
            Self::Long(long) => long.was.as_ref(),
        }
    }

    /// The same, to be changed.
    pub(super) fn small_mut(&mut self) -> Option<&mut Small> {
        match self {
            Self::Small(small) => Some(small),
            Self::Chain(_) => None,
            Self::Long(long) => long.was.as_mut(),
        }
    }

    /// Bytes that were copied when it was accepted, and are kept as long.
    pub(super) fn copied(&self) -> u64 {
        self.small().map_or(0, Small::held)
    }

    /// What it counts against the bounds of the queue.
    pub(super) fn held(&self) -> Held {
        let bytes = match self {
            Self::Small(small) if small.is_void() => return Held::default(),
            Self::Small(small) => small.held(),
            Self::Chain(chain) => chain.held(),
            Self::Long(long) => long.held().max(long.copied()),
        };
        Held::new(self.count(), bytes)
    }

    /// The program's handle, and whether it wants to hear of the delivery.
    pub(super) fn token(&self) -> (u64, bool) {
        match self {
            Self::Small(small) => (small.token, small.notify),
            Self::Chain(chain) => (chain.token, chain.notify),
            Self::Long(long) => (long.token, long.notify),
        }
    }

    /// The peer has all of it. Returns the bytes released.
    pub(super) fn acked(&mut self) -> u64 {
        match self {
            Self::Small(small) => {
                small.fate = SmallState::Acked;
                small.held()
            }
            Self::Chain(_) => {
                debug_assert!(false, "parts of it arrive");
                0
            }
            Self::Long(long) => long.finish(LargePhase::Acked),
        }
    }

    /// It was lost as a whole.
    pub(super) fn whole_lost(&mut self) {
        match self {
            Self::Small(small) if small.fate == SmallState::Open => small.fate = SmallState::Lost,
            Self::Small(_) | Self::Chain(_) => {}
            Self::Long(long) => long.whole_lost(),
        }
    }
}

/// A message whose bytes stay the program's until it is acknowledged.
#[derive(Debug)]
pub(super) struct Long {
    pub(super) user_header: Bytes,
    pub(super) payload: Bytes,
    pub(super) tag: u64,
    pub(super) token: u64,
    pub(super) kind: Kind,
    pub(super) notify: bool,
    /// It asked first (RTS).
    pub(super) asked: bool,
    /// Its number stands in the channel's list of what is owed again.
    pub(super) listed: bool,
    /// When it is cancelled if none of it was sent.
    pub(super) deadline: Option<Instant>,
    /// The small message that it was before it had to ask.
    was: Option<Small>,
    pub(super) phase: LargePhase,
}

/// How far a message has come.
///
/// ```text
/// Queued ---- credit, fits a packet ----> Whole ------------> Acked
///   |  |                                    | lost, no longer fits
///   |  +----- credit, does not fit -------> Parts ----------> Acked
///   |                                       ^
///   +-- RTS --> Asked -- CTS --> Granted ---+
///                 +-- REFUSE --> Refused
/// ```
#[derive(Debug)]
pub(super) enum LargePhase {
    /// Nothing was sent, nothing charged.
    Queued,
    /// Its RTS was sent and not answered; `lost`: is to be sent again.
    Asked { lost: bool },
    /// Charged and permitted; no byte was sent.
    Granted,
    /// Sent in one piece; `lost`: is to be sent again.
    Whole { lost: bool },
    /// Sent in several pieces, in the first place or when it was lost.
    Parts(Parts),
    /// The peer has all of it. The payload is released.
    Acked,
    /// The receiver refused it, for this reason. The payload is released.
    Refused(u64),
}

/// The books of a message that did not fit one packet.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Where the part begins that was never sent.
    pub(super) next: u64,
    pub(super) acked: RangeSet,
    /// What was lost and not sent again; disjoint from `acked`.
    lost: RangeSet,
}

impl Long {
    pub(super) fn new(message: Outgoing) -> Self {
        let Outgoing {
            channel: _,
            tag,
            kind,
            user_header,
            payload,
            notify,
            token,
            // Absolute where it matters: `Outbox::set_deadline`.
            deadline: _,
        } = message;
        let (asked, listed, phase) = (false, false, LargePhase::Queued);
        Self {
            user_header,
            payload,
            tag,
            token,
            kind,
            notify,
            asked,
            listed,
            deadline: None,
            was: None,
            phase,
        }
    }

    /// One of a small message, which had to ask.
    pub(super) fn lengthened(message: Outgoing, was: Small) -> Self {
        Self {
            was: Some(was),
            ..Self::new(message)
        }
    }

    /// Bytes of the message. Zero once released.
    pub(super) fn total(&self) -> u64 {
        len64(self.payload.len())
    }

    /// Bytes of program data held.
    pub(super) fn held(&self) -> u64 {
        self.total().saturating_add(len64(self.user_header.len()))
    }

    /// As [`Entry::copied`].
    pub(super) fn copied(&self) -> u64 {
        self.was.as_ref().map_or(0, Small::held)
    }

    /// What sending it at once is charged.
    pub(super) fn charge(&self) -> u64 {
        charge(self.total(), self.user_header.len())
    }

    /// What asking first is charged.
    pub(super) fn request_charge(&self) -> u64 {
        charge(0, self.user_header.len())
    }

    /// Whether something of it is to be sent again.
    pub(super) fn owes(&self) -> bool {
        match &self.phase {
            LargePhase::Asked { lost } | LargePhase::Whole { lost } => *lost,
            LargePhase::Parts(parts) => !parts.lost.is_empty(),
            LargePhase::Queued
            | LargePhase::Granted
            | LargePhase::Acked
            | LargePhase::Refused(_) => false,
        }
    }

    /// Whether every byte was sent at least once, or will never be.
    pub(super) fn is_sent(&self) -> bool {
        match &self.phase {
            LargePhase::Queued | LargePhase::Asked { .. } | LargePhase::Granted => false,
            LargePhase::Whole { .. } | LargePhase::Acked | LargePhase::Refused(_) => true,
            LargePhase::Parts(parts) => parts.next >= self.total(),
        }
    }

    /// The end: the payload is the program's alone again. Returns the bytes released.
    pub(super) fn finish(&mut self, phase: LargePhase) -> u64 {
        let held = self.held();
        self.phase = phase;
        self.payload = Bytes::new();
        self.user_header = Bytes::new();
        held
    }

    /// The piece `range` was acknowledged. True if the message is now complete at the peer.
    pub(super) fn part_acked(&mut self, range: Range<u64>) -> bool {
        let total = self.total();
        let LargePhase::Parts(parts) = &mut self.phase else {
            return false;
        };
        parts.lost.remove(range.clone());
        parts.acked.insert(range);
        parts.acked.covers(0..total)
    }

    /// The piece `range` was lost: what of it is not known to have arrived is owed again.
    pub(super) fn part_lost(&mut self, range: Range<u64>) {
        let LargePhase::Parts(parts) = &mut self.phase else {
            return;
        };
        parts.lost.insert(range.clone());
        // Few overlap a piece of a packet; as many as there are, what a whole train or connection
        // sent.
        for span in parts.acked.overlapping(range) {
            parts.lost.remove(span);
        }
    }

    /// Whatever was sent and is not known to have arrived is owed again.
    pub(super) fn all_lost(&mut self) {
        match &mut self.phase {
            LargePhase::Asked { lost } | LargePhase::Whole { lost } => *lost = true,
            LargePhase::Parts(parts) => {
                let sent = 0..parts.next;
                self.part_lost(sent);
            }
            LargePhase::Queued
            | LargePhase::Granted
            | LargePhase::Acked
            | LargePhase::Refused(_) => {}
        }
    }

    /// The message was lost as a whole.
    pub(super) fn whole_lost(&mut self) {
        match &mut self.phase {
            LargePhase::Whole { lost } => *lost = true,
            // It was lost before and is being sent in pieces: one of them may be missing still.
            LargePhase::Parts(_) => self.part_lost(0..self.total()),
            _ => {}
        }
    }

    /// Takes the next bytes that were never sent, as fit into `room`.
    pub(super) fn cut_new(&mut self, room: usize, of: Name) -> Option<What> {
        let total = self.total();
        let begun = match &self.phase {
            LargePhase::Parts(parts) => Some(parts.next),
            _ => None,
        };
        let cut = self.fit(begun.unwrap_or(0)..total, room, of)?;
        match &mut self.phase {
            LargePhase::Parts(parts) => parts.next = cut.end,
            phase if cut.end == total => {
                *phase = LargePhase::Whole { lost: false };
                return Some(What::Whole);
            }
            phase => {
                *phase = LargePhase::Parts(Parts {
                    next: cut.end,
                    ..Parts::default()
                });
            }
        }
        Some(What::Part(cut))
    }

    /// Takes something that is owed again, as fits into `room`.
    pub(super) fn cut_lost(&mut self, room: usize, of: Name) -> Option<What> {
        match &self.phase {
            LargePhase::Asked { .. } => {
                if Frame::Rts(self.request(of)).size() > room {
                    return None;
                }
                self.phase = LargePhase::Asked { lost: false };
                Some(What::Rts)
            }
            LargePhase::Whole { .. } if self.fits_whole(room, of) => {
                self.phase = LargePhase::Whole { lost: false };
                Some(What::Whole)
            }
            LargePhase::Whole { .. } => {
                let cut = self.fit(0..self.total(), room, of)?;
                let mut parts = Parts {
                    next: self.total(),
                    ..Parts::default()
                };
                parts.lost.insert(cut.end..self.total());
                self.phase = LargePhase::Parts(parts);
                Some(What::Part(cut))
            }
            LargePhase::Parts(parts) => {
                let cut = self.fit(parts.lost.first()?, room, of)?;
                if let LargePhase::Parts(parts) = &mut self.phase {
                    parts.lost.remove(cut.clone());
                }
                Some(What::Part(cut))
            }
            LargePhase::Queued
            | LargePhase::Granted
            | LargePhase::Acked
            | LargePhase::Refused(_) => None,
        }
    }

    /// Whether it fits into `room` in one piece, as the last frame of a packet.
    fn fits_whole(&self, room: usize, of: Name) -> bool {
        self.head(of, 0, true)
            .capacity(room)
            .is_some_and(|space| space >= self.payload.len())
    }

    /// As [`fit`].
    fn fit(&self, range: Range<u64>, room: usize, of: Name) -> Option<Range<u64>> {
        let start = range.start;
        fit(range, self.total(), room, |end| self.head(of, start, end))
    }

    /// The head of a piece that begins at `start`.
    pub(super) fn head(&self, of: Name, start: u64, end: bool) -> FragHead<'_> {
        let description = Start {
            total: self.total(),
            tag: self.tag,
            kind: self.kind,
            user_header: &self.user_header,
        };
        FragHead {
            channel: of.channel,
            message: of.number,
            offset: start,
            end,
            start: (start == 0).then_some(description),
        }
    }

    /// The announcement of this message.
    pub(super) fn request(&self, of: Name) -> Rts<'_> {
        Rts {
            channel: of.channel,
            message: of.number,
            total: self.total(),
            tag: self.tag,
            kind: self.kind,
            user_header: &self.user_header,
        }
    }

    /// Where in the payload the bytes of `plan` lie.
    pub(super) fn span(&self, plan: &Plan) -> Range<usize> {
        let Plan {
            what: What::Part(range),
            resent,
            ..
        } = plan
        else {
            return 0..self.payload.len();
        };
        let span = index(range.start)..index(range.end);
        if *resent {
            planted_shift(span, self.payload.len())
        } else {
            span
        }
    }
}

/// The beginning of `range`, bytes of a message of `total`, that fits into `room` behind its head,
/// which is told whether it is the message's end; none rather than a sliver.
pub(super) fn fit<'a>(
    range: Range<u64>,
    total: u64,
    room: usize,
    head: impl Fn(bool) -> FragHead<'a>,
) -> Option<Range<u64>> {
    let wanted = range.end.saturating_sub(range.start);
    let space = |end| head(end).capacity(room).map(len64);
    if range.end == total && space(true)? >= wanted {
        return Some(range);
    }
    let len = space(false)?.min(wanted);
    if len < wanted.min(len64(MIN_PIECE)) {
        return None;
    }
    (len > 0).then(|| range.start..range.start.saturating_add(len))
}

/// Which message a [`Long`] is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) channel: ChannelId,
    pub(super) number: MessageNumber,
}

#[cfg(not(suci_plant))]
fn planted_shift(span: Range<usize>, _len: usize) -> Range<usize> {
    span
}

/// The planted fault `retransmit-wrong-range`: the bytes one further than the frame says.
#[cfg(suci_plant)]
fn planted_shift(span: Range<usize>, len: usize) -> Range<usize> {
    if !crate::plant::active("retransmit-wrong-range") {
        return span;
    }
    if span.end < len {
        span.start.saturating_add(1)..span.end.saturating_add(1)
    } else if span.start > 0 {
        span.start.saturating_sub(1)..span.end.saturating_sub(1)
    } else {
        span
    }
}
