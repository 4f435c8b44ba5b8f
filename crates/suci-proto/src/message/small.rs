//! Small messages on their way out: frames side by side, as they will stand in a packet.
//!
//! A small message is written as a frame when it is accepted. That is its one copy before the
//! packet, its program has the payload back at once, and it allocates nothing. Filling a packet is
//! then copying a run of frames, whose heads need not be thought about again; sending one again is
//! copying one. With an entry that refers to the payload and a head written for each packet, as
//! long messages have it, all that around the bytes of a message of 32 was ten times as much work
//! as the bytes.

mod tail;

pub use tail::ChannelLease;
pub(super) use tail::Tail;

use super::spare::Spare;
use super::{Outgoing, charge, index, len64};
use crate::limits::MAX_USER_HEADER;
use crate::types::{ChannelId, Kind, MessageNumber};
use crate::wire::{self, Frame};
use bytes::Bytes;
use std::collections::VecDeque;

/// Longest payload that is copied when its message is accepted, and its program has back at once.
/// Longer ones stay the program's until acknowledged, and are copied into each packet or gathered
/// by reference (`COPIED` in `peer/build/data.rs`).
///
/// A frame of so many bytes, with any header, fits every packet that messages may ride on.
pub const SMALL: usize = 256;

/// Memory for frames that a channel without messages keeps, in bytes.
const OWN: usize = 1_024;

/// Bytes of the first memory that a channel gets. Doubled, they come to `OWN` and to `BLOCK`.
const FIRST: usize = 512;

/// Bytes of a block of frames. The last of them is never used, so that where a block's frames end
/// none of the next begins.
const BLOCK: usize = 16_384;

/// The longest head of a frame, its user header apart: type, five varints, and a byte each for kind
/// and length.
const HEAD: usize = 64;

/// Bytes of the frame of a void message, at most: type, channel, number, kind and length.
const VOID_FRAME: usize = 1 + 5 + 9 + 1 + 1;

const _: () = assert!(
    HEAD + MAX_USER_HEADER + SMALL < BLOCK,
    "a block has room for any frame"
);

/// The memory of a channel's frames.
pub(super) type SpareFrames = Spare<Vec<u8>, BLOCK>;

/// A message to be sent, whose bytes stay the caller's: they are copied if it is accepted.
#[derive(Clone, Copy, Debug)]
pub struct SmallOutgoing<'a> {
    /// The channel it goes on.
    pub channel: ChannelId,
    /// The program's tag.
    pub tag: u64,
    /// What it means to the program.
    pub kind: Kind,
    /// The program's header, at most [`crate::limits::MAX_USER_HEADER`] bytes (checked by the
    /// caller).
    pub user_header: &'a [u8],
    /// The bytes. At most [`SMALL`] where they are queued (checked by the caller).
    pub payload: &'a [u8],
    /// Whether the program wants to hear of its delivery.
    pub notify: bool,
    /// The program's own handle, returned in its [`Completion`](super::Completion).
    pub token: u64,
}

impl SmallOutgoing<'_> {
    /// The same with bytes of its own.
    #[must_use]
    pub fn to_outgoing(&self) -> Outgoing {
        Outgoing {
            channel: self.channel,
            tag: self.tag,
            kind: self.kind,
            user_header: Bytes::copy_from_slice(self.user_header),
            payload: Bytes::copy_from_slice(self.payload),
            notify: self.notify,
            token: self.token,
            deadline: None,
        }
    }
}

impl Outgoing {
    /// The message as a small one, if it is. One with a deadline is not: it keeps an entry of its
    /// own, so that its memory is free when it expires.
    #[must_use]
    pub fn as_small(&self) -> Option<SmallOutgoing<'_>> {
        (self.payload.len() <= SMALL && self.deadline.is_none()).then(|| SmallOutgoing {
            channel: self.channel,
            tag: self.tag,
            kind: self.kind,
            user_header: &self.user_header,
            payload: &self.payload,
            notify: self.notify,
            token: self.token,
        })
    }
}

/// Small messages until their numbers leave the channel's front: one, or a run of them side by side
/// that differ in nothing but number, tag, kind and bytes. Whether they were sent tells the
/// channel's cursor. Those that a packet carries are a run of their own, so that one word tells
/// what became of them.
#[derive(Clone, Debug)]
pub(super) struct Small {
    pub(super) token: u64,
    /// Where the first frame stands in the channel's [`FrameQueue`].
    at: u64,
    count: u32,
    /// Bytes of each frame, and what it holds of payload and header. 0 for void messages, whose
    /// frames are written when they are sent.
    frame: u16,
    payload: u16,
    header: u8,
    pub(super) notify: bool,
    /// The number of the first stands in the channel's list of what is owed again.
    pub(super) listed: bool,
    pub(super) fate: SmallState,
}

/// What is known of small messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SmallState {
    /// Nothing: it waits, or is under way.
    Open,
    /// To be sent again.
    Lost,
    /// The peer has it.
    Acked,
}

impl Small {
    /// So many consecutive void messages, in the place of cancelled ones whose frames, if they had
    /// any, end at `at`.
    pub(super) fn void(count: u32, at: u64) -> Self {
        Self {
            token: 0,
            at,
            count,
            frame: 0,
            payload: 0,
            header: 0,
            notify: false,
            listed: false,
            fate: SmallState::Open,
        }
    }

    /// Whether they were cancelled ([`Kind::VOID`]): they have their outcome, and keep nothing but
    /// their numbers until the peer acknowledged those.
    pub(super) fn is_void(&self) -> bool {
        self.frame == 0
    }

    /// Takes in the void messages that follow. False, and nothing done, if either are not void.
    pub(super) fn join_void(&mut self, next: &Self) -> bool {
        let count = self.count.checked_add(next.count);
        let Some(count) = count.filter(|_| self.is_void() && next.is_void()) else {
            return false;
        };
        (self.count, self.at) = (count, self.at.max(next.at));
        true
    }

    /// How many messages they are.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of each payload.
    pub(super) fn total(&self) -> u64 {
        self.payload.into()
    }

    /// Bytes of program data that they count in the queue.
    pub(super) fn held(&self) -> u64 {
        let each = u64::from(self.payload).saturating_add(self.header.into());
        each.saturating_mul(self.count.into())
    }

    /// What sending each is charged.
    pub(super) fn charge(&self) -> u64 {
        charge(self.payload.into(), self.header.into())
    }

    /// What asking for one first is charged.
    pub(super) fn request_charge(&self) -> u64 {
        charge(0, self.header.into())
    }

    /// Where the frames of the first `count` begin and end.
    pub(super) fn span(&self, count: u32) -> (u64, u64) {
        let bytes = u64::from(self.frame).saturating_mul(count.min(self.count).into());
        (self.at, self.at.saturating_add(bytes))
    }

    /// How many of them fit into `room` bytes, if the last may reach beyond the first `turn` of
    /// these, but none begin there.
    pub(super) fn fitting(&self, room: usize, turn: usize) -> u32 {
        let frame = match self.frame {
            0 => VOID_FRAME,
            bytes => usize::from(bytes),
        };
        let fitting = (room / frame).min(turn.div_ceil(frame));
        u32::try_from(fitting).map_or(self.count, |fitting| fitting.min(self.count))
    }

    /// Takes in the one that was accepted next, if it is like these and stands beside them.
    pub(super) fn join(&mut self, next: &Self) -> bool {
        let alike = self.frame == next.frame
            && self.payload == next.payload
            && self.header == next.header
            && self.token == next.token
            && self.notify == next.notify
            && self.span(self.count).1 == next.at;
        self.extend_if(|| alike)
    }

    /// Counts one more that stands behind them, if there is one. Not if they are too many to count.
    #[inline(always)]
    pub(super) fn extend_if(&mut self, is_there: impl FnOnce() -> bool) -> bool {
        let count = self.count.checked_add(1).filter(|_| is_there());
        self.count = count.unwrap_or(self.count);
        count.is_some()
    }

    /// Counts so many more that stand behind them. False, and nothing done, if they are too many to
    /// count.
    pub(super) fn extend_by(&mut self, count: u32) -> bool {
        let sum = self.count.checked_add(count);
        self.count = sum.unwrap_or(self.count);
        sum.is_some()
    }

    /// Takes the first `count` of them away, if there are more.
    pub(super) fn take_front(&mut self, count: u32) -> Option<Self> {
        let rest = self.count.checked_sub(count).filter(|rest| *rest > 0)?;
        let front = Self {
            count,
            ..self.clone()
        };
        (_, self.at) = self.span(count);
        self.count = rest;
        Some(front)
    }

    /// Keeps the first `count` of them. The others, if there are any.
    pub(super) fn split(&mut self, count: u32) -> Option<Self> {
        let rest = self.count.checked_sub(count).filter(|rest| *rest > 0)?;
        let (_, at) = self.span(count);
        self.count = count;
        Some(Self {
            at,
            count: rest,
            listed: false,
            ..*self
        })
    }
}

/// The frames of a channel's small messages, from the oldest that is not acknowledged on: one
/// behind the other, in blocks, none of which is left before it is full.
#[derive(Debug, Default)]
pub(super) struct FrameQueue {
    /// Blocks that take no more, the oldest first.
    full: VecDeque<Vec<u8>>,
    /// The block behind them, and the place where it begins: a multiple of [`BLOCK`], counted since
    /// the channel was opened.
    last: Tail,
    first: u64,
    /// Blocks whose frames are given up, for what comes while others are not.
    free: Vec<Vec<u8>>,
    /// Bytes of frames of messages that were cancelled since the last [compaction](Self::compact).
    dead: u64,
}

impl FrameQueue {
    /// Takes memory that another left, if it has none.
    #[inline]
    pub(super) fn borrow(&mut self, spare: &mut SpareFrames) {
        spare.lend(self.last.block());
    }

    /// Gives its memory back if nothing stands in it, and it is more than a channel keeps.
    #[inline]
    pub(super) fn give_back(&mut self, spare: &mut SpareFrames) {
        if self.last.len() == 0 && self.full.is_empty() {
            spare.collect(self.last.block(), OWN);
            if self.free.capacity() > 0 {
                (self.full, self.free) = Default::default();
            }
        }
    }

    /// Writes the frame of a message that gets this number. If it is like the one before, and more
    /// of a `row` may come, those will [`follow`](Self::follow).
    pub(super) fn push(
        &mut self,
        number: MessageNumber,
        message: &SmallOutgoing<'_>,
        row: bool,
    ) -> Small {
        let (payload, header) = (message.payload.len(), message.user_header.len());
        self.make_room(HEAD.saturating_add(header).saturating_add(payload));
        let (before, at) = (self.last.len(), self.end());
        self.last.write(number, message, row);
        Small {
            token: message.token,
            at,
            count: 1,
            frame: self.last.len().saturating_sub(before) as u16,
            payload: payload as u16,
            header: header as u8,
            notify: message.notify,
            listed: false,
            fate: SmallState::Open,
        }
    }

    /// These messages were cancelled: their frames will not be sent, and nothing follows them in a
    /// row.
    pub(super) fn cancel(&mut self, small: &Small) {
        let (start, end) = small.span(small.count);
        self.dead = self.dead.saturating_add(end.saturating_sub(start));
        self.last.end_row();
    }

    /// Whether frames of cancelled messages take half of the memory, and more than a block.
    fn is_sparse(&self) -> bool {
        let full = len64(self.full.len()).saturating_mul(len64(BLOCK));
        let all = self.end().saturating_sub(self.first.saturating_sub(full));
        self.dead > len64(BLOCK) && self.dead >= all / 2
    }

    /// Leaves the frames of cancelled messages behind, once they take much memory; `kept` are all
    /// others. Each byte is copied at most about once for each byte that was cancelled.
    pub(super) fn compact<'a>(&mut self, kept: impl Iterator<Item = &'a mut Small>) {
        if !self.is_sparse() {
            return;
        }
        let old = core::mem::take(self);
        for small in kept {
            let (start, end) = small.span(small.count);
            let frames = match small.is_void() {
                true => &[],
                false => old.get(start, end),
            };
            self.make_room(frames.len());
            small.at = self.end();
            self.last.append(frames);
        }
    }

    /// Where the next frame will stand, if the last block has room for it.
    fn end(&self) -> u64 {
        self.first.saturating_add(len64(self.last.len()))
    }

    /// Makes the last block one that has room for `more` bytes.
    fn make_room(&mut self, more: usize) {
        let block = self.last.block();
        let (len, capacity) = (block.len(), block.capacity());
        let needed = len.saturating_add(more);
        if needed >= BLOCK {
            let next = self.free.pop();
            let next = next.unwrap_or_else(|| Vec::with_capacity(BLOCK));
            self.full.push_back(self.last.replace(next));
            self.first = self.first.saturating_add(len64(BLOCK));
        } else if needed > capacity {
            let larger = capacity.saturating_mul(2).max(FIRST).max(needed).min(BLOCK);
            block.reserve_exact(larger.saturating_sub(len));
        }
    }

    /// Writes the frame of a message that is like the one before. False, and nothing done, if it is
    /// not, or there is no room behind that one.
    #[inline(always)]
    pub(super) fn follow(&mut self, number: MessageNumber, message: &SmallOutgoing<'_>) -> bool {
        self.last.follow(number, message)
    }

    /// Takes the end of the frames away, if more of a row may follow there: until it is put back,
    /// nothing is to be read or written here.
    pub(super) fn lend(&mut self) -> Option<Tail> {
        self.last.is_row().then(|| core::mem::take(&mut self.last))
    }

    /// Puts back what was lent.
    pub(super) fn put_back(&mut self, tail: Tail) {
        self.last = tail;
    }

    /// Copies the frames from `start` to `end`, which stand side by side, behind `out`.
    #[inline(never)]
    pub(super) fn copy(&self, start: u64, end: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.get(start, end));
    }

    #[inline]
    fn get(&self, start: u64, end: u64) -> &[u8] {
        let bytes = if start >= self.first {
            let range = index(start - self.first)..index(end.saturating_sub(self.first));
            self.last.get(range)
        } else {
            self.get_full(start, end)
        };
        debug_assert!(bytes.is_some(), "frames are kept until acknowledged");
        bytes.unwrap_or_default()
    }

    fn get_full(&self, start: u64, end: u64) -> Option<&[u8]> {
        let first = start - start % len64(BLOCK);
        let place = self.full.len().checked_sub(self.blocks_from(first))?;
        let range = index(start - first)..index(end.saturating_sub(first));
        self.full.get(place)?.get(range)
    }

    /// How many full blocks there are from the one on in which `place` lies.
    fn blocks_from(&self, place: u64) -> usize {
        let block = len64(BLOCK);
        index((self.first / block).saturating_sub(place / block))
    }

    /// Frames before `end`, where one ends, are not needed any more.
    pub(super) fn release(&mut self, end: u64) {
        if !self.full.is_empty() {
            let gone = self.full.len().saturating_sub(self.blocks_from(end));
            self.free.extend(self.full.drain(..gone).map(|mut block| {
                block.clear();
                block
            }));
        }
        if end == self.end() {
            // No place is given twice, whoever asks for it.
            self.last.clear();
            self.dead = 0;
            self.first = self.first.saturating_add(len64(BLOCK));
        }
    }

    /// The first of these messages, with bytes of its own.
    pub(super) fn read(&self, small: &Small) -> Option<Outgoing> {
        let (start, end) = small.span(1);
        let Some(Ok(Frame::Frag(frag))) = wire::frames(self.get(start, end)).next() else {
            return None;
        };
        let message = SmallOutgoing {
            channel: frag.channel,
            tag: frag.start?.tag,
            kind: frag.start?.kind,
            user_header: frag.start?.user_header,
            payload: frag.data,
            notify: small.notify,
            token: small.token,
        };
        Some(message.to_outgoing())
    }
}

#[cfg(test)]
impl FrameQueue {
    pub(super) fn held(&self) -> usize {
        self.full.iter().map(Vec::len).sum::<usize>() + self.last.len()
    }

    pub(super) fn footprint(&self) -> usize {
        let blocks = self.full.iter().chain(&self.free);
        let lists = (self.full.capacity() + self.free.capacity()) * size_of::<Vec<u8>>();
        blocks.map(Vec::capacity).sum::<usize>() + self.last.capacity() + lists
    }
}

#[cfg(test)]
mod tests;
