//! Messages of middle length on their way into a packet, and what becomes of them.

use super::{OutgoingChannel, Packed, Terms};
use crate::message::chain::{Chain, Put};
use crate::message::entry::Entry;
use crate::recovery::SentFrame;
use crate::types::MessageNumber;
use crate::wire::Frame;

impl OutgoingChannel {
    /// Where the chain stands that began with message `origin`, which may have left the channel's
    /// front.
    pub(super) fn chain_at(&self, origin: MessageNumber) -> Option<MessageNumber> {
        let number = origin.max(self.base());
        match self.entry(number) {
            Some(Entry::Chain(chain)) if chain.origin() <= origin => Some(number),
            _ => None,
        }
    }

    /// As [`pack`](Self::pack), with the chain that is next.
    pub(super) fn pack_chain(
        &mut self,
        room: usize,
        turn: usize,
        terms: Terms,
        out: &mut Vec<u8>,
    ) -> Option<Packed> {
        if self.queue.next()?.total() > terms.rts_threshold {
            self.queue.dissolve(self.queue.cursor());
            self.move_cursor();
        }
        // What asks while others are sent goes first.
        if let Some(number) = self.asks_ahead(terms)
            && self.has_room_to_ask(number, room)
        {
            return None;
        }
        let (id, credit) = (self.id, self.room().min(terms.room_on(self.id)));
        let Some(Entry::Chain(chain)) = self.queue.next_mut() else {
            return None;
        };
        let (before, charge) = (chain.untouched(), chain.charge());
        let put = chain.put_new(id, credit, (room, turn), out);
        let (origin, after) = (chain.origin(), chain.untouched());
        let charged = after.saturating_sub(before).saturating_mul(charge);
        self.charged = self.charged.max(after);
        self.used = self.used.saturating_add(charged);
        self.move_cursor();
        let run = self.run(origin, put)?;
        Some(Packed { charged, ..run })
    }

    /// The same with what is lost of the one in which message `number` stands.
    pub(super) fn pack_chain_lost(
        &mut self,
        number: MessageNumber,
        room: usize,
        turn: usize,
        out: &mut Vec<u8>,
    ) -> Option<Packed> {
        let id = self.id;
        let Some(Entry::Chain(chain)) = self.entry_mut(number) else {
            return None;
        };
        let put = chain.put_lost(id, (room, turn), out);
        let (origin, owes) = (chain.origin(), chain.owes());
        if !owes {
            self.owed = self.owed.saturating_sub(1);
            self.unlist_front();
        }
        let run = self.run(origin, put)?;
        Some(Packed {
            resent: true,
            ..run
        })
    }

    /// Whether the RTS of message `number` fits, as far as that is known.
    fn has_room_to_ask(&self, number: MessageNumber, room: usize) -> bool {
        let name = self.name(number);
        self.long(number)
            .is_none_or(|long| Frame::Rts(long.request(name)).size() <= room)
    }

    /// What the packet has to remember of it. None if nothing was put there.
    fn run(&self, origin: MessageNumber, put: Put) -> Option<Packed> {
        let Put {
            range,
            bytes,
            closed,
            full,
        } = put;
        let sent = SentFrame::Part {
            channel: self.id,
            message: origin,
            start: range.start,
            end: range.end,
        };
        (bytes > 0).then_some(Packed {
            sent,
            bytes,
            payload: range.end.saturating_sub(range.start),
            resent: false,
            full,
            closed,
            charged: 0,
        })
    }

    /// Changes the chain in which message `number` stands, and keeps the books of what is owed.
    pub(super) fn change_chain(&mut self, number: MessageNumber, change: impl FnOnce(&mut Chain)) {
        self.change(number, |entry| {
            if let Entry::Chain(chain) = entry {
                change(chain);
            }
        });
    }
}
