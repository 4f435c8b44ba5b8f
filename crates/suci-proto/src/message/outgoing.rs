//! One channel of the outbox: its order, its memory credit, and what is owed again.
//!
//! Messages pass three marks in order: `charged` (memory credit was taken), `cursor` (all bytes
//! were sent once) and `base` (acknowledged, or refused). At most one RTS is unanswered; the next
//! may go while the bytes of the one before still flow, which hides its round trip.

mod cancel;
mod chain;
mod fate;
mod idle;
mod pack;
mod queue;
mod run;

pub(super) use cancel::Cancelled;
pub(super) use fate::Released;
pub(super) use idle::IdleOutgoing;
pub use pack::Packed;

use super::entry::{Entry, LargePhase, Long, Name};
use super::outbox::Piece;
use super::small::{ChannelLease, FrameQueue, SmallOutgoing, SpareFrames, Tail};
use super::spare::Spare;
use super::{Held, Outgoing};
use crate::limits::ASK_INSTEAD;
use crate::recovery::SentFrame;
use crate::types::{ChannelId, MessageNumber};
use crate::wire::Frame;
use core::ops::Range;
use queue::{Item, Queue};
use std::collections::VecDeque;

/// Entries for which a channel without messages keeps memory, in each of its queues.
const OWN: usize = 16;

const _: () = assert!(
    OWN * size_of::<Item>() <= 1_024,
    "little, for there may be many channels"
);

/// The memory of channels without messages, beyond what each keeps, for the next that has some.
#[derive(Debug, Default)]
pub(super) struct Spares {
    frames: SpareFrames,
    sent: SpareItems,
    waiting: SpareItems,
}

/// Of at most 6 KiB.
type SpareItems = Spare<VecDeque<Item>, 128>;

/// What decides whether a message may go now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Messages longer than this many bytes ask first.
    pub(super) rts_threshold: u64,
    /// The channel window of the handshake, once known.
    pub(super) window: Option<u64>,
    /// Memory credit left in the session for messages that are no replies...
    pub(super) session_room: u64,
    /// ... and for replies.
    pub(super) reply_room: u64,
}

impl Terms {
    /// Memory credit left in the session for messages of `channel`.
    #[inline]
    pub(super) const fn room_on(&self, channel: ChannelId) -> u64 {
        if channel.carries_replies() {
            self.reply_room
        } else {
            self.session_room
        }
    }
}

/// What a channel waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Its own memory credit.
    OutgoingChannel,
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

/// How far the end of a channel has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fin {
    /// The program goes on.
    Open,
    /// Once all messages are acknowledged, FIN is to go.
    Wanted,
    /// It stands in the list of those whose FIN is to go.
    Listed,
    /// FIN is on its way.
    Sent,
}

#[derive(Debug)]
pub(super) struct OutgoingChannel {
    id: ChannelId,
    queue: Queue,
    /// The frames of those that are small.
    frames: FrameQueue,
    /// The first message that was not charged: `cursor`, or one or two beyond it; more if that
    /// stands in a chain.
    charged: MessageNumber,
    /// The message whose RTS is unanswered.
    asked: Option<MessageNumber>,
    limit: u64,
    used: u64,
    /// The first numbers of entries in the order of their losses; those that owe nothing any more
    /// are passed over. What was the first of a chain may have left the front since
    /// ([`chain_at`](Self::chain_at)).
    resend: VecDeque<MessageNumber>,
    /// How many entries owe something: long messages, chains, and runs of small ones.
    owed: usize,
    pub(super) turn: Turn,
    pub(super) fin: Fin,
}

/// How a message is admitted to the wire.
struct Admission {
    ask: bool,
    charge: u64,
}

impl OutgoingChannel {
    pub(super) fn new(id: ChannelId, limit: u64) -> Self {
        Self {
            id,
            queue: Queue::default(),
            frames: FrameQueue::default(),
            charged: 0,
            asked: None,
            limit,
            used: 0,
            resend: VecDeque::new(),
            owed: 0,
            turn: Turn::default(),
            fin: Fin::Open,
        }
    }

    pub(super) fn id(&self) -> ChannelId {
        self.id
    }

    /// Whether all its messages were acknowledged or refused.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn base(&self) -> MessageNumber {
        self.queue.base()
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

    pub(super) fn push(&mut self, message: Outgoing, spares: &mut Spares) -> MessageNumber {
        self.queue.borrow(spares);
        self.queue.push_long(message)
    }

    #[inline(always)]
    pub(super) fn push_small(
        &mut self,
        message: &SmallOutgoing<'_>,
        spares: &mut Spares,
    ) -> MessageNumber {
        let (queue, frames) = (&mut self.queue, &mut self.frames);
        match queue.extend_if(|number| frames.follow(number, message)) {
            Some(number) => number,
            None => self.push_other(message, spares),
        }
    }

    /// Takes a small message that is not like the last one, or stands alone.
    #[inline(never)]
    fn push_other(&mut self, message: &SmallOutgoing<'_>, spares: &mut Spares) -> MessageNumber {
        self.queue.borrow(spares);
        self.frames.borrow(&mut spares.frames);
        let row = self.queue.last_small().is_some();
        let small = self.frames.push(self.queue.end(), message, row);
        self.queue.push_small(small)
    }

    /// Lends room for messages like the last one, at most so many of so many bytes and a header
    /// each, if that is a small one that waits and more of a row may follow it. Until it is given
    /// [back](Self::put_back), nothing else is to be asked.
    pub(super) fn lend(
        &mut self,
        place: usize,
        most: impl FnOnce(Held) -> u64,
    ) -> Option<ChannelLease> {
        let last = self.queue.last_small().filter(|_| self.fin == Fin::Open)?;
        let (more, held) = (u32::MAX - last.count(), Held::one(last.total()));
        let tail = self.frames.lend()?;
        let left = u32::try_from(most(held)).map_or(more, |most| most.min(more));
        let room = (left, held.bytes);
        Some(ChannelLease::new(
            tail,
            self.id,
            place,
            self.queue.end(),
            room,
        ))
    }

    /// So many more stand in what was lent.
    pub(super) fn put_back(&mut self, count: u32, tail: Tail) {
        self.frames.put_back(tail);
        self.queue.extend_by(count);
    }

    /// Gives back memory that nothing stands in, if it is more than a channel keeps.
    #[inline]
    pub(super) fn give_back(&mut self, spares: &mut Spares) {
        self.frames.give_back(&mut spares.frames);
        if self.queue.is_empty() {
            self.queue.give_back(spares);
            if self.resend.capacity() > OWN {
                self.resend = VecDeque::new();
            }
        }
    }

    fn name(&self, number: MessageNumber) -> Name {
        Name {
            channel: self.id,
            number,
        }
    }

    fn entry(&self, number: MessageNumber) -> Option<&Entry> {
        self.queue.get(number).map(|item| &item.entry)
    }

    fn entry_mut(&mut self, number: MessageNumber) -> Option<&mut Entry> {
        self.queue.get_mut(number).map(|item| &mut item.entry)
    }

    fn long(&self, number: MessageNumber) -> Option<&Long> {
        match self.entry(number)? {
            Entry::Long(long) => Some(long),
            Entry::Small(_) | Entry::Chain(_) => None,
        }
    }

    fn long_mut(&mut self, number: MessageNumber) -> Option<&mut Long> {
        match self.entry_mut(number)? {
            Entry::Long(long) => Some(long),
            Entry::Small(_) | Entry::Chain(_) => None,
        }
    }

    /// What its messages count against the bounds of the queue. O(messages).
    pub(super) fn held(&self) -> Held {
        let each = self.queue.iter().map(|item| item.entry.held());
        each.fold(Held::default(), Held::plus)
    }

    /// Messages not yet acknowledged or refused, counting those behind such a one.
    #[cfg(test)]
    pub(super) fn queue_len(&self) -> usize {
        let waits = |item: &&Item| !item.entry.is_done() && !item.entry.is_void();
        let open = self.queue.iter().filter(waits);
        open.map(|item| super::index(item.entry.count())).sum()
    }

    // ---- sending

    fn fits(&self, charge: u64, terms: Terms) -> Result<(), Block> {
        if self
            .used
            .checked_add(charge)
            .is_none_or(|used| used > self.limit)
        {
            Err(Block::OutgoingChannel)
        } else if charge > terms.room_on(self.id) {
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
                    && number == self.base()
                    && self.fits(request.charge, terms).is_ok() =>
            {
                Ok(request)
            }
            Err(block) => Err(block),
        }
    }

    /// Whether nothing waits to be sent, or owes anything.
    pub(super) fn has_sent_all(&self) -> bool {
        self.owed == 0 && self.queue.next().is_none()
    }

    pub(super) fn status(&self, terms: Terms) -> Status {
        if self.owed > 0 {
            return Status::Ready;
        }
        let Some(entry) = self.queue.next() else {
            return Status::Idle;
        };
        let phase = match entry {
            Entry::Chain(chain) if chain.is_within() => return Status::Ready,
            Entry::Small(_) | Entry::Chain(_) => &LargePhase::Queued,
            Entry::Long(long) => &long.phase,
        };
        match phase {
            LargePhase::Queued => match self.admit(self.queue.cursor(), entry, terms) {
                Ok(_) => Status::Ready,
                Err(block) => Status::Blocked(block),
            },
            LargePhase::Granted | LargePhase::Parts(_) => Status::Ready,
            LargePhase::Asked { .. } => Status::Blocked(Block::Answer),
            LargePhase::Whole { .. } | LargePhase::Acked | LargePhase::Refused(_) => Status::Idle,
        }
    }

    /// The first message that owes something; those in the list that owe nothing any more are
    /// passed over.
    fn first_owed(&mut self) -> Option<MessageNumber> {
        while let Some(&number) = self.resend.front() {
            let number = self.chain_at(number).unwrap_or(number);
            if self.entry(number).is_some_and(Entry::owes) {
                return Some(number);
            }
            self.unlist_front();
        }
        debug_assert_eq!(self.owed, 0, "what is owed is listed");
        self.owed = 0;
        None
    }

    /// The next piece for a packet with `room` bytes left; none if nothing fits, or what is next
    /// goes by [`pack`](Self::pack).
    pub(super) fn next(&mut self, room: usize, terms: Terms) -> Option<Plan> {
        if self.owed > 0 {
            return self.next_lost(room);
        }
        let (number, name) = (self.queue.cursor(), self.name(self.queue.cursor()));
        let entry = self.queue.next()?;
        let is_new = match entry {
            Entry::Chain(_) => return self.ask_ahead(room, terms),
            Entry::Small(_) => true,
            Entry::Long(long) => match long.phase {
                LargePhase::Queued => true,
                LargePhase::Granted | LargePhase::Parts(_) => false,
                _ => return None,
            },
        };
        let mut charged = 0;
        if is_new {
            let admission = self.admit(number, entry, terms).ok()?;
            if admission.ask {
                return self.ask(number, room);
            }
            charged = admission.charge;
        } else if let Some(plan) = self.ask_ahead(room, terms) {
            return Some(plan);
        }
        let Some(Entry::Long(long)) = self.queue.next_mut() else {
            return None;
        };
        let what = long.cut_new(room, name)?;
        if is_new {
            self.take_credit(number, charged);
        }
        self.move_cursor();
        Some(Plan {
            number,
            what,
            resent: false,
            charged,
        })
    }

    /// Something that was lost.
    fn next_lost(&mut self, room: usize) -> Option<Plan> {
        let number = self.first_owed()?;
        let name = self.name(number);
        let long = self.long_mut(number)?;
        let what = long.cut_lost(room, name)?;
        if !long.owes() {
            self.owed = self.owed.saturating_sub(1);
            self.unlist_front();
        }
        Some(Plan {
            number,
            what,
            resent: true,
            charged: 0,
        })
    }

    fn unlist_front(&mut self) {
        if let Some(number) = self.resend.pop_front() {
            let number = self.chain_at(number).unwrap_or(number);
            if let Some(entry) = self.entry_mut(number) {
                *entry.listed() = false;
            }
        }
    }

    /// Sends the RTS of `number`, if it fits.
    fn ask(&mut self, number: MessageNumber, room: usize) -> Option<Plan> {
        let name = self.name(number);
        self.queue.dissolve(number);
        self.lengthen(number);
        let entry = self.long_mut(number)?;
        if Frame::Rts(entry.request(name)).size() > room {
            return None;
        }
        entry.phase = LargePhase::Asked { lost: false };
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

    /// Makes a small message a long one: the peer's program decides about messages as short as
    /// this.
    fn lengthen(&mut self, number: MessageNumber) {
        self.queue.divide(number, 1);
        if let Some(Item { entry, .. }) = self.queue.get_mut(number)
            && let Entry::Small(small) = entry
            && let Some(message) = self.frames.read(small)
        {
            *entry = Entry::Long(Box::new(Long::lengthened(message, small.clone())));
        }
    }

    /// Asks for the next message while the one before is being sent. One ahead, not more: each
    /// grant ties up the receiver's memory.
    fn ask_ahead(&mut self, room: usize, terms: Terms) -> Option<Plan> {
        let number = self.asks_ahead(terms)?;
        self.ask(number, room)
    }

    /// The message that asks while the one before is being sent, if it may.
    fn asks_ahead(&self, terms: Terms) -> Option<MessageNumber> {
        let &Item {
            first: number,
            ref entry,
        } = self.queue.after_next()?;
        if self.asked.is_some() || self.charged != number {
            return None;
        }
        let may =
            Self::asks_first(entry, terms) && self.fits(entry.request_charge(), terms).is_ok();
        may.then_some(number)
    }

    fn take_credit(&mut self, number: MessageNumber, charge: u64) {
        self.used = self.used.saturating_add(charge);
        self.charged = number.saturating_add(1);
    }

    fn move_cursor(&mut self) {
        while let Some(entry) = self.queue.next() {
            match entry {
                Entry::Long(long) if long.is_sent() => self.queue.advance(1),
                Entry::Chain(chain) if chain.is_sent() => self.queue.advance(1),
                _ => break,
            }
        }
    }

    /// What `plan` puts into the packet, which has `room` bytes left.
    pub(super) fn piece(&self, plan: &Plan, room: usize) -> Option<Piece<'_>> {
        let (number, entry) = (plan.number, self.long(plan.number)?);
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
}

#[cfg(test)]
impl Spares {
    pub(super) fn footprint(&self) -> usize {
        self.frames.footprint() + self.sent.footprint() + self.waiting.footprint()
    }
}

#[cfg(test)]
impl OutgoingChannel {
    pub(super) fn frames_held(&self) -> usize {
        self.frames.held()
    }

    /// Bytes allocated for messages, those of long ones apart.
    pub(super) fn footprint(&self) -> usize {
        let resend = self.resend.capacity() * size_of::<MessageNumber>();
        self.frames.footprint() + self.queue.footprint() + resend
    }
}
