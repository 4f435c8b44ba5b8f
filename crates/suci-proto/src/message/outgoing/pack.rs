//! Small messages on their way into a packet: whole frames, many at once.

use super::{Channel, Terms};
use crate::message::entry::Entry;
use crate::message::small::Fate;
use crate::recovery::SentFrame;

/// Small messages that were put into a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// What the packet has to remember.
    pub sent: SentFrame,
    /// Bytes of their frames.
    pub bytes: usize,
    /// Bytes of their payloads.
    pub payload: u64,
    /// They were sent before.
    pub resent: bool,
    /// Memory credit taken for them.
    pub(in crate::message) charged: u64,
}

impl Channel {
    /// Puts the small messages that are next behind `out`: whole frames, as many as `room` bytes, a turn of `turn`
    /// bytes and the credit allow. None if the next one is no small one, or may not go.
    pub(in crate::message) fn pack(
        &mut self,
        room: usize,
        turn: usize,
        terms: Terms,
        out: &mut Vec<u8>,
    ) -> Option<Run> {
        if self.owed > 0 {
            return self.pack_lost(room, out);
        }
        let first = self.cursor;
        let credit = self.room().min(terms.session_room);
        let (mut start, mut end) = (0, 0);
        let (mut bytes, mut count, mut payload, mut charged) = (0, 0_u32, 0_u64, 0_u64);
        for entry in self.entries.range(self.place(first)?..) {
            let Entry::Small(small) = entry else { break };
            let (filled, used) = (
                bytes + small.frame(),
                charged.saturating_add(small.charge()),
            );
            if filled > room
                || used > credit
                || bytes >= turn
                || small.total() > terms.rts_threshold
            {
                break;
            }
            if count == 0 {
                start = small.span().0;
            }
            (bytes, charged, end) = (filled, used, small.span().1);
            payload = payload.saturating_add(small.total());
            count = count.saturating_add(1);
        }
        if count == 0 {
            return None;
        }
        out.extend_from_slice(self.frames.get(start, end));
        self.cursor = first.saturating_add(count.into());
        self.charged = self.cursor;
        self.used = self.used.saturating_add(charged);
        let sent = SentFrame::Whole {
            channel: self.id,
            first,
            count,
        };
        self.move_cursor();
        Some(Run {
            sent,
            bytes,
            payload,
            resent: false,
            charged,
        })
    }

    /// As [`pack`](Self::pack), with one that was lost.
    fn pack_lost(&mut self, room: usize, out: &mut Vec<u8>) -> Option<Run> {
        let number = self.first_owed()?;
        let place = self.place(number)?;
        let Some(Entry::Small(small)) = self.entries.get_mut(place) else {
            return None;
        };
        if small.frame() > room {
            return None;
        }
        small.fate = Fate::Open;
        let (start, end) = small.span();
        let (bytes, payload) = (small.frame(), small.total());
        out.extend_from_slice(self.frames.get(start, end));
        self.owed = self.owed.saturating_sub(1);
        self.unlist_front();
        let sent = SentFrame::Whole {
            channel: self.id,
            first: number,
            count: 1,
        };
        Some(Run {
            sent,
            bytes,
            payload,
            resent: true,
            charged: 0,
        })
    }
}
