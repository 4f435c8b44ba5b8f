//! One channel of the inbox: its order, its memory credit, and the answer to its RTS.

mod accounts;
mod cold;
mod packed;

pub(super) use accounts::{Accounts, Freed};
pub(super) use cold::ColdIncoming;

use super::answer::{Answer, IncomingInfo};
use super::assembly::{Assembly, Charging, Description, Fault, budgeted};
use super::packed_queue::{PackedQueue, PackedQueueCache};
use super::placement::Place;
use super::pool::{CHUNKED, Chunk, copy_alone};
use super::sizes::{charge, len64, to_usize};
use super::slot::{Slot, SlotCache};
use super::{Message, ReceiveBuffer};
use bytes::Bytes;
use std::collections::VecDeque;
use suci_link::limits::MESSAGE_CHARGE;
use suci_link::planted;
use suci_link::types::{ChannelId, Kind, MessageNumber, ProtocolError};
use suci_link::wire::{ContiguousPackets, Frag, Rts};

/// The channel's newest RTS. Older ones need no memory: their sender got the answer, otherwise it
/// could not have sent this one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announcement {
    number: MessageNumber,
    total: u64,
    state: AnnouncementState,
}

/// The state of the decision about an RTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnnouncementState {
    /// The program must decide.
    Undecided,
    /// Accepted; waits for the budget of large messages.
    Waiting,
    /// CTS is the answer.
    Granted,
    /// REFUSE with this reason is the answer.
    Refused(u64),
}

/// How a received RTS relates to earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RtsOrder {
    New,
    /// A repetition of the newest one: its answer, if there is one, may be lost.
    Again,
    /// Older than the newest one, so it was answered.
    Stale,
}

/// The lists of the inbox that contain the channel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Listed {
    pub(super) answer: bool,
    pub(super) update: bool,
    pub(super) reply: bool,
    pub(super) handled: bool,
}

#[derive(Debug)]
pub(super) struct IncomingChannel {
    id: ChannelId,
    /// Messages in front of those in `slots`.
    packed: PackedQueue,
    /// The number of the first slot.
    base: MessageNumber,
    slots: VecDeque<Slot>,
    /// Number of settled slots at the front.
    settled: usize,
    /// Memory credit charged so far for the channel's messages, taken ones included.
    charged: u64,
    /// Memory credit of the messages that the program took.
    consumed: u64,
    /// Memory credit that may be in use at once.
    window: u64,
    /// Memory credit granted so far.
    limit: u64,
    /// The sender waits for a higher limit.
    is_blocked: bool,
    announcement: Option<Announcement>,
    /// The channel was cold, and the messages that it granted before are forgotten.
    was_cold: bool,
    /// The number of its messages, once its sender finished it.
    end: Option<MessageNumber>,
    pub(super) listed: Listed,
}

impl IncomingChannel {
    pub(super) fn id(&self) -> ChannelId {
        self.id
    }

    /// Returns a channel whose limit, by the handshake, is `limit`.
    pub(super) fn new(id: ChannelId, limit: u64, window: u64) -> Self {
        Self {
            id,
            packed: PackedQueue::default(),
            base: 0,
            slots: VecDeque::new(),
            settled: 0,
            charged: 0,
            consumed: 0,
            window,
            limit,
            is_blocked: false,
            announcement: None,
            was_cold: false,
            end: None,
            listed: Listed::default(),
        }
    }

    fn contradiction(&self, message: MessageNumber) -> ProtocolError {
        ProtocolError::Contradiction {
            channel: self.id.0,
            message,
        }
    }

    fn fault(&self, message: MessageNumber, fault: Fault) -> ProtocolError {
        match fault {
            Fault::Contradiction => self.contradiction(message),
            Fault::Gaps => ProtocolError::Limit("gaps in a message"),
        }
    }

    /// Returns the slot index of message `number`, or `None` if the message is packed or was taken.
    fn index_of(&self, number: MessageNumber) -> Option<usize> {
        number.checked_sub(self.base).map(to_usize)
    }

    fn slot(&self, index: usize) -> &Slot {
        self.slots.get(index).unwrap_or(&Slot::Unseen)
    }

    /// Charges the message at `index` until it has taken `charge` in all, and the unseen messages
    /// before it. Changes nothing if that exceeds the credit.
    fn book(
        &mut self,
        index: usize,
        charge: u64,
        accounts: &mut Accounts,
    ) -> Result<(), ProtocolError> {
        let more = match self.slots.get(index) {
            Some(slot) => charge.saturating_sub(slot.charge()),
            None => len64(index.saturating_sub(self.slots.len()))
                .saturating_mul(MESSAGE_CHARGE)
                .saturating_add(charge),
        };
        if self.end.is_some() && more > 0 {
            return Err(ProtocolError::OutOfPlace(
                "a message behind the end of its channel",
            ));
        }
        if !self.charge(more, accounts) {
            return Err(ProtocolError::MemoryCredit(self.id.0));
        }
        // At most one per 64 B of credit.
        accounts.slot_cache.lengthen(&mut self.slots, index);
        Ok(())
    }

    /// Charges `more`. Returns false and changes nothing if that exceeds the credit.
    #[must_use]
    fn charge(&mut self, more: u64, accounts: &mut Accounts) -> bool {
        let channel = self.charged.saturating_add(more);
        let session = accounts.charged.saturating_add(more);
        let fits = channel <= self.limit && session <= accounts.session_limit
            || planted("memory-unchecked");
        if fits {
            self.charged = channel;
            accounts.charged = session;
        }
        fits
    }

    /// Stores `slot` at its `index`, which was charged.
    fn put(&mut self, index: usize, slot: Slot) {
        match self.slots.get_mut(index) {
            Some(old) => *old = slot,
            None => self.slots.push_back(slot),
        }
    }

    /// Handles a fragment. Returns the credit that becomes free, if it completes a void message.
    ///
    /// # Errors
    /// The peer broke a rule; its session is to be ended.
    pub(super) fn on_frag(
        &mut self,
        frag: &Frag<'_>,
        accounts: &mut Accounts,
    ) -> Result<Option<Freed>, ProtocolError> {
        let Some(index) = self.index_of(frag.message) else {
            return Ok(None);
        };
        match (self.slot(index), &frag.start) {
            (Slot::Whole { .. } | Slot::Assembled(_) | Slot::Void { .. }, _) => Ok(None),
            (Slot::Refused { .. }, _) => {
                Err(ProtocolError::OutOfPlace("data of a refused message"))
            }
            (Slot::Unseen, Some(_)) if frag.end => self.take_whole(index, frag, accounts),
            (Slot::Unseen | Slot::Pieces(_), _) => self.take_part(index, frag, accounts),
        }
    }

    /// Handles a message in one piece.
    fn take_whole(
        &mut self,
        index: usize,
        frag: &Frag<'_>,
        accounts: &mut Accounts,
    ) -> Result<Option<Freed>, ProtocolError> {
        let Some(start) = &frag.start else {
            return Ok(None);
        };
        let header = start.user_header;
        let header_len = u8::try_from(header.len())
            .map_err(|_| ProtocolError::Malformed("user header too long"))?;
        self.book(
            index,
            charge(len64(frag.data.len()), header.len()),
            accounts,
        )?;
        let size = header.len().saturating_add(frag.data.len());
        if start.kind == Kind::VOID && !planted("void-delivered") {
            let charge = charge(len64(frag.data.len()), header.len());
            return Ok(Some(self.discard(index, charge)));
        }
        let bytes = if size <= CHUNKED && index == self.settled {
            accounts.chunk.copy(&accounts.pool, header, frag.data)
        } else {
            copy_alone(&accounts.pool, header, frag.data)
        };
        let slot = Slot::Whole {
            bytes,
            tag: start.tag,
            kind: start.kind,
            header_len,
        };
        self.put(index, slot);
        accounts.complete = accounts.complete.saturating_add(1);
        if index == self.settled {
            self.settle();
        }
        Ok(None)
    }

    /// Discards the complete void message at `index`; the program never sees it. Returns what this
    /// frees if no message in front of it waits.
    #[cold]
    fn discard(&mut self, index: usize, charge: u64) -> Freed {
        self.put(index, Slot::Void { charge });
        self.settle();
        self.free_skipped()
    }

    /// Skips messages at the front that the program never takes, and returns their credit to the
    /// sender.
    fn free_skipped(&mut self) -> Freed {
        let freed = Freed {
            charge: self.skip_front(),
            large: 0,
        };
        self.consume(freed.charge);
        freed
    }

    /// Handles a piece of a message.
    fn take_part(
        &mut self,
        index: usize,
        frag: &Frag<'_>,
        accounts: &mut Accounts,
    ) -> Result<Option<Freed>, ProtocolError> {
        if let Some(Slot::Pieces(assembly)) = self.slots.get_mut(index)
            && assembly.add_end(frag)
        {
            return Ok(self.complete(index, accounts));
        }
        let charged = match self.slot(index) {
            Slot::Pieces(assembly) => {
                if let Charging::Announced { granted: false, .. } = assembly.charging {
                    return Err(ProtocolError::OutOfPlace("data before its permission"));
                }
                assembly.charge_with(frag)
            }
            _ => Assembly::unannounced().charge_with(frag),
        };
        let charged = charged.map_err(|fault| self.fault(frag.message, fault))?;
        self.book(index, charged, accounts)?;
        if matches!(self.slot(index), Slot::Unseen) {
            self.put(index, Slot::Pieces(accounts.unannounced()));
        }
        let Some(Slot::Pieces(assembly)) = self.slots.get_mut(index) else {
            return Ok(None);
        };
        if assembly.note(frag) && accounts.places.is_some() {
            self.place(index, frag.message, accounts);
        }
        let Some(Slot::Pieces(assembly)) = self.slots.get_mut(index) else {
            return Ok(None);
        };
        let chunk = (index == self.settled).then_some(&mut accounts.chunk);
        let taken = assembly.add(frag, &accounts.pool, chunk);
        let is_complete = taken.is_ok() && assembly.is_complete();
        taken.map_err(|fault| self.fault(frag.message, fault))?;
        Ok(is_complete
            .then(|| self.complete(index, accounts))
            .flatten())
    }

    /// Directs the bytes of message `index` to memory that its layer names. Does nothing if the
    /// layer names none, or if an earlier message was neither taken nor placed in such memory.
    #[inline(never)]
    fn place(&mut self, index: usize, number: MessageNumber, accounts: &mut Accounts) {
        if self.is_next_to_place(index)
            && let Some(Slot::Pieces(assembly)) = self.slots.get_mut(index)
            && let Place::Named(memory) = accounts.places.find(self.id, number, assembly)
        {
            if assembly.is_in_chunk() {
                accounts.chunk.on_completed();
            }
            assembly.supply(memory);
        }
    }

    /// Returns true if all messages before `index` were taken, or go to memory that was named for
    /// them.
    fn is_next_to_place(&self, index: usize) -> bool {
        let mut earlier = self.slots.iter().take(index);
        self.packed.is_empty()
            && earlier.all(|slot| slot.is_placed() || planted("placed-out-of-order"))
    }

    /// Moves the bytes of messages from lent memory to ours.
    pub(super) fn take_back(&mut self, accounts: &Accounts) {
        for slot in &mut self.slots {
            if let Slot::Pieces(assembly) | Slot::Assembled(assembly) = slot {
                assembly.take_back(&accounts.pool);
            }
        }
    }

    /// Completes message `index`, all pieces of which arrived. Returns what this frees, if the
    /// message is void.
    fn complete(&mut self, index: usize, accounts: &mut Accounts) -> Option<Freed> {
        let slot = self.slots.get_mut(index)?;
        debug_assert!(matches!(slot, Slot::Pieces(_)), "it came in pieces");
        if let Slot::Pieces(assembly) = core::mem::replace(slot, Slot::Unseen) {
            *slot = accounts.on_assembled(assembly);
            if slot.kind() == Some(Kind::VOID) {
                accounts.complete = accounts.complete.saturating_sub(1);
                let charge = slot.charge();
                return Some(self.discard(index, charge));
            }
            self.settle();
        }
        None
    }

    /// Adds pieces of message `number` that continue the piece handled last.
    pub(super) fn on_contiguous(
        &mut self,
        number: MessageNumber,
        packets: &mut ContiguousPackets<'_>,
    ) {
        let index = self.index_of(number);
        if let Some(Slot::Pieces(assembly)) = index.and_then(|index| self.slots.get_mut(index)) {
            assembly.add_contiguous(packets);
        }
    }

    /// Counts the settled slots at the front.
    fn settle(&mut self) {
        while self.slots.get(self.settled).is_some_and(Slot::is_settled) {
            self.settled = self.settled.saturating_add(1);
        }
    }

    /// Returns true if the program can take a message.
    pub(super) fn is_ready(&self) -> bool {
        !self.packed.is_empty() || self.slots.front().is_some_and(Slot::is_complete)
    }

    /// Returns true if a message began that the program did not take.
    pub(super) fn has_begun(&self) -> bool {
        !self.packed.is_empty() || !self.slots.is_empty()
    }

    /// Takes the next message if none is packed, and adds what it frees to `freed`.
    fn pop_slot(&mut self, freed: &mut Freed) -> Option<Message> {
        if !self.packed.is_empty() {
            return None;
        }
        let slot = self.slots.pop_front_if(|slot| slot.is_complete())?;
        freed.charge = slot.charge();
        let (channel, number) = (self.id, self.base);
        self.leave(1);
        let (tag, kind, user_header, payload) = match slot {
            Slot::Whole {
                mut bytes,
                tag,
                kind,
                header_len,
            } => {
                let user_header = match usize::from(header_len) {
                    0 => Bytes::new(),
                    len => bytes.split_to(len.min(bytes.len())),
                };
                (tag, kind, user_header, bytes.into())
            }
            Slot::Assembled(assembly) => {
                freed.large = assembly.budgeted();
                let (description, payload) = assembly.finish()?;
                let Description {
                    tag,
                    kind,
                    user_header,
                } = description;
                (tag, kind, user_header, payload)
            }
            _ => return None,
        };
        Some(Message {
            channel,
            number,
            tag,
            kind,
            user_header,
            payload,
        })
    }

    /// Accounts for the removal of the first `count` slots.
    fn leave(&mut self, count: usize) {
        self.base = self.base.saturating_add(len64(count));
        self.settled = self.settled.saturating_sub(count);
    }

    /// Skips messages at the front that the program never takes. Returns their charges.
    #[inline]
    fn skip_front(&mut self) -> u64 {
        let mut freed = 0_u64;
        while self.packed.is_empty()
            && let Some(slot) = self.slots.pop_front_if(|slot| slot.is_skipped())
        {
            freed = freed.saturating_add(slot.charge());
            self.leave(1);
        }
        freed
    }

    // ---- memory credit

    fn consume(&mut self, charge: u64) {
        self.consumed = self.consumed.saturating_add(planted_consumption(charge));
    }

    /// Returns the limit that the channel should have.
    fn target(&self) -> u64 {
        self.consumed.saturating_add(self.window)
    }

    /// Notes that the sender waits for a higher limit.
    pub(super) fn on_blocked(&mut self) {
        self.is_blocked = true;
    }

    /// Returns true if the limit should rise by enough to be worth a frame. For a sender that waits
    /// any rise is: its next message may lack a few bytes, and then the window never moves.
    pub(super) fn update_due(&self) -> bool {
        let least = if self.is_blocked { 0 } else { self.window / 4 };
        self.target().saturating_sub(self.limit) >= least.max(1)
    }

    /// Raises the limit and returns its announcement.
    pub(super) fn announce(&mut self) -> Answer {
        self.is_blocked &= self.limit >= self.target();
        self.limit = self.limit.max(self.target());
        Answer::MaxChannel {
            channel: self.id,
            limit: self.limit,
        }
    }

    pub(super) fn set_window(&mut self, window: u64) {
        self.window = window;
    }

    // ---- large messages

    /// Handles an RTS. A new one gets this `state`.
    ///
    /// # Errors
    /// The peer broke a rule.
    pub(super) fn on_rts(
        &mut self,
        rts: &Rts<'_>,
        state: AnnouncementState,
        accounts: &mut Accounts,
    ) -> Result<RtsOrder, ProtocolError> {
        if let Some(announcement) = self.announcement
            && announcement.number >= rts.message
        {
            let announced = match self.index_of(rts.message) {
                Some(index) => self.slot(index).was_announced(),
                None => rts.message < self.front(),
            };
            return match announcement.number == rts.message {
                true if announcement.total == rts.total => Ok(RtsOrder::Again),
                false if announced => Ok(RtsOrder::Stale),
                _ => Err(self.contradiction(rts.message)),
            };
        }
        let Some(index) = self.index_of(rts.message) else {
            return match self.was_cold {
                true if self.announcement.is_none() => Ok(RtsOrder::Stale),
                _ => Err(self.contradiction(rts.message)),
            };
        };
        if !matches!(self.slot(index), Slot::Unseen) {
            return Err(self.contradiction(rts.message));
        }
        if self.announcement.is_some_and(|r| {
            matches!(
                r.state,
                AnnouncementState::Undecided | AnnouncementState::Waiting
            )
        }) {
            return Err(ProtocolError::Limit("open RTS at once on a channel"));
        }
        if rts.total == 0 || rts.kind == Kind::VOID {
            return Err(ProtocolError::OutOfPlace("an RTS of an empty message"));
        }
        self.book(index, charge(0, rts.user_header.len()), accounts)?;
        let description = Description {
            tag: rts.tag,
            kind: rts.kind,
            user_header: Bytes::copy_from_slice(rts.user_header),
        };
        let assembly = Assembly::announced(rts.total, description);
        self.put(index, Slot::Pieces(Box::new(assembly)));
        self.announcement = Some(Announcement {
            number: rts.message,
            total: rts.total,
            state,
        });
        Ok(RtsOrder::New)
    }

    /// Returns the announcement of an RTS for the program.
    pub(super) fn info(&self, rts: &Rts<'_>) -> IncomingInfo {
        IncomingInfo {
            channel: self.id,
            number: rts.message,
            total: rts.total,
            tag: rts.tag,
            kind: rts.kind,
            user_header: Bytes::copy_from_slice(rts.user_header),
        }
    }

    /// Returns the number of the announced message about which nobody decided yet.
    pub(super) fn undecided(&self) -> Option<MessageNumber> {
        let undecided = |announcement: &Announcement| {
            matches!(announcement.state, AnnouncementState::Undecided)
        };
        self.announcement.filter(undecided).map(|it| it.number)
    }

    /// Returns the number and length of the announced message, if it was not answered.
    pub(super) fn unanswered(&self) -> Option<(MessageNumber, u64)> {
        self.announcement
            .filter(|announcement| {
                matches!(
                    announcement.state,
                    AnnouncementState::Undecided | AnnouncementState::Waiting
                )
            })
            .map(|announcement| (announcement.number, announcement.total))
    }

    /// Returns the decision about the place of the announced message that was not answered. It
    /// comes later if an earlier message was neither taken nor placed.
    pub(super) fn place_announced(&self, accounts: &Accounts) -> Place {
        let Some((number, _)) = self.unanswered() else {
            return Place::Later;
        };
        let index = self.index_of(number);
        match index.map(|index| (self.is_next_to_place(index), self.slot(index))) {
            Some((true, Slot::Pieces(assembly))) => accounts.places.find(self.id, number, assembly),
            _ => Place::Later,
        }
    }

    /// Makes the message wait for the budget, since the program accepted it.
    pub(super) fn wait(&mut self) {
        if let Some(announcement) = &mut self.announcement {
            announcement.state = AnnouncementState::Waiting;
        }
    }

    /// Permits the waiting message, into `memory` or else into ours. It counts in the budget of
    /// large messages if it is `ours`, or may become so by [`take_back`](Self::take_back).
    pub(super) fn grant(
        &mut self,
        memory: Option<ReceiveBuffer>,
        ours: bool,
        accounts: &mut Accounts,
    ) {
        let Some((number, total)) = self.unanswered() else {
            return;
        };
        if let Some(index) = self.index_of(number)
            && let Some(Slot::Pieces(assembly)) = self.slots.get_mut(index)
        {
            assembly.charging = Charging::Announced {
                granted: true,
                ours,
            };
            accounts.unfinished = accounts.unfinished.saturating_add(1);
            if let Some(memory) = memory {
                assembly.supply(memory);
            }
            if ours {
                accounts.large = accounts.large.saturating_add(budgeted(total));
                accounts.unfinished_bytes =
                    accounts.unfinished_bytes.saturating_add(budgeted(total));
            }
        }
        self.announcement = Some(Announcement {
            number,
            total,
            state: AnnouncementState::Granted,
        });
    }

    /// Refuses the waiting message. Returns what this frees at once.
    pub(super) fn refuse(&mut self, reason: u64) -> Freed {
        let Some((number, total)) = self.unanswered() else {
            return Freed::default();
        };
        if let Some(slot) = self
            .index_of(number)
            .and_then(|index| self.slots.get_mut(index))
        {
            *slot = Slot::Refused {
                charge: slot.charge(),
            };
        }
        self.announcement = Some(Announcement {
            number,
            total,
            state: AnnouncementState::Refused(reason),
        });
        self.settle();
        self.free_skipped()
    }

    /// Returns the answer to the newest RTS.
    pub(super) fn answer(&self) -> Option<Answer> {
        let Announcement {
            number: message,
            state,
            ..
        } = self.announcement?;
        let channel = self.id;
        match state {
            AnnouncementState::Undecided | AnnouncementState::Waiting => None,
            AnnouncementState::Granted => Some(Answer::Cts { channel, message }),
            AnnouncementState::Refused(reason) => Some(Answer::Refuse {
                channel,
                message,
                reason,
            }),
        }
    }

    /// Returns true if the newest answer is about `message`.
    pub(super) fn answered(&self, message: MessageNumber) -> bool {
        self.answer().is_some() && self.announcement.is_some_and(|r| r.number == message)
    }
}

/// Returns by how much consumption moves the limits: by the charge, unless a fault is planted.
pub(super) fn planted_consumption(charge: u64) -> u64 {
    if planted("window-never-reopened") {
        0
    } else if planted("memory-credit-double") {
        charge.saturating_mul(2)
    } else {
        charge
    }
}

#[cfg(test)]
impl IncomingChannel {
    pub(super) fn held_packed(&self) -> u64 {
        self.packed.len()
    }

    pub(super) fn footprint(&self) -> usize {
        super::slot::footprint(&self.slots) + self.packed.footprint()
    }
}
