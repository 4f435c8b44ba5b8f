//! Packets that follow a packet of messages in its train.
//!
//! A packet that carried messages and nothing else shows that no acknowledgement, credit or answer
//! was due. At the same `now` that holds for the packets after it, too, until one must carry a
//! PING, skip a number, or pass a limit. [`Peer::may_follow`] counts them once.
//!
//! If the packet carried a piece of a large message, and no lost bytes wait, the channel keeps its
//! turn in the round robin until its quantum is used or the message ends. So the full packets up to
//! that end are built in one loop.
//!
//! The packets, and the state of the peer afterwards, are the same as if [`Peer::build_packet`] had
//! built each of them; a test compares both.

use super::{Contents, Newest, Permit};
use crate::engine::Shared;
use crate::limits::MAX_DATAGRAM;
use crate::peer::Peer;
use crate::recovery::SentFrame;
use crate::time::Instant;
use crate::transmit::{Following, Train};
use crate::wire::PLAIN_OVERHEAD;

impl Peer {
    /// Returns the number of packets that may follow the `newest` if they, too, carry only
    /// messages: none of them skips a number, must carry a PING, or passes a limit.
    pub(super) fn may_follow(&mut self, now: Instant, newest: &Newest) -> u64 {
        let outbox = &mut self.session.outbox;
        if !outbox.has_sendable() || outbox.has_blocked_channels() {
            return 0;
        }
        let outranked = outbox.is_outranked();
        let Some(connection) = &mut self.connection else {
            return 0;
        };
        if outranked != (connection.reserve > 0) || connection.pending.probes > 0 {
            return 0;
        }
        if let Some(more) = newest.more {
            return more;
        }
        let Some(first) = connection.numbers.peek() else {
            return 0;
        };
        let size = newest.len as u64;
        let paced = connection.rate(now, size).map_or(u64::MAX, |rate| {
            let budget = connection.pacer.budget(now, rate);
            budget.saturating_sub(connection.reserve) / size
        });
        let credit = connection.credit.data_allowance(first, now);
        let limits = [
            paced,
            credit.saturating_sub(1),
            connection.unasked_packets(size),
            self.cap.budget(now, size) / size,
            connection.numbers.in_a_row(),
        ];
        limits.into_iter().min().unwrap_or(0)
    }

    /// Returns the permit of the packet behind the `newest`, if it may follow.
    pub(super) fn permit_to_follow(&self, newest: &Newest) -> Option<Permit> {
        let left = newest.more?.checked_sub(1)?;
        Some(Permit {
            number: self.connection.as_ref()?.numbers.peek()?,
            size: newest.len,
            data: true,
            free: true,
            more: Some(left),
        })
    }

    /// Adds full packets to `train`, up to `most` in all, with the next pieces of the message of
    /// which the newest packet carried a piece and nothing else. Returns false if none can be
    /// added.
    pub(super) fn build_pieces(
        &mut self,
        now: Instant,
        newest: &mut Newest,
        most: usize,
        train: &mut Train,
        shared: &mut Shared,
    ) -> bool {
        let (size, more) = (newest.len, newest.more.unwrap_or(0));
        let &[piece @ SentFrame::Data { start, end, .. }] = shared.frames.as_slice() else {
            return false;
        };
        let Some(mut rest) = self.session.outbox.rest_after(&piece) else {
            return false;
        };
        // A retransmitted piece may be shorter than its packet. Its frame then has a length field.
        let head = PLAIN_OVERHEAD + rest.head_at(start).size(0, true);
        if end.saturating_sub(start) != size.saturating_sub(head) as u64 {
            return false;
        }
        let number = self.connection.as_ref().and_then(|c| c.numbers.peek());
        let room = most
            .min(MAX_DATAGRAM / size)
            .saturating_sub(train.segments());
        let most = usize::try_from(more).unwrap_or(usize::MAX).min(room);
        let pieces = rest.cut(size - PLAIN_OVERHEAD, most);
        let (Some(number), Some(pieces)) = (number, pieces) else {
            return false;
        };
        let count = pieces.count;
        let following = Following {
            number,
            offset: pieces.start,
            len: pieces.len,
            count,
            lead: PLAIN_OVERHEAD + rest.lead(),
        };
        if !train.follow(&following) {
            return false;
        }
        #[cfg(test)]
        {
            shared.built_together += count as u64;
        }
        self.session.outbox.on_cut(&rest);
        let numbers = number..=number.saturating_add(count as u64 - 1);
        let contents = Contents {
            eliciting: true,
            data: true,
            ..Contents::default()
        };
        let mut frames = core::mem::take(&mut shared.frames);
        frames.clear();
        frames.push(rest.sent(&pieces));
        self.record(now, numbers, size, contents, &frames, shared);
        shared.frames = frames;
        newest.more = Some(more.saturating_sub(count as u64));
        true
    }
}
