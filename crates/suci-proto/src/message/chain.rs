//! Messages of middle length, sent as if they were one: they are alike, were accepted one after the
//! other, and wait together.
//!
//! Such a message mostly stands in two packets, and each of those holds parts of two. With an
//! entry, a phase and the ranges of its parts for each, two records for each packet and two
//! questions what is next, all that around a message of a kilobyte took several times what its
//! bytes did. Here one range tells what was sent, one what arrived and one what is owed again, of
//! all messages side by side; each packet has one record. On the wire nothing differs.

use super::entry::{LargePhase, Long, fit};
use super::{Outgoing, charge, index, len64};
use crate::ranges::RangeSet;
use crate::types::{ChannelId, Kind, MessageNumber};
use crate::wire::{FragHead, Frame, Start};
use bytes::Bytes;
use core::ops::Range;
use std::collections::VecDeque;

/// Bytes of the longest message that is copied into its packets. Longer ones are gathered from
/// where they lie: what two slices more of a gather list cost for each packet is about what copying
/// its bytes costs.
pub(crate) const COPIED: usize = 2_048;

/// Most messages of a chain: what is acknowledged of it is told apart in so many.
const MOST: usize = 64;

/// Messages for which a chain has memory at first.
const FEW: usize = 4;

/// A byte of a chain: in which of its messages, and where in that. Counted on instead of divided
/// from the place of the byte among those of all, which is asked several times for each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ByteIndex {
    message: u64,
    offset: u64,
}

/// Messages of one length without headers, which differ in nothing but number and bytes. The bytes
/// of all side by side are counted from the first byte of the first.
#[derive(Debug)]
pub(super) struct Chain {
    /// The number of the first message there ever was in it.
    origin: MessageNumber,
    /// Bytes of each.
    each: u64,
    pub(super) tag: u64,
    pub(super) kind: Kind,
    pub(super) token: u64,
    pub(super) notify: bool,
    /// The number stands in the channel's list of what is owed again.
    pub(super) listed: bool,
    /// From the first message on that has not arrived as a whole.
    payloads: VecDeque<Bytes>,
    /// Messages before those.
    gone: u64,
    /// Of these, messages that have left the channel's front.
    left: u64,
    /// Where what was never sent begins.
    next: ByteIndex,
    /// As many spans as its bytes make packets, at most: what one carried arrives or is lost
    /// together.
    acked: RangeSet,
    /// What was lost and not sent again; disjoint from `acked`.
    lost: RangeSet,
}

/// What was put into a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Put {
    /// The bytes of messages.
    pub(super) range: Range<u64>,
    /// What they take in the packet.
    pub(super) bytes: usize,
    /// The packet's last frame reaches to its end.
    pub(super) closed: bool,
    /// The packet has no room for what is next, nor for a part of it.
    pub(super) full: bool,
}

impl Chain {
    /// One of `first`, which has the number `origin` and was not sent, and `second`, if they are
    /// alike.
    pub(super) fn of(origin: MessageNumber, first: &Long, second: &Outgoing) -> Option<Self> {
        let alike = first.total() == len64(second.payload.len())
            && second.payload.len() <= COPIED
            && matches!(first.phase, LargePhase::Queued)
            && first.deadline.is_none()
            && first.user_header.is_empty();
        if !alike {
            return None;
        }
        let mut chain = Self {
            origin,
            each: first.total(),
            tag: first.tag,
            kind: first.kind,
            token: first.token,
            notify: first.notify,
            listed: false,
            payloads: VecDeque::with_capacity(FEW),
            gone: 0,
            left: 0,
            next: ByteIndex::default(),
            acked: RangeSet::new(),
            lost: RangeSet::new(),
        };
        if !chain.takes(second) {
            return None;
        }
        chain.payloads.push_back(first.payload.clone());
        chain.payloads.push_back(second.payload.clone());
        Some(chain)
    }

    /// Whether `next` may stand behind these.
    pub(super) fn takes(&self, next: &Outgoing) -> bool {
        self.each == len64(next.payload.len())
            && self.tag == next.tag
            && self.kind == next.kind
            && self.token == next.token
            && self.notify == next.notify
            && next.deadline.is_none()
            && next.user_header.is_empty()
            && self.messages() < len64(MOST)
    }

    /// Appends it. Few become longer than a few: those get memory for all at once.
    pub(super) fn push(&mut self, next: Outgoing) {
        if self.payloads.len() == FEW {
            self.payloads.reserve_exact(MOST - FEW);
        }
        self.payloads.push_back(next.payload);
    }

    /// All messages there ever were in it.
    fn messages(&self) -> u64 {
        self.gone.saturating_add(len64(self.payloads.len()))
    }

    /// The number behind its last message.
    pub(super) fn end(&self) -> MessageNumber {
        self.origin.saturating_add(self.messages())
    }

    /// How many messages stand in the channel's queue.
    pub(super) fn count(&self) -> u64 {
        self.messages().saturating_sub(self.left)
    }

    /// Bytes of each message.
    pub(super) fn total(&self) -> u64 {
        self.each
    }

    /// Bytes of those that have not arrived.
    pub(super) fn held(&self) -> u64 {
        len64(self.payloads.len()).saturating_mul(self.each)
    }

    /// What sending each at once is charged.
    pub(super) fn charge(&self) -> u64 {
        charge(self.each, 0)
    }

    /// The number of the first message there ever was in it: what the bytes of all are counted
    /// from.
    pub(super) fn origin(&self) -> MessageNumber {
        self.origin
    }

    /// Where the byte stands that is number `at` of all.
    fn place(&self, at: u64) -> ByteIndex {
        let message = at / self.each.max(1);
        let offset = at.saturating_sub(message.saturating_mul(self.each));
        ByteIndex { message, offset }
    }

    /// The number of the byte there among those of all.
    fn byte(&self, place: ByteIndex) -> u64 {
        let before = place.message.saturating_mul(self.each);
        before.saturating_add(place.offset)
    }

    /// Whether some bytes of a message, and not all, were sent.
    pub(super) fn is_within(&self) -> bool {
        self.next.offset > 0
    }

    /// The number of the first message of which no byte was sent.
    pub(super) fn untouched(&self) -> MessageNumber {
        let begun = u64::from(self.is_within());
        self.unfinished().saturating_add(begun)
    }

    /// The number of the first message of which some byte was never sent.
    pub(super) fn unfinished(&self) -> MessageNumber {
        self.origin.saturating_add(self.next.message)
    }

    /// Whether every byte was sent at least once.
    pub(super) fn is_sent(&self) -> bool {
        self.next.message >= self.messages()
    }

    /// Whether all of message `number` arrived.
    pub(super) fn has_arrived(&self, number: MessageNumber) -> bool {
        let start = number.saturating_sub(self.origin).saturating_mul(self.each);
        self.acked.covers(start..start.saturating_add(self.each))
    }

    /// Whether all of its messages arrived.
    pub(super) fn is_done(&self) -> bool {
        self.payloads.is_empty()
    }

    pub(super) fn owes(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Those that arrived and stand at its front leave the queue. How many.
    pub(super) fn leave(&mut self) -> u64 {
        let over = self.gone.saturating_sub(self.left);
        self.left = self.gone;
        over
    }

    /// Takes all messages away of which nothing was sent, whether the caller wants them or not.
    pub(super) fn cut_off(&mut self) -> impl DoubleEndedIterator<Item = Long> + use<> {
        let first = self.untouched().saturating_sub(self.origin);
        let kept = index(first.saturating_sub(self.gone));
        let rest = self.payloads.split_off(kept.min(self.payloads.len()));
        let (tag, kind, token, notify) = (self.tag, self.kind, self.token, self.notify);
        rest.into_iter().map(move |payload| {
            Long::new(Outgoing {
                // Not kept: the queue is the channel's.
                channel: ChannelId(0),
                tag,
                kind,
                user_header: Bytes::new(),
                payload,
                notify,
                token,
                deadline: None,
            })
        })
    }

    // ---- what becomes of it

    /// The bytes in `range` arrived. How many messages more are complete with that, without a gap
    /// from the first on.
    pub(super) fn acked(&mut self, range: Range<u64>) -> u64 {
        if self.owes() {
            self.lost.remove(range.clone());
        }
        self.acked.insert(range);
        let reach = self.acked.first().filter(|first| first.start == 0);
        let complete = reach.map_or(0, |reach| reach.end / self.each.max(1));
        let more = complete.saturating_sub(self.gone);
        self.payloads.drain(..index(more).min(self.payloads.len()));
        self.gone = self.gone.max(complete);
        if self.is_done() {
            // It may stand behind others for long, and counts little.
            self.payloads = VecDeque::new();
            let all = 0..self.gone.saturating_mul(self.each);
            self.acked = RangeSet::from_iter([all]);
            self.lost = RangeSet::new();
        }
        more
    }

    /// The bytes in `range` are owed again, unless they are known to have arrived.
    pub(super) fn lost(&mut self, range: Range<u64>) {
        self.lost.insert(range.clone());
        for known in self.acked.overlapping(range) {
            self.lost.remove(known);
        }
    }

    /// Whatever was sent and is not known to have arrived is owed again.
    pub(super) fn all_lost(&mut self) {
        self.lost(0..self.byte(self.next));
    }

    // ---- into packets

    /// Puts what is next of it behind what `out` holds, if it was never sent, and counts it as
    /// sent: no more than `room` bytes, of which none begin beyond `turn`, and of messages that
    /// were not begun no more than `credit` pays for.
    pub(super) fn put_new(
        &mut self,
        channel: ChannelId,
        credit: u64,
        bounds: (usize, usize),
        out: &mut Vec<u8>,
    ) -> Put {
        let begun = self.untouched().saturating_sub(self.origin);
        let left = self.messages().saturating_sub(begun);
        let charge = self.charge();
        // Mostly it pays for all: nothing to divide.
        let paid = match left.saturating_mul(charge) <= credit {
            true => left,
            false => credit / charge,
        };
        let end = begun.saturating_add(paid).saturating_mul(self.each);
        let (put, next) = self.put(channel, self.next, end, bounds, out);
        self.next = next;
        put
    }

    /// The same with what is owed again.
    pub(super) fn put_lost(
        &mut self,
        channel: ChannelId,
        bounds: (usize, usize),
        out: &mut Vec<u8>,
    ) -> Put {
        let range = self.lost.first().unwrap_or_default();
        let from = self.place(range.start);
        let (put, _) = self.put(channel, from, range.end, bounds, out);
        self.lost.remove(put.range.clone());
        put
    }

    /// Puts bytes there, `from` this place up to byte `limit`. Also says where what follows them
    /// begins.
    fn put(
        &self,
        channel: ChannelId,
        from: ByteIndex,
        limit: u64,
        (room, turn): (usize, usize),
        out: &mut Vec<u8>,
    ) -> (Put, ByteIndex) {
        let before = out.len();
        let ByteIndex {
            mut message,
            mut offset,
        } = from;
        let start = self.byte(from);
        let mut put = Put {
            range: start..start,
            bytes: 0,
            closed: false,
            full: false,
        };
        while put.range.end < limit && put.bytes < turn && !put.closed {
            let at = message.saturating_sub(self.gone);
            let Some(payload) = self.payloads.get(index(at)) else {
                debug_assert!(false, "bytes are kept until they arrived");
                break;
            };
            let left = room.saturating_sub(put.bytes);
            let until = self.each.min(offset.saturating_add(limit - put.range.end));
            let number = self.origin.saturating_add(message);
            let head = |end| self.head(channel, number, offset, end);
            let wanted = until - offset;
            let size = head(until == self.each).size(index(wanted), false);
            let alone = size.saturating_add(index(wanted)) > left;
            let end = if alone {
                let Some(cut) = fit(offset..until, self.each, left, head) else {
                    put.full = true;
                    break;
                };
                cut.end
            } else {
                until
            };
            let len = index(end - offset);
            let head = head(end == self.each);
            if alone {
                // Without its length the fragment reaches to the packet's end, so it must fill it.
                let short = left.saturating_sub(head.size(len, true).saturating_add(len));
                if short > 0 {
                    Frame::Padding(short).put(out);
                }
                put.closed = true;
            }
            head.put(out, len, alone);
            let bytes = payload.get(index(offset)..index(end));
            out.extend_from_slice(bytes.unwrap_or_default());
            put.range.end = put.range.end.saturating_add(end - offset);
            put.bytes = out.len().saturating_sub(before);
            (message, offset) = match end == self.each {
                true => (message.saturating_add(1), 0),
                false => (message, end),
            };
        }
        (put, ByteIndex { message, offset })
    }

    fn head(
        &self,
        channel: ChannelId,
        message: MessageNumber,
        offset: u64,
        end: bool,
    ) -> FragHead<'static> {
        let description = Start {
            total: self.each,
            tag: self.tag,
            kind: self.kind,
            user_header: &[],
        };
        FragHead {
            channel,
            message,
            offset,
            end,
            start: (offset == 0).then_some(description),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: usize = 1_000;

    fn message() -> Outgoing {
        Outgoing {
            channel: ChannelId(0),
            tag: 0,
            kind: Kind::USER,
            user_header: Bytes::new(),
            payload: Bytes::from_static(&[7; EACH]),
            notify: false,
            token: 0,
            deadline: None,
        }
    }

    fn chain() -> Chain {
        let mut chain = Chain::of(5, &Long::new(message()), &message()).unwrap();
        while chain.takes(&message()) {
            chain.push(message());
        }
        chain
    }

    /// Puts all of it into packets. What each of them carried.
    fn send(chain: &mut Chain) -> Vec<Range<u64>> {
        let mut sent = Vec::new();
        while !chain.is_sent() {
            let room = (1_444, usize::MAX);
            let put = chain.put_new(ChannelId(0), u64::MAX, room, &mut Vec::new());
            sent.push(put.range);
        }
        sent
    }

    /// A peer that acknowledges everything but a message before them has them stay, and each counts
    /// its entry only.
    #[test]
    fn what_is_over_keeps_no_memory() {
        let mut chain = chain();
        assert_eq!(chain.count(), MOST as u64);
        let sent = send(&mut chain);
        // Every second one, which makes as many ranges as there can be, and the others are lost
        // before they arrive late.
        let (late, soon): (Vec<_>, Vec<_>) = (0..sent.len()).partition(|at| at % 2 == 0);
        let mut complete = 0;
        for at in soon {
            complete += chain.acked(sent[at].clone());
        }
        late.iter().for_each(|at| chain.lost(sent[*at].clone()));
        assert!(complete == 0 && chain.owes() && chain.acked.span_count() > 20);
        for at in late {
            complete += chain.acked(sent[at].clone());
        }
        assert!(complete == MOST as u64 && chain.is_done() && !chain.owes());
        assert_eq!(
            chain.payloads.capacity() + chain.acked.heap() + chain.lost.heap(),
            0
        );
        // Who asks still hears what became of each.
        assert!((5..chain.end()).all(|number| chain.has_arrived(number)));
        assert_eq!(chain.leave(), MOST as u64);
    }

    /// What a peer's program is asked about leaves whole messages behind, and of those sent the
    /// chain.
    #[test]
    fn messages_that_were_not_begun_can_be_taken_out() {
        let mut chain = chain();
        let credit = 3 * chain.charge();
        chain.put_new(ChannelId(0), credit, (1_444, usize::MAX), &mut Vec::new());
        assert!(chain.is_within() && chain.untouched() == 7);
        assert_eq!(chain.cut_off().count(), MOST - 2);
        assert_eq!(
            (chain.count(), chain.end(), chain.cut_off().count()),
            (2, 7, 0)
        );
        send(&mut chain);
        assert_eq!(chain.acked(0..2 * EACH as u64), 2);
    }
}
