//! The messages of one channel that are not acknowledged, in order.
//!
//! Each byte has a position ([`SendSegment`]). The position `next` divides the bytes that were sent
//! from those that were not. The set `acked` has the positions that arrived, the set `lost` those
//! that must be sent again. So one range of positions is the content of a packet, whatever messages
//! it carried, and however much of each.

use super::buffer_cache::BufferCache;
use super::frames::{ChannelLease, FrameBufferCache, FrameQueue, OpenBlock};
use super::segment::{Content, Filling, SendSegment};
use super::{Completion, Held, Outcome, Outgoing, SmallOutgoing};
use bytes::Bytes;
use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};
use suci_link::planted;
use suci_link::ranges::RangeSet;
use suci_link::time::Instant;
use suci_link::types::{ChannelId, MessageNumber};
use suci_link::wire::Rts;

/// Segments for which a channel without messages keeps memory.
const OWN: usize = 16;

const _: () = assert!(
    OWN * size_of::<SendSegment>() <= 1_024,
    "little, for there may be many channels"
);

/// Memory that channels without messages gave back, for the next channel that has messages.
#[derive(Debug, Default)]
pub(super) struct SendBufferCaches {
    frames: FrameBufferCache,
    /// At most 6 KiB.
    segments: BufferCache<VecDeque<SendSegment>, 128>,
}

/// The messages of a channel from the first on that is neither acknowledged nor refused.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    segments: VecDeque<SendSegment>,
    /// The encoded frames of small messages.
    frames: FrameQueue,
    /// The index of the first segment with a byte that was never sent.
    unsent: usize,
    /// The first position that was never sent.
    next: u64,
    /// The number of the next message, and its position.
    end_number: MessageNumber,
    end: u64,
    /// Positions that were acknowledged or refused, none of them before the first message.
    acked: RangeSet,
    /// Positions that were lost and not sent again, none of them before the first message. Disjoint
    /// from `acked`.
    lost: RangeSet,
    /// The receiver's reasons for messages that it refused.
    refused: BTreeMap<MessageNumber, u64>,
    /// Void segments that are not joined: those made since the last
    /// [`join_voids`](Self::join_voids).
    loose: usize,
}

/// Messages and bytes that acknowledgements and refusals released.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Released {
    /// Number of messages that are resolved now, including void ones.
    pub(super) messages: u64,
    /// Bytes that are no longer held.
    pub(super) freed: u64,
    /// Messages that are resolved now, and their bytes that the queue keeps until all messages
    /// before them are resolved. Void messages do not count.
    pub(super) over: Held,
    /// Messages that left the queue, and their bytes that it had kept. Void messages do not count.
    pub(super) left: Held,
    /// Void messages that left the queue.
    pub(super) voids: u64,
}

/// Consecutive messages that were cancelled.
#[derive(Debug)]
pub(super) struct Cancelled {
    pub(super) numbers: Range<MessageNumber>,
    /// The room in the queue that the messages gave back.
    pub(super) held: Held,
    pub(super) token: u64,
    pub(super) notify: bool,
    pub(super) deadline: Option<Instant>,
}

impl SendQueue {
    /// Returns an empty queue, whose next message has this number and position.
    pub(super) fn at(number: MessageNumber, position: u64) -> Self {
        Self {
            next: position,
            end_number: number,
            end: position,
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Returns the number of the first message.
    pub(super) fn first_number(&self) -> MessageNumber {
        self.segments.front().map_or(self.end_number, |s| s.first)
    }

    /// Returns the number that the next message will have.
    pub(super) fn end_number(&self) -> MessageNumber {
        self.end_number
    }

    /// Returns the position that the next message will have.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the first position that was never sent.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the first message with a byte that was never sent: its number and its segment.
    #[inline]
    pub(super) fn unsent(&self) -> Option<(MessageNumber, &SendSegment)> {
        let segment = self.segments.get(self.unsent)?;
        let sent = segment.ended(self.next);
        Some((segment.first.saturating_add(sent), segment))
    }

    /// Returns the segment of the message behind `number`, which is the number that
    /// [`unsent`](Self::unsent) returns.
    pub(super) fn behind_unsent(&self, number: MessageNumber) -> Option<&SendSegment> {
        let segment = self.segments.get(self.unsent)?;
        match number.saturating_add(1) < segment.end_number() {
            true => Some(segment),
            false => self.segments.get(self.unsent.saturating_add(1)),
        }
    }

    /// Returns true if a byte was never sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.unsent < self.segments.len()
    }

    /// Returns true if a byte was lost and not sent again.
    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    // ---- memory

    /// Takes buffers from the caches, if this queue has none.
    #[inline]
    fn borrow(&mut self, caches: &mut SendBufferCaches) {
        if self.is_empty() {
            caches.segments.lend(&mut self.segments);
        }
    }

    /// Gives empty buffers beyond those that a channel keeps to the caches.
    #[inline]
    pub(super) fn give_back(&mut self, caches: &mut SendBufferCaches) {
        self.frames.give_back(&mut caches.frames);
        if self.is_empty() {
            caches.segments.collect(&mut self.segments, OWN);
            (self.acked, self.lost) = Default::default();
        }
    }

    /// Returns the messages and bytes that count against the bounds of the queue. O(messages).
    pub(super) fn held(&self) -> Held {
        let counted = self.segments.iter().filter(|segment| !segment.is_void());
        let each = counted.map(|s| Held::new(s.count.into(), s.held_now()));
        each.fold(Held::default(), Held::plus)
    }

    // ---- adding messages

    /// Returns the last segment, if a byte of it was never sent.
    #[inline(always)]
    fn last_unsent(&mut self) -> Option<&mut SendSegment> {
        match self.has_unsent() {
            true => self.segments.back_mut(),
            false => None,
        }
    }

    /// Appends a message whose bytes stay the program's. Returns its number.
    pub(super) fn push(
        &mut self,
        message: Outgoing,
        caches: &mut SendBufferCaches,
    ) -> MessageNumber {
        self.borrow(caches);
        let message = match self.last_unsent() {
            Some(last) => last.append(message),
            None => Err(message),
        };
        if let Err(message) = message {
            let segment = SendSegment::referenced(self.end_number, self.end, message);
            self.segments.push_back(segment);
        }
        self.extend(1)
    }

    /// Moves the end behind `count` messages that were appended to the last segment. Returns the
    /// number of the first of them.
    #[inline(always)]
    fn extend(&mut self, count: u32) -> MessageNumber {
        let number = self.end_number;
        let each = self.segments.back().map_or(0, SendSegment::each);
        self.end = self.end.saturating_add(each.saturating_mul(count.into()));
        self.end_number = number.saturating_add(count.into());
        number
    }

    /// Encodes and appends a small message. Returns its number.
    #[inline(always)]
    pub(super) fn push_small(
        &mut self,
        message: &SmallOutgoing<'_>,
        caches: &mut SendBufferCaches,
    ) -> MessageNumber {
        let number = self.end_number;
        if self.has_unsent()
            && let Some(last) = self.segments.back_mut()
            && let Content::Frames { shape, .. } = &last.content
            && !last.announced
            && last.count < u32::MAX
            && self.frames.follow(number, message)
        {
            last.count += 1;
            self.end = self.end.saturating_add(shape.len.into());
            self.end_number = number.saturating_add(1);
            return number;
        }
        self.push_other(message, caches)
    }

    /// Encodes and appends a small message whose head does not follow from the last one's.
    #[inline(never)]
    fn push_other(
        &mut self,
        message: &SmallOutgoing<'_>,
        caches: &mut SendBufferCaches,
    ) -> MessageNumber {
        self.borrow(caches);
        self.frames.borrow(&mut caches.frames);
        let (number, position) = (self.end_number, self.end);
        let extensible = self.last_unsent().is_some_and(|last| last.has_frames());
        let frame = self.frames.push(number, message, extensible);
        let last = self.last_unsent();
        if !last.is_some_and(|last| last.append_frame(frame, message)) {
            let segment = SendSegment::encoded(number, position, frame, message);
            self.segments.push_back(segment);
        }
        self.extend(1)
    }

    /// Lends room for messages like the last one. `most` takes the size of one of them and returns
    /// their largest number. Returns `None` unless the last message is small and unsent, and the
    /// frame heads of others follow from its own. No other method may be called until
    /// [`put_back`](Self::put_back) takes the room back.
    pub(super) fn lend(
        &mut self,
        channel: ChannelId,
        index: usize,
        most: impl FnOnce(Held) -> u64,
    ) -> Option<ChannelLease> {
        let next = self.end_number;
        let last = self.last_unsent().filter(|last| last.has_frames())?;
        let (more, held) = (u32::MAX - last.count, Held::one(last.total()));
        let block = self.frames.lend()?;
        let left = u32::try_from(most(held)).map_or(more, |most| most.min(more));
        let room = (left, held.bytes);
        Some(ChannelLease::new(block, channel, index, next, room))
    }

    /// Takes back the lent block, with `count` messages that were appended to it.
    pub(super) fn put_back(&mut self, count: u32, block: OpenBlock) {
        self.frames.put_back(block);
        if let Some(last) = self.segments.back_mut() {
            last.count = last.count.saturating_add(count);
            self.extend(count);
        }
    }

    // ---- segments

    /// Returns the index of the first segment that ends behind `position`.
    fn index_at(&self, position: u64) -> usize {
        // In most cases it is the first segment.
        if self.segments.front().is_none_or(|s| position < s.end()) {
            return 0;
        }
        self.segments.partition_point(|s| s.end() <= position)
    }

    /// Returns the segment of message `number`, and its index.
    pub(super) fn find(&self, number: MessageNumber) -> Option<(usize, &SendSegment)> {
        let index = self.segments.partition_point(|s| s.end_number() <= number);
        let segment = self.segments.get(index).filter(|s| s.first <= number)?;
        Some((index, segment))
    }

    /// Returns the payload of message `number`, if packets refer to it instead of copying it.
    pub(super) fn gathered(&self, number: MessageNumber) -> Option<&Bytes> {
        self.find(number)?.1.gathered()
    }

    /// Returns the RTS of message `number`.
    pub(super) fn rts(&self, channel: ChannelId, number: MessageNumber) -> Option<Rts<'_>> {
        self.find(number)?.1.rts(channel, number, &self.frames)
    }

    /// Makes message `number`, whose RTS is sent, a segment of its own. Removes its deadline and
    /// returns it.
    pub(super) fn announce(&mut self, number: MessageNumber) -> Option<Instant> {
        let (index, segment) = self.find(number)?;
        let before = number.saturating_sub(segment.first);
        let index = self.divide(index, before);
        self.divide(index, 1);
        let segment = self.segments.get_mut(index)?;
        segment.announced = true;
        segment.take_deadline()
    }

    /// Divides the segment at `index` behind its first `count` messages, if both parts have
    /// messages. Returns the index of the message behind them.
    fn divide(&mut self, index: usize, count: u64) -> usize {
        let Some(segment) = self.segments.get_mut(index) else {
            return index;
        };
        let Some(count) = u32::try_from(count).ok().filter(|c| *c > 0) else {
            return index;
        };
        if count < segment.count {
            let front = segment.take_front(count);
            self.segments.insert(index, front);
            self.advance_unsent();
        }
        index.saturating_add(1)
    }

    /// Moves `unsent` past the segments that were completely sent or refused.
    fn advance_unsent(&mut self) {
        while let Some(segment) = self.segments.get(self.unsent) {
            let end = segment.end();
            let refused = segment.announced && self.acked.covers(segment.start..end);
            if end > self.next && !refused {
                break;
            }
            self.next = self.next.max(end);
            self.unsent = self.unsent.saturating_add(1);
        }
    }

    // ---- into packets

    /// Puts bytes of the next segment that were never sent into the packet, up to position `limit`,
    /// and counts them as sent. Returns the number behind the last message of the segment that was
    /// begun.
    pub(super) fn put_new(
        &mut self,
        channel: ChannelId,
        limit: u64,
        filling: &mut Filling,
        out: &mut Vec<u8>,
    ) -> MessageNumber {
        let Some(segment) = self.segments.get_mut(self.unsent) else {
            return self.end_number;
        };
        let before = filling.bytes;
        segment.put(channel, &self.frames, limit, filling, out);
        if filling.bytes > before {
            self.next = filling.end;
            let deadline = segment.take_deadline();
            filling.deadline = deadline.map(|at| (at, segment.first));
        }
        let end_number = segment.end_number();
        if self.next < segment.end() {
            return segment.first.saturating_add(segment.begun(self.next));
        }
        self.unsent = self.unsent.saturating_add(1);
        if self.has_unsent() {
            self.advance_unsent();
        }
        end_number
    }

    /// Puts as much of the first lost range into the packet as fits, and counts it as sent.
    pub(super) fn put_lost(
        &mut self,
        channel: ChannelId,
        filling: &mut Filling,
        out: &mut Vec<u8>,
    ) {
        let Some(range) = self.lost.first() else {
            return;
        };
        filling.begin(range.start, true);
        let mut segments = self.segments.range(self.index_at(range.start)..);
        while filling.end < range.end
            && filling.goes_on()
            && let Some(segment) = segments.next()
        {
            segment.put(channel, &self.frames, range.end, filling, out);
        }
        self.lost.remove(range.start..filling.end);
    }

    /// Returns the message that is being sent, and the range of its bytes that were never sent.
    /// Returns `None` unless packets refer to its payload, `start` lies behind its first byte, it
    /// was sent up to position `end`, and no byte of the queue is lost.
    pub(super) fn rest(&self, start: u64, end: u64) -> Option<(MessageNumber, Range<u64>)> {
        let segment = self.segments.get(self.unsent)?;
        let total = segment.total();
        let inside = segment.start < start && start < end && end == self.next;
        let bytes = end.saturating_sub(segment.start)..total;
        (inside && self.lost.is_empty() && segment.gathered().is_some())
            .then_some((segment.first, bytes))
    }

    /// Counts the positions up to `end`, which is within a message, as sent.
    pub(super) fn sent_to(&mut self, end: u64) {
        self.next = end;
    }

    // ---- acknowledgements, refusals and losses

    /// Marks positions as acknowledged. Appends to `out` the outcomes of messages that leave the
    /// queue.
    pub(super) fn acked(
        &mut self,
        channel: ChannelId,
        range: Range<u64>,
        out: &mut VecDeque<Completion>,
    ) -> Released {
        let mut released = Released::default();
        let start = self.segments.front().map_or(self.end, |s| s.start);
        let range = range.start.max(start)..range.end;
        if range.is_empty() {
            return released;
        }
        if self.has_lost() {
            self.lost.remove(range.clone());
        }
        if self.acked.is_empty() && range.start == start {
            // In order: all acknowledged messages leave. The set keeps the positions behind them.
            self.pop_over(&range, channel, out, &mut released);
            released.over = released.left;
            released.messages = released.left.messages.saturating_add(released.voids);
            let first = self.segments.front().map_or(self.end, |s| s.start);
            if first < range.end {
                self.acked.insert(first..range.end);
            }
        } else {
            self.over(range, channel, out, &mut released);
        }
        released
    }

    /// Marks positions as acknowledged or refused, in any order.
    fn over(
        &mut self,
        range: Range<u64>,
        channel: ChannelId,
        out: &mut VecDeque<Completion>,
        released: &mut Released,
    ) {
        let known: Vec<_> = self.acked.overlapping(range.clone()).collect();
        self.acked.insert(range.clone());
        let Some(span) = self.acked.span(range.start) else {
            return;
        };
        // New are the gaps between the known ranges.
        let ends = known.iter().map(|known| known.start).chain([range.end]);
        let starts = [range.start]
            .into_iter()
            .chain(known.iter().map(|known| known.end));
        let mut counted = range.start;
        for (from, to) in starts.zip(ends) {
            let from = from.max(counted);
            if from < to {
                counted = self.complete(from..to, &span, released);
            }
        }
        self.advance_unsent();
        self.pop_over(&span, channel, out, released);
        let first = self.segments.front().map_or(self.end, |s| s.start);
        self.acked.remove(0..first);
    }

    /// Counts the messages that become resolved: all positions of `span` are resolved now, and
    /// those of `new`, a part of it, were not before. Returns the position behind the last message
    /// that `new` overlaps.
    fn complete(&mut self, new: Range<u64>, span: &Range<u64>, released: &mut Released) -> u64 {
        let mut index = self.index_at(new.start);
        let mut end = new.end;
        while let Some(segment) = self.segments.get_mut(index)
            && segment.start < new.end
        {
            // The messages that lie within the span, and overlap the new positions.
            let first = segment.ended(new.start).max(segment.begun(span.start));
            let touched = segment.begun(new.end);
            let last = touched.min(segment.ended(span.end));
            end = end.max(segment.position(touched));
            if first < last {
                let count = last.saturating_sub(first);
                released.messages = released.messages.saturating_add(count);
                released.freed = released.freed.saturating_add(segment.release(first..last));
                if !segment.is_void() {
                    let copied = count.saturating_mul(segment.copied());
                    released.over = released.over.plus(Held::new(count, copied));
                }
            }
            index = index.saturating_add(1);
        }
        end
    }

    /// Removes the first messages of the queue that lie within `over`, a range of acknowledged or
    /// refused positions. Appends their outcomes to `out`, if the program asked for them.
    fn pop_over(
        &mut self,
        over: &Range<u64>,
        channel: ChannelId,
        out: &mut VecDeque<Completion>,
        released: &mut Released,
    ) {
        let mut frames = None;
        while let Some(front) = self.segments.front_mut()
            && over.start <= front.start
        {
            let count = front.ended(over.end);
            if count == 0 {
                break;
            }
            if let Content::Frames { at, .. } = front.content {
                let bytes = front.position(count).saturating_sub(front.start);
                frames = Some(at.saturating_add(bytes));
            }
            if front.is_void() {
                released.voids = released.voids.saturating_add(count);
            } else {
                released.freed = released.freed.saturating_add(front.release(0..count));
                let copied = count.saturating_mul(front.copied());
                released.left = released.left.plus(Held::new(count, copied));
                if front.notify || !self.refused.is_empty() {
                    front.tell(channel, count, &mut self.refused, out);
                }
            }
            match u32::try_from(count) {
                Ok(count) if count < front.count => {
                    front.drop_front(count);
                    break;
                }
                _ => {
                    self.segments.pop_front();
                    self.unsent = self.unsent.saturating_sub(1);
                }
            }
        }
        if self.is_empty() {
            self.frames.clear();
        } else if let Some(end) = frames {
            self.frames.release(end);
        }
        if self.has_lost() {
            // The unused positions before the first message, too: no packet carries them alone.
            let first = self.segments.front().map_or(self.end, |s| s.start);
            self.lost.remove(0..first);
        }
    }

    /// Handles the loss of a packet with these positions: the unacknowledged ones are sent again.
    pub(super) fn lost(&mut self, range: Range<u64>) {
        let first = self.segments.front().map_or(self.end, |s| s.start);
        let range = range.start.max(first)..range.end.min(self.next);
        self.lost.insert(range.clone());
        // Few ranges overlap those of a packet. Any number may overlap those of a connection.
        for known in self.acked.overlapping(range) {
            self.lost.remove(known);
        }
    }

    /// Schedules all unacknowledged positions for retransmission.
    pub(super) fn all_lost(&mut self) {
        self.lost(0..self.next);
    }

    /// Handles the refusal of message `number`, for which an RTS was sent.
    pub(super) fn refused(
        &mut self,
        channel: ChannelId,
        number: MessageNumber,
        reason: u64,
        out: &mut VecDeque<Completion>,
    ) -> Released {
        let mut released = Released::default();
        if let Some((index, segment)) = self.find(number) {
            // The unused positions before the message are over, too: no gap divides it from a range
            // that ends there.
            let before = index.checked_sub(1).and_then(|at| self.segments.get(at));
            let range = before.map_or(segment.start, SendSegment::end)..segment.end();
            self.refused.insert(number, reason);
            self.over(range, channel, out, &mut released);
        }
        released
    }

    /// Appends the outcome of every remaining message to `out`, in order, since the session ended.
    pub(super) fn end_all(&mut self, channel: ChannelId, out: &mut Vec<Completion>) {
        for segment in self.segments.iter().filter(|segment| !segment.is_void()) {
            for count in 0..u64::from(segment.count) {
                let number = segment.first.saturating_add(count);
                let range = segment.position(count)..segment.position(count.saturating_add(1));
                let reason = self.refused.get(&number).copied();
                let outcome = if reason.is_some() {
                    Outcome::NotDelivered
                } else if self.acked.covers(range.clone()) {
                    Outcome::Delivered
                } else if range.end <= self.next {
                    unacknowledged()
                } else {
                    Outcome::NotDelivered
                };
                out.push(segment.completion(channel, number, outcome, reason));
            }
        }
        *self = Self::at(self.end_number, self.end);
    }

    // ---- cancelling

    /// Sets the time at which message `number`, which was queued last, expires.
    pub(super) fn set_deadline(&mut self, number: MessageNumber, at: Instant) {
        if let Some((index, _)) = self.find(number)
            && let Some(segment) = self.segments.get_mut(index)
            && let Content::Payloads(payloads) = &mut segment.content
        {
            payloads.deadline = Some(at);
        }
    }

    /// Cancels the messages with this token from number `from` on, the last ones first.
    pub(super) fn cancel_token(&mut self, token: u64, from: MessageNumber) -> Vec<Cancelled> {
        let mut cancelled = Vec::new();
        // Backwards, because dividing a segment moves those behind it.
        for index in (self.unsent..self.segments.len()).rev() {
            if self.segments.get(index).is_some_and(|s| s.token == token) {
                cancelled.extend(self.cancel_at(index, from));
            }
        }
        self.after_cancel();
        cancelled
    }

    /// Cancels message `number`, which is a segment of its own, if that is `from` or more.
    pub(super) fn cancel_one(
        &mut self,
        number: MessageNumber,
        from: MessageNumber,
    ) -> Option<Cancelled> {
        let (index, _) = self.find(number)?;
        let cancelled = self.cancel_at(index, from);
        self.after_cancel();
        cancelled
    }

    /// Makes the messages of the segment at `index` void, from number `from` on.
    fn cancel_at(&mut self, index: usize, from: MessageNumber) -> Option<Cancelled> {
        let segment = self.segments.get(index)?;
        if segment.is_void() || segment.end_number() <= from {
            return None;
        }
        let index = self.divide(index, from.saturating_sub(segment.first));
        let segment = self.segments.get_mut(index)?;
        let (count, positions) = (u64::from(segment.count), segment.each());
        let cancelled = Cancelled {
            numbers: segment.first..segment.end_number(),
            held: Held::new(count, count.saturating_mul(segment.held())),
            token: segment.token,
            notify: segment.notify,
            deadline: segment.take_deadline(),
        };
        if segment.has_frames() {
            self.frames.cancel(count.saturating_mul(positions));
        }
        segment.content = Content::Void;
        self.loose = self.loose.saturating_add(1);
        Some(cancelled)
    }

    fn after_cancel(&mut self) {
        self.join_voids();
        let frames = self.segments.iter_mut().filter_map(SendSegment::frames_mut);
        self.frames.compact(frames);
    }

    /// Joins consecutive void segments, once half of the waiting segments may be void. To join each
    /// when it is made would move all segments behind it each time.
    fn join_voids(&mut self) {
        let waiting = self.segments.len().saturating_sub(self.unsent);
        if self.loose.saturating_mul(2) <= waiting {
            return;
        }
        self.loose = 0;
        // A segment that was sent in part keeps the positions of its messages.
        let begun = self
            .segments
            .get(self.unsent)
            .is_some_and(|s| s.start < self.next);
        let kept = self.unsent.saturating_add(begun.into());
        for next in self.segments.split_off(kept.min(self.segments.len())) {
            let behind = self.segments.len() > kept;
            let last = self.segments.back_mut().filter(|_| behind);
            if !last.is_some_and(|last| last.join_void(&next)) {
                self.segments.push_back(next);
            }
        }
    }
}

/// Returns the outcome of a message that was sent and not fully acknowledged.
fn unacknowledged() -> Outcome {
    if planted("delivered-unacknowledged") {
        return Outcome::Delivered;
    }
    Outcome::Unknown
}

#[cfg(test)]
impl SendBufferCaches {
    pub(super) fn footprint(&self) -> usize {
        self.frames.footprint() + self.segments.footprint()
    }
}

#[cfg(test)]
impl SendQueue {
    /// Returns the bytes of frames that are kept.
    pub(super) fn frames_held(&self) -> usize {
        self.frames.held()
    }

    /// Returns the bytes allocated, without the payloads of messages that are not small.
    pub(super) fn footprint(&self) -> usize {
        let segments = self.segments.capacity() * size_of::<SendSegment>();
        self.frames.footprint() + segments + self.acked.heap() + self.lost.heap()
    }

    /// Returns the messages that are not acknowledged, refused or cancelled.
    pub(super) fn open(&self) -> usize {
        let counted = self.segments.iter().filter(|segment| !segment.is_void());
        let positions =
            counted.flat_map(|s| (0..s.count.into()).map(|n| s.position(n)..s.position(n + 1)));
        positions
            .filter(|range| !self.acked.covers(range.clone()))
            .count()
    }
}
