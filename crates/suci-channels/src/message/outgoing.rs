//! One channel of the outbox: its memory credit, which messages may be sent now, and which of them
//! are announced.
//!
//! A message is first charged (it takes memory credit), then sent, then over (acknowledged or
//! refused). A message is *announced* if its RTS is sent before its bytes. At most one RTS is
//! unanswered. It may be sent while the bytes of the message before it are still being sent: then
//! they do not wait for its round trip.

use super::Completion;
use super::segment::{Filling, SendSegment};
use super::send_queue::{Cancelled, Released, SendQueue};
use super::sizes::SplitU64;
use core::ops::Range;
use std::collections::VecDeque;
use suci_link::limits::{GROUP_RTS_INSTEAD, RTS_INSTEAD};
use suci_link::types::{ChannelId, MessageNumber, ProtocolError};

/// Limits of the session that decide whether a message may be sent now.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendLimits {
    /// Messages longer than this many bytes are announced.
    pub(super) rts_threshold: u64,
    /// The channel window of the handshake, once known.
    pub(super) window: Option<u64>,
    /// Memory credit left in the session for messages of programs.
    pub(super) session_room: u64,
    /// Memory credit left in the session for messages of groups.
    pub(super) group_room: u64,
    /// Memory credit left in the session for replies.
    pub(super) reply_room: u64,
}

impl SendLimits {
    /// Returns the memory credit left in the session for messages of `channel`.
    #[inline]
    pub(super) const fn room_on(&self, channel: ChannelId) -> u64 {
        if channel.may_use_reserve() {
            self.reply_room
        } else if channel.is_of_group() {
            self.group_room
        } else {
            self.session_room
        }
    }
}

/// The resource that a channel waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Memory credit of the channel.
    ChannelCredit,
    /// Memory credit of the session.
    SessionCredit,
    /// The answer to an RTS.
    RtsAnswer,
}

/// The readiness of a channel for the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ready,
    Blocked(Block),
    /// Nothing to send.
    Idle,
}

/// The scheduling state of a channel: whether it waits outside the scheduler.
#[derive(Debug, Default)]
pub(super) struct WaitState {
    /// The channel was removed from the scheduler because it lacks this.
    pub(super) parked: Option<Block>,
    /// The channel is in the list of those to report as blocked.
    pub(super) to_report: bool,
}

/// The progress of a channel's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fin {
    /// The program may send more.
    Open,
    /// FIN is to be sent once all messages are acknowledged.
    Wanted,
    /// The channel is in the list of those whose FIN is to be sent.
    Listed,
    /// FIN was sent.
    Sent,
}

/// A message whose RTS is unanswered.
#[derive(Clone, Copy, Debug)]
struct OpenRts {
    number: MessageNumber,
    /// The RTS was lost.
    lost: bool,
}

#[derive(Debug)]
pub(super) struct OutgoingChannel {
    id: ChannelId,
    pub(super) queue: SendQueue,
    /// The number of the first message that is not charged. The first unsent message has this
    /// number or one of the two before.
    charged: MessageNumber,
    open_rts: Option<OpenRts>,
    /// The channel's memory credit: granted, and used.
    limit: u64,
    used: u64,
    pub(super) wait: WaitState,
    pub(super) fin: Fin,
}

/// The numbers kept of a channel that has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ColdOutgoing {
    /// The number of the next message.
    number: SplitU64,
    used: SplitU64,
    /// Memory credit left, at most `u32::MAX` bytes.
    room: u32,
}

impl ColdOutgoing {
    /// Returns the number of the next message.
    pub(super) fn number(&self) -> MessageNumber {
        self.number.whole()
    }

    /// Returns the memory credit left.
    pub(super) fn room(&self) -> u64 {
        self.room.into()
    }

    /// Raises the limit.
    pub(super) fn raise_limit(&mut self, limit: u64) {
        let room = limit.saturating_sub(self.used.whole());
        self.room = self.room.max(u32::try_from(room).unwrap_or(u32::MAX));
    }
}

impl OutgoingChannel {
    pub(super) fn new(id: ChannelId, limit: u64) -> Self {
        Self {
            id,
            queue: SendQueue::default(),
            charged: 0,
            open_rts: None,
            limit,
            used: 0,
            wait: WaitState::default(),
            fin: Fin::Open,
        }
    }

    /// Returns the channel as it was before it became idle. Its next message has this position,
    /// which none of its messages had.
    pub(super) fn from_cold(id: ChannelId, cold: ColdOutgoing, position: u64) -> Self {
        let (number, used) = (cold.number(), cold.used.whole());
        Self {
            queue: SendQueue::at(number, position),
            charged: number,
            used,
            ..Self::new(id, used.saturating_add(cold.room()))
        }
    }

    /// Returns the numbers to keep of the channel while it is idle.
    pub(super) fn to_cold(&self) -> ColdOutgoing {
        ColdOutgoing {
            number: SplitU64::of(self.queue.end_number()),
            used: SplitU64::of(self.used),
            room: u32::try_from(self.room()).unwrap_or(u32::MAX),
        }
    }

    /// Returns true if the channel has no message, waits for nothing, and has nothing to report.
    pub(super) fn is_idle(&self) -> bool {
        let waits = self.wait.parked.is_some() || self.wait.to_report;
        self.queue.is_empty() && self.open_rts.is_none() && !waits && self.fin == Fin::Open
    }

    pub(super) fn id(&self) -> ChannelId {
        self.id
    }

    /// Returns how many messages, from the first on, are acknowledged or refused.
    pub(super) fn delivered(&self) -> MessageNumber {
        self.queue.first_number()
    }

    /// Returns how many messages are neither acknowledged nor refused.
    pub(super) fn open(&self) -> u64 {
        let first = self.queue.first_number();
        self.queue.end_number().saturating_sub(first)
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the memory credit left.
    pub(super) fn room(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// Raises the limit. Returns false if it was already as high.
    pub(super) fn raise_limit(&mut self, limit: u64) -> bool {
        let higher = limit > self.limit;
        self.limit = self.limit.max(limit);
        higher
    }

    // ---- which messages may be sent

    fn fits(&self, charge: u64, limits: SendLimits) -> Result<(), Block> {
        if self
            .used
            .checked_add(charge)
            .is_none_or(|used| used > self.limit)
        {
            Err(Block::ChannelCredit)
        } else if charge > limits.room_on(self.id) {
            Err(Block::SessionCredit)
        } else {
            Ok(())
        }
    }

    /// Returns true if this message is announced although the credit suffices.
    fn needs_rts(&self, segment: &SendSegment, limits: SendLimits) -> bool {
        let window = limits.window.map(|window| self.id.window(window));
        let half = window.map_or(u64::MAX, |window| window / 2);
        segment.total() > limits.rts_threshold
            || (segment.total() > RTS_INSTEAD && segment.charge() > half)
    }

    /// Returns whether message `number`, the next to be charged, is announced; or what it waits
    /// for.
    ///
    /// A window may have become smaller than a message that is too short for an RTS. Such a
    /// message is announced when it is the first of the queue: otherwise it would wait for credit
    /// that cannot come.
    fn admit(
        &self,
        number: MessageNumber,
        segment: &SendSegment,
        limits: SendLimits,
    ) -> Result<bool, Block> {
        let rts = || self.fits(segment.rts_charge(), limits).map(|()| true);
        if self.needs_rts(segment, limits) {
            return rts();
        }
        self.fits(segment.charge(), limits)
            .map(|()| false)
            .or_else(|block| {
                let first = number == self.queue.first_number();
                let longest = match self.id.is_of_group() {
                    true => GROUP_RTS_INSTEAD,
                    false => RTS_INSTEAD,
                };
                match segment.total() > longest && first {
                    true => rts().map_err(|_| block),
                    false => Err(block),
                }
            })
    }

    /// Returns true if something was lost and not sent again.
    fn has_lost(&self) -> bool {
        self.queue.has_lost() || self.open_rts.is_some_and(|rts| rts.lost)
    }

    /// Returns true if no byte waits to be sent, for the first time or again.
    pub(super) fn has_sent_all(&self) -> bool {
        !self.has_lost() && !self.queue.has_unsent()
    }

    /// Returns how many bytes were never sent; nothing if some were lost.
    pub(super) fn unsent(&self) -> Option<u64> {
        let unsent = self.queue.end().saturating_sub(self.queue.next());
        (!self.has_lost()).then_some(unsent)
    }

    /// Returns true if the RTS of message `number` is unanswered.
    fn has_open_rts(&self, number: MessageNumber) -> bool {
        self.open_rts.is_some_and(|rts| rts.number == number)
    }

    pub(super) fn status(&self, limits: SendLimits) -> Status {
        if self.has_lost() {
            return Status::Ready;
        }
        let Some((number, segment)) = self.queue.unsent() else {
            return Status::Idle;
        };
        if self.has_open_rts(number) {
            return Status::Blocked(Block::RtsAnswer);
        }
        // Part of it was sent, or the receiver granted it.
        if number < self.charged {
            return Status::Ready;
        }
        match self.admit(number, segment, limits) {
            Ok(_) => Status::Ready,
            Err(block) => Status::Blocked(block),
        }
    }

    /// Returns true if the message behind `number` is announced while `number` is being sent. Only
    /// one message is announced ahead, because each grant ties up the receiver's memory.
    fn announces_ahead(&self, number: MessageNumber, limits: SendLimits) -> bool {
        self.charged == number.saturating_add(1)
            && self.open_rts.is_none()
            && self.queue.behind_unsent(number).is_some_and(|segment| {
                self.needs_rts(segment, limits) && self.fits(segment.rts_charge(), limits).is_ok()
            })
    }

    // ---- into packets

    /// Appends to `out` as much of the queue as `filling` has room for and the credit allows. Lost
    /// bytes go before new ones.
    pub(super) fn fill(&mut self, limits: SendLimits, filling: &mut Filling, out: &mut Vec<u8>) {
        if self.queue.has_lost() {
            return self.queue.put_lost(self.id, filling, out);
        }
        if let Some(OpenRts { number, lost: true }) = self.open_rts {
            if self.put_rts(number, filling, out) {
                let lost = false;
                self.open_rts = Some(OpenRts { number, lost });
            }
            return;
        }
        if let Some((number, _)) = self.queue.unsent()
            && self.announces_ahead(number, limits)
            && self.announce(self.charged, filling, out)
        {
            return;
        }
        self.fill_new(limits, filling, out);
    }

    /// As [`fill`](Self::fill), with bytes that were never sent.
    fn fill_new(&mut self, limits: SendLimits, filling: &mut Filling, out: &mut Vec<u8>) {
        filling.begin(self.queue.next(), false);
        while filling.goes_on()
            && let Some((number, segment)) = self.queue.unsent()
        {
            if self.has_open_rts(number) {
                break;
            }
            let (first, charge) = (segment.first, segment.charge());
            let uncharged = self.charged.max(first);
            let left = segment.end_number().saturating_sub(uncharged);
            let session = limits.room_on(self.id).saturating_sub(filling.charged);
            let credit = self.room().min(session);
            // How many messages the credit pays for. In most cases it pays for all.
            let paid = if self.needs_rts(segment, limits) {
                0
            } else if left.saturating_mul(charge) <= credit {
                left
            } else {
                credit / charge
            };
            if paid == 0 && number >= self.charged {
                if filling.bytes == 0 && self.admit(number, segment, limits) == Ok(true) {
                    self.announce(number, filling, out);
                }
                break;
            }
            let paid_end = uncharged.saturating_add(paid);
            let limit = segment.position(paid_end.saturating_sub(first));
            let untouched = self.queue.put_new(self.id, limit, filling, out);
            let more = untouched.saturating_sub(uncharged).saturating_mul(charge);
            self.charged = self.charged.max(untouched);
            self.used = self.used.saturating_add(more);
            filling.charged = filling.charged.saturating_add(more);
            if filling.end < limit || paid < left || filling.deadline.is_some() {
                break;
            }
        }
    }

    /// Puts the first RTS of message `number` behind what `out` holds, if it fits.
    fn announce(
        &mut self,
        number: MessageNumber,
        filling: &mut Filling,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some((_, segment)) = self.queue.find(number) else {
            return false;
        };
        let charge = segment.rts_charge();
        let fits = self.put_rts(number, filling, out);
        if fits {
            filling.charged = charge;
            filling.deadline = self.queue.announce(number).map(|at| (at, number));
            let lost = false;
            self.open_rts = Some(OpenRts { number, lost });
            self.used = self.used.saturating_add(charge);
            self.charged = number.saturating_add(1);
        }
        fits
    }

    /// Puts the RTS of message `number` behind what `out` holds, if it fits.
    fn put_rts(&self, number: MessageNumber, filling: &mut Filling, out: &mut Vec<u8>) -> bool {
        self.queue
            .rts(self.id, number)
            .is_some_and(|rts| filling.put_rts(number, rts, out))
    }

    /// As [`SendQueue::rest`], if nothing else is to go first.
    pub(super) fn rest(
        &self,
        start: u64,
        end: u64,
        limits: SendLimits,
    ) -> Option<(MessageNumber, Range<u64>)> {
        let (number, range) = self.queue.rest(start, end)?;
        (!self.has_lost() && !self.announces_ahead(number, limits)).then_some((number, range))
    }

    // ---- acknowledgements, losses and answers

    /// Marks positions as acknowledged.
    pub(super) fn acked(&mut self, range: Range<u64>, out: &mut VecDeque<Completion>) -> Released {
        self.queue.acked(self.id, range, out)
    }

    /// Notes that the RTS of `number` was lost, or acknowledged.
    pub(super) fn rts_lost(&mut self, number: MessageNumber, lost: bool) {
        if let Some(rts) = self.open_rts.as_mut().filter(|rts| rts.number == number) {
            rts.lost = lost;
        }
    }

    /// Schedules all unacknowledged bytes for retransmission.
    pub(super) fn all_lost(&mut self) {
        self.queue.all_lost();
        if let Some(rts) = &mut self.open_rts {
            rts.lost = true;
        }
    }

    /// Returns whether an answer to message `number` is new. A repeated one is not.
    fn answers(&self, number: MessageNumber) -> Result<bool, ProtocolError> {
        if self.has_open_rts(number) {
            return Ok(true);
        }
        // The answer to a message that left the queue counts as repeated.
        let announced = self
            .queue
            .find(number)
            .is_some_and(|(_, segment)| segment.announced);
        if number < self.queue.first_number() || announced {
            return Ok(false);
        }
        Err(ProtocolError::OutOfPlace(
            "an answer to a message that was not announced",
        ))
    }

    /// Handles the permission for message `number`. Returns true if it is new.
    pub(super) fn granted(&mut self, number: MessageNumber) -> Result<bool, ProtocolError> {
        let new = self.answers(number)?;
        if new {
            self.open_rts = None;
        }
        Ok(new)
    }

    /// Handles the refusal of message `number`.
    pub(super) fn refused(
        &mut self,
        number: MessageNumber,
        reason: u64,
        out: &mut VecDeque<Completion>,
    ) -> Result<Released, ProtocolError> {
        if !self.answers(number)? {
            return Ok(Released::default());
        }
        self.open_rts = None;
        Ok(self.queue.refused(self.id, number, reason, out))
    }

    /// Cancels the messages with this token of which nothing was sent, the last ones first.
    pub(super) fn cancel_token(&mut self, token: u64) -> Vec<Cancelled> {
        self.queue.cancel_token(token, self.charged)
    }

    /// Cancels message `number`, which has a token or a deadline of its own, if nothing of it was
    /// sent.
    pub(super) fn cancel_one(&mut self, number: MessageNumber) -> Option<Cancelled> {
        self.queue.cancel_one(number, self.charged)
    }

    /// Appends the outcome of every remaining message to `out`, in order, since the session ended.
    pub(super) fn end_all(&mut self, out: &mut Vec<Completion>) {
        self.queue.end_all(self.id, out);
        self.charged = self.queue.end_number();
        self.open_rts = None;
    }
}
