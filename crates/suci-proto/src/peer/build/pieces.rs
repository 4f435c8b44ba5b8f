//! Packets that follow a packet of messages in its train.
//!
//! A packet that carried messages and nothing else shows that no acknowledgement, credit or answer
//! was due. Nothing becomes due at the same `now`, so the next packets also carry messages only,
//! until one must carry a PING, skip a number, or pass a limit. [`Connected::permit_to_follow`]
//! counts these packets once.
//!
//! If the packet carried a piece of a large message, and no lost bytes wait, the channel keeps its
//! turn in the round robin until its quantum is used or the message ends. So the full packets up to
//! that end are built in one loop.
//!
//! The packets, and the state of the peer afterwards, are the same as if
//! [`Connected::build_packet`] had built each of them; a test compares both.

use super::{Contents, Newest, Permit};
use crate::engine::Shared;
use crate::peer::connected::Connected;
use suci_link::limits::MAX_DATAGRAM;
use suci_link::recovery::SentFrame;
use suci_link::time::Instant;
use suci_link::train::{Following, Train};
use suci_link::wire::{HEADER, PLAIN_OVERHEAD};

impl Connected<'_> {
    /// Returns the permit of the packet behind the `newest`, if that one carried only messages and
    /// this one may, too: it skips no number, need not carry a PING, and passes no limit.
    pub(super) fn permit_to_follow(&mut self, now: Instant, newest: Newest) -> Option<Permit> {
        let outbox = &mut self.session.outbox;
        if !newest.messages_only || !outbox.has_sendable() || outbox.has_blocked_channels() {
            return None;
        }
        let outranked = outbox.is_outranked();
        let connection = &mut *self.connection;
        if outranked != (connection.link.reserve > 0) || connection.link.pending.probes > 0 {
            return None;
        }
        let number = connection.link.numbers.peek()?;
        let size = newest.len as u64;
        let count = || {
            let paced = connection.link.rate(now, size).map_or(u64::MAX, |rate| {
                let budget = connection.link.pacer.budget(now, rate);
                budget.saturating_sub(connection.link.reserve) / size
            });
            let credit = connection.link.credit.data_allowance(number, now);
            paced
                .min(credit.saturating_sub(1))
                .min(connection.link.packets_before_ping(size))
                .min(self.cap.budget(now, size) / size)
                .min(connection.link.numbers.in_a_row())
        };
        let count = newest.more.unwrap_or_else(count);
        Some(Permit {
            number,
            size: newest.len,
            data: true,
            within_limit: true,
            more: Some(count.checked_sub(1)?),
        })
    }

    /// Adds full packets to `train`, up to `most` in all, with the next pieces of the message of
    /// which the newest packet carried a piece and nothing else. `permit` is that of the first of
    /// them. Returns how many more may follow, or `None` if none can be added.
    pub(super) fn build_pieces(
        &mut self,
        now: Instant,
        permit: Permit,
        most: usize,
        train: &mut Train,
        shared: &mut Shared,
    ) -> Option<u64> {
        let (size, may_follow) = (permit.size, permit.more?.saturating_add(1));
        let &[piece @ SentFrame::Data { start, end, .. }] = shared.frames.as_slice() else {
            return None;
        };
        let mut rest = self.session.outbox.rest_after(&piece)?;
        // A retransmitted piece may be shorter than its packet. Its frame then has a length field.
        let overhead = self.connection.link.overhead();
        let head = overhead + rest.head_at(start).size(0, true);
        if end.saturating_sub(start) != size.saturating_sub(head) as u64 {
            return None;
        }
        let room = most
            .min(MAX_DATAGRAM / size)
            .saturating_sub(train.segments());
        let most = usize::try_from(may_follow).unwrap_or(usize::MAX).min(room);
        let pieces = rest.cut(size.saturating_sub(overhead), most)?;
        let (number, count) = (permit.number, pieces.count);
        let header = match self.connection.link.sealing {
            None => PLAIN_OVERHEAD,
            Some(_) => HEADER,
        };
        let following = Following {
            number,
            offset: pieces.start,
            len: pieces.len,
            count,
            lead: header + rest.lead(),
        };
        if !train.follow(&following) {
            return None;
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
        Some(may_follow.saturating_sub(count as u64))
    }
}
