//! A run: the full packets of a long message, decided on together.
//!
//! A packet that carried a piece of a long message and nothing else shows that nothing else was due: no
//! acknowledgement, credit, answer or request, nothing owed again, no channel before this one. At the same moment that
//! still holds for the packets after it, until one would ask for an acknowledgement, skip a number, end the message or
//! its channel's turn, or pass a limit. So many are built here in one loop. They are byte for byte what
//! [`Peer::build_packet`] would make of them one by one, and so are the books afterwards; that is what the test compares.

use crate::engine::Shared;
use crate::limits::MAX_DATAGRAM;
use crate::message::Rest;
use crate::peer::{Connection, Peer};
use crate::recovery::{SentFrame, SentKind};
use crate::time::Instant;
use crate::transmit::{Following, Train};
use crate::types::PacketNumber;
use crate::wire::PLAIN_OVERHEAD;

impl Peer {
    /// Adds to `train`, which is to have at most `most` packets, as many packets of `size` bytes as can follow its newest
    /// in a run. False if none can.
    pub(super) fn build_run(
        &mut self,
        now: Instant,
        most: usize,
        size: usize,
        train: &mut Train,
        shared: &mut Shared,
    ) -> bool {
        #[cfg(test)]
        if shared.one_by_one {
            return false;
        }
        let Some(mut rest) = self.rest_after_newest(train, shared) else {
            return false;
        };
        let Some(connection) = &mut self.connection else {
            return false;
        };
        let Some(first) = connection.numbers.peek() else {
            return false;
        };
        let capped = self.cap.budget(now, size as u64) / size as u64;
        let allowed = connection
            .run_allowance(now, first, size as u64)
            .min(capped);
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

    /// What is left of a long message of which the newest packet carried a piece, if it carried nothing else.
    fn rest_after_newest(&mut self, train: &Train, shared: &Shared) -> Option<Rest> {
        let &[frame @ SentFrame::Part { start, .. }] = shared.frames.as_slice() else {
            return None;
        };
        let rest = self.session.outbox.rest_after(&frame)?;
        // Whatever else it carried would have made its head longer.
        let head = PLAIN_OVERHEAD + rest.head(start).size(0, true);
        (train.newest_head() == Some(head)).then_some(rest)
    }

    /// As `record` for each of `count` packets of a run, which carried equal pieces of the part that is all of `frames`.
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
            mtu_probe: false,
        };
        let recovery = &mut connection.recovery;
        recovery.on_run_sent(first, count, now, size, kind, frames);
        // What it notes of the last packet holds for those before.
        let last = first.saturating_add(count).saturating_sub(1);
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
    /// How many packets of `size` bytes may follow a packet of messages, from number `first` on, without a number skipped
    /// or an acknowledgement asked for.
    fn run_allowance(&mut self, now: Instant, first: PacketNumber, size: u64) -> u64 {
        if self.pending.probes > 0 {
            return 0;
        }
        let paced = self.rate(now, size).map_or(u64::MAX, |rate| {
            let budget = self.pacer.budget(now, rate);
            budget.saturating_sub(self.reserve) / size
        });
        let credit = self.credit.data_allowance(first, now).saturating_sub(1);
        let unasked = self.unasked_room(size) / size;
        paced.min(credit).min(unasked).min(self.numbers.in_a_row())
    }
}
