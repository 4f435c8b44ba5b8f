//! One channel of the outbox: its order, its memory credit, and what is owed again.
//!
//! Messages pass three marks in order: `charged` (memory credit was taken), `cursor` (all bytes were
//! sent once) and `base` (acknowledged, or refused). At most one RTS is unanswered; the next may go
//! while the bytes of the one before still flow, which hides its round trip.

mod rest;
mod run;

use super::entry::{Entry, Name, Phase};
use super::outbox::Piece;
use super::{Completion, Outcome, Outgoing};
use crate::recovery::SentFrame;
use crate::types::{ChannelId, MessageNumber, ProtocolError};
use crate::wire::Frame;
use core::ops::Range;
use std::collections::VecDeque;

/// Messages up to this many bytes wait for credit, however long that takes; longer ones may ask instead.
/// Every receiver's window has room for several such: [`super::MIN_WINDOW`].
const ASK_INSTEAD: u64 = 4_096;

/// What decides whether a message may go now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Messages longer than this many bytes ask first.
    pub(super) rts_threshold: u64,
    /// The channel window of the handshake, once known.
    pub(super) window: Option<u64>,
    /// Memory credit left in the session.
    pub(super) session_room: u64,
}

/// What a channel waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Its own memory credit.
    Channel,
    /// That of all channels together.
    Session,
    /// The answer to an RTS.
    Answer,
}

/// Whether a channel has something for the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ready,
    Blocked(Block),
    /// Nothing to send.
    Idle,
}

/// What the next piece is.
#[derive(Clone, Debug)]
pub(super) enum What {
    Rts,
    Whole,
    Part(Range<u64>),
}

/// A piece that was decided on, and what it costs.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) number: MessageNumber,
    pub(super) what: What,
    pub(super) resent: bool,
    /// Memory credit taken for it.
    pub(super) charged: u64,
}

/// Why the channel has no turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Left the ring for want of this.
    pub(super) parked: Option<Block>,
    /// Stands in the list of channels to report as blocked.
    pub(super) to_report: bool,
}

#[derive(Debug)]
pub(super) struct Channel {
    id: ChannelId,
    /// Number of the first entry.
    base: MessageNumber,
    entries: VecDeque<Entry>,
    /// The first message of which some byte was never sent.
    cursor: MessageNumber,
    /// The first message that was not charged: `cursor`, or one or two beyond it.
    charged: MessageNumber,
    /// The message whose RTS is unanswered.
    asked: Option<MessageNumber>,
    limit: u64,
    used: u64,
    /// Numbers in the order of their losses; those that owe nothing any more are passed over.
    resend: VecDeque<MessageNumber>,
    /// How many messages owe something.
    owed: usize,
    pub(super) turn: Turn,
}

/// How a message is admitted to the wire.
struct Admission {
    ask: bool,
    charge: u64,
}

impl Channel {
    pub(super) fn new(id: ChannelId, limit: u64) -> Self {
        Self {
            id,
            base: 0,
            entries: VecDeque::new(),
            cursor: 0,
            charged: 0,
            asked: None,
            limit,
            used: 0,
            resend: VecDeque::new(),
            owed: 0,
            turn: Turn::default(),
        }
    }

    pub(super) fn id(&self) -> ChannelId {
        self.id
    }

    pub(super) fn base(&self) -> MessageNumber {
        self.base
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Memory credit left.
    pub(super) fn room(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// Raises the limit. False if it was as high before.
    pub(super) fn raise_limit(&mut self, limit: u64) -> bool {
        let higher = limit > self.limit;
        self.limit = self.limit.max(limit);
        higher
    }

    pub(super) fn push(&mut self, message: Outgoing) -> MessageNumber {
        let number = self.end();
        self.entries.push_back(Entry::new(message));
        number
    }

    /// The number that the next message will have.
    pub(super) fn end(&self) -> MessageNumber {
        self.base.saturating_add(super::len64(self.entries.len()))
    }

    fn name(&self, number: MessageNumber) -> Name {
        Name {
            channel: self.id,
            number,
        }
    }

    fn place(&self, number: MessageNumber) -> Option<usize> {
        number
            .checked_sub(self.base)
            .and_then(|place| usize::try_from(place).ok())
    }

    fn entry(&self, number: MessageNumber) -> Option<&Entry> {
        self.entries.get(self.place(number)?)
    }

    fn entry_mut(&mut self, number: MessageNumber) -> Option<&mut Entry> {
        let place = self.place(number)?;
        self.entries.get_mut(place)
    }

    /// Messages not yet acknowledged or refused, counting those behind such a one.
    pub(super) fn queue_len(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.is_done()).count()
    }

    // ---- sending

    fn fits(&self, charge: u64, terms: Terms) -> Result<(), Block> {
        if self
            .used
            .checked_add(charge)
            .is_none_or(|used| used > self.limit)
        {
            Err(Block::Channel)
        } else if charge > terms.session_room {
            Err(Block::Session)
        } else {
            Ok(())
        }
    }

    /// Whether this message asks first whatever credit there is.
    fn asks_first(entry: &Entry, terms: Terms) -> bool {
        let half = terms.window.map_or(u64::MAX, |window| window / 2);
        entry.total() > terms.rts_threshold
            || (entry.total() > ASK_INSTEAD && entry.charge() > half)
    }

    /// Whether message `number`, the next to be charged, may go, and how.
    ///
    /// A window may have become smaller than a message that is not large enough to ask by itself.
    /// It asks once all before it arrived, so that none waits for credit that cannot come.
    fn admit(
        &self,
        number: MessageNumber,
        entry: &Entry,
        terms: Terms,
    ) -> Result<Admission, Block> {
        let request = Admission {
            ask: true,
            charge: entry.request_charge(),
        };
        if Self::asks_first(entry, terms) {
            return self.fits(request.charge, terms).map(|()| request);
        }
        let charge = entry.charge();
        match self.fits(charge, terms) {
            Ok(()) => Ok(Admission { ask: false, charge }),
            Err(_)
                if entry.total() > ASK_INSTEAD
                    && number == self.base
                    && self.fits(request.charge, terms).is_ok() =>
            {
                Ok(request)
            }
            Err(block) => Err(block),
        }
    }

    pub(super) fn status(&self, terms: Terms) -> Status {
        if self.owed > 0 {
            return Status::Ready;
        }
        let Some(entry) = self.entry(self.cursor) else {
            return Status::Idle;
        };
        match entry.phase {
            Phase::Queued => match self.admit(self.cursor, entry, terms) {
                Ok(_) => Status::Ready,
                Err(block) => Status::Blocked(block),
            },
            Phase::Granted | Phase::Parts(_) => Status::Ready,
            Phase::Asked { .. } => Status::Blocked(Block::Answer),
            Phase::Whole { .. } | Phase::Acked | Phase::Refused(_) => Status::Idle,
        }
    }

    /// The next piece for a packet with `room` bytes left of `full`; none if nothing fits.
    pub(super) fn next(&mut self, room: usize, full: usize, terms: Terms) -> Option<Plan> {
        if self.owed > 0 {
            return self.next_lost(room, full);
        }
        let (number, name) = (self.cursor, self.name(self.cursor));
        let entry = self.entry(number)?;
        if matches!(entry.phase, Phase::Queued) {
            let admission = self.admit(number, entry, terms).ok()?;
            if admission.ask {
                return self.ask(number, room);
            }
            let what = self.entry_mut(number)?.cut_new(room, full, name)?;
            self.take_credit(number, admission.charge);
            self.move_cursor();
            return Some(Plan {
                number,
                what,
                resent: false,
                charged: admission.charge,
            });
        }
        if let Some(plan) = self.ask_ahead(room, terms) {
            return Some(plan);
        }
        let what = self.entry_mut(number)?.cut_new(room, full, name)?;
        self.move_cursor();
        Some(Plan {
            number,
            what,
            resent: false,
            charged: 0,
        })
    }

    /// Something that was lost.
    fn next_lost(&mut self, room: usize, full: usize) -> Option<Plan> {
        while let Some(&number) = self.resend.front() {
            let name = self.name(number);
            let Some(entry) = self.entry_mut(number).filter(|entry| entry.owes()) else {
                self.unlist_front();
                continue;
            };
            let what = entry.cut_lost(room, full, name)?;
            if !entry.owes() {
                self.owed = self.owed.saturating_sub(1);
                self.unlist_front();
            }
            return Some(Plan {
                number,
                what,
                resent: true,
                charged: 0,
            });
        }
        debug_assert_eq!(self.owed, 0, "what is owed is listed");
        self.owed = 0;
        None
    }

    fn unlist_front(&mut self) {
        if let Some(number) = self.resend.pop_front()
            && let Some(entry) = self.entry_mut(number)
        {
            entry.listed = false;
        }
    }

    /// Sends the RTS of `number`, if it fits.
    fn ask(&mut self, number: MessageNumber, room: usize) -> Option<Plan> {
        let name = self.name(number);
        let entry = self.entry_mut(number)?;
        if Frame::Rts(entry.request(name)).size() > room {
            return None;
        }
        entry.phase = Phase::Asked { lost: false };
        entry.asked = true;
        let charged = entry.request_charge();
        self.asked = Some(number);
        self.take_credit(number, charged);
        Some(Plan {
            number,
            what: What::Rts,
            resent: false,
            charged,
        })
    }

    /// Asks for the next message while the one before is being sent. One ahead, not more: each grant
    /// ties up the receiver's memory.
    fn ask_ahead(&mut self, room: usize, terms: Terms) -> Option<Plan> {
        let number = self.cursor.checked_add(1)?;
        if self.asked.is_some() || self.charged != number {
            return None;
        }
        let entry = self.entry(number)?;
        if !Self::asks_first(entry, terms) || self.fits(entry.request_charge(), terms).is_err() {
            return None;
        }
        self.ask(number, room)
    }

    fn take_credit(&mut self, number: MessageNumber, charge: u64) {
        self.used = self.used.saturating_add(charge);
        self.charged = number.saturating_add(1);
    }

    fn move_cursor(&mut self) {
        while self.entry(self.cursor).is_some_and(Entry::is_sent) {
            self.cursor = self.cursor.saturating_add(1);
        }
    }

    /// What `plan` puts into the packet, which has `room` bytes left.
    pub(super) fn piece(&self, plan: &Plan, room: usize) -> Option<Piece<'_>> {
        let (number, entry) = (plan.number, self.entry(plan.number)?);
        let (channel, name) = (self.id, self.name(number));
        let (sent, start, end) = match plan.what {
            What::Rts => {
                let sent = SentFrame::Rts {
                    channel,
                    message: number,
                };
                return Some(Piece::Rts {
                    rts: entry.request(name),
                    sent,
                });
            }
            What::Whole => (
                SentFrame::Whole {
                    channel,
                    first: number,
                    count: 1,
                },
                0,
                true,
            ),
            What::Part(Range { start, end }) => {
                let sent = SentFrame::Part {
                    channel,
                    message: number,
                    start,
                    end,
                };
                (sent, start, end == entry.total())
            }
        };
        let (head, range) = (entry.head(name, start, end), entry.span(plan));
        let last = head.size(range.len(), false).saturating_add(range.len()) > room;
        Some(Piece::Data {
            head,
            payload: &entry.payload,
            range,
            last,
            resent: plan.resent,
            sent,
        })
    }

    // ---- what became of it

    /// Changes entry `number` and keeps the books of what is owed.
    fn change(&mut self, number: MessageNumber, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entry_mut(number) else {
            return;
        };
        let before = entry.owes();
        change(entry);
        let after = entry.owes();
        let list = after && !entry.listed;
        entry.listed |= list;
        if list {
            self.resend.push_back(number);
        }
        match (before, after) {
            (false, true) => self.owed = self.owed.saturating_add(1),
            (true, false) => self.owed = self.owed.saturating_sub(1),
            _ => {}
        }
        while self.owed == 0 && !self.resend.is_empty() {
            self.unlist_front();
        }
    }

    /// The peer has all of message `number`. Returns the bytes released, if it was outstanding.
    pub(super) fn whole_acked(&mut self, number: MessageNumber) -> Option<u64> {
        if self.entry(number).is_none_or(Entry::is_done) {
            return None;
        }
        let mut released = 0;
        self.change(number, |entry| released = entry.finish(Phase::Acked));
        Some(released)
    }

    /// `range` of message `number` was acknowledged. Returns the bytes released if that completes it.
    pub(super) fn part_acked(&mut self, number: MessageNumber, range: Range<u64>) -> Option<u64> {
        let mut all = false;
        self.change(number, |entry| all = entry.part_acked(range));
        if all { self.whole_acked(number) } else { None }
    }

    /// The RTS of `number` was acknowledged; it waits for its answer.
    pub(super) fn rts_acked(&mut self, number: MessageNumber) {
        self.change(number, |entry| {
            if let Phase::Asked { lost } = &mut entry.phase {
                *lost = false;
            }
        });
    }

    /// Whatever was sent and is not known to have arrived is owed again.
    pub(super) fn all_lost(&mut self) {
        for number in self.base..self.end() {
            self.change(number, |entry| match &mut entry.phase {
                Phase::Asked { lost } | Phase::Whole { lost } => *lost = true,
                Phase::Parts(parts) => {
                    let sent = 0..parts.next;
                    entry.part_lost(sent);
                }
                Phase::Queued | Phase::Granted | Phase::Acked | Phase::Refused(_) => {}
            });
        }
    }

    pub(super) fn whole_lost(&mut self, number: MessageNumber) {
        self.change(number, Entry::whole_lost);
    }

    pub(super) fn part_lost(&mut self, number: MessageNumber, range: Range<u64>) {
        self.change(number, |entry| entry.part_lost(range));
    }

    pub(super) fn rts_lost(&mut self, number: MessageNumber) {
        self.change(number, |entry| {
            if let Phase::Asked { lost } = &mut entry.phase {
                *lost = true;
            }
        });
    }

    /// Whether an answer to message `number` has something to change. A repeated one has not.
    fn answers(&self, number: MessageNumber) -> Result<bool, ProtocolError> {
        if self.asked == Some(number) {
            return Ok(true);
        }
        // Below `base` nothing is remembered: taken for a repetition.
        if number < self.base || self.entry(number).is_some_and(|entry| entry.asked) {
            return Ok(false);
        }
        Err(ProtocolError::OutOfPlace(
            "an answer to a message that did not ask",
        ))
    }

    /// The receiver permits message `number`. True if that is news.
    pub(super) fn granted(&mut self, number: MessageNumber) -> Result<bool, ProtocolError> {
        if !self.answers(number)? {
            return Ok(false);
        }
        self.asked = None;
        self.change(number, |entry| entry.phase = Phase::Granted);
        Ok(true)
    }

    /// The receiver refuses message `number`. Returns the bytes released, if that is news.
    pub(super) fn refused(
        &mut self,
        number: MessageNumber,
        reason: u64,
    ) -> Result<Option<u64>, ProtocolError> {
        if !self.answers(number)? {
            return Ok(None);
        }
        self.asked = None;
        let mut released = 0;
        self.change(number, |entry| {
            released = entry.finish(Phase::Refused(reason))
        });
        self.move_cursor();
        Ok(Some(released))
    }

    /// Takes the first message off the queue if nothing more is to be done for it.
    pub(super) fn pop_done(&mut self) -> Option<Completion> {
        self.entries.front().filter(|entry| entry.is_done())?;
        let entry = self.entries.pop_front()?;
        let number = self.base;
        self.base = self.base.saturating_add(1);
        Some(self.completion(number, &entry))
    }

    fn completion(&self, number: MessageNumber, entry: &Entry) -> Completion {
        let (outcome, reason) = match entry.phase {
            Phase::Acked => (Outcome::Delivered, None),
            Phase::Refused(reason) => (Outcome::NotDelivered, Some(reason)),
            _ if entry.is_sent() => (unacknowledged(), None),
            _ => (Outcome::NotDelivered, None),
        };
        let Entry { token, notify, .. } = *entry;
        Completion {
            channel: self.id,
            number,
            token,
            notify,
            outcome,
            reason,
        }
    }

    /// The session is over: the outcome of everything left, in order.
    pub(super) fn end_all(&mut self, out: &mut Vec<Completion>) {
        for (number, entry) in (self.base..).zip(&self.entries) {
            out.push(self.completion(number, entry));
        }
        let end = self.end();
        self.entries.clear();
        self.resend.clear();
        (self.base, self.cursor, self.charged) = (end, end, end);
        self.asked = None;
        self.owed = 0;
    }
}

/// The outcome of a message that was sent and not fully acknowledged.
fn unacknowledged() -> Outcome {
    #[cfg(suci_plant)]
    if crate::plant::active("delivered-unacknowledged") {
        return Outcome::Delivered;
    }
    Outcome::Unknown
}
