//! Messages on their way into a packet, many at once: of small ones whole frames.

use super::{OutgoingChannel, Terms};
use crate::message::entry::Entry;
use crate::message::index;
use crate::message::small::SmallState;
use crate::recovery::SentFrame;
use crate::types::{Kind, MessageNumber};
use crate::wire::{FragHead, Start};

/// Messages that were put into a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// What the packet has to remember.
    pub sent: SentFrame,
    /// Bytes of their frames.
    pub bytes: usize,
    /// Bytes of their payloads.
    pub payload: u64,
    /// They were sent before.
    pub resent: bool,
    /// The packet has no room for what is next, nor for a part of it.
    pub full: bool,
    /// The last frame reaches to the packet's end: nothing may follow it.
    pub closed: bool,
    /// Memory credit taken for them.
    pub(in crate::message) charged: u64,
}

impl OutgoingChannel {
    /// Puts the messages that are next behind `out`, if they are small or of a chain: as many as
    /// `room` bytes, a turn of `turn` bytes and the credit allow, of small ones whole frames. None
    /// if the next one is neither, or may not go.
    pub(in crate::message) fn pack(
        &mut self,
        room: usize,
        turn: usize,
        terms: Terms,
        out: &mut Vec<u8>,
    ) -> Option<Packed> {
        if self.owed > 0 {
            return self.pack_lost(room, turn, out);
        }
        if let Some(Entry::Chain(_)) = self.queue.next() {
            return self.pack_chain(room, turn, terms, out);
        }
        let first = self.queue.cursor();
        let credit = self.room().min(terms.room_on(self.id));
        let (mut span, mut full) = (None, false);
        let (mut bytes, mut count, mut payload, mut charged) = (0_usize, 0_u32, 0_u64, 0_u64);
        while let Some(Entry::Small(run)) = self.queue.next()
            && run.total() <= terms.rts_threshold
        {
            let paid = (credit - charged) / run.charge();
            let fitting = run.fitting(room - bytes, turn.saturating_sub(bytes));
            let most = u32::try_from(paid).map_or(fitting, |paid| paid.min(fitting));
            if most == 0 {
                full = bytes < turn && paid > 0;
                break;
            }
            let each = u64::from(most);
            bytes += match run.is_void() {
                true => {
                    self.copy_frames(span.take(), out);
                    self.put_voids(self.queue.cursor(), most, out)
                }
                false => self.add_frames(run.span(most), &mut span, out),
            };
            charged += each * run.charge();
            payload += each * run.total();
            count += most;
            self.queue.advance(most);
        }
        if count == 0 {
            return None;
        }
        self.copy_frames(span, out);
        self.charged = self.queue.cursor();
        self.used = self.used.saturating_add(charged);
        let sent = SentFrame::Whole {
            channel: self.id,
            first,
            count,
        };
        self.move_cursor();
        Some(Packed {
            sent,
            bytes,
            payload,
            resent: false,
            full,
            closed: false,
            charged,
        })
    }

    /// Adds the frames from `start` to `end` to those of `span`, which are copied at once. Returns
    /// their bytes.
    #[inline(always)]
    fn add_frames(
        &self,
        (start, end): (u64, u64),
        span: &mut Option<(u64, u64)>,
        out: &mut Vec<u8>,
    ) -> usize {
        match span {
            Some((_, to)) if *to == start => *to = end,
            _ => {
                // Where one block ends and the next begins, or messages between were cancelled.
                self.copy_frames(span.replace((start, end)), out);
            }
        }
        index(end - start)
    }

    /// Copies frames that stand side by side, if there are any.
    #[inline(always)]
    fn copy_frames(&self, span: Option<(u64, u64)>, out: &mut Vec<u8>) {
        if let Some((start, end)) = span {
            self.frames.copy(start, end, out);
        }
    }

    /// As [`pack`](Self::pack), with those that were lost.
    fn pack_lost(&mut self, room: usize, turn: usize, out: &mut Vec<u8>) -> Option<Packed> {
        let number = self.first_owed()?;
        let run = match self.entry_mut(number)? {
            Entry::Small(run) => run,
            Entry::Chain(_) => return self.pack_chain_lost(number, room, turn, out),
            Entry::Long(_) => return None,
        };
        let count = run.fitting(room, turn);
        if count == 0 {
            return None;
        }
        run.fate = SmallState::Open;
        let (void, (start, end)) = (run.is_void(), run.span(count));
        let payload = u64::from(count).saturating_mul(run.total());
        let bytes = match void {
            true => self.put_voids(number, count, out),
            false => {
                self.frames.copy(start, end, out);
                index(end - start)
            }
        };
        self.unlist_front();
        match self.queue.divide(number, count) {
            Some(rest) => self.owe_first(rest),
            None => self.owed = self.owed.saturating_sub(1),
        }
        let sent = SentFrame::Whole {
            channel: self.id,
            first: number,
            count,
        };
        Some(Packed {
            sent,
            bytes,
            payload,
            resent: true,
            full: false,
            closed: false,
            charged: 0,
        })
    }

    /// Writes the frames of void messages, `count` from `first` on. Returns their bytes.
    #[cold]
    fn put_voids(&self, first: MessageNumber, count: u32, out: &mut Vec<u8>) -> usize {
        let before = out.len();
        for number in first..first.saturating_add(count.into()) {
            let head = FragHead {
                channel: self.id,
                message: number,
                offset: 0,
                end: true,
                start: Some(Start {
                    total: 0,
                    tag: 0,
                    kind: Kind::VOID,
                    user_header: &[],
                }),
            };
            head.put(out, 0, false);
        }
        out.len().saturating_sub(before)
    }

    /// The run that begins with `number`, and was divided from one that is sent again, is what goes
    /// next.
    fn owe_first(&mut self, number: MessageNumber) {
        if let Some(Entry::Small(rest)) = self.entry_mut(number) {
            rest.fate = SmallState::Lost;
            rest.listed = true;
            self.resend.push_front(number);
        }
    }
}
