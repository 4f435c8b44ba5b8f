//! What follows a packet of messages in its train.
//!
//! A packet that carried messages and nothing else shows that nothing else was due: no
//! acknowledgement, credit or answer. At the same moment that still holds for the packets after it,
//! until one would ask for an acknowledgement, skip a number, or pass a limit. How many that are is
//! asked once.
//!
//! A run: if it carried a piece of a long message, then nothing is owed again and no channel comes
//! before this one, until the message or its channel's turn ends. So the full packets up to there
//! are built in one loop.
//!
//! Both are byte for byte what [`Peer::build_packet`] would make of them one by one, and so are the
//! books afterwards; that is what the test compares.

use super::{Newest, Permit};
use crate::engine::Shared;
use crate::limits::MAX_DATAGRAM;
use crate::peer::{Connection, Peer};
use crate::recovery::{SentFrame, SentKind};
use crate::time::Instant;
use crate::transmit::{Following, Train};
use crate::types::PacketNumber;
use crate::wire::PLAIN_OVERHEAD;

impl Peer {
    /// Adds to `train`, which is to have at most `most` packets, as many packets of `size` bytes as
    /// can follow its newest, which carried messages and nothing else, in a run. False if none can.
    pub(super) fn build_run(
        &mut self,
        now: Instant,
        most: usize,
        size: usize,
        train: &mut Train,
        shared: &mut Shared,
    ) -> bool {
        let &[piece @ SentFrame::Part { start, end, .. }] = shared.frames.as_slice() else {
            return false;
        };
        let Some(mut rest) = self.session.outbox.rest_after(&piece) else {
            return false;
        };
        // One that is sent again may be shorter than its packet has room for: then its head is
        // another.
        let head = PLAIN_OVERHEAD + rest.head(start).size(0, true);
        if end.saturating_sub(start) != size.saturating_sub(head) as u64 {
            return false;
        }
        let Some(connection) = &mut self.connection else {
            return false;
        };
        let Some(first) = connection.numbers.peek() else {
            return false;
        };
        let capped = self.cap.budget(now, size as u64);
        let allowed = connection.may_follow(now, first, size as u64, capped);
        let room = most
            .min(MAX_DATAGRAM / size)
            .saturating_sub(train.segments());
        let count = usize::try_from(allowed).unwrap_or(usize::MAX).min(room);
        let Some(pieces) = rest.cut(size - PLAIN_OVERHEAD, count) else {
            return false;
        };
        let run = Following {
            number: first,
            offset: pieces.start,
            len: pieces.len,
            count: pieces.count,
            lead: PLAIN_OVERHEAD + rest.lead(),
        };
        if !train.follow(&run) {
            return false;
        }
        let count = pieces.count as u64;
        #[cfg(test)]
        {
            shared.built_in_runs += count;
        }
        shared.frames.clear();
        shared.frames.push(rest.sent(&pieces));
        self.session.outbox.on_cut(&rest);
        self.record_run(now, first, count, size, &shared.frames);
        true
    }

    /// As [`Peer::permit`] would permit a packet behind the `newest`, which carried messages and
    /// nothing else. None if that must be asked.
    pub(super) fn permit_to_follow(&mut self, now: Instant, newest: &Newest) -> Option<Permit> {
        let outbox = &mut self.session.outbox;
        if !outbox.has_sendable() || outbox.has_blocked_channels() {
            return None;
        }
        let outranked = outbox.is_outranked();
        let connection = self.connection.as_mut()?;
        if outranked != (connection.reserve > 0) {
            return None;
        }
        let number = connection.numbers.peek()?;
        let Newest { len, more, .. } = *newest;
        let may_follow = || {
            let capped = self.cap.budget(now, len as u64);
            connection.may_follow(now, number, len as u64, capped)
        };
        let left = more.unwrap_or_else(may_follow).checked_sub(1)?;
        Some(Permit {
            number,
            size: len,
            data: true,
            free: true,
            follows: Some(left),
        })
    }

    /// As `record` for each of `count` packets of a run, which carried equal pieces of the part
    /// that is all of `frames`.
    fn record_run(
        &mut self,
        now: Instant,
        first: PacketNumber,
        count: u64,
        size: usize,
        frames: &[SentFrame],
    ) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let bytes = count.saturating_mul(size as u64);
        let kind = SentKind {
            eliciting: true,
            path_probe: false,
            control: false,
        };
        let recovery = &mut connection.recovery;
        let last = first.saturating_add(count).saturating_sub(1);
        recovery.on_sent(first..=last, now, size, kind, frames);
        // What it notes of the last packet holds for those before.
        connection.credit.on_sent(last, now, true);
        connection.numbers.advance_by(count);
        connection.traffic.packets_sent += count;
        connection.traffic.bytes_sent += bytes;
        let in_flight = connection.recovery.in_flight();
        connection.congestion.on_sent(now, bytes, in_flight);
        connection.pacer.consume(bytes);
        connection.unasked = connection.unasked.saturating_add(bytes);
        self.cap.consume(bytes);
    }
}

impl Connection {
    /// How many packets of `size` bytes may follow a packet of messages, from number `first` on,
    /// without a number skipped or an acknowledgement asked for, if the program's cap lets `capped`
    /// bytes go.
    fn may_follow(&mut self, now: Instant, first: PacketNumber, size: u64, capped: u64) -> u64 {
        if self.pending.probes > 0 {
            return 0;
        }
        let paced = self.rate(now, size).map_or(u64::MAX, |rate| {
            let budget = self.pacer.budget(now, rate);
            budget.saturating_sub(self.reserve) / size
        });
        let credit = self.credit.data_allowance(first, now).saturating_sub(1);
        let unasked = self.unasked_room(size) / size;
        let capped = capped / size;
        let limits = [paced, credit, unasked, capped, self.numbers.in_a_row()];
        limits.into_iter().min().unwrap_or(0)
    }
}
