//! Messages of a channel that differ in nothing but number and bytes, and how they are put into
//! packets.

use super::frames::{EncodedShape, FrameQueue};
use super::sizes::{charge, len64, to_usize};
use super::{Completion, Outcome, Outgoing, SmallOutgoing};
use bytes::Bytes;
use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};
use suci_link::limits::MIN_PIECE;
use suci_link::planted;
use suci_link::time::Instant;
use suci_link::types::{ChannelId, Kind, MessageNumber};
use suci_link::wire::{FragHead, Frame, Rts, Start};

/// Bytes of the longest message that is copied into its packets. The packets of a longer message
/// refer to its bytes: two more slices of a gather list cost a packet about what copying so many
/// bytes costs.
pub(crate) const COPIED: usize = 2_048;

/// Bytes of the frame of a void message, at most: type, channel, number, kind and length.
const VOID_FRAME: usize = 1 + 5 + 9 + 1 + 1;

/// One message, or several with consecutive numbers that differ in nothing but their bytes.
///
/// Each byte of a channel's messages has a *position*. Positions count from the channel's first
/// message on, and none is used twice. An encoded message has a position for each byte of its
/// frame. Any other message has a position for each byte of its payload; an empty one has one
/// position. There may be unused positions between two segments.
#[derive(Debug)]
pub(super) struct SendSegment {
    /// The number of the first message.
    pub(super) first: MessageNumber,
    /// The position of its first byte.
    pub(super) start: u64,
    /// The program's handle.
    pub(super) token: u64,
    pub(super) content: Content,
    /// How many positions each message has: at least one.
    each: u64,
    /// How many messages.
    pub(super) count: u32,
    /// True if the program asked for the event of delivery.
    pub(super) notify: bool,
    /// An RTS was sent for the message. The segment has only this message.
    pub(super) announced: bool,
}

/// Where the bytes of messages are.
#[derive(Debug)]
pub(super) enum Content {
    /// The messages are encoded side by side in the channel's [`FrameQueue`].
    Frames {
        /// Where the first frame begins.
        at: u64,
        shape: EncodedShape,
    },
    /// The messages are in the program's buffers.
    Payloads(Box<Payloads>),
    /// The messages were cancelled before they were sent. Their program knows their outcome, and
    /// only their numbers are left. The peer receives a void message ([`Kind::VOID`]) for each
    /// number and discards it.
    Void,
}

/// Messages of one length whose bytes stay the program's until they are acknowledged. Messages with
/// a user header or a deadline stand alone.
#[derive(Debug)]
pub(super) struct Payloads {
    /// Bytes of each message.
    total: u64,
    tag: u64,
    kind: Kind,
    user_header: Bytes,
    /// The time at which the message is cancelled if none of it was sent.
    pub(super) deadline: Option<Instant>,
    /// The payloads. A payload is empty once its message is acknowledged or refused.
    first: Bytes,
    others: VecDeque<Bytes>,
}

impl Payloads {
    fn get(&self, index: usize) -> Option<&Bytes> {
        match index.checked_sub(1) {
            None => Some(&self.first),
            Some(index) => self.others.get(index),
        }
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut Bytes> {
        match index.checked_sub(1) {
            None => Some(&mut self.first),
            Some(index) => self.others.get_mut(index),
        }
    }

    fn pop_first(&mut self) -> Bytes {
        let next = self.others.pop_front().unwrap_or_default();
        core::mem::replace(&mut self.first, next)
    }

    /// Removes the first `count` payloads and returns them.
    fn take_front(&mut self, count: u32) -> Self {
        Self {
            total: self.total,
            tag: self.tag,
            kind: self.kind,
            user_header: Bytes::new(),
            deadline: None,
            first: self.pop_first(),
            others: (1..count).map(|_| self.pop_first()).collect(),
        }
    }

    fn description(&self) -> Start<'_> {
        Start {
            total: self.total,
            tag: self.tag,
            kind: self.kind,
            user_header: &self.user_header,
        }
    }
}

/// A packet under construction: the part of it that a channel wrote, and the room that is left.
#[derive(Debug)]
pub(super) struct Filling {
    /// The packet carries the positions from `start` to `end`...
    pub(super) start: u64,
    pub(super) end: u64,
    /// ... or nothing but the RTS of this message.
    pub(super) rts: Option<MessageNumber>,
    /// The positions were sent before.
    pub(super) resent: bool,
    /// Bytes that the channel's frames take in the packet.
    pub(super) bytes: usize,
    /// Bytes of payload among them.
    pub(super) payload: u64,
    /// Bytes left in the packet.
    room: usize,
    /// Bytes that the channel may still send in its round. The last frame may exceed them.
    pub(super) left_in_round: usize,
    /// The packet has no room for the next message, nor for a part of it.
    pub(super) full: bool,
    /// The last frame reaches to the packet's end: nothing may follow it.
    pub(super) closed: bool,
    /// A message, and those bytes of its payload that follow the written ones without a copy.
    pub(super) reference: Option<(MessageNumber, Range<usize>)>,
    /// Memory credit that the messages took.
    pub(super) charged: u64,
    /// A deadline that no longer counts, and its message: a part of that message is in the packet.
    pub(super) deadline: Option<(Instant, MessageNumber)>,
}

impl Filling {
    /// Returns an empty filling, for a packet with `room` bytes left.
    pub(super) fn new(room: usize) -> Self {
        Self {
            start: 0,
            end: 0,
            rts: None,
            resent: false,
            bytes: 0,
            payload: 0,
            room,
            left_in_round: 0,
            full: false,
            closed: false,
            reference: None,
            charged: 0,
            deadline: None,
        }
    }

    /// Sets the position of the first byte to be put.
    pub(super) fn begin(&mut self, start: u64, resent: bool) {
        (self.start, self.end, self.resent) = (start, start, resent);
    }

    /// Returns true if another frame may follow.
    pub(super) fn goes_on(&self) -> bool {
        self.bytes < self.left_in_round && !self.full && !self.closed && self.reference.is_none()
    }

    /// Puts the RTS of message `number` behind what `out` holds, if it fits.
    pub(super) fn put_rts(
        &mut self,
        number: MessageNumber,
        rts: Rts<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let frame = Frame::Rts(rts);
        let size = frame.size();
        let fits = size <= self.room;
        if fits {
            frame.put(out);
            self.rts = Some(number);
            self.bytes = size;
        }
        fits
    }

    /// Returns how many of `count` frames of `frame` bytes each fit, and notes whether the packet
    /// is full.
    fn fitting(&mut self, count: u64, frame: u64) -> u64 {
        let room = len64(self.room) / frame.max(1);
        let in_round = len64(self.left_in_round.saturating_sub(self.bytes)).div_ceil(frame.max(1));
        self.full = room < count && room < in_round;
        count.min(room).min(in_round)
    }

    /// Counts frames that were put: their bytes, their bytes of payload, and the position behind
    /// them.
    fn take(&mut self, end: u64, bytes: usize, payload: u64) {
        self.end = end;
        self.room = self.room.saturating_sub(bytes);
        self.bytes += bytes;
        self.payload += payload;
    }
}

impl SendSegment {
    /// Returns a segment of one message, which is encoded.
    pub(super) fn encoded(
        first: MessageNumber,
        start: u64,
        (at, shape): (u64, EncodedShape),
        message: &SmallOutgoing<'_>,
    ) -> Self {
        Self {
            first,
            start,
            token: message.token,
            content: Content::Frames { at, shape },
            each: shape.len.into(),
            count: 1,
            notify: message.notify,
            announced: false,
        }
    }

    /// Returns a segment of one message, whose bytes stay the program's.
    pub(super) fn referenced(first: MessageNumber, start: u64, message: Outgoing) -> Self {
        let payloads = Payloads {
            total: len64(message.payload.len()),
            tag: message.tag,
            kind: message.kind,
            user_header: message.user_header,
            // `Outbox::set_deadline` sets the time.
            deadline: None,
            first: message.payload,
            others: VecDeque::new(),
        };
        Self {
            first,
            start,
            token: message.token,
            each: payloads.total.max(1),
            content: Content::Payloads(Box::new(payloads)),
            count: 1,
            notify: message.notify,
            announced: false,
        }
    }

    /// Appends `message` if it is copied into packets, and differs from the messages here in
    /// nothing but its bytes.
    pub(super) fn append(&mut self, message: Outgoing) -> Result<(), Outgoing> {
        let Content::Payloads(payloads) = &mut self.content else {
            return Err(message);
        };
        let alike = payloads.total == len64(message.payload.len())
            && message.payload.len() <= COPIED
            && (payloads.tag, payloads.kind) == (message.tag, message.kind)
            && (self.token, self.notify) == (message.token, message.notify)
            && payloads.user_header.is_empty()
            && message.user_header.is_empty()
            && payloads.deadline.is_none()
            && message.deadline.is_none()
            && !self.announced
            && self.count < u32::MAX;
        if !alike {
            return Err(message);
        }
        payloads.others.push_back(message.payload);
        self.count += 1;
        Ok(())
    }

    /// Appends an encoded message if it differs from the messages here in nothing but its bytes,
    /// and its frame stands behind theirs.
    pub(super) fn append_frame(
        &mut self,
        frame: (u64, EncodedShape),
        message: &SmallOutgoing<'_>,
    ) -> bool {
        let Content::Frames { at, shape } = self.content else {
            return false;
        };
        let behind = at.saturating_add(self.end().saturating_sub(self.start));
        let alike = frame == (behind, shape)
            && (self.token, self.notify) == (message.token, message.notify)
            && !self.announced
            && self.count < u32::MAX;
        self.count += u32::from(alike);
        alike
    }

    // ---- numbers and positions

    /// Returns how many positions each message has.
    #[inline]
    pub(super) fn each(&self) -> u64 {
        self.each
    }

    /// Returns the position of the message behind the first `count` messages.
    #[inline]
    pub(super) fn position(&self, count: u64) -> u64 {
        self.start + count * self.each
    }

    /// Returns the position behind the last message.
    pub(super) fn end(&self) -> u64 {
        self.position(self.count.into())
    }

    /// Returns the number behind the last message.
    pub(super) fn end_number(&self) -> MessageNumber {
        self.first + u64::from(self.count)
    }

    /// Returns how many messages end at or before `position`.
    #[inline]
    pub(super) fn ended(&self, position: u64) -> u64 {
        let inside = position.saturating_sub(self.start);
        (inside / self.each.max(1)).min(self.count.into())
    }

    /// Returns how many messages begin before `position`.
    #[inline]
    pub(super) fn begun(&self, position: u64) -> u64 {
        let inside = position.saturating_sub(self.start);
        inside.div_ceil(self.each.max(1)).min(self.count.into())
    }

    // ---- sizes of messages

    /// Returns true if the messages were cancelled.
    pub(super) fn is_void(&self) -> bool {
        matches!(self.content, Content::Void)
    }

    /// Returns the bytes of each message, and of its user header.
    fn sizes(&self) -> (u64, usize) {
        match &self.content {
            Content::Frames { shape, .. } => (shape.payload.into(), shape.header.into()),
            Content::Payloads(payloads) => (payloads.total, payloads.user_header.len()),
            Content::Void => (0, 0),
        }
    }

    /// Returns the bytes of each message.
    pub(super) fn total(&self) -> u64 {
        self.sizes().0
    }

    /// Returns the memory credit that sending a message at once takes.
    pub(super) fn charge(&self) -> u64 {
        let (total, header) = self.sizes();
        charge(total, header)
    }

    /// Returns the memory credit that the RTS of the message takes.
    pub(super) fn rts_charge(&self) -> u64 {
        charge(0, self.sizes().1)
    }

    /// Returns the bytes that each message counts in the queue.
    pub(super) fn held(&self) -> u64 {
        let (total, header) = self.sizes();
        total.saturating_add(len64(header))
    }

    /// Returns the bytes of each message that were copied into frames. Frames are kept until all
    /// messages before theirs are acknowledged, too.
    pub(super) fn copied(&self) -> u64 {
        match &self.content {
            Content::Frames { .. } => self.held(),
            Content::Payloads(_) | Content::Void => 0,
        }
    }

    /// Returns the bytes of all messages here that are held now.
    pub(super) fn held_now(&self) -> u64 {
        match &self.content {
            Content::Frames { .. } => self.held().saturating_mul(self.count.into()),
            Content::Payloads(payloads) => {
                let others: usize = payloads.others.iter().map(Bytes::len).sum();
                let header = payloads.user_header.len();
                len64(
                    payloads
                        .first
                        .len()
                        .saturating_add(others)
                        .saturating_add(header),
                )
            }
            Content::Void => 0,
        }
    }

    /// Returns true if the messages are encoded, and more may be appended.
    #[inline]
    pub(super) fn has_frames(&self) -> bool {
        matches!(self.content, Content::Frames { .. }) && !self.announced
    }

    /// Returns the index where the frames begin, and the number of their bytes.
    pub(super) fn frames_mut(&mut self) -> Option<(&mut u64, u64)> {
        let bytes = self.end().saturating_sub(self.start);
        match &mut self.content {
            Content::Frames { at, .. } => Some((at, bytes)),
            Content::Payloads(_) | Content::Void => None,
        }
    }

    /// Appends to `out` the outcome of the first `count` messages: delivered, or `refused` for a
    /// reason. A delivered message has an entry if the program wants to hear of it.
    pub(super) fn tell(
        &self,
        channel: ChannelId,
        count: u64,
        refused: &mut BTreeMap<MessageNumber, u64>,
        out: &mut VecDeque<Completion>,
    ) {
        for number in self.first..self.first.saturating_add(count) {
            let reason = refused.remove(&number);
            let outcome = match reason {
                Some(_) => Outcome::NotDelivered,
                None => Outcome::Delivered,
            };
            if self.notify || reason.is_some() {
                out.push_back(self.completion(channel, number, outcome, reason));
            }
        }
    }

    /// Returns the outcome of message `number`, which is here.
    pub(super) fn completion(
        &self,
        channel: ChannelId,
        number: MessageNumber,
        outcome: Outcome,
        reason: Option<u64>,
    ) -> Completion {
        Completion {
            channel,
            number,
            token: self.token,
            notify: self.notify,
            outcome,
            reason,
        }
    }

    // ---- parts of a segment

    /// Removes the first `count` messages, of which there are more, and returns them as a segment.
    pub(super) fn take_front(&mut self, count: u32) -> Self {
        let content = match &mut self.content {
            Content::Frames { at, shape } => Content::Frames {
                at: *at,
                shape: *shape,
            },
            Content::Payloads(payloads) => Content::Payloads(Box::new(payloads.take_front(count))),
            Content::Void => Content::Void,
        };
        let front = Self {
            first: self.first,
            start: self.start,
            token: self.token,
            content,
            each: self.each,
            count,
            notify: self.notify,
            announced: self.announced,
        };
        self.skip(count);
        front
    }

    /// Drops the first `count` messages, of which there are more.
    pub(super) fn drop_front(&mut self, count: u32) {
        if let Content::Payloads(payloads) = &mut self.content {
            // They were released.
            let others = to_usize(count.saturating_sub(1).into()).min(payloads.others.len());
            payloads.others.drain(..others);
            payloads.pop_first();
        }
        self.skip(count);
    }

    /// Makes the message behind the first `count` the first one.
    fn skip(&mut self, count: u32) {
        let start = self.position(count.into());
        if let Content::Frames { at, .. } = &mut self.content {
            *at = at.saturating_add(start.saturating_sub(self.start));
        }
        self.start = start;
        self.first = self.first.saturating_add(count.into());
        self.count = self.count.saturating_sub(count);
    }

    /// Appends the messages of `next` if both segments are void. Nothing of either was sent. Each
    /// message has one position afterwards.
    pub(super) fn join_void(&mut self, next: &Self) -> bool {
        let both = self.is_void() && next.is_void();
        let count = self.count.checked_add(next.count).filter(|_| both);
        if let Some(count) = count {
            self.each = 1;
            self.count = count;
        }
        count.is_some()
    }

    /// Drops the payloads of these messages. Returns how many bytes they had.
    pub(super) fn release(&mut self, messages: Range<u64>) -> u64 {
        let Content::Payloads(payloads) = &mut self.content else {
            return 0;
        };
        let mut bytes = len64(core::mem::take(&mut payloads.user_header).len());
        for index in messages {
            if let Some(payload) = payloads.get_mut(to_usize(index)) {
                bytes = bytes.saturating_add(len64(core::mem::take(payload).len()));
            }
        }
        bytes
    }

    /// Removes the deadline: some of the message is about to be sent.
    pub(super) fn take_deadline(&mut self) -> Option<Instant> {
        match &mut self.content {
            Content::Payloads(payloads) => payloads.deadline.take(),
            Content::Frames { .. } | Content::Void => None,
        }
    }

    // ---- into packets

    /// Returns the RTS of message `number`, which is here.
    pub(super) fn rts<'a>(
        &'a self,
        channel: ChannelId,
        number: MessageNumber,
        frames: &'a FrameQueue,
    ) -> Option<Rts<'a>> {
        let description = match &self.content {
            Content::Frames { at, shape } => {
                let len = u64::from(shape.len);
                let before = number.saturating_sub(self.first).saturating_mul(len);
                let at = at.saturating_add(before);
                frames.description(at, at.saturating_add(len))?
            }
            Content::Payloads(payloads) => payloads.description(),
            Content::Void => return None,
        };
        Some(Rts {
            channel,
            message: number,
            total: self.total(),
            tag: description.tag,
            kind: description.kind,
            user_header: description.user_header,
        })
    }

    /// Appends to `out` the frames of the positions from `filling.end` to `limit`, as far as the
    /// packet and the round have room, and counts them in `filling`.
    pub(super) fn put(
        &self,
        channel: ChannelId,
        frames: &FrameQueue,
        limit: u64,
        filling: &mut Filling,
        out: &mut Vec<u8>,
    ) {
        match &self.content {
            Content::Frames { at, shape } => {
                let from = filling.end.max(self.start);
                let left = limit.min(self.end()).saturating_sub(from) / self.each.max(1);
                let count = filling.fitting(left, self.each);
                if count > 0 {
                    let (bytes, at) = (count * self.each, at + (from - self.start));
                    frames.copy(at, at + bytes, out);
                    let payload = count * u64::from(shape.payload);
                    filling.take(from + bytes, to_usize(bytes), payload);
                }
            }
            Content::Payloads(payloads) => {
                self.put_payloads(payloads, channel, limit, filling, out);
            }
            Content::Void => self.put_void(channel, limit, filling, out),
        }
    }

    #[cold]
    fn put_void(&self, channel: ChannelId, limit: u64, filling: &mut Filling, out: &mut Vec<u8>) {
        for index in self.ended(filling.end)..self.ended(limit) {
            filling.full = filling.room < VOID_FRAME;
            if !filling.goes_on() {
                break;
            }
            let description = Start {
                total: 0,
                tag: 0,
                kind: Kind::VOID,
                user_header: &[],
            };
            let head = FragHead {
                channel,
                message: self.first.saturating_add(index),
                offset: 0,
                end: true,
                start: Some(description),
            };
            let len = out.len();
            head.put(out, 0, false);
            let bytes = out.len().saturating_sub(len);
            filling.take(self.position(index.saturating_add(1)), bytes, 0);
        }
    }

    /// As [`put`](Self::put), with messages whose bytes are the program's. A message that does not
    /// fit is cut.
    fn put_payloads(
        &self,
        payloads: &Payloads,
        channel: ChannelId,
        limit: u64,
        filling: &mut Filling,
        out: &mut Vec<u8>,
    ) {
        let total = payloads.total;
        let limit = limit.min(self.end());
        let mut at = filling.end.max(self.start);
        let mut index = self.ended(at);
        // The position of the message's first byte.
        let mut first = self.position(index);
        while at < limit && filling.goes_on() {
            let Some(payload) = payloads.get(to_usize(index)) else {
                debug_assert!(false, "a payload for each message");
                break;
            };
            let message = self.first + index;
            let (offset, until) = (at - first, total.min(limit - first));
            let mut head = FragHead {
                channel,
                message,
                offset,
                end: until == total,
                start: (offset == 0).then(|| payloads.description()),
            };
            let wanted = to_usize(until - offset);
            let size = head.size(wanted, false) + wanted;
            let (len, taken) = if size <= filling.room {
                (wanted, size)
            } else if let Some(len) = fit(&mut head, wanted, filling.room) {
                filling.closed = true;
                // The frame has no length, so its data must end where the packet does.
                let size = head.size(len, true) + len;
                let padding = filling.room.saturating_sub(size);
                if padding > 0 {
                    Frame::Padding(padding).put(out);
                }
                (len, filling.room)
            } else {
                filling.full = true;
                break;
            };
            head.put(out, len, filling.closed);
            let end = offset + len64(len);
            let span = match filling.resent {
                true => planted_shift(to_usize(offset)..to_usize(end), payload.len()),
                false => to_usize(offset)..to_usize(end),
            };
            if payload.len() <= COPIED {
                out.extend_from_slice(payload.get(span).unwrap_or_default());
            } else {
                filling.reference = Some((message, span));
            }
            if head.end {
                index += 1;
                first += self.each;
                at = first;
            } else {
                at = first + end;
            }
            filling.take(at, taken, len64(len));
        }
    }

    /// Returns the payload, if packets refer to it instead of copying it.
    pub(super) fn gathered(&self) -> Option<&Bytes> {
        match &self.content {
            Content::Payloads(payloads) if payloads.total > len64(COPIED) => Some(&payloads.first),
            _ => None,
        }
    }
}

/// Returns how many of the next `wanted` bytes of a message fit into `room` behind `head`. If they
/// are cut, `head` is no longer the message's end. None if fewer than [`MIN_PIECE`] fit.
fn fit(head: &mut FragHead<'_>, wanted: usize, room: usize) -> Option<usize> {
    if head.end && head.capacity(room)? >= wanted {
        return Some(wanted);
    }
    head.end = false;
    let len = head.capacity(room)?.min(wanted);
    let sliver = len < wanted.min(MIN_PIECE) || len == 0;
    (!sliver).then_some(len)
}

/// Returns `span`, or with the planted fault `retransmit-wrong-range` the bytes one further.
fn planted_shift(span: Range<usize>, len: usize) -> Range<usize> {
    if planted("retransmit-wrong-range") {
        return match span.end < len {
            true => span.start.saturating_add(1)..span.end.saturating_add(1),
            false if span.start > 0 => span.start.saturating_sub(1)..span.end.saturating_sub(1),
            false => span,
        };
    }
    span
}
